"""Objective of sampled networks and the lower bound against the number of neurons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.validation import FloatArray, RandomState, check_choice, check_integer, check_random_state
from qsdp.choosing.options import REFINEMENTS
from qsdp.pipeline import QSDPResult
from qsdp.plotting._canvas import (
    COLOURS,
    GREY,
    Display,
    check_instance,
    check_sizes,
    draw_mean_and_range,
    legend,
    scale_of,
)
from qsdp.shaping import BlockCovariances

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ObjectiveDisplay"]


class ObjectiveDisplay(Display):
    r"""Objective of sampled networks against their number of neurons m, with the lower bound for all networks.

    Parameters
    ----------
    sizes : array-like of shape (K,)
        Numbers of neurons.
    objectives : array-like of shape (K, R)
        Objectives of R networks of each size.
    lower_bound : float
        Lower bound on the objective of networks of any width.
    limit : float, optional
        Limit of the objective of sampled networks as m grows.
    network : (int, float), optional
        Number of neurons and objective of a network to mark.

    Attributes
    ----------
    line_ : Line2D
        Mean objectives of the networks of each size.
    band_ : PolyCollection or None
        Band from the smallest to the largest objective; None if there is one network of each size.
    bound_, limit_, point_ : Line2D or None
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    .. plot::

        >>> import qsdp
        >>> from qsdp.plotting import ObjectiveDisplay
        >>> X, y = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
        >>> result = qsdp.solve_and_sample(X, y, beta=1.0, random_state=0)
        >>> sizes = [10, 30, 100, 300, 1000]
        >>> display = ObjectiveDisplay.from_result(result, sizes, n_draws=3)
        >>> display.objectives.shape, display.ax_.get_xlabel()
        ((5, 3), 'number of neurons m')
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
        """Sample networks of several sizes from the solution of a result and plot their objectives.

        Parameters
        ----------
        result : QSDPResult
        sizes : sequence of int, optional
            Numbers of neurons; by default, 10, 30, ..., 10000.
        n_draws : int, default=5
            Number of networks of each size.
        refine : {"none", "refit", "polish"}, default="none"
            Refinement of each network.
        random_state : int, Generator, RandomState or None, default=0
        ax : Axes, optional
        **line_kw
            Passed to ``Axes.plot`` for the means.
        """
        cls.check_axes(ax)
        check_instance("result", result, QSDPResult)
        counts = check_sizes(sizes, result.problem.n_outputs)
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

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        draws = self.objectives.shape[1]
        label = f"sampled, mean and range of {draws}" if draws > 1 else "sampled"
        style = {"color": COLOURS[0], "marker": "o", "markersize": 4, "label": label, **style}
        self.line_, self.band_ = draw_mean_and_range(ax, self.sizes, self.objectives, style)
        self.limit_ = self.point_ = None
        if self.network is not None:
            m, objective = self.network
            star: dict[str, Any] = {"color": COLOURS[1], "marker": "*", "markersize": 12, "markeredgecolor": "white"}
            (self.point_,) = ax.plot([m], [objective], linestyle="none", label="this network", zorder=4, **star)
        if self.limit is not None:
            self.limit_ = ax.axhline(self.limit, color=GREY, linestyle="--", label=r"sampled, $m \to \infty$")
        self.bound_ = ax.axhline(self.lower_bound, color="black", label="lower bound")
        yscale = scale_of(self.objectives, self.lower_bound)
        ax.set(xlabel="number of neurons m", ylabel="objective", xscale=scale_of(self.sizes), yscale=yscale)
        legend(ax)


def _limit(result: QSDPResult) -> float:
    """Compute the limit of the objective for many neurons: loss of the relaxation plus penalty of sampled networks."""
    problem, relaxation = result.problem, result.relaxation
    if isinstance(result.covariance, BlockCovariances):
        weight = float((result.covariance.weights @ result.covariance.layout.prices).sum())
    else:
        covariances = result.covariance if isinstance(result.covariance, list) else [result.covariance]
        weight = sum(covariance.total_weight for covariance in covariances)
    # A problem may consist of statistics instead of rows.
    loss = problem.data_fit.value(relaxation.fitted)
    return loss + problem.beta * problem.dimension * weight
