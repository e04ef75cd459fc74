"""Records say on which machine, under what load and with which sources they were measured."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from qsdp.bench import Experiment, Results, describe_machine, markdown_of, run_experiment, sources_of
from qsdp.bench import _provenance as provenance

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
    monkeypatch.setattr(provenance, "_OWN", ("qsdp", "benchmarks", "roots"))
    monkeypatch.delitem(sys.modules, "roots", raising=False)
    run = importlib.import_module("roots").run
    return Experiment("roots", "Roots", "Heron", lambda quick: [{"n": 4}, {"n": 9}], run, lambda records: [])


def test_the_hash_is_of_code_that_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sources_of(written(tmp_path, "", monkeypatch))
    assert plain == sources_of(written(tmp_path, "# a comment", monkeypatch))
    assert plain != sources_of(written(tmp_path, "two = 2", monkeypatch))
    # What is imported counts, wherever it is, and what that imports.
    before = sources_of(written(tmp_path, "from qsdp.losses import get_loss", monkeypatch))
    parsed = provenance._parsed
    monkeypatch.setattr(
        provenance, "_parsed", lambda module: ("another", ()) if module == "qsdp.exceptions" else parsed(module)
    )
    assert sources_of(Experiment("roots", "", "", list, sys.modules["roots"].run, list)) != before


def test_of_benchmarks_what_run_reaches_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_BY_NAME", ("roots",))

    def of(line: str) -> str:
        return sources_of(written(tmp_path, line, monkeypatch))

    plain = of("")
    assert (
        plain == of("two = 2") == of("def tables(records):\n    return run") == of("from qsdp.losses import get_loss")
    )
    monkeypatch.setattr(sys.modules[__name__], "CODE", CODE.replace('case["n"] ** 0.5', "power(case)"))
    square, fourth = (f"def power(case):\n    return case['n'] ** {half}\n\nhalf = " for half in ("half", "half / 2"))
    assert len({plain, of(f"{square}0.5"), of(f"{square}0.6"), of(f"{fourth}0.5")}) == 4
    assert of(f"{square}0.5\nother = 1") == of(f"{square}0.5")
    # Of what is imported from there, too.
    other = tmp_path / "roots_more.py"
    monkeypatch.setattr(provenance, "_OWN", ("qsdp", "benchmarks", "roots", "roots_more"))
    other.write_text("def power(case):\n    return case['n'] ** 0.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert of("from roots_more import power") != plain


def test_records_are_current_stale_or_of_unknown_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "found.json"
    experiment = written(tmp_path, "", monkeypatch)
    assert Results("roots", 1).state(experiment) == ""
    run_experiment(experiment, path, verbose=False, limit=1)
    assert Results.load(path).state(experiment) == "current"
    changed = written(tmp_path, "two = 2", monkeypatch)
    assert Results.load(path).state(changed) == "stale"
    run_experiment(changed, path, verbose=False)
    both = Results.load(path)
    assert [record.machine for record in both.records] == [0, 1]
    assert both.state(changed) == "stale", "one of two records is"
    del both.machines[0]["source"]
    assert both.state(changed) == "source not recorded"


def test_seconds_under_load_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = written(tmp_path, "", monkeypatch)
    texts = {}
    for load in (0.1, 3.0):
        monkeypatch.setattr(provenance.os, "getloadavg", lambda load=load: (load, load, load))
        monkeypatch.setattr(provenance.os, "times", lambda: (0.0, 0.0, 0.0, 0.0, 0.0))
        results, _ = run_experiment(experiment, tmp_path / f"{load}.json", verbose=False)
        texts[load] = markdown_of(experiment, results)
    assert "under load" not in texts[0.1]
    assert "**seconds under load (3 other processes)**" in texts[3.0]


def test_the_machine_is_described() -> None:
    found: dict[str, Any] = describe_machine()
    assert found["versions"]["qsdp"]
    assert found["threads"] >= 1
    assert "blas" in found["blas"].lower() or found["blas"] == "unknown"
    assert found["loaded"] in {True, False}
