"""Figures 2, 3, 5 and 6 at the printed parameters: what is trained, and what is drawn of the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qsdp
from benchmarks.data import sets
from benchmarks.papers.bartan_pilanci.experiments import printed as study
from benchmarks.runner import Record

pytest.importorskip("torch")


@pytest.mark.parametrize(("figure", "n", "d"), [("2", 228, 9), ("3", 280, 33), ("5 a, b", 552, 15), ("6", 280, 33)])
def test_sizes_are_the_printed_ones(uci_available: None, figure: str, n: int, d: int) -> None:
    X, _, _, _ = sets.standardised(study.FIGURES[figure][0], 0)
    assert X.shape == (n, d)


def test_every_network_is_asked_for_without_and_with_a_constant_column() -> None:
    cases = study.cases(False)
    for split in range(10):
        own = [case for case in cases if case["split"] == split]
        for constant in (False, True):
            pairs = [(case["figure"], case["method"]) for case in own if case["constant"] is constant]
            programs = [(figure, "program") for figure in study.FIGURES if figure != "6"]
            rivals = [(figure, study.FIGURES[figure][3]) for figure in study.FIGURES]
            assert sorted(pairs) == sorted(programs + rivals)


@pytest.mark.parametrize("constant", [False, True])
def test_the_program_is_the_printed_one(uci_available: None, constant: bool) -> None:
    (case,) = [c for c in study.cases(True) if c["method"] == "program" and c["constant"] is constant]
    X, X_test, y, y_test = sets.standardised(case["set"], case["split"])
    if constant:
        X, X_test = (np.column_stack([rows, np.ones(len(rows))]) for rows in (X, X_test))
    problem = qsdp.TrainingProblem(X, y, beta=case["beta"])
    network = qsdp.paper.algorithm_1(problem, case["m"], random_state=0).network
    (point,) = study.run(case)["points"]
    assert point["test"] == np.mean(np.sign(network.predict(X_test)) == y_test)
    assert point["train"] == np.mean(np.sign(network.predict(X)) == y)


@pytest.mark.parametrize("method", ["backprop", "ReLU"])
def test_a_curve_ends_in_its_rounded_marker(uci_available: None, method: str) -> None:
    case = {"set": "breast-cancer", "constant": True, "split": 0, "m": 20, "beta": 0.1, "method": method}
    points = study.run({**case, "epochs": [1, 4]})["points"]
    curve, marker = study.SERIES[method]
    assert [(point["series"], point["epochs"]) for point in points] == [(curve, 1), (curve, 4), (marker, 4)]
    assert points[1]["seconds"] < points[2]["seconds"]
    assert all(0.0 <= point[part] <= 1.0 for point in points for part in ("train", "test"))


def fake(splits: int = 2) -> list[Record]:
    """Return records of all cases of some splits, with accuracies of one half."""
    found = []
    for case in study.cases(False):
        if case["split"] < splits:
            names = (study.PROGRAM,) if case["method"] == "program" else study.SERIES[case["method"]]
            epochs: Any = {names[0]: case.get("epochs", [0])}
            points = [(name, epoch) for name in names for epoch in epochs.get(name, [300])]
            made = [{"series": s, "epochs": e, "seconds": 1.0 + e, "train": 0.5, "test": 0.5} for s, e in points]
            found.append(Record(case, {"n": 9, "d": 3, "points": made}, 0.0))
    return found


def test_the_figure_has_curves_and_markers_of_both_kinds_of_rows(tmp_path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    figure = study.plot(fake())
    drawn = [axis for axis in figure.axes if axis.get_visible()]
    assert len(drawn) == 4 * len(study.FIGURES)
    # A curve, its marker and that of the program, in every panel.
    assert {len(axis.containers) for axis in drawn} == {3}
    legend = {text.get_text() for text in figure.legends[0].get_texts()}
    assert legend == {study.PROGRAM, *(name for pair in study.SERIES.values() for name in pair)}
    assert study.plot([]) is None


def test_the_table_is_of_the_markers() -> None:
    (table,) = study.EXPERIMENT.tables(fake())
    # Two markers of each figure but the sixth, whose program is that of the third; without and with a constant.
    assert len(table.rows) == 2 * (2 * len(study.FIGURES) - 1)


def judged(**better: float) -> list[str]:
    """Return the verdicts of records of ten splits in which the program is better by the given numbers."""
    found = []
    for record in fake(10):
        shift = 0.001 * record.case["split"]
        own = better if record.case["method"] == "program" else {}
        for point in record.measured["points"]:
            point |= {"test": 0.5 + shift + own.get("test", 0.0), "train": 0.5 + own.get("train", shift)}
            point["seconds"] = 10.0 + shift - own.get("seconds", 0.0)
        found.append(record)
    claims = study.claims(found)
    assert len(claims) == 3 * len(study.FIGURES)
    return [claim.verdict for claim in claims[:3]]


def test_verdicts_turn_with_the_records() -> None:
    assert judged(train=0.1, test=0.1, seconds=1.0) == ["supported"] * 3
    assert judged(train=-0.1, test=-0.1, seconds=-1.0) == ["contradicted"] * 3
    assert {claim.verdict for claim in study.claims(fake(2))} == {"not measured"}
