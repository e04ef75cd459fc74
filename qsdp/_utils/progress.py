"""Progress of long calls: solvers and refinements report to the bar of their stage, which `bars` draws if asked."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["NO_BAR", "SILENT", "ProgressBar", "Report", "Stages", "progress"]

#: Called with the amount done, the total and figures of one stage. None: not known, or for figures as they are.
Report = Callable[[float | None, float | None, str | None], object]


class _Display(Protocol):
    """Where stages are shown."""

    def add(self, name: str) -> Report:
        """Add a stage."""


class _Gapped(Protocol):
    """What a callback of an iterative method is told."""

    @property
    def objective(self) -> float: ...
    @property
    def relative_gap(self) -> float: ...


class ProgressBar:
    """The bar of one stage, to be told how far that is; whatever it is told, it asks nobody to stop."""

    def __init__(self, report: Report | None = None, tol: float | None = None) -> None:
        self._report, self._tol = report, tol

    @property
    def shown(self) -> bool:
        """Whether anybody sees it: callbacks cost a little."""
        return self._report is not None

    def gap(self, one: _Gapped, part: int = 0, parts: int = 1) -> None:
        """Show objective and gap, of one part of several where the others are done or have not begun."""
        self.measure(one.relative_gap, f"objective {one.objective:.6g}, gap {one.relative_gap:.1e}", part, parts)

    def measure(self, value: float, figures: str, part: int = 0, parts: int = 1) -> None:
        """Show a measure on its way from 1 to the stage's tolerance; the bar counts orders of magnitude."""
        if self._tol is not None:
            self.count(part + _share(value, self._tol), parts, figures)

    def count(self, done: float | None, total: float | None, figures: str = "") -> None:
        """Show how many are done, of a known number or (None) of one that nobody knows."""
        if self._report is not None:
            self._report(done, total, figures)

    def sweep(self, number: int, objective: float) -> None:
        """Show an objective after a number of sweeps, of which nobody knows how many there will be."""
        self.count(None, None, f"objective {objective:.6g}, sweep {number}")


NO_BAR = ProgressBar()


class Stages:
    """Stages of one display; None shows nothing."""

    def __init__(self, display: _Display | None) -> None:
        self._display = display

    @property
    def shown(self) -> bool:
        """Whether anybody sees them."""
        return self._display is not None

    @contextmanager
    def stage(self, name: str, tol: float | None = None) -> Iterator[ProgressBar]:
        """Show a stage while it runs, of which nothing is known but what its bar is told; full once it is over."""
        if self._display is None:
            yield NO_BAR
            return
        report = self._display.add(name)
        yield ProgressBar(report, tol)
        report(1.0, 1.0, None)


SILENT = Stages(None)

#: The display there is: calls inside others, in whatever thread, add their stages to it.
_current: Stages | None = None
_turn = threading.Lock()


@contextmanager
def progress(verbose: bool, *, transient: bool = False) -> Iterator[Stages]:
    """Yield stages that are shown on the standard error, or in the notebook, where `verbose`, and are silent else.

    Inside a call that shows its own they join the same display. A transient one is wiped out in the end.
    """
    global _current
    if not verbose:
        yield SILENT
        return
    from qsdp._utils.bars import Bars

    with _turn:
        outer = _current
        if outer is None:
            bars = Bars(transient=transient)
            _current = own = Stages(bars)
    if outer is not None:
        yield outer
        return
    try:
        with bars.running():
            yield own
    finally:
        _current = None


def _share(measure: float, tol: float) -> float:
    """Return what share of the way from 1 to the tolerance is done, in orders of magnitude."""
    if not measure < 1.0:
        return 0.0
    return 1.0 if measure <= tol else math.log(measure) / math.log(tol)
