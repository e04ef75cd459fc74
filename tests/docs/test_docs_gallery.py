"""What is true of every script of the gallery; the build of the documentation runs them and fails if one fails."""

import ast
import re
from pathlib import Path

import pytest

from qsdp import plotting

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*/*.py"))


def test_the_documentation_runs_every_section():
    configuration = (ROOT / "docs" / "conf.py").read_text("utf-8")
    assert len(SCRIPTS) >= 15
    for section in {script.parent for script in SCRIPTS}:
        assert f'"{section.name}"' in configuration
        assert (section / "GALLERY_HEADER.rst").is_file()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_is_short_and_says_what_to_see(script):
    text = script.read_text("utf-8")
    lines, tree = text.splitlines(), ast.parse(text)
    code = [line for node in tree.body[1:] for line in lines[node.lineno - 1 : node.end_lineno] if line.strip()]
    prose = " ".join([ast.get_docstring(tree), *re.findall(r"^# (?!%%)(.*)$", text, re.MULTILINE)])
    assert len(code) <= 44
    assert max(map(len, code)) <= 72
    assert max(map(len, lines)) <= 80
    assert len(re.findall(r"[.:](?=\s|$)", prose)) >= 3


def test_every_display_has_a_picture_on_its_page():
    for name in plotting.__all__:
        assert ".. plot::" in getattr(plotting, name).__doc__, name
