"""Files too large for memory: a sample of rows gives the encoding, and statistics of all rows give the problem."""

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
from qsdp.activations import PolynomialActivation
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.losses import Loss, Squared
from qsdp.statistics import SufficientStatistics
from qsdp.statistics.sample import RowSample
from qsdp.tabular._files import table_batches
from qsdp.tabular._model import network_inputs
from qsdp.tabular._reading import MISSING, DataTable, listing
from qsdp.tabular._target import Target
from qsdp.tabular._training import Training

__all__ = ["SampledRows", "Sampling", "checkpoint_name", "encoded_batches", "sample_file", "statistics_of"]

#: Number of rows read at once, and number of rows between saves of the statistics.
_ROWS, _EVERY = 2**14, 2**21


@dataclass(frozen=True)
class Sampling:
    """Division of the rows of a file into training and test rows.

    Attributes
    ----------
    target : str
        Target column; rows without a target are left out.
    weights : str or None
        Column of weights; rows of weight zero are left out.
    test_size : float
        Share of the rows that is held out.
    seed : int
    markers : frozenset of str
        Entries that count as missing.
    """

    target: str
    weights: str | None
    test_size: float
    seed: int
    markers: frozenset[str] = MISSING

    def parts(self, path: str | os.PathLike[str], bar: ProgressBar) -> Iterator[tuple[DataTable, DataTable]]:
        """Yield the training and test rows of each batch; they are the same whenever the file is read."""
        rng, done = np.random.default_rng(self.seed), 0
        for table in table_batches(path, _ROWS, self.markers):
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


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Samples of the training and test rows of a file, and the numbers of all such rows."""

    train: DataTable
    test: DataTable
    n_train: int
    n_test: int

    @property
    def stands_for(self) -> float:
        """Number of training rows that one row of the sample stands for."""
        return self.n_train / len(self.train)


def sample_file(path: str | os.PathLike[str], sampling: Sampling, size: int, bar: ProgressBar = NO_BAR) -> SampledRows:
    """Return uniform samples of at most `size` training rows and as many test rows, in one pass over a file.

    Raises
    ------
    InvalidInputError
        As in `read_table`, or fewer than two rows are left for training.
    """
    train, test = (RowSample[DataTable](size, sampling.seed) for _ in range(2))
    for number, (one, other) in enumerate(sampling.parts(path, bar)):
        train.add(one, [number, 0])
        test.add(other, [number, 1])
    if train.rows is None or train.seen < 2:
        raise InvalidInputError(
            f"{os.fspath(path)!r} has {train.seen} rows for training with a target {sampling.target!r}; "
            "at least 2 are needed"
        )
    return SampledRows(train.rows, test.rows or train.rows.take([]), train.seen, test.seen)


def statistics_of(
    path: str | os.PathLike[str],
    sampling: Sampling,
    training: Training,
    *,
    activation: PolynomialActivation | None,
    checkpoint: Path | None = None,
    bar: ProgressBar = NO_BAR,
    device: str | None = None,
) -> SufficientStatistics:
    """Return the statistics of all training rows of a file, encoded like those of a sample for a squared loss.

    The activation determines whether inputs have a constant column; checkpoint and device are as in
    `SufficientStatistics.from_batches`.
    """
    batches = encoded_batches(path, sampling, training, Squared(), activation, bar)
    return SufficientStatistics.from_batches(batches(), checkpoint=checkpoint, every=_EVERY, device=device)


def encoded_batches(
    path: str | os.PathLike[str],
    sampling: Sampling,
    training: Training,
    loss: Loss,
    activation: PolynomialActivation | None,
    bar: ProgressBar = NO_BAR,
) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """Return a function that yields inputs, targets and weights of a file's training rows, encoded like a sample.

    It may be called repeatedly, and warns of unseen entries once.
    """
    encode = _encoder(training, loss, activation)
    return lambda: (encode(table) for table, _ in sampling.parts(path, bar) if len(table))


def _encoder(
    training: Training, loss: Loss, activation: PolynomialActivation | None
) -> Callable[[DataTable], tuple[Any, ...]]:
    warned = False

    def encode(table: DataTable) -> tuple[Any, ...]:
        nonlocal warned
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            encoded = training.encoder.encode(table)
        for warning in caught if not warned else ():
            # One warning is enough: other batches have as many entries that the sample lacked.
            warnings.warn(f"among the first of such rows: {warning.message}", QSDPWarning, stacklevel=2)
            warned = True
        X = network_inputs(encoded, activation)
        _check_classes(table, training.target)
        y = training.target.encode(table, loss)
        return X, y, training.weighting.read(table)

    return encode


def _check_classes(table: DataTable, target: Target) -> None:
    if target.classes is None:
        return
    unknown: npt.NDArray[np.intp] = np.flatnonzero(target.truth(table) < 0)
    if len(unknown):
        expected = f"one of the classes that sampled rows have, {listing(target.classes)}"
        raise table.wrong(int(unknown[0]), target.name, expected)


def checkpoint_name(output: Path, file: Path, sampling: Sampling, training: Training, options: object) -> Path:
    """Return the path, next to the output, of the checkpoint for exactly this pass."""
    parts = sorted(file.rglob("*")) if file.is_dir() else [file]
    stamps = [(str(part), part.stat().st_size, part.stat().st_mtime_ns) for part in parts]
    identity = repr((stamps, sampling, json.dumps(training.encoder.state(), sort_keys=True), training.target, options))
    return output.with_name(f".{output.name}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}.checkpoint")
