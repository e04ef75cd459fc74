"""Parallel measurement of the cases that have no record, stored as results arrive."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from benchmarks.runner._experiment import Case, Experiment, Record
from benchmarks.runner._results import Results, load_results
from qsdp._utils.progress import progress
from qsdp._utils.validation import check_jobs, warn
from qsdp.datasets import _fetch
from qsdp.exceptions import InvalidInputError

__all__ = ["describe_machine", "run_experiment"]

_PACKAGES = ("qsdp", "numpy", "scipy", "scikit-learn", "cvxpy", "scs", "clarabel", "torch")

#: A case, its measurement or error message, and its seconds.
Answer = tuple[Case, dict[str, Any] | str, float]


def run_experiment(
    experiment: Experiment,
    path: Path,
    *,
    quick: bool = False,
    n_jobs: int | None = None,
    verbose: bool | int = True,
    limit: int | None = None,
    about: Mapping[str, Any] | None = None,
) -> tuple[Results, list[tuple[Case, str]]]:
    """Measure the cases of an experiment that have no current record in a file.

    The file is written during the run. Its new records replace those of another version of the experiment, those of a
    full run replace those of a quick run, and a stale record is replaced by a new one of its case. After Ctrl-C, the
    records of finished cases are kept, a warning is issued, and the results have `interrupted` set to True.

    Parameters
    ----------
    experiment : Experiment
        What to measure.
    path : Path
        File of the results, which need not exist.
    quick : bool, default=False
        Measure the few small cases of ``experiment.cases(True)``.
    n_jobs : int, optional
        Number of cases that are measured in parallel; one by default. ``joblib.parallel_config`` chooses a back end
        that returns each result as soon as it is ready, such as "loky", the default.
    verbose : bool or int, default=True
        Show progress.
    limit : int, optional
        Largest number of cases to measure.
    about : mapping, optional
        Description of the run, such as its "commit" or a "note", which is stored with the machine and shown by reports.

    Returns
    -------
    results : Results
        All records of the file, old and new.
    failures : list of tuple (case, message)
        Cases that raised an error; the next run tries them again.

    Raises
    ------
    InvalidInputError
        `n_jobs` is zero, or a quick run would overwrite a full one.
    StorageError
        The file is damaged or belongs to another experiment.
    """
    parallel = Parallel(n_jobs=check_jobs(n_jobs), return_as="generator_unordered")
    cases = list(experiment.cases(quick))
    results = load_results(experiment, path, quick)
    if quick and path.is_file() and not load_results(experiment, path).quick:
        raise InvalidInputError(f"{path} holds a full run; a quick run needs another file")
    missing = [*results.missing(cases), *(record.case for record in results.stale(experiment))][:limit]
    here = {**describe_machine(), "methods": dict(experiment.methods), **(about or {})} if missing else {}
    failures: list[tuple[Case, str]] = []
    fresh: list[Answer] = []
    written = time.monotonic()
    try:
        with progress(verbose and bool(missing)) as stages, stages.stage(experiment.name) as bar:
            bar.count(0, len(missing))
            answers = parallel(delayed(_measure)(experiment.run, case) for case in missing)
            for done, answer in enumerate(answers, 1):
                bar.count(done, len(missing), f"{done} of {len(missing)}")
                fresh.append(answer)
                if time.monotonic() - written > 2.0:
                    failures += _keep(fresh, here, results, path)
                    written = time.monotonic()
    except KeyboardInterrupt:
        results.interrupted = True
    finally:
        if missing:
            failures += _keep(fresh, here, results, path)
    if results.interrupted:
        warn(f"interrupted: {len(results.of(cases))} of {len(cases)} cases are in {path}; run again to continue")
    return results, failures


def _keep(fresh: list[Answer], here: dict[str, Any], results: Results, path: Path) -> list[tuple[Case, str]]:
    """Add the measurements from workers to the results, save the file, and return the failures."""
    failures = [(case, answer) for case, answer, _ in fresh if isinstance(answer, str)]
    answers = [(case, answer, seconds) for case, answer, seconds in fresh if not isinstance(answer, str)]
    results.add([Record(*answer, results.add_machine(here)) for answer in answers])
    fresh.clear()
    if answers:
        results.save(path)
    return failures


def _measure(run: Any, case: Case) -> Answer:
    """Measure a case in a worker process; return its record or its failure."""
    if _fetch.failed_downloads is None:
        _fetch.failed_downloads = {}
    start = time.perf_counter()
    try:
        measured: dict[str, Any] | str = dict(run(case))
    except Exception as error:
        measured = f"{type(error).__name__}: {error}"
    return case, measured, time.perf_counter() - start


def describe_machine() -> dict[str, Any]:
    """Return a description of the machine: processor, versions, BLAS, threads and date."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    versions = {}
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {
        "processor": name,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
        "blas": ", ".join(dict.fromkeys(f"{one['internal_api']} {one['version']}" for one in blas)) or "unknown",
        "threads": max((one["num_threads"] for one in blas), default=1),
        "date": time.strftime("%Y-%m-%d"),
    }
