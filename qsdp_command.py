"""The program `qsdp`: an interrupt during the import of the package, too, ends it without a traceback."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        from qsdp.cli import main as run

        run()
    except KeyboardInterrupt:
        # Once they are loaded, commands report interrupts themselves.
        raise SystemExit(130) from None
