"""The coupled loss of several classes: values, duality, projection and prox against independent definitions."""

from __future__ import annotations

import dataclasses
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from qsdp.exceptions import InvalidInputError
from qsdp.losses import LOSSES, SCALAR_LOSSES, CrossEntropy, Logistic, get_loss

LOSS = CrossEntropy()
FUZZ = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
sizes = st.sampled_from([1e-6, 1e-2, 1.0, 30.0, 1e3])
classes = st.integers(2, 5)


def batch(
    seed: int, n_classes: int, size: float = 1.0, n: int = 4
) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """One-hot targets and Gaussian predictions."""
    rng = np.random.default_rng(seed)
    return rng, np.eye(n_classes)[rng.integers(0, n_classes, n)], size * rng.standard_normal((n, n_classes))


def by_definition(t: np.ndarray, y: np.ndarray) -> float:
    """Sum of -log softmax of the true classes, in plain Python."""
    total = 0.0
    for row, target in zip(t.tolist(), y.tolist(), strict=True):
        top = max(row)
        total += top - row[target.index(1.0)] + math.log(math.fsum(math.exp(value - top) for value in row))
    return total


def test_values_by_hand() -> None:
    y = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    t = np.log([[1.0, 2.0, 1.0], [5.0, 1.0, 4.0]])
    assert LOSS.value(t, y) == pytest.approx(math.log(4) + math.log(10 / 4), rel=1e-14)
    np.testing.assert_allclose(LOSS.gradient(t, y), [[-0.75, 0.5, 0.25], [0.5, 0.1, -0.6]], rtol=1e-14)
    np.testing.assert_allclose(LOSS.value(np.zeros((2, 3)), y), 2 * math.log(3), rtol=1e-14)


@FUZZ
@given(seed=seeds, n_classes=classes, size=sizes)
def test_value_and_gradient_against_the_definition(seed: int, n_classes: int, size: float) -> None:
    rng, y, t = batch(seed, n_classes, size)
    assert type(LOSS.value(t, y)) is float
    assert LOSS.value(t, y) == pytest.approx(by_definition(t, y), rel=1e-12, abs=1e-14 * size)
    # What is added to all outputs of a sample does not count.
    assert LOSS.value(t + rng.standard_normal((4, 1)), y) == pytest.approx(
        LOSS.value(t, y), rel=1e-12, abs=1e-14 * size
    )
    gradient = LOSS.gradient(t, y)
    np.testing.assert_allclose(gradient.sum(axis=1), 0.0, atol=1e-15)
    step = 1e-4 * rng.standard_normal(t.shape)
    # Third-order accurate differences; the third derivative is below one.
    difference = LOSS.value(t + step, y) - LOSS.value(t - step, y)
    rounding = 1e-15 * (np.abs(t).sum() + 1.0)
    assert difference == pytest.approx(2 * np.vdot(gradient, step), abs=np.abs(step).sum() ** 3 + 8 * rounding)


@FUZZ
@given(seed=seeds, n_classes=classes, size=sizes, weight=st.floats(0, 1))
def test_convexity_and_the_gradient_inequality(seed: int, n_classes: int, size: float, weight: float) -> None:
    rng, y, a = batch(seed, n_classes, size)
    b = size * rng.standard_normal(a.shape)
    mixed = weight * LOSS.value(a, y) + (1 - weight) * LOSS.value(b, y)
    assert LOSS.value(weight * a + (1 - weight) * b, y) <= mixed + 1e-12 * (1 + mixed)
    linear = LOSS.value(a, y) + np.vdot(LOSS.gradient(a, y), b - a)
    assert LOSS.value(b, y) >= linear - 1e-12 * (1 + abs(linear) + size)


@FUZZ
@given(seed=seeds, size=sizes)
def test_two_classes_are_the_logistic_loss_of_the_difference(seed: int, size: float) -> None:
    _, y, t = batch(seed, 2, size)
    margin, label = t[:, 1] - t[:, 0], y[:, 1] - y[:, 0]
    assert LOSS.value(t, y) == pytest.approx(Logistic().value(margin, label), rel=1e-12, abs=1e-14 * size)
    slope = Logistic().gradient(margin, label)
    np.testing.assert_allclose(LOSS.gradient(t, y), np.stack([-slope, slope], axis=1), rtol=1e-9, atol=1e-15)
    u = LOSS.project_dual(LOSS.gradient(t, y), y)
    logistic = Logistic().conjugate(Logistic().project_dual(u[:, 1], label), label)
    assert LOSS.conjugate(u, y) == pytest.approx(logistic, rel=1e-9, abs=1e-12)


