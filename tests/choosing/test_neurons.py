"""How many neurons a network gets where no number is given."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from brute_force import random_problem, random_vector_problem

import qsdp
from qsdp._utils import deadline
from qsdp.choosing import width
from qsdp.choosing.neurons import ENOUGH, MAX_NEURONS, MIN_NEURONS, deviation, more_neurons, reachable_deviation
from qsdp.choosing.options import TrainingOptions
from qsdp.column_generation.master import Master
from qsdp.losses import LOSSES
from qsdp.pipeline import run_pipeline
from qsdp.refinement import Trial
from qsdp.refinement._moment_descent import MomentDescent

RNG = np.random.default_rng(5)
X = RNG.standard_normal((80, 5))
SIMPLE = np.sign(X @ np.ones(5) + RNG.standard_normal(80))
PLANTED = X[:, 0] * X[:, 1] - 0.7 * X[:, 2] ** 2 + X[:, 3] * X[:, 4]


def drawn(problem: qsdp.TrainingProblem, m: int) -> tuple[Any, Any]:
    relaxation = qsdp.solve_relaxation(problem, tol=1e-4)
    return qsdp.sample_network(qsdp.shape_covariance(relaxation), m, 0), relaxation


def deviation_of(network: Any, relaxation: qsdp.Relaxation) -> float:
    problem = relaxation.problem
    return deviation(problem.outputs(network), problem.relaxed_predictions(relaxation.Z_stack), relaxation)


def fitted(y: np.ndarray, **options: Any) -> qsdp.QSDPResult:
    chosen = {"n_neurons": None, "beta": "2%", "refine": "polish", "activation": "relu_like", "tol": 1e-4, **options}
    training = TrainingOptions(**chosen)
    return run_pipeline(training.problem(X, y), training)


@pytest.mark.parametrize(
    "problem", [random_problem(3, 4, 30, beta=0.5), random_vector_problem(3, 4, 30, 2, beta=0.5)], ids=["one", "two"]
)
def test_deviation_of_a_squared_loss_is_the_distance_of_the_outputs(problem: qsdp.TrainingProblem) -> None:
    network, relaxation = drawn(problem, 40)
    distance = float(np.sum((network.predict(problem.X) - relaxation.predict(problem.X)) ** 2))
    assert deviation_of(network, relaxation) == pytest.approx(distance / relaxation.objective, rel=1e-10)


def test_deviation_needs_no_rows() -> None:
    statistics = qsdp.SufficientStatistics().partial_fit(X, PLANTED)
    network, relaxation = drawn(qsdp.TrainingProblem.from_statistics(statistics, beta=1.0), 40)
    distance = float(np.sum((network.predict(X) - relaxation.predict(X)) ** 2))
    assert deviation_of(network, relaxation) == pytest.approx(distance / relaxation.objective, rel=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_deviation_falls_with_the_number_of_neurons_for_every_loss(loss: str) -> None:
    classes = (PLANTED > 0.0).astype(int) if loss == "cross_entropy" else SIMPLE
    relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, classes, beta=0.5, loss=loss), tol=1e-4)
    covariance = qsdp.shape_covariance(relaxation)
    few, many = (
        np.mean([deviation_of(qsdp.sample_network(covariance, m, seed), relaxation) for seed in range(10)])
        for m in (20, 2000)
    )
    assert 0.0 <= many < 0.1 * few < np.inf


@pytest.mark.parametrize("loss", ["absolute", "huber"])
@pytest.mark.parametrize("weights", [None, np.arange(80) % 3 + 1.0])
def test_outliers_that_a_loss_bears_are_no_error(loss: str, weights: Any) -> None:
    y = PLANTED.copy()
    y[7] = 1e4
    problem = qsdp.TrainingProblem(X, y, beta=0.5, loss=loss, sample_weight=weights)
    network, relaxation = drawn(problem, 40)
    f, g = relaxation.predict(X), network.predict(X)
    f, g = f[:, None], g[:, None]
    value = problem.data_fit.value
    gap = 0.5 * (value(f) + value(g)) - value(0.5 * (f + g))
    losses = problem.data_fit.values(f)[:, 0]
    assert 4.0 * gap / deviation_of(network, relaxation) < 3.0 * (
        relaxation.objective - float(problem.data_fit.values(f)[7, 0])
    )
    assert 4.0 * gap / deviation_of(network, relaxation) > np.delete(losses, 7).sum()


def test_simple_data_take_few_neurons_and_others_more() -> None:
    simple, planted = fitted(SIMPLE), fitted(PLANTED)
    assert simple.network.n_neurons == MIN_NEURONS
    assert MIN_NEURONS < planted.network.n_neurons <= MAX_NEURONS
    few = planted.resample(MIN_NEURONS, 0)
    assert deviation_of(planted.network, planted.relaxation) < deviation_of(few.network, planted.relaxation)
    assert deviation_of(planted.network, planted.relaxation) <= ENOUGH < deviation_of(few.network, planted.relaxation)


@pytest.mark.parametrize("refine", ["none", "refit", "polish"])
def test_the_network_is_that_of_a_call_with_its_number_of_neurons(refine: str) -> None:
    y = np.stack([PLANTED, SIMPLE], axis=1)
    grown = fitted(y, refine=refine, allocation="proportional")
    same = [fitted(y, refine=refine, allocation="proportional", n_neurons=n).network for n in (16, 32, 64, 128, 256)]
    assert any(np.array_equal(grown.network.U, one.U) and np.array_equal(grown.network.V, one.V) for one in same)


@pytest.mark.parametrize("n_outputs", [1, 2, 3])
def test_neurons_double_up_to_the_most_while_they_deviate(n_outputs: int) -> None:
    steps = [MIN_NEURONS * n_outputs]
    while (more := more_neurons(steps[-1], n_outputs, 0.041)) > steps[-1]:
        assert more == 2 * steps[-1]
        steps.append(more)
    assert steps[-1] == MAX_NEURONS * n_outputs
    assert more_neurons(100, 1, np.inf) == MAX_NEURONS
    # Twice the neurons divide the deviation by six at most.
    assert more_neurons(8, n_outputs, 0.24) == 16
    assert more_neurons(8, n_outputs, 0.241) == 32
    assert more_neurons(8 * n_outputs, n_outputs, 36.1 * 0.04) == 64 * n_outputs
    assert more_neurons(8 * n_outputs, n_outputs, 71.9 * 0.04) == 64 * n_outputs
    assert more_neurons(8 * n_outputs, n_outputs, 72.1 * 0.04) == 128 * n_outputs
    assert more_neurons(8, n_outputs, 0.04) == 8
    assert more_neurons(8, n_outputs, 0.02, 0.01) == 16


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_many_rows_of_noisy_targets_take_more_neurons_than_few(loss: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 6))
    y = np.sign(0.4 * X[:, 0] * X[:, 1] - 0.4 * X[:, 2] * X[:, 3] + 0.3 * X[:, 4] + rng.standard_normal(6000))
    options = TrainingOptions(n_neurons=None, beta="auto", refine="polish", activation="relu_like", tol=1e-3, loss=loss)
    few, many = (run_pipeline(options.problem(X[:n], y[:n]), options) for n in (250, 6000))
    assert few.network.n_neurons < many.network.n_neurons
    # A given beta says nothing about new rows.
    given = replace(options, beta=many.problem.beta)
    assert run_pipeline(given.problem(X, y), given).network.n_neurons < many.network.n_neurons


def test_targets_that_are_all_zero_take_the_fewest() -> None:
    with pytest.warns(UserWarning, match="zero network"):
        assert fitted(np.zeros(80)).network.n_neurons == MIN_NEURONS


@pytest.mark.filterwarnings("ignore:solver")
def test_no_time_gives_the_first_network() -> None:
    result = fitted(PLANTED, time_limit=1e-3)
    assert result.network.n_neurons == MIN_NEURONS
    assert result.certificate.lower_bound <= result.certificate.objective


@pytest.mark.parametrize("better", [False, True])
def test_the_better_of_two_sizes_is_kept_where_time_ends_the_larger(
    better: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(width, "more_neurons", lambda *_: 4 * MIN_NEURONS)
    refine, sizes = width.refined, []

    def ended(network: Any, problem: Any, options: Any, rng: Any, kept: Any, *rest: Any) -> Any:
        sizes.append(network.n_neurons)
        if len(sizes) == 2:
            # The limit has passed; the larger network is as sampled, if it is to be the worse one.
            monkeypatch.setattr(width, "deadline", SimpleNamespace(**{**vars(deadline), "over": lambda: True}))
            return refine(network, problem, options, rng, kept) if better else network
        return refine(network, problem, options, rng, kept, *rest)

    monkeypatch.setattr(width, "refined", ended)
    result = fitted(PLANTED)
    assert sizes == [MIN_NEURONS, 4 * MIN_NEURONS]
    assert result.network.n_neurons == sizes[better]


def decisions(deviations: list[float], monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[list[bool]]:
    """Return for each size whether its polish goes on, if checks find these deviations and an equal objective."""
    found: list[list[bool]] = []

    def checked(network: Any, _problem: Any, _options: Any, _rng: Any, _kept: Any, trial: Any, _data: Any) -> Any:
        remaining = iter(deviations)
        monkeypatch.setattr(width, "deviation", lambda *_: next(remaining, deviations[-1]))
        found.append([trial.continues(network) for _ in deviations])
        return network

    monkeypatch.setattr(width, "refined", checked)
    fitted(PLANTED, **options)
    return found


@pytest.mark.parametrize(
    ("deviations", "goes_on"),
    [
        ([0.3], [False]),
        ([0.2, 0.15], [True, False]),
        ([0.2, 0.11, 0.08], [True, True, False]),
        ([0.2, 0.11, 0.07], [True, True, True]),
    ],
    ids=["hopeless", "slow", "slower", "fast"],
)
def test_the_polish_of_a_size_that_cannot_suffice_ends(
    deviations: list[float], goes_on: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    *smaller, largest = decisions(deviations, monkeypatch)
    # After a hopeless size, twice as many neurons could not suffice either and are left out.
    assert smaller == [goes_on] * (2 if goes_on == [False] else 4)
    # No more neurons follow the most.
    assert all(largest)


def test_the_polish_of_a_size_that_suffices_ends_when_it_hardly_improves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decisions([0.1, 0.03, 0.03], monkeypatch) == [[True, False, False]]
    assert decisions([0.03, 0.03], monkeypatch) == [[True, False]]


def test_the_reachable_deviation_is_a_sixth_or_continues_the_last_fall() -> None:
    assert reachable_deviation(0.3, np.inf) == pytest.approx(0.05)
    assert reachable_deviation(0.3, 0.9) == pytest.approx(0.05)
    assert reachable_deviation(0.3, 0.35) == pytest.approx(0.25)
    assert reachable_deviation(np.inf, np.inf) == np.inf


def test_sizes_that_are_too_small_are_not_polished_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    refine, sweeps = width.refined, {}

    def counted(network: Any, *rest: Any) -> Any:
        *others, trial, data = rest
        checks = []

        def goes_on(tried: Any) -> bool:
            checks.append(trial.continues(tried))
            return checks[-1]

        made = refine(network, *others, Trial(trial.sweeps, goes_on), data)
        sweeps[network.n_neurons] = checks
        return made

    monkeypatch.setattr(width, "refined", counted)
    # Small networks need no more than a few sweeps in all.
    monkeypatch.setattr(width, "_TRIED_SWEEPS", 2)
    grown = fitted(PLANTED, beta="0.3%")
    assert sweeps[MIN_NEURONS][-1] is False
    assert set(sweeps) <= {MIN_NEURONS * 2**k for k in range(5)}
    assert list(sweeps)[-1] == grown.network.n_neurons
    assert deviation_of(grown.network, grown.relaxation) <= ENOUGH


def test_stages_of_all_sizes_are_timed_together() -> None:
    result = fitted(PLANTED)
    again = result.resample(result.network.n_neurons, 0)
    assert list(again.timings) == list(result.timings)
    assert np.array_equal(again.network.U, result.network.U)


class InterruptedAt:
    """Count the steps of a search from 1, raise KeyboardInterrupt at one of them, and keep the networks it makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = ""
        self.begin(0)
        for place, name in [
            (width, "sample_network"),
            (width, "refined"),
            (width, "more_neurons"),
            (MomentDescent, "sweep"),
            (Master, "solve"),
        ]:
            monkeypatch.setattr(place, name, self._counted(name, getattr(place, name)))

    def begin(self, step: int) -> None:
        self.step, self.count = step, 0
        self.known: list[Any] = []

    def _counted(self, name: str, function: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self.step:
                self.name = name
                raise KeyboardInterrupt
            made = function(*arguments, **options)
            if isinstance(made, qsdp.BilinearNetwork):
                self.known.append(made)
            return made

        return counted


@pytest.mark.parametrize("refine", ["none", "refit", "polish"])
def test_an_interrupt_at_any_step_ends_the_search_with_the_best_network(
    refine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = InterruptedAt(monkeypatch)
    steps.begin(1)
    with pytest.raises(KeyboardInterrupt):
        fitted(PLANTED, refine=refine)
    steps.begin(0)
    whole = fitted(PLANTED, refine=refine)
    kinds = set()
    for step in range(2, steps.count + 1):
        steps.begin(step)
        with pytest.warns(qsdp.QSDPWarning) as caught:
            result = fitted(PLANTED, refine=refine)
        kinds.add(steps.name)
        assert [str(warning.message)[:12] for warning in caught] == ["interrupted:"]
        assert steps.count == step
        problem = result.problem
        assert problem.objective(result.network) <= min(problem.objective(network) for network in steps.known)
        assert result.certificate.lower_bound <= result.certificate.objective
        assert list(result.timings) == list(whole.timings)
    inner = {"none": set(), "refit": {"refined", "solve"}, "polish": {"refined", "sweep"}}
    assert kinds == {"sample_network", "more_neurons"} | inner[refine]
