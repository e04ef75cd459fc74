"""`qsdp datasets`: list of the bundled data sets, or one of them as CSV."""

from __future__ import annotations

import csv
import sys
from typing import Annotated

import typer
from rich import box
from rich.table import Table as RichTable

from qsdp.cli._streams import make_console, print_out
from qsdp.datasets import load_bundled
from qsdp.datasets._bundled import SPECS
from qsdp.datasets._dataset import Dataset


def datasets(
    name: Annotated[
        str | None, typer.Argument(help="Data set to write; without a name, all are listed.", show_default=False)
    ] = None,
) -> None:
    """List the data sets that `qsdp.datasets.load_bundled` loads, or write one as CSV with a column target."""
    if name is not None:
        _write_csv(load_bundled(name))
        return
    table = RichTable(box=box.SIMPLE_HEAD if make_console().is_terminal else None, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    for heading in ("rows", "columns"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("task", no_wrap=True)
    table.add_column("about")
    for set_name, spec in SPECS.items():
        table.add_row(set_name, str(spec.n_samples), str(spec.n_features), spec.task, spec.title)
    print_out(table)


def _write_csv(data: Dataset) -> None:
    """Write samples and targets to standard output; classes are written by name."""
    if data.task == "regression":
        targets = data.y.tolist()
    else:
        codes = data.y > 0 if data.task == "binary" else data.y
        targets = [data.target_names[int(code)] for code in codes]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*data.feature_names, "target"])
    writer.writerows([*row, target] for row, target in zip(data.X.tolist(), targets, strict=True))
