"""Several levels and lifted activations: section 3 of the theory, against enumeration of every neuron."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from brute_force import ACTIVATIONS, atoms, global_optimum, lifted_features, optimal_network, random_problem
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp import paper
from qsdp.losses import SCALAR_LOSSES
from qsdp.relaxation.backends import BACKENDS

pytestmark = [
    pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning"),
    pytest.mark.filterwarnings("ignore:Solution may be inaccurate"),
]

KRIVINE = np.pi / (2 * np.arcsinh(1.0))
ACCURATE = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}

#: Kinds of neurons whose atoms are few enough to enumerate: (d, levels, activation).
KINDS = st.one_of(
    st.tuples(st.integers(1, 3), st.sampled_from([3, 4]), st.none()),
    st.tuples(st.integers(1, 3), st.sampled_from([2, 3]), st.sampled_from(ACTIVATIONS)),
    st.tuples(st.integers(1, 2), st.just(4), st.sampled_from(ACTIVATIONS)),
)


@st.composite
def problems(draw: st.DrawFn) -> qsdp.TrainingProblem:
    d, levels, activation = draw(KINDS)
    return random_problem(
        draw(st.integers(0, 2**32 - 1)),
        d,
        draw(st.integers(2, 12)),
        loss=draw(st.sampled_from(sorted(SCALAR_LOSSES))),
        beta=draw(st.sampled_from([1e-3, 1e-2, 0.1, 1.0])),
        coarse=draw(st.booleans()),
        activation=activation,
        levels=levels,
    )


# -- the enumeration itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_enumerated_features_are_outputs_of_networks(activation: Any, levels: int) -> None:
    problem = random_problem(0, 2, 5, activation=activation, levels=levels)
    U, V = atoms(problem)
    one_side = levels**2 if problem.lifted else (levels**2 + 1) // 2
    assert len(U) == one_side * (one_side + 1) // 2
    features = lifted_features(problem)
    for j in np.random.default_rng(0).integers(0, len(U), 10):
        network = qsdp.BilinearNetwork(U[j : j + 1], V[j : j + 1], [1.0], levels=levels, activation=activation)
        np.testing.assert_allclose(network.predict(problem.X), features[:, j], rtol=1e-12, atol=1e-12)


# -- scaled columns instead of replicated ones -----------------------------------------------------------


@pytest.mark.parametrize("loss", sorted(SCALAR_LOSSES))
@pytest.mark.parametrize(("M", "activation"), [(2, None), (3, (0.4, 1.0, -0.3))])
def test_levels_equal_the_binary_problem_on_replicated_columns(M: int, activation: Any, loss: str) -> None:
    few = random_problem(M, 2, 8, loss=loss, beta=0.15 / M, activation=activation, levels=M + 1)
    replicated = qsdp.TrainingProblem(
        np.repeat(few.X, M, axis=1), few.y, beta=few.beta, loss=loss, activation=activation
    )
    assert few.dimension == replicated.dimension == 2 * M + few.lifted
    assert few.size == 2 + few.lifted
    expected = paper.two_block_program(replicated).problem.solve(**ACCURATE)
    assert paper.two_block_program(few).problem.solve(**ACCURATE) == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_the_printed_program_holds_for_levels_too() -> None:
    few = random_problem(1, 2, 8, beta=0.05, activation="relu_like", levels=3)
    replicated = qsdp.TrainingProblem(np.repeat(few.X, 2, axis=1), few.y, beta=few.beta, activation="relu_like")
    expected = paper.full_program(replicated).problem.solve(**ACCURATE)
    assert paper.full_program(few).problem.solve(**ACCURATE) == pytest.approx(expected, rel=1e-6)


# -- against enumeration ---------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(problem=problems(), n_neurons=st.integers(1, 40), seed=st.integers(0, 1000))
def test_bound_and_network_bracket_the_global_optimum(problem: qsdp.TrainingProblem, n_neurons: int, seed: int) -> None:
    optimum = global_optimum(problem)
    relaxation = qsdp.solve_relaxation(problem, solver="scs")
    assert relaxation.lower_bound <= optimum.upper
    assert relaxation.lower_bound <= relaxation.objective
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), n_neurons, seed)
    assert optimum.lower <= problem.objective(network)
    assert qsdp.certify(network, problem, relaxation).gap >= 0.0
    assert_feasible(relaxation)


def assert_feasible(relaxation: qsdp.Relaxation) -> None:
    (Z,), (V,), rho, problem = relaxation.Z[0], relaxation.V[0], relaxation.rho[0, 0], relaxation.problem
    K = np.block([[V, Z], [Z.T, V]])
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(K.diagonal(), np.full(len(K), rho))
    assert np.linalg.eigvalsh(K)[0] >= -1e-12 * max(rho, 1e-300)
    a, b, c = problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)
    X, d = (problem.levels - 1) * problem.X, problem.n_features
    prediction = 2 * a * np.einsum("ij,jk,ik->i", X, Z[:d, :d], X)
    if problem.lifted:
        prediction += 2 * b * (X @ Z[:d, d]) + 2 * c * Z[d, d]
    direct = problem.loss.value(prediction, problem.y) + 2.0 * problem.beta * problem.dimension * rho
    assert relaxation.objective == pytest.approx(direct, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(relaxation.predict(problem.X), prediction, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("loss", "levels", "activation"),
    [
        ("squared", 3, None),
        ("absolute", 4, None),
        ("logistic", 3, "relu_like"),
        ("squared_hinge", 2, (-0.5, 1.0, 0.25)),
        ("squared", 2, (-0.5, 1.0, 0.25)),
    ],
)
def test_the_bound_is_no_further_than_krivines_constant(levels: int, activation: Any, loss: str) -> None:
    problem = random_problem(11, 3, 14, loss=loss, beta=0.02, activation=activation, levels=levels)
    optimum = global_optimum(problem)
    relaxation = qsdp.solve_relaxation(problem)
    assert relaxation.lower_bound <= optimum.upper
    heavier = qsdp.TrainingProblem(
        problem.X, problem.y, beta=KRIVINE * problem.beta, loss=loss, activation=activation, levels=levels
    )
    assert optimum.lower <= qsdp.solve_relaxation(heavier).objective
    # A bound that has lost a factor (M or 2 in the regulariser, say) is far below.
    assert relaxation.lower_bound >= 0.7 * optimum.lower
    certificate = qsdp.certify(optimal_network(problem, optimum), problem, relaxation)
    assert certificate.objective == pytest.approx(optimum.upper, rel=1e-9)


@pytest.mark.parametrize("levels", [2, 4])
@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_duals_prove_the_bound_from_the_data(activation: Any, levels: int) -> None:
    problem = random_problem(9, 3, 20, beta=0.02, activation=activation, levels=levels)
    relaxation = qsdp.solve_relaxation(problem)
    nu, z = relaxation.dual.nu, relaxation.dual.z
    features = lifted_features(problem)
    assert np.abs(features.T @ nu).max() <= problem.beta * problem.dimension
    a, b, c = problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)
    X = (levels - 1) * problem.X
    M = a * X.T @ np.diag(nu) @ X
    if problem.lifted:
        M = np.block([[M, (0.5 * b * nu @ X)[:, None]], [0.5 * b * nu @ X, c * nu.sum()]])
    assert z.shape == (problem.size,)
    assert z.min() > 0
    assert z.sum() <= problem.beta * problem.dimension * (1 + 1e-12)
    for sign in (-1, 1):
        assert np.linalg.eigvalsh(np.diag(z) + sign * M)[0] >= -1e-11
    assert -problem.loss.conjugate(-nu, problem.y) == pytest.approx(relaxation.lower_bound, rel=1e-12)


def test_more_levels_never_have_a_larger_optimum_at_the_same_price() -> None:
    # Weights -3, -1, 1, 3 contain 3 times the binary ones; D grows by 3 while outputs grow by 9.
    binary = random_problem(2, 3, 12, beta=0.3)
    four = qsdp.TrainingProblem(binary.X, binary.y, beta=0.9, levels=4)
    assert four.beta * four.dimension == pytest.approx(9 * binary.beta * binary.dimension)
    assert global_optimum(four).lower <= global_optimum(binary).upper
    # The relaxations are equal: levels are columns times M.
    assert qsdp.solve_relaxation(four).objective == pytest.approx(qsdp.solve_relaxation(binary).objective, rel=1e-4)


@pytest.mark.parametrize("kind", ["random", "infinite", "absent"])
@pytest.mark.parametrize("activation", [None, "relu_like"])
def test_solvers_that_return_garbage_do_no_harm(activation: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = BACKENDS["scs"].solve
    rng = np.random.default_rng(0)

    def spoil(array: Any) -> Any:
        if kind == "absent" or array is None:
            return None
        return rng.standard_normal(np.shape(array)) if kind == "random" else np.full(np.shape(array), np.inf)

    def solve(instance: Any, options: Any) -> Any:
        raw = original(instance, options)
        return dataclasses.replace(raw, **{name: spoil(getattr(raw, name)) for name in ("Z", "V", "W", "nu", "z")})

    monkeypatch.setitem(BACKENDS, "scs", dataclasses.replace(BACKENDS["scs"], solve=solve))
    problem = random_problem(4, 2, 15, beta=0.02, activation=activation, levels=3)
    relaxation = qsdp.solve_relaxation(problem, solver="scs")
    assert relaxation.lower_bound <= global_optimum(problem).upper
    assert_feasible(relaxation)


# -- another number of levels without a solve ------------------------------------------------------------


@pytest.fixture
def no_solve(monkeypatch: pytest.MonkeyPatch) -> Any:
    """After a call every back end raises."""

    def forbid() -> None:
        def explode(*_: object) -> None:
            raise AssertionError("a solve started")

        for name, backend in BACKENDS.items():
            monkeypatch.setitem(BACKENDS, name, dataclasses.replace(backend, solve=explode))

    return forbid


@pytest.mark.parametrize(
    ("loss", "activation"), [("squared", None), ("squared", "relu_like"), ("logistic", "relu_like"), ("hinge", None)]
)
@pytest.mark.parametrize(("before", "after"), [(2, 3), (4, 2), (2, 128)])
def test_transferred_points_predict_the_same(
    before: int, after: int, activation: Any, loss: str, no_solve: Any
) -> None:
    problem = random_problem(6, 2, 15, loss=loss, beta=0.02, activation=activation, levels=before)
    relaxation = qsdp.solve_relaxation(problem)
    no_solve()
    moved = relaxation.with_levels(after)
    assert moved.problem == problem.with_levels(after)
    assert moved.solver == relaxation.solver
    assert moved.solver_status == "carried over"
    assert_feasible(moved)
    assert moved.lower_bound <= moved.objective
    if after <= 4:
        assert moved.lower_bound <= global_optimum(moved.problem).upper
    # A bound is left: the dual vector is scaled, by (M'/M)^2 at worst.
    assert moved.lower_bound > 0.0
    old, new = relaxation.predict(problem.X), moved.predict(problem.X)
    np.testing.assert_allclose(new, old, rtol=1e-9, atol=1e-9 * np.abs(old).max())
    # On other data, too.
    other = np.random.default_rng(0).standard_normal((5, 2))
    np.testing.assert_allclose(
        moved.predict(other), relaxation.predict(other), rtol=1e-9, atol=1e-9 * np.abs(old).max()
    )


def test_a_bilinear_problem_of_other_levels_and_matching_beta_keeps_everything() -> None:
    # Without a lift, columns times M with beta D -> M^2 beta D is the same problem.
    problem = random_problem(6, 3, 15, beta=0.05)
    relaxation = qsdp.solve_relaxation(problem)
    moved = relaxation.with_levels(3)
    # Twice D where four times the outputs: at the same beta the price is half.
    cheaper = qsdp.solve_relaxation(qsdp.TrainingProblem(problem.X, problem.y, beta=0.025))
    assert qsdp.solve_relaxation(moved.problem).objective == pytest.approx(cheaper.objective, rel=1e-4)


@pytest.mark.parametrize(("loss", "M"), [("squared", 2), ("hinge", 3), ("logistic", 7)])
def test_bilinear_levels_are_the_binary_problem_at_a_smaller_beta(M: int, loss: str) -> None:
    several, binary = (
        random_problem(3, 4, 25, loss, beta=beta, levels=levels) for beta, levels in ((0.7, M + 1), (0.7 / M, 2))
    )
    relaxed = [qsdp.solve_relaxation(one, tol=1e-6) for one in (several, binary)]
    # The methods' iterates round differently unless M is a power of two, so bounds are equal to the tolerance.
    assert relaxed[0].objective == pytest.approx(relaxed[1].objective, rel=1e-10)
    assert relaxed[0].lower_bound == pytest.approx(relaxed[1].lower_bound, rel=1e-10)
    proven = [qsdp.column_generation(one, tol=1e-6) for one in (several, binary)]
    assert np.all(np.abs(proven[0].network.U) == M)
    assert proven[0].objective == pytest.approx(proven[1].objective, rel=1e-12)
    assert proven[0].lower_bound == pytest.approx(proven[1].lower_bound, rel=1e-6)
    # The network of one is M times that of the other, with the same objective and certificate.
    small = proven[1].network
    large = qsdp.BilinearNetwork(M * small.U, M * small.V, small.alpha / M**2, levels=M + 1)
    assert several.objective(large) == pytest.approx(binary.objective(small), rel=1e-13)
    bounds = [qsdp.certify(*pair, bound_type="exact").lower_bound for pair in ((large, several), (small, binary))]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-12)


@pytest.mark.parametrize("M", [2, 3])
def test_levels_of_a_lift_are_larger_columns_and_not_a_smaller_beta(M: int) -> None:
    several = random_problem(3, 3, 25, beta=0.7, levels=M + 1, activation="relu_like")
    price = 0.7 * several.dimension / (several.n_features + 1)
    options = {"activation": several.activation}
    scaled = qsdp.TrainingProblem(M * several.X, several.y, beta=price, **options)
    smaller = qsdp.TrainingProblem(several.X, several.y, beta=0.7 / M, **options)
    optimum, same, other = (qsdp.column_generation(one, tol=1e-9) for one in (several, scaled, smaller))
    assert np.all(np.abs(optimum.network.U[:, :-1]) == M)
    assert optimum.objective == pytest.approx(same.objective, rel=1e-10)
    assert abs(optimum.objective - other.objective) > 1e-3 * other.objective


@settings(max_examples=25, deadline=None)
@given(problem=problems(), levels=st.sampled_from([2, 3]))
def test_transferred_bounds_hold(problem: qsdp.TrainingProblem, levels: int) -> None:
    moved = qsdp.solve_relaxation(problem).with_levels(levels)
    assert moved.lower_bound <= global_optimum(moved.problem).upper
    assert_feasible(moved)
