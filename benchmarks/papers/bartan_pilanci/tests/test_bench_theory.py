"""The experiments on what is proven: their quick cases, and verdicts that records can turn."""

from __future__ import annotations

import copy
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


def changed(records: list[Record], name: str, value: Any) -> list[Record]:
    found = copy.deepcopy(records)
    for record in found:
        if name in record.measured:
            record.measured[name] = value
    return found


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


@pytest.mark.parametrize(
    ("name", "value", "where", "verdict"),
    [
        ("forth", 1e-3, "Theorem 1", "contradicted"),
        ("back", 1e-3, "Theorem 1, Appendix C", "contradicted"),
        ("neurons", 3.1, "Theorem 1, Appendix C", "contradicted"),
        ("values", 8, "Theorem 1, Appendix C", "contradicted"),
        ("outside", 1e-16, "Theorem 1, converse", "supported"),
        ("polynomial", {"optimum": 1.0, "bound": 1.0}, "after Theorem 3", "supported"),
        ("polynomial", {"optimum": 1.0, "bound": 1.0}, "(12), (24)", "contradicted"),
        ("printed", 1e-16, "Appendix C", "supported"),
        ("slope", 1.001, "after Theorem 2", "supported"),
        ("optimum", 1e9, "section 4", "contradicted"),
        ("optimum", 1e-9, "(25), (67)", "contradicted"),
        ("half", 1e9, "(25), (67)", "supported"),
    ],
)
def test_records_decide(proven: list[Record], name: str, value: Any, where: str, verdict: str) -> None:
    kept = proven
    if name == "printed":
        kept = [record for record in proven if record.case["kind"] == "reduction" and record.case["levels"] == 2]
    assert verdicts(theory.EXPERIMENT, changed(kept, name, value))[where] == verdict


def test_only_binary_networks_lack_bilinear_functions(proven: list[Record]) -> None:
    for record in proven:
        if record.case["kind"] == "reduction":
            assert (record.measured["outside"] > 0.1) == (record.case["levels"] == 2)
            assert record.measured["values"] == 2 * record.case["levels"] - 1


def test_the_draw_of_the_errata() -> None:
    found = theory.EXPERIMENT.run({"kind": "optima", "n": 25, "d": 4, "beta": 0.3, "levels": 2, "seed": 5})
    assert found["bilinear"]["optimum"] == pytest.approx(62.34062468, rel=1e-7)
    assert found["polynomial"]["bound"] == pytest.approx(67.67739655, rel=1e-7)


def test_the_excess_of_12_over_24_is_quoted() -> None:
    case = {"kind": "optima", "n": 50, "levels": 2}
    records = [
        Record({**case, "d": d, "beta": beta, "seed": seed}, {
            "bilinear": {"optimum": 10.0, "bound": 10.0}, "polynomial": {"optimum": 10.0 + d + seed, "bound": 10.0}
        }, 0.0)
        for d in (3, 6) for beta in (0.1, 10.0) for seed in range(3)
    ]  # fmt: skip
    assert theory.quotes(records)["excess"].splitlines() == [
        r"|  | $\beta = 0.1$ | $\beta = 1$ | $\beta = 10$ |",
        "|---|---|---|---|",
        "| 3 columns | 40 (30 to 50) % | - | 40 (30 to 50) % |",
        "| 6 columns | 70 (60 to 80) % | - | 70 (60 to 80) % |",
        "| 9 columns | - | - | - |",
    ]


def concentrated(power: float, growth: float, spectral: float) -> list[Record]:
    """Records whose errors fall like m^-power, and grow with d beyond the theorem's factor like d^growth."""
    case = next(case for case in theory.EXPERIMENT.cases(False) if case["kind"] == "concentration")
    records = []
    for d in (4, 8, 12):
        errors = [d**growth * m**-power for m in case["neurons"]]
        loss = [[error] * 20 for error in errors]
        norms = [[spectral * m**-0.5] * 20 for m in case["neurons"]]
        measured = {"variance": 1.0, "radius": 1.0, "loss": loss, "spectral": norms}
        records += [Record({**case, "d": d, "seed": seed}, measured, 0.0) for seed in range(10)]
    return records


@pytest.mark.parametrize(
    ("power", "growth", "spectral", "expected"),
    [
        (0.5, 0.0, 1.0, ("supported", "supported", "supported")),
        (0.4, 0.0, 1.0, ("contradicted", "supported", "supported")),
        (0.5, 2.0, 1.0, ("supported", "contradicted", "supported")),
        (0.5, 0.0, 9.0, ("supported", "supported", "contradicted")),
    ],
)
def test_neurons_against_epsilon(power: float, growth: float, spectral: float, expected: tuple[str, ...]) -> None:
    records = concentrated(power, growth, spectral)
    by_statement = {claim.statement: claim.verdict for claim in theory.EXPERIMENT.claims(records)}
    order = ("1/epsilon^2", "R^4 d log(d)", "matrix Bernstein")
    found = [verdict for mark in order for statement, verdict in by_statement.items() if mark in statement]
    assert tuple(found) == expected


def test_small_cases_of_theorem_3() -> None:
    records = measured(theory.EXPERIMENT, "concentration")
    for record in records:
        few, many = np.mean(record.measured["loss"], axis=1)
        assert 0.0 < many < few
        assert record.measured["variance"] < 2.0 * record.case["d"] ** 2
    assert verdicts(theory.EXPERIMENT, records)["(28)"] == "inconclusive", "few networks"
    assert [table.title for table in theory.EXPERIMENT.tables(records) if table.rows] == ["concentration"]
