"""The campaigns themselves, and what they have found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qsdp
from campaigns import checker, soundness
from campaigns._certificates import samples, truth
from campaigns._optimum import Enumeration, network_value
from campaigns._problems import LOSSES
from campaigns._record import Outcome, Record, pursue, try_again

#: What was once a violation: "optimal" with a gap, another objective than the network's, files that are refused, bounds
#: of a dual vector that was projected afterwards, divisions by zero.
FOUND = [
    (20261122, 17),
    (20261122, 56),
    (20261122, 65),
    (20261122, 146),
    (20261122, 531),
    (20261122, 691),
    (20261122, 2038),
    (20261122, 61539),
    (7, 89),
    (7, 298),
    (7, 472),
    (8, 72),
    (8, 284),
    (8, 1684),
]


@pytest.mark.parametrize(("seed", "index"), FOUND)
def test_what_was_found_is_mended(seed: int, index: int) -> None:
    assert not soundness.tested(seed, index).violations


def test_soundness_of_further_cases() -> None:
    record = pursue(Record("soundness", 1), soundness.tested, 5)
    assert record.cases == 5
    assert not record.violations


def test_checker_accepts_nothing_wrong() -> None:
    record = pursue(Record("checker", 1), checker.tested, 12)
    assert not record.violations
    assert record.counts["verdict"]["no"] > 10


def test_every_kind_of_certificate_is_true_as_it_is() -> None:
    for sample in samples():
        objective, error, optimum = truth({**sample.arrays, **(sample.data or {})})
        assert abs(float(sample.arrays["objective"]) - objective) <= 1e-9 * objective + error, sample.kind
        assert float(sample.arrays["lower_bound"]) <= optimum + 1e-9 * objective, sample.kind


def test_campaign_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    def tested(seed: int, index: int) -> Outcome:
        outcome = Outcome()
        outcome.count("parity", index % 2)
        outcome.distances.append(("bound", 10.0**-index))
        if index == 3:
            outcome.wrong("three", seen=seed)
        return outcome

    whole = pursue(Record("made up", 5), tested, 6, report=lambda line: None)
    path = tmp_path / "record.json"
    pursue(Record("made up", 5), tested, 4, path=path, report=lambda line: None)
    again = pursue(Record.load(path), tested, 6, path=path, report=lambda line: None)
    assert (again.cases, again.counts, again.distances) == (6, whole.counts, whole.distances)
    assert again.violations == whole.violations == [{"seed": 5, "index": 3, "what": "three", "seen": 5}]


def test_violations_that_are_gone_count_as_mended() -> None:
    def tested(seed: int, index: int) -> Outcome:
        outcome = Outcome()
        for _ in range(index if index in wrong else 0):
            outcome.wrong("odd")
        return outcome

    wrong = {1, 3}
    record = pursue(Record("made up", 5), tested, 6, report=lambda line: None)
    wrong = {1}
    try_again(record, tested)
    assert (record.cases, record.n_violations) == (6, 1)
    assert [one["index"] for one in record.violations] == [1]
    assert [one["index"] for one in record.mended] == [3, 3, 3]


@pytest.mark.parametrize("loss", LOSSES)
def test_optimum_is_the_one_that_is_proven(loss: str) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((6, 3)), rng.standard_normal(6)
    if loss in ("logistic", "hinge", "squared_hinge"):
        y = np.where(y > np.median(y), 1.0, -1.0)
    y = np.arange(6) % 3.0 if loss == "cross_entropy" else y
    problem = qsdp.TrainingProblem(X, y, beta=0.1, loss=loss, activation="relu_like")
    result = qsdp.column_generation(problem, tol=1e-8)
    assert result.status == "optimal"
    assert abs(Enumeration.of(problem).upper - result.objective) <= 1e-7 * result.objective
    value, error, _ = network_value(problem, result.network)
    assert abs(value - result.objective) <= 1e-12 * value + error
