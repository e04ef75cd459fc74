"""Several networks of one shape trained as one: the runs of an experiment from different seeds."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from qsdp.baselines.relinear.networks import ReLinearNetwork
from qsdp.baselines.relinear.neurons import QuadraticLinear
from qsdp.exceptions import InvalidInputError

__all__ = ["Replicas"]


class Replicas(nn.Module):
    r"""R networks of one shape, every parameter with a leading dimension R.

    Elementwise optimisers (gradient descent, momentum, Adam) and shrinkage treat the R networks as R trainings side
    by side; the loss to differentiate is the *sum* of theirs.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        states = [dict(network.named_parameters()) for network in networks]
        shapes = [{name: tensor.shape for name, tensor in state.items()} for state in states]
        if not networks or any(shape != shapes[0] for shape in shapes):
            raise InvalidInputError("networks must be one or more, all with parameters of the same names and shapes")
        self.stacked = copy.deepcopy(networks[0])
        for name in states[0]:
            place, _, own_name = name.rpartition(".")
            stack = torch.stack([state[name].detach() for state in states])
            setattr(self.stacked.get_submodule(place), own_name, nn.Parameter(stack))
        # A list hides the template from PyTorch: its parameters are not trained.
        self._template = [copy.deepcopy(networks[0])]
        # Dense layers multiply stacks of weights themselves, at less than half of vmap's cost.
        stacked: nn.Module = self.stacked
        layers = stacked.layers if isinstance(stacked, ReLinearNetwork) else [stacked]
        self._native = all(isinstance(layer, QuadraticLinear) for layer in layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of all networks for the same inputs: (R, n, C)."""
        if self._native:
            outputs: Tensor = self.stacked(x)
            return outputs
        template = self._template[0]
        outputs = vmap(lambda parameters: functional_call(template, parameters, (x,)))(self._parameters_by_name())
        return outputs

    def __len__(self) -> int:
        """Return R."""
        return len(next(self.parameters()))

    def __getitem__(self, number: int) -> nn.Module:
        """Return a copy of one network."""
        network = copy.deepcopy(self._template[0])
        own = dict(network.named_parameters())
        with torch.no_grad():
            for name, stack in self._parameters_by_name().items():
                own[name].copy_(stack[number])
        return network

    def _parameters_by_name(self) -> dict[str, Tensor]:
        return dict(self.stacked.named_parameters())
