"""Faults at random moments: killed processes, full disks, interrupts, threads.

* A process that saves one object over another, again and again, is killed: the file is the old one or the new one.
* The same where files may hold a few bytes only, as on a full disk: an error, the old file, and no other one.
* Every command that writes is killed, or interrupted, at any moment, or finds a full disk: the same, and what it wrote
  before can be read (`_commands`).
* Every long function is interrupted as by Ctrl-C: it ends within seconds with a valid result, or with
  KeyboardInterrupt, and leaves no child process and no thread (`_calls`).
* A worker of joblib or of Dask is killed: the result of an undisturbed run or one error, and no process is left.
* Two calls in threads (`_calls`), and two in processes, give the results of one after the other.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import numpy as np
import psutil

from campaigns._calls import interrupted, threads
from campaigns._commands import command, full_disk
from campaigns._processes import LAST, SOON, contents, ended, group_lives, in_turn, scripted
from campaigns._record import Outcome


def tested(seed: int, index: int) -> Outcome:
    outcome, rng = Outcome(), np.random.default_rng([seed, index])
    fault = in_turn(FAULTS, index)
    outcome.count("fault", fault)
    # Objects, commands and functions take turns: all are tried.
    FAULTS[fault](rng, outcome, index // len(FAULTS))
    return outcome


# -- files ----------------------------------------------------------------------------------------------------------

#: Every kind of file: what makes one from a random generator, to be saved as `save(path)`.
KINDS = {
    "network": "save = qsdp.BilinearNetwork(*rng.choice([-1, 1], (2, m, 9)), rng.random(m)).save",
    "statistics": "save = qsdp.SufficientStatistics().partial_fit(rng.random((m, 9)), rng.random(m)).save",
    "certificate": (
        "p = qsdp.TrainingProblem(rng.random((m, 9)), rng.random(m), beta=0.1);"
        "n = qsdp.BilinearNetwork(rng.choice([-1, 1], (9, 9)), rng.choice([-1, 1], (9, 9)), rng.random(9));"
        "save = qsdp.certify(n, p, qsdp.solve_relaxation(p, max_iter=1)).save"
    ),
    "polynomial": "save = qsdp.PolynomialNetwork(rng.choice([-1, 1], (m, 9)), rng.random(m), (1.0, 1.0, 0.5)).save",
}
#: Saves both of two objects apart, then one over the other: for ever, or once where files may hold so many bytes only.
_SAVING = """
import resource, signal
path, size, saves, m = sys.argv[1], int(sys.argv[2]), [], 400
for seed in (1, 2):
    rng = np.random.default_rng(seed)
    {making}
    save(path + str(seed))
    saves.append(save)
saves[0](path)
print("ready", flush=True)
sys.stdin.readline()
if size >= 0:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
for save in saves[1:] if size >= 0 else saves * 10**6:
    save(path)
"""


def _saving(rng: np.random.Generator, outcome: Outcome, turn: int, *, full: bool) -> None:
    """Kill a process that saves, or let files grow to a random size only, which the old one, made before, has."""
    kind = in_turn(KINDS, turn)
    outcome.count("full disk" if full else "kill", kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.h"
        size = int(rng.integers(0, 2000)) if full else -1
        process = scripted(_SAVING.format(making=KINDS[kind]), str(path), str(size))
        before = contents(path.parent)
        if full:
            errors = process.communicate("\n", timeout=LAST)[1]
            if "OSError" not in errors:
                outcome.wrong("no error on a full disk", of=kind, code=process.returncode, errors=errors[-200:])
            if contents(path.parent) != before:
                outcome.wrong("a full disk changed files", of=kind)
            return
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(float(rng.uniform(0.0, 0.3)))
        process.kill()
        process.communicate()
        # A C header names its own file.
        if path.read_bytes() not in [before[f"file.h{seed}"] for seed in (1, 2)]:
            outcome.wrong("torn file", of=kind)


# -- processes ------------------------------------------------------------------------------------------------------

#: Prints the digest of what was fitted, or the error that was raised.
_PROGRAM = """
rng = np.random.default_rng(0)
X = rng.standard_normal((400, 6))
y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(400)
try:
{fit}
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in found))
    print("result", digest.hexdigest(), flush=True)
except Exception as error:
    print("error", type(error).__name__, str(error).splitlines()[0], flush=True)
