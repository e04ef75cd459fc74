"""Threads of the linear algebra, where several only wait for one another."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["few_threads"]


@functools.cache
def _controller() -> ThreadpoolController:
    # Finding the libraries takes longer than a small polish.
    return ThreadpoolController()


def few_threads(*, small: bool) -> AbstractContextManager[object]:
    """Return a context of one thread where products are `small`, else one that changes nothing."""
    if not small:
        return nullcontext()
    limited: AbstractContextManager[object] = _controller().limit(limits=1)
    return limited
