"""Records name the versions of what they measure, and the machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.runner import Experiment, Results, run_experiment
from benchmarks.runner._report import footer

ROOTS = Experiment(
    "roots",
    "Roots",
    "Heron",
    lambda quick: [{"n": 4}, {"n": 9}],
    lambda case: {"root": case["n"] ** 0.5},
    lambda records: [],
    methods={"sampling": 1},
)


def test_records_of_other_versions_of_the_methods_are_stale_and_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    assert Results("roots", 1).state(ROOTS) == ""
    run_experiment(ROOTS, path, verbose=False, limit=1, about={"commit": "a", "note": "a build on the same cores"})
    assert Results.load(path).state(ROOTS) == "current"
    raised = replace(ROOTS, methods={"sampling": 2}, run=lambda case: {"root": -(case["n"] ** 0.5)})
    assert Results.load(path).state(raised) == "1 of 1 stale"
    text = footer(raised, Results.load(path))
    assert "1 of 2 cases. 1 records were measured with other versions of the methods." in text
    # What is missing comes before what is stale, which counts until it is measured again.
    run_experiment(raised, path, verbose=False, limit=1)
    both = Results.load(path)
    assert [(record.case["n"], record.measured["root"], record.machine) for record in both.records] == [
        (4, 2.0, 0),
        (9, -3.0, 1),
    ]
    assert both.state(raised) == "1 of 2 stale"
    results, _ = run_experiment(raised, path, verbose=False)
    assert results.state(raised) == Results.load(path).state(raised) == "current"
    assert sorted(record.measured["root"] for record in Results.load(path).records) == [-3.0, -2.0]
    assert results.stale(replace(raised, methods={})) == [], "a method is no longer measured"
    again = replace(raised, methods={"sampling": 3}, methods_of=lambda case: ["sampling"] if case["n"] > 5 else [])
    assert [record.case["n"] for record in results.stale(again)] == [9], "only this case depends on the method"
