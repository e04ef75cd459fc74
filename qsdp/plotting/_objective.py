"""Objective of sampled networks and the lower bound, against the number of neurons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.validation import FloatArray, RandomState, check_choice, check_integer, check_random_state
from qsdp.exceptions import InvalidTypeError
from qsdp.pipeline import REFINEMENTS, QSDPResult
from qsdp.plotting._canvas import (
    COLOURS,
    GREY,
    axes_to_draw_on,
    check_axes,
    check_sizes,
    legend,
    scale_of,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ObjectiveDisplay"]

SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)


class ObjectiveDisplay:
    r"""Objective of sampled networks against their number of neurons m, above the bound that holds for all of them.

    Parameters
    ----------
    sizes : array-like of shape (K,)
        Numbers of neurons.
    objectives : array-like of shape (K, R)
        Objectives of R networks of each size.
    lower_bound : float
        No network, of any width, has a smaller objective.
    limit : float, optional
        What the objective of a sampled network tends to as m grows.
    network : (int, float), optional
        Neurons and objective of one network to be marked.

    Attributes
    ----------
    line_ : Line2D
        Mean over the networks of a size.
    band_ : PolyCollection or None
        From the smallest to the largest; None for one network of each size.
    bound_, limit_, point_ : Line2D or None
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.plotting import ObjectiveDisplay
    >>> X, y = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
    >>> result = qsdp.solve_and_sample(X, y, beta=0.1, random_state=0)
    >>> display = ObjectiveDisplay.from_result(result, sizes=[10, 100], n_draws=3)
    >>> display.objectives.shape, display.ax_.get_xlabel()
    ((2, 3), 'number of neurons m')
    """

    def __init__(
        self,
        *,
        sizes: Any,
        objectives: Any,
        lower_bound: float,
        limit: float | None = None,
        network: tuple[int, float] | None = None,
    ) -> None:
        self.sizes = np.asarray(sizes)
        self.objectives: FloatArray = np.asarray(objectives, dtype=np.float64)
        self.lower_bound = lower_bound
        self.limit = limit
        self.network = network

    @classmethod
    def from_result(
        cls,
        result: QSDPResult,
        sizes: Sequence[int] | None = None,
        *,
        n_draws: int = 5,
        refine: str = "none",
        random_state: RandomState = 0,
        ax: Axes | None = None,
        **line_kw: Any,
    ) -> ObjectiveDisplay:
        """Draw networks of several sizes from one solution, and plot their objectives.

        Parameters
        ----------
        result : QSDPResult
        sizes : sequence of int, optional
            Numbers of neurons; by default 10, 30, ..., 10000.
        n_draws : int, default=5
            Networks of each size.
        refine : {"none", "refit", "polish"}, default="none"
            What is done to each of them.
        random_state : int, Generator, RandomState or None, default=0
        ax : Axes, optional
            Where to draw; a new figure by default.
        **line_kw
            Of the line of the means.

        Returns
        -------
        ObjectiveDisplay
        """
        check_axes(ax)
        if not isinstance(result, QSDPResult):
            raise InvalidTypeError(f"result must be a QSDPResult; got {type(result).__name__}")
        counts = check_sizes(sizes, result.problem.n_outputs, SIZES)
        draws = check_integer("n_draws", n_draws, minimum=1)
        check_choice("refine", refine, [name for name in REFINEMENTS if name != "exact"])
        rng = check_random_state(random_state)
        objectives = [
            [result.resample(m, rng, refine=refine).certificate.objective for _ in range(draws)] for m in counts
        ]
        display = cls(
            sizes=counts,
            objectives=objectives,
            lower_bound=result.certificate.lower_bound,
            limit=_limit(result) if refine == "none" else None,
            network=(result.network.n_neurons, result.certificate.objective),
        )
        return display.plot(ax, **line_kw)

    def plot(self, ax: Axes | None = None, **line_kw: Any) -> ObjectiveDisplay:
        """Draw on given axes, or on those of a new figure, and return the display."""
        self.ax_, self.figure_ = axes_to_draw_on(ax)
        ax, draws = self.ax_, self.objectives.shape[1]
        style = {"color": COLOURS[0], "marker": "o", "markersize": 4, "zorder": 3, **line_kw}
        style.setdefault("label", f"sampled, mean and range of {draws}" if draws > 1 else "sampled")
        (self.line_,) = ax.plot(self.sizes, self.objectives.mean(axis=1), **style)
        self.band_ = self.limit_ = self.point_ = None
        if draws > 1:
            self.band_ = ax.fill_between(
                self.sizes,
                self.objectives.min(axis=1),
                self.objectives.max(axis=1),
                color=self.line_.get_color(),
                alpha=0.2,
                linewidth=0,
            )
        if self.network is not None:
            (self.point_,) = ax.plot(
                [self.network[0]],
                [self.network[1]],
                linestyle="none",
                marker="*",
                markersize=12,
                markeredgecolor="white",
                color=COLOURS[1],
                label="this network",
                zorder=4,
            )
        if self.limit is not None:
            self.limit_ = ax.axhline(self.limit, color=GREY, linestyle="--", label=r"sampled, $m \to \infty$")
        self.bound_ = ax.axhline(self.lower_bound, color="black", label="lower bound")
        yscale = scale_of(self.objectives, self.lower_bound)
        ax.set(xlabel="number of neurons m", ylabel="objective", xscale=scale_of(self.sizes), yscale=yscale)
        legend(ax)
        tidy(ax)
        return self


def _limit(result: QSDPResult) -> float:
    """Return the objective that sampled networks tend to: the relaxation's loss, and the sum of their weights."""
    problem, relaxation = result.problem, result.relaxation
    covariances = result.covariance if isinstance(result.covariance, list) else [result.covariance]
    weight = sum(covariance.total_weight for covariance in covariances)
    loss = problem.loss.value(relaxation.predict(problem.X), problem.y)
    return loss + problem.beta * problem.dimension * weight
