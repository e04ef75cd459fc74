"""How many neurons a network gets where no number is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qsdp

RNG = np.random.default_rng(5)
X = RNG.standard_normal((80, 5))
SIMPLE = np.sign(X @ np.ones(5) + RNG.standard_normal(80))
PLANTED = X[:, 0] * X[:, 1] - 0.7 * X[:, 2] ** 2 + X[:, 3] * X[:, 4]


def fitted(y: np.ndarray, rows: np.ndarray = X, **options: Any) -> qsdp.QSDPResult:
    chosen = {"n_neurons": None, "beta": "2%", "refine": "polish", "activation": "relu_like", "tol": 1e-4, **options}
    return qsdp.solve_and_sample(rows, y, **chosen)


def distance(network: Any, relaxation: qsdp.Relaxation) -> float:
    """Return how far a network's outputs are from those of the relaxation."""
    return float(np.sum((network.predict(X) - relaxation.predict(X)) ** 2))


@pytest.fixture(scope="module")
def smallest() -> int:
    """Return the number of neurons of targets that need none."""
    with pytest.warns(UserWarning, match="zero network"):
        return fitted(np.zeros(80)).network.n_neurons


def test_simple_data_take_few_neurons_and_others_more(smallest: int) -> None:
    simple, planted = fitted(SIMPLE), fitted(PLANTED)
    assert simple.network.n_neurons == smallest
    assert smallest < planted.network.n_neurons
    few = planted.resample(smallest, 0)
    assert distance(planted.network, planted.relaxation) < distance(few.network, planted.relaxation)


@pytest.mark.parametrize("refine", ["none", "refit", "polish"])
def test_the_network_is_that_of_a_call_with_its_number_of_neurons(refine: str) -> None:
    y = np.stack([PLANTED, SIMPLE], axis=1)
    grown = fitted(y, refine=refine, allocation="proportional")
    same = [fitted(y, refine=refine, allocation="proportional", n_neurons=n).network for n in (16, 32, 64, 128, 256)]
    assert any(np.array_equal(grown.network.U, one.U) and np.array_equal(grown.network.V, one.V) for one in same)


def test_many_rows_of_noisy_targets_take_more_neurons_than_few() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6000, 6))
    y = np.sign(
        0.4 * rows[:, 0] * rows[:, 1] - 0.4 * rows[:, 2] * rows[:, 3] + 0.3 * rows[:, 4] + rng.standard_normal(6000)
    )
    few, many = (fitted(y[:n], rows[:n], beta="auto", tol=1e-3) for n in (250, 6000))
    assert few.network.n_neurons < many.network.n_neurons
    # A beta that is known says nothing about new rows.
    known = fitted(y, rows, beta=many.problem.beta, tol=1e-3)
    assert known.network.n_neurons < many.network.n_neurons


@pytest.mark.filterwarnings("ignore:solver")
def test_no_time_gives_the_first_network(smallest: int) -> None:
    result = fitted(PLANTED, time_limit=1e-3)
    assert result.network.n_neurons == smallest
    assert result.certificate.lower_bound <= result.certificate.objective


def test_stages_of_all_sizes_are_timed_together() -> None:
    result = fitted(PLANTED)
    again = result.resample(result.network.n_neurons, 0)
    assert list(again.timings) == list(result.timings)
    assert np.array_equal(again.network.U, result.network.U)


class InterruptedAt:
    """Count the steps of a search from 1, raise KeyboardInterrupt at one of them, and keep the networks it makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from qsdp.choosing import width

        self.begin(0)
        for name in ("sample_network", "refined", "more_neurons"):
            monkeypatch.setattr(width, name, self._counted(getattr(width, name)))

    def begin(self, step: int) -> None:
        self.step, self.count = step, 0
        self.known: list[Any] = []

    def _counted(self, function: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self.step:
                raise KeyboardInterrupt
            made = function(*arguments, **options)
            if isinstance(made, qsdp.BilinearNetwork):
                self.known.append(made)
            return made

        return counted


@pytest.mark.parametrize("refine", ["none", "polish"])
def test_an_interrupt_at_any_step_ends_the_search_with_the_best_network(
    refine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = InterruptedAt(monkeypatch)
    steps.begin(1)
    with pytest.raises(KeyboardInterrupt):
        fitted(PLANTED, refine=refine)
    steps.begin(0)
    whole = fitted(PLANTED, refine=refine)
    for step in range(2, steps.count + 1):
        steps.begin(step)
        with pytest.warns(qsdp.QSDPWarning) as caught:
            result = fitted(PLANTED, refine=refine)
        assert [str(warning.message)[:12] for warning in caught] == ["interrupted:"]
        problem = result.problem
        assert problem.objective(result.network) <= min(problem.objective(network) for network in steps.known)
        assert result.certificate.lower_bound <= result.certificate.objective
        assert list(result.timings) == list(whole.timings)
