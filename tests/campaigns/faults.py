"""Faults at random moments: killed processes, full disks, interrupts, threads.

* A process that saves one object over another, again and again, is killed: the file is the old one or the new one.
* The same where files may hold a few bytes only, as on a full disk: an error, the old file, and no other one.
* Every command that writes is killed, or interrupted, at any moment, or finds a full disk: the same, and what it wrote
  before can be read (`_commands`).
* Every long function is interrupted as by Ctrl-C: it ends within seconds with a valid result, or with
  KeyboardInterrupt, and leaves no child process and no thread (`_interrupts`).
* A worker of joblib or of Dask is killed: the result of an undisturbed run or one error, and no process is left.
* Two calls in threads (`_together`), and two in processes, give the results of one after the other.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from campaigns._commands import command, full_disk
from campaigns._interrupts import interrupted
from campaigns._processes import BEGIN, child, in_turn
from campaigns._record import Outcome
from campaigns._together import threads
from campaigns._workers import dask_worker, joblib_worker, processes

__all__ = ["tested"]

#: Every kind of file: what makes one from a random generator, to be saved as `save(path)`.
KINDS = {
    "network": "U, V = rng.choice([-1, 1], (2, m, 9)); save = qsdp.BilinearNetwork(U, V, rng.random(m)).save",
    "statistics": "save = qsdp.SufficientStatistics().partial_fit(rng.random((m, 9)), rng.random(m)).save",
    "certificate": (
        "p = qsdp.TrainingProblem(rng.random((m, 9)), rng.random(m), beta=0.1);"
        "n = qsdp.BilinearNetwork(rng.choice([-1, 1], (9, 9)), rng.choice([-1, 1], (9, 9)), rng.random(9));"
        "save = qsdp.certify(n, p, qsdp.solve_relaxation(p, max_iter=1)).save"
    ),
    "polynomial": ("save = qsdp.PolynomialNetwork(rng.choice([-1, 1], (m, 9)), rng.random(m), (1.0, 1.0, 0.5)).save"),
}
_SAVING = """
import sys, warnings
import numpy as np
import qsdp
warnings.simplefilter("ignore")
saves = []
for seed in (1, 2):
    rng, m = np.random.default_rng(seed), 400
    {making}
    saves.append(save)
for number, save in enumerate(saves):
    save(sys.argv[1] + str(number))
saves[0](sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
while True:
    for save in saves:
        {saving}
"""

#: Before and inside of it where files may hold so many bytes only.
_LIMITED = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def limit(size): resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
"""
_SAVED_ONCE = """limit(int(sys.argv[2]))
        try:
            save(sys.argv[1])
        except OSError as error:
            print('OSError', flush=True)
            sys.exit(3)
        sys.exit(0)"""


def tested(seed: int, index: int) -> Outcome:
    outcome, rng = Outcome(), np.random.default_rng([seed, index])
    fault = list(FAULTS)[index % len(FAULTS)]
    outcome.count("fault", fault)
    # Objects, commands and functions take turns: all are tried.
    FAULTS[fault](rng, outcome, index // len(FAULTS))
    return outcome


def _killed(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    kind = in_turn(KINDS, turn)
    outcome.count("kill", kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.h"
        process = child(_SAVING.format(making=KINDS[kind], saving="save(sys.argv[1])"), str(path))
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(float(rng.uniform(0.0, 0.3)))
        process.kill()
        process.communicate()
        wanted = [_contents(folder, f"file.h{number}") for number in range(2)]
        if _contents(folder, "file.h") not in wanted:
            outcome.wrong("torn file", of=kind)


def _contents(folder: str, name: str) -> bytes:
    return (Path(folder) / name).read_bytes().replace(name.encode(), b"")


def _full(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Let files grow to a random size only, which the old one, made before, already has."""
    kind = in_turn(KINDS, turn)
    outcome.count("full disk", kind)
    script = _LIMITED + _SAVING.format(making=KINDS[kind], saving=_SAVED_ONCE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.h"
        process = child(script, str(path), str(int(rng.integers(0, 2000))))
        assert process.stdin is not None
        files, before = sorted(os.listdir(folder)), _contents(folder, "file.h")
        said, errors = process.communicate("\n", timeout=BEGIN)
        if process.returncode != 3 or "OSError" not in said:
            outcome.wrong("no error on a full disk", of=kind, code=process.returncode, errors=errors[-200:])
        if sorted(os.listdir(folder)) != files or _contents(folder, "file.h") != before:
            outcome.wrong("a full disk changed files", of=kind)


FAULTS = {
    "kill": _killed,
    "full disk": _full,
    "interrupt": interrupted,
    "threads": threads,
    "command": command,
    "full disk of a command": full_disk,
    "joblib worker": joblib_worker,
    "dask worker": dask_worker,
    "processes": processes,
}
