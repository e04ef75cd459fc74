"""Column generation: the optimum of enumerated problems, proofs recomputed, and how the loop may end."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from brute_force import (
    ACTIVATIONS,
    Optimum,
    global_optimum,
    optimal_network,
    random_neurons,
    random_problem,
    random_vector_problem,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.data.uci_sets import load_uci
from qsdp import BilinearNetwork, TrainingProblem, datasets, solve_relaxation
from qsdp._utils import deadline
from qsdp.certificates import certificate_of
from qsdp.certificates.proof import proven_bound
from qsdp.column_generation import ColumnGenerationResult, column_generation
from qsdp.column_generation.loop import Round
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import SCALAR_LOSSES
from qsdp.pricing import BilinearOracle, OracleResult
from qsdp.refinement.refitting import refit

#: A RuntimeWarning of NumPy is a leak.
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

#: Modules by way of `sys.modules`: the attribute of `qsdp` is the function.
SOLVE, GENERATOR = (sys.modules[f"qsdp.column_generation.{name}"] for name in ("train", "generator"))


def at_zero(problem: TrainingProblem) -> float:
    return problem.loss.value(np.zeros_like(problem.y), problem.y)


def check_valid(result: ColumnGenerationResult, problem: TrainingProblem, optimum: Optimum | None = None) -> None:
    """What holds however the loop ended: the certificate's numbers are those of network and proof."""
    network, certificate = result.network, result.certificate
    assert isinstance(network, BilinearNetwork)
    assert (network.levels, network.activation) == (problem.levels, problem.activation)
    assert result.problem is problem
    assert certificate.objective == problem.objective(network) == result.objective
    assert 0.0 <= certificate.lower_bound == result.lower_bound
    assert result.gap == result.objective - result.lower_bound
    # No more than rounding above.
    assert result.lower_bound <= result.objective * (1 + 1e-12)
    proof = certificate.proof
    assert proof is not None
    assert proof.problem is problem
    assert proof.network is network
    again = certificate_of(problem, network, proof.nu, proof.trees, certificate.bound_type)
    assert again.lower_bound >= certificate.lower_bound * (1 - 1e-9) - 1e-12 * at_zero(problem)
    if optimum is not None:
        assert result.lower_bound <= optimum.upper
        assert result.objective >= optimum.lower * (1 - 1e-12)
    check_history(result)


def check_history(result: ColumnGenerationResult) -> None:
    history = result.history
    assert result.rounds == len(history)
    assert [one.number for one in history] == list(range(1, len(history) + 1))
    for one in history:
        assert one.relative_gap == pytest.approx((one.objective - one.lower_bound) / (one.objective or 1.0), abs=1e-12)
        assert 0 <= one.n_neurons <= one.n_columns
        assert one.seconds >= 0.0
    assert result.seconds > 0.0


def check_optimal(result: ColumnGenerationResult, problem: TrainingProblem, optimum: Optimum | None = None) -> None:
    check_valid(result, problem, optimum)
    assert result.status == "optimal"
    assert result.certificate.bound_type == "exact"
    assert result.relative_gap <= 1.1e-8 + 1e-13 * at_zero(problem) / (result.objective or 1.0)
    bounds = [one.lower_bound for one in result.history]
    if problem.scalar or problem.loss.coupled:
        assert np.all(np.diff(bounds) >= 0.0)
    alpha = result.network.alpha.reshape(result.network.n_neurons, -1)
    assert np.all((alpha != 0.0).sum(axis=0) <= problem.n_samples)
    # No neuron without use, but the one of the network that is zero.
    assert result.network.n_neurons == 1 or np.all(np.any(alpha, axis=1))
    # The largest levels suffice.
    for side in (result.network.U, result.network.V):
        assert np.all(np.abs(side[:, : problem.n_features]) == problem.levels - 1)
    if optimum is not None:
        assert result.objective == pytest.approx(optimum.upper, rel=1e-7, abs=1e-9 * at_zero(problem))


def solve(problem: TrainingProblem, **options: Any) -> ColumnGenerationResult:
    return column_generation(problem, **{"tol": 1e-8, **options})


