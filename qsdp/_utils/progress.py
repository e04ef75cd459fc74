"""Progress of long calls, all in one display: a line and a bar for every stage, on terminals and in notebooks."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from joblib import Parallel
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["NO_LINE", "SILENT", "CountedParallel", "Line", "Stages", "on_screen", "shown_stages"]


class _Gapped(Protocol):
    """What a callback of an iterative method is told."""

    @property
    def objective(self) -> float: ...
    @property
    def relative_gap(self) -> float: ...


class Line:
    """The line of one stage, to be told how far that is; whatever it is told, it asks nobody to stop."""

    def __init__(self, bar: Progress | None = None, task: TaskID | None = None, tol: float | None = None) -> None:
        self._bar, self._task, self._tol = bar, task, tol

    @property
    def shown(self) -> bool:
        """Whether anybody sees it: callbacks cost a little."""
        return self._bar is not None

    def closing(self, one: _Gapped, part: int = 0, parts: int = 1) -> None:
        """Show objective and gap, of one part of several where the others are done or have not begun."""
        self.falling(one.relative_gap, f"objective {one.objective:.6g}, gap {one.relative_gap:.1e}", part, parts)

    def falling(self, measure: float, figures: str, part: int = 0, parts: int = 1) -> None:
        """Show a measure on its way from 1 to the stage's tolerance; the bar counts orders of magnitude."""
        if self._tol is not None:
            self._show(part + _share(measure, self._tol), parts, figures)

    def count(self, done: float, total: float | None, figures: str = "") -> None:
        """Show how many are done, of a known number or (None) of one that nobody knows."""
        self._show(done, total, figures)

    def sweep(self, number: int, objective: float) -> None:
        """Show an objective after a number of sweeps, of which nobody knows how many there will be."""
        self._show(None, None, f"objective {objective:.6g}, sweep {number}")

    def _show(self, done: float | None, total: float | None, figures: str) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=total, completed=done, figures=figures)


NO_LINE = Line()


class Stages:
    """Lines of one display; None shows nothing."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar

    @property
    def shown(self) -> bool:
        """Whether anybody sees them."""
        return self._bar is not None

    @contextmanager
    def stage(self, name: str, tol: float | None = None) -> Iterator[Line]:
        """Show a stage while it runs, of which nothing is known but what its line is told; full once it is over."""
        if self._bar is None:
            yield NO_LINE
            return
        task = self._bar.add_task(name, total=None, figures="")
        yield Line(self._bar, task, tol)
        self._bar.update(task, total=1.0, completed=1.0)


SILENT = Stages(None)

#: The display there is: calls inside others, in whatever thread, add their lines to it.
_current: Stages | None = None
_turn = threading.Lock()


@contextmanager
def shown_stages(verbose: bool, *, transient: bool = False) -> Iterator[Stages]:
    """Yield stages that are shown on the standard error, or in the notebook, where `verbose`, and are silent else.

    Inside a call that shows its own they are lines of the same display. A transient one is wiped out in the end.
    """
    global _current
    if not verbose:
        yield SILENT
        return
    with _turn:
        outer = _current
        if outer is None:
            bar = Progress(*_columns(), console=_console(), transient=transient)
            _current = own = Stages(bar)
    if outer is not None:
        yield outer
        return
    try:
        with bar:
            yield own
            if bar.console.is_jupyter:
                # On terminals rich does it itself; a widget would keep what was there a moment ago.
                bar.refresh()
    finally:
        _current = None


def on_screen() -> bool:
    """Return whether the standard error is a terminal, or this is a notebook."""
    console = _console()
    return console.is_terminal or console.is_jupyter


class CountedParallel(Parallel):  # type: ignore[misc]
    """joblib's `Parallel`, any back end, whose finished tasks are counted on a line."""

    def __init__(self, n_jobs: int | None, line: Line, total: int, **options: Any) -> None:
        super().__init__(n_jobs=n_jobs, **options)
        self._line, self._total = line, total

    def print_progress(self) -> None:
        """Advance the line; called by joblib after every task or batch of them."""
        self._line.count(self.n_completed_tasks, self._total, f"{self.n_completed_tasks} of {self._total}")


def _console() -> Console:
    return Console(stderr=True, highlight=False)


def _columns() -> list[Any]:
    # Names may be those of files, with brackets that are no markup.
    name, figures = (TextColumn(text, markup=False) for text in ("{task.description:7}", "{task.fields[figures]}"))
    return [name, BarColumn(), TimeElapsedColumn(), figures]


def _share(measure: float, tol: float) -> float:
    """Return what share of the way from 1 to the tolerance is done, in orders of magnitude."""
    if not measure < 1.0:
        return 0.0
    return 1.0 if measure <= tol else math.log(measure) / math.log(tol)
