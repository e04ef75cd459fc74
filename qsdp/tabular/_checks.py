"""Checks of the values in the header of a stored model."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from qsdp.exceptions import StorageError
from qsdp.losses import LOSSES
from qsdp.problem import REGULARIZATIONS
from qsdp.sampling import ALLOCATIONS
from qsdp.shaping import SHAPINGS
from qsdp.tabular._reading import label_key, listing

#: Largest number of distinct entries in a column of text.
MAX_VALUES = 50

#: Largest number of classes of a target.
MAX_CLASSES = 100


def _is_number(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0.0


def _is_magnitude(value: Any) -> bool:
    return _is_number(value) and value >= 0.0


def _is_text(value: Any) -> bool:
    # Lone surrogates cannot be printed.
    return type(value) is str and not re.search("[\ud800-\udfff]", value)


def _is_one_of(names: Collection[str]) -> Callable[[Any], bool]:
    return lambda value: type(value) is str and value in names


def _are_values(value: Any, most: int = MAX_VALUES) -> bool:
    if type(value) is not list or not 2 <= len(value) <= most:
        return False
    texts = value if value[-1] is not None else value[:-1]
    return all(_is_text(text) for text in texts) and len(set(texts)) == len(texts)


def _are_classes(value: Any) -> bool:
    if value is None:
        return True
    # A missing target is no class, and "1" and "1.0" are one class.
    return _are_values(value, MAX_CLASSES) and None not in value and len(set(map(label_key, value))) == len(value)


def _is_activation(value: Any) -> bool:
    return value is None or (type(value) is list and len(value) == 3 and all(map(_is_number, value)) and any(value))


Checks = Mapping[str, Callable[[Any], bool]]

ENCODER_CHECKS: Checks = {
    "columns": lambda value: type(value) is list and len(value) > 0,
    "dropped": lambda value: type(value) is dict and all(map(_is_text, [*value, *value.values()])),
}
COLUMN_CHECKS: Mapping[str, Checks] = {
    "numeric": {"kind": _is_text, "name": _is_text, "median": _is_number, "mean": _is_number, "scale": _is_positive},
    "categorical": {"kind": _is_text, "name": _is_text, "values": _are_values},
}
TARGET_CHECKS: Checks = {
    "name": _is_text,
    "classes": _are_classes,
    "offset": lambda value: type(value) is list and all(map(_is_number, value)),
    "scale": _is_positive,
}
HOLDOUT_CHECKS: Checks = {
    "seed": lambda value: type(value) is int and value >= 0,
    "test_size": lambda value: _is_magnitude(value) and value < 1.0,
}
WEIGHTING_CHECKS: Checks = {
    "column": lambda value: value is None or _is_text(value),
    "class_weight": lambda value: value in (None, "balanced"),
}
SOLUTION_CHECKS: Checks = {
    "levels": lambda value: type(value) is int and 2 <= value <= 128,
    "activation": _is_activation,
    "lower_bound": _is_magnitude,
    "improved_bound": lambda value: value is None or _is_magnitude(value),
    "regularization": _is_one_of(REGULARIZATIONS),
    "shaping": _is_one_of(SHAPINGS),
}
MODEL_CHECKS: Checks = {
    **dict.fromkeys(
        ("encoder", "target", "weighting", "holdout", "relaxation", "network"), lambda value: type(value) is dict
    ),
    "loss": _is_one_of(LOSSES),
    "beta": _is_magnitude,
    "allocation": _is_one_of(ALLOCATIONS),
    "lower_bound": _is_magnitude,
    "objective": lambda value: value is None or _is_magnitude(value),
    "digest": lambda value: _is_text(value) and re.fullmatch("[0-9a-f]{64}", value) is not None,
}


def checked(what: str, state: Any, checks: Checks) -> dict[str, Any]:
    """Return a mapping that has exactly the fields of `checks` with valid values, or raise StorageError."""
    if type(state) is not dict or state.keys() != checks.keys():
        raise StorageError(f"{what} must have exactly the fields {listing(sorted(checks))}")
    for name, is_valid in checks.items():
        if not is_valid(state[name]):
            raise StorageError(f"{what}: {name} cannot be {state[name]!r:.60}")
    return dict(state)
