"""The program: help, errors, warnings, colours."""

from __future__ import annotations

import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import sklearn.datasets
from cli_program import refused, run

import qsdp
from qsdp.exceptions import QSDPWarning


def test_version_and_help() -> None:
    assert run("--version").stdout == f"qsdp {qsdp.__version__}\n"
    for arguments in ([], ["--help"], ["-h"]):
        result = run(*arguments)
        assert result.exit_code == 0
        for command in ("demo", "fit", "predict", "certify", "export", "report", "datasets"):
            assert command in result.stdout
    assert "--test-size" in run("fit", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dmo"], "No such command 'dmo'"),
        (["--bogus"], "No such option: --bogus"),
        (["fit"], "FILE'"),
        (["fit", "x.csv"], "--target"),
        (["demo", "--neurons", "many"], "--neurons"),
        (["resample", "m.qsdp"], "No such command 'resample'"),
    ],
)
def test_usage_errors_are_one_line(arguments: list[str], message: str) -> None:
    error = refused(*arguments)
    assert message in error
    assert "--help" in error


def test_failures_inside_are_one_line_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("two\nlines [red]and markup[/red] \x1b[31m")

    monkeypatch.setattr("sklearn.datasets.load_iris", fail)
    error = refused("datasets", "iris", code=1)
    assert "RuntimeError: two lines [red]and markup[/red] ?[31m" in error
    assert "--debug" in error
    for arguments, environment in ([["--debug", "datasets", "iris"], {}], [["datasets", "iris"], {"QSDP_DEBUG": "1"}]):
        result = run(*arguments, env=environment)
        assert result.exit_code == 1
        assert "Traceback" in result.stderr
        assert result.stderr.splitlines()[-1].startswith("Error: internal failure")


def test_closed_standard_output_is_refused(tmp_path: Path) -> None:
    command = f"exec {shlex.join([sys.executable, '-m', 'qsdp', 'predict', 'm.qsdp', 'x.csv'])} >&-"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "standard output is closed" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied", "m.qsdp"), "'m.qsdp': Permission denied"),
        (MemoryError("Unable to allocate 1 TiB"), "not enough memory: Unable to allocate 1 TiB"),
        (qsdp.QSDPError("no"), "no"),
        (OSError("disk on fire"), "disk on fire"),
    ],
)
def test_errors_one_can_do_something_about(monkeypatch: pytest.MonkeyPatch, error: Exception, message: str) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("sklearn.datasets.load_iris", fail)
    assert refused("datasets", "iris") == f"Error: {message}\n"


@pytest.mark.parametrize("other", [None, ValueError("'T{q:parent:}' is not a valid PEP 3118 buffer format string")])
def test_interrupt(monkeypatch: pytest.MonkeyPatch, other: Exception | None) -> None:
    def interrupt() -> None:
        if other is None:
            raise KeyboardInterrupt
        # As NumPy does for what is raised while it reads a format.
        raise other from KeyboardInterrupt()

    monkeypatch.setattr("sklearn.datasets.load_iris", interrupt)
    result = run("datasets", "iris")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Interrupted\n")


def test_warnings_of_qsdp_are_a_line_each_and_others_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    load = sklearn.datasets.load_diabetes

    def noisy() -> Any:
        warnings.warn("twice\nover", QSDPWarning, stacklevel=2)
        warnings.warn("internal", RuntimeWarning, stacklevel=2)
        return load()

    monkeypatch.setattr("sklearn.datasets.load_diabetes", noisy)
    result = run("demo", "--dataset", "diabetes", "--refine", "none")
    assert result.exit_code == 0
    assert result.stderr == "Warning: twice over\n"
