"""Records say on which machine, under what load and with which sources they were measured."""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qsdp.bench import Experiment, Record, Results, describe_machine, markdown_of, run_experiment, sources_of
from qsdp.bench import _provenance as provenance
from qsdp.bench import _runner as runner
from qsdp.bench._report import _machines
from qsdp.bench._results import differences
from qsdp.bench._runner import run_again

CODE = '''
"""Roots."""

{line}

def run(case):
    """Return a root."""
    return {{"root": case["n"] ** 0.5}}
'''


def written(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Return an experiment whose module has one line more, as a new process would import it."""
    (folder / "roots.py").write_text(CODE.format(line=line))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "benchmarks_of_roots.roots", raising=False)
    importlib.invalidate_caches()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(provenance, "_OWN", ("qsdp", "benchmarks", "roots", "roots_more"))
    monkeypatch.delitem(sys.modules, "roots", raising=False)
    run = importlib.import_module("roots").run
    return Experiment("roots", "Roots", "Heron", lambda quick: [{"n": 4}, {"n": 9}], run, lambda records: [])


def code_calling(called: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `run` return what a call gives."""
    monkeypatch.setattr(sys.modules[__name__], "CODE", CODE.replace('case["n"] ** 0.5', called))


def test_the_hash_is_of_what_run_reaches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(line: str) -> str:
        return sources_of(written(tmp_path, line, monkeypatch))

    plain = of("")
    unused = ("# a comment", "two = 2", "def tables(records):\n    return run", "from qsdp.losses import get_loss")
    assert {of(line) for line in unused} == {plain}
    code_calling("power(case)", monkeypatch)
    square, fourth = (f"def power(case):\n    return case['n'] ** {half}\n\nhalf = " for half in ("half", "half / 2"))
    assert len({plain, of(f"{square}0.5"), of(f"{square}0.6"), of(f"{fourth}0.5")}) == 4
    assert of(f"{square}0.5\nother = 1") == of(f"{square}0.5")
    described = "def power(case: dict) -> float:\n    'Return a root.'\n    return case['n'] ** half\n\nhalf: float = "
    assert of(f"{described}0.5") == of(f"{described}0.5".replace("float", "int")) != of(f"{described}0.6")


@pytest.mark.parametrize(
    ("line", "same", "other"),
    [
        ("raise ValueError(f'{case} is bad')", "raise ValueError('bad')", "raise TypeError(f'{case} is bad')"),
        ("warn('it is slow', Slow)", "warn(f'{case} is slow', Slow)", "warn('it is slow', Fast)"),
        ("logging.warn('slow', 1)", "logging.warn('fast', 1)", "logging.info('slow', 1)"),
        ("option(1, 'int', 'Many.', check)", "option(1, 'int', f'{1}.', check)", "option(2, 'int', '', check)"),
        ("option(1, 'int', '', check)", "option(1, '', '', check, 'Few.')", "option(1, 'int', '', other)"),
        ("return 'text'", "'A docstring.'\n    return 'text'", "return 'another'"),
    ],
)
def test_messages_do_not_count(
    line: str, same: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code_calling("told(case)", monkeypatch)
    first, second, third = (
        sources_of(written(tmp_path, f"def told(case):\n    {one}", monkeypatch)) for one in (line, same, other)
    )
    assert first == second != third


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("from roots_more import power", "power(case)"),
        ("import roots_more", "roots_more.power(case)"),
        ("import roots_more as more", "more.power(case)"),
        ("def later(case):\n    from roots_more import power\n    return power(case)", "later(case)"),
        ("from roots_more import Powers", "Powers().power(case)"),
        ("from roots_more import Powers", "getattr(Powers(), 'power')(case)"),
    ],
)
def test_what_is_imported_counts(line: str, called: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = tmp_path / "roots_more.py"
    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    code_calling(called, monkeypatch)
    text = "def power(case):\n    return {0}\n\nclass Powers:\n    def power(self, case):\n        return {0}\n{1}"

    def of(value: str, rest: str = "") -> str:
        more.write_text(text.format(value, rest))
        os.utime(more, ns=(next(ticks), next(ticks)))
        return sources_of(written(tmp_path, line, monkeypatch))

    ticks = itertools.count(1)
    assert len({of("1"), of("2"), of("1")}) == 2
    assert of("1", "    # A comment.") == of("1")
    assert of("1", "    def unused(self):\n        return 1\n\ndef other():\n    return 2\n") == of("1")


def test_lazy_imports_are_resolved() -> None:
    # Names that a package imports when they are asked for, and what is dispatched by types.
    assert provenance._resolved("qsdp", "QuantizedNetworkClassifier") == (
        "qsdp.estimators.classifier",
        "QuantizedNetworkClassifier",
    )
    assert provenance._resolved("qsdp.baselines.rls", "METHODS") == ("qsdp.baselines.rls.harness", "METHODS")
    assert provenance._resolved("qsdp.baselines", "BPLSClassifier") is not None
    assert provenance._resolved("numpy", "ndarray") is None


def test_the_module_of_a_function_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code_calling("power(case)", monkeypatch)
    power = "def power(case):\n    return case['n'] ** 0.5\n"
    here = sources_of(written(tmp_path, power, monkeypatch))
    for number, body in (("one", power), ("two", power.replace("0.5", "0.6"))):
        (tmp_path / f"roots_{number}.py").write_text(body)
        experiment = written(tmp_path, f"from roots_{number} import power", monkeypatch)
        monkeypatch.setattr(provenance, "_OWN", ("qsdp", "benchmarks", "roots", f"roots_{number}"))
        assert (sources_of(experiment) == here) == (number == "one")


def test_records_are_current_stale_or_of_unknown_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "found.json"
    experiment = written(tmp_path, "", monkeypatch)
    assert Results("roots", 1).state(experiment) == ""
    run_experiment(experiment, path, verbose=False, limit=1)
    assert Results.load(path).state(experiment) == "current"
    code_calling('case["n"] ** 0.5 + 0', monkeypatch)
    changed = written(tmp_path, "", monkeypatch)
    assert Results.load(path).state(changed) == "1 of 1 stale"
    run_experiment(changed, path, verbose=False)
    both = Results.load(path)
    assert [record.machine for record in both.records] == [0, 1]
    assert both.state(changed) == "1 of 2 stale"
    del both.machines[1]["source"]
    assert both.state(changed) == "2 of 2 stale", "of unknown sources"


def test_stale_records_that_are_measured_as_before_are_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "found.json"
    run_experiment(written(tmp_path, "", monkeypatch), path, verbose=False)
    code_calling('case["n"] ** 0.5 + 0', monkeypatch)
    same = written(tmp_path, "", monkeypatch)
    before = Results.load(path)
    assert before.state(same) == "2 of 2 stale"
    assert [differing for _, differing in run_again(same, path, 1)] == [[]]
    assert Results.load(path).state(same) == "1 of 2 stale"
    assert [differing for _, differing in run_again(same, path, 5)] == [[]]
    assert Results.load(path).state(same) == "current"
    assert run_again(same, path, 5) == []
    code_calling('case["n"] ** 0.5 + 1', monkeypatch)
    other = written(tmp_path, "", monkeypatch)
    found = {case["n"]: differing for case, differing in run_again(other, path, 5)}
    assert found[4] == ["root: 2.0 was 3.0"]
    assert Results.load(path).state(other) == "2 of 2 stale"
    assert [record.measured for record in Results.load(path).records] == [record.measured for record in before.records]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({}, []),
        ({"fit_seconds": 9.0, "peak_mib": 9.0, "predict": 9.0}, []),
        ({"score": 1.0 + 1e-9, "rows": [1, float("nan")]}, []),
        ({"score": 1.1}, ["score: 1.0 was 1.1"]),
        ({"rows": [1, 2.0]}, ["rows/1: nan was 2.0"]),
        ({"rows": [1]}, ["rows: [1, nan] was [1]"]),
        ({"parts": {"name": "b"}}, ["parts/name: 'a' was 'b'"]),
        ({"parts": {"name": "a", "more": None, "less": True}}, ["parts/less: None was True"]),
    ],
)
def test_times_and_memory_do_not_differ(new: dict[str, Any], expected: list[str]) -> None:
    old = {"score": 1.0, "rows": [1, float("nan")], "parts": {"name": "a"}, "fit_seconds": 1.0, "peak_mib": 1.0}
    assert differences(old, {**old, **new}) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/stat; elsewhere, the seconds are nan")
