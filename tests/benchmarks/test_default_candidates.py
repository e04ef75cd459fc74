"""Candidates for the default: a quick run, bits by their parts, and records that turn the verdicts."""

from __future__ import annotations

import numpy as np
import pytest

import qsdp
from benchmarks.runner import Record, run_experiment
from benchmarks.uci.data import prepare

study = pytest.importorskip("benchmarks.experiments.accuracy.default_candidates", reason="not in the installed package")


def test_what_is_measured_is_what_users_call(uci_available: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("default_candidates") / "found.json"
    results, failures = run_experiment(study.EXPERIMENT, path, quick=True, verbose=False)
    assert not failures
    measured = {record.case["model"]: record.measured for record in results.records}
    split = prepare("iris", 0)
    model = qsdp.QuantizedNetworkClassifier(encoding="additive", random_state=0).fit(split.X, split.y)
    found = measured["additive"]
    assert found["test"] == pytest.approx(model.score(split.X_test, split.y_test))
    assert found["gap"] == pytest.approx(model.certificate_.relative_gap)
    assert {claim.verdict for claim in study.claims(results.records)} == {"not measured"}


def test_bits_are_those_of_weights_and_places() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    model = qsdp.QuantizedNetworkClassifier(encoding="additive", beta="20%", random_state=0)
    model.fit(X, np.where(X[:, 0] + 0.1 * rng.standard_normal(200) > 0.0, 1, 0))
    network, names = model.network_, model.encoder_.inputs_.encoding_.names
    assert network.n_neurons == 0
    used = [name for name, weights in zip(names, network.column_weights, strict=False) if weights.any()]
    assert used == ["x0"]
    # The deviation of the only number with a weight.
    assert study.bits_of(model) == network.n_bits + 16


def made(shift: float, share: float, seconds: float) -> list[Record]:
    """Return records of all cases, in which additive models differ from the default by these amounts."""
    records = []
    for case in study.cases(False):
        ours = case["model"] == "additive"
        test = 0.8 + 0.001 * (len(case.get("set", "")) % 3) + shift * ours
        measured = {"test": test, "seconds": seconds if ours else 1.0, "bits": 1000 * (share if ours else 1.0)}
        records.append(Record(case, measured, 0.0))
    return records


@pytest.mark.parametrize(
    ("changes", "verdicts"),
    [
        ((0.01, 0.4, 2.0), ["supported"] * 4),
        ((-0.03, 0.8, 9.0), ["contradicted"] * 4),
    ],
)
def test_verdicts_follow_the_records(changes: tuple[float, float, float], verdicts: list[str]) -> None:
    assert [claim.verdict for claim in study.claims(made(*changes))] == verdicts
    assert {case["seed"] for case in study.cases(False) if case.get("set") in study.SINGLE} == {0}
