"""Plot of the eigenvalues of a relaxation's blocks and of the covariance shaped from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.pipeline import QSDPResult
from qsdp.plotting._canvas import Display, check_instance, curve_style, legend, output_blocks
from qsdp.relaxation import Relaxation
from qsdp.shaping import SignCovariance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SpectrumDisplay"]

_LABELS = {"A": r"$A = (V + Z) / \rho$", "B": r"$B = (V - Z) / \rho$", "Q": "$Q$"}


class SpectrumDisplay(Display):
    r"""Spectra of the blocks A and B of the relaxation and of the covariance Q from which neurons are sampled.

    :math:`A = V + Z` and :math:`B = V - Z` are positive semidefinite, and :math:`\hat y_i = \langle \mathcal{X}_i,
    A - B \rangle`. The diagonal of A + B, divided by :math:`\rho`, is 2. Q has unit diagonal. A fast decay means low
    rank.

    Parameters
    ----------
    eigenvalues : mapping of str to array-like of shape (N,)
        Eigenvalues of each matrix, in any order. The class methods name the matrices "A", "B" and "Q".
    floor : float, default=1e-9
        Smallest eigenvalue drawn, relative to the largest. Smaller ones are drawn at this value, since they are errors
        of rounding or of the solver.

    Attributes
    ----------
    lines_ : list of Line2D
    ax_ : Axes
    figure_ : Figure

    Notes
    -----
    Section 2 of Bartan and Pilanci, in the two-block form.

    Examples
    --------
    .. plot::

        >>> import qsdp
        >>> from qsdp.plotting import SpectrumDisplay
        >>> X, y = qsdp.datasets.make_planted(n=60, d=6, n_neurons=3, random_state=0)
        >>> result = qsdp.solve_and_sample(X, y, beta=1.0, random_state=0)
        >>> display = SpectrumDisplay.from_result(result)
        >>> list(display.eigenvalues), len(display.eigenvalues["Q"])
        (['A', 'B', 'Q'], 12)
    """

    def __init__(self, *, eigenvalues: Mapping[str, Any], floor: float = 1e-9) -> None:
        self.eigenvalues: dict[str, FloatArray] = {
            name: np.sort(np.asarray(values, dtype=np.float64))[::-1] for name, values in eigenvalues.items()
        }
        self.floor = floor

    @classmethod
    def from_result(
        cls, result: QSDPResult, *, output: int = 0, ax: Axes | None = None, **line_kw: Any
    ) -> SpectrumDisplay:
        """Plot the spectra of A, B and Q of a result, with the parameters of `from_relaxation`."""
        cls.check_axes(ax)
        check_instance("result", result, QSDPResult)
        return cls.from_relaxation(result.relaxation, result.covariance, output=output, ax=ax, **line_kw)

    @classmethod
    def from_relaxation(
        cls,
        relaxation: Relaxation,
        covariance: SignCovariance | list[SignCovariance] | None = None,
        *,
        output: int = 0,
        ax: Axes | None = None,
        **line_kw: Any,
    ) -> SpectrumDisplay:
        """Plot the spectra of A and B, and optionally that of a covariance Q.

        Parameters
        ----------
        relaxation : Relaxation
        covariance : SignCovariance, or list with one per output, optional
        output : int, default=0
        ax : Axes, optional
        **line_kw
            Passed to ``Axes.plot`` for every line.
        """
        cls.check_axes(ax)
        V, Z, one = output_blocks(relaxation, covariance, output)
        eigenvalues = {"A": np.linalg.eigvalsh(V + Z), "B": np.linalg.eigvalsh(V - Z)}
        if one is not None:
            eigenvalues["Q"] = np.linalg.eigvalsh(one.Q)
        return cls(eigenvalues=eigenvalues).plot(ax, **line_kw)

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        from matplotlib.ticker import MaxNLocator

        largest = max((float(values.max(initial=0.0)) for values in self.eigenvalues.values()), default=0.0) or 1.0
        self.lines_ = []
        for number, (name, values) in enumerate(self.eigenvalues.items()):
            own = {**curve_style(number), "linewidth": 1, "label": _LABELS.get(name, name), **style}
            self.lines_ += ax.plot(np.arange(1, len(values) + 1), np.maximum(values, self.floor * largest), **own)
        ax.set(xlabel="index of the eigenvalue", ylabel="eigenvalue", yscale="log")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        legend(ax)
