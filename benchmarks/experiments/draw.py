"""Pictures: panels, legends and axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qsdp.bench import Record

Records = Sequence[Record]
#: Numbers, one or several, by name of a line and place.
Lines = Mapping[str, Mapping[float, Any]]


def subplots(*shape: int, **options: Any) -> tuple[Any, Any]:
    """Return a figure and its axes, which arrange themselves."""
    import matplotlib.pyplot as plt

    return plt.subplots(*shape, **{"layout": "constrained", "dpi": 120, **options})


def saved(plot: Callable[[Records], Any]) -> Callable[[Records, Path], None]:
    """Return what writes the figure that a function returns, if there is one, to a file, and forgets it."""

    def save(records: Records, path: Path) -> None:
        if (figure := plot(records)) is not None:
            import matplotlib.pyplot as plt

            figure.savefig(path)
            plt.close(figure)

    return save


def curves(panels: Mapping[str, Lines], xlabel: str, ylabel: str, log: str = "", height: float = 3.8) -> Any:
    """Draw a panel of lines for each title, a line of numbers by place for each name: means, of several the deviation.

    `log` has the axes that are logarithmic, "xy" both.
    """
    import matplotlib as mpl

    rows = -(-len(panels) // 4)
    width = -(-len(panels) // rows)
    # Of dozens of panels a picture is a megabyte otherwise.
    dpi = 120 if rows < 4 else 70
    figure, axes = subplots(rows, width, figsize=(4.5 * width + 2.0, height * rows), squeeze=False, dpi=dpi)
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    # Ten strong colours first, then ten light ones.
    colours = sorted(mpl.colormaps["tab20"].colors, key=lambda colour: mpl.colormaps["tab20"].colors.index(colour) % 2)
    for axis, (title, lines) in zip(axes.flat, panels.items(), strict=False):
        for name, points in lines.items():
            places = sorted(points)
            numbers = [np.ravel(points[place]) for place in places]
            errors = [one.std(ddof=1) if len(one) > 1 else 0.0 for one in numbers]
            look = {"fmt": "o-", "ms": 4, "capsize": 3, "color": colours[names.index(name) % 20], "label": name}
            axis.errorbar(places, [one.mean() for one in numbers], errors if any(errors) else None, **look)
        axis.set(title=title, xlabel=xlabel, **{f"{one}scale": "log" for one in log})
        label_decades(axis)
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel(ylabel)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    legend(figure, axes)
    return figure


def legend(figure: Any, axes: Any) -> None:
    """Name what is drawn in all panels, each once, at the right of them."""
    entries = [ax.get_legend_handles_labels() for ax in np.ravel(axes)]
    handles = {label: line for lines, labels in entries for line, label in zip(lines, labels, strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize="small")


def label_decades(axes: Any) -> None:
    """Label a logarithmic axis of both by its decades; over less than two of them by 1, 2 and 5, too."""
    from matplotlib.ticker import LogLocator, NullFormatter

    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        if axis.get_scale() != "log" or not 0.0 < low < high:
            continue
        if high < 100.0 * low:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high > 3.0 * low else range(1, 10)))
            axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
