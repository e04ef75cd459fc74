"""Axes to draw on, colours that everybody can tell apart, and matplotlib only where something is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.validation import check_integer
from qsdp.exceptions import InvalidInputError, InvalidTypeError, MissingPackageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

#: Okabe and Ito's colours, without the yellow that is hard to see on white. They differ in lightness, too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

#: Of points, one for each curve, so that curves can be told apart without colours.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

#: Of what is no curve: bounds and references.
GREY = "#666666"

#: Ratio of the ends of an axis from which on it is logarithmic.
_DECADES = 20.0


def require_matplotlib() -> Any:
    """Return `matplotlib.pyplot`, or raise an error that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingPackageError("qsdp.plotting needs matplotlib: pip install 'qsdp[plot]'") from None
    return plt


def check_axes(ax: object) -> None:
    """Raise unless `ax` is None or axes of matplotlib, and matplotlib is there."""
    require_matplotlib()
    from matplotlib.axes import Axes

    if ax is not None and not isinstance(ax, Axes):
        raise InvalidTypeError(f"ax must be matplotlib axes or None; got {type(ax).__name__}")


def axes_to_draw_on(ax: Axes | None, **size: Any) -> tuple[Axes, Figure | SubFigure]:
    """Return the axes that were given, or those of a new figure, and the figure."""
    check_axes(ax)
    if ax is None:
        _, ax = require_matplotlib().subplots(layout="constrained", **size)
    assert ax is not None
    return ax, ax.figure


def scale_of(*values: Any) -> str:
    """Return "log" where all values are positive and differ by a large factor, else "linear"."""
    flat = np.array([number for value in values for number in np.ravel(value)], dtype=np.float64)
    return "log" if flat.size and flat.min() > 0.0 and flat.max() > _DECADES * flat.min() else "linear"


def legend(ax: Axes) -> None:
    """Draw the legend where it hides least; what is behind it on small axes does not make it illegible."""
    ax.legend(framealpha=0.85, edgecolor="none")


def tidy(ax: Axes) -> None:
    """Draw what all displays share: a light grid behind the data, no frame at the top and on the right."""
    ax.grid(True, color="#B0B0B0", linewidth=0.5, alpha=0.5)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def check_sizes(sizes: Sequence[int] | None, least: int, default: Sequence[int]) -> list[int]:
    """Return numbers of neurons in increasing order, each at least `least`; None is the default ones."""
    if sizes is None:
        return [size for size in default if size >= least]
    if isinstance(sizes, str) or not np.iterable(sizes):
        raise InvalidTypeError(f"sizes must be numbers of neurons, as a list; got {sizes!r}")
    checked = [check_integer("sizes", size, minimum=least) for size in sizes]
    if not checked or len(set(checked)) < len(checked):
        raise InvalidInputError(f"sizes must be distinct numbers of neurons, one at least; got {list(sizes)!r}")
    return sorted(checked)


def check_output(output: object, vector: bool, n_outputs: int) -> int:
    """Return the number of an output, from 0."""
    return check_integer("output", output, minimum=0, maximum=n_outputs - 1 if vector else 0)
