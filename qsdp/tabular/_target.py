"""Target of a table, and its conversion to network outputs and back."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.encoding.notation import BOOLEAN
from qsdp.estimators.classes import centres, choose_classes, class_shape, encode_classes
from qsdp.estimators.targets import TargetScaling
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.losses import Loss
from qsdp.tabular._checks import MAX_CLASSES
from qsdp.tabular._reading import MAX_LISTED, DataTable, label_key, listing


@dataclass(frozen=True)
class Target:
    """Target that the outputs of a network represent: a class or a standardised number.

    Attributes
    ----------
    name : str
        Name of the column.
    classes : tuple of str or None
        Labels in sorted order, at least two; None for regression.
    offset : tuple of float
        Number added to each output: the mean of numbers or of coded classes over the training rows; empty stands for
        zeros.
    scale : float
        Standard deviation over the training rows for regression, see `TargetScaling.of_numbers`; 1 for classes.
    notation : str or None
        How numbers are written, see `qsdp.encoding.notation`; None for classes.
    """

    name: str
    classes: tuple[str, ...] | None
    offset: tuple[float, ...] = ()
    scale: float = 1.0
    notation: str | None = None

    @classmethod
    def fit(cls, table: DataTable, name: str, task: str, rows: Iterable[int]) -> Target:
        """Learn the target from a table without missing targets.

        The task is decided on the whole table. Classes are learned from `rows`, and units of numbers by `scaled`.
        """
        notation, labels = table.notation(name), _labels(table, name)
        numeric = notation not in {None, BOOLEAN}
        if len(labels) < 2:
            what = f"holds only {labels[0][0]!r}" if labels else "has no values"
            raise InvalidInputError(f"target {name!r} of {table.path!r} {what}; there is nothing to learn")
        rows = list(rows)
        if task == "classification" or (task == "auto" and (not numeric or len(labels) == 2)):
            if len(labels) > MAX_CLASSES:
                raise _too_many_classes(table, name, labels, numeric=numeric)
            return cls(name, _learned_classes(labels, table.take(rows), name))
        values = table.all_numbers(name, notation if numeric else None)[rows]
        if values.min() == values.max() or values.std() == 0.0:
            raise InvalidInputError(f"target {name!r} is constant in the {len(values)} training rows")
        return cls(name, None, notation=notation)

    def scaled(self, table: DataTable, loss: Loss, weights: FloatArray | None) -> Target:
        """Return the target with the same units in training as in the estimators."""
        if self.classes is None:
            units = TargetScaling.of_numbers(table.all_numbers(self.name, self.notation), weights, loss)
            return replace(self, offset=(float(units.offset),), scale=float(units.scale))
        if not centres(loss):
            return self
        coded = encode_classes(self._codes(table), len(self.classes), loss)
        return replace(self, offset=tuple(np.atleast_1d(TargetScaling.of(coded, weights).offset).tolist()))

    def output_shape(self, loss: Loss) -> tuple[int, ...]:
        """Return the shape of a network's value at a row, () or (C,), for this target and `loss`."""
        return () if self.classes is None else class_shape(len(self.classes), loss)

    def encode(self, table: DataTable, loss: Loss) -> FloatArray:
        """Return the training targets: standardised numbers, or coded classes with NaN for unknown labels."""
        if self.classes is None:
            return self.truth(table)
        return self.scaling.encode(encode_classes(self._codes(table), len(self.classes), loss))

    def truth(self, table: DataTable) -> FloatArray:
        """Return the targets for `score`: standardised numbers, or class indices with -1 for unknown labels."""
        if self.classes is not None:
            return self._codes(table).astype(np.float64)
        return self.scaling.encode(table.all_numbers(self.name, self.notation))

    def decode(self, outputs: FloatArray) -> list[str] | FloatArray:
        """Return the labels or numbers that outputs of the network represent."""
        values = self.values(outputs)
        return values if self.classes is None else [self.classes[code] for code in choose_classes(values)]

    def score(self, outputs: FloatArray, truth: FloatArray, weights: FloatArray | None = None) -> float:
        """Return the (weighted) accuracy, or R^2, NaN for a constant true target."""
        if self.classes is not None:
            return float(np.average(choose_classes(self.values(outputs)) == truth, weights=weights))
        spread = float(np.average((truth - np.average(truth, weights=weights)) ** 2, weights=weights))
        error = float(np.average((truth - outputs) ** 2, weights=weights))
        return 1.0 - error / spread if spread > 0.0 else math.nan

    def values(self, outputs: FloatArray) -> FloatArray:
        """Return outputs of the network in the units of the targets: numbers, or scores of classes."""
        return self.scaling.decode(outputs)

    @property
    def scaling(self) -> TargetScaling:
        """Scaling from outputs of the network to the units of the targets."""
        return TargetScaling(np.array(self.offset or 0.0), np.array(self.scale))

    def _codes(self, table: DataTable) -> npt.NDArray[np.intp]:
        known = {label_key(label): code for code, label in enumerate(self.classes or ())}
        entries = table.column(self.name)
        return np.array([-1 if e is None else known.get(label_key(e), -1) for e in entries], dtype=np.intp)


