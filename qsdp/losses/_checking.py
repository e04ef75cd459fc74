"""Check of a user-defined loss on random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, RandomState, check_integer, check_random_state
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses._loss import Loss

__all__ = ["check_loss"]

#: Outputs of a coupled loss in the check.
_CLASSES = 3
#: Tolerance of identities between numbers of about one, far above their rounding.
_TOLERANCE = 1e-9

_Require = Callable[[Any, str], None]


def check_loss(loss: Loss, *, n_samples: int = 200, random_state: RandomState = 0) -> None:
    r"""Check on random numbers that the members of a loss fit together, and raise an error that names what does not.

    Bounds and certificates are valid only if `conjugates` is the conjugate of `values`. A loss that passes is convex
    and at least zero, its gradient is a subgradient, values and conjugates satisfy the Fenchel-Young inequality with
    equality at the gradient, `prox` solves its optimality condition, `curvature` is the derivative of the gradient,
    `verified_values` are minus the conjugates, and `expression` and `rescaled` are the same loss, as far as random
    predictions and targets can tell.

    Parameters
    ----------
    loss : Loss
    n_samples : int, default=200
        Number of random predictions and targets, at least 10.
    random_state : int, RandomState, Generator or None, default=0

    Raises
    ------
    InvalidInputError
        Members of the loss contradict each other.

    Examples
    --------
    >>> from qsdp.losses import Huber, check_loss
    >>> check_loss(Huber(0.3))
    """
    if not isinstance(loss, Loss):
        raise InvalidTypeError(f"loss must be an instance of a subclass of qsdp.losses.Loss; got {loss!r:.60}")
    n = check_integer("n_samples", n_samples, minimum=10)
    rng = check_random_state(random_state)
    shape = (n, _CLASSES) if loss.coupled else (n,)
    if loss.coupled:
        y = np.eye(_CLASSES)[rng.integers(0, _CLASSES, n)]
    else:
        y = rng.choice([-1.0, 1.0], n) if loss.labels else rng.standard_normal(n)
    t, other, dual = (2.0 * rng.standard_normal(shape) for _ in range(3))
    # Many losses have their kink where the prediction equals the target.
    t[::5] = y[::5]

    def require(condition: Any, message: str) -> None:
        if not np.all(condition):
            raise InvalidInputError(f"loss {loss!r} contradicts itself: {message}")

    slope = loss.gradient(t, y)
    _check_values(loss, t, other, y, slope, require)
    moved = _check_conjugates(loss, t, dual, y, slope, require)
    _check_prox(loss, t, y, require)
    if loss.has_curvature:
        _check_curvature(loss, t, y, rng.choice([-1.0, 1.0], shape), require)
    _check_verified_values(loss, moved, y, require)
    _check_other_forms(loss, t, y, rng.uniform(0.5, 2.0, n), require)


def _inner(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the products of entries, summed over the outputs of a coupled loss."""
    products: FloatArray = a * b
    return products if products.ndim == 1 else products.sum(axis=1)


def _close(a: Any, b: Any, tolerance: float = _TOLERANCE) -> npt.NDArray[np.bool_]:
    close: npt.NDArray[np.bool_] = np.isclose(a, b, rtol=tolerance, atol=tolerance)
    return close


def _check_values(
    loss: Loss, t: FloatArray, other: FloatArray, y: FloatArray, slope: FloatArray, require: _Require
) -> None:
    values = loss.values(t, y)
    require(np.shape(values) == (len(y),), f"values have shape {np.shape(values)}, not one entry for each sample")
    require(values >= -_TOLERANCE, "values are below zero")
    line = values + _inner(slope, other - t)
    require(loss.values(other, y) >= line - _TOLERANCE, "gradient is not a subgradient, or values are not convex")