@pytest.fixture
def expensive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat pricing problems of any size like those that take long to prove."""
    monkeypatch.setattr(GENERATOR, "_CHEAP", 0)


# -- against enumeration -------------------------------------------------------------------------------

SIZES = [1, 3, 8, 20, 60]


@pytest.mark.parametrize("coarse", [False, True], ids=["Gaussian", "coarse"])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_optimum_of_the_squared_loss(d: int, coarse: bool) -> None:
    for seed in range(5 if d < 5 else 2):
        n, beta = SIZES[seed % 5], [1e-3, 0.1, 2.0][seed % 3]
        problem = random_problem(seed, d, n, beta=beta, coarse=coarse)
        check_optimal(solve(problem), problem, global_optimum(problem))


def test_optimum_of_six_columns() -> None:
    problem = random_problem(0, 6, 25, beta=0.3)
    check_optimal(solve(problem), problem, global_optimum(problem))


@pytest.mark.parametrize("coarse", [False, True], ids=["Gaussian", "coarse"])
@pytest.mark.parametrize("loss", sorted(SCALAR_LOSSES.keys() - {"squared"}))
def test_optimum_of_other_losses(loss: str, coarse: bool) -> None:
    for seed in range(3):
        n, beta = [2, 10, 30][seed], [1e-2, 0.1, 1.0][seed]
        problem = random_problem(seed, 2 + seed % 3, n, loss, beta=beta, coarse=coarse)
        check_optimal(solve(problem), problem, global_optimum(problem))


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS], ids=str)
def test_optimum_of_levels_and_activations(activation: Any, levels: int) -> None:
    for seed, loss in list(enumerate(["squared", "squared", "logistic", "absolute"]))[levels % 2 :: 2]:
        problem = random_problem(
            seed, 2, [7, 30, 12, 9][seed], loss, beta=0.05, coarse=seed == 1, activation=activation, levels=levels
        )
        # Over all levels, not the largest alone.
        check_optimal(solve(problem), problem, global_optimum(problem))


def test_optimum_of_three_columns_and_levels() -> None:
    problem = random_problem(4, 3, 15, beta=0.05, levels=3, activation="relu_like")
    check_optimal(solve(problem), problem, global_optimum(problem))


@pytest.mark.parametrize("loss", ["squared", "huber", "hinge", "cross_entropy"])
def test_optimum_of_several_outputs(loss: str) -> None:
    for seed in range(4):
        options: dict[str, Any] = [{}, {"activation": "relu_like"}, {"levels": 3}, {}][seed]
        problem = random_vector_problem(seed, 3 - seed % 2, [10, 12, 7, 40][seed], 3, loss, beta=0.05, **options)
        result = solve(problem)
        check_optimal(result, problem, global_optimum(problem))
        assert result.network.alpha.shape[1] == 3


@pytest.mark.usefixtures("expensive")
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "hinge"])
def test_searched_pricing_values_lead_to_the_same_optimum(loss: str) -> None:
    for seed in range(4):
        options: dict[str, Any] = [{}, {"activation": "relu_like"}, {"levels": 3}, {}][seed]
        problem = random_problem(seed, 3, [8, 10, 20, 40][seed], loss, beta=0.1, coarse=seed == 3, **options)
        check_optimal(solve(problem), problem, global_optimum(problem))


@pytest.mark.usefixtures("expensive")
@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_searched_pricing_values_of_several_outputs(loss: str) -> None:
    problem = random_vector_problem(0, 3, 15, 3, loss, beta=0.05)
    check_optimal(solve(problem), problem, global_optimum(problem))


def test_bounds_recomputed_from_proofs() -> None:
    for seed, (loss, activation) in enumerate(
        [("squared", None), ("logistic", "relu_like"), ("absolute", "quadratic")]
    ):
        problem = random_problem(seed, 3, 12, loss, beta=0.1, activation=activation)
        result = solve(problem)
        proof = result.certificate.proof
        assert proof is not None
        assert proven_bound(problem, proof.nu, proof.trees)[0] >= result.objective * (1 - 1e-7)


def test_one_sample_and_one_column_by_hand() -> None:
    # (4 a - 2)^2 + 0.5 a is least at 8 (4 a - 2) = -0.5.
    problem = TrainingProblem([[2.0]], [2.0], beta=0.5)
    result = solve(problem)
    check_optimal(result, problem)
    a = 0.5 - 1.0 / 64.0
    assert result.network.predict([[1.0]]) == pytest.approx([a], rel=1e-5)
    assert result.objective == pytest.approx((4 * a - 2) ** 2 + 0.5 * a, rel=1e-8)


@pytest.mark.parametrize("loss", [*SCALAR_LOSSES, "cross_entropy"])
def test_zero_is_proven_optimal_where_weights_cost_too_much(loss: str) -> None:
    for beta in (1e3, 1e12):
        problem = (
            random_vector_problem(0, 3, 10, 3, loss, beta=beta)
            if loss == "cross_entropy"
            else random_problem(0, 3, 10, loss, beta=beta)
        )
        result = solve(problem)
        check_optimal(result, problem)
        assert not np.any(result.network.alpha)
        assert result.network.n_neurons == 1
        assert result.objective == at_zero(problem)
        assert result.lower_bound == pytest.approx(result.objective, rel=1e-8)


def test_targets_and_data_of_zero() -> None:
    X = np.random.default_rng(0).standard_normal((6, 3))
    for data, y in [(X, np.zeros(6)), (np.zeros((6, 3)), X[:, 0]), (np.zeros((20, 3)), np.ones(20))]:
        problem = TrainingProblem(data, y, beta=0.1)
        result = solve(problem)
        check_optimal(result, problem)
        assert not np.any(result.network.alpha)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_of_data_and_targets(unit: float) -> None:
    problem = random_problem(3, 4, 20, beta=0.2)
    # Weights are divided by the unit; the objective is multiplied by its square.
    changed = TrainingProblem(unit * problem.X, unit * problem.y, beta=unit**3 * problem.beta)
    result = solve(changed)
    check_optimal(result, changed)
    assert result.objective == pytest.approx(unit**2 * solve(problem).objective, rel=1e-7)


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "hinge", "squared_hinge"])
def test_data_of_heavy_tails(loss: str) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_t(1.5, size=(25, 4)), rng.choice([-1.0, 1.0], size=25)
        problem = TrainingProblem(X, y, beta=0.05, loss=loss)
        result = column_generation(problem)
        check_valid(result, problem)
        assert (result.status, result.certificate.bound_type) == ("optimal", "exact")
        assert result.relative_gap <= 1e-6


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "hinge"])
def test_weights_that_cost_next_to_nothing(loss: str) -> None:
    for seed, n in enumerate([12, 30, 60]):
        problem = random_problem(seed + 1, 3, n, loss, beta=1e-7)
        result = column_generation(problem)
        check_valid(result, problem)
        assert (result.status, result.certificate.bound_type) == ("optimal", "exact")
        assert result.relative_gap <= 1e-6


# -- known and larger problems -------------------------------------------------------------------------


def test_the_known_optimum_of_breast_cancer(uci_available: None) -> None:
    X, _, y, _ = load_uci("breast-cancer").split(0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    problem = TrainingProblem(np.hstack([X, np.ones((len(X), 1))]), y, beta=10.0)
    assert problem.X.shape == (228, 10)
    result = column_generation(problem)
    check_valid(result, problem)
    assert result.status == "optimal"
    assert result.certificate.bound_type == "exact"
    assert result.relative_gap <= 1e-6
    assert result.objective == pytest.approx(138.83095, abs=2e-4)
    assert result.lower_bound == pytest.approx(138.83095, abs=2e-4)
    # The forms of ten columns have 55 entries.
    assert result.network.n_neurons <= 55


def test_twenty_columns() -> None:
    X, y = datasets.make_planted(n=60, d=20, n_neurons=5, noise=0.1, random_state=0)
    problem = TrainingProblem(X, y, beta=1.0)
    result = column_generation(problem)
    check_valid(result, problem)
    assert (result.status, result.certificate.bound_type) == ("optimal", "exact")
    assert result.relative_gap <= 1e-6
    assert result.network.n_neurons <= 60
    # A relaxation proves less, and no network of many neurons is better.
    assert solve_relaxation(problem).lower_bound < result.objective
    U, V = random_neurons(np.random.default_rng(0), 3000, problem)
    sampled = refit(BilinearNetwork(U, V, np.full(3000, 1e-3)), problem)
    assert problem.objective(sampled) > result.lower_bound


def test_thirty_columns() -> None:
    X, y = datasets.make_planted(n=40, d=30, n_neurons=1, noise=0.1, random_state=0)
    problem = TrainingProblem(X, y, beta=10.0)
    result = column_generation(problem)
    check_valid(result, problem)
    assert (result.status, result.certificate.bound_type) == ("optimal", "exact")
    assert result.relative_gap <= 1e-6


# -- what is given -------------------------------------------------------------------------------------


def test_a_relaxation_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(2, 4, 20, beta=0.2)
    relaxation = solve_relaxation(problem)
    optimum = global_optimum(problem)
    result = solve(problem, relaxation=relaxation)
    check_optimal(result, problem, optimum)
    # Its bound is the first one.
    assert result.history[0].lower_bound >= relaxation.lower_bound * (1 - 1e-9)
    monkeypatch.setattr(GENERATOR, "_CHEAP", 0)
    monkeypatch.setattr(SOLVE, "solve_relaxation", None)
    check_optimal(solve(problem, relaxation=relaxation), problem, optimum)


@pytest.mark.parametrize("levels", [2, 3])
def test_a_network_may_be_given(levels: int) -> None:
    problem = random_problem(2, 3, 20, beta=0.2, levels=levels)
    optimum = global_optimum(problem)
    best = refit(optimal_network(problem, optimum), problem)
    rng = np.random.default_rng(0)
    U, V = random_neurons(rng, 4, problem)
    poor = BilinearNetwork(U, V, [1.0, 2.0, -1.0, 0.0], levels=levels)
    for relaxation in (None, solve_relaxation(problem)):
        for start in (best, poor):
            check_optimal(solve(problem, start=start, relaxation=relaxation), problem, optimum)


def test_an_optimal_network_given_is_recognised_at_once() -> None:
    problem = random_problem(2, 5, 30, beta=0.5)
    alone = solve(problem)
    started = solve(problem, start=alone.network)
    assert alone.history[0].objective == at_zero(problem)
    assert started.history[0].objective < 1.02 * alone.objective
    assert started.rounds < alone.rounds


@pytest.mark.parametrize("loss", ["squared", "hinge", "cross_entropy"])
def test_a_result_given_keeps_its_bound_and_its_network(loss: str) -> None:
    coupled = loss == "cross_entropy"
    problem = random_vector_problem(0, 3, 15, 3, loss, beta=0.05) if coupled else random_problem(2, 3, 20, loss)
    optimum = global_optimum(problem)
    first = solve(problem)
    again = solve(problem, start=first)
    assert again.lower_bound >= first.lower_bound
    assert again.objective <= first.objective
    check_optimal(again, problem, optimum)
    # Without time, only what was known before is left.
    stopped = column_generation(problem, start=first, time_limit=1e-9)
    assert stopped.lower_bound >= first.lower_bound
    assert stopped.objective <= first.objective
    assert stopped.certificate.bound_type == first.certificate.bound_type


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_a_result_for_another_beta_gives_a_bound(factor: float) -> None:
    problem = random_problem(2, 4, 30, beta=0.3)
    first = solve(problem)
    other = problem.with_beta(factor * 0.3)
    stopped = column_generation(other, start=first, time_limit=1e-9)
    optimum = global_optimum(other)
    # The dual vector, scaled to the new penalty, proves part of the optimum, and never more.
    assert 0.2 * optimum.lower < stopped.lower_bound <= optimum.upper
    check_optimal(solve(other, start=first), other, optimum)


def test_a_result_of_other_data_is_refused() -> None:
    first = solve(random_problem(2, 3, 20, beta=0.2))
    with pytest.raises(InvalidInputError, match="start must be the result"):
        column_generation(random_problem(3, 3, 20, beta=0.2), start=first)


@pytest.mark.usefixtures("expensive")
def test_seeds_reproduce() -> None:
    problem = random_problem(2, 5, 20, beta=0.1)
    first, second = (solve(problem, random_state=3) for _ in range(2))
    assert np.array_equal(first.network.U, second.network.U)
    assert np.array_equal(first.network.alpha, second.network.alpha)
    assert first.certificate == second.certificate
    for state in (None, np.random.default_rng(0), np.random.RandomState(0)):
        assert solve(problem, random_state=state).objective == pytest.approx(first.objective, rel=1e-7)


# -- how it ends ---------------------------------------------------------------------------------------

ENDING: list[TrainingProblem] = [
    random_problem(2, 5, 20, beta=0.1),
    random_problem(2, 3, 20, "logistic", beta=0.1, activation="relu_like", levels=3),
    random_vector_problem(0, 4, 15, 3, "squared", beta=0.05),
    random_vector_problem(0, 4, 15, 3, "cross_entropy", beta=0.05),
]


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # Over for the loop, and without a limit for what it calls.
    ended = SimpleNamespace(**{**vars(deadline), "over": lambda: True})
    for name in ("loop", "generator"):
        monkeypatch.setattr(sys.modules[f"qsdp.column_generation.{name}"], "deadline", ended)


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("problem", ENDING, ids=repr)
def test_time_that_is_over(problem: TrainingProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    for cheap in (28, 0):
        monkeypatch.setattr(GENERATOR, "_CHEAP", cheap)
        result = solve(problem)
        check_valid(result, problem)
        assert result.status == "time limit"
        assert result.objective <= at_zero(problem)
        # A round an output.
        separable = not problem.scalar and not problem.loss.coupled
        assert result.rounds == (problem.n_outputs if separable else 1)
        if cheap == 0:
            # Nothing but the relaxation proves anything.
            assert result.certificate.bound_type == "sdp"
            assert result.lower_bound >= solve_relaxation(problem).lower_bound * (1 - 1e-6)


@pytest.mark.parametrize("problem", ENDING, ids=repr)
def test_time_limits(problem: TrainingProblem) -> None:
    optimum = solve(problem).objective
    for limit in (1e-9, 1e-3, 1e-2):
        result = solve(problem, time_limit=limit)
        check_valid(result, problem)
        assert result.status in {"time limit", "optimal"}
        assert result.lower_bound <= optimum
        assert result.objective >= optimum * (1 - 1e-7)
    assert solve(problem).objective == pytest.approx(optimum, rel=1e-7)


@pytest.mark.parametrize("problem", ENDING, ids=repr)
def test_the_round_in_which_time_ends_is_the_last(problem: TrainingProblem) -> None:
    def end(one: Round) -> None:
        if one.number == 2:
            limit.expire()

    optimum = solve(problem).objective
    with deadline.after(None) as limit:
        result = solve(problem, callback=end)
    check_valid(result, problem)
    assert result.status == "time limit"
    assert sum(one.output == 0 for one in result.history) == 2
    assert result.lower_bound <= optimum
    assert optimum * (1 - 1e-7) <= result.objective <= at_zero(problem)


@pytest.mark.usefixtures("expensive")
def test_without_a_limit_the_speed_of_the_machine_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(2, 8, 40, beta=0.05)
    results = [solve(problem)]
    for tick in (0.0, 1e4):
        clock = itertools.count()
        monkeypatch.setattr("qsdp._utils.deadline.time.monotonic", lambda: tick * next(clock))  # noqa: B023
        results.append(solve(problem))
    histories = [[dataclasses.replace(one, seconds=0.0) for one in result.history] for result in results]
    assert histories[0] == histories[1] == histories[2]
    assert len({result.lower_bound for result in results}) == 1


def stop_after(rounds: int) -> Callable[[Round], None]:
    def callback(one: Round) -> None:
        if one.number >= rounds:
            raise KeyboardInterrupt

    return callback


def test_cutting_planes_raise_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GENERATOR, "_CHEAP", 0)
    monkeypatch.setattr(GENERATOR, "_ENUMERATED", 0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 12))
    problem = TrainingProblem(X, X[:, 0] * X[:, 1] + rng.standard_normal(40), beta=0.1)
    relaxation = solve_relaxation(problem)
    result = column_generation(problem, relaxation=relaxation, callback=stop_after(3))
    check_valid(result, problem)
    assert result.lower_bound > 1.01 * relaxation.lower_bound
    # The rounds tell the same bound as the certificate, which carries the cuts.
    assert result.lower_bound == pytest.approx(result.history[-1].lower_bound, rel=1e-8)
    assert result.certificate.proof is not None
    assert any(leaf.cuts is not None for leaf in result.certificate.proof.trees[0].leaves)


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("problem", ENDING, ids=repr)
def test_interrupts_leave_what_is_known(problem: TrainingProblem, rounds: int) -> None:
    optimum = solve(problem).objective
    result = solve(problem, callback=stop_after(rounds))
    check_valid(result, problem)
    assert result.status == "interrupted"
    assert result.lower_bound <= optimum
    assert optimum * (1 - 1e-7) <= result.objective <= at_zero(problem)
    if problem.scalar or problem.loss.coupled:
        assert result.rounds == rounds
        assert result.lower_bound == pytest.approx(result.history[-1].lower_bound, rel=1e-6, abs=1e-9)
        if rounds == 3:
            assert result.objective < at_zero(problem)


def test_interrupts_before_any_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: BilinearOracle, *args: Any, **options: Any) -> OracleResult:
        raise KeyboardInterrupt

    monkeypatch.setattr(BilinearOracle, "prove", interrupt)
    problem = ENDING[0]
    result = solve(problem)
    check_valid(result, problem)
    assert result.status == "interrupted"
    assert result.history == []
    assert result.certificate.bound_type == "sdp"
    assert result.lower_bound == 0.0
    assert result.objective == at_zero(problem)


class _Silent(BilinearOracle):
    """An oracle that finds nothing and proves nothing."""

    def prove(self, M: Any, **options: Any) -> OracleResult:
        proven = super().prove(M, max_atoms=0)
        return dataclasses.replace(proven, upper=np.inf, exact=False, trees=())


def test_nothing_found_and_nothing_proven_is_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GENERATOR, "BilinearOracle", _Silent)
    problem = ENDING[0]
    result = solve(problem)
    check_valid(result, problem)
    assert result.status == "stalled"
    assert result.certificate.bound_type == "sdp"
    assert result.lower_bound == 0.0
    assert not np.any(result.network.alpha)
    # With a relaxation its bound remains, raised by cutting planes.
    relaxation = solve_relaxation(problem)
    kept = solve(problem, relaxation=relaxation)
    check_valid(kept, problem)
    assert kept.status == "stalled"
    assert 0.0 < relaxation.lower_bound <= kept.lower_bound * (1.0 + 1e-6)


class _Loose(BilinearOracle):
    """An oracle that proves twice the pricing value, by the shift of all row sums."""

    def prove(self, M: Any, **options: Any) -> OracleResult:
        proven = super().prove(M, **options)
        return dataclasses.replace(proven, upper=2.0 * proven.upper, exact=False)


def test_bounds_that_are_not_exact_are_not_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GENERATOR, "BilinearOracle", _Loose)
    problem = ENDING[0]
    optimum = global_optimum(problem)
    result = solve(problem)
    check_valid(result, problem, optimum)
    assert result.status == "stalled"
    assert result.certificate.bound_type == "sdp"
    assert 0.0 < result.lower_bound < 0.99 * optimum.lower
    # The network is optimal all the same.
    assert result.objective == pytest.approx(optimum.upper, rel=1e-6)


# -- what is reported ----------------------------------------------------------------------------------


def test_loose_tolerances_end_early() -> None:
    problem = random_problem(2, 6, 40, beta=0.5)
    loose, tight = column_generation(problem, tol=0.1), solve(problem)
    check_valid(loose, problem)
    assert loose.status == "optimal"
    assert 1e-8 < loose.relative_gap <= 0.1
    assert loose.rounds < tight.rounds
    assert loose.lower_bound <= tight.objective
    assert tight.lower_bound <= loose.objective


def test_rounds_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Round] = []
    result = solve(ENDING[0], verbose=True, callback=seen.append)
    assert seen == result.history
    out, err = capsys.readouterr()
    assert out == ""
    assert [one.number for one in seen] == list(range(1, result.rounds + 1))
    assert result.rounds > 2
    last = result.history[-1]
    assert f"objective {last.objective:.6g}, gap {last.relative_gap:.1e}" in err
    assert last.relative_gap <= 1e-8
    assert last.objective == pytest.approx(result.objective, rel=1e-7)
    assert last.lower_bound == pytest.approx(result.lower_bound, rel=1e-7)


# -- refusals ------------------------------------------------------------------------------------------

PROBLEM = random_problem(0, 3, 8)


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*args: Any, **options: Any) -> None:
        raise AssertionError("work started")

    monkeypatch.setattr(GENERATOR, "Master", explode)
    monkeypatch.setattr(SOLVE, "solve_relaxation", explode)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit": 0}, "time_limit must be a finite number > 0; got 0"),
        ({"time_limit": -1.0}, "time_limit must be a finite number > 0; got -1"),
        ({"time_limit": float("nan")}, "time_limit must be a finite number > 0; got nan"),
        ({"time_limit": float("inf")}, "time_limit must be a finite number > 0; got inf"),
        ({"time_limit": "60"}, "time_limit must be a finite number > 0; got '60'"),
        ({"time_limit": True}, "time_limit must be a finite number > 0; got True"),
        ({"tol": 0}, "tol must be a finite number > 0; got 0"),
        ({"tol": -1e-9}, "tol must be a finite number > 0"),
        ({"tol": float("nan")}, "tol must be a finite number > 0; got nan"),
        ({"tol": None}, "tol must be a finite number > 0; got None"),
        ({"verbose": "yes"}, "verbose must be True, False or an integer >= 0; got 'yes'"),
        ({"random_state": -1}, "random_state must be an integer >= 0; got -1"),
        ({"random_state": "0"}, "random_state must be None, a non-negative integer"),
        ({"relaxation": 3}, "relaxation must be a Relaxation; got int"),
        ({"start": 3}, "must be a BilinearNetwork; got int"),
        ({"start": BilinearNetwork([[1] * 2], [[1] * 2], [1.0])}, "must have n_inputs 3, as the problem has"),
        (
            {"start": BilinearNetwork([[1] * 3], [[1] * 3], [[1.0, 2.0]])},
            "must have n_outputs 1, as the problem has; got 2",
        ),
        (
            {"start": BilinearNetwork([[2] * 3], [[0] * 3], [1.0], levels=3)},
            "must have levels 2, as the problem has; got 3",
        ),
        (
            {"start": BilinearNetwork([[1] * 4], [[1] * 4], [1.0], activation="relu_like")},
            "must have activation None, as the problem has",
        ),
        ({"callback": 3}, "callback must be callable; got int"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        column_generation(PROBLEM, **options)


@pytest.mark.usefixtures("no_work")
def test_problems_that_are_refused() -> None:
    with pytest.raises(InvalidTypeError, match="problem must be a TrainingProblem; got ndarray"):
        column_generation(PROBLEM.X)  # type: ignore[arg-type]


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    loss=st.sampled_from(sorted(SCALAR_LOSSES)),
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 25),
    d=st.integers(1, 4),
    coarse=st.booleans(),
    log_beta=st.floats(-4, 1),
    activation=st.sampled_from([None, *ACTIVATIONS]),
)
def test_optimal_networks_are_small(
    loss: str, seed: int, n: int, d: int, coarse: bool, log_beta: float, activation: Any
) -> None:
    problem = random_problem(seed, d, n, loss, beta=10.0**log_beta, coarse=coarse, activation=activation)
    result = column_generation(problem, tol=1e-6, time_limit=20.0)
    check_valid(result, problem)
    # Neither samples nor entries of a form carry more.
    assert np.count_nonzero(result.network.alpha) <= min(n, problem.size * (problem.size + 1) // 2)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_columns_that_are_given_up_may_come_again(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(2, 5, 60, loss, beta=0.02)
    monkeypatch.setattr(sys.modules["qsdp.column_generation.master"], "MAX_SIDE", 30)
    check_optimal(solve(problem), problem, global_optimum(problem))
