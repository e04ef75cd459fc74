"""What a solver sees: units that lose nothing, and the reduction of squared losses to few rows."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from brute_force import ACTIVATIONS, random_neurons, random_problem, random_vector_problem
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp import BilinearNetwork, TrainingProblem
from qsdp.losses import CrossEntropy, Huber, Loss, get_loss
from qsdp.relaxation.backends.conic import two_block
from qsdp.relaxation.instance import Instance, Reduction

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")

LOSSES = [*map(get_loss, ["squared", "absolute", "huber", "logistic", "hinge", "squared_hinge"]), Huber(0.25)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
FUZZ = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
exponents = st.floats(-6, 6)
ACCURATE = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def targets(loss: Loss, rng: np.random.Generator, n: int) -> np.ndarray:
    if not loss.labels:
        return rng.standard_normal(n)
    y = np.where(rng.standard_normal(n) > 0, 1.0, -1.0)
    y[:2] = -1.0, 1.0
    return y


# -- units -------------------------------------------------------------------------------------------


@every_loss
@settings(FUZZ, max_examples=25)
@given(
    seed=seeds,
    x=exponents,
    y=exponents,
    beta=st.floats(-8, 8),
    alpha=st.floats(-3, 3),
    activation=st.sampled_from([None, None, *ACTIVATIONS]),
    levels=st.sampled_from([2, 3, 5]),
    n_outputs=st.sampled_from([0, 0, 1, 3]),
)
def test_normalised_objective(
    loss: Loss, seed: int, x: float, y: float, beta: float, alpha: float, activation: Any, levels: int, n_outputs: int
) -> None:
    rng = np.random.default_rng(seed)
    scale = 1.0 if loss.labels else 10.0**y
    target = targets(loss, rng, 6)
    if n_outputs:
        target = np.stack([np.roll(target, k) for k in range(n_outputs)], axis=1)
    problem = TrainingProblem(
        rng.standard_normal((6, 3)) * 10.0**x,
        target * scale,
        beta=10.0**beta,
        loss=loss,
        activation=activation,
        levels=levels,
    )
    normal, units = Instance.from_problem(problem).normalised()
    N, C = problem.size, problem.n_outputs
    weights = rng.standard_normal((4, C)) * 10.0**alpha
    U, V = random_neurons(rng, 4, problem)
    original = BilinearNetwork(
        U,
        V,
        weights * units.weight if n_outputs else weights[:, 0] * units.weight,
        levels=levels,
        activation=problem.activation,
    )
    # The instance belongs to columns times M: a weight there is one of magnitude 1 at most.
    shrink = np.r_[np.full(problem.n_features, levels - 1.0), np.ones(int(problem.lifted))]
    half = np.stack([0.5 * (U / shrink).T * column @ (V / shrink) for column in weights.T])
    prediction = normal.predictions(half)
    share = np.abs(weights).sum()
    expected = units.value * (normal.loss.value(prediction, normal.target) + normal.dual_radius * share)
    # Terms of a prediction can cancel, as can prediction and target: rounding is relative to their sizes.
    largest = units.weight * share * sizes(problem, np.full(N, levels - 1.0)).max()
    loss_size = problem.loss.value(np.full(problem.y.shape, largest + 1.0) * -np.sign(problem.y), problem.y)
    assert problem.objective(original) == pytest.approx(expected, rel=1e-11, abs=1e-12 * loss_size)
    np.testing.assert_allclose(
        problem.outputs(original), units.prediction * prediction, rtol=1e-12, atol=1e-13 * largest
    )

    Z, rho = rng.standard_normal((C, N, N)), rng.uniform(0, 2, C)
    normal, units = Instance.from_problem(problem).normalised()
    blocks, numbers = units.weight * Z, units.weight * rho
    value = problem.relaxed_objective([blocks], numbers[:, None])
    bounds = 2 * units.weight * np.abs(Z).sum() * sizes(problem, np.full(N, levels - 1.0)).max()
    loss_size = problem.loss.value(np.full(problem.y.shape, bounds + 1.0) * -np.sign(problem.y), problem.y)
    expected = units.value * (normal.fit.value(normal.predictions(Z)) + normal.penalty * float(np.sum(rho)))
    assert value == pytest.approx(expected, rel=1e-11, abs=1e-12 * loss_size)
    for unit in dataclasses.astuple(units):
        assert math.frexp(unit)[0] == 0.5
    if loss.labels:
        assert units.prediction == 1.0
        np.testing.assert_array_equal(normal.target, problem.targets)


def sizes(problem: TrainingProblem, q: np.ndarray) -> np.ndarray:
    """|a| (|x|.q)^2 + |b| |x|.q + |c|, which bounds u' X_i v for |u|, |v| <= q."""
    a, b, c = (abs(value) for value in problem.map.coefficients)
    t = np.abs(problem.X) @ q[: problem.n_features]
    return a * t**2 + b * t + c