# -- duality ---------------------------------------------------------------------------------------------


@FUZZ
@given(seed=seeds, n_classes=classes, size=sizes)
def test_fenchel_young(seed: int, n_classes: int, size: float) -> None:
    rng, y, t = batch(seed, n_classes, size)
    # Inequality for every dual in the domain ...
    p = rng.dirichlet(np.full(n_classes, 0.5), len(y))
    u = LOSS.project_dual(p - y, y)
    slack = 1e-12 * (1 + np.abs(t).sum())
    assert LOSS.value(t, y) + LOSS.conjugate(u, y) >= np.vdot(u, t) - slack
    # ... and equality at the gradient.
    u = LOSS.project_dual(LOSS.gradient(t, y), y)
    assert LOSS.value(t, y) + LOSS.conjugate(u, y) == pytest.approx(np.vdot(u, t), abs=slack)


def test_the_conjugate_is_the_negative_entropy_on_the_simplex() -> None:
    y = np.eye(3)[:2]
    p = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    assert LOSS.conjugate(p - y, y) == pytest.approx(-1.5 * math.log(2), rel=1e-14)
    assert LOSS.conjugate(np.zeros((2, 3)), y) == 0.0
    assert LOSS.conjugate(np.full((2, 3), 1 / 3) - y, y) == pytest.approx(-2 * math.log(3), rel=1e-14)


@pytest.mark.parametrize(
    "p",
    [
        [0.5, 0.5, 0.1],
        [0.5, 0.4, 0.0],
        [1.1, -0.1, 0.0],
        [0.5, 0.5 + 1e-9, 0.0],
        [1.0, 1e-9, -1e-9],
        [2.0, -1.0, 0.0],
        [math.nan, 0.5, 0.5],
    ],
)
def test_the_conjugate_is_infinite_off_the_simplex(p: list[float]) -> None:
    y = np.array([[0.0, 1.0, 0.0]])
    assert LOSS.conjugate(np.array([p]) - y, y) == math.inf


@FUZZ
@given(seed=seeds, n_classes=classes, size=sizes)
def test_points_of_the_simplex_stay_in_the_domain(seed: int, n_classes: int, size: float) -> None:
    _, y, t = batch(seed, n_classes, size)
    u = LOSS.project_dual(t, y)
    assert math.isfinite(LOSS.conjugate(u, y))
    # So do their scaled versions, which bounds evaluate.
    for scale in (0.0, 1e-9, 0.3, 0.999, 1.0):
        assert math.isfinite(LOSS.conjugate(scale * u, y))
    np.testing.assert_allclose(LOSS.project_dual(u, y), u, atol=1e-15)
    # The softmax is on the simplex up to rounding only.
    assert math.isfinite(LOSS.conjugate(LOSS.gradient(t, y), y))


