"""Few images and few rows: draws of the protocols, and records that turn the verdicts."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks.runner import Record

few_shot = pytest.importorskip("benchmarks.experiments.accuracy.few_shot", reason="not in the installed package")
mixed_integer = pytest.importorskip("benchmarks.experiments.accuracy.mixed_integer")
equal_bits = pytest.importorskip("benchmarks.methods.equal_bits")


def test_draws_of_images_are_apart_and_hold_every_class_as_often() -> None:
    y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], 12))
    draws = [few_shot.drawn(y, 4, number) for number in range(3)]
    assert sorted(np.concatenate(draws)) == list(range(36))
    for rows in draws:
        assert np.bincount(y[rows]).tolist() == [4, 4, 4]


@pytest.mark.usefixtures("uci_available")
def test_draws_of_rows_are_not_tested_on() -> None:
    first, second = (mixed_integer.drawn("heart", 40, seed) for seed in (0, 1))
    assert (len(first.X), len(first.X_test)) == (40, 54)
    assert 0.0 <= first.X.min() <= first.X.max() <= 1.0
    assert not np.array_equal(first.X, second.X)


def made(study: ModuleType, default: float, bits: int = 1000) -> list[Record]:
    """Return records of all cases: rivals of 70 % and 500 bits; the network as told, within a tenth of a point."""
    records = []
    for case in study.cases(False):
        test = default + 0.001 * (case["seed"] % 3 - 1)
        found: dict[str, dict[str, Any]] = {
            name: {"test": 0.7, "bits": 500, "seconds": 1.0}
            for name in dict.fromkeys(
                (*equal_bits.NAMES, *(one for names in equal_bits.RIVALS.values() for one in names))
            )
        }
        found["default"] = {"test": test, "bits": bits, "seconds": 1.0, "gap": 0.1}
        records.append(Record(case, {"models": found, "most": 0.6}, 1.0))
    return records


@pytest.mark.parametrize("study", [few_shot, mixed_integer])
@pytest.mark.parametrize(("default", "verdict"), [(0.9, "supported"), (0.3, "contradicted")])
def test_verdicts_turn_with_the_records(study: ModuleType, default: float, verdict: str) -> None:
    claims = study.claims(made(study, default))
    assert {claim.verdict for claim in claims} == {verdict}
    assert len(study.tables(made(study, default))[0].rows) > 10


@pytest.mark.parametrize("study", [few_shot, mixed_integer])
def test_larger_rivals_are_not_compared(study: ModuleType) -> None:
    rivals = study.claims(made(study, 0.9, bits=100))[-len(equal_bits.RIVALS) :]
    assert {claim.verdict for claim in rivals} == {"not measured"}
