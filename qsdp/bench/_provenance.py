"""Provenance of a measurement: the machine, its load, and the sources that ran."""

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
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from qsdp.bench._experiment import Experiment

__all__ = ["LOADED", "describe_machine", "sources_of"]

_PACKAGES = ("qsdp", "numpy", "scipy", "scikit-learn", "cvxpy", "scs", "clarabel", "torch")
#: Folder of the packages whose sources count.
_ROOT = Path(__file__).resolve().parents[2]
_OWN = ("qsdp", "benchmarks")
#: Methods that other packages call without mentioning a class of this repository.
_CALLED = (
    *("decision_function", "fit", "fit_transform", "partial_fit", "predict", "predict_proba", "transform"),
    *("forward", "get_params", "score", "set_params"),
)
#: Average number of processors used by other processes, above which times count as measured under load.
LOADED = 0.5

#: A module and a name in it: "Class.method" for a method, empty for the module itself.
Place = tuple[str, str]


def describe_machine(source: str = "") -> dict[str, Any]:
    """Return what measurements depend on: processor, versions, BLAS, threads, commit, date and the sources that run."""
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
        "source": source,
    }


def others_seconds() -> float:
    """Return the processor seconds of all processes but this one and its ended children; nan except on Linux."""
    with suppress(OSError):
        user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text(encoding="ascii").split()[1:9])
        return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])
    return float("nan")


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


def sources_of(experiment: Experiment) -> str:
    """Return a hash of the sources that an experiment runs.

    These are the functions, classes and constants of this repository that its `run` reaches by name, so that other
    changes do not affect records. A method counts if reached code mentions its name, or if other packages may call it.
    Comments, docstrings, annotations, layout, texts of errors, warnings and options, and the modules in which functions
    are defined do not count. Nor does code reached only by computed names.
    """
    reached: dict[Place, str] = {}
    mentioned = {*_CALLED}
    methods: dict[str, list[Place]] = {}
    waiting = [(experiment.run.__module__, experiment.run.__name__)]
    while waiting:
        place = waiting.pop()
        path = _file_of(place[0])
        if place in reached or path is None:
            continue
        found = _definition(*place, path.stat().st_mtime_ns)
        reached[place] = found.digest
        waiting += found.needed
        mentioned |= found.mentioned
        for method in found.methods:
            methods.setdefault(method.rpartition(".")[2], []).append((place[0], method))
        for name in [name for name in methods if name in mentioned or name.startswith("__")]:
            waiting += methods.pop(name)
    code = sorted(f"{name} {digest}\n" for (_, name), digest in reached.items())
    return hashlib.sha256("".join(code).encode()).hexdigest()[:16]


class _Definition(NamedTuple):
    """Code of a name: its hash, the names that it uses, names that it mentions, and the methods of a class."""

    digest: str
    needed: list[Place]
    mentioned: set[str]
    methods: list[str]


class _Module(NamedTuple):
    """A module: the statements that bind each name, including methods of classes, and the origins of its imports."""

    own: dict[str, list[ast.stmt]]
    imported: dict[str, Place]


@functools.cache
def _definition(module: str, name: str, changed: int) -> _Definition:
    """Return the code of a name, with the names, attributes and strings in it."""
    own, needed, mentioned = _module(module).own, [], set()
    for node in (node for statement in own[name] for node in ast.walk(statement)):
        match node:
            case ast.Constant(value=str(text)) if text.isidentifier():
                mentioned.add(text)
            case ast.Name() | ast.Attribute():
                mentioned |= {node.attr} if isinstance(node, ast.Attribute) else set()
                needed.append(_place(module, node))
    digest = "".join(hashlib.sha256(ast.dump(statement).encode()).hexdigest() for statement in own[name])
    methods = [one for one in own if one.startswith(f"{name}.")]
    return _Definition(digest, [place for place in needed if place and place[1]], mentioned, methods)


