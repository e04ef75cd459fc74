"""The command line as tests run it, inside their process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner, Result

from qsdp import cli


def run(*arguments: Any, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], prog_name="qsdp", env=env)
