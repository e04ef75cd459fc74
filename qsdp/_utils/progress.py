"""Progress of long calls: solvers and refinements report to the bar of their stage, which a display by rich shows."""

from __future__ import annotations

import functools
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

__all__ = ["NO_BAR", "SILENT", "Bars", "ProgressBar", "Report", "Stages", "progress"]

#: Called with the amount done, the total and figures of one stage. None means unknown; for figures, unchanged.
Report = Callable[[float | None, float | None, str | None], object]

#: Seconds until the first line where bars cannot be drawn; further lines follow when the time has doubled.
_LINE_SECONDS = 10.0

#: The same for a display that nobody asked for; anything from one second to five would do.
_UNASKED_SECONDS = 2.0


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


class Bars:
    """Display of stages on standard error: name, bar, time and figures of each.

    In a `notebook`, or if the console is not a terminal, lines report on the running stage: after ten seconds (two, if
    `automatic`), and then whenever the elapsed time has doubled, also if the stage itself reports nothing. Logs of
    short calls stay empty, and logs of long calls short. An automatic or transient display leaves nothing but such
    lines.
    """

    def __init__(
        self,
        *,
        console: Console | None = None,
        transient: bool = False,
        automatic: bool = False,
        notebook: bool = False,
    ) -> None:
        # Importing rich takes longer than small calls, which show nothing.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        # Names may contain file names with brackets, which are not markup.
        name, figures = (TextColumn(text, markup=False) for text in ("{task.description:7}", "{task.fields[figures]}"))
        columns = name, BarColumn(), TimeElapsedColumn(), figures
        # Bars in notebooks need a package that may be missing, and kernels pretend to be terminals.
        plain: dict[str, Any] = {"force_jupyter": False, "force_terminal": False} if notebook else {}
        console = console or Console(stderr=True, highlight=False, **plain)
        self.progress = Progress(*columns, console=console, transient=transient or automatic)
        self._drawn = self.progress.console.is_terminal
        self._began = time.monotonic()
        self._next_line = _UNASKED_SECONDS if automatic else _LINE_SECONDS
        self._printing = threading.Lock()

    def add(self, name: str) -> Callable[[float | None, float | None, str | None], None]:
        """Add a line for a stage; return the function that updates it."""
        return functools.partial(self._update, self.progress.add_task(name, total=None, figures=""))

    def _update(self, task: TaskID, done: float | None, total: float | None, figures: str | None) -> None:
        fields: dict[str, Any] = {} if figures is None else {"figures": figures}
        self.progress.update(task, total=total, completed=done, **fields)
        if figures:
            self._print_if_due()

    def _print_if_due(self) -> None:
        """Print a line about the innermost running stage where bars cannot be drawn, if it is time for one."""
        with self._printing:
            seconds = time.monotonic() - self._began
            running = [task for task in self.progress.tasks if not task.finished]
            if self._drawn or not running or seconds < self._next_line:
                return
            self._next_line = 2.0 * seconds
            task = running[-1]
            percentage = f" {task.percentage:.0f}%" if task.completed and task.total else ""
            figures = f": {task.fields['figures']}" if task.fields["figures"] else ""
            line = f"{seconds:.0f} s, {task.description}{percentage}{figures}"
            self.progress.console.print(line, markup=False, soft_wrap=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep the display up to date until the block ends."""
        if self._drawn:
            with self.progress:
                yield
            return
        ended = threading.Event()

        def watch() -> None:
            # Long steps report nothing until they end. Between two stages a due line waits for a tenth of a second.
            wait = 0.0
            while not ended.wait(min(max(0.1, wait), threading.TIMEOUT_MAX)):
                self._print_if_due()
                wait = self._next_line - (time.monotonic() - self._began)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            # Of a transient display only lines may remain, and rich would leave an empty one.
            with nullcontext() if self.progress.live.transient else self.progress:
                yield
        finally:
            ended.set()
            thread.join()


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
