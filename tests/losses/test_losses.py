"""Losses against independent scalar definitions, convex duality and CVXPY."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal, Overflow, localcontext
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import SCALAR_LOSSES, Absolute, DataFit, Hinge, Huber, Logistic, Loss, Squared, SquaredHinge, get_loss

ALL = [Squared(), Absolute(), Huber(), Huber(0.25), Logistic(), Hinge(), SquaredHinge()]
REGRESSION = [loss for loss in ALL if not loss.labels]
LABELS = [loss for loss in ALL if loss.labels]
SMOOTH = [loss for loss in ALL if loss.smooth]

EPS = float(np.finfo(np.float64).eps)
FUZZ = settings(max_examples=30, deadline=None, derandomize=True)
every_loss = pytest.mark.parametrize("loss", ALL, ids=repr)

reals = st.floats(-20.0, 20.0, allow_subnormal=False)
steps = st.floats(-6.0, 6.0).map(lambda exponent: 10.0**exponent)


def scalar_loss(loss: Loss, t: float, y: float) -> float:
    """Written from the definitions, sharing nothing with qsdp."""
    if isinstance(loss, Squared):
        return (t - y) ** 2
    if isinstance(loss, Absolute):
        return abs(t - y)
    if isinstance(loss, Huber):
        r = abs(t - y)
        return r**2 if r <= loss.delta else 2 * loss.delta * r - loss.delta**2
    if isinstance(loss, Logistic):
        return math.log1p(math.exp(-y * t)) if y * t > 0 else math.log1p(math.exp(y * t)) - y * t
    if isinstance(loss, Hinge):
        return max(0.0, 1 - y * t)
    assert isinstance(loss, SquaredHinge)
    return max(0.0, 1 - y * t) ** 2


def dual_interval(loss: Loss, y: float) -> tuple[float, float]:
    """Slopes the loss takes, which is the conjugate's domain."""
    if isinstance(loss, Squared):
        return -math.inf, math.inf
    if isinstance(loss, Absolute):
        return -1.0, 1.0
    if isinstance(loss, Huber):
        return -2 * loss.delta, 2 * loss.delta
    low, high = (-math.inf, 0.0) if isinstance(loss, SquaredHinge) else (-1.0, 0.0)
    return (low, high) if y > 0 else (-high, -low)


def one(number: float) -> np.ndarray:
    return np.array([number], dtype=np.float64)


def targets(loss: Loss) -> st.SearchStrategy[float]:
    return st.sampled_from([-1.0, 1.0]) if loss.labels else reals


@st.composite
def batches(draw: st.DrawFn, loss: Loss, n_vectors: int) -> list[np.ndarray]:
    """A target and `n_vectors` vectors of its length; entries at the kink t = y are frequent."""
    n = draw(st.integers(1, 4))
    y = draw(st.lists(targets(loss), min_size=n, max_size=n))
    vectors = [[draw(st.one_of(reals, st.just(label))) for label in y] for _ in range(n_vectors)]
    return [np.array(y), *map(np.array, vectors)]


@pytest.mark.parametrize(
    ("loss", "prediction", "target", "value", "gradient"),
    [
        (Squared(), [3.0, -1.0], [1.0, 1.0], 8.0, [4.0, -4.0]),
        (Absolute(), [3.0, -1.0, 1.0], [1.0, 1.0, 1.0], 4.0, [1.0, -1.0, 0.0]),
        (Huber(), [3.0, 0.5, 2.0], [1.0, 1.0, 1.0], 3.0 + 0.25 + 1.0, [2.0, -1.0, 2.0]),
        (Huber(0.25), [3.0, 0.9], [1.0, 1.0], 0.9375 + 0.01, [0.5, -0.2]),
        (Logistic(), [0.0, 0.0], [1.0, -1.0], 2 * math.log(2), [-0.5, 0.5]),
        (Hinge(), [3.0, -1.0, 1.0], [1.0, 1.0, 1.0], 2.0, [0.0, -1.0, 0.0]),
        (Hinge(), [3.0, -1.0], [-1.0, -1.0], 4.0, [1.0, 0.0]),
        (SquaredHinge(), [3.0, -1.0], [1.0, 1.0], 4.0, [0.0, -4.0]),
        (SquaredHinge(), [3.0, -1.0], [-1.0, -1.0], 16.0, [8.0, 0.0]),
    ],
    ids=repr,
)
def test_values_and_gradients_computed_by_hand(loss, prediction, target, value, gradient):
    prediction, target = np.array(prediction), np.array(target)
    assert loss.value(prediction, target) == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(loss.gradient(prediction, target), gradient, rtol=1e-14, atol=1e-16)


