"""Losses of the linear outputs in PyTorch, in the normalisation that recursive least squares is made for."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["TORCH_LOSSES", "squared_loss"]


def squared_loss(outputs: Tensor, targets: Tensor, batch_dim: int = 0) -> Tensor:
    r"""Return :math:`\frac{1}{2M} \|Z - Z^*\|_F^2`: the sum over outputs and time steps, halved, the mean over samples.

    Parameters
    ----------
    outputs, targets : Tensor of shape (M, ...)
        Linear outputs, and the desired ones.
    batch_dim : int, default=0
        Where the M samples are.

    Notes
    -----
    Zhang et al. (2021), equations (57) and (87). `torch.nn.MSELoss` is 2 / n_outputs of it.
    """
    return torch.sum((outputs - targets) ** 2) / (2 * outputs.shape[batch_dim])


def _per_sample(loss: Callable[..., Tensor], factor: float = 1.0) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda outputs, targets: loss(outputs, targets, reduction="sum") * (factor / len(outputs))


#: The losses of `_functions.loss_and_gradient`, and the mean over elements for comparisons.
TORCH_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "squared": squared_loss,
    "cross_entropy": _per_sample(F.cross_entropy),
    "absolute": _per_sample(F.l1_loss),
    # Twice the usual one, as `qsdp.losses.Huber` is.
    "huber": _per_sample(F.huber_loss, 2.0),
    "mean_squared": F.mse_loss,
}
