"""Experiments are resumable, keep what they measured, and report exactly that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config

from benchmarks.machinery.process import in_own_process
from benchmarks.runner import Experiment, Record, Results, Table, load_results, markdown_of, run_experiment
from qsdp import QSDPWarning
from qsdp.exceptions import MissingPackageError, StorageError

calls: list[dict[str, Any]] = []


def cases(quick: bool) -> list[dict[str, Any]]:
    return [{"n": n, "seed": seed} for n in (1, 2) for seed in range(1 if quick else 3)]


def run(case: dict[str, Any]) -> dict[str, Any]:
    calls.append(case)
    return {"square": np.int64(case["n"]) ** 2, "row": np.arange(2.0), "nothing": float("nan")}


def run_interrupted(case: dict[str, Any]) -> dict[str, Any]:
    if len(calls) == 2:
        raise KeyboardInterrupt
    return run(case)


def tables(records: list[Record]) -> list[Table]:
    rows = [[str(record.case["n"]), str(record.measured["square"])] for record in records]
    return [Table("squares", ["n", "n^2 | measured"], rows, note="exact")]


def experiment(**changes: Any) -> Experiment:
    given = {"name": "squares", "title": "Squares", "source": "Euclid", "cases": cases, "run": run, "tables": tables}
    return Experiment(**{**given, **changes})


@pytest.fixture(autouse=True)
def forget() -> None:
    calls.clear()


def measure(path: Path, **options: Any) -> tuple[Results, list[Any]]:
    changes = {key: options.pop(key) for key in ("run", "version", "cases") if key in options}
    return run_experiment(experiment(**changes), path, verbose=False, **options)


def fail(case: dict[str, Any]) -> dict[str, Any]:
    raise {"package": MissingPackageError, "root": ValueError}[case["no"]]("not found")


@pytest.mark.parametrize(("missing", "raised"), [("package", MissingPackageError), ("root", RuntimeError)])
def test_what_a_measurement_lacks_is_known_outside_of_its_process(missing: str, raised: type[Exception]) -> None:
    with pytest.raises(raised, match="not found"):
        in_own_process(fail, {"no": missing})


def test_all_cases_are_measured_once_and_stored(tmp_path: Path) -> None:
    path = tmp_path / "new" / "squares.json"
    results, failures = measure(path)
    assert failures == []
    assert [record.case for record in results.records] == cases(False) == calls
    assert [record.measured["square"] for record in results.records] == [1, 1, 1, 4, 4, 4]
    stored = Results.load(path)
    assert stored.records[3].measured["row"] == [0.0, 1.0]
    assert np.isnan(stored.records[0].measured["nothing"])
    assert stored.machines[0]["versions"]["numpy"] == np.__version__
    measure(path)
    assert len(calls) == 6


def test_a_run_goes_on_where_one_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "squares.json"
    results, _ = measure(path, limit=4)
    assert len(results.records) == 4
    results, _ = measure(path)
    assert calls == cases(False)
    assert [record.case for record in results.of(cases(False))] == cases(False)


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "squares.json"
    with pytest.warns(QSDPWarning, match="interrupted: 2 of 6 cases are in"):
        results, _ = measure(path, run=run_interrupted)
    assert results.interrupted
    assert len(Results.load(path).records) == 2
    assert not measure(path)[0].interrupted


def test_other_versions_and_quick_records_are_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "squares.json"
    results, _ = measure(path, quick=True)
    assert results.quick
    assert len(results.records) == 2
    measure(path)
    results, _ = measure(path, version=2)
    assert len(calls) == 2 + 6 + 6
    assert (results.version, len(results.records)) == (2, 6)


def test_cases_that_are_no_longer_asked_for_stay_but_are_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "squares.json"
    measure(path)

    def fewer(quick: bool) -> list[dict[str, Any]]:
        return cases(True)

    results, _ = measure(path, cases=fewer)
    assert len(results.records) == 6
    assert "2 of 2 cases" in markdown_of(experiment(cases=fewer), results)


def squares(results: Results) -> list[int]:
    return [record.measured["square"] for record in results.of(cases(False))]


def test_back_ends_measure_the_same(tmp_path: Path) -> None:
    """Also another one than loky, by which the UCI suite is measured."""
    with parallel_config(backend="threading"):
        results, failures = measure(tmp_path / "two.json", n_jobs=2)
    assert failures == []
    assert squares(results) == [1, 1, 1, 4, 4, 4]


def test_records_of_other_versions_are_counted_but_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "squares.json"
    assert load_results(experiment(), path).records == []
    measure(path, quick=True)
    assert len(load_results(experiment(), path).records) == 2
    assert load_results(experiment(), path, quick=False).records == []
    later = load_results(experiment(version=2), path)
    assert (later.records, later.outdated, later.version) == ([], 2, 2)
    assert "Not measured yet: none of 2 cases (quick). 2 records of another version" in markdown_of(
        experiment(version=2), later
    )
    with pytest.raises(StorageError, match="not of 'cubes'"):
        load_results(experiment(name="cubes"), path)
