"""The figures of Bartan and Pilanci: verdicts turn with the records; what is not measured is said to be so."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks.runner import Record
from benchmarks.runner._results import key_of

NAMES = ("fig1", "accuracy_time", "fig4", "objectives")

#: What a case of each method makes.
MADE = {
    "backprop": ("backprop", "backprop, signs", "backprop, SDP"),
    "ReLU": ("ReLU", "ReLU, signs"),
}


def experiment(name: str) -> Any:
    folder = "experiments.comparisons" if name == "objectives" else "papers.bartan_pilanci.experiments"
    return importlib.import_module(f"benchmarks.{folder}.{name}").EXPERIMENT


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
    repetitions: dict[Any, list[int]] = {}
    for case in cases:
        repetitions.setdefault(case.get("kind"), []).append(case.get("split", case.get("seed")))
    for own in repetitions.values():
        assert set(own) == set(range(10))
        assert own == sorted(own)


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_made_of_no_records(name: str) -> None:
    for table in experiment(name).tables([]):
        assert list(table.rows) == []


# -- figures 2, 3, 5 and 6 -------------------------------------------------------------------------------


def measured(case: dict[str, Any], value: Callable[[str, int, int], float]) -> dict[str, Any]:
    """Return a record's measurements, with accuracies by name, m and split; seconds are 1, of gradients 10."""
    method, seconds = case["method"], 10.0 if "epochs" in case else 1.0
    networks = {}
    for name in MADE.get(method, (method,)):
        share = value(name, case["m"], case["split"])
        bits = None if name in {"backprop", "ReLU"} else 100
        networks[name] = {"train": share, "test": share, "bits": bits, "seconds": seconds, "at an edge": False}
    return {"search_seconds": 20.0 * seconds, "networks": networks}


def records_of(value: Callable[[str, int, int], float], splits: int = 10) -> list[Record]:
    cases = [case for case in experiment("accuracy_time").cases(False) if case["split"] < splits]
    return [Record(case, json.loads(json.dumps(measured(case, value))), 1.0) for case in cases]


def noisy(name: str, m: int, split: int) -> float:
    """Return accuracies with which the paper's network is ahead, by a point or two."""
    return 0.7 + 0.01 * split + (0.01 + 0.002 * (split % 3) if name == "paper" else 0.0)


def verdicts(name: str, records: list[Record], word: str) -> set[str]:
    found = [claim for claim in experiment(name).claims(records) if word in claim.statement]
    assert found
    return {claim.verdict for claim in found if not claim.source.startswith("Beyond")}


def test_the_better_and_faster_network_reproduces_the_figures() -> None:
    records = records_of(noisy)
    assert verdicts("accuracy_time", records, "accuracy than") == {"supported"}
    assert verdicts("accuracy_time", records, "less time") == {"supported"}


def test_the_worse_network_does_not() -> None:
    records = records_of(lambda *of: 1.4 - noisy(*of))
    assert verdicts("accuracy_time", records, "accuracy than") == {"contradicted"}


def test_nine_splits_say_nothing() -> None:
    claims = experiment("accuracy_time").claims(records_of(noisy, splits=9))
    assert {claim.verdict for claim in claims} == {"not measured"}


def test_a_rival_at_the_edge_of_its_grid_decides_nothing() -> None:
    records = records_of(noisy)
    for record in records:
        for name, network in record.measured["networks"].items():
            network["at an edge"] = name == "ReLU, signs"
    claims = [claim for claim in experiment("accuracy_time").claims(records) if "than 'ReLU, signs'" in claim.statement]
    assert {claim.verdict for claim in claims if "accuracy" in claim.statement} == {"not measured"}
    assert {claim.verdict for claim in claims if "less time" in claim.statement} == {"supported"}


def test_sizes_and_betas_are_those_of_the_captions() -> None:
    found: dict[str, tuple[set[int], set[float]]] = {}
    for case in experiment("accuracy_time").cases(False):
        sizes, betas = found.setdefault(case["set"], (set(), set()))
        sizes.add(case["m"])
        if case["method"] in {"backprop", "straight-through"}:
            betas.add(case["printed"])
        if case["method"] == "ReLU":
            assert case["printed"] == 1e-7
    assert found == {
        "breast-cancer": ({250}, {0.1}),
        "ionosphere": ({2500}, {1e-6}),
        "credit-approval": ({500, 2500}, {1e-3}),
    }


def test_every_figure_and_size_is_judged_and_sizes_are_compared() -> None:
    records = records_of(lambda name, m, split: noisy(name, m, split) + (0.02 if m == 2500 else 0.0))
    claims = experiment("accuracy_time").claims(records)
    for figure, m in ((2, 250), (3, 2500), (5, 500), (5, 2500), (6, 2500)):
        own = [claim for claim in claims if claim.source == f"Bartan, Pilanci, Figure {figure}"]
        assert sum("than" in claim.statement and f"m = {m}." in claim.statement for claim in own) == 4
    more = [claim.verdict for claim in claims if claim.statement.startswith("More neurons")]
    assert more == ["supported"] * 4


