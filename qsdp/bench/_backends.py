"""Calls in parallel by any back end of joblib, their answers as soon as there are any."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from joblib import Parallel, effective_n_jobs, parallel_config

from qsdp.exceptions import InvalidInputError

__all__ = ["check_backend", "in_parallel"]


def check_backend(backend: str | None) -> None:
    """Make a back end ready that other packages bring; refuse one that nobody knows.

    Raises
    ------
    InvalidInputError
        It is no back end of joblib and was not registered, or the package that brings it is not installed.
    """
    connect = _BROUGHT.get(backend or "")
    try:
        if connect is not None:
            connect()
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
    """Yield what calls return, in the order in which they are finished.

    Parameters
    ----------
    calls : sequence of joblib.delayed
    n_jobs : int or None
    backend : str or None
        One that `check_backend` lets pass.
    """
    with _chosen(backend):
        together = Parallel(n_jobs=n_jobs)
        try:
            one_by_one = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        except ValueError:
            # A back end that only has answers once all of them are there.
            size = effective_n_jobs(n_jobs)
            with together:
                for first in range(0, len(calls), size):
                    yield from together(calls[first : first + size])
            return
    yield from one_by_one(calls)


def _chosen(backend: str | None) -> AbstractContextManager[Any]:
    chosen: AbstractContextManager[Any] = nullcontext() if backend is None else parallel_config(backend=backend)
    return chosen


def _connect_dask() -> None:
    """Find a client or make one, as joblib asks for one."""
    distributed = importlib.import_module("distributed")
    try:
        distributed.get_client()
    except ValueError:
        distributed.Client()


def _register_ray() -> None:
    importlib.import_module("ray.util.joblib").register_ray()


#: What has to be done before joblib knows a back end.
_BROUGHT: Mapping[str, Callable[[], None]] = {"dask": _connect_dask, "ray": _register_ray}
