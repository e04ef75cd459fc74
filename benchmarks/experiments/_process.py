"""Measurements in a process of their own, and by how much it grows."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

Measure = Callable[[dict[str, Any]], dict[str, Any]]


def in_own_process(measure: Measure, case: dict[str, Any]) -> dict[str, Any]:
    """Return what a function of a module measures of a case, in a new process."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(measure, case, sender))
    child.start()
    sender.close()
    try:
        found: dict[str, Any] = receiver.recv()
    except EOFError:
        raise RuntimeError(f"the process of {case} ended without an answer") from None
    finally:
        child.join()
    return found


def _send(measure: Measure, case: dict[str, Any], sender: Any) -> None:
    sender.send(measure(case))


def begin_peak() -> int:
    """Return the resident bytes of this process, where its peak begins from now on."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return peak()
    return _status("VmRSS:")


def peak() -> int:
    """Return the largest resident size in bytes since `begin_peak`.

    It is that of Linux's table of processes: what `resource` has begins at the size of the process that started this
    one.
    """
    try:
        return _status("VmHWM:")
    except OSError:
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))
