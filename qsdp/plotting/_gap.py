"""Certified gap of a solver against time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.column_generation import ColumnGenerationResult
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.plotting._canvas import COLOURS, Display, check_instance, legend, scale_of
from qsdp.problem import TrainingProblem
from qsdp.relaxation import solve_relaxation
from qsdp.relaxation.backends import BACKENDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GapDisplay"]


class GapDisplay(Display):
    """Relative gap between the best objective and the best lower bound so far, against time in seconds.

    Parameters
    ----------
    curves : mapping of str to (seconds, gaps)
        Two sequences of equal length per curve.
    floor : float, default=1e-16
        Smallest gap drawn. Smaller gaps are drawn at this value, since a logarithmic axis has no zero.

    Attributes
    ----------
    lines_ : list of Line2D
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    The callback of a solver may simply append its progress records to a list:

    .. plot::

        >>> import qsdp
        >>> from qsdp.plotting import GapDisplay
        >>> X, y = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
        >>> problem, records = qsdp.TrainingProblem(X, y, beta=0.1), []
        >>> relaxation = qsdp.solve_relaxation(problem, callback=records.append)
        >>> display = GapDisplay.from_records(records)
        >>> len(display.lines_[0].get_xdata()) == len(records)
        True
    """

    def __init__(self, *, curves: Mapping[str, tuple[Any, Any]], floor: float = 1e-16) -> None:
        self.curves: dict[str, tuple[FloatArray, FloatArray]] = {}
        for name, pair in curves.items():
            seconds, gaps = (np.asarray(part, dtype=np.float64) for part in pair)
            if not seconds.shape == gaps.shape == (gaps.size,):
                raise InvalidInputError(
                    f"curves[{name!r}] must be seconds and gaps of equal length; "
                    f"got shapes {seconds.shape}, {gaps.shape}"
                )
            self.curves[name] = seconds, gaps
        self.floor = floor

    @classmethod
    def from_records(
        cls, records: Iterable[Any] | Mapping[str, Iterable[Any]], *, ax: Axes | None = None, **line_kw: Any
    ) -> GapDisplay:
        """Plot the progress records that a callback received.

        Parameters
        ----------
        records : iterable, or mapping of str to iterables
            Records that `qsdp.solve_relaxation` or `qsdp.column_generation` passed to a callback. A mapping gives one
            curve per name.
        ax : Axes, optional
        **line_kw
            Passed to ``Axes.plot`` for every line.
        """
        cls.check_axes(ax)
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
        """Solve the relaxation of a problem with built-in solvers and plot their gaps.

        Parameters
        ----------
        problem : TrainingProblem
        solvers : iterable of str, default=("auto",)
            Solvers that report progress, one curve each.
        ax : Axes, optional
        line_kw : mapping, optional
            Passed to ``Axes.plot`` for every line.
        **options
            Options such as `tol` and `time_limit`, passed to `qsdp.solve_relaxation`.
        """
        cls.check_axes(ax)
        own = ["auto", *(name for name, backend in BACKENDS.items() if backend.certified)]
        names = [check_choice("solvers", name, own) for name in ([solvers] if isinstance(solvers, str) else solvers)]
        records: dict[str, list[Any]] = {name: [] for name in names}
        for name in names:
            solve_relaxation(problem, solver=name, callback=records[name].append, **options)
        return cls.from_records(records, ax=ax, **(line_kw or {}))

    @classmethod
    def from_result(cls, result: ColumnGenerationResult, *, ax: Axes | None = None, **line_kw: Any) -> GapDisplay:
        """Plot the rounds of column generation, one curve per output if outputs were trained one after the other.

        Parameters
        ----------
        result : ColumnGenerationResult
        ax : Axes, optional
        **line_kw
            Passed to ``Axes.plot`` for every line.
        """
        cls.check_axes(ax)
        check_instance("result", result, ColumnGenerationResult)
        parts = [list(rounds) for _, rounds in groupby(result.history, lambda one: one.output)]
        names = ["column generation"] if len(parts) < 2 else [f"output {k}" for k in range(len(parts))]
        return cls.from_records(dict(zip(names, parts, strict=True)), ax=ax, **line_kw)

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        self.lines_ = []
        for number, (name, (seconds, gaps)) in enumerate(self.curves.items()):
            # A step curve, since a gap holds until a smaller one is reached.
            own = {"color": COLOURS[number % len(COLOURS)], "linestyle": ("-", "--", "-.", ":")[number % 4]}
            own |= {"drawstyle": "steps-post", "marker": ".", "label": name}
            self.lines_ += ax.plot(seconds, np.maximum(gaps, self.floor), **{**own, **style})
        times = [seconds for seconds, _ in self.curves.values()]
        ax.set(xlabel="seconds", ylabel="relative certified gap", yscale="log", xscale=scale_of(*times))
        if len(self.curves) > 1:
            legend(ax)


def _curve(records: Iterable[Any]) -> tuple[list[float], list[float]]:
    seconds, gaps = [], []
    for one in records:
        elapsed = getattr(one, "elapsed", None)
        elapsed = getattr(one, "seconds", None) if elapsed is None else elapsed
        if elapsed is None or not hasattr(one, "relative_gap"):
            raise InvalidTypeError(
                f"records must be those passed to a callback of solve_relaxation or column_generation; got {one!r}"
            )
        seconds.append(float(elapsed))
        gaps.append(float(one.relative_gap))
    return seconds, gaps
