"""Programs that are run apart, to be killed or interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable

__all__ = ["BEGIN", "END", "child", "ended", "group_lives", "in_turn", "interruptible"]

#: Seconds that a process has to begin, and to end once it is interrupted.
BEGIN, END = 60.0, 20.0


def interruptible() -> None:
    """Take interrupts: a shell has its programs in the background ignore them, and what these start inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def in_turn(names: Iterable[str], turn: int) -> str:
    ordered = list(names)
    return ordered[turn % len(ordered)]


def child(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Return a process of a script that has said that it is ready, in a group of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=interruptible,
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        raise RuntimeError(f"a process did not begin: {process.communicate(timeout=BEGIN)[1][-500:]}")
    return process


def ended(process: subprocess.Popen[str], seconds: float) -> tuple[str, str] | None:
    """Return what a process says and its errors; None if it does not end in so many seconds, and is killed."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
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