"""
_NETWORK = "    found = [model.network_.U, model.network_.V, model.network_.alpha]"
_CROSS_VALIDATION = f"""\
    print("ready", flush=True)
    from sklearn.model_selection import GridSearchCV
    model = qsdp.QuantizedNetworkRegressor(n_neurons=20, refine="none", tol=0.1, random_state=0)
    model = GridSearchCV(model, {{"beta": ["10%", "1%", "0.1%"]}}, cv=4, n_jobs=2).fit(X, y).best_estimator_
{_NETWORK}"""
_PASS = """\
    import dask.array as da
    from distributed import Client, LocalCluster
    options = dict(processes=True, threads_per_worker=1, dashboard_address=None, silence_logs=50)
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster):
        print("ready", flush=True)
        rows = da.from_array(np.tile(X, (200, 1)), chunks=(400, -1))
        targets = da.from_array(np.tile(y, 200), chunks=400)
        statistics = qsdp.SufficientStatistics.from_batches((rows, targets))
    found = [np.array([statistics.n_samples_seen_, statistics.total_weight_])]"""
_FITS = f"""\
    print("ready", flush=True)
    model = qsdp.QuantizedNetworkRegressor(n_neurons=20, tol=1e-2, random_state=0).fit(X, y)
{_NETWORK} + [np.array([model.certificate_.lower_bound])]"""

#: What may be said of a worker that was killed, instead of a result.
_ERRORS = {"TerminatedWorkerError", "BrokenProcessPool", "SolverError", "KilledWorker"}


@cache
def _undisturbed(fit: str) -> str:
    said = scripted(_PROGRAM.format(fit=fit)).communicate(timeout=LAST)[0].strip()
    if not said.startswith("result "):
        # Two runs that fail alike would count as equal.
        raise RuntimeError(f"a fit has failed: {said[-500:]}")
    return said


def _processes(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Run a fit in two processes at once: both have the result of one alone."""
    running = [scripted(_PROGRAM.format(fit=_FITS)) for _ in range(2)]
    said = {process.communicate(timeout=LAST)[0].strip() for process in running}
    outcome.count("processes", "two fits at once")
    if said != {_undisturbed(_FITS)}:
        outcome.wrong("processes differ", said=sorted(said))


def _kill_worker(rng: np.random.Generator, outcome: Outcome, turn: int, *, kind: str, fit: str, word: str) -> None:
    """Kill a worker, whose command line has a word, of a fit in two processes."""
    expected, process = _undisturbed(fit), scripted(_PROGRAM.format(fit=fit))
    wait, end = float(rng.uniform(0.0, 2.0)), time.monotonic() + SOON
    while process.poll() is None and not _workers(process.pid, word) and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(wait)
    workers = _workers(process.pid, word)
    with suppress(psutil.Error):
        for worker in workers[-1:]:
            worker.kill()
    if (answer := ended(process, outcome, of=kind)) is None:
        return
    said, errors = answer
    words = said.split() or ["nothing"]
    came = "no worker was left" if not workers else words[0] if words[0] == "result" else words[1]
    outcome.count("worker killed", f"{kind}: {came}")
    if said.strip() != expected and (words[0] != "error" or words[1] not in _ERRORS):
        outcome.wrong("neither a result nor a clear error", of=kind, said=said[-300:], errors=errors[-300:])
    # What a killed process leaves ends by itself a moment later.
    end = time.monotonic() + SOON
    while group_lives(process.pid) and time.monotonic() < end:
        time.sleep(0.05)
    if group_lives(process.pid):
        outcome.wrong("a process was left", of=kind)
        os.killpg(process.pid, signal.SIGKILL)


def _workers(parent: int, word: str) -> list[psutil.Process]:
    """Return the descendants of a process whose command line has a word, in the order of their start."""
    with suppress(psutil.Error):
        found = psutil.Process(parent).children(recursive=True)
        return sorted((one for one in found if word in " ".join(one.cmdline())), key=lambda one: one.pid)
    return []


FAULTS = {
    "kill": partial(_saving, full=False),
    "full disk": partial(_saving, full=True),
    "interrupt": interrupted,
    "threads": threads,
    "command": command,
    "full disk of a command": full_disk,
    "joblib worker": partial(_kill_worker, kind="joblib", fit=_CROSS_VALIDATION, word="popen_loky"),
    "dask worker": partial(_kill_worker, kind="dask", fit=_PASS, word="multiprocessing"),
    "processes": _processes,
}
