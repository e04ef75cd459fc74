"""One name for one thing: a class is known by its name alone, in errors, summaries and searches."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import qsdp

PACKAGE = Path(qsdp.__file__).parent
FILES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}

#: Parts of identifiers that say nothing about a value, and identifiers of the field that contain them.
VAGUE = {"own", "kept", "found", "one", "share", "given", "place", "most", "least", "told"}
TERMS = {"one_hot"}

#: A term of the field that the standard library happens to use, too.
SHADOWING = {"statistics"}


def test_no_two_classes_have_one_name():
    files = defaultdict(list)
    for path, tree in FILES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(f"{path.relative_to(PACKAGE)}")
    assert "QSDPResult" in files
    assert {name: where for name, where in files.items() if len(where) > 1} == {}


def test_no_two_modules_have_one_name():
    files = defaultdict(list)
    for path in FILES:
        name = path.parent.name if path.name == "__init__.py" else path.stem
        files[name.strip("_")].append(f"{path.relative_to(PACKAGE)}")
    assert {"problem", "refinement", "declarations"} <= files.keys()
    assert {name: where for name, where in files.items() if len(where) > 1} == {}
    assert files.keys() & sys.stdlib_module_names == SHADOWING


def introduced(tree: ast.AST) -> Iterator[str]:
    """Yield the identifiers that a module introduces."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def is_vague(identifier: str) -> bool:
    return identifier.strip("_") not in TERMS and not VAGUE.isdisjoint(re.split("_+", identifier.lower()))


def test_vague_names_are_recognised():
    module = ast.parse("def kept(given_rows, *, one_hot): self.most = zones, (_one := 1)")
    assert {name for name in introduced(module) if is_vague(name)} == {"kept", "given_rows", "most", "_one"}


def test_no_identifier_is_vague_and_no_factory_is_of():
    names = {f"{path.relative_to(PACKAGE)}: {name}" for path, tree in FILES.items() for name in introduced(tree)}
    assert {name for name in names if is_vague(name.split()[-1]) or name.endswith(" of")} == set()
