"""Checks of the values in the header of a file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from qsdp.exceptions import StorageError

__all__ = [
    "Checks",
    "are_texts",
    "checked",
    "is_activation",
    "is_count",
    "is_list",
    "is_number",
    "is_positive",
    "is_text",
]

Checks = Mapping[str, Callable[[Any], bool]]


def checked(what: str, state: Any, checks: Checks) -> dict[str, Any]:
    """Check that `state` is a mapping with exactly the fields of `checks` and valid values, else raise StorageError."""
    if type(state) is not dict or state.keys() != checks.keys():
        raise StorageError(f"{what} must have exactly the fields {', '.join(map(repr, sorted(checks)))}")
    for name, is_valid in checks.items():
        if not is_valid(state[name]):
            raise StorageError(f"{what}: {name} cannot be {state[name]!r:.60}")
    return dict(state)


def is_number(value: Any) -> bool:
    """Whether the value is a finite float."""
    return type(value) is float and math.isfinite(value)


def is_positive(value: Any) -> bool:
    """Whether the value is a finite float above zero."""
    return is_number(value) and value > 0.0


def is_text(value: Any) -> bool:
    """Whether the value is text that can be printed, without lone surrogates."""
    return type(value) is str and not re.search("[\ud800-\udfff]", value)


def are_texts(value: Any) -> bool:
    """Whether the value is a dict of texts to texts."""
    return type(value) is dict and all(map(is_text, [*value, *value.values()]))


def is_count(value: Any) -> bool:
    """Whether the value is a positive integer."""
    return type(value) is int and value > 0


def is_activation(value: Any) -> bool:
    """Whether the value is a stored activation: three numbers or None (names could change their meaning)."""
    return value is None or (is_list(value) and len(value) == 3 and all(map(is_number, value)) and any(value))


def is_list(value: Any) -> bool:
    """Whether the value is a list."""
    return type(value) is list
