"""Measurements in separate processes, and their peak memory."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from threadpoolctl import threadpool_limits

from qsdp.datasets import _fetch
from qsdp.exceptions import DatasetError

Measure = Callable[[dict[str, Any]], dict[str, Any]]

#: What most measurements import. A server that has loaded it forks a new process for each of them.
_PRELOADED = ("qsdp.estimators", "qsdp.column_generation", "qsdp.pipeline", "sklearn.linear_model")

#: Script that prints a program's seconds and peak; small itself, since a program's peak starts at that of its parent.
_APART = """
import resource, subprocess, sys, time
start = time.perf_counter()
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, status)
"""


def in_own_process(
    measure: Measure,
    case: dict[str, Any],
    *,
    threads: int | None = None,
    memory: float | None = None,
    stop: float | None = None,
) -> dict[str, Any]:
    """Return the measurement of a case by a function of a module, in a new process.

    The process has `threads` BLAS threads (by default as many as this one) and at most `memory` GiB; it is terminated
    after `stop` seconds. A `RuntimeError` says that it failed, was stopped, or ended without an answer, and by which
    signal. Missing data and packages raise the errors that the measurement raised.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", *_PRELOADED])
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(measure, case, threads, memory, _fetch.failed_downloads, sender))
    child.start()
    sender.close()
    try:
        if not receiver.poll(stop):
            child.terminate()
            raise RuntimeError(f"stopped after {stop:.0f} s")
        found = receiver.recv()
    except EOFError:
        child.join()
        ended = f" by {signal.Signals(-child.exitcode).name}" if (child.exitcode or 0) < 0 else ""
        raise RuntimeError(f"the process of {case} ended without an answer{ended}") from None
    finally:
        child.join()
    if isinstance(found, str):
        raise RuntimeError(found)
    if isinstance(found, tuple):
        error, _fetch.failed_downloads = found
        raise error
    return found


def _send(
    measure: Measure,
    case: dict[str, Any],
    threads: int | None,
    memory: float | None,
    failed_downloads: dict[_fetch.RawFile, str] | None,
    sender: Any,
) -> None:
    _fetch.failed_downloads = failed_downloads
    if threads is not None:
        # The server has loaded NumPy's BLAS; libraries that are loaded later read the environment.
        os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)))
        threadpool_limits(threads)
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (int(memory * 2**30),) * 2)
    try:
        sender.send(measure(case))
    except (DatasetError, ImportError) as error:
        sender.send((error, _fetch.failed_downloads))
    except Exception as error:
        sender.send(f"{type(error).__name__}: {error}")


def program(command: list[Any], cwd: str | None = None, timeout: float | None = None) -> tuple[float, float, int]:
    """Run a program; return its seconds, its peak memory in MiB and its exit status."""
    # With a time limit of its own, `subprocess` looks at the clock only every 50 ms.
    limited = ["timeout", str(timeout)] if timeout is not None else []
    apart = [*limited, sys.executable, "-S", "-E", "-c", _APART, *map(os.fspath, command)]
    ran = subprocess.run(apart, cwd=cwd, capture_output=True, text=True, check=True)
    seconds, kib, status = ran.stdout.split()
    return float(seconds), int(kib) / 1024, int(status)


def installed(*programs: str) -> bool:
    """Return whether all given programs are installed; quick runs skip the cases of missing ones."""
    return all(map(shutil.which, programs))


def available_gib() -> float:
    """Return the available memory in GiB."""
    return _entry("/proc/meminfo", "MemAvailable:") / 2**30


@contextmanager
def processor_clock() -> Iterator[None]:
    """Make the clocks of this process, which time limits use too, count its CPU time."""
    with mock.patch.multiple(time, monotonic=time.process_time, perf_counter=time.process_time):
        yield


def begin_peak() -> int:
    """Return the resident bytes of this process, and restart its peak from there if the system permits."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return _entry("/proc/self/status", "VmRSS:")
    return peak()


def peak() -> int:
    """Return the largest resident size in bytes since `begin_peak`.

    It is read from Linux's process table, since the value in `resource` starts at the size of the process that started
    this one.
    """
    return _entry("/proc/self/status", "VmHWM:")


def _entry(table: str, name: str) -> int:
    lines = Path(table).read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))
