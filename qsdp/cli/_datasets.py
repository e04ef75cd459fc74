"""`qsdp datasets`: list of the data sets, or one of them as CSV."""

from __future__ import annotations

import csv
import sys
from typing import Annotated

import typer
from rich import box
from rich.table import Table as RichTable

from qsdp.cli._streams import make_console, print_out, say
from qsdp.datasets import Dataset, list_datasets, load_dataset


def datasets(
    name: Annotated[
        str | None, typer.Argument(help="Data set to write; without a name, all are listed.", show_default=False)
    ] = None,
) -> None:
    """List the data sets that `qsdp demo` and `qsdp.datasets` know, or write one as CSV with a column target."""
    if name is not None:
        _write_csv(load_dataset(name))
        return
    on_terminal = make_console().is_terminal
    table = RichTable(box=box.SIMPLE_HEAD if on_terminal else None, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    for heading in ("rows", "columns"):
        table.add_column(heading, justify="right")
    for heading in ("task", "source", "offline"):
        table.add_column(heading, no_wrap=True)
    for info in list_datasets():
        offline = "yes" if info.available() else "no"
        table.add_row(info.name, str(info.n_samples), str(info.n_features), info.task, info.source, offline)
    print_out(table)
    if on_terminal:
        say("Sets that are not offline are downloaded on first use, or read from $QSDP_DATA.", "dim")


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
