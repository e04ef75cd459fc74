"""One name for one thing: a class is known by its name alone, in errors, summaries and searches."""

import re
from collections import defaultdict
from pathlib import Path

import qsdp

PACKAGE = Path(qsdp.__file__).parent


def test_no_two_classes_have_one_name():
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in re.findall(r"^ *class (\w+)[(:]", path.read_text(encoding="utf-8"), re.MULTILINE):
            places[name].append(f"{path.relative_to(PACKAGE)}")
    assert "QSDPResult" in places
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
