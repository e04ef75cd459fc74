r"""Enumeration of sign vectors by codes, and row orders for the maximisation of :math:`\|M_R^T u\|_1`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.tuning import FEW_SIGNS, PATIENCE
from qsdp._utils.validation import FloatArray, IntArray

__all__ = ["attained", "sign_table", "signs_of", "tail_order"]


def sign_table(bits: int) -> FloatArray:
    """Return all sign vectors of length `bits` as rows; bit t of the row's number set means entry t is -1."""
    return signs_of(np.arange(2**bits, dtype=np.int64), bits)


def signs_of(codes: IntArray, bits: int) -> FloatArray:
    """Return the sign vectors of shape (len(codes), bits) of their codes."""
    codes = np.ascontiguousarray(codes, dtype="<i8")
    octets = codes.view(np.uint8).reshape(len(codes), codes.itemsize)
    digits = np.unpackbits(octets, axis=1, bitorder="little")[:, :bits]
    signs: FloatArray = 1.0 - 2.0 * digits.astype(np.float64)
    return signs


def tail_order(M: FloatArray) -> npt.NDArray[np.intp]:
    r"""Order the rows so that tails R have a small :math:`\max_u \|M_R^T u\|_1`.

    The last twelve rows are chosen one by one for the smallest maximum. The others are sorted by decreasing absolute
    sum: with the large rows decided first, more partial vectors are screened out. Any order is valid: after a time
    limit, no further row is chosen.
    """
    rest = list(np.argsort(-np.abs(M).sum(axis=1), kind="stable"))
    tail: list[np.intp] = []
    sums = np.zeros((1, M.shape[1]))
    while len(rest) > 1 and len(tail) < FEW_SIGNS and not deadline.over():
        maxima = [np.abs(sums + M[i]).sum(axis=1).max() for i in rest]
        # Ties go to the smallest row, which is the last one.
        tail.append(rest.pop(len(rest) - 1 - int(np.argmin(maxima[::-1]))))
        sums = np.vstack([sums + M[tail[-1]], sums - M[tail[-1]]]) if len(tail) > 1 else M[tail[-1:]]
    return np.array(rest + tail[::-1], dtype=np.intp)


def attained(rows: FloatArray, start: FloatArray | float = 0.0) -> float:
    r"""Maximise :math:`\|c + M_R^T u\|_1` approximately, by alternation from a fixed vector more than rows."""
    U = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(rows) + 1, len(rows)))
    for _ in range(PATIENCE):
        U = np.where(np.where(start + U @ rows >= 0.0, 1.0, -1.0) @ rows.T >= 0.0, 1.0, -1.0)
    return float(np.abs(start + U @ rows).sum(axis=1).max())
