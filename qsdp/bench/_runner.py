"""Measures the cases that have no record yet, several at a time, and keeps each as soon as it is known."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from qsdp._validation import check_jobs, warn
from qsdp.bench._experiment import Case, Experiment, Record
from qsdp.bench._results import Results
from qsdp.exceptions import StorageError

__all__ = ["run_experiment"]

#: Seconds between two writes of the file.
_INTERVAL = 2.0


def run_experiment(
    experiment: Experiment,
    path: Path,
    *,
    quick: bool = False,
    n_jobs: int | None = None,
    backend: str | None = None,
    verbose: bool = True,
    limit: int | None = None,
) -> tuple[Results, list[tuple[Case, str]]]:
    """Measure what is missing in the file, and return all of it.

    Parameters
    ----------
    experiment : Experiment
    path : Path
        File of results; it is written while measurements come in. Records of another version of the experiment, or
        of a quick run where this one is not quick, are replaced.
    quick : bool, default=False
    n_jobs : int, optional
        Cases measured at a time.
    backend : str, optional
        Of joblib: "loky", "threading", or one that was registered, such as "dask" or "ray".
    verbose : bool, default=True
        Show a progress bar.
    limit : int, optional
        Measure at most as many cases.

    Returns
    -------
    results : Results
    failures : list of (case, message)
        Cases that raised an error; they have no record and are tried again by the next run.

    Notes
    -----
    Ctrl-C keeps the records of the cases that were finished.
    """
    check_jobs(n_jobs)
    cases = list(experiment.cases(quick))
    results = _earlier(experiment, path, quick)
    missing = results.missing(cases)[:limit]
    machine = results.add_machine() if missing else 0
    failures: list[tuple[Case, str]] = []
    written = time.monotonic()
    try:
        for case, answer, seconds in _measured(experiment, missing, n_jobs, backend, verbose):
            if isinstance(answer, str):
                failures.append((case, answer))
                continue
            results.records.append(Record(case, answer, seconds, machine))
            if time.monotonic() - written > _INTERVAL:
                results.save(path)
                written = time.monotonic()
    except KeyboardInterrupt:
        warn(f"interrupted: {len(results.of(cases))} of {len(cases)} cases are in {path}; run again to go on")
    finally:
        if missing:
            results.save(path)
    return results, failures


def _earlier(experiment: Experiment, path: Path, quick: bool) -> Results:
    """Return the records of this version, or none."""
    if not path.is_file():
        return Results(experiment.name, experiment.version, quick)
    results = Results.load(path)
    if results.experiment != experiment.name:
        raise StorageError(f"{path} holds results of {results.experiment!r}, not of {experiment.name!r}")
    if results.version != experiment.version or results.quick != quick:
        return Results(experiment.name, experiment.version, quick)
    return results


def _measured(
    experiment: Experiment, cases: list[Case], n_jobs: int | None, backend: str | None, verbose: bool
) -> Iterable[tuple[Case, dict[str, Any] | str, float]]:
    """Yield case, measurement or error, and seconds, as they are finished."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not verbose) as bar:
        task = bar.add_task(experiment.name, total=len(cases))
        calls = (delayed(_measure)(experiment.run, case) for case in cases)
        for answer in Parallel(n_jobs=n_jobs, backend=backend, return_as="generator_unordered")(calls):
            bar.advance(task)
            yield answer


def _measure(run: Any, case: Case) -> tuple[Case, dict[str, Any] | str, float]:
    start = time.perf_counter()
    try:
        measured: dict[str, Any] | str = dict(run(case))
    except Exception as error:
        measured = f"{type(error).__name__}: {error}"
    return case, measured, time.perf_counter() - start
