"""Fan's quadratic layer as arrays: its parameters and its canonical form."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.networks import QuadraticForm

__all__ = ["FanParameters", "fan_form"]


class FanParameters(TypedDict):
    r"""Of m neurons :math:`(w^r x + b^r)(w^g x + b^g) + w^b (x \odot x) + c`: arrays (m, n) and (m,)."""

    wr: FloatArray
    br: FloatArray
    wg: FloatArray
    bg: FloatArray
    wb: FloatArray
    c: FloatArray


def fan_form(
    wr: FloatArray, br: FloatArray, wg: FloatArray, bg: FloatArray, wb: FloatArray, c: FloatArray
) -> QuadraticForm:
    r"""Return Fan's neurons as quadratic functions.

    .. math::

        Q = \tfrac12 (w^r w^{gT} + w^g w^{rT}) + \mathrm{diag}(w^b), \quad b^g w^r + b^r w^g, \quad b^r b^g + c.
    """
    Q = wr[:, :, None] * wg[:, None, :]  # QuadraticForm symmetrises
    diagonal = np.arange(wr.shape[1])
    Q[:, diagonal, diagonal] += wb
    return QuadraticForm(Q, bg[:, None] * wr + br[:, None] * wg, br * bg + c)
