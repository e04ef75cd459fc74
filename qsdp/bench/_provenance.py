"""What a measurement depends on besides its case: the machine, its load, and the sources that were run."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import itertools
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from qsdp.bench._experiment import Experiment

__all__ = ["LOADED", "describe_machine", "sources_of"]

_PACKAGES = ("qsdp", "numpy", "scipy", "scikit-learn", "cvxpy", "scs", "clarabel", "torch")
#: Where the packages lie whose sources count.
_ROOT = Path(__file__).resolve().parents[2]
_OWN = ("qsdp", "benchmarks")
#: Those of which single functions count.
_BY_NAME = ("benchmarks",)
#: Average number of other processes that run, above which seconds count as measured under load.
LOADED = 0.5

#: Modules and names in them, empty for all of it.
Needed = tuple[tuple[str, str], ...]


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, versions, BLAS, threads, commit, load and date, on which measurements depend."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    versions = {}
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
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

    def said(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # `git describe --dirty` would lock the index, and leave the lock if it is killed.
        changed = said("--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
        return said("rev-parse", "--short=12", "HEAD") + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return ""


# -- sources ---------------------------------------------------------------------------------------------


def sources_of(experiment: Experiment) -> str:
    """Return a hash of the sources that an experiment runs.

    Of the benchmarks those are the functions and constants that its `run` reaches, so that another table or claim
    leaves records as they are; of the package whole modules, with all that they import. Comments, docstrings and layout
    do not count, nor do imports of other packages.
    """
    found: dict[tuple[str, str], str] = {}
    waiting = [(experiment.run.__module__, experiment.run.__name__)]
    while waiting:
        module, name = waiting.pop()
        name = name if module.split(".")[0] in _BY_NAME else ""
        if _file_of(module) is not None and (module, name) not in found:
            found[module, name], needed = _named(module, name) if name else _parsed(module)
            waiting += needed
    digest = hashlib.sha256()
    for (module, name), code in sorted(found.items()):
        digest.update(f"{module} {name} {code}\n".encode())
    return digest.hexdigest()[:16]


def _file_of(module: str) -> Path | None:
    """Return the file of a module of this repository."""
    if module.split(".")[0] not in _OWN:
        return None
    place = _ROOT.joinpath(*module.split("."))
    candidates = [place.with_suffix(".py"), place / "__init__.py"]
    loaded = getattr(sys.modules.get(module), "__file__", None)
    return next((path for path in [*candidates, *([Path(loaded)] if loaded else [])] if path.is_file()), None)


def _parsed(module: str) -> tuple[str, Needed]:
    """Return the hash of a module's code and the modules of this repository that it may import."""
    return _whole(module, *_place(module))


@functools.cache
def _whole(module: str, path: Path, changed: int) -> tuple[str, Needed]:
    tree = _tree(path, changed)
    parents = [".".join(module.split(".")[:depth]) for depth in range(1, module.count(".") + 1)]
    return _hash(tree), tuple((other, "") for other in dict.fromkeys([*parents, *_imported(tree)]))


def _named(module: str, name: str) -> tuple[str, Needed]:
    """Return the hash of what defines a name of a module, and the names, of modules, that this uses in turn."""
    own, imported = _names(*_place(module))
    if name in imported:
        return "", (imported[name],)
    if name not in own:
        return "", ((f"{module}.{name}", ""),)
    needed: list[tuple[str, str]] = []
    for node in itertools.chain(*map(ast.walk, own[name])):
        if isinstance(node, ast.Import | ast.ImportFrom):
            needed += _origins(node).values()
        elif isinstance(node, ast.Name) and (node.id in own or node.id in imported):
            needed.append(imported.get(node.id) or (module, node.id))
    return "".join(map(_hash, own[name])), tuple(dict.fromkeys(needed))


def _origins(statement: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str]]:
    """Return module and name of what an import binds; a module has no name."""
    if isinstance(statement, ast.Import):
        return {alias.asname or alias.name.split(".")[0]: (alias.name, "") for alias in statement.names}
    module = statement.module or ""
    return {alias.asname or alias.name: (module, alias.name) for alias in statement.names}


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a module defines or assigns to."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    nodes = ast.walk(statement)
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _hash(tree: ast.AST) -> str:
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _place(module: str) -> tuple[Path, int]:
    """Return the file of a module, and when it was changed."""
    path = _file_of(module)
    assert path is not None
    return path, path.stat().st_mtime_ns


@functools.cache
def _names(path: Path, changed: int) -> tuple[dict[str, list[ast.stmt]], dict[str, tuple[str, str]]]:
    """Return the statements by the names that they bind, and where imported names are from."""
    own: dict[str, list[ast.stmt]] = {}
    imported: dict[str, tuple[str, str]] = {}
    for statement in _tree(path, changed).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imported |= _origins(statement)
            continue
        for bound in _bound(statement):
            own.setdefault(bound, []).append(statement)
    return own, imported


@functools.cache
def _tree(path: Path, changed: int) -> ast.Module:
    """Return the code of a file without docstrings."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = body[1:]
    return tree


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield what is imported, wherever in the code; of names from a package also as its modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
