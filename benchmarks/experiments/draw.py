"""Figures of experiments: panels of curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qsdp.bench import Record

Records = Sequence[Record]
#: One or several numbers, by the name of a curve and the place on the horizontal axis.
Lines = Mapping[str, Mapping[float, Any]]


def saved(plot: Callable[[Records], Any]) -> Callable[[Records, Path], None]:
    """Return a function that saves the figure of `plot`, if there is one, to a file and closes it."""

    def save(records: Records, path: Path) -> None:
        if (figure := plot(records)) is not None:
            import matplotlib.pyplot as plt

            figure.savefig(path)
            plt.close(figure)

    return save


def curves(panels: Mapping[str, Lines], xlabel: str, ylabel: str, log: str = "", height: float = 3.8) -> Any:
    """Draw a panel per title and a curve per name: means of the numbers at each place, with deviations of several.

    `log` contains the logarithmic axes, "xy" for both.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    rows = -(-len(panels) // 4)
    width = -(-len(panels) // rows)
    # At full resolution, a figure with dozens of panels takes a megabyte.
    look = {"layout": "constrained", "dpi": 120 if rows < 4 else 70, "squeeze": False}
    figure, axes = plt.subplots(rows, width, figsize=(max(4.5 * width, 7.5) + 2.0, height * rows), **look)
    # The ten strong colours come before the ten light ones.
    strong = mpl.colormaps["tab20"].colors
    colours, drawn = (*strong[::2], *strong[1::2]), {}
    for axis, (title, lines) in zip(axes.flat, panels.items(), strict=False):
        for name, points in lines.items():
            places = sorted(points)
            numbers = [np.ravel(points[place]) for place in places]
            errors = [one.std(ddof=1) if len(one) > 1 else 0.0 for one in numbers]
            colour = drawn[name].lines[0].get_color() if name in drawn else colours[len(drawn) % 20]
            means = [one.mean() for one in numbers]
            line = axis.errorbar(
                places, means, errors if any(errors) else None, fmt="o-", ms=4, capsize=3, color=colour
            )
            drawn.setdefault(name, line)
        axis.set(title=title, xlabel=xlabel, **{f"{one}scale": "log" for one in log})
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel(ylabel)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.legend(drawn.values(), drawn.keys(), loc="outside right upper", fontsize="small")
    return figure
