"""Histogram of the levels of first-layer weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp.exceptions import InvalidTypeError
from qsdp.networks import BilinearNetwork, BlockNetwork, PolynomialNetwork
from qsdp.pipeline import QSDPResult
from qsdp.plotting._canvas import COLOURS, Display, check_instance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LevelsDisplay"]


class LevelsDisplay(Display):
    """Histogram of the levels of first-layer weights.

    Parameters
    ----------
    levels : array-like of shape (L,)
        Values that a weight can take, in increasing order.
    counts : mapping of str to array-like of shape (L,)
        Number of weights with each value, for each group of weights.

    Attributes
    ----------
    bars_ : list of BarContainer
        Bars of each group. Their heights are fractions of the weights in the group.
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    .. plot::

        >>> import qsdp
        >>> from qsdp.plotting import LevelsDisplay
        >>> U, V = [[3, -1], [1, 1]], [[3, 3], [-1, 3]]
        >>> network = qsdp.BilinearNetwork(U, V, [1.0, 1.0], levels=4)
        >>> display = LevelsDisplay.from_network(network)
        >>> display.levels.tolist(), display.counts["V"].tolist()
        ([-3, -1, 1, 3], [0, 1, 0, 3])
    """

    def __init__(self, *, levels: Any, counts: Mapping[str, Any]) -> None:
        self.levels = np.asarray(levels)
        self.counts: dict[str, npt.NDArray[Any]] = {name: np.asarray(number) for name, number in counts.items()}

    @classmethod
    def from_network(
        cls, network: BilinearNetwork | PolynomialNetwork | BlockNetwork, *, ax: Axes | None = None, **bar_kw: Any
    ) -> LevelsDisplay:
        """Plot the levels of the first-layer weights of a network, without the binary last entries of a lift.

        Parameters
        ----------
        network : BilinearNetwork, PolynomialNetwork or BlockNetwork
        ax : Axes, optional
        **bar_kw
            Passed to ``Axes.bar``. For example, ``log=True`` helps if nearly all weights are on a few levels.
        """
        cls.check_axes(ax)
        if isinstance(network, BilinearNetwork):
            levels = np.arange(1 - network.levels, network.levels, 2)
            groups = {"U": network.U[:, : network.n_inputs], "V": network.V[:, : network.n_inputs]}
        elif isinstance(network, PolynomialNetwork):
            M = network.largest_weight
            levels = np.arange(-M, M + 1, 2 if network.one_parity else 1)
            groups = {"Q": network.Q}
        elif isinstance(network, BlockNetwork):
            levels, (inside, quadratic) = np.array([-1, 1]), network.signed
            groups = {"U": network.U[inside], "V": network.V[quadratic]}
        else:
            raise InvalidTypeError(
                f"network must be a BilinearNetwork, PolynomialNetwork or BlockNetwork; got {type(network).__name__}"
            )
        # Counting offsets from the smallest level needs two bytes per weight.
        step = int(levels[1] - levels[0])
        counts = {
            name: np.bincount((weights.ravel().astype(np.int16) - levels[0]) // step, minlength=len(levels))
            for name, weights in groups.items()
        }
        return cls(levels=levels, counts=counts).plot(ax, **bar_kw)

    @classmethod
    def from_result(cls, result: QSDPResult, *, ax: Axes | None = None, **bar_kw: Any) -> LevelsDisplay:
        """Plot the levels of the network of a result, with the other parameters of `from_network`."""
        cls.check_axes(ax)
        check_instance("result", result, QSDPResult)
        return cls.from_network(result.network, ax=ax, **bar_kw)

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        step = float(self.levels[1] - self.levels[0]) if len(self.levels) > 1 else 1.0
        width = 0.8 * step / max(1, len(self.counts))
        self.bars_ = []
        for number, (name, counts) in enumerate(self.counts.items()):
            total = int(counts.sum())
            own = {"width": width, "color": COLOURS[number % len(COLOURS)], "label": f"{name}, {total:,} weights"}
            offset = (number - 0.5 * (len(self.counts) - 1)) * width
            self.bars_.append(ax.bar(self.levels + offset, counts / max(total, 1), **{**own, **style}))
        ax.set(xlabel="first-layer weight", ylabel="share of the weights")
        if len(self.levels) <= 17:
            ax.set_xticks(self.levels)
        # The legend is above the axes, where it hides no bars.
        ax.legend(frameon=False, ncols=len(self.counts), loc="lower center", bbox_to_anchor=(0.5, 1.0))
        ax.grid(False, axis="x")
