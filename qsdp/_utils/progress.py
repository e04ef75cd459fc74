"""Progress of long calls: solvers and refinements report to the bar of their stage, which a display shows."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from qsdp._utils.bars import Bars

__all__ = ["NO_BAR", "SILENT", "ProgressBar", "Report", "Stages", "progress"]

#: Called with the amount done, the total and figures of one stage. None means unknown; for figures, unchanged.
Report = Callable[[float | None, float | None, str | None], object]


class _Gapped(Protocol):
    """Interface of objects with objective and relative gap, such as arguments of callbacks."""

    @property
    def objective(self) -> float: ...
    @property
    def relative_gap(self) -> float: ...


class ProgressBar:
    """Progress bar of one stage; its methods return None, so that they never stop a solver when used as callbacks."""

    def __init__(self, report: Report | None = None, tol: float | None = None) -> None:
        self._report, self._tol = report, tol

    @property
    def shown(self) -> bool:
        """Whether the bar is visible, so that reports can be skipped otherwise."""
        return self._report is not None

    def gap(self, state: _Gapped, part: int = 0, parts: int = 1) -> None:
        """Show objective and gap of part `part` of `parts`, which are processed in order."""
        self.measure(state.relative_gap, f"objective {state.objective:.6g}, gap {state.relative_gap:.1e}", part, parts)

    def measure(self, value: float, figures: str, part: int = 0, parts: int = 1) -> None:
        """Show a measure that falls from 1 to the stage's tolerance; the bar is logarithmic."""
        if self._tol is not None:
            self.count(part + _fraction_done(value, self._tol), parts, figures)

    def count(self, done: float | None, total: float | None, figures: str = "") -> None:
        """Show the number of finished items, of a total that may be unknown (None)."""
        if self._report is not None:
            self._report(done, total, figures)

    def sweep(self, number: int, objective: float) -> None:
        """Show the objective after a number of sweeps, whose total is unknown."""
        self.count(None, None, f"objective {objective:.6g}, sweep {number}")


NO_BAR = ProgressBar()


class Stages:
    """Stages of one display, or of none; an automatic display was not requested explicitly."""

    def __init__(self, display: Bars | None, *, automatic: bool = False) -> None:
        self._display, self.automatic = display, automatic

    @property
    def shown(self) -> bool:
        """Whether the stages are visible."""
        return self._display is not None

    @contextmanager
    def stage(self, name: str, tol: float | None = None) -> Iterator[ProgressBar]:
        """Show a stage while the context is open; its bar shows reported progress, and is full at the end."""
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
    """Open a display of stages on standard error if `verbose`, else a silent one.

    None shows the stages of calls of more than two seconds in a notebook, unless an enclosing call has a display.
    Otherwise, stages join the display of an enclosing call. A transient display is erased at the end.
    """
    global _current
    automatic, notebook = verbose is None, _in_notebook()
    if not (verbose or (automatic and (notebook if _current is None else _current.automatic))):
        yield SILENT
        return
    with _turn:
        outer = _current
        if outer is None:
            from qsdp._utils.bars import Bars

            bars = Bars(transient=transient, automatic=automatic, notebook=notebook)
            _current = stages = Stages(bars, automatic=automatic)
    if outer is not None:
        yield outer
        return
    try:
        with bars.running():
            yield stages
    finally:
        _current = None


def _in_notebook() -> bool:
    """Whether the code runs in the kernel of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def _fraction_done(measure: float, tol: float) -> float:
    """Compute progress from 1 to the tolerance as a fraction, in orders of magnitude."""
    if not measure < 1.0:
        return 0.0
    return 1.0 if measure <= tol else math.log(measure) / math.log(tol)
