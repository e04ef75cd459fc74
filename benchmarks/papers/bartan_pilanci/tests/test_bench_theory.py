"""The experiments on what is proven: their quick cases."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.papers.bartan_pilanci.experiments import theory
from benchmarks.runner import Record


def measured(experiment: Any, *kinds: str) -> list[Record]:
    """Run the quick cases of some kinds; records are as their file has them."""
    cases = [case for case in experiment.cases(True) if case["kind"] in kinds]
    return [Record(case, json.loads(json.dumps(dict(experiment.run(case)))), 0.0) for case in cases]


def verdicts(experiment: Any, records: list[Record]) -> dict[str, str]:
    """Return verdicts by where in the paper; of several claims at one place, the last."""
    return {
        claim.source.partition(", ")[2].removeprefix("Pilanci, "): claim.verdict for claim in experiment.claims(records)
    }


@pytest.fixture(scope="module")
def proven() -> list[Record]:
    return measured(theory.EXPERIMENT, "reduction", "optima", "shaping", "constants")


def test_theorems_and_slips_of_print_are_found(proven: list[Record]) -> None:
    found = verdicts(theory.EXPERIMENT, proven)
    assert found["Theorem 1"] == found["Theorem 1, Appendix C"] == found["Theorem 2"] == found["(27)"] == "supported"
    assert found["section 4"] == found["(12), (24)"] == "supported"
    assert found["Theorem 1, converse"] == found["after Theorem 3"] == "contradicted"
    assert found["Appendix C"] == found["after Theorem 2"] == "contradicted"
    assert found["(25), (67)"] == "contradicted"
    assert found["Theorem 3"] == found["(28)"] == "not measured"


def test_only_binary_networks_lack_bilinear_functions(proven: list[Record]) -> None:
    for record in proven:
        if record.case["kind"] == "reduction":
            assert (record.measured["outside"] > 0.1) == (record.case["levels"] == 2)
            assert record.measured["values"] == 2 * record.case["levels"] - 1


def test_the_draw_of_the_errata() -> None:
    found = theory.EXPERIMENT.run({"kind": "optima", "n": 25, "d": 4, "beta": 0.3, "levels": 2, "seed": 5})
    assert found["bilinear"]["optimum"] == pytest.approx(62.34062468, rel=1e-7)
    assert found["polynomial"]["bound"] == pytest.approx(67.67739655, rel=1e-7)


def test_small_cases_of_theorem_3() -> None:
    records = measured(theory.EXPERIMENT, "concentration")
    for record in records:
        few, many = np.mean(record.measured["loss"], axis=1)
        assert 0.0 < many < few
        assert record.measured["variance"] < 2.0 * record.case["d"] ** 2
    assert verdicts(theory.EXPERIMENT, records)["(28)"] == "inconclusive", "few networks"
    assert [table.title for table in theory.EXPERIMENT.tables(records) if table.rows] == ["concentration"]
