"""The cross-entropy of several classes, whose outputs are coupled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import rel_entr, xlogy

from qsdp._utils.numeric import EPS, MARGIN, UNIT
from qsdp._utils.summary import first_few
from qsdp._utils.tuning import MAX_STEPS
from qsdp._utils.validation import FloatArray
from qsdp.exceptions import InvalidInputError
from qsdp.losses._logistic import LOGARITHM_ROUNDINGS, entropies, secant_slope, shrinkage
from qsdp.losses._loss import (
    CHECKED_ROUNDINGS,
    MIN_CURVATURE,
    ClassLoss,
    Curvature,
    Linearization,
    constant,
    weighted_sum,
)

__all__ = ["CrossEntropy"]


@dataclass(frozen=True)
class CrossEntropy(ClassLoss):
    r"""Cross-entropy :math:`\log \sum_k e^{t_k} - t_y` of the outputs t of a sample of class y.

    Targets are one-hot rows; predictions and duals have the same shape, (n, C). The conjugate is the negative entropy
    :math:`\sum_k p_k \log p_k` of :math:`p = u + y` on the probability simplex and infinite elsewhere.
    """

    name: ClassVar[str] = "cross_entropy"
    smooth: ClassVar[bool] = True
    bounded_dual: ClassVar[bool] = True
    coupled: ClassVar[bool] = True
    probabilistic: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        """Two, the largest 1-norm of a sample's gradient: the Lipschitz constant in the infinity norm."""
        return 2.0

    def values(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``log(sum_k exp t_ik) - t_i . y_i``, shape (n,)."""
        values: FloatArray = _log_of_sum(prediction) - np.sum(prediction * target, axis=1)
        return values

    def gradient(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return ``softmax(t) - y``."""
        gradient: FloatArray = _softmax(prediction) - target
        return gradient

    def values_and_derivatives(
        self, prediction: FloatArray, target: FloatArray
    ) -> tuple[FloatArray, FloatArray, Curvature]:
        """Return all from the same exponentials."""
        largest = prediction.max(axis=1, keepdims=True)
        powers = np.exp(prediction - largest)
        sums = powers.sum(axis=1, keepdims=True)
        values: FloatArray = (largest + np.log(sums))[:, 0] - np.sum(prediction * target, axis=1)
        p = powers / sums
        return values, p - target, Curvature(p, p)

    def conjugates(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return the negative entropy of ``p = u + y``, shape (n,); rows must sum to one up to rounding."""
        p = dual + target
        rounding = 8.0 * p.shape[1] * EPS
        inside = np.all(p >= -rounding, axis=1) & (np.abs(p.sum(axis=1) - 1.0) <= rounding)
        p = np.maximum(p, 0.0)
        return np.where(inside, np.sum(xlogy(p, p), axis=1), math.inf)

    def project_dual(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Move ``u + y`` to the nearest point of the simplex, row by row."""
        return _project_simplex(dual + target) - target

    def prox(self, point: FloatArray, target: FloatArray, step: float | FloatArray) -> FloatArray:
        r"""Solve :math:`t + \mathrm{step}\,(\mathrm{softmax}(t) - y) = \mathrm{point}`, row by row.

        Notes
        -----
        With q = point + step y, every :math:`t_k` solves :math:`t_k + e^{t_k + \lambda} = q_k`, where
        :math:`\lambda = \log \mathrm{step} - \log \sum e^{t}`. So
        :math:`t_k = q_k - \omega(q_k + \lambda)` with Wright's omega function, and the omegas sum to step.
        Their sum is increasing and convex in :math:`\lambda` (:math:`\omega' = \omega / (1 + \omega)`), so
        Newton's method descends to the root from any point above it.
        """
        from scipy.special import wrightomega

        q = point + step * target
        # Here omega equals step for the largest entry, so the sum is at least step and the root is not above.
        shift = step + np.log(np.asarray(step)) - q.max(axis=1, keepdims=True)
        omega = wrightomega(q + shift)
        for _ in range(MAX_STEPS):
            excess = omega.sum(axis=1, keepdims=True) - step
            shift = shift - excess / (omega / (1.0 + omega)).sum(axis=1, keepdims=True)
            omega = wrightomega(q + shift)
            if np.all(excess <= 64.0 * EPS * step):
                break
        solution: FloatArray = q - omega * (step / omega.sum(axis=1, keepdims=True))
        return solution

    def expression(self, prediction: Any, target: FloatArray, weight: float | FloatArray = 1.0) -> Any:
        """Return the sum of CVXPY's ``log_sum_exp`` atoms minus the outputs of the true classes."""
        import cvxpy as cp

        values = cp.log_sum_exp(prediction, axis=1) - cp.sum(cp.multiply(prediction, constant(target, "y")), axis=1)
        return weighted_sum(values, 1.0 if np.isscalar(weight) else np.ravel(weight))

    def conjugate_expression(self, dual: Any, target: FloatArray, weight: FloatArray) -> Any:
        """Return minus the weighted entropy of ``p = y + u / w``, whose rows add up to one."""
        import cvxpy as cp

        p = cp.multiply(1.0 / weight, dual) + target
        # Bounds of the entropies stay finite where a solver leaves p outside the domain by a rounding error.
        entropy = cp.Variable(target.shape)
        domain = [entropy <= cp.entr(p), cp.sum(dual, axis=1) == 0]
        return -cp.sum(cp.multiply(weight, entropy)), domain

    def curvature(self, prediction: FloatArray, target: FloatArray) -> Curvature:
        r"""Return :math:`\mathrm{Diag}(p) - p p^T` with the probabilities p."""
        p: FloatArray = _softmax(prediction)
        return Curvature(p, p)

    def curvature_fraction(self, reach: float) -> float:
        """Return `shrinkage` at twice the reach, since differences of two outputs change by at most that much."""
        return shrinkage(2.0 * reach)

    def linearize(self, prediction: FloatArray, multiplier: FloatArray, target: FloatArray) -> Linearization:
        """Linearise the relation up to a constant per sample, with the compliance 1 / p of a multinomial."""
        p = _softmax(prediction)
        moved = target - multiplier
        inside = np.maximum(moved, 0.0)
        inside /= inside.sum(axis=1, keepdims=True)
        distance = float(rel_entr(inside, np.maximum(p, MIN_CURVATURE)).sum())
        return Linearization(target - p, secant_slope(moved, p), distance)

    def verified_multiplier(
        self, multiplier: FloatArray, target: FloatArray, weight: FloatArray | None = None
    ) -> FloatArray:
        """Make the entry for a sample's class minus the sum of the others, up to rounding.

        The entries for the other classes are at most 0, and their sum is no less than minus the weight.
        """
        w = np.ones((len(target), 1)) if weight is None else weight
        inside = -w * self.project_dual(-multiplier / w, target)
        others = np.where(target == 1.0, 0.0, np.minimum(inside, 0.0))
        # Rounding may have left the sum of the others above the weight; the sign of `own` is correct. The new
        # entries round five times, so eight roundoffs are subtracted.
        of_class = np.array([math.fsum([float(total), *row]) for total, row in zip(w[:, 0], others, strict=True)])
        excess = w[:, 0] - np.minimum(of_class, 0.0)
        others *= np.where(of_class < 0.0, (1.0 - 4.0 * EPS) * w[:, 0] / excess, 1.0)[:, None]
        return np.where(target == 1.0, -np.array([math.fsum(row) for row in others])[:, None], others)

    def verified_values(
        self, multiplier: FloatArray, target: FloatArray, weight: FloatArray | None = None
    ) -> tuple[FloatArray, int, float] | None:
        r"""Return the entropies of p, with the entry of each sample's class replaced by minus the sum of the others.

        Notes
        -----
        If :math:`w p_k \ge 0` for the other classes and the entry of the sample's class, w minus their sum, is not
        negative, then p is in the simplex. That entry is a correctly rounded sum, so its sign is right. With weights, a
        division rounds every entry once more. As :math:`|p\, (\log p + 1)| \le 1` on [0, 1], a relative error
        :math:`\delta` of p changes its entropy by :math:`\delta` at most: by w times u (with weights 2 u) for the entry
        of the class, and by w times 0 (with weights u) for each of the others. The slack is far more, what the
        stand-alone checker allows.
        """
        w = np.ones((len(target), 1)) if weight is None else weight
        in_class = target == 1.0
        p = np.where(in_class, 0.0, -multiplier)
        p_of_class = np.array([math.fsum([float(total), *(-row)]) for total, row in zip(w[:, 0], p, strict=True)])
        if not (np.all(p >= 0.0) and np.all(p_of_class >= 0.0)):
            return None
        p = np.where(in_class, p_of_class[:, None], p)
        checked = CHECKED_ROUNDINGS + 4 * p.shape[1]
        slack = checked * UNIT * p.shape[1] * float(w.sum())
        return w * entropies(p / w), max(LOGARITHM_ROUNDINGS + 1, checked), slack

    def row_defects(self, multiplier: FloatArray) -> FloatArray:
        r"""Bound the deviation of :math:`\nu`, and of any rounded multiple, from an exactly feasible vector.

        In that vector, the entry for a sample's class is minus the sum of the others, so that p = u + y sums to one
        exactly. The bound is for the multiple 1; it is smaller for smaller multiples. It exceeds the rounding of the
        sum by as much as the stand-alone checker allows.
        """
        sums = np.array([abs(math.fsum(row)) for row in multiplier])
        rounding = EPS * (multiplier.shape[1] + 2) * np.abs(multiplier).sum(axis=1)
        defects: FloatArray = MARGIN * (sums + rounding)
        return defects

    def encode_target(self, target: FloatArray) -> FloatArray:
        """Return one-hot rows for class numbers 0 .. C - 1 of shape (n,); one-hot rows are unchanged."""
        if target.ndim == 2:
            return target
        classes = np.unique(target)
        if not np.array_equal(classes, np.arange(len(classes))):
            shown = first_few([f"{value:g}" for value in classes])
            raise InvalidInputError(
                "y must hold class numbers 0, 1, ..., C - 1, each of them present, or one-hot rows of shape "
                f"(n, C), for the cross_entropy loss; found {shown}"
            )
        one_hot: FloatArray = np.eye(len(classes))[target.astype(np.intp)]
        return one_hot

    def check_target(self, target: FloatArray) -> None:
        """Raise `InvalidInputError` unless rows are one-hot, with at least two classes, each present."""
        if not np.all((target == 0) | (target == 1)) or not np.all(target.sum(axis=1) == 1):
            raise InvalidInputError(
                "y must have one-hot rows (one 1, the rest 0) of shape (n, C) for the cross_entropy loss, "
                "or class numbers of shape (n,)"
            )
        if target.shape[1] < 2:
            raise InvalidInputError("y must have two classes or more for the cross_entropy loss; got one")
        if not np.all(target.any(axis=0)):
            absent = np.flatnonzero(~target.any(axis=0)).tolist()
            raise InvalidInputError(f"y must hold every class at least once; missing: {absent}")


def _log_of_sum(prediction: FloatArray) -> FloatArray:
    """Return ``log(sum_k exp t_ik)``, shape (n,), in a tenth of the time that SciPy takes for few samples."""
    largest = prediction.max(axis=1)
    logarithms: FloatArray = largest + np.log(np.exp(prediction - largest[:, None]).sum(axis=1))
    return logarithms


def _softmax(prediction: FloatArray) -> FloatArray:
    powers = np.exp(prediction - prediction.max(axis=1, keepdims=True))
    probabilities: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def _project_simplex(points: FloatArray) -> FloatArray:
    """Project each row onto the probability simplex."""
    sums = points.sum(axis=1, keepdims=True)
    if points.min(initial=0.0) >= 0.0 and np.abs(sums - 1.0).max(initial=0.0) <= 8.0 * points.shape[1] * EPS:
        # Probabilities, as minus gradients are, need no sorting.
        inside: FloatArray = points / sums
        return inside
    # A constant added to a row does not change the result, but a huge constant would leave no digits for differences.
    points = points - points.max(axis=1, keepdims=True)
    descending = -np.sort(-points, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, points.shape[1] + 1)
    last = np.sum(descending > excess, axis=1, keepdims=True) - 1
    projected: FloatArray = np.maximum(points - np.take_along_axis(excess, last, axis=1), 0.0)
    # Rows far from the simplex lose digits in the subtraction; the division restores a sum of one.
    on_simplex: FloatArray = projected / projected.sum(axis=1, keepdims=True)
    return on_simplex
