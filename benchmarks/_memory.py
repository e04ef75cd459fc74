"""Resident memory of this process."""

from __future__ import annotations

import resource
from pathlib import Path


def peak_mib() -> float:
    """Return the peak of resident memory; that of this program, not of what it was started from."""
    try:
        return _status("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_mib() -> float:
    """Return the resident memory; where it is not known, its peak so far."""
    try:
        return _status("VmRSS")
    except OSError:
        return peak_mib()


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024