@every_loss
@given(data=st.data())
@FUZZ
def test_value_is_the_sum_of_the_scalar_losses(loss, data):
    y, t = data.draw(batches(loss, 1))
    value = loss.value(t, y)
    assert type(value) is float
    assert value == pytest.approx(sum(scalar_loss(loss, *pair) for pair in zip(t, y, strict=True)), rel=1e-12)


@every_loss
def test_matrices_are_summed_over_all_entries(loss):
    rng = np.random.default_rng(0)
    t = rng.normal(size=(4, 3))
    y = np.where(rng.random((4, 3)) < 0.5, -1.0, 1.0)
    u = loss.project_dual(rng.normal(size=(4, 3)), y)
    assert loss.value(t, y) == pytest.approx(loss.value(t.ravel(), y.ravel()), rel=1e-14)
    assert loss.conjugate(u, y) == pytest.approx(loss.conjugate(u.ravel(), y.ravel()), rel=1e-14)
    for result in (loss.gradient(t, y), u, loss.prox(t, y, 0.3)):
        assert result.shape == (4, 3)
        assert result.dtype == np.float64
    np.testing.assert_array_equal(loss.prox(t, y, 0.3).ravel(), loss.prox(t.ravel(), y.ravel(), 0.3))


# Convexity and gradients


@every_loss
@given(data=st.data(), weight=st.floats(0.0, 1.0))
@FUZZ
def test_convexity(loss, data, weight):
    y, a, b = data.draw(batches(loss, 2))
    mixed = weight * loss.value(a, y) + (1 - weight) * loss.value(b, y)
    assert loss.value(weight * a + (1 - weight) * b, y) <= mixed + 1e-12 * (1 + mixed)


