"""Checks of the values in the header of a stored model."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from qsdp._utils.stored import Checks, are_texts, is_list, is_number, is_positive, is_text
from qsdp.encoding.notation import NOTATIONS
from qsdp.losses import LOSSES
from qsdp.sampling import ALLOCATIONS
from qsdp.tabular._reading import label_key

#: Largest number of distinct entries in a column of text.
MAX_VALUES = 50

#: Largest number of classes of a target.
MAX_CLASSES = 100


def _is_magnitude(value: Any) -> bool:
    return is_number(value) and value >= 0.0


def _is_one_of(names: Collection[str]) -> Callable[[Any], bool]:
    return lambda value: type(value) is str and value in names


def _are_values(value: Any, most: int = MAX_VALUES) -> bool:
    if type(value) is not list or not 2 <= len(value) <= most:
        return False
    texts = value if value[-1] is not None else value[:-1]
    return all(is_text(text) for text in texts) and len(set(texts)) == len(texts)


def _are_classes(value: Any) -> bool:
    if value is None:
        return True
    # A missing target is not a class, and "1" and "1.0" are one class.
    return _are_values(value, MAX_CLASSES) and None not in value and len(set(map(label_key, value))) == len(value)


ENCODER_CHECKS: Checks = {
    "columns": lambda value: is_list(value) and len(value) > 0,
    "expressions": lambda value: is_list(value) and len(value) > 0,
    "dropped": are_texts,
}
TARGET_CHECKS: Checks = {
    "name": is_text,
    "classes": _are_classes,
    "offset": lambda value: is_list(value) and all(map(is_number, value)),
    "scale": is_positive,
    "notation": lambda value: value is None or (is_text(value) and value in NOTATIONS),
}
HOLDOUT_CHECKS: Checks = {
    "seed": lambda value: type(value) is int and value >= 0,
    "test_size": lambda value: _is_magnitude(value) and value < 1.0,
}
WEIGHTING_CHECKS: Checks = {
    "column": lambda value: value is None or is_text(value),
    "class_weight": lambda value: value in (None, "balanced"),
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
    "digest": lambda value: is_text(value) and re.fullmatch("[0-9a-f]{64}", value) is not None,
    "provenance": are_texts,
    "markers": lambda value: is_list(value) and all(map(is_text, value)),
}
