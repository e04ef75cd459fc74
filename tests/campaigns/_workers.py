"""Faults of worker processes: those of joblib in a cross-validation, and those of Dask in a pass over rows."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from functools import cache

import numpy as np
import psutil

from campaigns._processes import END, child, ended, group_lives
from campaigns._record import Outcome

__all__ = ["dask_worker", "joblib_worker", "processes"]

#: Prints the digest of what was fitted, or the error that was raised.
_PROGRAM = """
import hashlib, os, sys, warnings
import numpy as np
import qsdp
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.standard_normal((400, 6))
y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(400)

def digest(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()

def fit():
    {fit}

if __name__ == "__main__":
    print("ready", flush=True)
    try:
        print("result", fit(), flush=True)
    except Exception as error:
        print("error", type(error).__name__, str(error).splitlines()[0], flush=True)
"""

_CROSS_VALIDATION = """\
print("begins", flush=True)
    model = qsdp.QuantizedNetworkRegressorCV(n_neurons=20, cv=4, refine="none", tol=0.1, n_jobs=2, random_state=0)
    model.fit(X, y)
    return digest(model.network_.U, model.network_.V, model.network_.alpha)"""

_PASS = """\
import dask.array as da
    from distributed import Client, LocalCluster
    from qsdp.distributed import statistics_of_dask
    options = dict(processes=True, threads_per_worker=1, dashboard_address=None, silence_logs=50)
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster):
        print("begins", flush=True)
        rows = da.from_array(np.tile(X, (200, 1)), chunks=(400, -1))
        statistics = statistics_of_dask(rows, da.from_array(np.tile(y, 200), chunks=400))
    return digest(np.array([statistics.n_samples_seen_, statistics.total_weight_]))"""

_FITS = """\
print("begins", flush=True)
    model = qsdp.QuantizedNetworkRegressor(n_neurons=20, tol=1e-2, random_state=0).fit(X, y)
    bound = np.array([model.certificate_.lower_bound])
    return digest(model.network_.U, model.network_.V, model.network_.alpha, bound)"""

#: What may be said of a worker that was killed, instead of a result.
_ERRORS = {"TerminatedWorkerError", "BrokenProcessPool", "SolverError", "KilledWorker"}

#: Seconds that a program has.
_LIMIT = 120.0


def joblib_worker(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Kill a worker of a cross-validation in two processes."""
    _kill_worker(rng, outcome, "joblib", _CROSS_VALIDATION, "popen_loky")


def dask_worker(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Kill a worker of a pass over rows in two processes."""
    _kill_worker(rng, outcome, "dask", _PASS, "multiprocessing")


def processes(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Run a fit in two processes at once: both have the result of one alone."""
    running = [child(_PROGRAM.format(fit=_FITS)) for _ in range(2)]
    said = {process.communicate(timeout=_LIMIT)[0].strip().removeprefix("begins\n") for process in running}
    outcome.count("processes", "two fits at once")
    if said != {_undisturbed(_FITS)}:
        outcome.wrong("processes differ", said=sorted(said))


@cache
def _undisturbed(fit: str) -> str:
    said = child(_PROGRAM.format(fit=fit)).communicate(timeout=_LIMIT)[0].strip().removeprefix("begins\n")
    if not said.startswith("result "):
        # Two runs that fail alike would count as equal.
        raise RuntimeError(f"a fit has failed: {said[-500:]}")
    return said


def _kill_worker(rng: np.random.Generator, outcome: Outcome, kind: str, fit: str, command: str) -> None:
    expected = _undisturbed(fit)
    process = child(_PROGRAM.format(fit=fit))
    assert process.stdout is not None
    process.stdout.readline()
    wait, end = float(rng.uniform(0.0, 2.0)), time.monotonic() + END
    while process.poll() is None and not _workers(process.pid, command) and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(wait)
    workers = _workers(process.pid, command)
    with suppress(psutil.Error):
        for worker in workers[-1:]:
            worker.kill()
    if (answer := ended(process, _LIMIT)) is None:
        outcome.wrong("waits for a dead worker", of=kind)
        return
    said, errors = answer
    words = said.split() or ["nothing"]
    came = "no worker was left" if not workers else words[0] if words[0] == "result" else words[1]
    outcome.count("worker killed", f"{kind}: {came}")
    if said.strip() != expected and (words[0] != "error" or words[1] not in _ERRORS):
        outcome.wrong("neither a result nor a clear error", of=kind, said=said[-300:], errors=errors[-300:])
    # What a killed process leaves ends by itself a moment later.
    end = time.monotonic() + END
    while group_lives(process.pid) and time.monotonic() < end:
        time.sleep(0.05)
    if group_lives(process.pid):
        outcome.wrong("a process was left", of=kind)
        os.killpg(process.pid, signal.SIGKILL)


def _workers(parent: int, command: str) -> list[psutil.Process]:
    """Return the descendants of a process whose command line has a word, in the order of their start."""
    with suppress(psutil.Error):
        found = psutil.Process(parent).children(recursive=True)
        return sorted((one for one in found if command in " ".join(one.cmdline())), key=lambda one: one.pid)
    return []
