"""The figures of Bartan and Pilanci: verdicts turn with the records; what is not measured is said to be so."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qsdp.bench import Record
from qsdp.bench._results import key_of

pytest.importorskip("benchmarks.experiments._common", reason="not in the installed package")

TIMED = ("fig2", "fig3", "fig5")
NAMES = ("fig1", *TIMED, "fig4", "backprop_quantization", "backprop_gaps")

#: What a case of each method makes.
MADE = {
    "backprop": ("backprop", "backprop, signs", "backprop, SDP"),
    "ReLU": ("ReLU", "ReLU, signs"),
}


def experiment(name: str) -> Any:
    topic = "paper" if name.startswith("fig") else "comparisons"
    return importlib.import_module(f"benchmarks.experiments.{topic}.{name}").EXPERIMENT


# -- every experiment ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_claims_without_records_are_not_measured(name: str) -> None:
    claims = experiment(name).claims([])
    assert claims
    assert {claim.verdict for claim in claims} == {"not measured"}


@pytest.mark.parametrize("name", NAMES)
def test_there_are_ten_repetitions_whole_splits_first(name: str) -> None:
    cases = list(experiment(name).cases(False))
    keys = [key_of(case) for case in cases]
    assert len(set(keys)) == len(keys)
    repetitions = [case.get("split", case.get("seed")) for case in cases]
    assert set(repetitions) == set(range(10))
    if name != "fig4":
        assert repetitions == sorted(repetitions)


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_made_of_no_records(name: str) -> None:
    for table in experiment(name).tables([]):
        assert list(table.rows) == []


# -- figures 2, 3, 5 and 6 -------------------------------------------------------------------------------


def measured(case: dict[str, Any], value: Callable[[str, int | None, int], float]) -> dict[str, Any]:
    """Return a record's measurements, with accuracies by name, m and split; seconds are 1, of gradients 10."""
    method, split = case["method"], case["split"]
    variants = {}
    for name in MADE.get(method, (method,)):
        share = value(name, case["m"], split)
        seconds = 10.0 if method in {"backprop", "straight-through", "ReLU"} else 1.0
        bits = None if name in {"backprop", "ReLU"} else 100
        figures = {"bits": bits, "neurons": case["m"] or 7, "seconds": seconds, "undecided": {}}
        variants[name] = {"train": share, "test": share, **figures}
    course = [{"seconds": s, "train": 0.5, "test": 0.5} for s in (1.0, 10.0)] if method in MADE else []
    return {"search_seconds": 20.0 * seconds, "gap": 0.1, "variants": variants, "course": course}


def records_of(name: str, value: Callable[[str, int | None, int], float], splits: int = 10) -> list[Record]:
    cases = [case for case in experiment(name).cases(False) if "method" in case and case["split"] < splits]
    records = [Record(case, measured(case, value), 1.0) for case in cases]
    return [Record(r.case, json.loads(json.dumps(r.measured)), r.seconds) for r in records]


def noisy(name: str, m: int | None, split: int) -> float:
    """Return accuracies with which the paper's network is ahead, by a point or two."""
    return 0.7 + 0.01 * split + (0.01 + 0.002 * (split % 3) if name == "paper" else 0.0)


def verdicts(name: str, records: list[Record], word: str) -> set[str]:
    found = [claim for claim in experiment(name).claims(records) if word in claim.statement]
    assert found
    return {claim.verdict for claim in found if not claim.source.startswith("Beyond")}


@pytest.mark.parametrize("name", TIMED)
def test_the_better_and_faster_network_reproduces_the_figure(name: str) -> None:
    records = records_of(name, noisy)
    assert verdicts(name, records, "accuracy than") == {"supported"}
    assert verdicts(name, records, "less time") == {"supported"}


@pytest.mark.parametrize("name", TIMED)
def test_the_worse_network_does_not(name: str) -> None:
    records = records_of(name, lambda *of: 1.4 - noisy(*of))
    assert verdicts(name, records, "accuracy than") == {"contradicted"}


