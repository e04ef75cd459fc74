"""Measures the cases that have no record yet, several at a time, and keeps each as soon as it is known."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from joblib import delayed

from qsdp._utils.progress import progress
from qsdp._utils.validation import check_jobs, warn
from qsdp.bench._backends import check_backend, in_parallel
from qsdp.bench._experiment import Case, Experiment, Record
from qsdp.bench._results import Results, load_results

__all__ = ["run_experiment"]

#: Seconds between two writes of the file.
_INTERVAL = 2.0

#: A case, what it measured or the error it raised, and seconds.
Answer = tuple[Case, dict[str, Any] | str, float]


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
        Of joblib: "loky" (by default), "threading" or "multiprocessing"; "dask" and "ray", where they are installed; or
        one that the caller has given a name by ``joblib.register_parallel_backend``.
    verbose : bool, default=True
        Show a progress bar.
    limit : int, optional
        Measure at most as many cases.

    Returns
    -------
    results : Results
    failures : list of (case, message)
        Cases that raised an error; they have no record and are tried again by the next run.

    Raises
    ------
    InvalidInputError
        `n_jobs` is zero, or nobody knows the back end.
    StorageError
        The file is damaged, or of another experiment.

    Notes
    -----
    Ctrl-C keeps the records of the cases that were finished, with a warning; `interrupted` of the results is true then.

    "dask" asks the client that there is, or else makes one: of the scheduler that Dask's configuration names
    (``DASK_SCHEDULER_ADDRESS``), or of workers on this machine. Where a back end hands over nothing before all of its
    work is done ("multiprocessing"), it is given as many cases at a time as there are jobs, so that little is lost.
    """
    check_jobs(n_jobs)
    check_backend(backend)
    cases = list(experiment.cases(quick))
    results = load_results(experiment, path, quick)
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
        results.interrupted = True
        warn(f"interrupted: {len(results.of(cases))} of {len(cases)} cases are in {path}; run again to go on")
    finally:
        if missing:
            results.save(path)
    return results, failures


def _measured(
    experiment: Experiment, cases: list[Case], n_jobs: int | None, backend: str | None, verbose: bool
) -> Iterator[Answer]:
    """Yield case, measurement or error, and seconds, as they are finished."""
    with progress(verbose and bool(cases)) as stages, stages.stage(experiment.name) as bar:
        bar.count(0, len(cases))
        calls = [delayed(_measure)(experiment.run, case) for case in cases]
        for done, answer in enumerate(in_parallel(calls, n_jobs, backend), 1):
            bar.count(done, len(cases), f"{done} of {len(cases)}")
            yield answer


def _measure(run: Any, case: Case) -> Answer:
    start = time.perf_counter()
    try:
        measured: dict[str, Any] | str = dict(run(case))
    except Exception as error:
        measured = f"{type(error).__name__}: {error}"
    return case, measured, time.perf_counter() - start
