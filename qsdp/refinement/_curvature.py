"""A data fit along the moves of a coordinate descent: curvatures, lower bounds of them, many predictions at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.exceptions import SolverError
from qsdp.losses import DataFit, Loss

__all__ = ["check_descends", "curvature_floor", "sampled_curvature", "side_by_side"]


def check_descends(loss: Loss) -> None:
    """Raise `SolverError` for a loss whose coupled outputs have no known curvature."""
    if loss.coupled and not loss.has_curvature:
        raise SolverError(f"loss must define curvature for moves of coupled outputs; got {loss!r}")


def side_by_side(fit: DataFit, count: int) -> DataFit:
    """Return the fit of `count` predictions of one output, of shape (n, count)."""
    return replace(fit, target=np.broadcast_to(fit.target.reshape(-1, 1), (len(fit.target), count)))


def sampled_curvature(fit: DataFit, f: FloatArray, alpha: FloatArray, step: float) -> FloatArray:
    r"""Return the curvature of the loss along each row of `alpha` (B, C), per sample: shape (B, n).

    Where outputs are coupled it is :math:`\alpha^T H_i \alpha`, else what a typical step meets at kinks, too.
    """
    if not fit.loss.coupled:
        return np.square(alpha) @ fit.typical_curvature(f, step).T
    curvature = fit.curvature(f)
    along: FloatArray = np.square(alpha) @ curvature.diagonal.T
    return along if curvature.coupling is None else along - np.square(alpha @ curvature.coupling.T)


def curvature_floor(fit: DataFit, f: FloatArray, alpha: FloatArray, curvature: FloatArray, reach: float) -> FloatArray:
    r"""Return w (B, n) with :math:`\ell(f + s \alpha) \ge \ell(f) + s\, g^T \alpha + w s^2 / 2`.

    The bound holds for steps that change no prediction by more than `reach`; `curvature` is the exact one of a
    coupled loss.
    """
    if fit.loss.coupled:
        return curvature * fit.loss.curvature_share(reach)
    return np.square(alpha) @ fit.curvature_floor(f, reach).T