@pytest.mark.parametrize("name", TIMED)
def test_nine_splits_say_nothing(name: str) -> None:
    claims = experiment(name).claims(records_of(name, noisy, splits=9))
    assert {claim.verdict for claim in claims} == {"not measured"}


def test_the_sizes_are_those_of_the_captions() -> None:
    def sizes(name: str) -> set[int]:
        return {case["m"] for case in experiment(name).cases(False) if case["m"] is not None}

    assert {name: sizes(name) for name in TIMED} == {
        "fig2": {250},
        "fig3": {2500},
        "fig5": {500, 2500},
    }


@pytest.mark.parametrize(("name", "beta"), [("fig2", 0.1), ("fig3", 1e-6), ("fig5", 1e-3)])
def test_the_printed_beta_is_a_candidate(name: str, beta: float) -> None:
    cases = experiment(name).cases(False)
    assert {case["printed"] for case in cases if case["method"] in {"backprop", "straight-through"}} == {beta}
    # Figure 6 has the cases of Figure 3.
    assert {case["printed"] for case in cases if case["method"] == "ReLU"} == {1e-7}


def test_figure_5_judges_every_size_and_compares_them() -> None:
    ahead = records_of("fig5", lambda name, m, split: noisy(name, m, split) + (0.02 if m == 2500 else 0.0))
    claims = [claim for claim in experiment("fig5").claims(ahead) if not claim.source.startswith("Beyond")]
    for m in (500, 2500):
        assert sum(f"m = {m}." in claim.statement for claim in claims) == 4
    more = [claim.verdict for claim in claims if claim.statement.startswith("More neurons")]
    assert more == ["supported"] * 4


def test_seconds_of_the_search_are_counted_apart() -> None:
    records = records_of("fig2", noisy)
    for record in records:
        if record.case["method"] == "paper":
            record.measured["search_seconds"] = 1e4
    claims = {c.statement: c.verdict for c in experiment("fig2").claims(records) if "less time" in c.statement}
    assert list(claims.values()) == ["supported", "contradicted"]


