"""The command-line program `qsdp`: demo, fit, predict, certify, report, export, datasets."""

import sys
from typing import Any

__all__ = ["app", "main"]


def main() -> None:
    """Run the program; the version is printed without importing the commands, which takes seconds."""
    if sys.argv[1:] == ["--version"]:
        from qsdp import __version__

        print(f"qsdp {__version__}")
        return
    from qsdp.cli._app import app

    app(prog_name="qsdp")


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from qsdp.cli import _app

    return _app.app
