"""The largest proven optimum: small problems proven and checked, and records that turn the verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.runner import Record

study = pytest.importorskip("benchmarks.experiments.product.largest", reason="not in the installed package")


def test_rows_enter_the_statistics_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = study.planted(300)
    assert (whole.n_samples, whole.dimension) == (300, 16)
    case = {"series": "rows", "size": 300, "share": 0.3}
    monkeypatch.setattr(study, "CHUNK", 120)
    found = study.run(case)
    assert found["n"] == 300
    assert found["statistics_seconds"] > 0.0
    assert study.is_proven(Record(case, found, 0.0))


@pytest.mark.parametrize("count", [2, 3])
def test_letters_are_one_hot(uci_available: None, count: int) -> None:
    problem = study.letters(count)
    assert problem.n_outputs == count
    assert np.array_equal(problem.y.sum(axis=1), np.ones(problem.n_samples))


def records(proven: dict[str, int]) -> list[Record]:
    """Return records of which those up to a size are proven in each series."""
    return [
        Record(
            case, {"gap": 1e-9 if case["size"] <= proven[case["series"]] else 0.1, "kind": "exact", "seconds": 1.0}, 0
        )
        for case in study.cases(False)
    ]


def test_the_largest_is_the_end_of_an_unbroken_row() -> None:
    found = records({"rows": 10**7, "inputs": 30, "classes": 26})
    assert [study.largest(found, series).case["size"] for series in study.SERIES] == [10**7, 30, 26]
    assert [claim.verdict for claim in study.claims(found)] == ["supported"] * 3
    assert study.quotes(found) == {"proven": "10,000,000 rows, 30 inputs or 26 classes"}
    # A gap left at a smaller size ends the row; a bound of another kind proves nothing.
    found[0].measured["gap"] = 0.1
    assert study.largest(found, "rows") is None
    found = records({"rows": 10**7, "inputs": 30, "classes": 26})
    for record in found:
        record.measured["kind"] = "sdp"
    assert [claim.verdict for claim in study.claims(found)] == ["contradicted"] * 3
    assert study.quotes(found) == {}