@pytest.mark.parametrize("seed", range(8))
def test_projection_onto_the_simplex_against_cvxpy(seed: int) -> None:
    _, y, t = batch(seed, 4, [0.1, 1.0, 10.0, 100.0][seed % 4])
    p = cp.Variable(t.shape)
    distance = cp.sum_squares(p - (t + y))
    cp.Problem(cp.Minimize(distance), [p >= 0, cp.sum(p, axis=1) == 1]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    projected = LOSS.project_dual(t, y) + y
    np.testing.assert_allclose(projected, p.value, atol=1e-6)
    assert np.all(projected >= 0)
    np.testing.assert_allclose(projected.sum(axis=1), 1.0, atol=1e-14)


@FUZZ
@given(seed=seeds, n_classes=classes, size=sizes)
def test_projection_is_characterised_by_its_inequality(seed: int, n_classes: int, size: float) -> None:
    _, y, t = batch(seed, n_classes, size)
    u = LOSS.project_dual(t, y)
    # (t - P t).(v - P t) <= 0 for every v of the domain: its vertices are enough.
    for k in range(n_classes):
        vertex = np.eye(n_classes)[[k] * len(y)] - y
        assert np.all(np.sum((t - u) * (vertex - u), axis=1) <= 1e-12 * (1 + size) ** 2)


def test_the_projection_survives_huge_points() -> None:
    y = np.eye(3)
    for size in (1e15, 1e100, 1e300):
        points = size * np.array([[1.0, -1.0, 0.5], [-1.0, -1.0, -1.0], [3.0, 3.0, 2.0]])
        u = LOSS.project_dual(points, y)
        assert math.isfinite(LOSS.conjugate(u, y)), size


# -- prox ------------------------------------------------------------------------------------------------


@FUZZ
@given(seed=seeds, n_classes=classes, size=sizes, exponent=st.floats(-6, 6))
def test_prox_solves_its_equation(seed: int, n_classes: int, size: float, exponent: float) -> None:
    _, y, point = batch(seed, n_classes, size)
    step = 10.0**exponent
    t = LOSS.prox(point, y, step)
    residual = t + step * LOSS.gradient(t, y) - point
    # One rounding of t moves the gradient by as much, times the step.
    scale = np.abs(point).max() + step
    assert np.abs(residual).max() <= 1e-13 * (1 + scale) * (1 + step)
    # The gradient of every sample adds up to zero.
    np.testing.assert_allclose(t.sum(axis=1), point.sum(axis=1), atol=1e-13 * (1 + scale))


@pytest.mark.parametrize("step", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("seed", range(4))
def test_prox_minimises_its_objective(seed: int, step: float) -> None:
    _, y, point = batch(seed, 3, 2.0, n=2)

    def objective(flat: np.ndarray) -> float:
        t = flat.reshape(point.shape)
        return step * by_definition(t, y) + 0.5 * float(np.sum((t - point) ** 2))

    found = minimize(objective, point.ravel(), method="BFGS", options={"gtol": 1e-9})
    t = LOSS.prox(point, y, step)
    assert objective(t.ravel()) <= found.fun + 1e-10 * (1 + abs(found.fun))
    np.testing.assert_allclose(t.ravel(), found.x, atol=1e-4)


@pytest.mark.parametrize("step", [0.1, 3.0])
def test_prox_of_two_classes_is_that_of_the_difference(step: float) -> None:
    _, y, point = batch(3, 2, 2.0)
    t = LOSS.prox(point, y, step)
    # (t_1 - t_0) moves twice as far as with the logistic loss; (t_1 + t_0) stays.
    label = y[:, 1] - y[:, 0]
    margin = Logistic().prox(point[:, 1] - point[:, 0], label, 2 * step)
    np.testing.assert_allclose(t[:, 1] - t[:, 0], margin, rtol=1e-10)


# -- range, CVXPY, constants -------------------------------------------------------------------------------


def test_no_floating_point_warnings_in_the_far_range() -> None:
    y = np.eye(3)
    for size in (1e-300, 1.0, 800.0, 1e6):
        t = size * np.array([[1.0, 0.0, -1.0], [-1.0, -1.0, 1.0], [0.0, 1.0, 1.0]])
        with np.errstate(all="raise", under="ignore"):
            assert math.isfinite(LOSS.value(t, y))
            assert np.all(np.isfinite(LOSS.gradient(t, y)))
            assert math.isfinite(LOSS.conjugate(LOSS.project_dual(t, y), y))
            for step in (1e-12, 1.0, 1e12):
                assert np.all(np.isfinite(LOSS.prox(t, y, step)))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_expression_is_convex_and_equals_the_value(n_classes: int) -> None:
    _, y, t = batch(0, n_classes, 3.0, n=7)
    variable = cp.Variable(t.shape)
    expression = LOSS.expression(variable, y)
    variable.value = t
    assert expression.is_scalar()
    assert expression.is_dcp()
    assert expression.is_convex()
    assert float(expression.value) == pytest.approx(LOSS.value(t, y), rel=1e-12)


@FUZZ
@given(seed=seeds, n_classes=classes, size=sizes)
def test_lipschitz_constant(seed: int, n_classes: int, size: float) -> None:
    rng, y, t = batch(seed, n_classes, size, n=1)
    assert np.abs(LOSS.gradient(t, y)).sum() <= LOSS.lipschitz * (1 + 1e-15)
    moved = t + size * rng.standard_normal(t.shape)
    difference = abs(LOSS.value(moved, y) - LOSS.value(t, y))
    assert difference <= LOSS.lipschitz * np.abs(moved - t).max() * (1 + 1e-12) + 1e-14 * size


def test_the_lipschitz_constant_is_the_least() -> None:
    y = np.array([[1.0, 0.0]])
    t = np.array([[-400.0, 400.0]])
    step = np.array([[-1.0, 1.0]])
    assert LOSS.value(t + step, y) - LOSS.value(t, y) == pytest.approx(LOSS.lipschitz)


def test_it_is_a_loss_like_the_others() -> None:
    assert get_loss("cross_entropy") == LOSS == CrossEntropy()
    assert list(LOSSES) == [*SCALAR_LOSSES, "cross_entropy"]
    assert LOSSES["cross_entropy"] is CrossEntropy
    assert "cross_entropy" not in SCALAR_LOSSES
    assert LOSS.coupled
    assert not LOSS.labels
    assert LOSS.smooth
    assert LOSS.bounded_dual
    assert not any(kind.coupled for kind in SCALAR_LOSSES.values())
    assert hash(LOSS) == hash(CrossEntropy())
    with pytest.raises(dataclasses.FrozenInstanceError):
        LOSS.name = "other"  # type: ignore[misc]
    assert LOSS.rescaled(1.0) == (LOSS, 1.0)
    with pytest.raises(InvalidInputError, match=r"scale must be 1 for the cross_entropy loss; got 2\.0"):
        LOSS.rescaled(2.0)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, "1"])
