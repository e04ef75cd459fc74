"""Progress display by rich: bars on terminals, occasional lines elsewhere; imported only if shown."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["Bars"]


#: Seconds until the first line where bars cannot be drawn; further lines follow when the time has doubled.
_LINE_SECONDS = 10.0

#: The same for a display that nobody asked for; anything from one second to five would do.
_UNASKED_SECONDS = 2.0


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
