r"""Restricted problem of smooth losses: Newton's method over non-negative weights.

An atom is a vector of r coordinates, and the loss is a function of weighted sums of such vectors, of shape (C, r) for C
outputs. The coordinates are the values on the samples or, on blocks, packed entries of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS, ROUNDING
from qsdp._utils.tuning import GAIN, HALVINGS, MAX_STEPS, PATIENCE, ROUGH, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted._nonnegative import nonnegative_minimum
from qsdp.column_generation.restricted._quadratic import RestrictedSolution
from qsdp.losses import Curvature, DataFit

__all__ = [
    "Columns",
    "Evaluated",
    "SmoothProblem",
    "ValueLoss",
    "curvature_matrix",
    "sampling_chances",
    "solve_smooth",
]


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of a restricted problem: atoms in the coordinates of a loss.

    Attributes
    ----------
    vectors : ndarray of shape (k, r)
    outputs : ndarray of shape (k,)
        Output of each atom. If they ascend, products with the columns of an output need no copies.
    n_outputs : int
    block : ndarray of shape (k,), optional
        Block of each atom.
    images : ndarray of shape (k, s), optional
        What a loss has computed of the vectors, see `ValueLoss.hessian`.
    """

    vectors: FloatArray
    outputs: npt.NDArray[np.intp]
    n_outputs: int
    block: npt.NDArray[np.intp] | None = None
    images: FloatArray | None = None

    def __getitem__(self, rows: npt.NDArray[np.intp]) -> Columns:
        block = None if self.block is None else self.block[rows]
        images = None if self.images is None else self.images[rows]
        return Columns(self.vectors[rows], self.outputs[rows], self.n_outputs, block, images)

    @cached_property
    def groups(self) -> list[Any]:
        """Positions of the columns of each output."""
        return _groups(self.outputs, self.n_outputs)

    def combined(self, weights: FloatArray) -> FloatArray:
        """Compute the weighted sums (C, r) of the columns of each output."""
        used = np.flatnonzero(weights)
        columns = self
        # Selecting most columns takes longer than multiplying all of them.
        if 2 * len(used) <= len(weights):
            columns, weights = Columns(self.vectors[used], self.outputs[used], self.n_outputs), weights[used]
        weights = weights.astype(self.vectors.dtype, copy=False)
        sums = [weights[group] @ columns.vectors[group] for group in columns.groups]
        return np.array(sums, dtype=np.float64)

    def products(self, gradient: FloatArray) -> FloatArray:
        """Compute the inner product of every column with the row of its output, for rows (C, r)."""
        products = np.empty(len(self.vectors))
        for group, row in zip(self.groups, gradient.astype(self.vectors.dtype, copy=False), strict=True):
            products[group] = self.vectors[group] @ row
        return products


@dataclass(frozen=True, eq=False)
class Evaluated:
    r"""Loss and gradient at a network.

    Attributes
    ----------
    x : ndarray of shape (C, r)
        Coordinates of the network.
    loss : float
    gradient : ndarray of shape (C, r)
        Gradient of the loss with respect to x.
    prediction, nu : ndarray of shape (n, C) or None
        Predictions and minus the gradient with respect to them, if they were computed.
    curvature : Curvature or None
        Second derivatives with respect to the predictions, if they were computed.
    """

    x: FloatArray
    loss: float
    gradient: FloatArray
    prediction: FloatArray | None = None
    nu: FloatArray | None = None
    curvature: Curvature | None = None


