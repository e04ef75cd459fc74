"""Parallel measurement of the cases without a record, which are stored as they arrive."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs, parallel_config

from qsdp._utils.progress import progress
from qsdp._utils.validation import check_jobs, warn
from qsdp.bench._experiment import Case, Experiment, Record
from qsdp.bench._provenance import sources_of
from qsdp.bench._results import Results, load_results
from qsdp.exceptions import InvalidInputError

__all__ = ["run_experiment"]

#: A case, its measurement or error, and seconds.
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
    """Measure the cases that are missing in a file and return all results.

    Parameters
    ----------
    experiment : Experiment
    path : Path
        Results file, written during the run. It replaces records of another version of the experiment, and those of
        a quick run by those of a full one.
    quick : bool, default=False
    n_jobs : int, optional
        Number of cases measured in parallel.
    backend : str, optional
        Back end of joblib: "loky" (default), "threading", "multiprocessing", "dask" and "ray" if installed, or one
        registered with ``joblib.register_parallel_backend``.
    verbose : bool, default=True
        Show a progress bar.
    limit : int, optional
        Largest number of cases to measure.

    Returns
    -------
    results : Results
    failures : list of (case, message)
        Cases that raised an error; the next run tries them again.

    Raises
    ------
    InvalidInputError
        `n_jobs` is zero, or the back end is unknown.
    StorageError
        The file is damaged, or of another experiment.

    Notes
    -----
    After Ctrl-C the records of finished cases are kept, with a warning, and `interrupted` of the results is true.

    "dask" uses the existing client or creates one, for the scheduler in Dask's configuration
    (``DASK_SCHEDULER_ADDRESS``) or for workers on this machine. A back end that returns all results at once
    ("multiprocessing") is given as many cases at a time as there are jobs, so that an interrupt loses few of them.
    """
    check_jobs(n_jobs)
    _check_backend(backend)
    cases = list(experiment.cases(quick))
    results = load_results(experiment, path, quick)
    missing = results.missing(cases)[:limit]
    machine = results.add_machine(sources_of(experiment)) if missing else 0
    failures: list[tuple[Case, str]] = []
    written = time.monotonic()
    try:
        for case, answer, seconds in _measured(experiment, missing, n_jobs, backend, verbose):
            if isinstance(answer, str):
                failures.append((case, answer))
                continue
            results.records.append(Record(case, answer, seconds, machine))
            if time.monotonic() - written > 2.0:
                results.save(path)
                written = time.monotonic()
    except KeyboardInterrupt:
        results.interrupted = True
        warn(f"interrupted: {len(results.of(cases))} of {len(cases)} cases are in {path}; run again to continue")
    finally:
        if missing:
            results.save(path)
    return results, failures


def _measured(
    experiment: Experiment, cases: list[Case], n_jobs: int | None, backend: str | None, verbose: bool
) -> Iterator[Answer]:
    """Yield case, measurement or error, and seconds of each case as it finishes."""
    with progress(verbose and bool(cases)) as stages, stages.stage(experiment.name) as bar:
        bar.count(0, len(cases))
        calls = [delayed(_measure)(experiment.run, case) for case in cases]
        for done, answer in enumerate(_in_parallel(calls, n_jobs, backend), 1):
            bar.count(done, len(cases), f"{done} of {len(cases)}")
            yield answer


def _measure(run: Any, case: Case) -> Answer:
    start = time.perf_counter()
    try:
        measured: dict[str, Any] | str = dict(run(case))
    except Exception as error:
        measured = f"{type(error).__name__}: {error}"
    return case, measured, time.perf_counter() - start


# -- back ends of joblib -----------------------------------------------------------------------------------


def _check_backend(backend: str | None) -> None:
    """Register the back end of another package if need be, and raise unless joblib knows it."""
    try:
        if backend == "dask":
            _connect_dask()
        elif backend == "ray":
            importlib.import_module("ray.util.joblib").register_ray()
        with _chosen(backend):
            Parallel()
    except ImportError as error:
        raise InvalidInputError(f"backend {backend!r} needs a package that is not installed: {error}") from None
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"backend must be one of joblib's, 'dask', 'ray' or one registered with joblib.register_parallel_backend; "
            f"got {backend!r}: {error}"
        ) from None


def _in_parallel(calls: Sequence[Any], n_jobs: int | None, backend: str | None) -> Iterator[Any]:
    """Yield the results of joblib's delayed calls in the order in which they finish."""
    with _chosen(backend):
        try:
            unordered = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        except ValueError:
            # A back end that cannot return results one by one gets batches of one call per job.
            size = effective_n_jobs(n_jobs)
            with Parallel(n_jobs=n_jobs) as batch:
                for first in range(0, len(calls), size):
                    yield from batch(calls[first : first + size])
            return
    yield from unordered(calls)


def _chosen(backend: str | None) -> AbstractContextManager[Any]:
    chosen: AbstractContextManager[Any] = nullcontext() if backend is None else parallel_config(backend=backend)
    return chosen


def _connect_dask() -> None:
    """Create a client, which joblib requires, if there is none."""
    distributed = importlib.import_module("distributed")
    try:
        distributed.get_client()
    except ValueError:
        distributed.Client()
