"""Parallel calls with any joblib back end, whose results are yielded as they arrive."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from joblib import Parallel, effective_n_jobs, parallel_config

from qsdp.exceptions import InvalidInputError

__all__ = ["check_backend", "in_parallel"]


def check_backend(backend: str | None) -> None:
    """Register the back end of another package if need be, and raise unless joblib knows it.

    Raises
    ------
    InvalidInputError
        The back end is not registered with joblib, or its package is not installed.
    """
    try:
        if backend == "dask":
            _connect_dask()
        elif backend == "ray":
            importlib.import_module("ray.util.joblib").register_ray()
        with _chosen(backend):
            Parallel()
    except ImportError as error:
        raise InvalidInputError(f"backend {backend!r} needs a package that is not installed: {error}") from None
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"backend must be one of joblib's, 'dask', 'ray' or one registered with joblib.register_parallel_backend; "
            f"got {backend!r}: {error}"
        ) from None


def in_parallel(calls: Sequence[Any], n_jobs: int | None, backend: str | None) -> Iterator[Any]:
    """Yield the results of joblib's delayed calls in the order in which they finish."""
    with _chosen(backend):
        try:
            unordered = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        except ValueError:
            # A back end that cannot return results one by one gets batches of one call per job.
            size = effective_n_jobs(n_jobs)
            with Parallel(n_jobs=n_jobs) as batch:
                for first in range(0, len(calls), size):
                    yield from batch(calls[first : first + size])
            return
    yield from unordered(calls)


def _chosen(backend: str | None) -> AbstractContextManager[Any]:
    chosen: AbstractContextManager[Any] = nullcontext() if backend is None else parallel_config(backend=backend)
    return chosen


def _connect_dask() -> None:
    """Create a client, which joblib requires, if there is none."""
    distributed = importlib.import_module("distributed")
    try:
        distributed.get_client()
    except ValueError:
        distributed.Client()