def test_cross_entropy_targets_are_never_scaled() -> None:
    problem = random_vector_problem(0, 3, 8, 3, "cross_entropy", beta=0.2)
    normal, units = Instance.from_problem(problem).normalised()
    assert units.prediction == units.value == 1.0
    assert normal.loss == CrossEntropy()
    np.testing.assert_array_equal(normal.target, problem.targets)


@pytest.mark.parametrize("activation", [None, "quadratic", "relu_like", "linear_quadratic", (0.0, 1.0, 0.0)])
@pytest.mark.parametrize("levels", [2, 128])
@pytest.mark.parametrize("scale", [1e-100, 1e97])
@pytest.mark.parametrize("target_scale", [1e-100, 1.0, 1e99])
def test_normalised_numbers_are_finite_at_the_limits(
    scale: float, target_scale: float, levels: int, activation: Any
) -> None:
    X, y = np.array([[1.0, 0.3], [0.2, 1.0], [0.5, 0.5]]), np.array([1.0, -0.5, 0.2])
    if activation not in {None, "quadratic"}:
        # Larger ones: the next test.
        scale = min(scale, 1e70)
    for beta in (5e-324, 1.0, 1e300, 1e308):
        problem = TrainingProblem(X * scale, y * target_scale, beta=beta, levels=levels, activation=activation)
        normal, units = Instance.from_problem(problem).normalised()
        assert all(math.isfinite(unit) and unit > 0 for unit in dataclasses.astuple(units)), units
        assert math.isfinite(normal.penalty)
        assert normal.penalty >= 0
        assert np.all(np.isfinite(normal.map.coefficients))
        assert 1e-6 < np.abs(normal.map.X).max() < 1e6
        if not problem.lifted:
            assert 1e-12 < normal.map.coefficients[0] * np.abs(normal.map.X).max() ** 2 < 1e12
        assert normal.map.mean_size() < 1e7
        assert 0.1 < np.abs(normal.target).max() < 10


@pytest.mark.parametrize("scale", [1e76, 1e77, 1e90, 1e99])
def test_lifts_of_the_largest_data_are_normalised(scale: float) -> None:
    # Data up to 1e100 are accepted, so that squares stay representable; fourth powers need care.
    X, y = np.array([[1.0, 0.3], [0.2, 1.0], [0.5, 0.5]]), np.array([1.0, -0.5, 0.2])
    normal, units = Instance.from_problem(TrainingProblem(X * scale, y, beta=0.1, activation="relu_like")).normalised()
    assert all(math.isfinite(unit) and unit > 0 for unit in dataclasses.astuple(units))
    assert normal.map.mean_size() < 1e7


