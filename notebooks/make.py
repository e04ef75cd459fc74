"""Execute the notebooks and write their .ipynb with lean outputs.

    python notebooks/make.py              # all of them
    python notebooks/make.py 03           # those whose names begin so

Sources are the .py files (jupytext, percent format). Sliders need a running kernel, so the output of their cells is
left out; the picture of the cell before says the same for one position.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent

WIDGET = "application/vnd.jupyter.widget-view+json"


def execute(source: Path) -> nbformat.NotebookNode:
    """Return the executed notebook of a source, without what differs from run to run."""
    notebook = jupytext.read(source)
    notebook.metadata = {
        "jupytext": {"formats": "ipynb,py:percent"},
        "kernelspec": {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }
    NotebookClient(
        notebook, timeout=240, kernel_name="python3"
    ).execute()
    notebook.metadata.pop("widgets", None)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:02d}"
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [
                output
                for output in cell.outputs
                if not _is_progress(output)
            ]
        if cell.cell_type == "code" and any(
            WIDGET in output.get("data", {}) for output in cell.outputs
        ):
            cell.outputs = []
    return notebook


def _is_progress(output: nbformat.NotebookNode) -> bool:
    """Return whether an output is what qsdp reports of stages that take two seconds or more."""
    lines = output.get("text", "").splitlines()
    return output.get("name") == "stderr" and all(
        re.match(r"\d+ s, ", line) for line in lines
    )


def main(names: list[str]) -> None:
    """Execute the sources whose names begin with one of `names`, or all."""
    # Threads that wait for busy cores count as CPU seconds, which 06 compares.
    os.environ["OMP_NUM_THREADS"] = "1"
    for source in sorted(HERE.glob("[0-9][0-9]_*.py")):
        if names and not source.name.startswith(tuple(names)):
            continue
        start = time.perf_counter()
        notebook = execute(source)
        target = source.with_suffix(".ipynb")
        nbformat.write(notebook, target)
        print(
            f"{target.name}: {time.perf_counter() - start:.1f} s, {target.stat().st_size / 1000:.0f} kB"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
