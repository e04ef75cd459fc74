"""Division of work over many samples or neurons into chunks and threads, and refusal of what exceeds the memory."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from qsdp._utils import deadline
from qsdp._utils.progress import ProgressBar
from qsdp._utils.summary import in_units
from qsdp._utils.validation import check_jobs
from qsdp.exceptions import InvalidInputError

__all__ = [
    "CACHE_FLOATS",
    "FAST_FLOATS",
    "LARGE_FLOATS",
    "WORK_FLOATS",
    "CountedParallel",
    "blas_threads",
    "chunks",
    "count_jobs",
    "few_threads",
    "format_bytes",
    "in_threads",
    "main_memory",
    "require_memory",
]

#: Floats of one temporary array, 8 MiB: full speed of linear algebra, and still in the cache.
WORK_FLOATS = 2**20

#: Floats of temporary arrays that stay in the fast part of the cache of a core, 128 KiB.
FAST_FLOATS = 2**14

#: Floats that stay in the cache of a core for several passes, 2 MiB.
CACHE_FLOATS = 2**18

#: Floats of an array whose products should be few and large, 32 MiB.
LARGE_FLOATS = 2**22

#: File with the memory limit of a container on Linux.
_CONTAINER = Path("/sys/fs/cgroup/memory.max")

Item = TypeVar("Item")


def chunks(count: int, floats: int, minimum: int = 1, work: int | None = None) -> list[slice]:
    """Split ``range(count)`` into slices whose items, of `floats` floats each, fit into one temporary array.

    All slices but the last have `minimum` items or more, of any size. The array has `work` or WORK_FLOATS floats.
    """
    step = max(minimum, (work or WORK_FLOATS) // max(1, floats))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def count_jobs(n_jobs: int | None) -> int:
    """Resolve `n_jobs` to a number of threads, as in joblib; None is one unless a context sets more.

    Raises
    ------
    InvalidInputError
        `n_jobs` is zero.
    """
    return int(effective_n_jobs(check_jobs(n_jobs)))


def in_threads(work: Callable[[Item], object], items: Iterable[Item], n_jobs: int) -> None:
    """Call `work` for every item, in `n_jobs` threads; calls must not write to the same memory.

    Items are drawn from the iterator in order, as threads become free: at most twice as many as there are threads are
    pending. The calls share the cores for their linear algebra.
    """
    if n_jobs == 1:
        for item in items:
            work(item)
        return
    threads = max(1, (os.cpu_count() or 1) // n_jobs)
    with blas_threads(min([threads, *(library["num_threads"] for library in _controller().info())])):
        # Once, since joblib draws later items in a thread of its own.
        carried = delayed(deadline.carried(work))
        Parallel(n_jobs=n_jobs, require="sharedmem")(carried(item) for item in items)


class CountedParallel(Parallel):  # type: ignore[misc]
    """joblib's `Parallel` with a progress bar of finished tasks."""

    def __init__(self, n_jobs: int | None, bar: ProgressBar, total: int, **options: Any) -> None:
        super().__init__(n_jobs=n_jobs, **options)
        self._bar, self._total = bar, total

    def print_progress(self) -> None:
        """Advance the bar; called by joblib after every task or batch of them."""
        self._bar.count(self.n_completed_tasks, self._total, f"{self.n_completed_tasks} of {self._total}")


def blas_threads(limit: int | None) -> AbstractContextManager[object]:
    """Limit the threads of a linear-algebra call to `limit` inside a context; None changes nothing."""
    # Setting and resetting threads takes ten times longer than querying them. None is an unknown number.
    if limit is None or all(1 <= (library.num_threads or 0) <= limit for library in _controller().lib_controllers):
        return nullcontext()
    limited: AbstractContextManager[object] = _controller().limit(limits=limit)
    return limited


def few_threads(*, small: bool) -> AbstractContextManager[object]:
    """Limit linear algebra to one thread inside a context if products are `small`, since threads would only wait."""
    return blas_threads(1 if small else None)


@functools.cache
def _controller() -> ThreadpoolController:
    # Finding the libraries takes longer than a small polish.
    return ThreadpoolController()


@functools.lru_cache(maxsize=1)
def main_memory() -> float:
    """Return the bytes of main memory, of the machine or the container; infinity if unknown."""
    try:
        machine = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        machine = math.inf
    try:
        return min(machine, float(_CONTAINER.read_text(encoding="ascii")))
    except (OSError, ValueError):
        # There is no container, or its limit is the word "max".
        return machine


def require_memory(needed: float, work: str, size: str, advice: str) -> None:
    """Raise `InvalidInputError` if `work` on data of a `size` needs more bytes than the main memory has."""
    there = main_memory()
    if needed > there:
        raise InvalidInputError(
            f"problem must fit into memory: {work} takes {format_bytes(needed)} at least for {size}, there "
            f"are {format_bytes(there)}; {advice}"
        )


def format_bytes(count: float) -> str:
    """Format a number of bytes, such as "3.2 GB"."""
    amount, unit = in_units(count, ["bytes", "kB", "MB", "GB", "TB"], 1e3)
    return f"{amount:.3g} {unit}"
