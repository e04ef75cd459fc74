"""Peak memory: of this process, and of programs run apart."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from pathlib import Path

#: Runs a program and prints its seconds and peak. What starts a program lends it its own peak, so it has to be small.
_APART = """
import resource, subprocess, sys, time
start = time.perf_counter()
ran = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, timeout=float(sys.argv[1]), check=False)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, ran.returncode)
"""


def _status(process, key):
    """Return an entry of a process's status in MiB, None where there is no such thing."""
    try:
        for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(key):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return None


def peak_mib():
    """Return the peak of resident memory; that of this program, not of what it was started from."""
    peak = _status("self", "VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if peak is None else peak


def resident_mib():
    """Return the resident memory, and let the peak begin there where that is possible."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("self", "VmRSS")


def run_apart(command, cwd=None, timeout=None):
    """Run a program; return its seconds, its peak memory in MiB and its exit status."""
    limit = str(timeout if timeout is not None else 1e9)
    ran = subprocess.run(
        [sys.executable, "-S", "-E", "-c", _APART, limit, *map(os.fspath, command)],
        cwd=cwd, capture_output=True, text=True, check=True,
    )  # fmt: skip
    seconds, kib, status = ran.stdout.split()
    return float(seconds), int(kib) / 1024, int(status)
