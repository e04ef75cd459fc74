"""Output to the terminal, errors as one line with an exit code, and checks of output paths."""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from qsdp._utils.atomic_files import is_device
from qsdp._utils.progress import ProgressBar, progress
from qsdp.exceptions import InvalidInputError, QSDPError, QSDPWarning

#: Settings of the program and its commands.
SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "markdown",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

#: Name of standard output as an output file, which only commands without a summary accept.
STANDARD_OUTPUT = Path("-")

#: Maximum characters of the line for an internal failure, about two lines of a terminal; data may be in its message.
_LONGEST = 190

#: Warnings that the running command has printed; files that are read twice have the same ones.
_PRINTED: ContextVar[set[str]] = ContextVar("_PRINTED")

#: Commands in the order of the help; each is a function in a module of its name.
COMMANDS = ("demo", "fit", "predict", "certify", "export", "report", "datasets")


class _PlainFlags:
    """Show flags, such as --help, without the type of a value, which they do not take; for subclasses of a command."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_PlainFlags, TyperCommand):
    """Command of the program."""


class Group(_PlainFlags, TyperGroup):
    """Command group that reports an error as one line and an exit code.

    A command is imported when it runs, so that errors of usage come at once.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by name; for an unknown name, raise an error that suggests the most similar one."""
        if cmd_name not in COMMANDS:
            close = get_close_matches(cmd_name, COMMANDS, n=1)
            ctx.fail(f"No such command {cmd_name!r}." + (f" Did you mean {close[0]!r}?" if close else ""))
        command = typer.Typer(**SETTINGS)
        command.command(cmd_name, cls=Command)(getattr(import_module(f"qsdp.cli._{cmd_name}_command"), cmd_name))
        return get_command(command)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _short_failures(debug=False):
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        _PRINTED.set(set())
        with _short_failures(debug=bool(ctx.params.get("debug"))):
            # A file that the command opens could get the number of standard output, and its lines.
            if sys.stdout is None:
                raise InvalidInputError("standard output is closed; redirect it to a file or to /dev/null")
            return super().invoke(ctx)


@contextmanager
def _short_failures(*, debug: bool) -> Iterator[None]:
    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        say("Interrupted", "red")
        raise typer.Exit(130) from None
    except Exception as error:
        if debug:
            traceback.print_exc()
        if _is_interrupt(error):
            say("Interrupted", "red")
            raise typer.Exit(130) from None
        message, code = _explain(error)
        say(f"Error: {message}", "red")
        raise typer.Exit(code) from None


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C led to an error: compiled code, as of NumPy, replaces what is raised inside it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def _explain(error: Exception) -> tuple[str, int]:
    """Convert an exception to a one-line message and an exit code, which is 2 for errors that the user can correct."""
    # Usage errors come from click. New versions of typer carry a copy of it, so that no class can be named.
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        hint = f" (see: {context.command_path} --help)" if context else ""
        return f"{error.format_message()}{hint}", 2
    if isinstance(error, QSDPError):
        return str(error), 2
    if isinstance(error, OSError):
        named = error.strerror and error.filename is not None
        # A URL such as https://host, which Path shortens to https:/host; two letters exclude drives of Windows.
        remote = named and re.match(r"\w\w+:/", str(error.filename)) and isinstance(error, FileNotFoundError)
        hint = "; download remote files first" if remote else ""
        if named and os.fspath(error.filename) == "-":
            hint = "; standard input is /dev/stdin on Linux and macOS"
        return (f"{os.fspath(error.filename)!r}: {error.strerror}{hint}" if named else str(error)), 2
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}", 2
    return _internal(error), 1


def _internal(error: Exception) -> str:
    """Describe a bug in at most `_LONGEST` characters: the step that failed, the error, and what to do next."""
    steps = [
        f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}"
        for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    # The error may have been raised in another package, which the user did not call.
    step = next((name for name in reversed(steps) if name.startswith("qsdp.")), "qsdp")
    what = f"internal failure in {step[-_LONGEST // 3 :]}: {type(error).__name__[: _LONGEST // 4]}"
    hint = "; please report what `qsdp --debug COMMAND` prints"
    text = " ".join(str(error).split())
    room = _LONGEST - len(what) - len(hint) - len(": ...")
    shortened = f": {text[:room]}{'...' * (len(text) > room)}" if text else ""
    return f"{what}{shortened}{hint}"


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Record keyboard interrupts in a list, and raise them as usual.

    Long functions catch them and return their best result so far; the list distinguishes it from a finished one.
    """
    received: list[int] = []

    def receive(number: int, _frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, receive)
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, before)


def make_console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        # Lines for other programs must not be wrapped.
        console.width = 10_000
    return console


def say(message: str, style: str = "") -> None:
    """Print a message on stderr as one line; unprintable characters become question marks."""
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(message.split()))
    make_console(stderr=True).print(Text(line, style=style), soft_wrap=True)


@contextmanager
def stage(name: str) -> Iterator[ProgressBar]:
    """Show the progress of a stage on stderr while it runs; afterwards print its new warnings, one per line.

    Verbose calls inside it add their own lines below. The caller may report progress to the bar.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with progress(True, transient=True) as stages, stages.stage(name) as bar:
                yield bar
        finally:
            texts = [str(warning.message) for warning in caught if issubclass(warning.category, QSDPWarning)]
            for text in texts:
                if text not in (printed := _PRINTED.get(set())):
                    printed.add(text)
                    say(f"Warning: {text}", "yellow")


def print_out(renderable: Any) -> None:
    """Print on stdout, without trailing blanks unless stdout is a terminal."""
    console = make_console()
    if console.is_terminal:
        console.print(renderable)
        return
    with console.capture() as capture:
        console.print(renderable)
    for line in capture.get().splitlines():
        typer.echo(line.rstrip())


def destination(path: Path, *, force: bool, inputs: Sequence[Path] = ()) -> Path:
    """Check that a file can be written, before any work, and return its path."""
    shown = repr(str(path))
    if path == STANDARD_OUTPUT:
        raise InvalidInputError(
            "--output must be the name of a file, because this command prints its summary to standard output; got '-'"
        )
    if path.is_dir():
        raise InvalidInputError(f"{shown} is a folder; give the name of a file with --output")
    if is_device(path):
        return path
    if not path.parent.is_dir():
        raise InvalidInputError(f"cannot write {shown}: the folder {str(path.parent)!r} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInputError(f"cannot write {shown}: no permission in the folder {str(path.parent)!r}")
    if path.exists():
        if any(source.exists() and path.samefile(source) for source in inputs):
            raise InvalidInputError(f"{shown} is the input; give another name with --output")
        if not force:
            raise InvalidInputError(f"{shown} exists; overwrite it with --force or give another --output")
    return path
