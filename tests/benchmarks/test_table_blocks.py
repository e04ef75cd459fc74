"""Tables as blocks: a quick run, the generated tables, and records that turn the verdicts."""

from __future__ import annotations

import numpy as np
import pytest

import qsdp
from benchmarks.runner import Record, run_experiment
from benchmarks.uci.data import prepare

study = pytest.importorskip("benchmarks.experiments.accuracy.table_blocks", reason="not in the installed package")


def test_what_is_measured_is_what_users_call(uci_available: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("table_blocks") / "found.json"
    results, failures = run_experiment(study.EXPERIMENT, path, quick=True, verbose=False)
    assert not failures
    measured = {record.case["model"]: record.measured for record in results.records}
    split = prepare("iris", 0)
    model = qsdp.QuantizedNetworkClassifier(encoding=qsdp.encoding.TableBlocks(), refine="exact", random_state=0)
    model.fit(split.X, split.y)
    blocks = measured["blocks"]
    assert blocks["test"] == pytest.approx(model.score(split.X_test, split.y_test))
    assert blocks["gap"] <= study.PROVEN
    # Four means and deviations.
    assert blocks["bits"] == model.network_.n_bits + model.encoder_.threshold_bits(model.network_) + 4 * 32
    assert {claim.verdict for claim in study.claims(results.records)} == {"not measured"}


@pytest.mark.parametrize("name", study.GENERATED)
def test_generated_tables_have_the_classes_that_they_say(name: str) -> None:
    X, y, X_test, y_test = study.split_of(name, 0)
    assert (len(y), len(y_test)) == (study.ROWS, study.NEW)
    assert min(np.bincount(y)) > 0.15 * len(y)
    assert not np.array_equal(X, study.split_of(name, 1)[0])
    # Without the limit, which would end the fit on a busy machine.
    model = study.model_of("blocks", 0).set_params(time_limit=None).fit(X, y)
    assert model.score(X_test, y_test) > (0.8 if name == "staircases" else 0.6)


def made(shift: float, gap: float) -> list[Record]:
    """Return records of all cases: blocks are `shift` above the default on every set, with this gap."""
    records = []
    for case in study.cases(False):
        ours = case["model"] == "blocks"
        test = 0.8 + 0.001 * (study.CHOSEN.index(case["set"]) % 3) + shift * ours
        records.append(Record(case, {"test": test, "seconds": 1.0, "bits": 1000} | ({"gap": gap} if ours else {}), 0.0))
    return records


@pytest.mark.parametrize(
    ("shift", "gap", "verdicts"),
    [
        (0.02, 1e-9, ["supported", "supported"]),
        (-0.02, 1e-2, ["contradicted", "contradicted"]),
    ],
)
def test_verdicts_follow_the_records(shift: float, gap: float, verdicts: list[str]) -> None:
    claims = study.claims(made(shift, gap))
    assert [claim.verdict for claim in claims] == verdicts
