"""What must be true of every loss, tried on random numbers."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np

from qsdp.losses import Loss


def check_loss(
    loss: Loss, *, n: int = 200, random_state: Any = 0
) -> None:
    """Raise AssertionError if members of a loss contradict others."""
    rng = np.random.default_rng(random_state)
    y = (
        rng.choice([-1.0, 1.0], n)
        if loss.labels
        else rng.standard_normal(n)
    )
    t, other, u = 2.0 * rng.standard_normal((3, n))
    smooth = np.arange(n) % 5 > 0
    t[~smooth] = y[~smooth]  # where many losses have their kink

    # Convex, and the gradient is a subgradient.
    slope = loss.gradient(t, y)
    line = loss.values(t, y) + slope * (other - t)
    assert np.all(loss.values(other, y) >= line - 1e-12), (
        "gradient is no subgradient"
    )

    # Fenchel and Young: equality at the subgradient, inequality at any
    # point of the domain.
    inside = loss.project_dual(slope, y)
    np.testing.assert_allclose(
        inside,
        slope,
        atol=1e-12,
        err_msg="the gradient is not in the conjugate's domain",
    )
    young = loss.values(t, y) + loss.conjugates(inside, y)
    np.testing.assert_allclose(
        young,
        t * inside,
        atol=1e-9,
        err_msg="conjugates and values do not fit",
    )
    moved = loss.project_dual(u, y)
    assert np.all(
        loss.values(t, y) + loss.conjugates(moved, y)
        >= t * moved - 1e-9
    ), "conjugate too small"
    assert np.array_equal(loss.project_dual(moved, y), moved), (
        "project_dual is no projection"
    )
    assert loss.bounded_dual == math.isfinite(loss.lipschitz), (
        "bounded_dual and lipschitz contradict each other"
    )

    # For the prox p of q, (q - p) / step is a subgradient at p: Fenchel
    # and Young again.
    for step in (0.01, 1.0, 100.0):
        p = loss.prox(t, y, step)
        dual = loss.project_dual((t - p) / step, y)
        np.testing.assert_allclose(
            step * dual,
            t - p,
            atol=1e-9 * (1.0 + step),
            err_msg="prox is off the domain",
        )
        young = loss.values(p, y) + loss.conjugates(dual, y)
        np.testing.assert_allclose(
            young,
            p * dual,
            rtol=1e-7,
            atol=1e-7,
            err_msg="prox is no minimiser",
        )

    # The curvature is the gradient's derivative, except at the few
    # points where a difference meets a jump.
    if loss.has_curvature:
        h = 1e-6
        difference = (
            loss.gradient(t + h, y) - loss.gradient(t - h, y)
        ) / (2.0 * h)
        wrong = (
            np.abs(loss.curvature(t, y).diagonal - difference) > 1e-4
        )
        assert np.mean(wrong[smooth]) < 0.05, (
            "curvature is not the derivative of gradient"
        )

    # Guarded values are the conjugates again, with weights too, and
    # None outside the domain.
    if loss.has_guarded_values:
        for weight in (None, np.full(n, 2.5)):
            nu = loss.admissible(
                -moved if weight is None else -weight * moved, y, weight
            )
            guarded = loss.guarded_values(nu, y, weight)
            assert guarded is not None, (
                "admissible multipliers are not admissible"
            )
            expected = -loss.conjugates(moved, y) * (
                1.0 if weight is None else weight
            )
            terms = np.sum(np.reshape(guarded[0], (-1, n)), axis=0)
            np.testing.assert_allclose(
                terms,
                expected,
                atol=1e-9,
                err_msg="guarded_values are others",
            )
        if loss.bounded_dual:
            assert (
                loss.guarded_values(np.full(n, 2.0 * loss.lipschitz), y)
                is None
            ), "the domain is not tested"

    # The CVXPY form, and other units.
    variable = cp.Variable(n)
    variable.value = t
    weights = rng.uniform(0.5, 2.0, n)
    for weight in (1.0, weights):
        expression = loss.expression(variable, y, weight)
        assert expression.is_convex(), (
            "expression is not convex by CVXPY's rules"
        )
        expected = float(np.sum(weight * loss.values(t, y)))
        np.testing.assert_allclose(
            expression.value,
            expected,
            rtol=1e-9,
            err_msg="expression is another loss",
        )
    scale = 1.0 if loss.labels else 4.0
    same, factor = loss.rescaled(scale)
    np.testing.assert_allclose(
        loss.values(scale * t, scale * y),
        factor * same.values(t, y),
        atol=1e-9,
        err_msg="rescaled is another loss",
    )
