"""Fits to Dask collections: steps that need rows use a sample, the others use all rows where they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from qsdp._utils.validation import errors_of
from qsdp.estimators.inputs import check_targets_of_frame
from qsdp.exceptions import InvalidTypeError
from qsdp.options import TrainingOptions
from qsdp.pipeline import QSDPResult, run_on_batches, run_on_statistics
from qsdp.problem import TrainingProblem
from qsdp.statistics.collections import RowChunks, Rows, is_collection
from qsdp.statistics.dask_statistics import statistics_of_chunks

__all__ = ["SAMPLE", "rows_here", "train_on_collections"]

#: Rows of the sample for encoding, beta, polishing and losses other than squared, and its seed.
SAMPLE, _SEED = 20_000, 0


def rows_here(X: Any, y: Any, sample_weight: Any, *, missing: bool) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return data, targets and weights unchanged, or those of a sample of Dask collections, with options to train.

    The options are all chunks and how many of their rows each row of the sample represents. With `missing`, entries of
    X may be missing.
    """
    if not is_collection(X):
        if is_collection(y):
            raise InvalidTypeError(f"X must be a Dask collection, as y is; got {type(X).__name__}")
        return X, y, sample_weight, {}
    chunks = RowChunks(X, y, sample_weight)
    rows, n_samples = chunks.sample(SAMPLE, _SEED, missing=missing)
    return rows.X, rows.y, rows.weights, {"chunks": chunks, "stands_for": n_samples / len(rows)}


def train_on_collections(
    estimator: Any, chunks: RowChunks, few: TrainingProblem, options: TrainingOptions
) -> QSDPResult:
    """Train on the statistics of all rows with a squared loss, otherwise on few rows, and certify on all rows.

    The estimator has learned everything except its network from a sample of the rows, whose problem is `few`.
    """
    encode = _ChunkEncoder(estimator)
    if few.loss.quadratic:
        return run_on_statistics(statistics_of_chunks(chunks, encode, options.device), few, options)
    return run_on_batches(few, partial(chunks.stream, encode), options)


@dataclass(frozen=True, eq=False)
class _ChunkEncoder:
    """Computes the inputs, targets and weights for training from the rows of a chunk.

    Attributes
    ----------
    estimator : _QuantizedNetwork
        Estimator that has learned everything except its network from a sample of the rows.
    """

    estimator: Any

    def __call__(self, number: int, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, ...]:
        """Return inputs, targets and weights of the rows of positive weight; `number` is that of the chunk."""
        del number
        rows, estimator = Rows.of(X, y, sample_weight), self.estimator
        if not len(rows):
            return rows.X, rows.y, rows.weights
        data = estimator._checked(rows.X)
        with errors_of("y"):
            target = check_targets_of_frame(data, rows.y, **estimator._targets)
        coded, weights = estimator._coded(Rows(data, target, rows.weights))
        return estimator._inputs(data), estimator.target_scaling_.encode(coded), weights
