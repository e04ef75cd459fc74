"""Progress of long calls: solvers and refinements report to the bar of their stage, which `bars` draws if asked."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from qsdp._utils.notebook import NotebookTable, in_notebook

__all__ = ["NO_BAR", "SILENT", "ProgressBar", "Report", "Stages", "progress"]

#: Seconds after which a notebook shows what nobody asked for; anything from one to five would do.
_DELAY = 2.0

#: Called with the amount done, the total and figures of one stage. None means unknown; for figures, unchanged.
Report = Callable[[float | None, float | None, str | None], object]


class _Display(Protocol):
    """Display that shows stages."""

    def add(self, name: str) -> Report:
        """Add a stage."""

    def running(self) -> AbstractContextManager[None]:
        """Keep the display up to date until the block ends."""


class _Gapped(Protocol):
    """Argument of a callback of an iterative method."""

    @property
    def objective(self) -> float: ...
    @property
    def relative_gap(self) -> float: ...


class ProgressBar:
    """Bar of one stage, whose methods report its progress and return None: they never ask a caller to stop."""

    def __init__(self, report: Report | None = None, tol: float | None = None) -> None:
        self._report, self._tol = report, tol

    @property
    def shown(self) -> bool:
        """Whether the bar is visible: callbacks cost a little time."""
        return self._report is not None

    def gap(self, one: _Gapped, part: int = 0, parts: int = 1) -> None:
        """Show objective and gap of one part of several; the other parts are done or have not started."""
        self.measure(one.relative_gap, f"objective {one.objective:.6g}, gap {one.relative_gap:.1e}", part, parts)

    def measure(self, value: float, figures: str, part: int = 0, parts: int = 1) -> None:
        """Show a measure on its way from 1 to the stage's tolerance; the bar counts orders of magnitude."""
        if self._tol is not None:
            self.count(part + _share(value, self._tol), parts, figures)

    def count(self, done: float | None, total: float | None, figures: str = "") -> None:
        """Show how many items are done, of a known total or, for None, of an unknown one."""
        if self._report is not None:
            self._report(done, total, figures)

    def sweep(self, number: int, objective: float) -> None:
        """Show the objective after a number of sweeps, whose total is unknown."""
        self.count(None, None, f"objective {objective:.6g}, sweep {number}")


NO_BAR = ProgressBar()


class Stages:
    """Stages of one display; None shows nothing. Those of an automatic one were not asked for."""

    def __init__(self, display: _Display | None, *, automatic: bool = False) -> None:
        self._display, self.automatic = display, automatic

    @property
    def shown(self) -> bool:
        """Whether the stages are visible."""
        return self._display is not None

    @contextmanager
    def stage(self, name: str, tol: float | None = None) -> Iterator[ProgressBar]:
        """Show a stage while it runs; its bar shows only reported progress, and is full at the end."""
        if self._display is None:
            yield NO_BAR
            return
        report = self._display.add(name)
        yield ProgressBar(report, tol)
        report(1.0, 1.0, None)


SILENT = Stages(None)

#: Current display: nested calls, in any thread, add their stages to it.
_current: Stages | None = None
_turn = threading.Lock()


@contextmanager
def progress(verbose: bool | int | None, *, transient: bool = False) -> Iterator[Stages]:
    """Yield stages that are shown on the standard error or in the notebook if `verbose`, else silent stages.

    None shows them in a notebook, once they have taken two seconds, unless a call around this one shows its own. Else
    stages inside a call that shows its own join its display. A transient display is erased at the end; a notebook keeps
    it.
    """
    global _current
    notebook, automatic = in_notebook(), verbose is None
    if not (verbose or (automatic and (notebook if _current is None else _current.automatic))):
        yield SILENT
        return
    with _turn:
        outer = _current
        if outer is None:
            bars = NotebookTable(_DELAY if automatic else 0.0) if notebook else _bars(transient)
            _current = own = Stages(bars, automatic=automatic)
    if outer is not None:
        yield outer
        return
    try:
        with bars.running():
            yield own
    finally:
        _current = None


def _bars(transient: bool) -> _Display:
    from qsdp._utils.bars import Bars

    return Bars(transient=transient)


def _share(measure: float, tol: float) -> float:
    """Return the share of the way from 1 to the tolerance that is done, in orders of magnitude."""
    if not measure < 1.0:
        return 0.0
    return 1.0 if measure <= tol else math.log(measure) / math.log(tol)
