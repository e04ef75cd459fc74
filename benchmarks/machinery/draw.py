"""Figures of experiments: panels of curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runner import Record
from qsdp.networks import QuadraticForm

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


def curves(
    panels: Mapping[str, Lines],
    xlabel: str,
    ylabel: str,
    log: str = "",
    height: float = 3.8,
    *,
    per_row: int = 4,
    marks: bool = True,
    words: Mapping[str, str] | None = None,
) -> Any:
    """Draw a panel per title and a curve per name: means of the numbers at each place, with deviations of several.

    `log` contains the logarithmic axes, "xy" for both. Without `marks`, the places of a curve are not marked.
    `words` are the names in the legend, where they differ from those of the curves.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    # A part of the records may have nothing for a panel, whose axes could not be logarithmic.
    panels = {title: lines for title, lines in panels.items() if any(lines.values())}
    if not panels:
        return None
    rows = -(-len(panels) // per_row)
    width = -(-len(panels) // rows)
    # At full resolution, a figure with dozens of panels takes a megabyte.
    size = {"figsize": (max(4.5 * width, 7.5) + 2.0, height * rows), "dpi": 120 if rows < 4 else 70}
    figure, axes = plt.subplots(rows, width, layout="constrained", squeeze=False, **size)
    # The ten strong colours come before the ten light ones; markers tell curves apart in prints without colour.
    strong = mpl.colormaps["tab20"].colors
    colours, shapes, drawn = (*strong[::2], *strong[1::2]), "osD^v<>ph*", {}
    for axis, (title, lines) in zip(axes.flat, panels.items(), strict=False):
        for name, points in lines.items():
            places = sorted(points)
            numbers = [np.ravel(points[place]) for place in places]
            errors = [one.std(ddof=1) if len(one) > 1 else 0.0 for one in numbers]
            number = list(drawn).index(name) if name in drawn else len(drawn)
            colour, shape = colours[number % 20], shapes[number % len(shapes)]
            means = [one.mean() for one in numbers]
            # A single point is a marker of a method beside curves of others.
            look = {"fmt": f"{shape}-" if marks else "-", "ms": 4} if len(places) > 1 else {"fmt": "X", "ms": 9}
            line = axis.errorbar(places, means, errors if any(errors) else None, capsize=3, color=colour, **look)
            drawn.setdefault(name, line)
        axis.set(title=title, xlabel=xlabel, **{f"{one}scale": "log" for one in log})
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel(ylabel)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    shown = [(words or {}).get(name, name) for name in drawn]
    figure.legend(drawn.values(), shown, loc="outside right upper", fontsize="small")
    return figure


def boundaries(
    panels: Mapping[str, Mapping[str, QuadraticForm]], X: np.ndarray, y: np.ndarray, classes: Sequence[str]
) -> Any:
    """Draw labelled points of the plane in every panel, and where quadratic functions are zero.

    `panels` has one function per title and name; of several outputs, each zero set has the colour of its class.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(panels), figsize=(max(4.0 * len(panels), 6.0) + 3.0, 4.2), layout="constrained", squeeze=False, dpi=120
    )
    colours, entries = mpl.colormaps["tab10"].colors, {}
    low, high = X.min(axis=0), X.max(axis=0)
    low, high = low - 0.5 * (high - low), high + 0.5 * (high - low)
    places = np.stack(np.meshgrid(*np.linspace(low, high, 400).T), axis=-1)
    for axis, (title, functions) in zip(axes.flat, panels.items(), strict=True):
        for number, (name, label) in enumerate(zip(classes, np.unique(y), strict=True)):
            entries[name] = axis.scatter(*X[y == label].T, s=18, color=colours[number], label=name)
        for name, function in functions.items():
            values = function.predict(places.reshape(-1, 2)).reshape(400, 400, -1)
            for number in range(values.shape[-1]):
                colour = colours[number] if values.shape[-1] > 1 else "black"
                axis.contour(*places.transpose(2, 0, 1), values[..., number], [0.0], colors=[colour])
            entries[f"zero set of the {name}"] = mpl.lines.Line2D([], [], color="black")
        axis.set(title=title, xlabel="first input", ylabel="second input", aspect="equal")
    figure.legend(entries.values(), entries.keys(), loc="outside right upper", fontsize="small")
    return figure