def _check_conjugates(
    loss: Loss, t: FloatArray, dual: FloatArray, y: FloatArray, slope: FloatArray, require: _Require
) -> FloatArray:
    """Check conjugate and domain, and return a dual vector of the domain."""
    inside, values = loss.project_dual(slope, y), loss.values(t, y)
    require(_close(inside, slope), "project_dual moves the gradient, which is in the conjugate's domain")
    young = values + loss.conjugates(inside, y)
    require(_close(young, _inner(t, inside)), "values and conjugates are not equal to t u at the gradient u")
    moved = loss.project_dual(dual, y)
    young = values + loss.conjugates(moved, y)
    require(young >= _inner(t, moved) - _TOLERANCE, "conjugates are too small, so that bounds would be invalid")
    require(_close(loss.project_dual(moved, y), moved), "project_dual moves a point of the conjugate's domain")
    bounded = math.isfinite(loss.lipschitz)
    require(loss.bounded_dual == bounded, f"bounded_dual is {loss.bounded_dual} with lipschitz {loss.lipschitz:g}")
    return moved


def _check_prox(loss: Loss, t: FloatArray, y: FloatArray, require: _Require) -> None:
    for step in (0.01, 1.0, 100.0):
        p = loss.prox(t, y, step)
        dual = loss.project_dual((t - p) / step, y)
        require(_close(step * dual, t - p, _TOLERANCE * (1.0 + step)), "prox leads off the conjugate's domain")
        # (t - p) / step is a subgradient at p, by Fenchel and Young.
        young = loss.values(p, y) + loss.conjugates(dual, y)
        require(_close(young, _inner(p, dual), 1e-7), "prox is not the minimiser")


def _check_curvature(loss: Loss, t: FloatArray, y: FloatArray, direction: FloatArray, require: _Require) -> None:
    h = 1e-6
    difference = (loss.gradient(t + h * direction, y) - loss.gradient(t - h * direction, y)) / (2.0 * h)
    wrong = np.abs(loss.curvature(t, y).times(direction) - difference) > 1e-4
    # A few differences meet a jump; every fifth prediction is at a kink.
    smooth = np.arange(len(y)) % 5 > 0
    require(np.mean(wrong[smooth]) < 0.05, "curvature is not the derivative of gradient")


def _check_verified_values(loss: Loss, dual: FloatArray, y: FloatArray, require: _Require) -> None:
    for weight in (None, np.full((len(y), 1) if loss.coupled else len(y), 2.5)):
        factor = 1.0 if weight is None else 2.5
        nu = loss.verified_multiplier(-factor * dual, y, weight)
        verified = loss.verified_values(nu, y, weight)
        require(verified is not None, "verified_values refuse what verified_multiplier returns")
        assert verified is not None
        expected = -factor * loss.conjugates(dual, y)
        terms = verified[0]
        if terms.shape != expected.shape:
            terms = terms.sum(axis=1) if loss.coupled else np.reshape(terms, (-1, len(y))).sum(axis=0)
        require(_close(terms, expected), "verified_values are not minus the conjugates, times the weights")
    if loss.bounded_dual:
        outside = np.full_like(dual, 2.0 * loss.lipschitz)
        require(loss.verified_values(outside, y) is None, "verified_values are finite outside the conjugate's domain")


def _check_other_forms(loss: Loss, t: FloatArray, y: FloatArray, weights: FloatArray, require: _Require) -> None:
    import cvxpy as cp

    variable = cp.Variable(t.shape)
    variable.value = t
    for weight in (1.0, weights):
        expression = loss.expression(variable, y, weight)
        require(expression.is_convex(), "expression is not convex by CVXPY's rules")
        expected = float(np.sum(weight * loss.values(t, y)))
        require(_close(expression.value, expected), "expression is not the weighted sum of values")
    scale = 1.0 if loss.for_classes else 4.0
    other, factor = loss.rescaled(scale)
    scaled, values = loss.values(scale * t, scale * y), other.values(t, y)
    require(_close(scaled, factor * values), "rescaled is another loss")
