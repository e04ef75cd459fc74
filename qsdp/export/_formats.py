"""Formats of the command line, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qsdp.export._c import to_c

__all__ = ["FORMATS", "ExportFormat", "ExportedFiles"]


@dataclass(frozen=True)
class ExportedFiles:
    """A model in a format.

    Attributes
    ----------
    contents : mapping of str to bytes
        Of the files, by their suffixes.
    facts : sequence of (str, str)
        Labels and texts for people.
    """

    contents: Mapping[str, bytes]
    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class ExportFormat:
    """A format of `qsdp export`.

    Attributes
    ----------
    suffixes : tuple of str
        Of the files; the first is that of the name that is asked for.
    export : callable
        From a model, as `describe` takes it, and the name of its files without suffix to an `ExportedFiles`.
    """

    suffixes: tuple[str, ...]
    export: Callable[[Any, str], ExportedFiles]


def _as_c(model: Any, name: str) -> ExportedFiles:
    code = to_c(model, name=name)
    files = code.files()
    return ExportedFiles({suffix: files[f"{name}{suffix}"] for suffix in (".c", ".h")}, code.facts())


FORMATS: dict[str, ExportFormat] = {
    "c": ExportFormat((".c", ".h"), _as_c),
}