def _learned_classes(labels: list[tuple[str, int]], training: DataTable, name: str) -> tuple[str, ...]:
    present = {label_key(label) for label, _ in _labels(training, name)}
    classes = tuple(label for label, _ in labels if label_key(label) in present)
    if len(classes) < 2:
        raise InvalidInputError(
            f"the {len(training)} training rows hold only one class of target {name!r}; "
            "choose another seed or a smaller test size"
        )
    if absent := [label for label, _ in labels if label_key(label) not in present]:
        warnings.warn(
            f"no training row has the class {listing(absent)} of target {name!r}, which is never predicted; "
            "choose another seed or a smaller test size",
            QSDPWarning,
            stacklevel=4,
        )
    return classes


def _labels(table: DataTable, name: str) -> list[tuple[str, int]]:
    """Return the distinct labels as first written, with their counts; "1" and "1.0" are equal."""
    entries = [entry for entry in table.column(name) if entry is not None]
    counts = Counter(map(label_key, entries))
    written: dict[float | str, str] = {}
    for entry in entries:
        written.setdefault(label_key(entry), entry)
    keys = sorted(counts, key=lambda key: (isinstance(key, str), key))
    return [(written[key], counts[key]) for key in keys]


def _too_many_classes(
    table: DataTable, name: str, labels: list[tuple[str, int]], *, numeric: bool
) -> InvalidInputError:
    shown = ", ".join(f"{label!r} ({count})" for label, count in labels[:MAX_LISTED])
    advice = "; use --task regression for a number" if numeric else ""
    return InvalidInputError(
        f"target {name!r} of {table.path!r} has {len(labels)} classes, at most {MAX_CLASSES} are possible: "
        f"{shown}, and {len(labels) - MAX_LISTED} more{advice}"
    )


class RunningScore:
    """The score of a target over batches of rows: accuracy, or R^2.

    Attributes
    ----------
    n_rows : int
        Number of rows with a target so far.
    usable : bool
        Whether all targets so far were understood.
    """

    def __init__(self, target: Target) -> None:
        self.n_rows, self.usable = 0, True
        self._target, self._right, self._squares = target, 0.0, 0.0
        self._mean = self._spread = 0.0

    def add(self, table: DataTable, outputs: FloatArray) -> None:
        """Count the rows of a table that have a target."""
        if self._target.name not in table.columns:
            return
        known = table.present(self._target.name)
        if not known:
            return
        truth = self._target.truth(table.take(known))
        if self._target.classes is not None:
            self._right += len(known) * self._target.score(outputs[known], truth)
        else:
            self._squares += float(np.sum((truth - outputs[known]) ** 2))
            # Combine the spreads of the parts to that about the mean of all rows (Chan, Golub and LeVeque).
            n, mean = len(known), float(truth.mean())
            share = self.n_rows * n / (self.n_rows + n)
            self._spread += float(np.sum((truth - mean) ** 2)) + share * (mean - self._mean) ** 2
            self._mean += (mean - self._mean) * n / (self.n_rows + n)
        self.n_rows += len(known)

    def give_up(self) -> None:
        """Mark the score as unusable, and forget the rows so far."""
        self.n_rows, self.usable = 0, False

    @property
    def value(self) -> float:
        """Accuracy, or R^2, NaN for a constant true target."""
        if self._target.classes is not None:
            return self._right / self.n_rows
        return 1.0 - self._squares / self._spread if self._spread > 0.0 else math.nan
