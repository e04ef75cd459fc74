"""`qsdp bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_program import refused, run

from qsdp.bench import Results
from qsdp.bench.uci import METHODS, suite
from qsdp.bench.uci import data as data_module
from qsdp.bench.uci.suite import run as measure_case

FAST = ("--methods", "logistic,quadratic-ridge")


def stored(folder: Path, name: str = "uci") -> list[tuple[str, str, int]]:
    return [(r.case["set"], r.case["method"], r.case["seed"]) for r in Results.load(folder / f"{name}.json").records]


def test_bench_measures_reports_and_goes_on(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("bench", "--suite", "uci", "--sets", "iris", "--sets", "wine", *FAST, "--seeds", 1, "--out", "a/b")
    assert result.exit_code == 0, result.stderr
    folder = here / "a" / "b"
    expected = [(name, method, 0) for name in ("iris", "wine") for method in ("logistic", "quadratic-ridge")]
    assert stored(folder) == expected
    assert sorted(path.name for path in folder.iterdir()) == ["uci.json", "uci.md"]
    assert "4 of 4 cases" in result.stdout
    assert "quadratic-ridge" in result.stdout
    assert result.stderr == "a/b: uci.json, uci.md\n"
    text = (folder / "uci.md").read_text(encoding="utf-8")
    assert "| iris |" in text

    measured: list[dict[str, Any]] = []
    monkeypatch.setattr(suite, "run", lambda case: (measured.append(case), measure_case(case))[1])
    result = run("bench", "--sets", "iris,wine", *FAST, "--seeds", 2, "--out", "a/b")
    assert "8 of 8 cases" in result.stdout
    assert {case["seed"] for case in measured} == {1}
    assert stored(folder)[:4] == expected


def test_quick_results_have_a_file_of_their_own(here: Path) -> None:
    run("bench", "--sets", "iris", "--methods", "logistic", "--seeds", 1)
    before = (here / "qsdp-bench" / "uci.json").read_bytes()
    result = run("bench", "--quick", *FAST)
    assert result.exit_code == 0, result.stderr
    measured = [name for name, _, _ in stored(here / "qsdp-bench", "uci-quick")]
    assert measured == ["iris"] * 2 + ["wine"] * 2 + ["breast-cancer-wisconsin"] * 2
    assert "6 of 6 cases (quick)" in result.stdout
    assert (here / "qsdp-bench" / "uci.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "mnist"], "--suite must be one of 'uci'; got 'mnist'"),
        (["--sets", "iris,whine"], "--sets must be one of"),
        (["--sets", "whine"], "did you mean 'wine'"),
        (["--sets", "iris,"], "--sets must be one of"),
        (["--methods", "logistc"], "did you mean 'logistic'"),
        (["--seeds", 0], "--seeds must be an integer >= 1; got 0"),
        (["--jobs", 0], "--jobs must be None or an integer other than 0; got 0"),
        (["--sets", "iris", "--out", "file"], "--out must be a folder that exists or can be created; got 'file'"),
        (["--sets", "iris", "--out", "file/below"], "must be a folder that exists or can be created; got 'file/below'"),
        (["--seeds", "many"], "--seeds"),
    ],
)
def test_bad_options_are_refused_by_name(arguments: list[Any], message: str, here: Path) -> None:
    (here / "file").touch()
    assert message in refused("bench", *arguments)
    assert [path.name for path in here.iterdir()] == ["file"]


def test_a_set_that_is_not_to_be_had_is_named_before_anything_is_measured(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_module.load.cache_clear()
    monkeypatch.setenv("QSDP_DATA", str(here))
    message = refused("bench", "--sets", "iris,heart", *FAST)
    assert "set 'heart': " in message
    assert "heart.dat not found" in message
    assert list((here / "qsdp-bench").iterdir()) == []


def test_a_damaged_file_of_results_is_refused_and_left(here: Path) -> None:
    (here / "uci.json").write_text("{}")
    assert "not a results file, or damaged" in refused("bench", "--sets", "iris", *FAST, "--out", ".")
    assert (here / "uci.json").read_text() == "{}"


def test_an_interrupted_run_keeps_what_it_has(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(case: dict[str, Any]) -> dict[str, Any]:
        if case["set"] == "wine":
            raise KeyboardInterrupt
        return measure_case(case)

    monkeypatch.setattr(suite, "run", interrupted)
    result = run("bench", "--sets", "iris,wine", *FAST, "--seeds", 1)
    assert result.exit_code == 130
    assert "interrupted: 2 of 4 cases are in qsdp-bench/uci.json; run again to continue" in result.stderr
    assert {name for name, _, _ in stored(here / "qsdp-bench")} == {"iris"}
    assert "2 of 4 cases" in result.stdout
    monkeypatch.setattr(suite, "run", measure_case)
    assert "4 of 4 cases" in run("bench", "--sets", "iris,wine", *FAST, "--seeds", 1).stdout


def test_failed_cases_are_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fragile(case: dict[str, Any]) -> dict[str, Any]:
        if case["method"] == "logistic":
            raise ValueError("no luck")
        return measure_case(case)

    monkeypatch.setattr(suite, "run", fragile)
    result = run("bench", "--sets", "iris,wine", *FAST, "--seeds", 1)
    assert result.exit_code == 1
    assert "Failed: iris, logistic, seed 0: ValueError: no luck" in result.stderr
    assert "2 of 4 cases" in result.stdout
    assert len(stored(here / "qsdp-bench")) == 2


def test_methods_without_their_package_are_left_out_and_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else object())
    monkeypatch.setattr(suite, "run", lambda case: {**_MADE, "test": 0.5 + 0.01 * len(case["method"])})
    result = run("bench", "--sets", "iris,wine", "--seeds", 1)
    assert result.exit_code == 0, result.stderr
    assert "Left out, torch is not installed: backprop-rounded, straight-through, straight-through-r" in result.stderr
    measured = {method for _, method, _ in stored(here / "qsdp-bench")}
    assert measured == {name for name, method in METHODS.items() if method.needs is None}
    assert "--methods backprop needs torch: pip install torch" in refused("bench", "--methods", "backprop")


_MADE = {
    "train": 0.9, "test": 0.8, "bits": 1000, "objective": None, "lower_bound": None, "relative_gap": None,
    "fit_seconds": 4.0, "fit_cpu_seconds": 2.0, "predict_seconds": 1e-4, "chosen": {}, "n": 80, "d": 4, "n_classes": 2,
    "n_test": 20,
}  # fmt: skip


def test_jobs_measure_the_same(here: Path) -> None:
    for jobs in (1, 2):
        result = run("bench", "--sets", "iris", *FAST, "--seeds", 1, "--jobs", jobs, "--out", f"jobs-{jobs}")
        assert result.exit_code == 0, result.stderr

    def accuracies(folder: Path) -> dict[str, float]:
        records = json.loads((folder / "uci.json").read_text())["records"]
        return {json.dumps(one["case"], sort_keys=True): one["measured"]["test"] for one in records}

    assert accuracies(here / "jobs-1") == accuracies(here / "jobs-2")
