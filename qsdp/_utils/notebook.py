"""Progress in notebooks: a table of stages that is updated in place and saved with the notebook."""

from __future__ import annotations

import html
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from qsdp._utils.summary import format_seconds

__all__ = ["NotebookTable", "in_notebook"]

#: Seconds between two updates; a few times a second looks alive.
_PERIOD = 0.25

_CELL = "padding:0 1em 0 0;text-align:left;border:none"


def in_notebook() -> bool:
    """Whether the code runs in the kernel of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


@dataclass
class _Stage:
    name: str
    began: float = field(default_factory=time.monotonic)
    seconds: float | None = None
    done: float | None = None
    total: float | None = None
    figures: str = ""

    def report(self, done: float | None, total: float | None, figures: str | None) -> None:
        """Store a report of `ProgressBar`; figures of None keep the previous ones."""
        self.done, self.total = done, total
        self.figures = self.figures if figures is None else figures
        if figures is None:
            self.seconds = time.monotonic() - self.began

    def cells(self) -> tuple[str, str, str]:
        """Return name, time and figures as text."""
        seconds = time.monotonic() - self.began if self.seconds is None else self.seconds
        return self.name, format_seconds(seconds), self.figures

    def html(self) -> str:
        """Render the stage as an HTML table row."""
        name, seconds, figures = map(html.escape, self.cells())
        share = "" if self.done is None or not self.total else f' value="{min(1.0, self.done / self.total):.3f}"'
        cells = (name, f"<progress{share}></progress>", seconds, figures)
        return f"<tr>{''.join(f'<td style={_CELL!r}>{cell}</td>' for cell in cells)}</tr>"


class NotebookTable:
    """Display of stages as an HTML table, which appears after `delay` seconds: name, bar, time and figures of each."""

    def __init__(self, delay: float = 0.0) -> None:
        self._delay, self._began, self._stages = delay, time.monotonic(), list[_Stage]()
        self._shown: Any = None
        self._over = threading.Event()

    def add(self, name: str) -> Any:
        """Add a row for a stage; return the function that updates it."""
        stage = _Stage(name)
        self._stages.append(stage)
        return stage.report

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep the display up to date until the block ends."""
        thread = threading.Thread(target=self._refresh, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self._show()

    def _refresh(self) -> None:
        while not self._over.wait(_PERIOD):
            self._show()

    def _show(self) -> None:
        display: Any = sys.modules["IPython"].display.display
        if self._shown is None and time.monotonic() - self._began < self._delay:
            return
        stages = list(self._stages)
        text = "\n".join("  ".join(stage.cells()).rstrip() for stage in stages)
        table = f'<table style="border:none">{"".join(stage.html() for stage in stages)}</table>'
        both = {"text/plain": text, "text/html": table}
        if self._shown is None:
            self._shown = display(both, raw=True, display_id=True)
        else:
            self._shown.update(both, raw=True)
