"""Train by any system, quantize by the relaxation: a small run, and records that turn its verdicts."""

from __future__ import annotations

import pytest

from benchmarks.machinery.verdicts import Claim
from benchmarks.runner import Record

pytest.importorskip("torch")
study = pytest.importorskip(
    "benchmarks.experiments.comparisons.train_then_quantize", reason="not in the installed package"
)


def made(quantized: float, rounded: float, own: float) -> list[Record]:
    """Return records of all cases: 0.9 as trained, with a split's own shift, and the others as given."""
    records = []
    for case in study.cases(False):
        shift, measured = 0.001 * case["split"], {"trained": own}
        if case["system"] != study.OWN:
            measured = {"trained": 0.9 + shift, "quantized": quantized + shift, "bits": 100, "seconds": 1.0}
        if case["system"] in study.ROUNDED:
            measured["rounded"] = rounded - 2.0 * shift
        records.append(Record(case, measured, 0.0))
    return records


def verdicts(claims: list[Claim]) -> list[str]:
    return [claim.verdict for claim in claims]


def test_verdicts_turn_with_the_records() -> None:
    good, bad = study.claims(made(0.89, 0.7, 0.95)), study.claims(made(0.85, 0.88, 0.7))
    assert verdicts(good) == ["supported"] * 6
    assert verdicts(bad) == ["contradicted"] * 6
    assert all(f"{study.SPLITS} repetitions" in claim.figures for claim in good)


def test_nothing_is_said_while_a_system_is_missing() -> None:
    records = [record for record in made(0.89, 0.7, 0.95) if record.case["system"] != "RLS"]
    assert verdicts(study.claims(records)) == ["not measured", "supported", "not measured"] * 2


def test_what_is_measured_of_a_small_system() -> None:
    found = study.run({"system": "backpropagation", "set": "iris", "split": 0})
    assert set(found) == {"trained", "rounded", "quantized", "bits", "seconds"}
    assert found["rounded"] <= found["quantized"] <= 1.0
    assert found["bits"] > 3 * 500 * 2


@pytest.mark.parametrize("name", [*study.CLASSES, *study.TARGETS])
def test_splits_are_standardised_by_training_rows(name: str) -> None:
    X, X_test, y, y_test = study.split_of(name, 1)
    assert abs(X.mean(axis=0)).max() < 1e-12
    assert X.shape[1] == X_test.shape[1]
    assert 0.24 < len(y_test) / (len(y) + len(y_test)) < 0.26
    if name in study.TARGETS:
        assert abs(y.mean()) < 1e-12
        assert y.std() == pytest.approx(1.0)