@every_loss
@given(data=st.data())
@FUZZ
def test_gradient_is_a_subgradient(loss, data):
    y, a, b = data.draw(batches(loss, 2))
    linear = loss.value(a, y) + loss.gradient(a, y) @ (b - a)
    size = 1 + loss.value(a, y) + np.abs(loss.gradient(a, y)) @ np.abs(b - a)
    assert loss.value(b, y) >= linear - 1e-13 * size


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@given(data=st.data())
@FUZZ
def test_gradient_of_smooth_losses_by_central_differences(loss, data):
    y, t = data.draw(batches(loss, 1))
    h = 1e-6
    slopes = [(scalar_loss(loss, a + h, b) - scalar_loss(loss, a - h, b)) / (2 * h) for a, b in zip(t, y, strict=True)]
    np.testing.assert_allclose(loss.gradient(t, y), slopes, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("loss", [Absolute(), Hinge()], ids=repr)
def test_subgradient_at_the_kink_is_zero(loss):
    y = np.array([1.0, -1.0])
    np.testing.assert_array_equal(loss.gradient(y.copy(), y), [0.0, 0.0])


@every_loss
def test_lipschitz_constant_is_respected_and_attained(loss):
    rng = np.random.default_rng(1)
    y = np.where(rng.random(2000) < 0.5, -1.0, 1.0)
    a, b = rng.normal(scale=50.0, size=(2, 2000))
    steepest = np.abs(loss.gradient(np.concatenate([a, b]), np.concatenate([y, y]))).max()
    assert (loss.lipschitz < math.inf) == loss.bounded_dual
    if loss.bounded_dual:
        rise = np.array([loss.value(one(p), one(q)) for p, q in zip(a, y, strict=True)])
        rise -= [loss.value(one(p), one(q)) for p, q in zip(b, y, strict=True)]
        slopes = np.abs(rise) / np.abs(a - b)
        assert slopes.max() <= loss.lipschitz * (1 + 1e-10)
        assert slopes.max() >= loss.lipschitz - 1e-6
        assert loss.lipschitz - 1e-6 <= steepest <= loss.lipschitz
    else:
        far = 1e9 * np.array([-1.0, 1.0])
        assert np.all(np.abs(loss.gradient(far, -np.sign(far))) > 1e9)


# Conjugates


@every_loss
@given(data=st.data())
@FUZZ
def test_fenchel_young_inequality_and_domain(loss, data):
    y, t, raw = data.draw(batches(loss, 2))
    inside = all(low <= u <= high for u, (low, high) in zip(raw, (dual_interval(loss, b) for b in y), strict=True))
    assert (loss.conjugate(raw, y) < math.inf) == inside
    u = loss.project_dual(raw, y)
    conjugate = loss.conjugate(u, y)
    assert type(conjugate) is float
    assert math.isfinite(conjugate)
    size = 1 + loss.value(t, y) + abs(conjugate) + np.abs(u) @ np.abs(t)
    assert loss.value(t, y) + conjugate >= u @ t - 1e-13 * size


@every_loss
@given(data=st.data())
@FUZZ
def test_fenchel_young_equality_at_the_gradient(loss, data):
    y, t = data.draw(batches(loss, 1))
    u = loss.gradient(t, y)
    conjugate = loss.conjugate(u, y)
    size = 1 + loss.value(t, y) + np.abs(u) @ (np.abs(t) + np.abs(y))
    assert loss.value(t, y) + conjugate == pytest.approx(u @ t, abs=1e-13 * size)


@every_loss
@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("fraction", [0.0, 0.03, 0.4, 0.5, 0.8, 0.97, 1.0])
def test_conjugate_is_the_supremum_over_a_grid(loss, y, fraction):
    low, high = (max(-10.0, min(10.0, end)) for end in dual_interval(loss, y))
    u = low + fraction * (high - low)
    grid = np.linspace(-40.0, 40.0, 8001)
    supremum = max(u * t - scalar_loss(loss, t, y) for t in grid)
    conjugate = loss.conjugate(one(u), one(y))
    assert supremum <= conjugate + 1e-12
    # Within a grid step of 0.01 of the maximiser the losses differ from their tangent by at most 0.005^2.
    assert supremum >= conjugate - 3e-5


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("loss", [loss for loss in ALL if loss != Squared()], ids=repr)
def test_conjugate_is_infinite_just_outside_the_domain(loss, y):
    for end, outwards in zip(dual_interval(loss, y), (-math.inf, math.inf), strict=True):
        if math.isfinite(end):
            outside = math.nextafter(end, outwards)
            assert math.isfinite(loss.conjugate(one(end), one(y)))
            assert loss.conjugate(one(outside), one(y)) == math.inf
            assert loss.conjugate(np.array([end, outside]), np.array([y, y])) == math.inf
            assert loss.project_dual(one(outside), one(y))[0] == end
            assert outside * (big := math.copysign(1e18, outwards)) - scalar_loss(loss, big, y) >= 0
    if loss.bounded_dual:
        assert loss.conjugate(one(math.nan), one(y)) == math.inf


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_conjugates_on_the_boundary_are_exact(y):
    def conjugate(loss, p):
        return loss.conjugate(one(-y * p), one(y))

    assert conjugate(Logistic(), 0.0) == 0.0
    assert conjugate(Logistic(), 1.0) == 0.0
    assert conjugate(Logistic(), 0.5) == pytest.approx(-math.log(2), rel=1e-15)
    assert conjugate(Logistic(), 1e-17) == pytest.approx(1e-17 * (math.log(1e-17) - 1), rel=1e-15, abs=0)
    assert (conjugate(Hinge(), 0.0), conjugate(Hinge(), 1.0)) == (0.0, -1.0)
    assert (conjugate(SquaredHinge(), 0.0), conjugate(SquaredHinge(), 4.0)) == (0.0, 0.0)
    assert Absolute().conjugate(one(-1.0), one(3.0)) == -3.0
    assert Huber(0.25).conjugate(one(0.5), one(3.0)) == 1.5625


@every_loss
@given(data=st.data())
@FUZZ
def test_project_dual_is_the_nearest_point_of_the_domain(loss, data):
    y, raw = data.draw(batches(loss, 1))
    before = raw.copy()
    nearest = [min(max(u, low), high) for u, (low, high) in zip(raw, (dual_interval(loss, b) for b in y), strict=True)]
    projected = loss.project_dual(raw, y)
    np.testing.assert_array_equal(projected, nearest)
    projected += 1.0
    np.testing.assert_array_equal(raw, before)


# Proximal operators


@every_loss
@given(data=st.data(), step=steps)
@FUZZ
def test_prox_residual_is_a_subgradient(loss, data, step):
    """(point - p) / step lies in the subdifferential at p: Fenchel and Young's inequality is an equality."""
    y, point = data.draw(batches(loss, 1))
    p = loss.prox(point, y, step)
    residual = (point - p) / step
    dual = loss.project_dual(residual, y)
    rounding = 4 * EPS * (1 + np.abs(point) + np.abs(p) + np.abs(y)) / step
    assert np.all(np.abs(dual - residual) <= rounding + 1e-13 * np.abs(residual))
    size = 1 + loss.value(p, y) + np.abs(dual) @ (np.abs(p) + np.abs(y)) + rounding @ (1 + np.abs(p) + np.abs(y))
    assert loss.value(p, y) + loss.conjugate(dual, y) == pytest.approx(dual @ p, abs=1e-12 * size + 20 * rounding.sum())
    if loss.smooth:
        slack = 4 * rounding + 1e-13 * np.abs(residual) + 1e-14 * (1 + np.abs(p) + np.abs(y))
        assert np.all(np.abs(residual - loss.gradient(p, y)) <= slack)


@every_loss
@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("step", [0.03, 1.0, 7.0])
@pytest.mark.parametrize("point", [-9.0, -1.5, -0.4, 0.0, 0.98, 1.0, 2.5, 9.0])
def test_prox_minimises_its_objective(loss, y, step, point):
    def objective(t):
        return step * scalar_loss(loss, t, y) + 0.5 * (t - point) ** 2

    found = minimize_scalar(objective, bounds=(-40.0, 40.0), method="bounded", options={"xatol": 1e-10})
    p = float(loss.prox(one(point), one(y), step)[0])
    assert objective(p) <= found.fun + 1e-13 * (1 + found.fun)
    assert p == pytest.approx(found.x, abs=2e-6)


@pytest.mark.parametrize("loss", [Absolute(), Hinge()], ids=repr)
def test_prox_reaches_the_kink_exactly(loss):
    y = np.array([1.0, -1.0])
    for start in (0.505, 0.7, 0.999):
        np.testing.assert_array_equal(loss.prox(start * y, y, 0.5), y)


@pytest.mark.parametrize("delta", [0.25, 1.0])
def test_huber_tends_to_the_squared_loss_and_not_to_half_of_it(delta):
    rng = np.random.default_rng(2)
    t, y = delta * rng.uniform(-0.5, 0.5, size=(2, 50))
    assert Huber(delta).value(t, y) == pytest.approx(Squared().value(t, y), rel=1e-14)
    assert Huber(1e200).value(1e3 * t, y) == pytest.approx(Squared().value(1e3 * t, y), rel=1e-14)


def exact_logistic_prox(point: float, y: float, step: float) -> tuple[float, float]:
    """Root of t = point + step y / (1 + exp(y t)) by bisection in 60 digits, and its slope in the point."""
    with localcontext() as context:
        context.prec = 60
        context.traps[Overflow] = False
        q, s = Decimal(y) * Decimal(point), Decimal(step)
        low, high = q, q + s
        for _ in range(250):
            middle = (low + high) / 2
            if middle - q - s / (1 + middle.exp()) < 0:
                low = middle
            else:
                high = middle
        sigmoid = 1 / (1 + low.exp())
        return y * float(low), float(1 / (1 + s * sigmoid * (1 - sigmoid)))


@pytest.mark.parametrize("step", [1e-12, 1e-3, 0.5, 4.0, 30.0, 1e6, 1e12])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_logistic_prox_is_accurate_to_rounding(y, step):
    points = np.array([-1e6, -7e5, -1e3, -15.0, -2.0, -0.25, -1e-9, 0.0, 0.3, 2.0, 40.0, 1e3, 1e6])
    with np.errstate(all="raise", under="ignore"):
        found = Logistic().prox(points, np.full_like(points, y), step)
    for point, t in zip(points, found, strict=True):
        exact, sensitivity = exact_logistic_prox(point, y, step)
        # One rounding of the point, or of the point shifted by the step, is no error of the method.
        inherited = sensitivity * (abs(point) + min(step, abs(point)))
        assert abs(t - exact) <= 8 * EPS * (abs(exact) + inherited) + 1e-300


@given(
    point=st.floats(-1e6, 1e6),
    exponent=st.floats(-12.0, 12.0),
    ratio=st.one_of(st.none(), st.floats(-1.5, 0.5)),
    y=st.sampled_from([-1.0, 1.0]),
)
@settings(FUZZ, max_examples=400)
def test_logistic_prox_solves_its_equation(point, exponent, ratio, y):
    step = 10.0**exponent
    q = y * point if ratio is None else max(-1e6, ratio * step)
    with np.errstate(all="raise", under="ignore"):
        m = y * float(Logistic().prox(one(y * q), one(y), step)[0])
    ratio_of_odds = math.exp(-abs(m))
    s, complement = 1 / (1 + ratio_of_odds), ratio_of_odds / (1 + ratio_of_odds)
    pull = step * (complement if m > 0 else s)
    slope = 1 + step * s * complement
    assert abs(m - q - pull) <= 8 * EPS * (abs(m) * slope + abs(q) + pull)


# Numerical range


@every_loss
def test_no_floating_point_warnings_in_the_far_range(loss):
    t = np.array([-1e6, -800.0, -1.0, -0.0, 0.0, 1.0, 800.0, 1e6])
    with np.errstate(all="raise", under="ignore"):
        for sign in (-1.0, 1.0):
            y = np.full_like(t, sign)
            gradient = loss.gradient(t, y)
            dual = loss.project_dual(t, y)
            assert math.isfinite(loss.value(t, y))
            assert np.all(np.isfinite(gradient))
            assert math.isfinite(loss.conjugate(gradient, y))
            assert math.isfinite(loss.conjugate(dual, y))
            loss.conjugate(t, y)
            for step in (1e-12, 1.0, 1e12):
                assert np.all(np.isfinite(loss.prox(t, y, step)))


def test_logistic_tails():
    with np.errstate(all="raise", under="ignore"):
        assert Logistic().value(one(-1e6), one(1.0)) == 1e6
        assert Logistic().value(one(1e6), one(1.0)) == 0.0
        assert Logistic().value(one(40.0), one(1.0)) == pytest.approx(math.exp(-40.0), rel=1e-14, abs=0)
        assert Logistic().gradient(one(40.0), one(1.0))[0] == pytest.approx(-math.exp(-40.0), rel=1e-14, abs=0)
        assert Logistic().gradient(one(-1e6), one(1.0))[0] == -1.0


# CVXPY


@every_loss
def test_expression_is_convex_and_equals_the_value(loss):
    rng = np.random.default_rng(3)
    t = 3.0 * rng.normal(size=12)
    y = np.where(rng.random(12) < 0.5, -1.0, 1.0) if loss.labels else rng.normal(size=12)
    variable = cp.Variable(12)
    expression = loss.expression(variable, y)
    variable.value = t
    assert expression.is_scalar()
    assert expression.is_dcp()
    assert expression.is_convex()
    assert float(expression.value) == pytest.approx(loss.value(t, y), rel=1e-12)


# Scaling, targets, names


@pytest.mark.parametrize("loss", REGRESSION, ids=repr)
@given(data=st.data(), scale=st.floats(1e-3, 1e3))
@FUZZ
def test_rescaled_identity(loss, data, scale):
    y, t = data.draw(batches(loss, 1))
    other, factor = loss.rescaled(scale)
    assert type(other) is type(loss)
    assert factor > 0
    # Rounding of scale * t - scale * y is relative to the operands, not to their difference.
    slack = 1e-13 * scale * (np.abs(t) + np.abs(y)).sum() * (1 + scale * (np.abs(t) + np.abs(y)).sum())
    assert loss.value(scale * t, scale * y) == pytest.approx(factor * other.value(t, y), rel=1e-12, abs=slack)


def test_rescaled_by_hand():
    assert Squared().rescaled(3.0) == (Squared(), 9.0)
    assert Absolute().rescaled(3.0) == (Absolute(), 3.0)
    assert Huber(0.5).rescaled(0.25) == (Huber(2.0), 0.0625)


@pytest.mark.parametrize("loss", LABELS, ids=repr)
def test_label_losses_are_never_rescaled(loss):
    assert loss.rescaled(1.0) == (loss, 1.0)
    with pytest.raises(InvalidInputError, match=rf"scale must be 1 for the {loss.name} loss.*got 2\.0"):
        loss.rescaled(2.0)


@every_loss
@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, "1"])
def test_bad_scales_are_refused(loss, scale):
    with pytest.raises(InvalidInputError, match="scale"):
        loss.rescaled(scale)