def test_tables_and_pictures_name_every_network(tmp_path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    report = importlib.import_module("benchmarks.experiments.paper._accuracy_time_report")
    records = records_of("fig5", noisy)
    (table,) = experiment("fig5").tables(records)
    assert {row[1] for row in table.rows} == set(report.NAMES)
    # Two sizes, and column generation, which has none.
    assert len(table.rows) == 2 * len(report.NAMES) - 1
    experiment("fig5").plot(records, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


# -- figures 1 and 4 -------------------------------------------------------------------------------------


def planted(slope: float) -> list[Record]:
    """Return records of Figure 1 with an excess over the bound that falls as m to the minus `slope`."""
    records = []
    for case in experiment("fig1").cases(False):
        name, seed = case["method"], case["seed"]
        networks = []
        for m in case["sizes"] or [None]:
            excess = 0.5 * (1.0 + 0.02 * seed) * (m or 1e9) ** -slope * (2.0 if name == "backprop" else 1.0)
            figures = {"objective": 100.0 * (0.01 + excess), "test_loss": excess, "bits": 10, "neurons": m or 5}
            networks.append({"name": name, "m": m, **figures, "seconds": 1.0})
        if name == "backprop":
            networks += [{**one, "name": "backprop, printed scale"} for one in networks]
        if name == "ReLU":
            networks.append({**networks[0], "name": "ReLU, signs"})
            for one in networks:
                one["objective"] = None
        records.append(Record(case, {"networks": networks, "lower_bound": 1.0, "zero": 100.0}, 1.0))
    return records


@pytest.mark.parametrize(("slope", "verdict"), [(1.0, "supported"), (0.2, "contradicted"), (-0.1, "contradicted")])
def test_figure_1_approaches_the_bound(slope: float, verdict: str) -> None:
    claims = experiment("fig1").claims(planted(slope))
    (claim,) = [claim for claim in claims if "approaches" in claim.statement]
    assert claim.verdict == verdict
    compared = [claim for claim in claims if "quantized backpropagation" in claim.statement]
    assert [claim.verdict for claim in compared] == ["supported"] * 12


def test_figure_1_draws_what_is_there(tmp_path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    records = planted(1.0)
    experiment("fig1").plot(records, tmp_path / "picture.png")
    experiment("fig1").plot(records[:3], tmp_path / "part.png")


def sampled(left: float) -> list[Record]:
    """Return records of Figure 4 whose largest network is `left` below the relaxation, the smallest 0.6."""
    records = []
    for case in experiment("fig4").cases(False):
        if "curve" not in case:
            continue
        split, sizes = case["split"], case["sizes"]
        points = []
        for m in sizes:
            share = 0.9 + 0.001 * split - (0.6 if m == min(sizes) else left)
            figures = {"m": m, "neurons": m, "bits": 100 * m, "seconds": 0.1}
            points.append({**figures, "train": share, "test": share})
        found = {"points": points, "sdp_train": 0.9 + 0.001 * split, "sdp_test": 0.9 + 0.001 * split}
        records.append(Record(case, {**found, "relative_gap": 1e-7, "solve_seconds": 1.0}, 1.0))
    return records


@pytest.mark.parametrize(("left", "verdict"), [(0.01, "supported"), (0.2, "contradicted"), (0.7, "contradicted")])
def test_figure_4_approaches_the_relaxation(left: float, verdict: str) -> None:
    records = [*sampled(left), *records_of("fig4", noisy)]
    assert verdicts("fig4", records, "approaches") == {verdict}


def test_figure_4_runs_the_printed_program_in_its_quick_form() -> None:
    assert "printed" in {case.get("curve") for case in experiment("fig4").cases(True)}


# -- the suites over several sets ------------------------------------------------------------------------


def quantization(value: Callable[[str, int], float], splits: int = 10) -> list[Record]:
    module = importlib.import_module("benchmarks.experiments.comparisons.backprop_quantization")
    names = {name for question in module.QUESTIONS for name in question[2:]}
    records = []
    for case in module.EXPERIMENT.cases(False):
        if case["split"] >= splits:
            continue
        mine = [name for name in sorted(names) if module.system_of(name) == case["system"]]
        figures = {"train": 0.5, "seconds": 1.0, "bits": 10}
        networks = {name: {"test": value(name, case["split"]), **figures} for name in mine}
        if networks:
            measured = {"networks": networks, "search_seconds": 1.0, "candidates": 9, "epoch_seconds": 0.1}
            records.append(Record(case, measured, 1.0))
    return records


def test_quantization_is_judged_over_whole_splits() -> None:
    found = experiment("backprop_quantization")
    records = quantization(lambda name, split: 0.7 + 0.003 * (split % 3) * (name[0] == "r") + 0.1 * (name[0] == "r"))
    verdicts = [claim.verdict for claim in found.claims(records)]
    assert verdicts == ["supported"] * 4 + ["inconclusive"] * 5
    missing = [r for r in records if not (r.case["set"] == "heart" and r.case["split"] == 3)]
    assert {claim.verdict for claim in found.claims(missing)} == {"not measured"}


def test_gaps_are_judged_over_whole_splits() -> None:
    found = experiment("backprop_gaps")
    made = {
        "relaxation": ("sampled", "sampled, scaled", "polished"),
        "backpropagation": ("rounded, shared", "rounded, scaled"),
        "straight-through": ("straight-through",),
        "straight-through, one number": ("straight-through, one number",),
    }
    records = []
    for case in found.cases(False):
        ours = case["system"] == "relaxation"
        objective = (2.0 if ours else 3.0) + 0.01 * case["split"]
        networks = {name: {"objective": objective, "bits": 5, "seconds": 1.0} for name in made[case["system"]]}
        records.append(Record(case, {"lower_bound": 1.0, "networks": networks}, 1.0))
    assert {claim.verdict for claim in found.claims(records)} == {"supported"}
    assert {claim.verdict for claim in found.claims(records[:-1])} == {"not measured", "supported"}