@pytest.mark.parametrize("activation", [None, (0.5, -1.5, 0.75)])
@pytest.mark.parametrize("k", [-150, -3, 0, 7, 150])
def test_units_absorb_powers_of_two(k: int, activation: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((9, 3)), rng.standard_normal(9)

    def normalised(*arrays: np.ndarray, **options: Any) -> Any:
        return Instance.from_problem(TrainingProblem(*arrays, **options)).normalised()

    if activation is None:
        normal, units = normalised(X, y, beta=0.3)
        scaled, scaled_units = normalised(X * 2.0**k, y * 2.0**-k, beta=0.3 * 2.0**k)
        weight = 2.0 ** (-3 * k)
    else:
        # The activation takes the units of the data up.
        a, b, c = activation
        changed = (a * 4.0**-k, b * 2.0**-k, c)
        normal, units = normalised(X, y, beta=0.3, activation=activation)
        scaled, scaled_units = normalised(X * 2.0**k, y * 2.0**-k, beta=0.3 * 2.0**-k, activation=changed)
        weight = 2.0**-k
    np.testing.assert_array_equal(scaled.map.X, normal.map.X)
    np.testing.assert_array_equal(scaled.target, normal.target)
    assert scaled.map.coefficients == normal.map.coefficients
    assert scaled.penalty == normal.penalty
    assert scaled.loss == normal.loss
    assert scaled_units.weight == units.weight * weight
    assert scaled_units.prediction == units.prediction * 2.0**-k
    assert scaled_units.value == units.value * 4.0**-k


@every_loss
@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_normalising_zero_data(loss: Loss, activation: Any) -> None:
    y = np.array([1.0, -1.0])
    problem = TrainingProblem(np.zeros((2, 3)), y, beta=1.0, loss=loss, activation=activation)
    normal, _ = Instance.from_problem(problem).normalised()
    assert not normal.map.X.any()
    assert 0.0 < normal.penalty < math.inf
    if not loss.labels:
        normal, _ = Instance.from_problem(TrainingProblem(np.eye(2), np.zeros(2), beta=1.0, loss=loss)).normalised()
        assert not normal.target.any()


def test_predictions_and_adjoints_are_adjoint_for_several_outputs() -> None:
    problem = random_vector_problem(3, 3, 7, 4, "squared", beta=0.1, activation="relu_like", levels=3)
    instance = Instance.from_problem(problem)
    rng = np.random.default_rng(0)
    blocks, nu = rng.standard_normal((4, 4, 4)), rng.standard_normal((7, 4))
    # Predictions are twice the map.
    assert np.vdot(instance.predictions(blocks), nu) == pytest.approx(2 * np.vdot(blocks, instance.adjoints(nu)))
    assert instance.n_matrices == 4
    assert instance.size == 4


# -- reduction to N(N + 1)/2 rows ----------------------------------------------------------------------


def tall_problem(seed: int, d: int, kind: str, n_outputs: int = 0, **options: Any) -> TrainingProblem:
    """More rows than N(N + 1)/2; "deficient": equal and zero columns; "few": few different rows."""
    rng = np.random.default_rng(seed)
    n = (d + 1) * (d + 2) // 2 + 10
    X = rng.standard_normal((n, d))
    if kind == "deficient":
        X = np.c_[X[:, : d - 2], X[:, 0], np.zeros(n)]
    if kind == "few":
        X = X[rng.integers(0, 3, n)]
    y = rng.standard_normal((n, max(n_outputs, 1))) * 10.0 ** np.arange(-1, max(n_outputs, 1) - 1)
    return TrainingProblem(X, y if n_outputs else y[:, 0], **options)


VARIANTS = [
    {"activation": None, "levels": 2},
    {"activation": None, "levels": 4},
    {"activation": "relu_like", "levels": 2},
    {"activation": (-0.3, 1.0, 0.2), "levels": 3},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize(("kind", "n_outputs"), [("full", 0), ("deficient", 3), ("few", 3)])
def test_reduced_problems_have_the_same_optimal_value(n_outputs: int, kind: str, options: dict[str, Any]) -> None:
    vector = tall_problem(5, 3, kind, n_outputs, beta=0.4, **options)
    assert Reduction.applies(Instance.from_problem(vector))
    reduction = Reduction(Instance.from_problem(vector.output(0)).normalised()[0], vector.targets)
    for k in range(vector.n_outputs):
        problem = vector.output(k)
        normal, units = Instance.from_problem(problem).normalised()
        reduced = reduction.reduced(normal, units, k)
        p = problem.size * (problem.size + 1) // 2
        assert reduced.map.n_rows <= p < problem.n_samples
        if kind != "full":
            assert reduced.map.n_rows < p
        full, small = two_block(normal), two_block(reduced)
        expected = full.problem.solve(**ACCURATE)
        # Off the range of the map the target is a constant of the loss.
        first_, second = np.triu_indices(problem.size)
        F = np.stack([normal.map.adjoint(row)[first_, second] for row in np.eye(problem.n_samples)])
        F[:, first_ != second] *= 2.0
        residual = normal.target - F @ np.linalg.lstsq(F, normal.target, rcond=1e-9)[0]
        value = small.problem.solve(**ACCURATE)
        assert value + np.vdot(residual, residual) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@FUZZ
@given(
    seed=seeds,
    d=st.integers(2, 4),
    kind=st.sampled_from(["full", "deficient", "few"]),
    n_outputs=st.sampled_from([0, 2]),
    options=st.sampled_from(VARIANTS),
    beta=st.sampled_from([1e-3, 0.1, 10.0]),
)
def test_lifted_duals_have_the_same_matrix_and_complementary_residuals(
    seed: int, d: int, kind: str, n_outputs: int, options: dict[str, Any], beta: float
) -> None:
    vector = tall_problem(seed, d, kind, n_outputs, beta=beta, **options)
    reduction = Reduction(Instance.from_problem(vector.output(0)).normalised()[0], vector.targets)
    k = vector.n_outputs - 1
    normal, units = Instance.from_problem(vector.output(k)).normalised()
    reduced = reduction.reduced(normal, units, k)
    rng = np.random.default_rng(seed)
    nu = 2.0 * reduced.target + rng.standard_normal((reduced.map.n_rows, 1))
    lifted = reduction.lift_dual(nu, reduced, normal)
    assert lifted.shape == normal.target.shape
    M = reduced.map.adjoint(nu[:, 0])
    np.testing.assert_allclose(normal.map.adjoint(lifted[:, 0]), M, rtol=0, atol=1e-10 * (1 + np.abs(M).max()))
    # The maps agree up to a rotation of the rows, so norms of predictions and products with targets do.
    S = rng.standard_normal((vector.size, vector.size))
    one, other = normal.map.forward(S), reduced.map.forward(S)
    assert one @ one == pytest.approx(other @ other, rel=1e-9)
    assert one @ normal.target[:, 0] == pytest.approx(
        other @ reduced.target[:, 0], rel=1e-9, abs=1e-9 * np.linalg.norm(one)
    )
    # -l*(-nu) loses only what the reduction took off: the squared norm off the range.
    gain = -normal.loss.conjugate(-lifted, normal.target) + reduced.loss.conjugate(-nu, reduced.target)
    assert gain == pytest.approx(
        np.vdot(normal.target, normal.target) - np.vdot(reduced.target, reduced.target),
        rel=1e-8,
        abs=1e-8 * (1 + np.vdot(nu, nu)),
    )


def test_explicit_rows_are_adjoint_too() -> None:
    problem = tall_problem(1, 3, "full", beta=0.1, activation="relu_like")
    normal, units = Instance.from_problem(problem).normalised()
    reduced = Reduction(normal, problem.targets).reduced(normal, units, 0)
    rng = np.random.default_rng(0)
    S, nu = rng.standard_normal((4, 4)), rng.standard_normal(reduced.map.n_rows)
    assert reduced.map.forward(S) @ nu == pytest.approx(np.vdot(S, reduced.map.adjoint(nu)), rel=1e-12)
    np.testing.assert_allclose(reduced.map.forward(S), reduced.map.forward(S.T), rtol=1e-12)


@pytest.mark.parametrize(("loss", "pays"), [("squared", True), ("huber", False), ("absolute", False)])
def test_only_the_squared_loss_on_many_rows_is_reduced(loss: str, pays: bool) -> None:
    assert Reduction.applies(Instance.from_problem(random_problem(0, 3, 7, loss=loss))) is pays
    assert not Reduction.applies(Instance.from_problem(random_problem(0, 3, 6, loss=loss)))
    lifted = TrainingProblem(np.ones((7, 3)), np.ones(7), beta=1.0, loss=loss, activation="relu_like")
    assert not Reduction.applies(Instance.from_problem(lifted)), "10 rows for N = 4"


@pytest.mark.parametrize("kind", ["full", "deficient", "few"])
def test_bounds_and_points_of_reduced_solves_are_those_of_all_rows(kind: str) -> None:
    problem = tall_problem(7, 3, kind, beta=1e-3, activation="relu_like")
    relaxation = qsdp.solve_relaxation(problem, tol=1e-7)
    assert relaxation.status == "optimal"
    assert relaxation.rho > 0.0
    assert relaxation.dual.nu.shape == problem.y.shape
    nu, z = relaxation.dual.nu, relaxation.dual.z
    M = problem.map.adjoint(nu)
    for sign in (-1, 1):
        assert np.linalg.eigvalsh(np.diag(z) + sign * M)[0] >= -1e-12
    assert -problem.loss.conjugate(-nu, problem.y) == pytest.approx(relaxation.lower_bound, rel=1e-12)
