"""Base class of losses, and their second-order information."""

from __future__ import annotations

import abc
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import EPS, HALF_DIGITS, UNIT
from qsdp._utils.summary import first_few
from qsdp._utils.validation import FloatArray, check_real
from qsdp.exceptions import InvalidInputError

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["ClassLoss", "Curvature", "Linearization", "Loss", "constant", "weighted_sum"]


class Curvature(NamedTuple):
    r"""Second derivatives of a loss: Diag(h) per sample, minus :math:`w\,p p^T` if the outputs are coupled.

    Attributes
    ----------
    diagonal : ndarray in the shape of the predictions
        h.
    coupling : ndarray of shape (n, C) or None
        :math:`\sqrt{w}\,p`, for sample weights w.
    """

    diagonal: FloatArray
    coupling: FloatArray | None = None

    def times(self, change: FloatArray) -> FloatArray:
        """Multiply by the Hessian: change in the gradient caused by a small change in the predictions."""
        product = self.diagonal * change
        if self.coupling is not None:
            product -= self.coupling * np.sum(self.coupling * change, axis=1, keepdims=True)
        return product

    def traces(self) -> FloatArray:
        """Return the trace of each sample's second derivatives, shape (n,)."""
        traces: FloatArray = self.diagonal.sum(axis=1)
        if self.coupling is not None:
            traces = traces - np.square(self.coupling).sum(axis=1)
        return np.maximum(traces, 0.0)

    def take(self, rows: npt.NDArray[np.intp]) -> Curvature:
        """Return the second derivatives of some samples."""
        return Curvature(self.diagonal[rows], None if self.coupling is None else self.coupling[rows])


@dataclass(frozen=True, eq=False)
class Linearization:
    r"""Linearisation of the relation :math:`\nu = -\ell'(v)` of multiplier and prediction, at values of both.

    A Newton step satisfies :math:`dv + C\, d\nu = -e` with :math:`e = C (\nu - \nu_v)`.

    Attributes
    ----------
    multiplier : ndarray
        :math:`\nu_v = -\ell'(v)` at the predictions.
    compliance : ndarray
        C, positive: :math:`1 / \ell''(v)`, or the slope of a secant.
    distance : float
        Fenchel-Young gap :math:`\ell(v) + \ell^*(-\nu) + \nu^T v`, zero where the relation holds.
    """

    multiplier: FloatArray
    compliance: FloatArray
    distance: float