class ValueLoss:
    """Smooth loss of the values of networks on the samples; base class of losses in other coordinates.

    Parameters
    ----------
    fit : DataFit
    coarse : bool, default=False
        Whether second derivatives of coupled outputs are in single precision at first, for a solve to a gap of
        `SMALL` or more. Other losses have few columns an output, and the squared loss is minimised in one exact step.
    """

    #: Number of steps for which second derivatives are used.
    steps_per_model = 1
    #: Whether gradients have the rounding errors of sums over many samples.
    inexact = False

    def __init__(self, fit: DataFit, *, coarse: bool = False) -> None:
        self._fit, self._quadratic = fit, fit.loss.quadratic
        self._precision: Any = np.float32 if coarse and fit.loss.coupled else np.float64

    def at(self, x: FloatArray) -> Evaluated:
        """Evaluate the loss at the coordinates of a network."""
        prediction = x.T
        value, gradient, curvature = self._fit.value_and_derivatives(prediction)
        return Evaluated(x, value, gradient.T, prediction, -gradient, curvature)

    def bound(self, point: Evaluated, largest: float) -> tuple[float, float]:
        r"""Bound the dual value of a multiple of minus the gradient, at most `largest`; return it and the multiple.

        Notes
        -----
        The dual value D is exact for :math:`\nu = -L'(x)`, :math:`D(\nu) = L(x) + \nu^T x`, and
        :math:`D(s\nu) \ge s D(\nu)`, since D is concave and not negative at zero. For the squared loss,
        :math:`D(s\nu) = s\,(D(\nu) + (1 - s) L(x))`.
        """
        assert point.prediction is not None
        assert point.nu is not None
        # Near the optimum, the best multiple is one or the largest feasible one.
        scale = min(1.0, largest)
        value = point.loss + float(np.vdot(point.nu, point.prediction))
        return scale * (value + (1.0 - scale) * point.loss if self._quadratic else value), scale

    def hessian(self, point: Evaluated, columns: Columns) -> FloatArray:
        """Compute the second derivatives (k, k), or an approximation, along columns."""
        assert point.curvature is not None
        outputs = columns.outputs if self._fit.loss.coupled else None
        return curvature_matrix(columns.vectors.T, point.curvature, outputs, self._precision)

    def refine(self) -> bool:
        """Make second derivatives more accurate; return whether that is possible."""
        changes = bool(self._precision != np.float64)
        self._precision = np.float64
        return changes

    def sharpen(self) -> bool:
        """Evaluate in double precision from now on; return whether that changes anything."""
        return False


class SmoothProblem(NamedTuple):
    r"""Problem of minimising :math:`L(\sum_j a_j f_j) + \sum_j c_j a_j` over :math:`a \ge 0`.

    Attributes
    ----------
    loss : ValueLoss
        L.
    columns : Columns
        :math:`f_j`.
    penalties : ndarray of shape (k,)
    """

    loss: ValueLoss
    columns: Columns
    penalties: FloatArray

    def minimise(
        self, weights: FloatArray, tol: float, point: Evaluated | None = None, lower: float | None = None
    ) -> tuple[FloatArray, Evaluated]:
        """Minimise to a relative gap `tol` from weights and the point there, if known; return both at the minimum.

        Stop also if steps no longer decrease the objective, if a time limit passes after a step, or if a step decreases
        it by little of its distance to the value `lower`.
        """
        a, model, age, idle = weights, None, 0, 0
        point = self.at(weights) if point is None else point
        for step in range(MAX_STEPS):
            slopes, value = self.slopes(point), self.total(a, point)
            bound, _ = self.loss.bound(point, self.multiple(slopes))
            if value - bound <= tol * value or (step and deadline.over()):
                break
            if model is None or age == self.loss.steps_per_model:
                # Weights of zero whose slope is positive stay zero in this step.
                chosen = np.flatnonzero((a > 0.0) | (slopes < 0.0))
                model, age = (chosen, self.loss.hessian(point, self.columns[chosen])), 0
            moved = self._step(model, a, point, slopes)
            if moved is None:
                if age == 0 and not self.loss.refine():
                    break
                model = None
                continue
            (a, point), age = moved, age + 1
            fall = value - self.total(a, point)
            # Where the objective no longer falls but for rounding, steps may still improve the dual vector.
            idle = idle + 1 if fall <= EPS * value else 0
            if idle > PATIENCE:
                if not self.loss.refine():
                    break
                model, idle = None, 0
            if lower is not None and fall < ROUGH * (value - lower):
                break
        return a, point

    def _step(
        self, model: tuple[npt.NDArray[np.intp], FloatArray], a: FloatArray, point: Evaluated, slopes: FloatArray
    ) -> tuple[FloatArray, Evaluated] | None:
        """Halve a step until the objective falls by enough; return weights and their point, or None if it does not."""
        chosen, H = model
        before = a[chosen]
        small = ROUNDING * float(self.penalties.min(initial=np.inf)) if self.loss.inexact else 0.0
        change = np.zeros_like(a)
        change[chosen] = nonnegative_minimum(H, slopes[chosen] - H @ before, before, small) - before
        slope = float(slopes @ change)
        if not slope < 0.0:
            return None
        length, value = 1.0, self.total(a, point)
        for _ in range(HALVINGS):
            moved = np.maximum(a + length * change, 0.0)
            reached = self.at(moved)
            if self.total(moved, reached) <= value + GAIN * length * slope + EPS * abs(value):
                return moved, reached
            length *= 0.5
        return None

    def at(self, weights: FloatArray) -> Evaluated:
        """Evaluate the loss at weights."""
        return self.loss.at(self.columns.combined(weights))

    def total(self, weights: FloatArray, point: Evaluated) -> float:
        """Return the objective of weights from the loss at their point."""
        return point.loss + float(self.penalties @ weights)

    def slopes(self, point: Evaluated) -> FloatArray:
        """Compute the derivatives of the objective with respect to the weights (reduced costs)."""
        return self.penalties + self.columns.products(point.gradient)

    def multiple(self, slopes: FloatArray) -> float:
        """Return the largest multiple, up to one, of minus the gradient that is feasible for all columns."""
        reached = np.maximum(self.penalties, self.penalties - slopes)
        # A tiny penalty may vanish in normalised units.
        ratios = np.divide(self.penalties, reached, out=np.ones_like(reached), where=reached > 0.0)
        return float(ratios.min(initial=1.0))


