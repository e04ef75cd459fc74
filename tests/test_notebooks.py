"""The notebooks as they are committed: pairs in sync, outputs whole and lean. The gate runs their sources."""

import ast
import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SOURCES = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py"))

LARGEST = 400_000

every = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


def cells_of(source):
    """Return the cells of the committed notebook of a source."""
    return json.loads(source.with_suffix(".ipynb").read_text("utf-8"))["cells"]


def code_cells(source):
    return [cell for cell in cells_of(source) if cell["cell_type"] == "code"]


def text_of(cell):
    return "".join(cell["source"])


def test_there_are_seven_at_most_and_no_strays():
    assert 1 <= len(SOURCES) <= 7
    assert sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")) == [path.stem for path in SOURCES]


@every
def test_source_and_notebook_are_in_sync(source):
    jupytext = pytest.importorskip("jupytext")
    written = jupytext.read(source).cells
    kept = cells_of(source)
    assert [(cell.cell_type, cell.source) for cell in written] == [(cell["cell_type"], text_of(cell)) for cell in kept]
    tags = [cell.metadata.get("tags", []) for cell in written]
    assert tags == [cell["metadata"].get("tags", []) for cell in kept]


@every
def test_it_opens_with_a_picture(source):
    kinds = [cell["cell_type"] for cell in cells_of(source)]
    assert kinds[:2] == ["markdown", "code"]
    assert any("image/png" in output.get("data", {}) for output in code_cells(source)[0]["outputs"])


@every
def test_every_cell_was_executed_once_and_in_order_without_errors(source):
    cells = code_cells(source)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert "error" not in kinds
    assert not [output for cell in cells for output in cell["outputs"] if output.get("name") == "stderr"]


@every
def test_outputs_are_lean_and_of_no_machine(source):
    path = source.with_suffix(".ipynb")
    assert path.stat().st_size < LARGEST
    assert set(json.loads(path.read_text("utf-8"))["metadata"]) == {"jupytext", "kernelspec", "language_info"}
    texts = [text for cell in code_cells(source) for output in cell["outputs"] for text in output.get("text", [])]
    assert not [text for text in texts if re.search(r"/(home|root|tmp|work|Users)/", text)]


@every
def test_sliders_leave_no_output_and_have_a_picture_before_them(source):
    cells = code_cells(source)
    sliders = [number for number, cell in enumerate(cells) if re.search(r"\binteract\(", text_of(cell))]
    assert sliders
    for number in sliders:
        assert cells[number]["outputs"] == []
        assert any("image/png" in output.get("data", {}) for output in cells[number - 1]["outputs"])


@every
def test_sliders_still_work_after_the_last_cell(source):
    """The last cell assigns no name that a function of the notebook reads: it would change what sliders draw."""
    tree, last = ast.parse(source.read_text("utf-8")), ast.parse(text_of(cells_of(source)[-1]))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    read = {
        name.id
        for function in functions
        for name in ast.walk(function)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)
    }
    local = {
        name
        for function in functions
        for node in ast.walk(function)
        for name in ([node.arg] if isinstance(node, ast.arg) else [node.id] if _stores(node) else [])
    }
    assigned = {node.id for node in ast.walk(last) if _stores(node)}
    assert functions
    assert assigned & (read - local) == set()


def _stores(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


@every
def test_the_first_cell_has_a_title_of_its_own_and_says_what_is_needed(source):
    """Links to the previous and next page name titles: two pages of one title could not be told apart."""
    first = text_of(cells_of(source)[0])
    guide = [*(NOTEBOOKS.parent / "docs").glob("*.md"), *(NOTEBOOKS.parent / "docs" / "guide").glob("*.md")]
    titles = [path.read_text("utf-8").partition("\n")[0] for path in guide]
    titles += [text_of(cells_of(other)[0]).partition("\n")[0] for other in SOURCES if other != source]
    assert first.partition("\n")[0] not in titles
    assert '*Needs:* `pip install -e ".[notebooks]"`' in first


@every
def test_only_public_names_and_data_without_a_download(source):
    tree = ast.parse(source.read_text("utf-8"))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in modules if name.startswith("qsdp._") or "._" in name]
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not called & {"load_mnist", "load_fashion_mnist"}
    assert "load_bundled" in called
