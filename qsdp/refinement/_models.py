"""Quadratic models of the loss along moves: curvatures, selection of joint moves, and steps of second-layer weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted import nonnegative_minimum
from qsdp.exceptions import SolverError
from qsdp.losses import DataFit, Loss
from qsdp.refinement._descent import in_double

__all__ = [
    "agreeing",
    "block_minimum",
    "check_descends",
    "cross_changes",
    "cross_curvatures",
    "curvature_floor",
    "sampled_curvature",
    "side_by_side",
]

#: Fraction of their separately predicted decreases that joint moves must retain; from 0.25 to 0.75 it does not matter.
AGREEMENT = 0.5


def check_descends(loss: Loss) -> None:
    """Raise `SolverError` for a loss that couples outputs and does not define `curvature`."""
    if loss.coupled and not loss.has_curvature:
        raise SolverError(f"loss must define curvature for moves of coupled outputs; got {loss!r}")


def side_by_side(fit: DataFit, count: int) -> DataFit:
    """Replicate the fit of one output `count` times, to evaluate alternative predictions (n, count) at once."""
    return replace(fit, target=np.broadcast_to(fit.target, (len(fit.target), count)))


def sampled_curvature(fit: DataFit, f: FloatArray, alpha: FloatArray, step: float, dtype: Any = np.float64) -> Any:
    r"""Compute the curvature of the loss along each row of `alpha` (B, C), per sample: shape (B, n).

    For coupled outputs it is :math:`\alpha^T H_i \alpha`; otherwise it includes the kinks that a typical step meets.
    The result has the precision `dtype`.
    """
    squares = np.square(alpha).astype(dtype, copy=False)
    if not fit.loss.coupled:
        return squares @ fit.typical_curvature(f, step).astype(dtype, copy=False).T
    curvature = fit.curvature(f)
    along = squares @ curvature.diagonal.astype(dtype, copy=False).T
    if curvature.coupling is None:
        return along
    coupled = alpha.astype(dtype, copy=False) @ curvature.coupling.astype(dtype, copy=False).T
    return along - coupled * coupled


def curvature_floor(fit: DataFit, f: FloatArray, alpha: FloatArray, curvature: Any, reach: float) -> Any:
    r"""Compute curvature bounds w (B, n) with :math:`\ell(f + s \alpha) \ge \ell(f) + s\, g^T \alpha + w s^2 / 2`.

    The bound holds for steps that change no prediction by more than `reach`. For a coupled loss, `curvature` is its
    exact curvature. The result has the precision of `curvature`.
    """
    if fit.loss.coupled:
        return curvature * fit.loss.curvature_fraction(reach)
    squares, floor = (x.astype(curvature.dtype, copy=False) for x in (np.square(alpha), fit.curvature_floor(f, reach)))
    return squares @ floor.T


def cross_curvatures(images: FloatArray, curvature: FloatArray, dtype: Any = np.float64) -> FloatArray:
    r"""Compute :math:`\sum_i w_{ic} g_{ij} g_{il}` of shape (C, B, B) for images g (B, n) and curvatures w (C, n)."""
    images, curvature = (x.astype(dtype, copy=False) for x in (images, curvature))
    return np.stack([in_double((images * w) @ images.T) for w in curvature])


def cross_changes(images: Any, curvature: Any, alpha: FloatArray) -> FloatArray:
    r"""Approximate :math:`\sum_i g_{ij} g_{il}\, \alpha_j^T H_i \alpha_l`, of shape (B, B).

    H is the curvature of the loss, and `curvature` holds :math:`\alpha_j^T H_i \alpha_j`, shape (B, n). The result is
    exact for one output, and if the weights of all neurons are multiples of one another.
    """
    # Rounding can make curvatures near zero negative; these have no roots.
    scaled = images * np.sqrt(curvature.clip(min=0.0))
    norms = np.linalg.norm(alpha, axis=1)
    directions = alpha / np.where(norms > 0.0, norms, 1.0)[:, None]
    cross: FloatArray = in_double(scaled @ scaled.T) * (directions @ directions.T)
    return cross


def agreeing(predicted: FloatArray, cross: FloatArray, tolerance: float) -> npt.NDArray[np.bool_]:
    """Select moves by a quadratic model: all if their joint decrease is near the sum, else recursively halves of them.

    Single moves change the loss by `predicted` (B,), negative. Two moves together add `cross` (B, B) to their sum.
    Decreases within the tolerance do not count.
    """
    count = len(predicted)
    taken, beside = np.zeros(count, dtype=bool), np.zeros(count)
    # Sums over ranges are differences of cumulative sums: of decreases, of columns of pairs, and of squares of pairs.
    falls, columns, squares = np.zeros(count + 1), np.zeros((count, count + 1)), np.zeros((count + 1, count + 1))
    np.cumsum(predicted, out=falls[1:])
    np.cumsum(cross - np.diag(np.diag(cross)), axis=1, out=columns[:, 1:])
    np.cumsum(columns, axis=0, out=squares[1:])
    pending = [(0, count)]
    while pending:
        start, stop = pending.pop()
        alone = falls[stop] - falls[start]
        pairs = squares[stop, stop] - squares[start, stop] - squares[stop, start] + squares[start, start]
        change = alone + beside[start:stop].sum() + 0.5 * pairs
        if -change > tolerance and (stop - start == 1 or change <= AGREEMENT * alone):
            taken[start:stop] = True
            beside += columns[:, stop] - columns[:, start]
        elif stop - start > 1:
            middle = (start + stop) // 2
            pending += [(middle, stop), (start, middle)]
    return taken


def block_minimum(slopes: FloatArray, cross: FloatArray, alpha: FloatArray, penalties: FloatArray) -> FloatArray:
    """Compute the step of weights (B, C) that minimises a quadratic model plus penalties (B, 1) on their magnitudes.

    The loss has the gradient `slopes` (B, C) and the curvatures `cross` (C, B, B) with positive diagonals.
    """
    if len(alpha) == 1:
        curvatures = cross[:, :, 0].T
        point = alpha - slopes / curvatures
        shrunk: FloatArray = np.sign(point) * np.maximum(np.abs(point) - penalties / curvatures, 0.0)
        return shrunk - alpha
    step = np.empty_like(alpha)
    for c, H in enumerate(cross):
        # Parts of both signs, of which one is zero.
        start, slope = np.maximum([alpha[:, c], -alpha[:, c]], 0.0).ravel(), slopes[:, c] - H @ alpha[:, c]
        both = np.tile(penalties[:, 0], 2) + np.concatenate([slope, -slope])
        positive, negative = np.split(nonnegative_minimum(np.block([[H, -H], [-H, H]]), both, start), 2)
        step[:, c] = positive - negative - alpha[:, c]
    return step