def solve_smooth(
    F: FloatArray,
    fit: DataFit,
    penalties: FloatArray,
    outputs: npt.NDArray[np.intp] | None,
    tol: float,
    start: FloatArray,
) -> RestrictedSolution:
    """Solve the problem of columns (n, k) that feed `outputs`, or a single output."""
    k, C = F.shape[1], fit.target.shape[1]
    columns = Columns(F.T, np.zeros(k, dtype=np.intp) if outputs is None else outputs, C)
    loss = ValueLoss(fit, coarse=tol >= SMALL)
    problem = SmoothProblem(loss, columns, penalties)
    weights, point = problem.minimise(start, tol)
    assert point.nu is not None
    nu = problem.multiple(problem.slopes(point)) * fit.project(point.nu)
    return RestrictedSolution(weights, nu, problem.total(weights, point), fit.dual_value(nu))


def curvature_matrix(
    F: FloatArray, curvature: Curvature, outputs: npt.NDArray[np.intp] | None, dtype: Any = np.float64
) -> FloatArray:
    """Compute F' W F with the curvature W of the loss, for columns F that feed `outputs`, or a single output.

    Products are of a precision; rounding errors of single precision are covered by a little more on the diagonal.
    """
    # One row for each column: rows of an output are scaled alike, without strides.
    rows = np.ascontiguousarray(F.T, dtype=dtype)
    diagonal, coupling = curvature.diagonal, curvature.coupling
    if outputs is None:
        rows = rows * np.sqrt(diagonal[:, 0]).astype(dtype)
        products = rows @ rows.T
    else:
        members = _groups(outputs, diagonal.shape[1])
        products = np.zeros((len(rows),) * 2, dtype=dtype)
        if coupling is not None:
            scaled = np.empty_like(rows)
            for feeding, factors in zip(members, coupling.T.astype(dtype), strict=True):
                scaled[feeding] = rows[feeding] * factors
            products = -(scaled @ scaled.T)
            # Blocks of an output are no differences of products, which would cancel where a class is nearly certain.
            diagonal = np.maximum(diagonal - coupling**2, 0.0)
        for feeding, factors in zip(members, np.sqrt(diagonal).T.astype(dtype), strict=True):
            block = rows[feeding] * factors
            products[(feeding, feeding) if isinstance(feeding, slice) else np.ix_(feeding, feeding)] = block @ block.T
    H: FloatArray = products.astype(np.float64, copy=False)
    if dtype != np.float64:
        H[np.diag_indices(len(H))] *= 1.0 + 8.0 * float(np.finfo(dtype).eps)
    return H


def _groups(outputs: npt.NDArray[np.intp], count: int) -> list[Any]:
    """Return the positions of each output: slices if outputs ascend."""
    if np.all(outputs[1:] >= outputs[:-1]):
        return [slice(*ends) for ends in pairwise(np.searchsorted(outputs, np.arange(count + 1)))]
    return [np.flatnonzero(outputs == k) for k in range(count)]


def sampling_chances(sizes: FloatArray, count: int) -> FloatArray:
    """Return the chances with which to draw about `count` samples in proportion to their sizes, at most one each."""
    if count >= len(sizes):
        return np.ones(len(sizes))
    # Samples of size zero keep a small chance, so that rounding of sizes cannot exclude any.
    raised = sizes + SMALL * (sizes.mean() or 1.0)
    ordered = np.sort(raised)[::-1]
    # With the k largest drawn for certain, the others share the remaining chances.
    rest = np.cumsum(ordered[::-1])[::-1]
    certain = int(np.argmax(ordered * (count - np.arange(len(ordered))) <= rest))
    chances: FloatArray = np.minimum(1.0, raised * ((count - certain) / rest[certain]))
    return chances