@pytest.mark.parametrize("loss", [Squared(), Huber()], ids=repr)
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scales_whose_square_is_no_float_are_refused(loss, scale):
    with pytest.raises(InvalidInputError, match=r"scale \*\* 2"):
        loss.rescaled(scale)


@pytest.mark.parametrize("loss", LABELS, ids=repr)
@pytest.mark.parametrize(
    ("target", "found"),
    [
        ([1.0, 1.0], r"found 1\.0$"),
        ([-1.0], r"found -1\.0$"),
        ([0.0, 1.0, 0.0], r"found 0\.0, 1\.0$"),
        ([-1.0, 0.0, 1.0], r"found -1\.0, 0\.0, 1\.0$"),
        ([-1.0, 1.0 + 1e-12], r"found -1\.0, 1\.000000000001"),
        ([-1.0, 1.0, math.nan], r"found -1\.0, 1\.0, nan$"),
        (np.arange(9.0), r"found 0\.0, 1\.0, .*, 7\.0, … \(9 in all\)$"),
        ([], r"found nothing$"),
    ],
)
def test_label_losses_refuse_other_targets(loss, target, found):
    with pytest.raises(InvalidInputError, match=rf"^y must hold .* -1 and \+1 .*{loss.name}.*{found}"):
        loss.check_target(np.array(target))


