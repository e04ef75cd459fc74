"""Parallel measurement of the cases that have no record, stored as results arrive."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from qsdp._utils.progress import progress
from qsdp._utils.validation import check_jobs, warn
from qsdp.bench._experiment import Case, Experiment, Record
from qsdp.bench._provenance import describe_machine, others_seconds, sources_of
from qsdp.bench._results import Results, _plain, differences, load_results
from qsdp.exceptions import InvalidInputError

__all__ = ["run_again", "run_experiment"]

#: A case, its measurement or error message, its seconds, and the processor seconds of other processes meanwhile.
Answer = tuple[Case, dict[str, Any] | str, float, float]


def run_experiment(
    experiment: Experiment,
    path: Path,
    *,
    quick: bool = False,
    n_jobs: int | None = None,
    backend: str | None = None,
    verbose: bool | int = True,
    limit: int | None = None,
) -> tuple[Results, list[tuple[Case, str]]]:
    """Measure the cases missing from a file, at most `limit` of them, and return all results and the failures.

    The file is written during the run. Its new records replace those of another version of the experiment, and those of
    a full run replace those of a quick run. Failures are the cases that raised an error, with the message; the next run
    tries them again. After Ctrl-C, the records of finished cases are kept, a warning is issued, and the results have
    `interrupted` set to True.

    `n_jobs` cases are measured in parallel by a joblib back end: "loky" (the default), "threading", or one registered
    with ``joblib.register_parallel_backend``. The back end must return each result as soon as it is ready, so that an
    interrupt loses few of them.

    Raises
    ------
    InvalidInputError
        `n_jobs` is zero, the back end cannot be used, or a quick run would overwrite a full one.
    StorageError
        The file is damaged or belongs to another experiment.
    """
    parallel = _parallel(check_jobs(n_jobs), backend)
    cases = list(experiment.cases(quick))
    results = load_results(experiment, path, quick)
    if quick and path.is_file() and not load_results(experiment, path).quick:
        raise InvalidInputError(f"{path} holds a full run; a quick one needs a file of its own")
    missing = results.missing(cases)[:limit]
    here = describe_machine(sources_of(experiment)) if missing else {}
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


def run_again(experiment: Experiment, path: Path, count: int) -> list[tuple[Case, list[str]]]:
    """Measure up to `count` stale cases again, drawn at random, and return each with the places where it differs.

    A record that does not differ is replaced by the new, current record. The other records stay unchanged.
    """
    results = load_results(experiment, path)
    known = results.stale(experiment)
    here, found = describe_machine(sources_of(experiment)), []
    for record in random.Random(0).sample(known, min(count, len(known))):
        _, answer, seconds, others = _measure(experiment.run, record.case)
        new = json.loads(json.dumps(answer, default=_plain))
        differing = [new] if isinstance(new, str) else differences(record.measured, new)
        if not differing:
            machine = results.add_machine(here, others, seconds)
            results.records[results.records.index(record)] = Record(record.case, new, seconds, machine)
            results.save(path)
        found.append((record.case, differing))
    return found


def _keep(fresh: list[Answer], here: dict[str, Any], results: Results, path: Path) -> list[tuple[Case, str]]:
    """Move answers to the results, with the load during all of them, write the file, and return the failures."""
    failures, load = [], (sum(others for *_, others in fresh), sum(seconds for *_, seconds, _ in fresh))
    for case, answer, seconds, _ in fresh:
        if isinstance(answer, str):
            failures.append((case, answer))
        else:
            results.records.append(Record(case, answer, seconds, results.add_machine(here, *load)))
    fresh.clear()
    results.save(path)
    return failures


def _measure(run: Any, case: Case) -> Answer:
    """Measure a case."""
    start, others = time.perf_counter(), others_seconds()
    try:
        measured: dict[str, Any] | str = dict(run(case))
    except Exception as error:
        measured = f"{type(error).__name__}: {error}"
    return case, measured, time.perf_counter() - start, others_seconds() - others


def _parallel(n_jobs: int | None, backend: str | None) -> Parallel:
    try:
        return Parallel(n_jobs=n_jobs, backend=backend, return_as="generator_unordered")
    except ValueError as error:
        raise InvalidInputError(
            f"backend must be 'loky', 'threading' or one registered with joblib.register_parallel_backend; "
            f"got {backend!r}: {error}"
        ) from None
