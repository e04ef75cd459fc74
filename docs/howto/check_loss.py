"""What must be true of every loss, tried on random numbers."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np

from qsdp.losses import Loss


def check_loss(loss: Loss, *, n: int = 200, random_state: Any = 0) -> None:
    """Raise AssertionError unless value, gradient, conjugate, projection, prox and expression fit together."""
    rng = np.random.default_rng(random_state)
    y = rng.choice([-1.0, 1.0], n) if loss.labels else rng.standard_normal(n)
    t, other, u = 2.0 * rng.standard_normal((3, n))
    t[::5] = y[::5]  # where many losses have their kink

    # Convex, and the gradient is a subgradient.
    slope = loss.gradient(t, y)
    for k in range(n):
        i = slice(k, k + 1)
        line = loss.value(t[i], y[i]) + float(slope[k] * (other[k] - t[k]))
        assert loss.value(other[i], y[i]) >= line - 1e-12, "gradient is no subgradient"

    # Fenchel and Young: equality at the subgradient, inequality at any point of the domain.
    inside = loss.project_dual(slope, y)
    np.testing.assert_allclose(inside, slope, atol=1e-12, err_msg="the gradient is not in the conjugate's domain")
    young = loss.value(t, y) + loss.conjugate(inside, y)
    np.testing.assert_allclose(young, float(t @ inside), rtol=1e-9, err_msg="conjugate and value do not fit")
    moved = loss.project_dual(u, y)
    assert loss.value(t, y) + loss.conjugate(moved, y) >= float(t @ moved) - 1e-9, "conjugate too small"
    assert np.array_equal(loss.project_dual(moved, y), moved), "project_dual is no projection"
    assert loss.bounded_dual == math.isfinite(loss.lipschitz), "bounded_dual and lipschitz contradict each other"

    # The prox p of q solves (q - p) / step in the subdifferential at p: Fenchel and Young again.
    for step in (0.01, 1.0, 100.0):
        p = loss.prox(t, y, step)
        dual = loss.project_dual((t - p) / step, y)
        np.testing.assert_allclose(step * dual, t - p, atol=1e-9 * (1.0 + step), err_msg="prox is off the domain")
        young = loss.value(p, y) + loss.conjugate(dual, y)
        np.testing.assert_allclose(young, float(p @ dual), rtol=1e-7, atol=1e-7, err_msg="prox is no minimiser")

    # The CVXPY form, and other units.
    variable = cp.Variable(n)
    expression = loss.expression(variable, y)
    variable.value = t
    assert expression.is_convex(), "expression is not convex by CVXPY's rules"
    np.testing.assert_allclose(expression.value, loss.value(t, y), rtol=1e-9, err_msg="expression is another loss")
    scale = 1.0 if loss.labels else 4.0
    same, factor = loss.rescaled(scale)
    np.testing.assert_allclose(
        loss.value(scale * t, scale * y), factor * same.value(t, y), rtol=1e-9, err_msg="rescaled is another loss"
    )
