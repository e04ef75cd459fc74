"""The program `qsdp` with its global options and commands."""

from __future__ import annotations

from typing import Annotated

import typer

import qsdp
from qsdp.cli._streams import SETTINGS, Group


def _main(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="QSDP_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Quantized-weight neural networks with a certified gap to the global optimum.

    Start with `qsdp demo`; `qsdp COMMAND --help` explains the others.
    """
    if version:
        typer.echo(f"qsdp {qsdp.__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app = typer.Typer(name="qsdp", cls=Group, invoke_without_command=True, **SETTINGS)

app.callback()(_main)
