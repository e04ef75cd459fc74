"""The experiments on least squares: measured, stored, read back, and judged by their records."""

from __future__ import annotations

import functools
import importlib
import json
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import qsdp
from benchmarks.machinery.verdicts import Claim
from benchmarks.papers.tomic.experiments import bpls_images as images
from benchmarks.runner import Record, Results, run_experiment
from qsdp.datasets import load_mnist
from qsdp.exceptions import DatasetError

pytest.importorskip("torch")
NAMES = ("bpls_images", "bpls_toys")


def experiment(name: str) -> Any:
    return importlib.import_module(f"benchmarks.papers.tomic.experiments.{name}").EXPERIMENT


@functools.cache
def quick(name: str) -> list[Record]:
    """Measure the quick cases, and return them as they are read from the file."""
    with tempfile.TemporaryDirectory() as folder:
        return measured(name, Path(folder))


def measured(name: str, folder: Path) -> list[Record]:
    results, failures = run_experiment(experiment(name), folder / "found.json", quick=True, verbose=False)
    assert failures == []
    stored = Results.load(folder / "found.json")
    assert stored.version == experiment(name).version
    cases = experiment(name).cases(True)
    assert stored.missing(cases) == []
    assert len(results.records) == len(cases)
    return stored.of(cases)


def judged_of(claims: list[Claim]) -> list[Claim]:
    """Return the claims that records say something of."""
    return [claim for claim in claims if claim.verdict != "not measured"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fast", [True, False])
def test_cases_are_json_and_distinct(name: str, fast: bool) -> None:
    texts = [json.dumps(case, sort_keys=True) for case in experiment(name).cases(fast)]
    assert len(set(texts)) == len(texts) > 0
    assert experiment(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_reports_of_no_records(name: str) -> None:
    experiment(name).tables([])
    claims = experiment(name).claims([])
    assert {claim.verdict for claim in claims} == {"not measured"}
    assert len({(claim.source, claim.statement) for claim in claims}) == len(claims)


@pytest.mark.usefixtures("uci_available")
def test_quick_run_of_images(tmp_path: Path) -> None:
    try:
        load_mnist("test")
    except DatasetError:
        pytest.skip("MNIST not found in QSDP_DATA")
    with patch.object(qsdp.datasets, "load_mnist", functools.cache(load_mnist)):
        records = quick("bpls_images")
    rows = {table.title: len(table.rows) for table in images.EXPERIMENT.tables(records)}
    assert rows == {"BPLS": len(images.REPAIRED) + 1, "readings of BPLS on fewer images": 1, "competitors": 1}
    # A quick run has neither Fashion-MNIST nor minibatches of one.
    assert {claim.statement for claim in images.claims(records)} == {claim.statement for claim in images.claims([])}
    images.EXPERIMENT.plot(records, tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").stat().st_size > 1000


@pytest.mark.parametrize("options", [{}, {"activation": "softmax"}, {"hidden": [50, 50]}])
def test_every_pass_is_in_every_list(options: dict[str, Any]) -> None:
    data = importlib.import_module("benchmarks.data.sets")
    found = images.least_squares(data.digits(), {"ridge": 1e-3, **options}, 0)
    assert [len(found[name]) for name in ("cpu", "curve")] == [found["epochs"]] * 2
    assert found["curve"][-1] == found["test"]
    assert 0.8 < found["linear_least_squares_test"] < 1.0


# -- verdicts ----------------------------------------------------------------------------------------


def verdicts(tests: dict[str, float], rival: float = 0.9, seconds: float = 2.0) -> dict[str, Claim]:
    """Return the claims on MNIST of trainings of some accuracy, an epoch of which takes a thousandth of a second."""
    records = []
    for case in (case for case in images.cases(False) if case["data"] == "mnist"):
        test = tests.get(case.get("variant", ""), rival if case.get("optimizer") == "Adam" else 0.5)
        test += 0.001 * (-1) ** case["seed"]
        found = {"test": test, "best_test": test, "linear_least_squares_test": 0.86, "curve": [test]}
        cpu = [1e-3] if "variant" in case else [seconds]
        records.append(Record(case, {**found, "cpu": cpu, "epochs": 9}, 0.0))
    return {claim.statement: claim for claim in images.claims(records) if claim.statement.startswith("mnist")}


def test_verdicts_are_of_the_printed_and_of_the_repaired_readings() -> None:
    right = dict.fromkeys(images.VARIANTS, images.PRINTED_TEST["mnist"])
    assert {claim.verdict for claim in verdicts(right).values()} == {"supported"}
    for rival, seconds, changed in ((0.95, 2.0, ["matches"] * 2), (0.9, 0.5, ["faster"] * 4)):
        found = verdicts(right, rival, seconds)
        wrong = [statement for statement, claim in found.items() if claim.verdict != "supported"]
        assert [word in statement for word, statement in zip(changed, wrong, strict=True)] == [True] * len(changed)


def test_one_repaired_reading_is_enough_and_does_not_help_the_printed_one() -> None:
    right = dict.fromkeys(images.VARIANTS, images.PRINTED_TEST["mnist"])
    repaired = dict.fromkeys(images.REPAIRED, 0.7)
    for tests, expected in (
        ({**right, **repaired, "sigmoid": right["sigmoid"]}, ["supported", "supported"]),
        ({**right, **repaired}, ["supported", "contradicted"]),
        ({**right, images.FIRST: 0.2}, ["contradicted", "supported"]),
        ({**right, images.FIRST: 0.95}, ["contradicted", "supported"]),
    ):
        found = verdicts(tests)
        printed = [claim for statement, claim in found.items() if "the printed test accuracy" in statement]
        assert [claim.verdict for claim in printed] == expected


def test_the_best_pass_of_the_printed_reading_counts() -> None:
    case = next(case for case in images.cases(False) if case.get("variant") == images.FIRST)
    found = Record(case, {"test": 0.2, "curve": [0.1, 0.5, 0.2]}, 0.0)
    assert images.best_test(found) == 0.5
    assert images.best_test(Record({**case, "variant": "softmax"}, found.measured, 0.0)) == 0.2


def toy_records(errors: dict[str, float]) -> list[Record]:
    """Return records of the noises of both toys, of methods with errors relative to their competitors'."""
    toys = importlib.import_module("benchmarks.papers.tomic.experiments.bpls_toys")
    found = []
    for case in toys.cases(False):
        error = errors.get(case["method"], 1.0) * (1.0 + case["sigma"]) * (1.0 + 0.001 * (int(50 * case["sigma"]) % 2))
        if case["method"] != "inverse":
            found.append(Record(case, {"train": error, "test": error}, 0.0))
    return found


def test_verdicts_on_toys_come_from_records() -> None:
    toys = importlib.import_module("benchmarks.papers.tomic.experiments.bpls_toys")
    found = toys.claims(toy_records({"BPLS": 0.9, "BPLS as printed, first output": 2.0}))
    expected = ["supported", "contradicted", "inconclusive", "inconclusive", "not measured"]
    assert [claim.verdict for claim in found] == expected
