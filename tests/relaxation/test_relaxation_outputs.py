"""Vector outputs: separable and coupled losses against enumeration, proofs from the data, processes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from brute_force import ACTIVATIONS, global_optimum, lifted_features, random_vector_problem
from hypothesis import example, given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.losses import LOSSES, SCALAR_LOSSES
from qsdp.relaxation import best_dual_bound
from qsdp.relaxation.backends import BACKENDS

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")

KRIVINE = np.pi / (2 * np.arcsinh(1.0))
every_loss = pytest.mark.parametrize("loss", sorted(LOSSES))


@st.composite
def problems(draw: st.DrawFn) -> qsdp.TrainingProblem:
    d, levels, activation = draw(
        st.one_of(
            st.tuples(st.integers(1, 4), st.just(2), st.none()),
            st.tuples(st.integers(1, 2), st.just(3), st.sampled_from([None, *ACTIVATIONS])),
        )
    )
    return random_vector_problem(
        draw(st.integers(0, 2**32 - 1)),
        d,
        draw(st.integers(3, 10)),
        draw(st.sampled_from([2, 3])),
        loss=draw(st.sampled_from(["cross_entropy", *sorted(LOSSES)])),
        beta=draw(st.sampled_from([1e-3, 1e-2, 0.1, 1.0])),
        activation=activation,
        levels=levels,
    )


def assert_proven(relaxation: qsdp.Relaxation) -> None:
    """Recompute everything the relaxation says of itself, output by output, from the data."""
    problem = relaxation.problem
    C, N = problem.n_outputs, problem.size
    assert [len(part[0]) for part in (relaxation.Z, relaxation.V, relaxation.W)] == [C] * 3
    prediction = np.empty((problem.n_samples, C))
    for k, (Z, V, rho) in enumerate(zip(relaxation.Z[0], relaxation.V[0], relaxation.rho[:, 0], strict=True)):
        assert Z.shape == V.shape == (N, N)
        K = np.block([[V, Z], [Z.T, V]])
        np.testing.assert_array_equal(K.diagonal(), np.full(2 * N, rho))
        assert np.linalg.eigvalsh(K)[0] >= -1e-12 * max(rho, 1e-300)
        prediction[:, k] = 2 * problem.map.forward(Z)
    np.testing.assert_allclose(relaxation.predict(problem.X), prediction, rtol=1e-9, atol=1e-11)
    price = problem.beta * problem.dimension
    direct = problem.loss.value(prediction, problem.y) + 2 * price * relaxation.rho.sum()
    assert relaxation.objective == pytest.approx(direct, rel=1e-9, abs=1e-12)
    nu, z = relaxation.dual.nu, relaxation.dual.z
    assert nu.shape == problem.y.shape
    assert z.shape == (C, N)
    assert z.min() > 0
    proven = -problem.loss.conjugate(-nu, problem.y)
    # Outputs solved apart are proven apart, each less its own allowance for rounding.
    size = problem.y.size * problem.loss.value(np.zeros_like(problem.y), problem.y)
    assert proven == pytest.approx(relaxation.lower_bound, rel=1e-12, abs=1e-14 * size)
    assert relaxation.lower_bound <= proven
    for k in range(C):
        M = problem.map.adjoint(nu[:, k])
        for sign in (-1, 1):
            assert np.linalg.eigvalsh(np.diag(z[k]) + sign * M)[0] >= -1e-11 * max(1.0, np.abs(M).max())
        if nu[:, k].any():
            assert z[k].sum() <= price * (1 + 1e-12)


# -- against enumeration ---------------------------------------------------------------------------------


# Balanced classes on an activation that is constant: every matrix of the dual vector vanishes.
@example(
    problem=random_vector_problem(0, 1, 3, 3, "cross_entropy", beta=1e-3, activation=(0.0, 0.0, 1.0), levels=3),
    extra=0,
    seed=0,
)
@settings(max_examples=15, deadline=None)
@given(problem=problems(), extra=st.integers(0, 30), seed=st.integers(0, 1000))
def test_bound_and_network_bracket_the_global_optimum(problem: qsdp.TrainingProblem, extra: int, seed: int) -> None:
    optimum = global_optimum(problem)
    relaxation = qsdp.solve_relaxation(problem, solver="scs")
    assert relaxation.lower_bound <= optimum.upper
    assert relaxation.lower_bound <= relaxation.objective
    assert_proven(relaxation)
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), problem.n_outputs + extra, seed)
    assert optimum.lower <= problem.objective(network)
    assert qsdp.certify(network, problem, relaxation).gap >= 0.0


@pytest.mark.parametrize("loss", sorted(SCALAR_LOSSES))
@pytest.mark.parametrize("n_outputs", [2, 3])
def test_scalar_losses_separate(n_outputs: int, loss: str) -> None:
    problem = random_vector_problem(n_outputs, 3, 6, n_outputs, loss, beta=0.05)
    together = global_optimum(problem)
    apart = [global_optimum(problem.output(k)) for k in range(n_outputs)]
    assert together.lower <= sum(one.upper for one in apart)
    assert sum(one.lower for one in apart) <= together.upper
    relaxation = qsdp.solve_relaxation(problem)
    parts = [qsdp.solve_relaxation(problem.output(k)) for k in range(n_outputs)]
    assert relaxation.objective == pytest.approx(sum(part.objective for part in parts), rel=2e-6)
    assert relaxation.lower_bound == pytest.approx(sum(part.lower_bound for part in parts), rel=2e-6)
    for k, part in enumerate(parts):
        assert relaxation.rho[k] == pytest.approx(part.rho[0], rel=1e-3)
    assert relaxation.lower_bound <= together.upper
    assert_proven(relaxation)


def test_squared_outputs_with_many_rows_share_a_reduction() -> None:
    problem = random_vector_problem(5, 3, 40, 3, "squared", beta=0.01, activation="relu_like", levels=3)
    relaxation = qsdp.solve_relaxation(problem)
    assert relaxation.status == "optimal"
    assert_proven(relaxation)
    for k in range(3):
        part = qsdp.solve_relaxation(problem.output(k))
        assert problem.loss.value(relaxation.predict(problem.X)[:, k], problem.y[:, k]) == pytest.approx(
            problem.loss.value(part.predict(problem.X), problem.y[:, k]), rel=1e-3
        )
        assert relaxation.rho[k] == pytest.approx(part.rho[0], rel=1e-3)


@pytest.mark.parametrize(("levels", "activation"), [(2, None), (3, None), (2, "relu_like")])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_cross_entropy_bound_is_near_the_coupled_optimum(n_classes: int, levels: int, activation: Any) -> None:
    problem = random_vector_problem(
        8, 3, 12, n_classes, "cross_entropy", beta=0.02, levels=levels, activation=activation
    )
    optimum = global_optimum(problem)
    assert optimum.lower == pytest.approx(optimum.upper, rel=1e-5)
    relaxation = qsdp.solve_relaxation(problem)
    assert relaxation.status == "optimal"
    assert relaxation.lower_bound <= optimum.upper
    heavier = qsdp.TrainingProblem(
        problem.X, problem.y, beta=KRIVINE * 0.02, loss="cross_entropy", levels=levels, activation=activation
    )
    assert optimum.lower <= qsdp.solve_relaxation(heavier).objective
    assert relaxation.lower_bound >= 0.8 * optimum.lower
    assert_proven(relaxation)
    # The largest price over all neurons, from the data.
    prices = np.abs(lifted_features(problem).T @ relaxation.dual.nu)
    assert prices.max() <= problem.beta * problem.dimension


def test_cross_entropy_of_two_classes_is_the_logistic_loss_of_the_difference() -> None:
    # |a_1| + |a_0| >= |a_1 - a_0| with equality where one is zero: the same optimum.
    problem = random_vector_problem(3, 3, 14, 2, "cross_entropy", beta=0.05)
    signs = problem.y[:, 1] - problem.y[:, 0]
    logistic = qsdp.TrainingProblem(problem.X, signs, beta=0.05, loss="logistic")
    one, other = global_optimum(problem), global_optimum(logistic)
    assert one.upper == pytest.approx(other.upper, rel=1e-6)
    relaxations = [qsdp.solve_relaxation(p, tol=1e-8) for p in (problem, logistic)]
    assert relaxations[0].objective == pytest.approx(relaxations[1].objective, rel=1e-5)
    assert relaxations[0].lower_bound == pytest.approx(relaxations[1].lower_bound, rel=1e-5)


@pytest.mark.parametrize("solver", ["scs", "clarabel"])
def test_solvers_agree_on_cross_entropy(solver: str) -> None:
    problem = random_vector_problem(4, 3, 12, 3, "cross_entropy", beta=0.05)
    reference = qsdp.solve_relaxation(problem, tol=1e-8)
    other = qsdp.solve_relaxation(problem, solver=solver, tol=1e-8)
    assert other.solver == solver
    assert other.objective == pytest.approx(reference.objective, rel=1e-5)
    assert other.lower_bound == pytest.approx(reference.objective, rel=1e-4)


@every_loss
def test_one_column_is_a_vector_of_length_one(loss: str) -> None:
    if loss == "cross_entropy":
        with pytest.raises(InvalidInputError, match="two classes or more"):
            qsdp.TrainingProblem(np.eye(3), np.ones((3, 1)), beta=1.0, loss=loss)
        return
    problem = random_vector_problem(2, 3, 10, 1, loss, beta=0.05)
    scalar = problem.output(0)
    assert not problem.scalar
    assert scalar.scalar
    relaxation, plain = qsdp.solve_relaxation(problem), qsdp.solve_relaxation(scalar)
    assert relaxation.objective == plain.objective
    assert relaxation.predict(problem.X).shape == (10, 1)
    assert plain.predict(problem.X).shape == (10,)
    assert_proven(relaxation)


# -- outputs of other scale, zero outputs, garbage ---------------------------------------------------------


def test_outputs_may_differ_in_scale_by_any_factor() -> None:
    plain = random_vector_problem(3, 3, 12, 3, "squared", beta=0.05)
    y = plain.y * np.array([1e-60, 1.0, 1e60])
    relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(plain.X, y, beta=1e-9))
    # Each output has its own units: what is large is fitted, what is small is zero at this price.
    assert relaxation.rho[0, 0] == 0.0
    assert relaxation.rho[2, 0] > 1e50
    assert_proven(relaxation)


@every_loss
def test_zero_and_constant_outputs_do_no_harm(loss: str) -> None:
    if loss == "cross_entropy" or LOSSES[loss].labels:
        return
    plain = random_vector_problem(3, 3, 12, 3, loss, beta=0.01)
    y = plain.y.copy()
    y[:, 0], y[:, 1] = 0.0, 2.0
    relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(plain.X, y, beta=0.01, loss=loss))
    assert relaxation.rho[0, 0] == 0.0
    assert relaxation.status == "optimal"
    assert_proven(relaxation)


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@pytest.mark.parametrize("kind", ["random", "infinite", "absent"])
def test_solvers_that_return_garbage_do_no_harm(kind: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = BACKENDS["scs"].solve
    rng = np.random.default_rng(0)

    def spoil(array: Any) -> Any:
        if kind == "absent" or array is None:
            return None
        return 1e3 * rng.standard_normal(np.shape(array)) if kind == "random" else np.full(np.shape(array), np.inf)

    def solve(instance: Any, options: Any) -> Any:
        raw = original(instance, options)
        return dataclasses.replace(raw, **{name: spoil(getattr(raw, name)) for name in ("Z", "V", "W", "nu", "z")})

    monkeypatch.setitem(BACKENDS, "scs", dataclasses.replace(BACKENDS["scs"], solve=solve))
    problem = random_vector_problem(4, 2, 9, 3, loss, beta=0.05, activation="relu_like")
    relaxation = qsdp.solve_relaxation(problem, solver="scs")
    assert relaxation.lower_bound <= global_optimum(problem).upper
    assert_proven(relaxation)


@every_loss
@pytest.mark.parametrize("after", [3, 4])
def test_levels_change_without_a_solve(after: int, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_vector_problem(5, 2, 10, 2, loss, beta=0.02)
    relaxation = qsdp.solve_relaxation(problem)
    for name, backend in BACKENDS.items():
        monkeypatch.setitem(BACKENDS, name, dataclasses.replace(backend, solve=None))
    moved = relaxation.with_levels(after)
    assert_proven(moved)
    assert moved.lower_bound <= global_optimum(moved.problem).upper
    old, new = relaxation.predict(problem.X), moved.predict(problem.X)
    np.testing.assert_allclose(new, old, rtol=1e-9, atol=1e-9 * np.abs(old).max())


# -- processes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [12, 40])
def test_processes_give_the_same_result(n: int) -> None:
    # n = 40 goes through the reduction to N(N + 1)/2 rows.
    problem = random_vector_problem(6, 3, n, 3, "squared", beta=0.05, activation="relu_like", levels=3)
    alone, shared = (qsdp.solve_relaxation(problem, n_jobs=n_jobs) for n_jobs in (None, 2))
    assert (shared.objective, shared.lower_bound) == (alone.objective, alone.lower_bound)
    for name in ("Z_stack", "V_stack", "rho_stack"):
        np.testing.assert_array_equal(getattr(shared, name), getattr(alone, name))
    np.testing.assert_array_equal(shared.dual.nu, alone.dual.nu)
    np.testing.assert_array_equal(shared.dual.z, alone.dual.z)
    assert (shared.status, shared.solver, shared.iterations) == (alone.status, alone.solver, alone.iterations)


# -- targets -----------------------------------------------------------------------------------------------


def test_class_numbers_equal_one_hot_rows() -> None:
    X = np.random.default_rng(0).standard_normal((9, 3))
    labels = np.arange(9) % 3
    numbers = qsdp.TrainingProblem(X, labels, beta=0.05, loss="cross_entropy")
    one_hot = qsdp.TrainingProblem(X, np.eye(3)[labels], beta=0.05, loss="cross_entropy")
    assert numbers == one_hot
    assert not numbers.scalar
    assert numbers.n_outputs == 3
    np.testing.assert_array_equal(numbers.y, np.eye(3)[labels])
    one, other = (qsdp.solve_and_sample(X, y, 7, 0.05, "cross_entropy", random_state=0) for y in (labels, one_hot.y))
    assert one.certificate == other.certificate
    np.testing.assert_array_equal(one.network.alpha, other.network.alpha)


MIXED_UP: dict[str, tuple[str, Any, str]] = {
    "labels -1 and +1": ("cross_entropy", [-1, 1, 1, -1, 1, -1], r"class numbers 0, 1, .*found -1, 1"),
    "real targets": ("cross_entropy", [0.5, 1.25, 2, 0, 1, 2], r"class numbers"),
    "a class is missing": ("cross_entropy", [0, 2, 2, 0, 2, 0], r"each of them present.*found 0, 2"),
    "classes start at one": ("cross_entropy", [1, 2, 3, 1, 2, 3], r"class numbers 0, 1"),
    "one class": ("cross_entropy", [0, 0, 0, 0, 0, 0], r"two classes or more"),
    "a column without a sample": ("cross_entropy", np.eye(4)[[0, 1, 2, 0, 1, 2]], r"missing: \[3\]"),
    "two ones in a row": ("cross_entropy", np.ones((6, 2)), r"one-hot rows"),
    "probabilities": ("cross_entropy", np.full((6, 2), 0.5), r"one-hot rows"),
    "rows of -1 and +1": ("cross_entropy", 2 * np.eye(2)[[0, 1, 0, 1, 0, 1]] - 1, r"one-hot rows"),
    "a row of zeros": ("cross_entropy", np.eye(3)[[0, 1, 2, 0, 1, 2]] * [[1], [1], [1], [1], [1], [0]], r"one-hot"),
    "one-hot rows for hinge": ("hinge", np.eye(2)[[0, 1, 0, 1, 0, 1]], r"labels -1 and \+1"),
    "one-hot rows for logistic": ("logistic", np.eye(3)[[0, 1, 2, 0, 1, 2]], r"labels -1 and \+1"),
    "class numbers for logistic": ("logistic", [0, 1, 2, 0, 1, 2], r"labels -1 and \+1"),
    "one label in one column": ("squared_hinge", [[1, 1], [1, -1], [1, 1], [1, -1], [1, 1], [1, 1]], r"labels -1"),
    "three dimensions": ("squared", np.ones((6, 2, 2)), r"\(6, 2, 2\)"),
    "no column": ("squared", np.ones((6, 0)), r"\(6, 0\)"),
    "fewer rows": ("squared", np.ones((5, 2)), r"6 entries.*got 5"),
    "transposed": ("squared", np.ones((2, 6)), r"6 entries.*got 2"),
}


@pytest.mark.parametrize(("loss", "y", "message"), MIXED_UP.values(), ids=MIXED_UP.keys())
def test_mixed_up_targets_are_refused(loss: str, y: Any, message: str) -> None:
    X = np.random.default_rng(0).standard_normal((6, 2))
    with pytest.raises(InvalidInputError, match=message) as caught:
        qsdp.TrainingProblem(X, y, beta=0.1, loss=loss)
    assert "y must" in str(caught.value)


@pytest.mark.parametrize("size", [1e3, 1e15, 1e17, 1e100, 1e300])
def test_bounds_of_huge_duals_are_valid(size: float) -> None:
    problem = random_vector_problem(0, 3, 8, 3, "cross_entropy", beta=0.05)
    rng = np.random.default_rng(0)
    for nu in (np.full((8, 3), size), np.full((8, 3), -size), size * rng.standard_normal((8, 3))):
        bound = best_dual_bound(problem, [nu])
        assert 0.0 <= bound.value <= problem.loss.value(np.zeros((8, 3)), problem.y)


def test_relaxed_objective_of_several_outputs() -> None:
    problem = random_vector_problem(0, 3, 6, 2, "huber", beta=0.3)
    rng = np.random.default_rng(0)
    Z, rho = rng.standard_normal((2, 3, 3)), [[0.5], [1.5]]
    prediction = np.stack([[2 * x @ block @ x for x in problem.X] for block in Z], axis=1)
    expected = problem.loss.value(prediction, problem.y)
    assert problem.relaxed_objective([Z], rho) == pytest.approx(expected + 2.0 * 0.3 * 3 * 2.0, rel=1e-12)
    for bad_Z, bad_rho in (([Z[:1]], rho), ([Z], rho[:1]), ([[*Z, Z[0]]], [*rho, [1.0]]), (Z, rho)):
        with pytest.raises(InvalidInputError, match=r"^(Z|rho) must"):
            problem.relaxed_objective(bad_Z, bad_rho)
