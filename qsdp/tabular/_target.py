"""What the output of the network stands for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from qsdp._validation import FloatArray
from qsdp.exceptions import InvalidInputError
from qsdp.tabular._reading import MAX_LISTED, Table, label_key


@dataclass(frozen=True)
class Target:
    """What the output of the network stands for: a class, by its sign, or a standardised number.

    Attributes
    ----------
    name : str
        Column.
    classes : tuple of two str or None
        Labels of -1 and +1; None for regression.
    mean, scale : float
        Of the target's training rows for regression, 0 and 1 for classes.
    """

    name: str
    classes: tuple[str, str] | None
    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def fit(cls, table: Table, name: str, task: str, rows: Iterable[int]) -> Target:
        """Learn the target from a table without missing targets; mean and deviation from `rows`."""
        numbers, labels = table.numbers(name), _labels(table, name)
        if len(labels) < 2:
            what = f"holds only {labels[0][0]!r}" if labels else "has no values"
            raise InvalidInputError(f"target {name!r} of {table.path!r} {what}; there is nothing to learn")
        if task == "classification" or (task == "auto" and (numbers is None or len(labels) == 2)):
            if len(labels) > 2:
                raise _too_many_classes(table, name, labels, numeric=numbers is not None)
            return cls(name, (labels[0][0], labels[1][0]))
        training = table.all_numbers(name)[list(rows)]
        scale = float(training.std())
        if training.min() == training.max() or scale == 0.0:
            raise InvalidInputError(f"target {name!r} is constant in the {len(training)} training rows")
        return cls(name, None, float(training.mean()), scale)

    def encode(self, table: Table) -> FloatArray:
        """Return -1 and +1, nan for other labels; or standardised numbers."""
        if self.classes is None:
            return (table.all_numbers(self.name) - self.mean) / self.scale
        codes: dict[float | str | None, float] = {label_key(label): sign for label, sign in self._signs()}
        keys = (None if entry is None else label_key(entry) for entry in table.column(self.name))
        return np.array([codes.get(key, math.nan) for key in keys])

    def decode(self, outputs: FloatArray) -> list[str] | FloatArray:
        """Return the labels or numbers that the outputs of the network stand for."""
        if self.classes is None:
            return outputs * self.scale + self.mean
        return [self.classes[int(output > 0.0)] for output in outputs]

    def score(self, outputs: FloatArray, target: FloatArray) -> float:
        """Return the accuracy, or R^2: nan where the encoded target is constant."""
        if self.classes is not None:
            return float(np.mean(np.where(outputs > 0.0, 1.0, -1.0) == target))
        spread = float(np.sum((target - target.mean()) ** 2))
        return 1.0 - float(np.sum((target - outputs) ** 2)) / spread if spread > 0.0 else math.nan

    def _signs(self) -> Iterable[tuple[str, float]]:
        return zip(self.classes or (), (-1.0, 1.0), strict=True)


def _labels(table: Table, name: str) -> list[tuple[str, int]]:
    """Return the distinct labels as first written, with their counts; "1" and "1.0" are one."""
    entries = [entry for entry in table.column(name) if entry is not None]
    counts = Counter(map(label_key, entries))
    written: dict[float | str, str] = {}
    for entry in entries:
        written.setdefault(label_key(entry), entry)
    keys = sorted(counts, key=lambda key: (isinstance(key, str), key))
    return [(written[key], counts[key]) for key in keys]


def _too_many_classes(table: Table, name: str, labels: list[tuple[str, int]], *, numeric: bool) -> InvalidInputError:
    shown = ", ".join(f"{label!r} ({count})" for label, count in labels[:MAX_LISTED])
    more = f", and {len(labels) - MAX_LISTED} more" if len(labels) > MAX_LISTED else ""
    advice = " or use --task regression" if numeric else ""
    return InvalidInputError(
        f"target {name!r} of {table.path!r} has {len(labels)} classes, this version trains on two: "
        f"{shown}{more}; keep the rows of two classes{advice}"
    )
