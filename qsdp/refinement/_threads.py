"""Threads of the linear algebra, where several only wait for one another."""

from __future__ import annotations

from contextlib import AbstractContextManager

from qsdp._work import blas_threads

__all__ = ["few_threads"]


def few_threads(*, small: bool) -> AbstractContextManager[object]:
    """Return a context of one thread where products are `small`, else one that changes nothing."""
    return blas_threads(1 if small else None)
