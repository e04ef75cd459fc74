"""What a measurement depends on besides its case: the machine, its load, and the sources that were run."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from qsdp.bench._experiment import Experiment

__all__ = ["LOADED", "describe_machine", "sources_of"]

_PACKAGES = ("qsdp", "numpy", "scipy", "scikit-learn", "cvxpy", "scs", "clarabel", "torch")
#: Where the packages lie whose sources count.
_ROOT = Path(__file__).resolve().parents[2]
_OWN = ("qsdp", "benchmarks")
#: Average number of other processes that run, above which seconds count as measured under load.
LOADED = 0.5


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, versions, BLAS, threads, commit, load and date, on which measurements depend."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    load = others_load()
    return {
        "processor": name,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
        "blas": ", ".join(dict.fromkeys(f"{one['internal_api']} {one['version']}" for one in blas)) or "unknown",
        "threads": max((one["num_threads"] for one in blas), default=1),
        "commit": commit(),
        "load": load,
        "loaded": load is not None and load > LOADED,
        "date": time.strftime("%Y-%m-%d"),
    }


def others_load() -> float | None:
    """Return the load average of the last minute less this process's own share of it; None where it is not known."""
    if not hasattr(os, "getloadavg"):
        return None
    own = min(1.0, sum(os.times()[:2]) / 60.0)
    return round(max(0.0, os.getloadavg()[0] - own), 2)


@functools.cache
def commit() -> str:
    """Return the commit of the sources, with a plus if they were changed since; empty outside of a repository."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()


# -- sources ---------------------------------------------------------------------------------------------


def sources_of(experiment: Experiment) -> str:
    """Return a hash of the sources that an experiment runs: of its module, and of all that this imports.

    Comments, docstrings and layout do not count, nor do imports of other packages.
    """
    found: set[str] = set()
    waiting = [experiment.run.__module__]
    while waiting:
        module = waiting.pop()
        if module not in found and _file_of(module) is not None:
            found.add(module)
            waiting += _parsed(module)[1]
    digest = hashlib.sha256()
    for module in sorted(found):
        digest.update(f"{module} {_parsed(module)[0]}\n".encode())
    return digest.hexdigest()[:16]


def _file_of(module: str) -> Path | None:
    """Return the file of a module of this repository."""
    if module.split(".")[0] not in _OWN:
        return None
    place = _ROOT.joinpath(*module.split("."))
    candidates = [place.with_suffix(".py"), place / "__init__.py"]
    loaded = getattr(sys.modules.get(module), "__file__", None)
    return next((path for path in [*candidates, *([Path(loaded)] if loaded else [])] if path.is_file()), None)


def _parsed(module: str) -> tuple[str, tuple[str, ...]]:
    """Return the hash of a module's code and the modules of this repository that it may import."""
    path = _file_of(module)
    assert path is not None
    return _parsed_file(module, path, path.stat().st_mtime_ns)


@functools.cache
def _parsed_file(module: str, path: Path, changed: int) -> tuple[str, tuple[str, ...]]:
    tree = ast.parse(path.read_bytes())
    names = list(_imported(tree))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = body[1:]
    code = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
    parents = [".".join(module.split(".")[:depth]) for depth in range(1, module.count(".") + 1)]
    return code, tuple(dict.fromkeys([*parents, *names]))


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield what is imported, wherever in the code; of names from a package also as its modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
