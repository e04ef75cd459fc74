"""Least-squares rounding of trained weights to scaled levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.summary import Summarized, Summary, format_number
from qsdp._utils.validation import FloatArray, check_choice, check_matrix, read_only
from qsdp.training_data import check_levels

__all__ = ["Rounding", "round_to_levels"]

SCALES = ("neuron", "layer")


@dataclass(frozen=True, eq=False)
class Rounding(Summarized):
    """Weights rounded to levels, with their scales and relative errors.

    Attributes
    ----------
    weights : ndarray of shape (m, d), int8
        Levels -M, -M + 2, ..., M.
    scales : ndarray of shape (m,)
        Non-negative; all equal with one scale per layer.
    relative_error : float
        Error of ``scales[:, None] * weights`` relative to the given weights, in the Frobenius norm; 0 for zero weights.
    """

    weights: npt.NDArray[np.int8]
    scales: FloatArray
    relative_error: float

    def _summary(self) -> Summary:
        m, d = self.weights.shape
        low, high = float(self.scales.min()), float(self.scales.max())
        rows = [
            ("weights", f"{m:,} neurons, {d} inputs"),
            ("relative error", format_number(self.relative_error, 4)),
            ("scales", format_number(low) if low == high else f"{format_number(low, 4)} to {format_number(high, 4)}"),
        ]
        return Summary("Rounding", rows)


def round_to_levels(W: Any, levels: int = 2, *, scale: str = "neuron") -> Rounding:
    r"""Return the levels and scales nearest to given weights, exactly.

    .. math::

        \min_{s_j \ge 0,\; q_j \in Q_M^d} \sum_j \|w_j - s_j q_j\|^2, \qquad Q_M = \{-M, -M + 2, \ldots, M\}

    Parameters
    ----------
    W : array-like of shape (m, d)
        One row per neuron.
    levels : int, default=2
        Number of levels, M + 1. With two, :math:`q = \mathrm{sign}(w)` (+1 for 0) and :math:`s = \|w\|_1 / d`.
    scale : {"neuron", "layer"}, default="neuron"
        One scale for every row, or one for all rows.

    Returns
    -------
    Rounding

    Notes
    -----
    For a fixed q the best scale is :math:`\langle w, q\rangle / \|q\|^2` and leaves
    :math:`\|w\|^2 - \langle w, q\rangle^2 / \|q\|^2`. For a fixed scale the best q is the nearest level, entry by
    entry, and changes only where some :math:`|w_i| / s` passes the middle t between two levels. So the optimum is
    among the :math:`1 + d \lfloor M/2 \rfloor` vectors met while s falls from infinity, in the order of
    :math:`|w_i| / t`; each differs from the one before in one entry, which makes their :math:`\langle w, q\rangle`
    and :math:`\|q\|^2` running sums. With a scale for every row, work memory does not depend on m.

    Examples
    --------
    >>> rounding = round_to_levels([[0.9, -0.1, 0.2], [3.0, -3.0, 0.0]], levels=3)
    >>> rounding.weights
    array([[ 2,  0,  0],
           [ 2, -2,  0]], dtype=int8)
    >>> rounding.scales
    array([0.45, 1.5 ])
    """
    weights = check_matrix("W", W)
    M = check_levels(levels) - 1
    check_choice("scale", scale, SCALES)
    rows = weights if scale == "neuron" else weights.reshape(1, -1)
    # Scale first, because squares of extreme weights would leave the range of double precision.
    unit = float(np.abs(rows).max()) or 1.0
    sizes = np.abs(rows) / unit
    levels_of, scales = np.empty(rows.shape, dtype=np.int8), np.empty(len(rows))
    for some in chunks(len(rows), rows.shape[1] * max(1, M // 2)):
        levels_of[some], scales[some] = _nearest(sizes[some], M)
    left = float(np.linalg.norm(sizes - scales[:, None] * levels_of))
    whole = float(np.linalg.norm(sizes))
    signed = np.where(rows < 0.0, -levels_of, levels_of).reshape(weights.shape)
    spread = np.broadcast_to(scales * unit, (len(rows),)) if scale == "neuron" else np.full(len(weights), scales * unit)
    return Rounding(read_only(signed), read_only(np.array(spread)), left / whole if whole else 0.0)


def _nearest(sizes: FloatArray, M: int) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """Return levels >= 0 of shape (m, d) and scales (m,) for the magnitudes of weights."""
    m, d = sizes.shape
    lowest = M % 2
    middles = 2.0 * np.arange(1, M // 2 + 1) - (1 - lowest)
    k = len(middles)
    products = lowest * sizes.sum(axis=1, keepdims=True)
    squares = np.full((m, 1), float(lowest * d))
    if k:
        order = np.argsort(-(sizes[:, :, None] / middles).reshape(m, -1), axis=1, kind="stable")
        rising = np.take_along_axis(np.repeat(sizes, k, axis=1), order, axis=1)
        products = np.hstack([products, products + np.cumsum(2.0 * rising, axis=1)])
        squares = np.hstack([squares, squares + np.cumsum(4.0 * np.tile(middles, d)[order], axis=1)])
    gains = np.divide(products**2, squares, out=np.zeros_like(products), where=squares > 0.0)
    chosen = np.argmax(gains, axis=1)
    levels = np.full((m, d), lowest, dtype=np.int8)
    if k:
        passed = np.empty_like(order)
        np.put_along_axis(passed, order, np.broadcast_to(np.arange(d * k), order.shape), axis=1)
        levels += 2 * (passed < chosen[:, None]).reshape(m, d, k).sum(axis=2, dtype=np.int8)
    best = np.arange(m), chosen
    return levels, np.divide(products[best], squares[best], out=np.zeros(m), where=squares[best] > 0.0)