class Loss(abc.ABC):
    r"""Convex loss of one sample, bounded below by zero; instances are immutable and compare by value.

    Arrays are not validated. Predictions, duals and targets are float64 arrays of one shape, (n,) or (n, C). Methods
    work entry by entry unless the outputs are coupled. `DataFit` handles sample weights and sums over the samples.

    Each algorithm declares the attributes of a loss that it needs. Certificates, operator splitting, conic solvers,
    sampling and polishing work with `values`, `gradient`, `conjugates`, `project_dual`, `prox`, `expression` and
    `rescaled`. Low-rank and interior-point solvers and the second layer also need `curvature`. A `PiecewiseQuadratic`
    loss has all of these. A loss that defines `verified_values` has bounds that are proven for any rounding; the
    default relies on the stated accuracy of `conjugates`.

    Attributes
    ----------
    name : str
        Name in messages and files.
    labels : bool
        True if targets are the labels -1 and +1.
    smooth : bool
        True if the loss is differentiable in the prediction everywhere.
    bounded_dual : bool
        True if the conjugate's domain is bounded, that is, if `lipschitz` is finite.
    coupled : bool
        True if the loss of a sample depends on its outputs jointly, so that targets have shape (n, C).
    quadratic : bool
        True only for :math:`(t - y)^2`, where the data enter through their Gram matrix.
    probabilistic : bool
        True if outputs are log odds, so that a classifier can predict probabilities.

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
    coupled: ClassVar[bool] = False
    quadratic: ClassVar[bool] = False
    probabilistic: ClassVar[bool] = False

    @property
    def for_classes(self) -> bool:
        """Whether targets are classes: labels, or rows of a coupled loss with a one at the class."""
        return self.labels or self.coupled

    # -- value, conjugate and their minimisers ------------------------------------------------------------

    @property
    @abc.abstractmethod
    def lipschitz(self) -> float:
        """Smallest Lipschitz constant of the scalar loss in its prediction; ``math.inf`` if there is none."""

    @abc.abstractmethod
    def values(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return the loss of every entry, or of every sample, shape (n,), if the outputs are coupled."""

    @abc.abstractmethod
    def gradient(self, prediction: FloatArray, target: FloatArray) -> FloatArray:
        """Return the derivative with respect to every prediction; at a kink, the subgradient zero."""

    def values_and_derivatives(
        self, prediction: FloatArray, target: FloatArray
    ) -> tuple[FloatArray, FloatArray, Curvature]:
        """Return `values`, `gradient` and `curvature`, which may have parts in common."""
        return self.values(prediction, target), self.gradient(prediction, target), self.curvature(prediction, target)

    @abc.abstractmethod
    def conjugates(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        r"""Return :math:`\sup_t (u t - \ell(t, y))` in the shape of `values`.

        The domain is tested without tolerance: an entry one rounding error outside it is ``math.inf``. Apply
        `project_dual` to computed duals first.
        """

    @abc.abstractmethod
    def project_dual(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return the point of the conjugate's domain that is nearest to `dual`."""

    @abc.abstractmethod
    def prox(self, point: FloatArray, target: FloatArray, step: float | FloatArray) -> FloatArray:
        """Return ``argmin_t step * loss(t, target) + (t - point)^2 / 2``, for steps > 0 that broadcast."""

    @abc.abstractmethod
    def expression(self, prediction: cp.Expression, target: FloatArray, weight: float | FloatArray = 1.0) -> Any:
        """Build the weighted sum of `values` as a convex CVXPY expression, for weights that broadcast."""

    def conjugate_expression(self, dual: cp.Expression, target: FloatArray, weight: FloatArray) -> Any:
        r"""Build :math:`\sum_i w_i \ell^*(u_i / w_i)` as a convex CVXPY expression, with its constraints.

        Only the dual programs need it, such as `qsdp.paper.dual_program`.

        Raises
        ------
        InvalidInputError
            The loss does not define it.
        """
        raise InvalidInputError(f"loss {self.name!r} must define conjugate_expression for a dual program")

    @abc.abstractmethod
    def rescaled(self, scale: float) -> tuple[Loss, float]:
        """Change units: return ``(other, factor)`` with ``loss(scale t, scale y) = factor * other(t, y)``.

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
        """True if `curvature` is defined: second derivatives exist almost everywhere and do not all vanish."""
        return type(self).curvature is not Loss.curvature

    def curvature(self, prediction: FloatArray, target: FloatArray) -> Curvature:
        """Return the second derivatives, or one-sided ones where they jump."""
        raise NotImplementedError(f"{type(self).__name__} does not define curvature, the second derivatives")

    def linearize(self, prediction: FloatArray, multiplier: FloatArray, target: FloatArray) -> Linearization:
        r"""Linearise the relation of predictions and a multiplier near :math:`-\ell'`, for interior-point methods."""
        slopes = -self.gradient(prediction, target)
        second = np.maximum(self.curvature(prediction, target).diagonal, MIN_CURVATURE)
        inside = -self.project_dual(-multiplier, target)
        gap = self.value(prediction, target) + self.conjugate(-inside, target) + float(np.vdot(inside, prediction))
        return Linearization(slopes, 1.0 / second, max(0.0, gap))

    def typical_curvature(self, prediction: FloatArray, target: FloatArray, step: float) -> FloatArray:
        """Return the curvature over a step of size `step`, by differences of the gradient."""
        s = max(step, HALF_DIGITS * (1.0 + float(np.abs(prediction).max())))
        change = self.gradient(prediction + s, target) - self.gradient(prediction - s, target)
        return change / (2.0 * s)

    def curvature_fraction(self, reach: float) -> float:
        """Bound the mean curvature over a step of at most `reach`, relative to that at its start, from below."""
        return 0.0

    def curvature_floor(self, prediction: FloatArray, target: FloatArray, reach: float) -> FloatArray:
        r"""Compute w with :math:`\ell(t + s) \ge \ell(t) + s\,\ell'(t) + w s^2 / 2` for all :math:`|s| \le` `reach`."""
        fraction = self.curvature_fraction(reach) if self.has_curvature else 0.0
        return fraction * self.curvature(prediction, target).diagonal if fraction > 0.0 else np.zeros_like(prediction)

    # -- rounding ------------------------------------------------------------------------------------------

    def verified_multiplier(
        self, multiplier: FloatArray, target: FloatArray, weight: FloatArray | None = None
    ) -> FloatArray:
        r"""Return a nearby multiplier for which the exact :math:`-\nu / w` is in the conjugate's domain.

        Notes
        -----
        This holds for uncoupled outputs, whose domain is an interval that contains zero. An entry is unchanged if the
        next float beyond its quotient, away from zero, is in the domain: the exact quotient is not farther from zero.
        Any other entry becomes w times the nearest point, rounded towards zero, so that it is not beyond that point.
        """
        if weight is None:
            return -self.project_dual(-multiplier, target)
        unit = -multiplier / weight
        inside = self.project_dual(unit, target)
        if self.coupled:
            return -weight * inside
        farther = np.nextafter(unit, np.copysign(np.inf, unit))
        unchanged = self.project_dual(farther, target) == farther
        return np.where(unchanged, multiplier, np.nextafter(-weight * inside, 0.0))

    def verified_values(
        self, multiplier: FloatArray, target: FloatArray, weight: FloatArray | None = None
    ) -> tuple[FloatArray, int, float] | None:
        r"""Return terms whose sum is :math:`-\sum_i w_i \ell^*(-\nu_i / w_i)`, and bounds on their errors.

        By default, these are minus the weighted `conjugates`, each of which is relied on to err by at most 64 roundoffs
        of itself and of the loss at zero. A loss overrides this with terms whose errors are proven. These use only
        sums, products, quotients and roots, since errors of mathematical libraries are not proven.

        Returns
        -------
        terms : ndarray
            Array of any shape.
        roundings : int
            Relative error of every term, in units of the roundoff.
        slack : float
            Additional absolute error of their sum.

        Outside the domain, which is tested exactly, None is returned. By default, a multiplier that is outside only by
        the rounding of the quotient counts as inside.
        """
        unit = -multiplier if weight is None else -multiplier / weight
        inside = self.project_dual(unit, target)
        if not np.all(np.abs(inside - unit) <= 4.0 * EPS * np.abs(unit)):
            return None
        terms, sizes = -self.conjugates(inside, target), self.values(np.zeros_like(target), target)
        if weight is not None:
            factors = weight[:, 0] if self.coupled else weight
            terms, sizes = factors * terms, factors * sizes
        if not np.all(np.isfinite(terms)):
            return None
        return terms, 129, 128.0 * UNIT * float(np.sum(sizes))

    def row_defects(self, multiplier: FloatArray) -> FloatArray:
        """Bound the deviation of each sample's entries from an exactly feasible vector: zero for uncoupled losses."""
        return np.zeros(len(multiplier))

    # -- targets, units, files --------------------------------------------------------------------------------

    def parameters(self) -> dict[str, float]:
        """Return the parameters of the loss that files store with its `name`."""
        return {field.name: float(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    def encode_target(self, target: FloatArray) -> FloatArray:
        """Convert ``y`` as passed by the user to the targets that the other methods expect."""
        return target

    def check_target(self, target: FloatArray) -> None:
        """Raise `InvalidInputError` unless a label loss's targets are -1 and +1, with both present."""
        if not self.labels:
            return
        for column in np.atleast_2d(target.T):
            self._check_labels(column)

    def _check_labels(self, target: FloatArray) -> None:
        labels = np.unique(target).tolist()
        if labels != [-1, 1]:
            shown = first_few([repr(label) for label in labels])
            raise InvalidInputError(
                f"y must hold the labels -1 and +1 only, and both of them, for the {self.name} loss; "
                f"found {shown or 'nothing'}"
            )


class ClassLoss(Loss):
    """Base class of losses for labels or classes, which are never scaled."""

    def rescaled(self, scale: float) -> tuple[Loss, float]:
        """Return ``(self, 1.0)`` for ``scale = 1``; raise `InvalidInputError` for other scales."""
        if check_real("scale", scale, strict=True) != 1.0:
            raise InvalidInputError(f"scale must be 1 for the {self.name} loss; got {scale!r}")
        return self, 1.0


def constant(entries: FloatArray, name: str) -> cp.Constant:
    """Wrap an array as a CVXPY constant that prints as its name instead of its entries."""
    import cvxpy as cp

    return cp.Constant(entries, name=name)


def weighted_sum(values: cp.Expression, weight: float | FloatArray) -> cp.Expression:
    """Build the weighted sum of a CVXPY expression's entries, or the plain sum if the weight is the number 1."""
    import cvxpy as cp

    return cp.sum(values if np.isscalar(weight) else cp.multiply(constant(np.asarray(weight), "weights"), values))


#: Relative error of every term of a dual value, in units of the roundoff, that the stand-alone checker allows for; of a
#: probability, relative to its weight. It is twice 16, and a margin.
CHECKED_ROUNDINGS = 36

#: Lower bound of curvatures: the loss hardly depends on a prediction with a smaller one.
MIN_CURVATURE = 64.0 * EPS
