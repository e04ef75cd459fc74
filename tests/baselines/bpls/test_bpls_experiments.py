"""The experiments on least squares: measured, stored, read back, and judged by their records."""

from __future__ import annotations

import functools
import importlib
import json
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import qsdp
from qsdp.bench import Claim, Record, Results, run_experiment
from qsdp.datasets import load_mnist
from qsdp.exceptions import DatasetError

pytest.importorskip("torch")
images = pytest.importorskip("benchmarks.experiments.least_squares.bpls_images", reason="not in the installed package")
NAMES = ("bpls_images", "bpls_toys")


def experiment(name: str) -> Any:
    return importlib.import_module(f"benchmarks.experiments.least_squares.{name}").EXPERIMENT


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
    assert rows == {"bpls": len(images.JUDGED), "competitors": 1, "memory": 1, "validation": 1}
    # Every claim on competitors names every variant with one of the same activation.
    every = images.claims(records)
    # A quick run has neither Fashion-MNIST nor minibatches of one.
    assert {claim.statement for claim in every} == {claim.statement for claim in images.claims([])}
    claims = [claim for claim in every if claim.figures and claim.source != "This comparison"]
    assert len(claims) == 2
    for claim in claims:
        judged = [name for name in images.JUDGED if f"{name} " in claim.figures or f"{name}: " in claim.figures]
        assert judged == list(images.JUDGED[:-1])
    images.EXPERIMENT.plot(records, tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").stat().st_size > 1000


@pytest.mark.parametrize("options", [{}, {"activation": "softmax"}, {"hidden": [50, 50]}])
def test_every_pass_is_in_every_list(options: dict[str, Any]) -> None:
    training = importlib.import_module("benchmarks.experiments.least_squares._bpls_classifiers")
    data = importlib.import_module("benchmarks.experiments._data")
    found = training.least_squares(data.digits(), {"ridge": 1e-3, **options}, 0)
    lists = [found[name] for name in ("cpu", "curve", "misses", "seconds", "clipped")]
    assert [len(each) for each in lists] == [found["epochs"]] * 5
    assert found["curve"][0] == found["initial"]
    assert found["curve"][-1] == found["final"]
    # The network that is kept so far never has more training misses than the one before.
    assert np.all(np.diff([train for train, _ in found["curve"]]) >= 0.0)


# -- verdicts ----------------------------------------------------------------------------------------


def trained(test: float, cpu: float, **case: Any) -> Record:
    return Record(case, {"final": [test, test], "best": [test, test], "cpu": [cpu, cpu]}, 0.0)


def test_match_and_speed_are_of_every_variant() -> None:
    def ten(test: float, cpu: float, **case: Any) -> list[Record]:
        return [trained(test + 0.001 * (-1) ** seed, cpu, seed=seed, **case) for seed in range(10)]

    others = ten(0.95, 2.0, optimizer="Adam", rate=1e-3, batch=1, epochs=40)
    others += ten(0.80, 2.0, optimizer="SGD", rate=1e-3, batch=1, epochs=40)
    both = {"one": (ten(0.94, 1e-3), others), "two": (ten(0.7, 1.0), others)}
    match = images.match_claim("mnist", both)
    assert match.verdict == "contradicted"
    assert match.why.startswith("two: -25")
    assert "one 94.0 % (10 runs) against 95.0 % (Adam 0.001, batch 1, best of 40 epochs, 10 runs)" in match.figures
    assert images.match_claim("mnist", {"one": both["one"]}).verdict == "supported"
    (speed,) = images.speed_claims("mnist", both, [1])
    assert (speed.verdict, speed.why) == ("contradicted", "not two: 2.0 times")
    assert "one: 0.001 s against 2 s, 2000.0 times; two: 1 s against 2 s, 2.0 times" in speed.figures
    assert images.speed_claims("mnist", {"one": both["one"]}, [1])[0].verdict == "supported"


def test_the_choice_by_validation_is_checked() -> None:
    def grid(best: dict[str, float]) -> list[Claim]:
        cases = [case for case in images.cases(False) if case["part"] == "validation" and case["data"] == "mnist"]
        chosen = [{key: case[key] for key in best} == best for case in cases]
        records = [trained(0.9 if is_best else 0.8, 1.0, **case) for case, is_best in zip(cases, chosen, strict=True)]
        assert sum(chosen) == images.GRID_SEEDS
        return [claim for claim in images.claims(records) if claim.source == "This comparison"]

    # Three seeds are too few.
    assert grid(images.CHOSEN)[0].verdict == "not measured"
    assert "90.0 % against 80.0 %" in grid(images.CHOSEN)[0].figures
