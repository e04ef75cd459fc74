"""Accuracy of networks against their size in bits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.validation import FloatArray, RandomState, check_integer, check_random_state
from qsdp.exceptions import InvalidInputError
from qsdp.plotting._canvas import (
    GREY,
    Display,
    check_sizes,
    curve_style,
    draw_mean_and_range,
    last_step,
    legend,
    scale_of,
)
from qsdp.training_data import check_levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BitsDisplay"]


class BitsDisplay(Display):
    """Score of networks against their size in bits.

    Parameters
    ----------
    curves : mapping of str to (bits, scores)
        Sizes in bits, of shape (K,), and the scores of R networks of each size, of shape (K,) or (K, R).
    score_name : str, default="accuracy"
        Label of the vertical axis.
    reference : float, optional
        Score drawn as a horizontal line.
    reference_name : str, default="relaxation"

    Attributes
    ----------
    lines_ : list of Line2D
        Mean scores of the networks of each size, one line per curve.
    bands_ : list of PolyCollection
        Bands from the smallest to the largest score, for curves with several networks of each size.
    reference_ : Line2D or None
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    .. plot::

        >>> import qsdp
        >>> from qsdp.plotting import BitsDisplay
        >>> X, y = qsdp.datasets.load_bundled("iris")
        >>> model = qsdp.QuantizedNetworkClassifier(
        ...     beta="5%", encoding="standard", random_state=0
        ... ).fit(X, y)
        >>> display = BitsDisplay.from_estimator(
        ...     model, X, y, sizes=[3, 6, 12, 24], levels=[2, 4], n_draws=3
        ... )
        >>> list(display.curves)
        ['2 levels', '4 levels']
        >>> model.network_.n_neurons
        24
    """

    def __init__(
        self,
        *,
        curves: Mapping[str, tuple[Any, Any]],
        score_name: str = "accuracy",
        reference: float | None = None,
        reference_name: str = "relaxation",
    ) -> None:
        self.curves: dict[str, tuple[FloatArray, FloatArray]] = {}
        for name, (bits, scores) in curves.items():
            counts, values = np.asarray(bits), np.asarray(scores, dtype=np.float64)
            if values.ndim not in {1, 2} or values.shape[:1] != counts.shape:
                raise InvalidInputError(
                    f"curves[{name!r}] must be bits of shape (K,) and scores of shape (K,) or (K, R); "
                    f"got shapes {counts.shape} and {values.shape}"
                )
            self.curves[name] = counts, values.reshape(len(counts), -1)
        self.score_name = score_name
        self.reference = reference
        self.reference_name = reference_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sizes: Sequence[int] | None = None,
        levels: Sequence[int] | None = None,
        n_draws: int = 5,
        random_state: RandomState = 0,
        ax: Axes | None = None,
        **line_kw: Any,
    ) -> BitsDisplay:
        """Sample networks of several sizes from the solution of a fitted estimator and plot their scores.

        Parameters
        ----------
        estimator : QuantizedNetworkClassifier, QuantizedNetworkRegressor, or one with cross-validation
            Fitted estimator, or a pipeline that ends in one. It is not changed.
        X, y : array-like
            Data to score on, usually held out from the fit.
        sizes : sequence of int, optional
            Numbers of neurons; by default, 10, 30, ..., 10000.
        levels : sequence of int, optional
            Numbers of levels, one curve each; by default, the number used in the fit.
        n_draws : int, default=5
            Number of networks of each size. They are refined as in the fit.
        random_state : int, Generator, RandomState or None, default=0
        ax : Axes, optional
        **line_kw
            Passed to ``Axes.plot`` for the means.

        Returns
        -------
        BitsDisplay
            The reference line is the score of the relaxation, the limit for many neurons.
        """
        cls.check_axes(ax)
        before, estimator = last_step(estimator, "resample")
        X = X if before is None else before.transform(X)
        check_is_fitted(estimator)
        counts = check_sizes(sizes, estimator.result_.problem.n_outputs)
        draws = check_integer("n_draws", n_draws, minimum=1)
        wanted = [estimator.result_.problem.levels] if levels is None else [check_levels(level) for level in levels]
        rng = check_random_state(random_state)
        # Resampling replaces the network of this shallow copy, not that of the original.
        drawn = copy.copy(estimator)
        curves: dict[str, tuple[list[int], list[list[float]]]] = {}
        for level in wanted:
            bits, scores = [], []
            for m in counts:
                scores.append([float(drawn.resample(m, rng, levels=level).score(X, y)) for _ in range(draws)])
                bits.append(drawn.network_.n_bits)
            curves["binary" if level == 2 and len(wanted) == 1 else f"{level} levels"] = bits, scores
        drawn.network_ = estimator.result_.relaxation
        display = cls(
            curves=curves,
            score_name="accuracy" if is_classifier(estimator) else "R²",
            reference=float(drawn.score(X, y)),
        )
        return display.plot(ax, **line_kw)

    @classmethod
    def from_networks(
        cls,
        networks: Iterable[Any] | Mapping[str, Iterable[Any]],
        score: Callable[[Any], float],
        *,
        score_name: str = "accuracy",
        ax: Axes | None = None,
        **line_kw: Any,
    ) -> BitsDisplay:
        """Plot a score of given networks.

        Parameters
        ----------
        networks : iterable of networks, or mapping of str to such iterables
            Objects with `n_bits`, which are sorted by size. A mapping gives one curve per name.
        score : callable
            ``score(network)`` returns a float.
        score_name : str, default="accuracy"
        ax : Axes, optional
        **line_kw
            Passed to ``Axes.plot``.
        """
        cls.check_axes(ax)
        groups = networks if isinstance(networks, Mapping) else {"networks": networks}
        curves = {}
        for name, group in groups.items():
            members = sorted(group, key=lambda network: int(network.n_bits))
            curves[name] = [network.n_bits for network in members], [float(score(network)) for network in members]
        return cls(curves=curves, score_name=score_name).plot(ax, **line_kw)

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        self.lines_, self.bands_, self.reference_ = [], [], None
        for number, (name, (bits, scores)) in enumerate(self.curves.items()):
            line, band = draw_mean_and_range(ax, bits, scores, {**curve_style(number), "label": name, **style})
            self.lines_.append(line)
            if band is not None:
                self.bands_.append(band)
        if self.reference is not None:
            self.reference_ = ax.axhline(self.reference, color=GREY, linestyle="--", label=self.reference_name)
        every = [bits for bits, _ in self.curves.values()]
        ax.set(xlabel="bits of the network", ylabel=self.score_name, xscale=scale_of(*every) if every else "linear")
        if len(self.curves) > 1 or self.reference is not None:
            legend(ax)
