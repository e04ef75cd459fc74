"""Plot of main effects of columns next to interactions of pairs of columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.summary import format_percent
from qsdp._utils.validation import FloatArray, check_integer
from qsdp.estimators.effects import Effects
from qsdp.plotting._canvas import COLOURS, Display, check_instance, draw_grid, last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["InteractionDisplay"]

#: Largest length of a displayed column name, and largest number of columns for which interactions have numbers.
_LETTERS, _WRITTEN = 24, 10


class InteractionDisplay(Display):
    """Sizes of main effects as bars and of interactions as a triangle, with one row for each column.

    Columns are ranked by importance: their main effect and interactions together.

    Parameters
    ----------
    effects : Effects
    output : int or str, default=0
    n_columns : int, default=16
        Largest number of columns shown, the most important ones.

    Attributes
    ----------
    columns_ : list of str
        Names of the columns shown, from the top.
    bars_ : BarContainer
    image_ : AxesImage
    colorbar_ : Colorbar
    ax_ : ndarray of two Axes
    figure_ : Figure

    Examples
    --------
    .. plot::

        >>> import qsdp
        >>> from qsdp.plotting import InteractionDisplay
        >>> X, y = qsdp.datasets.load_bundled("diabetes")
        >>> model = qsdp.QuantizedNetworkRegressor(8, beta=10.0, random_state=0)
        >>> display = InteractionDisplay.from_estimator(model.fit(X, y), n_columns=4)
        >>> display.image_.get_array().shape
        (4, 4)
    """

    _n_axes = 2

    def __init__(self, *, effects: Effects, output: int | str = 0, n_columns: int = 16) -> None:
        check_instance("effects", effects, Effects)
        self.effects = effects
        self.output = effects.number(output)
        self.n_columns = check_integer("n_columns", n_columns, minimum=1)
        height = 1.7 + 0.34 * max(min(self.n_columns, len(effects.columns)), 6)
        self._size = 2.1 * height, height

    @classmethod
    def from_effects(
        cls,
        effects: Effects,
        *,
        output: int | str = 0,
        n_columns: int = 16,
        ax: Sequence[Axes] | None = None,
        **image_kw: Any,
    ) -> InteractionDisplay:
        """Plot the effects of one output.

        Parameters
        ----------
        effects : Effects
            Effects, as returned by ``estimator.effects()``.
        output : int or str, default=0
        n_columns : int, default=16
        ax : sequence of two Axes, optional
        **image_kw
            Passed to ``Axes.imshow`` for the interactions.
        """
        cls.check_axes(ax)
        return cls(effects=effects, output=output, n_columns=n_columns).plot(ax, **image_kw)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        sample_weight: Any = None,
        names: Sequence[str] | None = None,
        output: int | str = 0,
        n_columns: int = 16,
        ax: Sequence[Axes] | None = None,
        **image_kw: Any,
    ) -> InteractionDisplay:
        """Compute the effects of a fitted estimator over data and plot them.

        Parameters
        ----------
        estimator : QuantizedNetworkClassifier, QuantizedNetworkRegressor, or one with cross-validation
            Fitted estimator, or a pipeline that ends in one. The effects are those of the columns that the last step
            receives.
        X : array-like of shape (n, d), optional
        sample_weight : array-like of shape (n,), optional
        names : sequence of str, optional
            See the estimator's `effects`.
        output, n_columns, ax, **image_kw
            See `from_effects`.
        """
        cls.check_axes(ax)
        before, estimator = last_step(estimator, "effects")
        if before is not None:
            X = X if X is None else before.transform(X)
            named = all(hasattr(step, "get_feature_names_out") for _, step in before.steps)
            if names is None and named and hasattr(before, "feature_names_in_"):
                names = before.get_feature_names_out()
        effects = estimator.effects(X, sample_weight=sample_weight, names=names)
        return cls.from_effects(effects, output=output, n_columns=n_columns, ax=ax, **image_kw)

    def _draw(self, ax: Sequence[Axes], style: dict[str, Any]) -> None:
        effects = self.effects.output(self.output)
        importances = effects.importances
        shown = np.argsort(-importances, kind="stable")[: self.n_columns]
        self.columns_ = [effects.columns[j] for j in shown]
        self._draw_bars(ax[0], effects.main[shown])
        self._draw_triangle(ax[1], effects.interactions[np.ix_(shown, shown)], style)
        title = "main effects"
        if len(shown) < len(effects.columns):
            title += f", {len(shown)} of {len(effects.columns)} columns: {format_percent(importances[shown].sum())}"
        ax[0].set_title(title)
        ax[1].set_title("interactions")

    def _draw_bars(self, ax: Axes, sizes: FloatArray) -> None:
        positions = np.arange(len(sizes))
        self.bars_ = ax.barh(positions, sizes, color=COLOURS[0], height=0.7)
        draw_grid(ax, "x")
        ax.set(ylim=(len(sizes) - 0.5, -0.5), xlabel="standard deviation")
        ax.set_yticks(positions, [_short(name) for name in self.columns_])
        ax.tick_params(axis="y", length=0)

    def _draw_triangle(self, ax: Axes, sizes: FloatArray, style: dict[str, Any]) -> None:
        positions, names = np.arange(len(sizes)), [_short(name) for name in self.columns_]
        pairs = np.ma.masked_where(np.tri(len(sizes), dtype=bool), sizes)
        # A positive maximum gives zero its own colour even if nothing interacts.
        top = float(sizes.max()) or 1.0
        style = {"cmap": "Blues", "vmin": 0.0, "vmax": top, "interpolation": "nearest", "aspect": "auto", **style}
        self.image_ = ax.imshow(pairs, **style)
        ax.set_xticks(positions[1:], names[1:], rotation=90)
        ax.set_yticks([])
        ax.xaxis.tick_top()
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        # Rows begin at the diagonal, so their names are written there.
        for position, name in enumerate(names):
            ax.text(position + 0.4, position, name, ha="right", va="center")
        if len(sizes) <= _WRITTEN:
            for i, j in combinations(range(len(sizes)), 2):
                colour = "white" if sizes[i, j] > 0.6 * top else "black"
                ax.text(j, i, f"{sizes[i, j]:.2g}", ha="center", va="center", color=colour, fontsize="small")
        self.colorbar_ = self.figure_.colorbar(self.image_, ax=ax, shrink=0.8, label="standard deviation")


def _short(name: str) -> str:
    """Shorten a long name in the middle, since similar names often differ at the end."""
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS // 2]}…{name[1 - _LETTERS // 2 :]}"
