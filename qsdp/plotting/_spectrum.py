"""Eigenvalues of the blocks of a relaxation and of the covariance shaped from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.exceptions import InvalidTypeError
from qsdp.pipeline import QSDPResult
from qsdp.plotting._canvas import COLOURS, MARKERS, axes_to_draw_on, check_axes, check_output, legend, tidy
from qsdp.relaxation import Relaxation
from qsdp.shaping import SignCovariance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SpectrumDisplay"]

#: Share of the largest eigenvalue below which eigenvalues are drawn there: they are rounding, or the solver's.
FLOOR = 1e-9

_LABELS = {"A": r"$A = (V + Z) / \rho$", "B": r"$B = (V - Z) / \rho$", "Q": "$Q$"}


class SpectrumDisplay:
    r"""Spectra of A, B and Q: of both signs of a relaxation, and of the covariance that neurons are drawn from.

    :math:`A = V + Z` and :math:`B = V - Z` are positive semidefinite, :math:`\hat y_i = \langle \mathcal{X}_i,
    A - B \rangle`; divided by :math:`\rho` the diagonal of A + B is 2. Q has unit diagonal. The faster a spectrum
    falls, the fewer directions there are.

    Parameters
    ----------
    eigenvalues : mapping of str to array-like of shape (N,)
        Of every matrix its eigenvalues, in any order; "A", "B" and "Q" where a class method made it.
    floor : float, default=1e-9
        Eigenvalues below this share of the largest one of all are drawn as if they were that.

    Attributes
    ----------
    lines_ : list of Line2D
    ax_ : Axes
    figure_ : Figure

    Notes
    -----
    Section 2 of Bartan and Pilanci, in the two-block form.
    """

    def __init__(self, *, eigenvalues: Mapping[str, Any], floor: float = FLOOR) -> None:
        self.eigenvalues: dict[str, FloatArray] = {
            name: np.sort(np.asarray(values, dtype=np.float64))[::-1] for name, values in eigenvalues.items()
        }
        self.floor = floor

    @classmethod
    def from_result(
        cls, result: QSDPResult, *, output: int = 0, ax: Axes | None = None, **line_kw: Any
    ) -> SpectrumDisplay:
        """Plot the spectra of A, B and Q of a result, those of one output.

        Parameters
        ----------
        result : QSDPResult
        output : int, default=0
        ax : Axes, optional
        **line_kw
            Of all lines.

        Returns
        -------
        SpectrumDisplay
        """
        check_axes(ax)
        if not isinstance(result, QSDPResult):
            raise InvalidTypeError(f"result must be a QSDPResult; got {type(result).__name__}")
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
        """Plot the spectra of A and B, and that of Q where a covariance is given.

        Parameters
        ----------
        relaxation : Relaxation
        covariance : SignCovariance, or a list of one for each output, optional
        output : int, default=0
        ax : Axes, optional
        **line_kw
            Of all lines.

        Returns
        -------
        SpectrumDisplay
        """
        check_axes(ax)
        if not isinstance(relaxation, Relaxation):
            raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
        k = check_output(output, relaxation.problem.vector, relaxation.problem.n_outputs)
        Z, V, rho = (stack[k] for stack in (relaxation.Z_stack, relaxation.V_stack, relaxation.rho_stack))
        scale = float(rho) or 1.0
        eigenvalues = {
            "A": np.linalg.eigvalsh((V + Z) / scale),
            "B": np.linalg.eigvalsh((V - Z) / scale),
        }
        if covariance is not None:
            one = covariance[k] if isinstance(covariance, list) else covariance
            eigenvalues["Q"] = np.linalg.eigvalsh(one.Q)
        return cls(eigenvalues=eigenvalues).plot(ax, **line_kw)

    def plot(self, ax: Axes | None = None, **line_kw: Any) -> SpectrumDisplay:
        """Draw on given axes, or on those of a new figure, and return the display."""
        self.ax_, self.figure_ = axes_to_draw_on(ax)
        from matplotlib.ticker import MaxNLocator

        ax = self.ax_
        largest = max((float(values.max(initial=0.0)) for values in self.eigenvalues.values()), default=0.0) or 1.0
        self.lines_ = []
        for number, (name, values) in enumerate(self.eigenvalues.items()):
            style = {
                "color": COLOURS[number % len(COLOURS)],
                "marker": MARKERS[number % len(MARKERS)],
                "markersize": 4,
                "linewidth": 1,
                "label": _LABELS.get(name, name),
            }
            shown = np.maximum(values, self.floor * largest)
            self.lines_ += ax.plot(np.arange(1, len(values) + 1), shown, **{**style, **line_kw})
        ax.set(xlabel="index of the eigenvalue", ylabel="eigenvalue", yscale="log")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        legend(ax)
        tidy(ax)
        return self
