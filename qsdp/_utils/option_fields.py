"""Declarative options: default, check and description of each, for use in many signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from qsdp._utils.validation import check_choice

__all__ = ["Option", "Options", "StoredArguments", "choice", "documented", "option"]

T = TypeVar("T")
Chosen = TypeVar("Chosen", bound="Options")
Check = Callable[[str, Any], object]


@dataclass(frozen=True)
class Option:
    """Declaration of an option: documentation and check, without name and default.

    Attributes
    ----------
    annotation : str
        Type in numpydoc notation.
    description : str
        Lines of a docstring.
    check : callable
        Called with the name and the value of the argument. It raises one clear error, or returns the value to use
        instead, such as an int for an integral float; None leaves the value unchanged.
    summary : str
        The description in a few words, for the command line.
    """

    annotation: str
    description: str
    check: Check
    summary: str


def option(
    default: T,
    annotation: str,
    description: str,
    check: Check = lambda name, value: None,
    summary: str = "",
) -> T:
    """Declare an option, as a field of a subclass of `Options`."""
    declared: T = field(default=default, metadata={"option": Option(annotation, description, check, summary)})
    return declared


def choice(default: str, allowed: Iterable[str], description: str, summary: str = "") -> str:
    """Declare an option with a set of allowed names, which are appended to the summary."""
    names = list(allowed)
    listing = "{" + ", ".join(f'"{name}"' for name in names) + "}"

    def check(name: str, value: Any) -> None:
        check_choice(name, value, names)

    return option(default, listing, description, check, f"{summary}{' | '.join(names)}.")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base class of options that are declared by `option` and checked when an object is created."""

    def __post_init__(self) -> None:
        for name, declared in self.declared().items():
            checked = declared.check(name, getattr(self, name))
            if checked is not None:
                object.__setattr__(self, name, checked)

    @classmethod
    def declared(cls) -> dict[str, Option]:
        """Return the declaration of every option, by name."""
        return {each.name: each.metadata["option"] for each in fields(cls)}

    @classmethod
    def from_values(cls: type[Chosen], values: Mapping[str, Any]) -> Chosen:
        """Create options from a mapping such as ``locals()``; entries that are not options are ignored."""
        return cls(**{name: values[name] for name in cls.declared() if name in values})


class StoredArguments:
    """Mixin for estimators and transformers whose constructors only store their arguments."""

    def _keep(self, arguments: dict[str, Any]) -> None:
        """Store the constructor's arguments (its ``locals()``) unchanged, as scikit-learn requires."""
        self.__dict__.update({name: value for name, value in arguments.items() if name != "self"})


def documented(options: type[Options]) -> Callable[[T], T]:
    """Create a decorator that completes a docstring with the parameters documented in the class `options`.

    An entry of one or several parameters may hold only the line "See `TrainingOptions`.", or the name of another class.
    It becomes one entry per parameter: its type, its default in the documented signature, and its description. The
    source stays readable on its own, and ``help()``, Sphinx and notebooks show everything.
    """
    entry = re.compile(rf"^(\w+(?:,\s+\w+)*)\n +See `{options.__name__}`\.$", re.MULTILINE)

    def fill(face: T) -> T:
        parameters = inspect.signature(face).parameters  # type: ignore[arg-type]

        def paragraphs(match: re.Match[str]) -> str:
            return "\n".join(_paragraph(options, name, parameters[name]) for name in re.split(r",\s+", match[1]))

        if face.__doc__:  # none under `python -OO`
            face.__doc__ = entry.sub(paragraphs, inspect.cleandoc(face.__doc__))
        return face

    return fill


def _paragraph(options: type[Options], name: str, parameter: inspect.Parameter) -> str:
    declared, default = options.declared()[name], parameter.default
    header = f"{name} : {declared.annotation}"
    if default is not inspect.Parameter.empty:
        header += f', default="{default}"' if isinstance(default, str) else f", default={default!r}"
    return "\n    ".join([header, *inspect.cleandoc(declared.description).split("\n")])
