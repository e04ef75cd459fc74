"""What a measurement depends on besides its case: the machine, its load, and the sources that were run."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from qsdp.bench._experiment import Experiment

__all__ = ["LOADED", "describe_machine", "sources_of"]

_PACKAGES = ("qsdp", "numpy", "scipy", "scikit-learn", "cvxpy", "scs", "clarabel", "torch")
#: Where the packages lie whose sources count.
_ROOT = Path(__file__).resolve().parents[2]
_OWN = ("qsdp", "benchmarks")
#: Methods that other packages call without naming a class that has them.
_CALLED = ("decision_function", "fit", "fit_transform", "partial_fit", "predict", "predict_proba", "transform")
#: Average number of other processes that run, above which seconds count as measured under load.
LOADED = 0.5

#: A module and a name in it, "Class.method" for a method, empty for the module itself.
Place = tuple[str, str]


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

    Those are the functions, classes and constants of this repository that its `run` reaches by name, so that records
    stay as they are where something else changes. A method counts if code that is reached mentions its name, or if
    another package may call it. Comments, docstrings, annotations, layout and the modules in which functions lie do not
    count, nor does what is reached by a computed name only.
    """
    reached: dict[Place, str] = {}
    mentioned = {*_CALLED}
    methods: dict[str, list[Place]] = {}
    waiting = [(experiment.run.__module__, experiment.run.__name__)]
    while waiting:
        place = waiting.pop()
        if place in reached:
            continue
        found = _definition(place)
        reached[place] = found.digest
        waiting += found.needed
        for method in found.methods:
            methods.setdefault(method.rpartition(".")[2], []).append((place[0], method))
        mentioned |= found.mentioned
        for name in [name for name in methods if name in mentioned or name.startswith("__")]:
            waiting += methods.pop(name)
    digest = hashlib.sha256()
    for name, code in sorted((name, code) for (_, name), code in reached.items()):
        digest.update(f"{name} {code}\n".encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class _Definition:
    """Code of a name: its hash, the names that it uses, the attributes that it mentions, and methods of a class."""

    digest: str
    needed: tuple[Place, ...]
    mentioned: frozenset[str]
    methods: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Module:
    """A module: the statements that bind a name, the methods of its classes among them, and where imports are from."""

    own: dict[str, list[ast.stmt]]
    imported: dict[str, Place]


def _definition(place: Place) -> _Definition:
    module, name = place
    path = _file_of(module)
    return _defined(module, name, path, path.stat().st_mtime_ns) if path else _Definition("", (), frozenset())


@functools.cache
def _defined(module: str, name: str, path: Path, changed: int) -> _Definition:
    own = _module(path).own
    if not name:
        return _Definition("", tuple((module, one) for one in own if "." not in one), frozenset())
    statements = own[name]
    uses = _Uses(module)
    for statement in statements:
        uses.visit(statement)
    methods = tuple(one for one in own if one.startswith(f"{name}."))
    digest = "".join(hashlib.sha256(ast.dump(statement).encode()).hexdigest() for statement in statements)
    return _Definition(digest, tuple(uses.needed), frozenset(uses.mentioned), methods)


class _Uses(ast.NodeVisitor):
    """Names that code uses, those that it imports itself included, and attributes and strings that it mentions."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.local: dict[str, Place] = {}
        self.needed: dict[Place, None] = {}
        self.mentioned: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:
        self.local |= _origins(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.local |= _origins(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._need(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.mentioned.add(node.attr)
        base = self._place(node.value) if node.attr == "__subclasses__" else None
        if base is not None:
            self.needed[base[0], ""] = None
        if not self._need(node):
            self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.isidentifier():
            self.mentioned.add(node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            self.mentioned |= self._called_by(base)
        self.generic_visit(node)

    def _need(self, node: ast.expr) -> bool:
        place = self._place(node)
        if place is not None:
            self.needed[place] = None
        return place is not None

    def _place(self, node: ast.expr) -> Place | None:
        """Return where a name, or an attribute of a module, is defined; None outside of this repository."""
        if isinstance(node, ast.Name):
            return _resolved(*self.local[node.id]) if node.id in self.local else _resolved(self.module, node.id)
        if isinstance(node, ast.Attribute):
            module, name = self._place(node.value) or ("", "of no module")
            return None if name else _resolved(module, node.attr)
        return None

    def _called_by(self, base: ast.expr) -> set[str]:
        """Return what a base class from another package has, which may be called there."""
        root, *names = ast.unparse(base).split(".")
        path = _file_of(self.module)
        assert path is not None
        module, name = _module(path).imported.get(root, ("", ""))
        if not module or _file_of(module) is not None:
            return set()
        found: Any = importlib.import_module(module)
        for one in [name, *names] if name else names:
            found = getattr(found, one)
        return set(dir(found))


def _resolved(module: str, name: str) -> Place | None:
    """Return where a name of a module is defined, a module being ``(module, "")``; None if not in this repository."""
    path = _file_of(module)
    if path is None or not name:
        return None if path is None else (module, "")
    known = _module(path)
    if name in known.own:
        return module, name
    # A package that imports its own module by its name imports that name from itself.
    if known.imported.get(name, (module, name)) != (module, name):
        return _resolved(*known.imported[name])
    if _file_of(f"{module}.{name}") is not None:
        return f"{module}.{name}", ""
    if "__getattr__" in known.own:
        # A package imports such names when they are asked for, from one of its modules or packages.
        for other in sorted(path.parent.glob("*.py")):
            if name in _module(other).own:
                return f"{module}.{other.stem}", name
        for other in sorted(path.parent.glob("*/__init__.py")):
            if name in _module(other).imported:
                return _resolved(f"{module}.{other.parent.name}", name)
    return None


def _file_of(module: str) -> Path | None:
    """Return the file of a module of this repository."""
    if module.split(".")[0] not in _OWN:
        return None
    place = _ROOT.joinpath(*module.split("."))
    candidates = [place.with_suffix(".py"), place / "__init__.py"]
    loaded = getattr(sys.modules.get(module), "__file__", None)
    return next((path for path in [*candidates, *([Path(loaded)] if loaded else [])] if path.is_file()), None)


def _module(path: Path) -> _Module:
    return _parsed(path, path.stat().st_mtime_ns)


@functools.cache
def _parsed(path: Path, changed: int) -> _Module:
    own: dict[str, list[ast.stmt]] = {}
    imported: dict[str, Place] = {}
    for statement in _code(path).body:
        for node in [statement, *getattr(statement, "body", [])] if isinstance(statement, ast.If) else [statement]:
            if isinstance(node, ast.Import | ast.ImportFrom):
                imported |= _origins(node)
        for name in _bound(statement):
            own.setdefault(name, []).append(statement)
        if isinstance(statement, ast.ClassDef):
            for method in [one for one in statement.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]:
                own.setdefault(f"{statement.name}.{method.name}", []).append(method)
                statement.body.remove(method)
    return _Module(own, imported)


def _origins(statement: ast.Import | ast.ImportFrom) -> dict[str, Place]:
    """Return module and name of what an import binds; a module has no name."""
    if isinstance(statement, ast.Import):
        modules = {alias.asname: alias.name for alias in statement.names if alias.asname}
        packages = [alias.name.split(".")[0] for alias in statement.names if not alias.asname]
        return {name: (origin, "") for name, origin in [*modules.items(), *zip(packages, packages, strict=True)]}
    module = statement.module or ""
    return {alias.asname or alias.name: (module, alias.name) for alias in statement.names}


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a module defines or assigns to, or to whose dispatch it adds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        added = [ast.unparse(one).partition(".register") for one in statement.decorator_list]
        return {statement.name, *(name for name, register, _ in added if register)}
    nodes = ast.walk(statement)
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _code(path: Path) -> ast.Module:
    """Return the code of a file without docstrings and annotations."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        match node:
            case (
                ast.Module(body=[ast.Expr(ast.Constant(str())), *rest])
                | ast.ClassDef(body=[ast.Expr(ast.Constant(str())), *rest])
                | ast.FunctionDef(body=[ast.Expr(ast.Constant(str())), *rest])
                | ast.AsyncFunctionDef(body=[ast.Expr(ast.Constant(str())), *rest])
            ):
                node.body = rest
    return tree