def test_bad_scales_are_refused(scale: object) -> None:
    with pytest.raises(InvalidInputError, match="scale"):
        LOSS.rescaled(scale)  # type: ignore[arg-type]


def test_targets_are_coded_once() -> None:
    labels = np.array([2.0, 0.0, 1.0, 1.0])
    coded = LOSS.encode_target(labels)
    np.testing.assert_array_equal(coded, [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 1, 0]])
    assert coded.dtype == np.float64
    np.testing.assert_array_equal(LOSS.encode_target(coded), coded)
    LOSS.check_target(coded)
    LOSS.check_target(LOSS.encode_target(np.array([1.0, 0.0, 1.0])))
    for loss in SCALAR_LOSSES.values():
        assert loss().encode_target(labels) is labels


@pytest.mark.parametrize("bad", [[0.5, 1.0], [1.0, 2.0], [0.0, 2.0], [-1.0, 0.0], [0.0, 1e300], [math.nan, 0.0]])
def test_class_numbers_are_checked(bad: list[float]) -> None:
    with pytest.raises(InvalidInputError, match="class numbers 0, 1"):
        LOSS.encode_target(np.array(bad))


@given(seeds, classes)
@FUZZ
def test_curvatures_have_the_trace_and_the_rows_of_their_matrices(seed: int, n_classes: int) -> None:
    rng, target, prediction = batch(seed, n_classes)
    curvature = LOSS.curvature(prediction, target)
    basis = np.eye(n_classes)
    matrices = np.stack([curvature.times(np.tile(one, (4, 1))) for one in basis], axis=1)
    assert curvature.traces() == pytest.approx(np.trace(matrices, axis1=1, axis2=2), abs=1e-12)
    rows = rng.permutation(4)[:2]
    change = rng.standard_normal((4, n_classes))
    assert np.array_equal(curvature.take(rows).times(change[rows]), curvature.times(change)[rows])


@pytest.mark.parametrize("size", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("name", ["cross_entropy", "logistic", "squared"])
def test_values_and_derivatives_are_those_of_separate_calls(name: str, size: float) -> None:
    rng, loss = np.random.default_rng(0), get_loss(name)
    prediction, target = size * rng.standard_normal((30, 4)), np.eye(4)[rng.integers(0, 4, 30)]
    target = 2.0 * target - 1.0 if name == "logistic" else target
    values, gradient, curvature = loss.values_and_derivatives(prediction, target)
    np.testing.assert_allclose(values, loss.values(prediction, target), rtol=1e-14)
    np.testing.assert_allclose(gradient, loss.gradient(prediction, target), rtol=1e-14, atol=1e-300)
    separate = loss.curvature(prediction, target)
    np.testing.assert_allclose(curvature.traces(), separate.traces(), rtol=1e-12, atol=1e-300)
    change = rng.standard_normal((30, 4))
    np.testing.assert_allclose(curvature.times(change), separate.times(change), rtol=1e-12, atol=1e-15)


def test_multiples_of_probabilities_minus_targets_are_projected_to_themselves() -> None:
    rng = np.random.default_rng(0)
    target = np.eye(4)[rng.integers(0, 4, 30)]
    dual = CrossEntropy().gradient(rng.standard_normal((30, 4)), target)
    for scale in (0.0, 0.3, 1.0):
        projected = CrossEntropy().project_dual(scale * dual, target)
        np.testing.assert_allclose(projected, scale * dual, atol=1e-15)
        assert np.all(np.isfinite(CrossEntropy().conjugates(projected, target)))
