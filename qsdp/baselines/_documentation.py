"""What a class shares with its bases, documented once: in the base that has it."""

from __future__ import annotations

import inspect
import re

__all__ = ["inherit_entries"]

_TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def inherit_entries(cls: type) -> None:
    """Add to a class's docstring the parameters and attributes that it inherits, as its bases in this package say them.

    What the class itself describes stays as it is.
    """
    intro, sections = _sections(cls)
    shared = {}
    for title in ("Parameters", "Attributes"):
        entries = _entries(sections.pop(title, ""))
        for base in cls.__mro__[1:]:
            inherited = _entries(_sections(base)[1].get(title, "")) if base.__module__.startswith("qsdp.") else {}
            known = {name for names in entries for name in names}
            entries |= {names: text for names, text in inherited.items() if known.isdisjoint(names)}
        if entries:
            shared[title] = "\n".join(entries.values()) + "\n\n"
    body = "".join(f"{title}\n{'-' * len(title)}\n{text}" for title, text in (shared | sections).items())
    cls.__doc__ = (intro + body).rstrip() + "\n"


def _sections(cls: type) -> tuple[str, dict[str, str]]:
    """Return what a class's own docstring says first, and its sections by title."""
    intro, *rest = _TITLE.split(inspect.cleandoc(vars(cls).get("__doc__") or ""))
    return intro, dict(zip(rest[::2], rest[1::2], strict=True))


def _entries(section: str) -> dict[tuple[str, ...], str]:
    """Return the entries of a section by the names that each describes."""
    starts = re.split(r"^(?=\S)", section.strip(), flags=re.MULTILINE)
    return {tuple(start.partition("\n")[0].partition(" :")[0].split(", ")): start.rstrip() for start in starts if start}
