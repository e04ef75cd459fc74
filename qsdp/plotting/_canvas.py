"""Common parts of the displays: axes, colours, checks of arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from qsdp._utils.validation import FloatArray, check_integer
from qsdp.exceptions import InvalidInputError, InvalidTypeError, MissingPackageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

AnyDisplay = TypeVar("AnyDisplay", bound="Display")

#: Blue and vermilion of Okabe and Ito, which colour-blind readers can distinguish.
COLOURS = ("#0072B2", "#D55E00")

#: Colour of reference lines.
GREY = "#666666"


class Display(ABC):
    """Base class of displays with one pair of axes."""

    #: Axes of the plot; an array for several pairs of axes.
    ax_: Any
    figure_: Figure | SubFigure
    #: Number of pairs of axes side by side, and width and height of a new figure.
    _n_axes: ClassVar[int] = 1
    _size: tuple[float, float] | None = None

    def plot(self: AnyDisplay, ax: Any = None, **style: Any) -> AnyDisplay:
        """Draw on `ax`, or on the axes of a new figure, and return the display."""
        self.check_axes(ax)
        if ax is None:
            _, ax = require_matplotlib().subplots(1, self._n_axes, figsize=self._size, layout="constrained")
        if self._n_axes == 1:
            self.ax_, self.figure_ = ax, ax.figure
            draw_grid(ax)
        else:
            self.ax_ = np.array(list(ax), dtype=object)
            self.figure_ = self.ax_[0].figure
        self._draw(self.ax_, style)
        return self

    @classmethod
    def check_axes(cls, ax: Any) -> None:
        """Raise unless `ax` is None or the axes that the display needs, and matplotlib is installed."""
        require_matplotlib()
        from matplotlib.axes import Axes

        if ax is None:
            return
        listed = [ax] if cls._n_axes == 1 or not np.iterable(ax) else list(ax)
        if len(listed) != cls._n_axes:
            raise InvalidTypeError(f"ax must be two matplotlib axes or None; got {len(listed)}")
        for axes in listed:
            if not isinstance(axes, Axes):
                raise InvalidTypeError(f"ax must be matplotlib axes or None; got {type(axes).__name__}")

    @abstractmethod
    def _draw(self, ax: Any, style: dict[str, Any]) -> None:
        """Draw on empty axes."""


def require_matplotlib() -> Any:
    """Return `matplotlib.pyplot`, or raise an error that explains how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingPackageError("qsdp.plotting needs matplotlib: pip install matplotlib") from None
    return plt


def draw_grid(ax: Axes, axis: Literal["both", "x", "y"] = "both") -> None:
    """Draw a light grid behind the data, and no frame above and to the right of it."""
    ax.grid(True, axis=axis, color="#B0B0B0", linewidth=0.5, alpha=0.5)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def scale_of(*values: Any) -> str:
    """Choose "log" if all values are positive and span more than a factor of 20, else "linear"."""
    flat = np.array([number for value in values for number in np.ravel(value)], dtype=np.float64)
    return "log" if flat.size and flat.min() > 0.0 and flat.max() > 20.0 * flat.min() else "linear"


def draw_mean_and_range(ax: Axes, x: Any, values: FloatArray, style: dict[str, Any]) -> tuple[Any, Any]:
    """Draw the row means of (K, R) values over `x`, and their range; return the line, and the band or None if R = 1."""
    (line,) = ax.plot(x, values.mean(axis=1), **{"zorder": 3, **style})
    if values.shape[1] == 1:
        return line, None
    colour = line.get_color()
    return line, ax.fill_between(x, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.2, linewidth=0)


def legend(ax: Axes) -> None:
    """Draw the legend where it covers the least data, half transparent for small axes."""
    ax.legend(framealpha=0.85, edgecolor="none")


def check_instance(name: str, value: object, kind: type) -> None:
    """Raise unless a value is an instance of a class of this package."""
    if not isinstance(value, kind):
        raise InvalidTypeError(f"{name} must be a {kind.__name__}; got {type(value).__name__}")


def last_step(estimator: Any, method: str) -> tuple[Any, Any]:
    """Split a pipeline into its preceding steps (None if there are none) and the estimator of this package."""
    before = None
    if hasattr(estimator, "steps"):
        before, estimator = estimator[:-1] if len(estimator) > 1 else None, estimator[-1]
    if not hasattr(estimator, method):
        raise InvalidTypeError(f"estimator must be a quantized network estimator of qsdp; got {estimator!r}")
    return before, estimator


def check_sizes(sizes: Sequence[int] | None, minimum: int) -> list[int]:
    """Check numbers of neurons, each at least `minimum`, and sort them; None becomes 10, 30, ..., 10000."""
    if sizes is None:
        return [size for size in (10, 30, 100, 300, 1000, 3000, 10_000) if size >= minimum]
    if isinstance(sizes, str) or not np.iterable(sizes):
        raise InvalidTypeError(f"sizes must be numbers of neurons in a sequence; got {sizes!r}")
    checked = [check_integer("sizes", size, minimum=minimum) for size in sizes]
    if not checked or len(set(checked)) < len(checked):
        raise InvalidInputError(f"sizes must be distinct numbers of neurons, at least one; got {list(sizes)!r}")
    return sorted(checked)
