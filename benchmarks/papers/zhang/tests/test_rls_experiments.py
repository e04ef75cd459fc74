"""The experiments: quick runs through the file of results, and claims that records decide."""

from __future__ import annotations

import importlib
import json

import pytest

from benchmarks.papers.zhang.experiments import rls_costs, rls_curves
from benchmarks.runner import Record

NAMES = ("rls_costs", "rls_curves")


def experiment(name):
    return importlib.import_module(f"benchmarks.papers.zhang.experiments.{name}").EXPERIMENT


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quick", [True, False])
def test_cases_are_json_and_distinct(name, quick):
    cases = experiment(name).cases(quick)
    texts = [json.dumps(case, sort_keys=True) for case in cases]
    assert len(set(texts)) == len(texts) > 0
    assert experiment(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_reports_of_no_records(name):
    made = experiment(name).claims([])
    assert made
    assert {claim.verdict for claim in made} == {"not measured"}
    assert not any(table.rows for table in experiment(name).tables([]))


def test_costs_of_steps(monkeypatch):
    monkeypatch.setitem(rls_costs.NETWORKS, "784-512-10", (2, 1.1))
    found = rls_costs.measure({"network": "784-512-10", "method": "rls", "round": 0})
    assert found["step"] > 0.0
    assert found["parameters"] == 785 * 512 + 513 * 10
    assert found["state"] == 785**2 + 513**2


def test_curves_are_those_of_training():
    measured = experiment("rls_curves").run({"network": "dense", "method": "RLS", "seed": 0, "epochs": 3})
    assert list(measured["test"]) == list(measured["loss"]) == ["1", "2", "3"]
    assert measured["loss"]["3"] < measured["loss"]["1"]
    assert measured["cpu_seconds_per_epoch"] > 0.0


# -- verdicts -------------------------------------------------------------------------------------------


def curves(case, level):
    """Return a measurement whose accuracies rise with a level between 0 and 1, and whose losses fall."""
    shift = 1e-4 * case["seed"]
    values = {str(epoch): 0.5 + 0.4 * level + shift for epoch in rls_curves.EPOCHS}
    return {
        "test": values,
        "loss": {epoch: 1.0 - value for epoch, value in values.items()},
        "diverged": None,
        "cpu_seconds_per_epoch": 0.1,
    }


def made_up(name, level):
    """Return records of all cases that train a network, whose quality is `level(label)`."""
    return [Record(case, curves(case, level(case)), 1.0) for case in experiment(name).cases(False)]


def by_method(order):
    return lambda case: order.get(case["method"], 0.5)


#: Methods in the order that the paper has them.
PAPERS = {"Adam": 0.2, "Adam, entropy": 0.2}
for number, sign in enumerate(("", "+M", "+R", "+M+R")):
    PAPERS |= {f"RLS{sign}": 0.6 + 0.1 * number, f"HRLS{sign}": 0.6 + 0.1 * number}
REVERSED = {label: 1.0 - level for label, level in PAPERS.items()}


def test_verdicts_on_methods_come_from_records():
    for order, expected in ((PAPERS, "supported"), (REVERSED, "contradicted")):
        made = experiment("rls_curves").claims(made_up("rls_curves", by_method(order)))
        faster = [claim for claim in made if "faster and better" in claim.statement and claim.verdict != "not measured"]
        better = [claim for claim in made if "mprove" in claim.statement and claim.verdict != "not measured"]
        # Both losses, and three additions each, of five networks.
        assert len(faster) == 2 * 5
        assert len(better) == 2 * 5 * 3
        assert {claim.verdict for claim in [*faster, *better]} == {expected}


@pytest.mark.parametrize("data", ["CIFAR-10", "IMDB"])
def test_the_papers_own_data_are_not_measured(data):
    made = experiment("rls_curves").claims(made_up("rls_curves", by_method(PAPERS)))
    (claim,) = [claim for claim in made if data in claim.statement]
    assert claim.verdict == "not measured"


def test_values_of_k_and_eta_are_compared_with_the_best():
    def verdicts(order):
        made = experiment("rls_curves").claims(made_up("rls_curves", by_method(order)))
        said = {"k should": set(), "eta should": set(), "more sensitive": set()}
        for claim in made:
            for words, found in said.items():
                if words in claim.statement:
                    found.add(claim.verdict)
        return [sorted(found) for found in said.values()]

    worse = {"RLS, k 10": 0.6, "RLS, eta 0.01": 0.1, "RLS, eta 0.1": 0.5, "RLS, eta 10": 0.0}
    best = {"RLS": 0.9, "RLS, k 0.01": 0.9, "RLS, k 1": 0.9, **worse}
    assert verdicts(best) == [["supported"]] * 3
    assert verdicts({**best, "RLS, k 1": 0.95}) == [["contradicted"], ["supported"], ["supported"]]
    assert verdicts({**best, "RLS, eta 10": 0.95, "RLS, k 10": -1.0}) == [
        ["supported"],
        ["contradicted"],
        ["contradicted"],
    ]


def test_what_diverged_is_shown_and_loses():
    cases = [case for case in experiment("rls_curves").cases(False) if case["method"] == "RLS, eta 10"]
    cases = [case for case in cases if case["network"] == "convolutional"]
    lost = {"test": {}, "loss": {}, "diverged": 1, "cpu_seconds_per_epoch": None}
    records = [Record(case, lost, 1.0) for case in cases]
    (table,) = experiment("rls_curves").tables(records)
    assert dict(zip(table.headings, table.rows[0], strict=True))["diverged"] == "10 of 10"
    assert rls_curves.curve(records, "RLS, eta 10", "loss", 30) == dict.fromkeys(range(10), 1e3)
    assert rls_curves.curve(records, "RLS, eta 10", "test", 30) == dict.fromkeys(range(10), 0.1)
