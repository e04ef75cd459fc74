"""Fits to batches and Dask collections: steps that need individual rows use a sample, the others stream all rows."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from typing import Any

import numpy as np

from qsdp.exceptions import InvalidTypeError
from qsdp.options import TrainingOptions
from qsdp.pipeline import QSDPResult, run_on_batches, run_pipeline
from qsdp.problem import TrainingProblem
from qsdp.statistics import SufficientStatistics
from qsdp.statistics.collections import RowBatches, RowChunks, Rows, is_collection
from qsdp.statistics.dask_statistics import statistics_of_chunks

__all__ = ["SAMPLE", "rows_here", "train_on_collections"]

#: Rows of the sample for encoding, beta, polishing and losses other than squared.
SAMPLE = 20_000

#: Number of rows between saves of the statistics of batches.
_EVERY = 2**21


def rows_here(X: Any, y: Any, sample_weight: Any, *, missing: bool) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return data, targets and weights unchanged, or a sample of batches or Dask collections, with options to train.

    The options are all chunks and how many of their rows each row of the sample represents. With `missing`, entries of
    X may be missing.
    """
    chunks: RowBatches | RowChunks
    if isinstance(X, RowBatches):
        if y is not None or sample_weight is not None:
            raise InvalidTypeError("X in batches contains its targets and weights: y and sample_weight must be None")
        chunks = X
    elif is_collection(X):
        chunks = RowChunks(X, y, sample_weight)
    else:
        if is_collection(y):
            raise InvalidTypeError(f"X must be a Dask collection, since y is one; got {type(X).__name__}")
        return X, y, sample_weight, {}
    rows, n_samples = chunks.sample(SAMPLE, 0, missing=missing)
    return rows.X, rows.y, rows.weights, {"chunks": chunks, "stands_for": n_samples / len(rows)}


def train_on_collections(
    estimator: Any, chunks: RowBatches | RowChunks, few: TrainingProblem, options: TrainingOptions
) -> QSDPResult:
    """Train on the statistics of all rows with a squared loss, otherwise on few rows, and certify on all rows.

    The estimator has learned everything except its network from a sample of the rows, whose problem is `few`.
    """
    encode = partial(_coded_chunk, estimator)
    if few.loss.quadratic:
        if isinstance(chunks, RowChunks):
            statistics = statistics_of_chunks(chunks, encode, options.device)
        else:
            statistics = SufficientStatistics.from_batches(
                chunks.stream(encode),
                checkpoint=_checkpoint(estimator, chunks.checkpoint),
                every=_EVERY,
                device=options.device,
            )
        return run_pipeline(few, options, statistics=statistics)
    return run_on_batches(few, partial(chunks.stream, encode), options)


def _checkpoint(estimator: Any, path: str | os.PathLike[str] | None) -> str | None:
    """Return the name of a file for the statistics of exactly this encoding of rows and targets."""
    if path is None:
        return None
    encoder, scaling = estimator.encoder_, estimator.target_scaling_
    encoding = getattr(encoder, "encoding_", None)
    coded = repr(encoder) if encoding is None else json.dumps(encoding.to_state(), sort_keys=True)
    factors = getattr(estimator, "_class_factors", None)
    identity = repr((coded, estimator.constant_, scaling.offset.tolist(), scaling.scale.tolist(), np.asarray(factors)))
    return f"{os.fspath(path)}.{hashlib.sha256(identity.encode()).hexdigest()}"


def _coded_chunk(estimator: Any, number: int, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, ...]:
    """Return inputs, targets and weights of the rows of positive weight; `number` is that of the chunk."""
    del number
    rows = Rows.of(X, y, sample_weight)
    if not len(rows):
        return rows.X, rows.y, rows.weights
    coded: tuple[Any, ...] = estimator._coded_rows(estimator._validated(rows.X, rows.y, rows.weights, reset=False))
    return coded