@every_loss
def test_good_targets_are_accepted(loss):
    loss.check_target(np.array([1.0, -1.0, 1.0]))
    if not loss.labels:
        loss.check_target(np.array([0.3, 7.0, 0.0]))
        loss.check_target(np.array([1.0]))


def test_names():
    assert set(SCALAR_LOSSES) == {"squared", "absolute", "huber", "logistic", "hinge", "squared_hinge"}
    for name, kind in SCALAR_LOSSES.items():
        loss = get_loss(name)
        assert type(loss) is kind
        assert loss.name == name
        assert get_loss(loss) is loss
    assert get_loss("huber") == Huber(1.0)


def test_unknown_names_are_refused_with_a_suggestion():
    with pytest.raises(InvalidInputError, match=r"loss must be one of .*'logistic'.*did you mean 'logistic'"):
        get_loss("logistc")
    for wrong in (None, 3, Huber):
        with pytest.raises(InvalidTypeError, match=r"an instance of a subclass of qsdp\.losses\.Loss"):
            get_loss(wrong)


@pytest.mark.parametrize("delta", [math.nan, math.inf, -1.0, 0.0, 0, "a", None, True])
def test_bad_deltas_are_refused(delta):
    with pytest.raises(InvalidInputError, match="delta must be a finite number > 0"):
        Huber(delta)


