"""What a training step keeps in memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["saved_for_backward"]


def saved_for_backward(model: nn.Module, inputs: Tensor) -> int:
    """Return the bytes that a forward pass of a batch keeps for the backward pass, parameters not counted.

    Counted from the tensors that PyTorch saves, each storage once: exact, and the same on every machine. A layer of
    Fan's neurons keeps its inputs, their squares and both factors, 2n + 2m numbers a sample.
    """
    owned = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in owned:
            # The reference keeps the storage from being reused, so that no two have the same place.
            kept[place] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = model(inputs)
    total = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    del outputs
    return int(total)
