"""Restricted problem on blocks with many samples, in packed entries of matrices instead of values on the samples."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.deadline import TimeOver
from qsdp._utils.numeric import HALF_DIGITS
from qsdp._utils.tuning import FAR, MANY_ROWS, MOST_SIDE, NEGLIGIBLE
from qsdp._utils.validation import FloatArray
from qsdp.column_generation.atoms import Atoms
from qsdp.column_generation.master import DualProof, Restricted, SharedSums
from qsdp.column_generation.restricted import Columns, Evaluated, SmoothProblem, curvature_matrix, sampling_chances
from qsdp.data_map import BLOCKS, SAMPLES
from qsdp.losses import PiecewiseQuadratic
from qsdp.relaxation.instance import Instance

__all__ = ["PackedMaster"]

#: Number of samples for second derivatives, as a multiple of the number of atoms, and steps for which they are reused.
#: Fewer samples cause more steps; more samples, slower ones.
_PER_ATOM, _KEPT = 3, 5

#: Relative accuracy of a solve from which on passes over the samples use double precision.
_DOUBLE = FAR * float(np.finfo(np.float32).eps)


class _SquaredLoss:
    r"""Squared loss of one output from sums over the samples: :math:`x^T G x - 2 h^T x + \sum_i w_i y_i^2`."""

    kept, inexact = 1, True

    def __init__(self, normal: Instance, matrix: FloatArray, products: FloatArray) -> None:
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

    def refine(self) -> bool:
        return False

    def sharpen(self) -> bool:
        """Evaluate in double precision from now on; return whether that changes anything."""
        return False

    def images(self, vectors: FloatArray) -> FloatArray:
        return 2.0 * (vectors @ self._matrix)

    def hessian(self, point: Evaluated, columns: Columns, images: FloatArray) -> FloatArray:
        return columns.vectors @ images.T


class _SampledLoss:
    """Smooth loss evaluated by passes over the samples, with second derivatives from a subset; see `SmoothLoss`.

    Samples are drawn in proportion to their curvature, since most of them have next to none once a network fits them.
    """

    kept, inexact = _KEPT, True

    def __init__(self, normal: Instance) -> None:
        self._map, self._fit = normal.map, normal.fit
        self._rng = np.random.default_rng(0)
        #: Minimum number of samples for second derivatives, and the number of the last ones.
        self._least, self._drawn = MANY_ROWS, 0
        # In single precision, squares of the rows must neither overflow nor vanish.
        limits = np.finfo(np.float32)
        moderate = float(limits.tiny) < self._map.largest_stored**2 < float(limits.max)
        self._dtype: Any = np.float32 if moderate else np.float64

    def at(self, x: FloatArray) -> Evaluated:
        prediction = self._map.values_of(x, self._dtype)
        nu = -self._fit.gradient(prediction)
        return Evaluated(x, self._fit.value(prediction), -self._map.sums(nu, self._dtype).T, prediction, nu)

    def sharpen(self) -> bool:
        changes = bool(self._dtype != np.float64)
        self._dtype = np.float64
        return changes

    def bound(self, point: Evaluated, largest: float) -> tuple[float, float]:
        assert point.nu is not None
        # Near the optimum, the best multiple is one or the largest feasible one.
        scale = min(1.0, largest)
        return self._fit.dual_value(scale * point.nu), scale

    def images(self, vectors: FloatArray) -> FloatArray:
        return np.zeros((len(vectors), 0))

    def refine(self) -> bool:
        self._least = max(self._least, 2 * self._drawn)
        return self._drawn < self._map.n_rows

    def hessian(self, point: Evaluated, columns: Columns, images: FloatArray) -> FloatArray:
        assert point.prediction is not None
        curvature = self._fit.curvature(point.prediction)
        chances = sampling_chances(curvature.traces(), max(self._least, _PER_ATOM * len(columns.vectors)))
        chosen = np.flatnonzero(self._rng.random(len(chances)) < chances)
        self._drawn = len(chances) if np.all(chances == 1.0) else len(chosen)
        roots = 1.0 / np.sqrt(chances[chosen, None])
        values = roots * self._map.take(chosen).values_in_blocks(columns.vectors, columns.block)
        return curvature_matrix(values, curvature.take(chosen), self._fit.coupled_outputs(columns.outputs))


class PackedMaster(Restricted):
    r"""Master problem in packed entries: an atom is a vector of P entries instead of its n values on the samples.

    Steps solve a quadratic model over non-negative weights. For the squared loss it is exact, and rounds need no pass
    over the samples. The dual vector is minus the gradient of the loss at a network, so it is represented by that
    network's packed entries; `lifted` computes it.

    Parameters
    ----------
    instance : Instance
        Instance of one output, or of all outputs that a loss couples.
    shared : SharedSums
        Gram matrix of all outputs of the problem.
    output : int, default=0
        Index of the instance's output among them.
    """

    #: Products are too large for one thread to be as fast as several.
    small = False

    def __init__(self, instance: Instance, shared: SharedSums, output: int = 0) -> None:
        super().__init__(instance)
        normal, units = self.normal, self.units
        self._loss: _SquaredLoss | _SampledLoss = _SampledLoss(normal)
        if normal.fit.quadratic:
            with suppress(TimeOver):
                gram = shared.gram(normal)
                self._loss = _SquaredLoss(normal, gram.matrix, gram.products[:, output] / units.prediction)
        self._vectors = np.zeros((0, instance.map.layout.n_entries))
        self._images = self._loss.images(self._vectors)
        #: Best dual value of a proof, in normalised units.
        self._best = 0.0
        #: Whether atoms were added since the last solve.
        self._grown = False
        self._own = self._dual = self._centre = self._loss.at(
            np.zeros((instance.target.shape[1], self._vectors.shape[1]))
        )
        self.objective = self._dual.loss * units.value

    @staticmethod
    def suits(instance: Instance) -> bool:
        """Whether this class suits an instance: blocks with more samples than packed entries, and a smooth loss."""
        data, loss = instance.map, instance.loss
        smooth = loss.inverse_curvature > 0.0 if isinstance(loss, PiecewiseQuadratic) else loss.has_curvature
        return data.offers >= {SAMPLES, BLOCKS} and data.n_rows > data.layout.n_entries and smooth

    def matrices(self) -> FloatArray:
        """Return the matrices of the dual vector."""
        return self.instance.map.layout.matrices(-self._dual.gradient * (self.units.value / self.units.weight))

    def _append(self, atoms: Atoms) -> None:
        vectors = self.instance.map.layout.products(atoms.U.astype(float), atoms.V.astype(float), atoms.block)
        vectors *= atoms.signs[:, None]
        self._vectors = np.vstack([self._vectors, vectors])
        self._images = np.vstack([self._images, self._loss.images(vectors)])
        self._grown = len(atoms) > 0

    def solve(self, tol: float) -> None:
        """Solve to a relative duality gap `tol`, or until steps decrease too little or a time limit passes."""
        if tol < _DOUBLE and self._loss.sharpen():
            self._own = self._loss.at(self._own.x)
        problem = self._problem()
        a, point = problem.minimise(self.weights, self._own, tol, self._best if self._grown else None)
        self._grown = False
        self.weights, self._own, self._dual = a, point, point
        self.objective = problem.total(a, point) * self.units.value

    def _problem(self) -> SmoothProblem:
        columns = Columns(self._vectors, self.atoms.outputs, self.atoms.block, len(self._dual.x))
        return SmoothProblem(self._loss, columns, self._images, np.full(len(self.atoms), self.normal.dual_radius))

    def centre_on(self, best: DualProof) -> None:
        """Set the stability centre of `pull` to the network of a proof."""
        self._centre = self._dual

    def _halfway(self) -> Evaluated:
        return self._loss.at(0.5 * (self._centre.x + self._dual.x))

    def proof(self, upper: float) -> DualProof:
        """Compute the best bound of multiples of the dual vector, which is represented by packed entries."""
        largest = self.instance.dual_radius / upper if upper > 0.0 else math.inf
        value, scale = self._loss.bound(self._dual, largest)
        self._best = max(self._best, value)
        return DualProof(max(0.0, value * self.units.value), self._dual.x, scale, 0.0)

    def agrees(self) -> bool:
        """Whether the loss from sums agrees with that from the samples, up to rounding."""
        exact = self.normal.fit.value(self.normal.map.values_of(self._own.x))
        return abs(exact - self._own.loss) <= HALF_DIGITS * exact

    def lifted(self, proof: DualProof) -> FloatArray:
        """Compute the unscaled dual vector (n, C) of a proof from the samples, in units of the instance."""
        nu = -self.normal.fit.gradient(self.normal.map.values_of(proof.nu))
        lifted: FloatArray = nu * (self.units.value / self.units.prediction)
        return lifted

    def prune(self) -> None:
        """Drop the atoms of largest reduced costs if there are too many."""
        if len(self.atoms) <= MOST_SIDE:
            return
        costs = np.where(self.weights > 0.0, -np.inf, self._problem().slopes(self._dual))
        rows = np.sort(np.argsort(costs)[: max(MOST_SIDE // 2, int(np.count_nonzero(self.weights)))])
        self.select(rows)

    def select(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep only the atoms with the given indices."""
        super().select(rows)
        self._vectors, self._images = self._vectors[rows], self._images[rows]

    def support(self, tol: float = NEGLIGIBLE) -> tuple[Atoms, FloatArray]:
        """Solve the restricted problem with few atoms, at most P per output; return them and their weights."""
        self.solve(tol)
        used, weights = self._sparse(self._vectors.T)
        few = weights > 0.0
        return self.atoms[used[few]], weights[few] * self.units.weight