def test_seconds_of_the_search_are_counted_apart() -> None:
    records = records_of(noisy)
    for record in records:
        if record.case["method"] == "paper":
            record.measured["search_seconds"] = 1e4
    claims = {c.statement: c.verdict for c in experiment("accuracy_time").claims(records) if "less time" in c.statement}
    assert {verdict for said, verdict in claims.items() if "the fit)" in said} == {"supported"}
    assert {verdict for said, verdict in claims.items() if "search" in said} == {"contradicted"}


def test_the_printed_candidate_is_taken_where_it_is_better() -> None:
    figures = importlib.import_module("benchmarks.papers.bartan_pilanci.experiments.accuracy_time")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    makes = {"network": lambda model: (lambda rows: model.coef_[0, 0] * rows[:, 0] - 0.5, model)}
    accuracies = []
    for more in ([], [{"C": 100.0}]):
        _, found = figures.chosen(LogisticRegression(), {"C": [1e-6, 1e-7]}, makes, X, y, 0, more)
        accuracies.append(np.mean(np.sign(found["network"][0](X)) == y))
    assert accuracies[1] > accuracies[0] + 0.1


def test_the_table_names_every_network() -> None:
    table = experiment("accuracy_time").tables(records_of(noisy))[0]
    shown = {cell for row in table.rows for cell in row}
    assert {"paper", "polished", "straight-through", *MADE["backprop"], *MADE["ReLU"]} <= shown


# -- figures 1 and 4 -------------------------------------------------------------------------------------


def planted(slope: float) -> list[Record]:
    """Return records of Figure 1 with an excess over the bound that falls as m to the minus `slope`."""
    records = []
    for case in experiment("fig1").cases(False):
        name, seed = case["method"], case["seed"]
        networks = []
        for m in case["sizes"]:
            excess = 0.5 * (1.0 + 0.02 * seed) * m**-slope * (2.0 if name == "backprop" else 1.0)
            figures = {"objective": 0.01 + excess, "above_bound": excess, "test_loss": excess, "bits": 10}
            networks.append({"name": name, "m": m, **figures})
        if name == "backprop":
            networks += [{**one, "name": "backprop, printed scale"} for one in networks]
        records.append(Record(case, {"networks": networks, "lower_bound": 0.01}, 1.0))
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
        best = 0.9 + 0.001 * case["split"]
        points = []
        for m in case["sizes"]:
            share = best - (0.6 if m == min(case["sizes"]) else left)
            points.append({"m": m, "bits": 100 * m, "train": share, "test": share})
        records.append(Record(case, {"points": points, "sdp_train": best, "sdp_test": best}, 1.0))
    return records


@pytest.mark.parametrize(("left", "verdict"), [(0.01, "supported"), (0.2, "contradicted"), (0.7, "contradicted")])
def test_figure_4_approaches_the_relaxation(left: float, verdict: str) -> None:
    assert verdicts("fig4", sampled(left), "approaches") == {verdict}


def test_figure_4_runs_the_printed_program_in_its_quick_form() -> None:
    assert "printed" in {case["curve"] for case in experiment("fig4").cases(True)}


# -- objectives on several sets ---------------------------------------------------------------------------


def test_objectives_are_judged_over_whole_splits() -> None:
    found = experiment("objectives")
    records = []
    for case in found.cases(False):
        names = {"relaxation": ("sampled", "polished"), "backprop": ("rounded",)}.get(case["system"], (case["system"],))
        ratio = 1.1 + 0.003 * (case["split"] % 3) if case["system"] != "relaxation" else 1.0
        records.append(Record(case, {"networks": {name: {"over bound": ratio} for name in names}}, 1.0))
    assert [claim.verdict for claim in found.claims(records)] == ["supported"] * 3
    missing = [r for r in records if not (r.case["set"] == "heart" and r.case["split"] == 3)]
    assert {claim.verdict for claim in found.claims(missing)} == {"not measured"}
    for record in records:
        for network in record.measured["networks"].values():
            network["over bound"] = 3.0 - network["over bound"]
    assert [claim.verdict for claim in found.claims(records)] == ["contradicted"] * 3


def test_objectives_of_real_networks_are_at_or_above_the_bound(uci_available: None) -> None:
    found = experiment("objectives")
    names = set()
    for case in found.cases(True):
        networks = found.run(case)["networks"]
        names |= set(networks)
        assert min(one["over bound"] for one in networks.values()) >= 1.0 - 1e-9
    assert names == {"sampled", "polished", "rounded", "straight-through"}


def test_curves_of_figure_4_are_named_by_how_neurons_are_divided() -> None:
    points = [{"m": m, "bits": m, "train": 0.5, "test": 0.5} for m in (10, 30)]
    records = [
        Record(
            {"curve": curve, "split": split, "sizes": [10, 30]},
            {"points": points, "sdp_train": 0.9, "sdp_test": 0.8},
            0.0,
        )
        for curve in ("printed", "proportional", "polished")
        for split in range(2)
    ]
    module = importlib.import_module("benchmarks.papers.bartan_pilanci.experiments.fig4")
    names = {"sampled, equal neurons per class", "sampled, neurons in proportion to rho", "polished"}
    figure = module.plot(records)
    legend = {text.get_text() for text in figure.legends[0].get_texts()}
    assert legend == names | {"relaxation, as printed", "relaxation, tight"}
    first = module.EXPERIMENT.tables(records)[0]
    assert {row[first.headings.index("curve")] for row in first.rows} == names
