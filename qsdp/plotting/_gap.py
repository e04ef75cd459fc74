"""Certified gap of a method against time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.column_generation import ColumnGenerationResult
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.plotting._canvas import COLOURS, axes_to_draw_on, check_axes, legend, scale_of, tidy
from qsdp.problem import TrainingProblem
from qsdp.relaxation import solve_relaxation
from qsdp.relaxation.backends import BACKENDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GapDisplay"]

#: Gap below which gaps are drawn there: a logarithmic axis has no zero.
FLOOR = 1e-16

_STYLES = ("-", "--", "-.", ":")


class GapDisplay:
    """Relative gap between the best objective and the best bound so far, against seconds.

    Parameters
    ----------
    curves : mapping of str to (seconds, gaps)
        Of every curve two sequences of one length.
    floor : float, default=1e-16
        Smaller gaps, zero among them, are drawn there.

    Attributes
    ----------
    lines_ : list of Line2D
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    Whatever is called back with the progress of a method is a record, and appending to a list is such a call:

    >>> import qsdp
    >>> from qsdp.plotting import GapDisplay
    >>> X, y = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
    >>> problem, records = qsdp.TrainingProblem(X, y, beta=0.1), []
    >>> relaxation = qsdp.solve_relaxation(problem, callback=records.append)
    >>> display = GapDisplay.from_records(records)
    >>> len(display.lines_[0].get_xdata()) == len(records)
    True
    """

    def __init__(self, *, curves: Mapping[str, tuple[Any, Any]], floor: float = FLOOR) -> None:
        self.curves: dict[str, tuple[FloatArray, FloatArray]] = {}
        for name, pair in curves.items():
            seconds, gaps = (np.asarray(part, dtype=np.float64) for part in pair)
            if seconds.ndim != 1 or seconds.shape != gaps.shape:
                raise InvalidInputError(
                    f"curves[{name!r}] must be seconds and gaps of one length; got shapes {seconds.shape}, {gaps.shape}"
                )
            self.curves[name] = seconds, gaps
        self.floor = floor

    @classmethod
    def from_records(
        cls, records: Iterable[Any] | Mapping[str, Iterable[Any]], *, ax: Axes | None = None, **line_kw: Any
    ) -> GapDisplay:
        """Plot what a callback was told.

        Parameters
        ----------
        records : iterable, or mapping of names to iterables
            Of what `qsdp.solve_relaxation` or `qsdp.column_generation` passed to a callback; a curve for each name.
        ax : Axes, optional
        **line_kw
            Of all lines.

        Returns
        -------
        GapDisplay
        """
        check_axes(ax)
        groups = records if isinstance(records, Mapping) else {"": records}
        return cls(curves={name: _curve(group) for name, group in groups.items()}).plot(ax, **line_kw)

    @classmethod
    def from_problem(
        cls,
        problem: TrainingProblem,
        solvers: Iterable[str] = ("auto",),
        *,
        ax: Axes | None = None,
        line_kw: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> GapDisplay:
        """Solve the relaxation of a problem by some of this package's own solvers, and plot their gaps.

        Parameters
        ----------
        problem : TrainingProblem
        solvers : iterable of str, default=("auto",)
            Names of solvers that report their progress, with a curve each.
        ax : Axes, optional
        line_kw : mapping, optional
            Of all lines.
        **options
            Of `qsdp.solve_relaxation`, such as `tol` and `time_limit`.

        Returns
        -------
        GapDisplay
        """
        check_axes(ax)
        own = ["auto", *(name for name, backend in BACKENDS.items() if backend.certified)]
        names = [check_choice("solvers", name, own) for name in ([solvers] if isinstance(solvers, str) else solvers)]
        records: dict[str, list[Any]] = {name: [] for name in names}
        for name in names:
            solve_relaxation(problem, solver=name, callback=records[name].append, **options)
        return cls.from_records(records, ax=ax, **(line_kw or {}))

    @classmethod
    def from_result(cls, result: ColumnGenerationResult, *, ax: Axes | None = None, **line_kw: Any) -> GapDisplay:
        """Plot the rounds of column generation; outputs that were trained one after the other have a curve each.

        Parameters
        ----------
        result : ColumnGenerationResult
        ax : Axes, optional
        **line_kw
            Of all lines.

        Returns
        -------
        GapDisplay
        """
        check_axes(ax)
        if not isinstance(result, ColumnGenerationResult):
            raise InvalidTypeError(f"result must be a ColumnGenerationResult; got {type(result).__name__}")
        parts: list[list[Any]] = []
        for one in result.history:
            # The clock of an output starts with it.
            if not parts or one.seconds < parts[-1][-1].seconds:
                parts.append([])
            parts[-1].append(one)
        names = ["column generation"] if len(parts) < 2 else [f"output {k}" for k in range(len(parts))]
        return cls.from_records(dict(zip(names, parts, strict=True)), ax=ax, **line_kw)

    def plot(self, ax: Axes | None = None, **line_kw: Any) -> GapDisplay:
        """Draw on given axes, or on those of a new figure, and return the display."""
        self.ax_, self.figure_ = axes_to_draw_on(ax)
        ax = self.ax_
        self.lines_ = []
        for number, (name, (seconds, gaps)) in enumerate(self.curves.items()):
            style = {"color": COLOURS[number % len(COLOURS)], "linestyle": _STYLES[number % len(_STYLES)]}
            # What was reached holds until something better is.
            style |= {"drawstyle": "steps-post", "marker": ".", "label": name}
            self.lines_ += ax.plot(seconds, np.maximum(gaps, self.floor), **{**style, **line_kw})
        times = [seconds for seconds, _ in self.curves.values()]
        ax.set(xlabel="seconds", ylabel="relative certified gap", yscale="log", xscale=scale_of(*times))
        if len(self.curves) > 1:
            legend(ax)
        tidy(ax)
        return self


def _curve(records: Iterable[Any]) -> tuple[list[float], list[float]]:
    seconds, gaps = [], []
    for one in records:
        elapsed = getattr(one, "elapsed", None)
        elapsed = getattr(one, "seconds", None) if elapsed is None else elapsed
        if elapsed is None or not hasattr(one, "relative_gap"):
            raise InvalidTypeError(
                f"records must be what a callback of solve_relaxation or column_generation is told; got {one!r}"
            )
        seconds.append(float(elapsed))
        gaps.append(float(one.relative_gap))
    return seconds, gaps
