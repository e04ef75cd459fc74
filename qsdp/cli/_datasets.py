"""`qsdp datasets`: list of the data sets."""

from __future__ import annotations

from rich import box
from rich.table import Table as RichTable

from qsdp.cli._streams import make_console, print_out, say
from qsdp.datasets import list_datasets


def datasets() -> None:
    """List the data sets that `qsdp demo` and `qsdp.datasets` know."""
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
