r"""Master problem on blocks with many samples, in packed entries of matrices instead of values on the samples."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.deadline import TimeOver
from qsdp._utils.numeric import HALF_DIGITS
from qsdp._utils.tuning import FAR, MANY_ROWS
from qsdp._utils.validation import FloatArray
from qsdp.column_generation._row_program import FeasibleDual, SharedSums
from qsdp.column_generation.restricted import (
    Columns,
    Evaluated,
    SmoothProblem,
    ValueLoss,
    curvature_matrix,
    sampling_chances,
)
from qsdp.data_map import BLOCKS, SAMPLES
from qsdp.pricing.atoms import Atoms
from qsdp.relaxation.instance import Instance, Units

__all__ = ["PackedProgram", "suits_packed"]

#: Number of samples for second derivatives, as a multiple of the number of atoms, and steps for which they are reused.
#: Fewer samples cause more steps; more samples, slower ones.
_PER_ATOM, _STEPS_PER_MODEL = 3, 5

#: Relative accuracy of a solve from which on passes over the samples use double precision.
_DOUBLE = FAR * float(np.finfo(np.float32).eps)


def suits_packed(instance: Instance) -> bool:
    """Whether an instance is solved in packed entries: blocks with more samples than entries, and a smooth loss."""
    data = instance.map
    return data.offers >= {SAMPLES, BLOCKS} and data.n_rows > data.layout.n_entries and instance.loss.has_curvature


class _SquaredLoss(ValueLoss):
    r"""Squared loss of one output from sums over the samples: :math:`x^T G x - 2 h^T x + \sum_i w_i y_i^2`."""

    inexact = True

    def __init__(self, normal: Instance, matrix: FloatArray, products: FloatArray) -> None:
        super().__init__(normal.fit)
        self._matrix, self._products = matrix, products
        self._zero = normal.fit.value_at_zero

    def at(self, x: FloatArray) -> Evaluated:
        image = self._matrix @ x[0]
        loss = self._zero - 2.0 * float(self._products @ x[0]) + float(x[0] @ image)
        return Evaluated(x, max(0.0, loss), 2.0 * (image - self._products)[None])

    def bound(self, point: Evaluated, largest: float) -> tuple[float, float]:
        product = self._zero - float(self._products @ point.x[0])
        scale = min(largest, max(0.0, product / point.loss)) if point.loss > 0.0 else 0.0
        return scale * (2.0 * product - scale * point.loss), scale

    def images(self, vectors: FloatArray) -> FloatArray:
        return 2.0 * (vectors @ self._matrix)

    def hessian(self, point: Evaluated, columns: Columns) -> FloatArray:
        assert columns.images is not None
        return columns.vectors @ columns.images.T


class _SampledLoss(ValueLoss):
    """Smooth loss evaluated by passes over the samples, with second derivatives from a subset; see `ValueLoss`.

    Samples are drawn in proportion to their curvature, since most of them have next to none once a network fits them.
    """

    steps_per_model, inexact = _STEPS_PER_MODEL, True

    def __init__(self, normal: Instance) -> None:
        super().__init__(normal.fit)
        self._map = normal.map
        self._rng = np.random.default_rng(0)
        #: Minimum number of samples for second derivatives, and the number of the last ones.
        self._smallest_sample, self._drawn = MANY_ROWS, 0
        # In single precision, squares of the rows must neither overflow nor vanish.
        limits = np.finfo(np.float32)
        moderate = float(limits.tiny) < self._map.largest_stored**2 < float(limits.max)
        self._dtype: Any = np.float32 if moderate else np.float64

    def at(self, x: FloatArray) -> Evaluated:
        prediction = self._map.values_of(x, self._dtype)
        nu = -self._fit.gradient(prediction)
        return Evaluated(x, self._fit.value(prediction), -self._map.sums(nu, self._dtype).T, prediction, nu)

    def bound(self, point: Evaluated, largest: float) -> tuple[float, float]:
        assert point.nu is not None
        # Passes over the samples take longer, and this bound is that of column generation, so it is the best one.
        scale = min(1.0, largest)
        return self._fit.dual_value(scale * self._fit.project(point.nu)), scale

    def images(self, vectors: FloatArray) -> FloatArray:
        return np.zeros((len(vectors), 0))

    def sharpen(self) -> bool:
        changes = bool(self._dtype != np.float64)
        self._dtype = np.float64
        return changes

    def refine(self) -> bool:
        self._smallest_sample = max(self._smallest_sample, 2 * self._drawn)
        return self._drawn < self._map.n_rows

    def hessian(self, point: Evaluated, columns: Columns) -> FloatArray:
        assert point.prediction is not None
        assert columns.block is not None
        curvature = self._fit.curvature(point.prediction)
        chances = sampling_chances(curvature.traces(), max(self._smallest_sample, _PER_ATOM * len(columns.vectors)))
        chosen = np.flatnonzero(self._rng.random(len(chances)) < chances)
        self._drawn = len(chances) if np.all(chances == 1.0) else len(chosen)
        roots = 1.0 / np.sqrt(chances[chosen, None])
        values = roots * self._map.take(chosen).values_in_blocks(columns.vectors, columns.block)
        return curvature_matrix(values, curvature.take(chosen), self._fit.coupled_outputs(columns.outputs))


class PackedProgram:
    r"""Master problem in packed entries: an atom is a vector of P entries instead of its n values on the samples.

    For the squared loss, rounds need no pass over the samples. Dual vectors are minus the gradients of the loss at
    networks, and represented by the loss there; `lifted` computes their numbers, for a proof before its scaling.
    Methods without a docstring do what those of `RowProgram` do.

    Parameters
    ----------
    instance, normal, units, shared, output
        See `RowProgram`.
    """

    #: Products are too large for one thread to be as fast as several.
    small = False

    def __init__(self, instance: Instance, normal: Instance, units: Units, shared: SharedSums, output: int) -> None:
        self._instance, self._normal, self._units = instance, normal, units
        self._loss: _SquaredLoss | _SampledLoss = _SampledLoss(normal)
        if normal.fit.quadratic:
            with suppress(TimeOver):
                gram = shared.gram(normal)
                self._loss = _SquaredLoss(normal, gram.matrix, gram.products[:, output] / units.prediction)
        self.columns = np.zeros((0, instance.map.layout.n_entries))
        self._images = self._loss.images(self.columns)
        #: Best dual value of a proof.
        self._best = 0.0
        #: Whether atoms were added since the last solve.
        self._grown = False
        #: The loss at the weights of the last solution.
        self._point = self._loss.at(np.zeros((instance.target.shape[1], self.columns.shape[1])))
        self.zero_dual = self._point

    def add(self, atoms: Atoms) -> None:
        vectors = atoms.vectors(self._instance.map.layout)
        self.columns = np.vstack([self.columns, vectors])
        self._images = np.vstack([self._images, self._loss.images(vectors)])
        self._grown = len(atoms) > 0

    def select(self, rows: npt.NDArray[np.intp]) -> None:
        self.columns, self._images = self.columns[rows], self._images[rows]

    def solve(
        self, atoms: Atoms, weights: FloatArray, objective: float, tol: float
    ) -> tuple[FloatArray, Evaluated, float]:
        if tol < _DOUBLE and self._loss.sharpen():
            self._point = self._loss.at(self._point.x)
        problem = self._problem(atoms)
        weights, self._point = problem.minimise(weights, tol, self._point, self._best if self._grown else None)
        self._grown = False
        return weights, self._point, problem.total(weights, self._point)

    def refit(self, atoms: Atoms, weights: FloatArray, tol: float) -> FloatArray:
        # Weights of Newton steps are accurate, and more steps would need second derivatives from more samples.
        return weights

    def objective(self, atoms: Atoms, weights: FloatArray) -> float:
        problem = self._problem(atoms)
        return problem.total(weights, problem.at(weights))

    def _problem(self, atoms: Atoms) -> SmoothProblem:
        columns = Columns(self.columns, atoms.outputs, len(self._point.x), atoms.block, self._images)
        return SmoothProblem(self._loss, columns, np.full(len(atoms), self._normal.dual_radius))

    def pull(self, dual: Evaluated) -> tuple[FloatArray, FloatArray]:
        layout, entries = self._instance.map.layout, -dual.gradient * (self._units.value / self._units.weight)
        return layout.matrices(entries), entries[:, layout.weight_entries]

    def feasible_dual(self, dual: Evaluated, upper: float) -> FeasibleDual:
        largest = self._instance.dual_radius / upper if upper > 0.0 else math.inf
        value, scale = self._loss.bound(dual, largest)
        self._best = max(self._best, value)
        return FeasibleDual(max(0.0, value * self._units.value), dual, scale, 0.0)

    def mean(self, dual: Evaluated, other: Evaluated) -> Evaluated:
        return self._loss.at(0.5 * (other.x + dual.x))

    def lifted(self, dual: Evaluated) -> FloatArray:
        nu = -self._normal.fit.gradient(self._normal.map.values_of(dual.x))
        lifted: FloatArray = nu * (self._units.value / self._units.prediction)
        return lifted

    def agrees(self) -> bool:
        """Whether the loss of the last solution is that on the samples, up to rounding."""
        exact = self._normal.fit.value(self._normal.map.values_of(self._point.x))
        return abs(exact - self._point.loss) <= HALF_DIGITS * exact
