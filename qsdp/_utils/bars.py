"""Progress bars drawn by rich: a line for every stage, on terminals and in notebooks; imported where one is shown."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["Bars", "make_console"]


class Bars:
    """One display of stages: name, bar, time and figures of each."""

    def __init__(self, *, console: Console | None = None, transient: bool = False) -> None:
        # Names may be those of files, with brackets that are no markup.
        name, figures = (TextColumn(text, markup=False) for text in ("{task.description:7}", "{task.fields[figures]}"))
        columns = name, BarColumn(), TimeElapsedColumn(), figures
        self.progress = Progress(*columns, console=console or make_console(), transient=transient)

    def add(self, name: str) -> Callable[[float | None, float | None, str | None], None]:
        """Add the line of a stage, of which nothing is known yet."""
        return functools.partial(self._update, self.progress.add_task(name, total=None, figures=""))

    def _update(self, task: TaskID, done: float | None, total: float | None, figures: str | None) -> None:
        fields: dict[str, Any] = {} if figures is None else {"figures": figures}
        self.progress.update(task, total=total, completed=done, **fields)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep the display up to date until the block ends."""
        with self.progress:
            yield
            if self.progress.console.is_jupyter:
                # On terminals rich does it itself; a widget would keep what was there a moment ago.
                self.progress.refresh()


def make_console() -> Console:
    """Return the console of the standard error."""
    return Console(stderr=True, highlight=False)
