"""Fits to Dask collections: steps that need individual rows use a sample of them, the others all rows."""

from __future__ import annotations

from functools import partial
from typing import Any

from qsdp.choosing.options import TrainingOptions
from qsdp.exceptions import InvalidTypeError
from qsdp.pipeline import QSDPResult, run_on_batches, run_pipeline
from qsdp.problem import TrainingProblem
from qsdp.statistics import SufficientStatistics
from qsdp.statistics.dask_rows import DaskRows, is_collection
from qsdp.statistics.sample import Rows

__all__ = ["SAMPLE", "rows_here", "train_on_chunks"]

#: Rows of the sample for encoding, beta, polishing and losses other than squared.
SAMPLE = 20_000


def rows_here(X: Any, y: Any, sample_weight: Any, *, missing: bool) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return data, targets and weights unchanged, or a sample of Dask collections, with options to train.

    The options are all chunks and how many of their rows each row of the sample represents. With `missing`, entries of
    X may be missing.
    """
    if not is_collection(X):
        if is_collection(y):
            raise InvalidTypeError(f"X must be a Dask collection, since y is one; got {type(X).__name__}")
        return X, y, sample_weight, {}
    chunks = DaskRows(X, y, sample_weight)
    rows, n_samples = chunks.sample(SAMPLE, 0, missing=missing)
    return rows.X, rows.y, rows.weights, {"chunks": chunks, "stands_for": n_samples / len(rows)}


def train_on_chunks(estimator: Any, chunks: DaskRows, few: TrainingProblem, options: TrainingOptions) -> QSDPResult:
    """Train on the statistics of all rows with a squared loss, otherwise on few rows, and certify on all rows.

    The estimator has learned everything except its network from a sample of the rows, whose problem is `few`.
    """
    encoded = chunks.map(partial(_coded_chunk, estimator))
    if few.loss.quadratic:
        statistics = SufficientStatistics.from_batches(encoded, device=options.device)
        return run_pipeline(few, options, statistics=statistics)
    return run_on_batches(few, encoded, options)


def _coded_chunk(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, ...]:
    """Return inputs, targets and weights of the rows of positive weight."""
    rows = Rows.from_chunk(X, y, sample_weight)
    if not len(rows):
        return rows.X, rows.y, rows.weights
    coded: tuple[Any, ...] = estimator._coded_rows(estimator._validated(rows.X, rows.y, rows.weights, reset=False))
    return coded