def _place(module: str, node: ast.expr) -> Place | None:
    """Return where a name, or an attribute of a module, is defined, or None outside this repository."""
    if isinstance(node, ast.Name):
        return _resolved(module, node.id)
    base = _place(module, node.value) if isinstance(node, ast.Attribute) else None
    return _resolved(base[0], node.attr) if isinstance(node, ast.Attribute) and base and not base[1] else None


def _resolved(module: str, name: str) -> Place | None:
    """Return where a name of a module is defined, a module as ``(module, "")``; None outside this repository."""
    path = _file_of(module)
    if path is None or not name:
        return None if path is None else (module, "")
    known = _module(module)
    if name in known.own:
        return module, name
    # A package that imports its own submodule binds the name to itself, which would recurse.
    if known.imported.get(name, (module, name)) != (module, name):
        return _resolved(*known.imported[name])
    if _file_of(f"{module}.{name}") is not None:
        return f"{module}.{name}", ""
    if "__getattr__" in known.own:
        # The package imports these names lazily, from one of its modules or packages.
        for other in sorted(one for one in path.parent.iterdir() if _file_of(f"{module}.{one.stem}")):
            found = _module(f"{module}.{other.stem}")
            if name in found.own or (other.is_dir() and name in found.imported):
                return _resolved(f"{module}.{other.stem}", name)
    return None


def _file_of(module: str) -> Path | None:
    """Return the file of a module of this repository, or None for other modules."""
    if module.split(".")[0] not in _OWN:
        return None
    place = _ROOT.joinpath(*module.split("."))
    candidates = [place.with_suffix(".py"), place / "__init__.py"]
    loaded = getattr(sys.modules.get(module), "__file__", None)
    return next((path for path in [*candidates, *([Path(loaded)] if loaded else [])] if path.is_file()), None)


def _module(name: str) -> _Module:
    path = _file_of(name)
    assert path is not None
    return _parsed(path, path.stat().st_mtime_ns)


@functools.cache
def _parsed(path: Path, changed: int) -> _Module:
    """Return the definitions in a file, without docstrings, annotations and messages, and all of its imports."""
    own: dict[str, list[ast.stmt]] = {}
    imported: dict[str, Place] = {}
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        imported |= _origins(node)
        match node:
            case ast.arg() | ast.AnnAssign():
                node.annotation = ast.Constant(None)
            case ast.Raise(exc=ast.Call(args=[ast.Constant() | ast.JoinedStr()]) as raised):
                raised.args = []
            case ast.Call(func=ast.Name("warn") | ast.Attribute(attr="warn")):
                node.args = node.args[1:]
            case ast.Call(func=ast.Name("option" | "choice")):
                node.args[1:] = [one for one in node.args[1:] if not isinstance(one, ast.Constant | ast.JoinedStr)]
            case ast.FunctionDef():
                node.returns = None
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    for statement in tree.body:
        for name in _bound(statement):
            own.setdefault(name, []).append(statement)
        if isinstance(statement, ast.ClassDef):
            for method in [one for one in statement.body if isinstance(one, ast.FunctionDef)]:
                own.setdefault(f"{statement.name}.{method.name}", []).append(method)
                statement.body.remove(method)
    return _Module(own, imported)


def _origins(node: ast.AST) -> dict[str, Place]:
    """Return module and name for each name that an import binds; the name is empty for a module itself."""
    match node:
        case ast.Import(names=names):
            return {
                one.asname or one.name.split(".")[0]: (one.name if one.asname else one.name.split(".")[0], "")
                for one in names
            }
        case ast.ImportFrom(module=module, names=names):
            return {one.asname or one.name: (module or "", one.name) for one in names}
    return {}


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a module defines or assigns, or whose dispatch it extends."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        added = [ast.unparse(one).partition(".register") for one in statement.decorator_list]
        return {statement.name, *(name for name, register, _ in added if register)}
    nodes = ast.walk(statement)
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
