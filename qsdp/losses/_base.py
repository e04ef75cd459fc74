"""The interface of a loss."""

from __future__ import annotations

import abc
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsdp._utils.validation import FloatArray, check_real
from qsdp.exceptions import InvalidInputError

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["ClassLoss", "Curvature", "Linearization", "Loss"]

_LABELS_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Curvature:
    r"""Second derivatives of a loss: Diag(h) per sample, less :math:`w\,p p^T` where the outputs are coupled.

    Attributes
    ----------
    diagonal : ndarray in the shape of the predictions
        h.
    coupling : ndarray of shape (n, C) or None
        :math:`\sqrt{w}\,p`, of a loss with sample weights w.
    """

    diagonal: FloatArray
    coupling: FloatArray | None = None

    def times(self, change: FloatArray) -> FloatArray:
        """Return the change of the gradient for a change of the predictions."""
        product = self.diagonal * change
        if self.coupling is not None:
            product -= self.coupling * np.sum(self.coupling * change, axis=1, keepdims=True)
        return product


@dataclass(frozen=True, eq=False)
class Linearization:
    r"""The relation of multiplier and prediction, :math:`\nu = -\ell'(v)`, linearised at both.

    A Newton step obeys :math:`dv + C\, d\nu = -e` with :math:`e = C (\nu - \nu_v)`.

    Attributes
    ----------
    multiplier : ndarray
        :math:`\nu_v = -\ell'(v)` of the predictions.
    compliance : ndarray
        C, positive: :math:`1 / \ell''(v)`, or the slope of a secant.
    distance : float
        Fenchel and Young's gap :math:`\ell(v) + \ell^*(-\nu) + \nu^T v`, zero where the relation holds.
    """

    multiplier: FloatArray
    compliance: FloatArray
    distance: float


