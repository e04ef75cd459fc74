"""Printing of labelled lines, and of figures with notes, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table as RichTable
from rich.text import Text

from qsdp.cli._streams import print_out
from qsdp.pipeline import QSDPResult
from qsdp.report.figures import Figure

#: Widths of the columns before the notes of a report.
_LABEL_WIDTH, _FIGURE_WIDTH = 12, 13


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print aligned lines of a label and a text."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(width=_LABEL_WIDTH, style="bold")
    grid.add_column()
    for label, text in facts:
        grid.add_row(label, Text(text))
    print_out(grid)


def print_figures(figures: Sequence[Figure]) -> None:
    """Print an empty line, then aligned lines of a label, a figure and a note."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(width=_LABEL_WIDTH, style="bold")
    grid.add_column(min_width=_FIGURE_WIDTH, no_wrap=True)
    grid.add_column(style="dim")
    grid.add_row("")
    for row in figures:
        grid.add_row(*row)
    print_out(grid)


def time_figure(result: QSDPResult) -> Figure:
    # Stages that would read 0.00 are left out.
    stages = [f"{stage} {seconds:.2f}" for stage, seconds in result.timings.items() if seconds >= 0.005]
    return "time", f"{sum(result.timings.values()):.2f} s", ", ".join(stages)