def test_losses_are_immutable_values():
    assert Huber(1) == Huber(np.float64(1.0)) != Huber(2.0)
    assert Squared() == Squared() != Absolute()
    assert len({*ALL, Squared(), Huber(0.25)}) == len(ALL)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Huber().delta = 2.0
    with pytest.raises(TypeError, match="abstract"):
        Loss()


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_a_fit_keep_their_weights(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    target, prediction = rng.standard_normal((2, 9, 2))
    weights, rows = rng.uniform(0.5, 2.0, 9), np.array([7, 1, 4])
    fit = DataFit(get_loss("huber"), target, weights if weighted else None)
    np.testing.assert_array_equal(fit.rows(rows).values(prediction[rows]), fit.values(prediction)[rows])


@pytest.mark.parametrize("name", ["squared", "huber", "logistic"])
def test_line_minimum_balances_slope_and_penalty(name: str) -> None:
    rng = np.random.default_rng(0)
    base, direction = rng.standard_normal((2, 9, 2))
    target = np.sign(rng.standard_normal((9, 2)))
    fit = DataFit(get_loss(name), target, rng.uniform(0.5, 2.0, 9))

    def slope(t: float) -> float:
        return float(np.vdot(direction, fit.gradient(base + t * direction)))

    start = slope(0.0)
    assert fit.line_minimum(base, direction, abs(start)) == 0.0
    for sign in (1.0, -1.0):
        t = fit.line_minimum(base, sign * direction, 0.5 * abs(start))
        assert t * sign * start < 0.0
        assert slope(sign * t) == pytest.approx(0.5 * start, rel=1e-9)


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_dual_values_of_weighted_fits_are_sums_also_where_entries_vanish(loss: Loss) -> None:
    target, weights = np.array([[1.0], [-1.0], [1.0]]), np.array([0.5, 2.0, 1.5])
    nu = np.array([[0.25], [0.0], [0.5]])
    expected = -sum(w * loss.conjugate(-n / w, y) for w, n, y in zip(weights, nu, target, strict=True))
    assert math.isfinite(expected)
    assert DataFit(loss, target, weights).dual_value(nu) == pytest.approx(expected, rel=1e-14, abs=1e-15)


@every_loss
@pytest.mark.parametrize("reach", [1e-3, 0.5, 4.0])
def test_a_step_costs_at_least_the_floor_of_its_curvature(loss: Loss, reach: float) -> None:
    rng = np.random.default_rng(0)
    target = rng.choice([-1.0, 1.0], 400)
    prediction = 3.0 * rng.standard_normal(400)
    floor = loss.curvature_floor(prediction, target, reach)
    assert floor.shape == prediction.shape
    assert np.all(floor >= 0.0)
    if reach < 0.01:
        # Far from kinks, losses with a curvature have a floor.
        assert np.any(floor > 0.0) == loss.smooth
    values, slope = loss.values(prediction, target), loss.gradient(prediction, target)
    for step in reach * rng.uniform(-1.0, 1.0, (20, 400)):
        lower = values + step * (slope + 0.5 * floor * step)
        assert np.all(loss.values(prediction + step, target) >= lower - 1e-13 * (1.0 + np.abs(lower)))


@pytest.mark.parametrize("name", ["squared", "huber", "absolute", "hinge", "squared_hinge"])
@pytest.mark.parametrize("size", [1.0, 1e-9])
def test_safe_dual_values_are_below_exact_ones(name: str, size: float) -> None:
    """Sums of rationals, of multipliers far from the optimal ones and so near to zero that their values cancel."""
    rng, loss = np.random.default_rng(0), get_loss(name)
    target = rng.choice([-1.0, 1.0], (500, 2)) if loss.labels else rng.standard_normal((500, 2))
    nu = size * rng.random(target.shape) * np.sign(target)
    fit = DataFit(loss, target)
    exact = Fraction(0)
    for u, y in zip(nu.ravel().tolist(), target.ravel().tolist(), strict=True):
        value = Fraction(u) * Fraction(y)
        exact += value if name in {"absolute", "hinge"} else value - Fraction(u) ** 2 / 4
    assert fit.dual_value(nu) == pytest.approx(float(exact), rel=1e-13)
    assert Fraction(fit.safe_dual_value(nu)) < exact
    assert fit.safe_dual_value(nu) >= float(exact) - 1e-12 * fit.value_at_zero


@pytest.mark.parametrize("reach", [1e-5, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("name", ["logistic", "cross_entropy"])
def test_mean_curvature_of_a_step_is_not_below_its_fraction(name: str, reach: float) -> None:
    rng, loss = np.random.default_rng(0), get_loss(name)
    prediction = 3.0 * rng.standard_normal((200, 3))
    target = np.eye(3)[rng.integers(0, 3, 200)]
    target = target if loss.coupled else 2.0 * target - 1.0
    step = reach * rng.choice([-1.0, 1.0], (200, 3))
    fraction = loss.curvature_fraction(reach)
    assert 0.0 < fraction <= 1.0
    slope, curvature = loss.gradient(prediction, target), loss.curvature(prediction, target)
    values, moved = (loss.values(at, target).reshape(200, -1).sum(axis=1) for at in (prediction, prediction + step))
    lower = values + np.sum(step * (slope + 0.5 * fraction * curvature.times(step)), axis=1)
    assert np.all(moved >= lower - 1e-13 * (1.0 + values))
