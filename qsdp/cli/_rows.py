"""Training and test rows of a file: all rows in memory, or a stream of them with a sample in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.progress import NO_BAR, ProgressBar
from qsdp._utils.summary import first_few
from qsdp._utils.tuning import MANY_ROWS
from qsdp._utils.validation import warn
from qsdp.cli._streams import stage
from qsdp.encoding.fitting import FEW
from qsdp.encoding.notation import unit_of
from qsdp.estimators.collections import SAMPLE
from qsdp.estimators.source import TableSource
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.statistics import RowBatches
from qsdp.statistics.collections import Rows
from qsdp.statistics.sample import RowSample
from qsdp.tables import read_table, table_chunks
from qsdp.tables.training import (
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

__all__ = ["TrainingRows", "rows_in_memory", "sampled_rows"]

#: Number of rows that are read at once.
_ROWS = 2**14

#: Number of distinct numbers above which a column of numbers and text has a warning.
_NUMBERS = 10


@dataclass(eq=False)
class TrainingRows:
    """Training and test rows of a file, or samples of them.

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
    sampled : str
        Beginning of the names of these rows: "sampled ", or empty if they are all.
    stream : RowBatches or None
        All training rows of a file that is streamed.
    """

    source: TableSource
    drop: tuple[str, ...]
    train: pandas.DataFrame
    test: pandas.DataFrame
    counts: str
    sampled: str = ""
    stream: RowBatches | None = None

    def __post_init__(self) -> None:
        self._check_inputs()
        self.y = targets_of(self.source, self.train)
        if self.source.notation is not None:
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

        with warnings.catch_warnings():
            # The fit repeats them.
            warnings.simplefilter("ignore", QSDPWarning)
            encoder = TableEncoder("standard").fit(inputs_in(self.source, self.drop, self.train))
            if len(self.test):
                encoder.transform(inputs_in(self.source, self.drop, self.test))
        if len(encoder.dropped_) == encoder.n_features_in_:
            reasons = first_few([f"{name!r}: {reason}" for name, reason in encoder.dropped_.items()])
            raise InvalidInputError(
                f"no column is left to learn from besides the target {self.source.target!r}; {reasons}"
            )
        for column in encoder.encoding_.columns:
            if column.categories is not None:
                _warn_of_numbers(column.name, self.train[column.name].head(MANY_ROWS).tolist())

    @property
    def classes(self) -> list[Any]:
        """Labels of the training rows, sorted; empty for numbers."""
        return [] if self.source.notation is not None else np.unique(self.y).tolist()

    def fit(self, model: Any) -> None:
        """Fit an estimator to the rows, and store the description of the table in it as `table_`."""
        if self.stream is not None:
            model.fit(self.stream)
            model.table_ = self.source
            return
        model.fit(inputs_in(self.source, self.drop, self.train), self.y, weights_of(self.source, self.train))
        model.table_ = replace(self.source, digest=digest_of(model.result_.problem))

    def finish(self) -> None:
        """Delete the checkpoints, from which an interrupted run would have continued."""
        if self.stream is not None and self.stream.checkpoint is not None:
            checkpoint = Path(self.stream.checkpoint)
            for one in checkpoint.parent.glob(f"{checkpoint.name}.*"):
                one.unlink(missing_ok=True)


def _warn_of_numbers(name: str, entries: list[Any]) -> None:
    """Warn of a column of text most of whose entries are numbers: others, or other units, keep it from being one."""
    units = {entry: unit_of(entry) for entry in dict.fromkeys(entries) if isinstance(entry, str)}
    numbers = [unit for unit in units.values() if unit is not None]
    if len(numbers) > max(len(units) - len(numbers), _NUMBERS):
        usual = max(numbers, key=numbers.count)
        if odd := [entry for entry, unit in units.items() if unit != usual]:
            warn(f"column {name!r} is text, not numbers, because of entries such as {odd[0]!r:.60}")


def rows_in_memory(file: Path, target: str, columns: Mapping[str, Any]) -> TrainingRows:
    """Read all rows of a file into memory, and split them."""
    with stage(f"Reading {file}"):
        raw = read_table(file, columns["missing"])
        drop = _dropped(raw, target, columns, row_numbers(raw))
        source = source_of(raw, target, **columns)
        known = with_target(source, raw)
        train, test = split(source, raw)
        if len(train) < 2:
            raise InvalidInputError(_too_few(file, source, len(known), len(train)))
        counts = f"{len(train)} training + {len(test)} test rows"
        if len(raw) > len(known):
            texts = marked(raw, target)
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


def sampled_rows(file: Path, target: str, columns: Mapping[str, Any], output: Path) -> TrainingRows:
    """Read samples of the training and test rows of a file, and prepare a stream of all its training rows."""
    source = TableSource(target, columns["weights"], None, (), columns["seed"], float(columns["test_size"]))
    train, test = (RowSample(SAMPLE, source.seed) for _ in range(2))
    with stage(f"Reading {file}: a sample") as bar:
        numbered, done = list[set[str]](), 0
        for number, (table, *parts) in enumerate(_parts(file, source, columns["missing"], bar)):
            numbered.append(row_numbers(table, done))
            done += len(table)
            for which, (sample, part) in enumerate(zip((train, test), parts, strict=True)):
                sample.add(Rows(part, np.zeros(len(part)), None), [number, which])
        if train.rows is None or train.seen < 2:
            raise InvalidInputError(_too_few(file, source, train.seen + test.seen, train.seen))
        few = train.rows.X
        source = source_of(few, target, **columns)
        held_out = few.iloc[:0] if test.rows is None else test.rows.X
        counts = f"streamed: {train.seen} training + {test.seen} test rows"
        drop = _dropped(few, target, columns, set.intersection(*numbered))
        rows = TrainingRows(source, drop, few, held_out, counts, "sampled ")
    checkpoint = output.with_name(f".{output.name}.{_stamp(file, source)}.checkpoint")
    labels = rows.classes

    def batches(bar: ProgressBar = NO_BAR) -> Iterator[tuple[Any, ...]]:
        for _, part, _ in _parts(file, source, source.missing, bar):
            if len(part):
                yield (
                    inputs_in(source, rows.drop, part),
                    targets_of(source, part, labels),
                    weights_of(source, part),
                )

    weights = weights_of(source, few)
    kept = Rows(inputs_in(source, rows.drop, few), rows.y, weights)
    rows.stream = RowBatches(batches, checkpoint=checkpoint, sample=(kept, train.seen))
    return rows


def _parts(
    file: Path, source: TableSource, missing: Any, bar: ProgressBar
) -> Iterator[tuple[pandas.DataFrame, pandas.DataFrame, pandas.DataFrame]]:
    """Yield each chunk of a file, its training rows and its test rows, which are the same in every pass."""
    rng, done = np.random.default_rng(source.seed), 0
    for table in table_chunks(file, _ROWS, missing):
        known = with_target(source, table)
        held_out = rng.random(len(known)) < source.test_size
        weights = weights_of(source, known)
        counting = np.ones(len(known), dtype=bool) if weights is None else weights > 0.0
        yield table, known[~held_out & counting], known[held_out & counting]
        done += len(table)
        bar.count(done, None, f"{done:,} rows")


def _stamp(file: Path, source: TableSource) -> str:
    """Return a digest that identifies the training rows of a file: sizes and times of its parts, and read options."""
    import hashlib

    parts = sorted(file.rglob("*")) if file.is_dir() else [file]
    stamps = [(str(part), part.stat().st_size, part.stat().st_mtime_ns) for part in parts]
    return hashlib.sha256(repr((stamps, source)).encode()).hexdigest()[:16]