class Loss(abc.ABC):
    r"""A convex loss of one sample, bounded below by zero; instances are immutable and compare by value.

    Arrays are not checked: predictions, duals and targets are float64 arrays of one shape, (n,) or (n, C), and
    methods work entry by entry unless the outputs are coupled. Sums over the samples, and sample weights, are the
    business of `DataFit`.

    A method declares the attributes that it needs of a loss. `values`, `gradient`, `conjugates`, `project_dual`,
    `prox`, `expression` and `rescaled` make certificates, operator splitting, conic solvers, sampling and polishing
    work. A `PiecewiseQuadratic` loss has everything. Other losses add `curvature` (low-rank and interior-point
    solvers, second layers) and `guarded_values` (verified bounds).

    Attributes
    ----------
    name : str
        In messages and files.
    labels : bool
        True if targets are the labels -1 and +1.
    smooth : bool
        True if the loss is differentiable in the prediction everywhere.
    bounded_dual : bool
        True if the conjugate's domain is bounded, that is, if `lipschitz` is finite.
    coupled : bool
        True if the outputs of one sample enter together, so that targets have the shape (n, C).
    quadratic : bool
        True for :math:`(t - y)^2` alone: the data then enter by their Gram matrix.
    probabilistic : bool
        True if outputs are log odds, so that a classifier has probabilities.
    cones : frozenset of str
        What a conic solver needs besides linear inequalities: "quadratic", "exponential" or nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.losses import get_loss
    >>> loss = get_loss("squared")
    >>> loss.value(np.array([1.0, 2.0]), np.array([0.0, 4.0]))
    5.0
    """

    name: ClassVar[str]
    labels: ClassVar[bool] = False
    smooth: ClassVar[bool]
    bounded_dual: ClassVar[bool]
    cones: ClassVar[frozenset[str]]
    coupled: ClassVar[bool] = False
    quadratic: ClassVar[bool] = False
    probabilistic: ClassVar[bool] = False

    # -- value, conjugate and their minimisers ------------------------------------------------------------

    @property
    @abc.abstractmethod
    def lipschitz(self) -> float:
        """Least Lipschitz constant of the scalar loss in its prediction; ``math.inf`` if there is none."""

    @abc.abstractmethod
    def values(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return the loss of every entry; of every sample, shape (n,), where the outputs are coupled."""

    @abc.abstractmethod
    def gradient(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return the derivative in every prediction; at a kink, the subgradient zero."""

    @abc.abstractmethod
    def conjugates(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        r"""Return :math:`\sup_t (u t - \ell(t, y))` in the shape of `values`.

        The domain is tested without any tolerance: an entry is ``math.inf`` one rounding error outside it, so apply
        `project_dual` first to a dual that was computed.
        """

    @abc.abstractmethod
    def project_dual(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return the point of the conjugate's domain that is nearest to `dual`."""

    @abc.abstractmethod
    def prox(self, point: FloatArray, target: FloatArray, step: float | FloatArray) -> FloatArray:
        """Return ``argmin_t step * loss(t, target) + (t - point)^2 / 2``, for steps > 0 that broadcast."""

    @abc.abstractmethod
    def expression(self, prediction: cp.Expression, target: FloatArray, weight: float | FloatArray = 1.0) -> Any:
        """Return the weighted sum of `values` as a convex CVXPY expression, for weights that broadcast."""

    @abc.abstractmethod
    def rescaled(self, scale: float) -> tuple[Loss, float]:
        """Return ``(other, factor)`` with ``loss(scale t, scale y) = factor * other(t, y)``.

        The scale is positive, and 1 for label losses: labels name classes and are never scaled.
        """

    def value(self, prediction: FloatArray, target: FloatArray) -> float:
        """Return the sum of `values`."""
        return float(np.sum(self.values(prediction, target)))

    def conjugate(self, dual: FloatArray, target: FloatArray) -> float:
        """Return the sum of `conjugates`."""
        return float(np.sum(self.conjugates(dual, target)))

    # -- second order ---------------------------------------------------------------------------------------

    @property
    def has_curvature(self) -> bool:
        """True if the loss has a second derivative almost everywhere that is not zero: `curvature` is defined."""
        return type(self).curvature is not Loss.curvature

    def curvature(self, prediction: FloatArray, target: FloatArray) -> Curvature:
        """Return the second derivatives, where they jump those of one side."""
        raise NotImplementedError

    def linearize(self, prediction: FloatArray, multiplier: FloatArray, target: FloatArray) -> Linearization:
        r"""Return the relation of a multiplier near :math:`-\ell'` to the predictions, for interior-point methods."""
        slopes = -self.gradient(prediction, target)
        second = np.maximum(self.curvature(prediction, target).diagonal, LEAST_CURVATURE)
        inside = -self.project_dual(-multiplier, target)
        gap = self.value(prediction, target) + self.conjugate(-inside, target) + float(np.vdot(inside, prediction))
        return Linearization(slopes, 1.0 / second, max(0.0, gap))

    def typical_curvature(self, prediction: FloatArray, target: FloatArray, step: float) -> FloatArray:
        """Return the curvature that a step of that size meets: differences of the gradient."""
        s = max(step, 1e-7 * (1.0 + float(np.abs(prediction).max())))
        change = self.gradient(prediction + s, target) - self.gradient(prediction - s, target)
        return change / (2.0 * s)

    def curvature_share(self, reach: float) -> float:
        """Return the share of the curvature that is left anywhere within `reach` of every prediction, at least."""
        return 0.0

    def curvature_floor(self, prediction: FloatArray, target: FloatArray, reach: float) -> FloatArray:
        r"""Return w with :math:`\ell(t + s) \ge \ell(t) + s\,\ell'(t) + w s^2 / 2` for all :math:`|s| \le` `reach`."""
        share = self.curvature_share(reach)
        return share * self.curvature(prediction, target).diagonal if share > 0.0 else np.zeros_like(prediction)

    # -- verified arithmetic ----------------------------------------------------------------------------------

    @property
    def has_guarded_values(self) -> bool:
        """True if `guarded_values` is defined, so that bounds can be verified against rounding."""
        return type(self).guarded_values is not Loss.guarded_values

    def admissible(self, multiplier: FloatArray, target: FloatArray, weight: FloatArray | None = None) -> FloatArray:
        r"""Return a multiplier near the given one, :math:`-\nu / w` in the conjugate's domain for these very floats.

        Notes
        -----
        Of uncoupled outputs, whose domain is an interval that holds zero. A quotient is kept where the next float away
        from zero is in the domain: the true one is no farther. Others become w times the nearest point, rounded
        towards zero, since a product's next float towards zero does not exceed the true product.
        """
        if weight is None:
            return -self.project_dual(-multiplier, target)
        unit = -multiplier / weight
        inside = self.project_dual(unit, target)
        farther = np.nextafter(unit, np.copysign(np.inf, unit))
        kept = self.project_dual(farther, target) == farther
        return np.where(kept, multiplier, np.nextafter(-weight * inside, 0.0))

    def guarded_values(
        self, multiplier: FloatArray, target: FloatArray, weight: FloatArray | None = None
    ) -> tuple[FloatArray, int, float] | None:
        r"""Return terms whose sum is :math:`-\sum_i w_i \ell^*(-\nu_i / w_i)`, and the errors they may have.

        Only sums, products, quotients and roots are used: errors of mathematical libraries are proven by nobody.

        Returns
        -------
        terms : ndarray
            Of any shape.
        roundings : int
            Relative error of every term, in units of the roundoff.
        slack : float
            Absolute error of their sum beyond that.

        None outside the domain, which is tested exactly.
        """
        raise NotImplementedError

    def row_defects(self, multiplier: FloatArray) -> FloatArray:
        """Return by how much the entries of every sample may miss the vector meant, see `CrossEntropy`: zero."""
        return np.zeros(len(multiplier))

    # -- targets, units, files --------------------------------------------------------------------------------

    def parameters(self) -> dict[str, float]:
        """Return the numbers that with `name` make the loss again, as files hold them."""
        return {field.name: float(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    def encode_target(self, target: FloatArray) -> FloatArray:
        """Return the targets as the other methods expect them, from what a user passes as ``y``."""
        return target

    def check_target(self, target: FloatArray) -> None:
        """Raise `InvalidInputError` unless a label loss's targets are -1 and +1, with both present."""
        if not self.labels:
            return
        columns = target.T if target.ndim == 2 else [target]
        for column in columns:
            self._check_labels(column)

    def _check_labels(self, target: FloatArray) -> None:
        found = np.unique(target).tolist()
        if found != [-1, 1]:
            shown = ", ".join(repr(label) for label in found[:_LABELS_SHOWN])
            more = f", ... ({len(found)} distinct values)" if len(found) > _LABELS_SHOWN else ""
            raise InvalidInputError(
                f"y must hold the labels -1 and +1 only, and both of them, for the {self.name} loss; "
                f"found {shown or 'nothing'}{more}"
            )


class ClassLoss(Loss):
    """A loss of labels or classes, which are never scaled."""

    def rescaled(self, scale: float) -> tuple[Loss, float]:
        """Return ``(self, 1.0)`` for ``scale = 1``; other scales are refused."""
        if check_real("scale", scale, strict=True) != 1.0:
            raise InvalidInputError(f"scale must be 1 for the {self.name} loss; got {scale!r}")
        return self, 1.0


#: Curvatures below count as that: the loss no longer depends on such a prediction.
LEAST_CURVATURE = 1e-14
