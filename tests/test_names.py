"""One name for one thing: a class is known by its name alone, in errors, summaries and searches."""

import ast
from collections import defaultdict
from pathlib import Path

import qsdp

PACKAGE = Path(qsdp.__file__).parent


def test_no_two_classes_have_one_name():
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert "QSDPResult" in places
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