def test_processor_seconds_of_others_are_those_of_processes_that_are_not_children_or_still_run() -> None:
    code = "import sys, time\nwhile time.process_time() < 2.0: pass\nprint(flush=True)\nsys.stdin.read()"
    before = provenance.others_seconds()
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        during = provenance.others_seconds()
    # The two seconds of the child count as those of this process from its end on; others use few meanwhile.
    assert during > before + 1.8
    assert provenance.others_seconds() < during - 0.5


def test_without_processor_times_the_load_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = written(tmp_path, "", monkeypatch)
    # Of all that is measured, only the processor seconds are read from a file at that moment.
    monkeypatch.setattr(runner, "describe_machine", lambda source: {"date": "2026-01-02", "source": source})
    monkeypatch.setattr(provenance, "Path", lambda _: tmp_path / "absent")
    monkeypatch.setattr(runner, "sources_of", lambda _: "s")
    results, _ = run_experiment(experiment, tmp_path / "roots.json", verbose=False)
    assert results.machines == [{"date": "2026-01-02", "source": "s", "load": None, "loaded": False}]


def test_seconds_under_load_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each look at the clock is 10 s later; others begin to use three processors after the first case.
    clock, others = itertools.count(0.0, 10.0), iter((0.0, 1.0, 1.0, 31.0))
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=clock.__next__, perf_counter=clock.__next__))
    monkeypatch.setattr(runner, "others_seconds", others.__next__)
    experiment = written(tmp_path, "", monkeypatch)
    results, _ = run_experiment(experiment, tmp_path / "roots.json", verbose=False)
    found = [results.machines[record.machine] for record in results.records]
    assert [(one["load"], one["loaded"]) for one in found] == [(0.1, False), (3.0, True)]
    assert "**seconds of 1 cases under load (up to 3 other processes)**" in markdown_of(experiment, results)


