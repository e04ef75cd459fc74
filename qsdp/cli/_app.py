"""The program `qsdp` with its global options and commands."""

from __future__ import annotations

from typing import Annotated

import typer

import qsdp
from qsdp.cli._bench import bench
from qsdp.cli._certify import certify
from qsdp.cli._datasets import datasets
from qsdp.cli._demo import demo
from qsdp.cli._export import export
from qsdp.cli._fit import fit
from qsdp.cli._predict import predict
from qsdp.cli._report import report
from qsdp.cli._resample import resample
from qsdp.cli._streams import Group


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"qsdp {qsdp.__version__}")
        raise typer.Exit


def _main(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="QSDP_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Quantized-weight neural networks with a certified gap to the global optimum.

    Start with `qsdp demo`; `qsdp COMMAND --help` explains the others.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app = typer.Typer(
    name="qsdp",
    cls=Group,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.callback()(_main)
for command in (demo, fit, predict, resample, certify, report, export, datasets, bench):
    app.command()(command)
