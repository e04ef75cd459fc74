"""Main memory available to this process."""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path

from qsdp._utils.summary import in_units
from qsdp.exceptions import InvalidInputError

__all__ = ["format_bytes", "main_memory", "require_memory"]

#: File with the memory limit of a container on Linux.
_CONTAINER = Path("/sys/fs/cgroup/memory.max")


@functools.lru_cache(maxsize=1)
def main_memory() -> float:
    """Return the bytes of main memory, of the machine or the container; infinity if unknown."""
    try:
        machine = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        machine = math.inf
    try:
        return min(machine, float(_CONTAINER.read_text(encoding="ascii")))
    except (OSError, ValueError):
        # There is no container, or its limit is the word "max".
        return machine


def require_memory(needed: float, work: str, size: str, advice: str) -> None:
    """Raise `InvalidInputError` if `work` on data of a `size` needs more bytes than the main memory has."""
    there = main_memory()
    if needed > there:
        raise InvalidInputError(
            f"problem must fit into memory: {work} takes {format_bytes(needed)} at least for {size}, there "
            f"are {format_bytes(there)}; {advice}"
        )


def format_bytes(count: float) -> str:
    """Format a number of bytes, such as "3.2 GB"."""
    amount, unit = in_units(count, ["bytes", "kB", "MB", "GB", "TB"], 1e3)
    return f"{amount:.3g} {unit}"
