"""Train by any system, quantize by the relaxation: a small run, and records that turn its verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from qsdp.bench import Claim, Record

pytest.importorskip("torch")
study = pytest.importorskip(
    "benchmarks.experiments.comparisons.train_then_quantize", reason="not in the installed package"
)


def made(quantized: float, rounded: float, own: float) -> list[Record]:
    """Return records of all cases: 0.9 as trained, with a split's own shift, and the others as given."""
    records = []
    for case in study.cases(False):
        shift = 0.001 * case["split"]
        test = own if case["system"] == "relaxation" else 0.9
        measured: dict[str, Any] = {"test": test + shift, "fit_seconds": 1.0, "bits": 100}
        if case["system"] not in study.BINARY:
            del measured["bits"]
            entry = {"seconds": 1.0, "bits": 100, "errors": [0.1], "relaxed_errors": [0.1]}
            measured |= {name: {**entry, "test": quantized + shift} for name in study.VARIANTS}
        if case["system"] in study.ROUNDED:
            measured["rounded"] = {"test": rounded - 2.0 * shift, "bits": 100, "seconds": 0.0}
        records.append(Record(case, measured, 0.0))
    return records


def verdicts(claims: list[Claim]) -> dict[str, str]:
    return {claim.statement: claim.verdict for claim in claims}


def test_verdicts_turn_with_the_records() -> None:
    for kind in study.KINDS:
        good, bad = study.claims(made(0.89, 0.7, 0.95)), study.claims(made(0.85, 0.88, 0.7))
        statements = [study.keeps(kind), study.from_labels(kind), *(study.beats(kind, name) for name in study.ROUNDED)]
        for _, statement in statements:
            assert verdicts(good)[statement] == "supported"
            assert verdicts(bad)[statement] == "contradicted"
        assert all(f"{study.SPLITS} repetitions" in claim.figures for claim in good if claim.statement.startswith(kind))


def test_nothing_is_said_while_a_system_is_missing() -> None:
    records = [record for record in made(0.89, 0.7, 0.95) if record.case["system"] != "RLS"]
    found = verdicts(study.claims(records))
    for kind in study.KINDS:
        assert found[study.keeps(kind)[1]] == found[study.from_labels(kind)[1]] == "not measured"
        assert found[study.beats(kind, "ReLU")[1]] == "supported"


@pytest.mark.parametrize("name", [*study.CLASSES, *study.TARGETS])
def test_splits_are_standardised_by_training_rows(name: str) -> None:
    X, X_test, y, y_test = study.split_of(name, 1)
    assert abs(X.mean(axis=0)).max() < 1e-12
    assert X.shape[1] == X_test.shape[1]
    assert 0.24 < len(y_test) / (len(y) + len(y_test)) < 0.26
    if name in study.TARGETS:
        assert abs(y.mean()) < 1e-12
        assert y.std() == pytest.approx(1.0)
