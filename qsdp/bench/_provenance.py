"""Provenance of a measurement: the machine, the versions of packages and the commit."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

__all__ = ["describe_machine"]

_PACKAGES = ("qsdp", "numpy", "scipy", "scikit-learn", "cvxpy", "scs", "clarabel", "torch")
_ROOT = Path(__file__).resolve().parents[2]


def describe_machine() -> dict[str, Any]:
    """Return what measurements depend on: processor, versions, BLAS, threads, commit and date."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    versions = {}
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {
        "processor": name,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
        "blas": ", ".join(dict.fromkeys(f"{one['internal_api']} {one['version']}" for one in blas)) or "unknown",
        "threads": max((one["num_threads"] for one in blas), default=1),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


@functools.cache
def commit() -> str:
    """Return the commit of the sources, with a plus if they have changed since; empty outside a repository."""

    def said(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # `git describe --dirty` would lock the index, and leave the lock behind if it is killed.
        changed = said("--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
        return said("rev-parse", "--short=12", "HEAD") + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return ""
