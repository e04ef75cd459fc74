"""Progress of long calls: a line and a bar for every stage, on terminals and in notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["SILENT", "Line", "Stages", "shown_stages"]


class _Gapped(Protocol):
    """What a callback of an iterative method is told."""

    @property
    def objective(self) -> float: ...
    @property
    def relative_gap(self) -> float: ...


class Line:
    """The line of one stage, to be told how far that is; whatever it is told, it asks nobody to stop."""

    def __init__(self, bar: Progress | None, task: TaskID, tol: float | None) -> None:
        self._bar, self._task, self._tol = bar, task, tol

    def closing(self, one: _Gapped) -> None:
        """Show objective and gap; the bar is full at the tolerance, in orders of magnitude."""
        if self._bar is not None and self._tol is not None:
            figures = f"objective {one.objective:.6g}, gap {one.relative_gap:.1e}"
            self._bar.update(self._task, total=1.0, completed=_share(one.relative_gap, self._tol), figures=figures)

    def sweep(self, number: int, objective: float) -> None:
        """Show an objective after a number of sweeps, of which nobody knows how many there will be."""
        if self._bar is not None:
            self._bar.update(self._task, figures=f"objective {objective:.6g}, sweep {number}")


class Stages:
    """Lines of one call; None shows nothing."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar

    @property
    def shown(self) -> bool:
        """Whether anybody sees them: callbacks cost a little."""
        return self._bar is not None

    @contextmanager
    def stage(self, name: str, tol: float | None = None) -> Iterator[Line]:
        """Show a stage while it runs, of which nothing is known but what its line is told; full once it is over."""
        if self._bar is None:
            yield Line(None, TaskID(0), tol)
            return
        task = self._bar.add_task(name, total=None, figures="")
        yield Line(self._bar, task, tol)
        self._bar.update(task, total=1.0, completed=1.0)


SILENT = Stages(None)


@contextmanager
def shown_stages(verbose: bool) -> Iterator[Stages]:
    """Yield stages that are shown on the standard error, or in the notebook, where `verbose`, and are silent else."""
    if not verbose:
        yield SILENT
        return
    columns = (TextColumn("{task.description:7}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, TextColumn("{task.fields[figures]}"), console=console) as bar:
        yield Stages(bar)


def _share(gap: float, tol: float) -> float:
    """Return what share of the way from a gap of 1 to the tolerance is done, in orders of magnitude."""
    if not gap < 1.0:
        return 0.0
    return 1.0 if gap <= tol else math.log(gap) / math.log(tol)
