"""Programs that are run apart, to be killed, interrupted or given a full disk."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from campaigns._record import Outcome

#: Seconds that a process has to end once it is interrupted: what it should need, and what it may on a busy machine.
SOON, LAST = 20.0, 120.0

#: What all scripts begin with.
_PREAMBLE = """
import hashlib, sys, threading, time, warnings
import numpy as np
import qsdp
from qsdp import baselines
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
"""


def in_turn(names: Iterable[str], turn: int) -> str:
    ordered = list(names)
    return ordered[turn % len(ordered)]


def started(*arguments: str, folder: Path | None = None, size: int | None = None) -> subprocess.Popen[str]:
    """Return a process of Python in a group of its own; its files may grow to a size."""

    def prepare() -> None:
        # A shell has its programs in the background ignore interrupts, and what these start inherits that.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    options = {"cwd": folder, "text": True, "start_new_session": True, "preexec_fn": prepare}
    return subprocess.Popen([sys.executable, *arguments], **pipes, **options)


def scripted(script: str, *arguments: str, size: int | None = None) -> subprocess.Popen[str]:
    """Return a process of a script that has said that it is ready."""
    process = started("-c", _PREAMBLE + script, *arguments, size=size)
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        raise RuntimeError(f"a process did not begin: {process.communicate(timeout=LAST)[1][-500:]}")
    return process


def ended(process: subprocess.Popen[str], outcome: Outcome, **of: str) -> tuple[str, str] | None:
    """Return what a process says and its errors; None if it does not end, which is wrong, and is killed."""
    try:
        return process.communicate(timeout=LAST)
    except subprocess.TimeoutExpired:
        outcome.wrong("not ended", **of, seconds=LAST)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None


def group_lives(group: int) -> bool:
    """Return whether a process of a group still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
