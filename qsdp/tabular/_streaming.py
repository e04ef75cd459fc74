"""Files too large to be held: a sample of their rows tells the encoding, statistics of all rows the problem."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.progress import NO_BAR, ProgressBar
from qsdp._utils.validation import FloatArray
from qsdp.activations import PolynomialActivation
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.losses import Squared
from qsdp.statistics import SufficientStatistics
from qsdp.tabular._files import table_batches
from qsdp.tabular._model import network_inputs
from qsdp.tabular._reading import Table, listing
from qsdp.tabular._target import Target
from qsdp.tabular._training import Training

__all__ = ["SampledRows", "Sampling", "checkpoint_name", "sample_file", "statistics_of"]

#: Rows that are read at once, and from one save of the statistics to the next.
_ROWS, _EVERY = 2**14, 2**21


@dataclass(frozen=True)
class Sampling:
    """Which rows of a file are for training and which for testing.

    Attributes
    ----------
    target : str
        Rows without it are left out.
    weights : str or None
        Column of weights; rows of weight zero are left out.
    test_size : float
        Share of the rows that is held out.
    seed : int
    """

    target: str
    weights: str | None
    test_size: float
    seed: int

    def parts(self, path: str | os.PathLike[str], bar: ProgressBar) -> Iterator[tuple[Table, Table]]:
        """Yield the training and the test rows of each batch: the same ones whenever the file is read."""
        rng, done = np.random.default_rng(self.seed), 0
        for table in table_batches(path, _ROWS):
            table.require([self.target] + ([] if self.weights is None else [self.weights]))
            known = table.known(self.target)
            held_out = rng.random(len(known)) < self.test_size
            counting = np.ones(len(known), dtype=bool)
            if self.weights is not None:
                counting = known.all_numbers(self.weights) != 0.0
            train, test = (np.flatnonzero(part & counting).tolist() for part in (~held_out, held_out))
            yield known.take(train), known.take(test)
            done += len(table)
            bar.count(done, None, f"{done:,} rows")


class _Reservoir:
    """A uniform sample of the rows of tables."""

    def __init__(self, size: int, seed: int) -> None:
        self.seen, self._size, self._rng = 0, size, np.random.default_rng([seed, 1])
        self._table: Table | None = None
        self._keys: FloatArray = np.zeros(0)

    def add(self, table: Table) -> None:
        """Take in rows."""
        keys = self._rng.random(len(table))
        self.seen += len(table)
        worst = self._keys.max() if len(self._keys) == self._size else np.inf
        chosen = np.flatnonzero(keys < worst)
        if not len(chosen):
            return
        some = table.take(chosen.tolist())
        self._table = some if self._table is None else self._table.stacked(some)
        self._keys = np.concatenate([self._keys, keys[chosen]])
        if len(self._keys) > self._size:
            kept = np.sort(np.argsort(self._keys, kind="stable")[: self._size])
            self._table, self._keys = self._table.take(kept.tolist()), self._keys[kept]

    def table(self) -> Table | None:
        """Return the rows kept, None where there were none."""
        return self._table


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Samples of the training and the test rows of a file, and how many there are."""

    train: Table
    test: Table
    n_train: int
    n_test: int


def sample_file(path: str | os.PathLike[str], sampling: Sampling, size: int, bar: ProgressBar = NO_BAR) -> SampledRows:
    """Return uniform samples of at most `size` training rows and as many test rows, in one pass over a file.

    Raises
    ------
    InvalidInputError
        As of `read_table`; or fewer than two rows are left for training.
    """
    train, test = _Reservoir(size, sampling.seed), _Reservoir(size, sampling.seed)
    for one, other in sampling.parts(path, bar):
        train.add(one)
        test.add(other)
    table = train.table()
    if table is None or train.seen < 2:
        raise InvalidInputError(
            f"{os.fspath(path)!r} has {train.seen} rows for training with a target {sampling.target!r}; 2 are needed"
        )
    return SampledRows(table, test.table() or table.take([]), train.seen, test.seen)


def statistics_of(
    path: str | os.PathLike[str],
    sampling: Sampling,
    training: Training,
    *,
    activation: PolynomialActivation | None,
    keep: int,
    checkpoint: Path | None = None,
    bar: ProgressBar = NO_BAR,
) -> SufficientStatistics:
    """Return the statistics of all training rows of a file, encoded as those of a sample.

    Parameters
    ----------
    path : path
    sampling : Sampling
    training : Training
        Of a sample of the rows, for a squared loss.
    activation : PolynomialActivation or None
        Of the network, which tells whether inputs have a constant column.
    keep : int
        Rows kept, see `SufficientStatistics`.
    checkpoint : Path, optional
        See `SufficientStatistics.from_batches`.
    bar : ProgressBar
    """
    encode = _encoder(training, activation)
    batches = (encode(table) for table, _ in sampling.parts(path, bar) if len(table))
    return SufficientStatistics.from_batches(batches, keep=keep, checkpoint=checkpoint, every=_EVERY)


def _encoder(training: Training, activation: PolynomialActivation | None) -> Callable[[Table], tuple[Any, ...]]:
    warned = False

    def encode(table: Table) -> tuple[Any, ...]:
        nonlocal warned
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            encoded = training.encoder.encode(table)
        for warning in caught if not warned else ():
            # One is enough: other batches have as many entries that the sample lacked.
            warnings.warn(f"among the first of such rows: {warning.message}", QSDPWarning, stacklevel=2)
            warned = True
        X = network_inputs(encoded, activation)
        y = training.target.encode(table, Squared())
        _check_classes(table, training.target)
        return X, y, training.weighting.read(table)

    return encode


def _check_classes(table: Table, target: Target) -> None:
    if target.classes is None:
        return
    unknown: npt.NDArray[np.intp] = np.flatnonzero(target.truth(table) < 0)
    if len(unknown):
        expected = f"one of the classes that sampled rows have, {listing(target.classes)}"
        raise table.wrong(int(unknown[0]), target.name, expected)


def checkpoint_name(output: Path, file: Path, sampling: Sampling, training: Training, options: object) -> Path:
    """Return the name of the file for statistics of this very pass, beside the output."""
    parts = sorted(file.rglob("*")) if file.is_dir() else [file]
    stamps = [(str(part), part.stat().st_size, part.stat().st_mtime_ns) for part in parts]
    told = repr((stamps, sampling, json.dumps(training.encoder.state(), sort_keys=True), training.target, options))
    return output.with_name(f".{output.name}.{hashlib.sha256(told.encode()).hexdigest()[:16]}.checkpoint")