def test_short_cases_share_the_load_of_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A tick of the other processes' clock is longer than one of these cases.
    monkeypatch.setattr(runner, "others_seconds", iter((0.0, 0.01, 0.01, 0.01)).__next__)
    results, _ = run_experiment(written(tmp_path, "", monkeypatch), tmp_path / "roots.json", verbose=False)
    assert [one["loaded"] for one in results.machines] == [False]


def test_a_machine_has_the_largest_of_its_loads() -> None:
    results, machine = Results("roots", 1), describe_machine()
    loads = (0.2, 0.7, -0.1, float("nan"), 0.4, 0.6)
    assert [results.add_machine(machine, load, 1.0) for load in loads] == [0, 1, 0, 0, 0, 1]
    assert [(one["load"], one["loaded"]) for one in results.machines] == [(0.4, False), (0.7, True)]
    unknown = Results("roots", 1)
    unknown.add_machine(machine, float("nan"), 1.0)
    assert (unknown.machines[0]["load"], unknown.machines[0]["loaded"]) == (None, False)


def test_a_page_names_a_machine_once_with_all_its_dates_and_commits() -> None:
    machine = {**describe_machine(), "commit": "a", "date": "2026-01-02", "load": 0.1, "loaded": False, "source": "s"}
    later = {**machine, "commit": "b", "date": "2026-01-05", "load": 2.0, "loaded": True, "source": ""}
    records = [Record({"n": n}, {}, 0.1, machine=min(n, 1)) for n in range(3)]
    results = Results("roots", 1, records=records, machines=[machine, later])
    (text,) = _machines(results)
    assert text.count(machine["processor"]) == 1
    assert text.endswith(
        "2026-01-02 to 2026-01-05, commits a, b, sources of 2 cases not recorded, "
        "**seconds of 2 cases under load (up to 2 other processes)**"
    )
    versions = {**machine["versions"], "numpy": "0.0"}
    assert (
        len(_machines(Results("roots", 1, records=records, machines=[machine, {**later, "versions": versions}]))) == 2
    )


def test_the_machine_is_described() -> None:
    found: dict[str, Any] = describe_machine()
    assert found["versions"]["qsdp"]
    assert found["threads"] >= 1
    assert "blas" in found["blas"].lower() or found["blas"] == "unknown"
