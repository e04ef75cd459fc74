"""Training and test rows of a file."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.summary import first_few
from qsdp._utils.validation import warn
from qsdp.cli._streams import stage
from qsdp.encoding.fitting import FEW
from qsdp.estimators.table_source import TableSource
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.tables import reading_of
from qsdp.tables.training_tables import (
    digest_of,
    inputs_in,
    marked,
    row_numbers,
    source_of,
    split,
    targets_of,
    weights_of,
    with_target,
)

if TYPE_CHECKING:
    import pandas

__all__ = ["TrainingRows", "read_rows"]


@dataclass(eq=False)
class TrainingRows:
    """Training and test rows of a file.

    Attributes
    ----------
    source : TableSource
    drop : sequence of str
        Columns that are not used: those of --drop, and those that number the rows.
    train, test : data frame
    y : ndarray of shape (n,)
        Targets of the training rows.
    counts : str
        Numbers of rows, for people.
    """

    source: TableSource
    drop: tuple[str, ...]
    train: pandas.DataFrame
    test: pandas.DataFrame
    counts: str

    def __post_init__(self) -> None:
        self._check_inputs()
        self.y = targets_of(self.source, self.train)
        if self.source.kind is not None:
            if np.ptp(self.y) == 0.0:
                raise InvalidInputError(f"target {self.source.target!r} is constant in the {len(self.y)} training rows")
            return
        classes = targets_of(self.source, self.test, self.classes) if len(self.test) else self.y
        if len(self.classes) < 2:
            raise InvalidInputError(
                f"the {len(self.y)} training rows hold only one class of target {self.source.target!r}; "
                "choose another seed or a smaller test size"
            )
        if absent := sorted(set(map(str, classes.tolist())) - set(map(str, self.classes))):
            warn(
                f"no training row has the class {', '.join(map(repr, absent))} of target {self.source.target!r}, which "
                "is never predicted; choose another seed or a smaller test size"
            )

    def _check_inputs(self) -> None:
        """Raise an error if no column can be an input, with the reasons, or if entries of the test rows are invalid."""
        from qsdp.encoding import TableEncoder

        with warnings.catch_warnings(record=True) as caught:
            # The fit repeats them.
            warnings.simplefilter("always", QSDPWarning)
            encoder = TableEncoder("standard").fit(inputs_in(self.source, self.drop, self.train))
            warned = list(caught)
            if len(self.test):
                encoder.transform(inputs_in(self.source, self.drop, self.test))
        if len(encoder.dropped_) == encoder.n_features_in_:
            for warning in warned:
                # They may say how to make a column one of numbers.
                warn(str(warning.message))
            reasons = first_few([f"{name!r}: {reason}" for name, reason in encoder.dropped_.items()])
            raise InvalidInputError(
                f"no column is left to learn from besides the target {self.source.target!r}; {reasons}"
            )

    @property
    def classes(self) -> list[Any]:
        """Labels of the training rows, sorted; empty for numbers."""
        return [] if self.source.kind is not None else np.unique(self.y).tolist()

    def fit(self, model: Any) -> None:
        """Fit an estimator to the rows, and store the description of the table in it as `table_`."""
        model.fit(inputs_in(self.source, self.drop, self.train), self.y, weights_of(self.source, self.train))
        model.table_ = replace(self.source, digest=digest_of(model.result_.problem))


def read_rows(file: Path, target: str, columns: Mapping[str, Any]) -> TrainingRows:
    """Read the rows of a file, and split them."""
    with stage(f"Reading {file}"):
        reading = reading_of(file, **{name: columns[name] for name in ("decimal", "thousands", "missing")})
        raw, gaps = reading.table, reading.missing.get(target, Counter[str]())
        drop = _dropped(raw, target, columns, row_numbers(raw))
        source = source_of(raw, target, **columns, left_out=reading.left_out, texts=gaps)
        known = with_target(source, raw)
        train, test = split(source, raw)
        if len(train) < 2:
            raise InvalidInputError(_too_few(file, source, len(known), len(train)))
        counts = f"{len(train)} training + {len(test)} test rows"
        if len(raw) > len(known):
            texts = marked(gaps)
            counts += f"; {len(raw) - len(known)} without {target!r} left out{texts}"
            if texts:
                # They may be classes.
                warn(f"rows whose target {target!r} counts as missing are left out{texts}")
        if len(train) + len(test) < len(known):
            counts += f"; {len(known) - len(train) - len(test)} of weight zero left out"
        return TrainingRows(source, drop, train, test, counts)


def _dropped(table: pandas.DataFrame, target: str, columns: Mapping[str, Any], numbered: set[str]) -> tuple[str, ...]:
    """Return the columns that are not inputs: those of --drop, and those that number the rows unless none is left."""
    others = [name for name in table.columns if name not in {target, columns["weights"], *columns["drop"]}]
    numbered = numbered & set(others) if len(table) > FEW and set(others) - numbered else set()
    return (*columns["drop"], *(name for name in others if name in numbered))


def _too_few(file: Path, source: TableSource, known: int, training: int) -> str:
    positive = "" if source.weights is None else f" with a positive weight in column {source.weights!r}"
    return (
        f"{str(file)!r} has {known} rows with a target {source.target!r}, {training} of them for training{positive}; "
        "at least 2 are needed"
    )
