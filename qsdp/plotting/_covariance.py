"""Plot of a relaxation's matrix next to the covariance shaped from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.pipeline import QSDPResult
from qsdp.plotting._canvas import PairDisplay, check_instance, output_blocks
from qsdp.relaxation import Relaxation
from qsdp.shaping import SignCovariance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CovarianceDisplay"]


class CovarianceDisplay(PairDisplay):
    r"""Covariance before and after shaping, as two images on one colour scale.

    The matrix before is :math:`[[V, Z], [Z^T, W]] / \rho`, the solution of the relaxation with unit diagonal. The
    matrix after is Q with :math:`\arcsin Q_{12} = c Z / \rho`, so that the signs u and v of a Gaussian with covariance
    Q have correlations with each other that are proportional to Z.

    Parameters
    ----------
    before, after : array-like of shape (2N, 2N)
    titles : (str, str), optional

    Attributes
    ----------
    images_ : list of AxesImage
    colorbar_ : Colorbar
    ax_ : ndarray of two Axes
    figure_ : Figure

    Notes
    -----
    Theorem 2 of Bartan and Pilanci.

    Examples
    --------
    .. plot::

        >>> import qsdp
        >>> from qsdp.plotting import CovarianceDisplay
        >>> X, y = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
        >>> result = qsdp.solve_and_sample(X, y, beta=1.0, random_state=0)
        >>> display = CovarianceDisplay.from_result(result)
        >>> display.before.shape
        (12, 12)
    """

    def __init__(self, *, before: Any, after: Any, titles: tuple[str, str] | None = None) -> None:
        self.before: FloatArray = np.asarray(before, dtype=np.float64)
        self.after: FloatArray = np.asarray(after, dtype=np.float64)
        self.titles = titles or ("before shaping", "after shaping")

    @classmethod
    def from_result(
        cls, result: QSDPResult, *, output: int = 0, ax: Sequence[Axes] | None = None, **image_kw: Any
    ) -> CovarianceDisplay:
        """Plot the covariance of one output of a result, with the parameters of `from_relaxation`."""
        cls.check_axes(ax)
        check_instance("result", result, QSDPResult)
        return cls.from_relaxation(result.relaxation, result.covariance, output=output, ax=ax, **image_kw)

    @classmethod
    def from_relaxation(
        cls,
        relaxation: Relaxation,
        covariance: SignCovariance | list[SignCovariance],
        *,
        output: int = 0,
        ax: Sequence[Axes] | None = None,
        **image_kw: Any,
    ) -> CovarianceDisplay:
        """Plot a relaxation and the covariance shaped from it.

        Parameters
        ----------
        relaxation : Relaxation
        covariance : SignCovariance, or list with one per output
        output : int, default=0
        ax : sequence of two Axes, optional
        **image_kw
            Passed to ``Axes.imshow`` for both images.
        """
        cls.check_axes(ax)
        V, Z, one = output_blocks(relaxation, covariance, output)
        assert one is not None
        before = np.block([[V, Z], [Z.T, V]])
        titles = r"$[[V, Z], [Z^T, W]] / \rho$", f"$Q$, {one.method}, $c$ = {one.constant:.3g}"
        return cls(before=before, after=one.Q, titles=titles).plot(ax, **image_kw)

    def _draw(self, ax: Sequence[Axes], style: dict[str, Any]) -> None:
        style = {"cmap": "RdBu_r", "vmin": -1.0, "vmax": 1.0, "interpolation": "nearest", **style}
        self.images_ = []
        for axes, matrix, title in zip(ax, (self.before, self.after), self.titles, strict=True):
            N = len(matrix) // 2
            self.images_.append(axes.imshow(matrix, **style))
            axes.axhline(N - 0.5, color="black", linewidth=0.8)
            axes.axvline(N - 0.5, color="black", linewidth=0.8)
            middles = [0.5 * (N - 1), N + 0.5 * (N - 1)]
            axes.set(xticks=middles, yticks=middles, xticklabels=["u", "v"], yticklabels=["u", "v"], title=title)
            axes.tick_params(length=0)
        self.colorbar_ = self.figure_.colorbar(self.images_[0], ax=list(ax), shrink=0.8)
