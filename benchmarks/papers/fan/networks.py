"""Fully connected networks of quadratic layers, with or without ReZero, and transfer of weights into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.methods.activations import Identity, get_differentiable
from benchmarks.methods.layers import trained_layer
from benchmarks.papers.fan.neurons import FAMILIES, QuadraticNeurons, check_family, draw_conventional
from qsdp._utils.validation import FloatArray, check_flag, check_integer, check_matrix, check_targets
from qsdp.baselines._layers import AffineForm, TrainedLayer, per_layer
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks import QuadraticForm

__all__ = ["ReLinearNetwork", "ReZero", "count_trainable", "start_conventional", "start_random", "transfer_weights"]

#: Activations of these networks, with the names of PyTorch's functions; and reasons why others are refused.
_ACTIVATIONS = ("relu", "identity", "tanh")
_EXCLUDED = {
    **dict.fromkeys(
        ("square", "quadratic", "polynomial"),
        "a square after linear layers is the competitor of the quadratic neuron: family='square_act'",
    ),
    **dict.fromkeys(
        ("sign", "step", "heaviside"), "its derivative is 0 almost everywhere, so that nothing below it would learn"
    ),
    "softmax": "the loss 'cross_entropy' has it, the network's outputs are log odds",
}


class ReZero(nn.Module):
    r"""A residual map :math:`x + \zeta F(x)` with one trainable number :math:`\zeta`, 0 at the start.

    Parameters
    ----------
    inner : torch.nn.Module
        Module F, whose outputs have the shape of its inputs.

    Notes
    -----
    At :math:`\zeta = 0`, the map is the identity. The gradients of F's parameters are then 0, but that of
    :math:`\zeta` is not, so that :math:`\zeta` moves first.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        like = next(inner.parameters())
        self.zeta = nn.Parameter(torch.zeros((), device=like.device, dtype=like.dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x + zeta * inner(x)``."""
        outputs: Tensor = x + self.zeta * self.inner(x)
        return outputs


class ReLinearNetwork(nn.Module):
    r"""Layers :math:`q_H \circ \sigma \circ q_{H-1} \circ \dots \circ \sigma \circ q_1` of quadratic neurons.

    This is a PyTorch module; `benchmarks.papers.noel.QuadraticNetwork` is implemented in NumPy.

    Parameters
    ----------
    widths : sequence of int
        d_0, ..., d_H: inputs, hidden layers, outputs.
    family : str or sequence of str, default="fan"
        Neurons of all layers, or of each: "fan", "fan_compact", "parabolic" (or "rpqnn"), "poly2", "linear" or
        "square_act". With one name, "square_act" leaves the last layer linear: its square would keep outputs positive.
    activation : {"relu", "identity", "tanh"}, default="relu"
        Activation between layers; the last layer has none.
    rezero : bool, default=False
        Layers between hidden layers of equal widths become :math:`x + \zeta q(x)`.
    device, dtype
        As in PyTorch.

    Notes
    -----
    New networks have the ReLinear start: they are conventional networks until their quadratic parameters change.

    Examples
    --------
    >>> import torch
    >>> from benchmarks.papers.fan import ReLinearNetwork
    >>> network = ReLinearNetwork([4, 16, 3])
    >>> network(torch.randn(10, 4)).shape
    torch.Size([10, 3])
    >>> [layer.form for layer in network.trained_layers()]
    [QuadraticForm(n_inputs=4, n_outputs=16), QuadraticForm(n_inputs=16, n_outputs=3)]
    """

    def __init__(
        self,
        widths: Sequence[int],
        family: str | Sequence[str] = "fan",
        activation: str = "relu",
        *,
        rezero: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        widths = [check_integer("widths", width, minimum=1) for width in widths]
        if len(widths) < 2:
            raise InvalidInputError(f"widths must be at least two numbers, inputs and outputs; got {widths!r}")
        families = check_families(family, len(widths) - 1)
        self.activation = get_differentiable("activation", activation, _EXCLUDED, _ACTIVATIONS)
        residual = set()
        if check_flag("rezero", rezero):
            residual = {number for number in range(1, len(widths) - 2) if widths[number] == widths[number + 1]}
            if not residual:
                raise InvalidInputError(
                    f"rezero needs two hidden layers of equal widths, one after the other; got widths {widths}"
                )
        layers: list[nn.Module] = []
        for number, (n, m, name) in enumerate(zip(widths, widths[1:], families, strict=False)):
            layer = FAMILIES[name](n, m, device=device, dtype=dtype)
            layers.append(ReZero(layer) if number in residual else layer)
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of shape (n, d_H)."""
        function = None if isinstance(self.activation, Identity) else getattr(torch, self.activation.name)
        for number, layer in enumerate(self.layers):
            if number and function is not None:
                x = function(x)
            x = layer(x)
        return x

    def trained_layers(self) -> list[TrainedLayer]:
        """Return the network as a chain of quadratic functions and activations."""
        forms = [_form_of(layer) for layer in self.layers]
        return [trained_layer(form, self.activation) for form in forms[:-1]] + [TrainedLayer(forms[-1])]


def check_families(family: Any, n_layers: int) -> list[str]:
    """Return the checked family of every layer."""
    if isinstance(family, str):
        family = check_family(family)
        return [family] * (n_layers - 1) + ["linear" if family == "square_act" else family]
    if not isinstance(family, Sequence):
        raise InvalidTypeError(f"family must be a name, or one for each layer; got {family!r}")
    return [check_family(name) for name in per_layer("family", family, n_layers)]


def _form_of(layer: nn.Module) -> QuadraticForm | AffineForm:
    if isinstance(layer, ReZero):
        inner, zeta = _form_of(layer.inner), layer.zeta.item()
        if isinstance(inner, AffineForm):
            return AffineForm(zeta * inner.s + np.eye(inner.n_inputs), zeta * inner.s0)
        return QuadraticForm(zeta * inner.S, zeta * inner.s + np.eye(inner.n_inputs), zeta * inner.s0)
    if isinstance(layer, QuadraticNeurons):
        return layer.to_quadratic_form()
    assert isinstance(layer, nn.Linear)
    weights, bias = (value.detach().cpu().double().numpy() for value in (layer.weight, layer.bias))
    return AffineForm(weights, bias)


def start_conventional(model: nn.Module, generator: torch.Generator | None = None) -> None:
    r"""Give all layers of a model the ReLinear start, a random conventional network, and make ReZero blocks identities.

    Weights are Kaiming-normal, :math:`N(0, 2/n)`, and biases uniform on :math:`\pm 1/\sqrt n`. Quadratic parameters get
    the values of conventional neurons.
    """
    for module in model.modules():
        if isinstance(module, QuadraticNeurons):
            module.reset_parameters(generator)
        elif isinstance(module, nn.Linear):
            draw_conventional(module.weight, module.bias, generator)
        elif isinstance(module, ReZero):
            nn.init.zeros_(module.zeta)


def start_random(model: nn.Module, scale: float | None, generator: torch.Generator | None = None) -> None:
    r"""Draw the quadratic parameters from :math:`N(0, scale^2)`, the start of regular training.

    None means the variance of weights, :math:`2/n`. Conventional weights and biases are not changed.
    """
    for module in model.modules():
        if isinstance(module, QuadraticNeurons):
            module.start_random(scale, generator)


def transfer_weights(source: nn.Module | Sequence[tuple[Any, Any]], target: nn.Module) -> None:
    """Make a quadratic model equal to a trained conventional one of the same shape.

    Parameters
    ----------
    source : torch.nn.Module or sequence of (weights, bias)
        Conventional model with the same modules in the same order, but with `torch.nn.Linear` or `torch.nn.Conv2d` in
        place of quadratic layers. All other modules, such as batch norms, are copied. Alternatively, the weights (m, n)
        and biases (m,) of every layer.
    target : torch.nn.Module
        Quadratic model, changed in place; its quadratic parameters get the ReLinear start.

    Raises
    ------
    InvalidInputError
        The two models do not match.
    """
    if isinstance(source, nn.Module):
        givers, takers = _holders(source), _holders(target)
    else:
        takers = [module for module in target.modules() if isinstance(module, (QuadraticNeurons, nn.Linear))]
        givers = [_linear(weights, bias, next(target.parameters())) for weights, bias in check_pairs(source)]
    if len(givers) != len(takers):
        raise InvalidInputError(f"source must have the target's {len(takers)} layers; got {len(givers)}")
    for giver, taker in zip(givers, takers, strict=True):
        if not isinstance(taker, QuadraticNeurons):
            _copy_state(giver, taker)
        elif isinstance(giver, (nn.Linear, nn.Conv2d)):
            taker.start_conventional(giver.weight, giver.bias)
        else:
            raise InvalidInputError(f"source must have a linear layer for {taker}; got {giver}")


def _holders(model: nn.Module) -> list[nn.Module]:
    """Return the modules that have parameters or buffers other than those of their submodules."""
    return [module for module in model.modules() if _own_state(module)]


def _own_state(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}


@torch.no_grad()
def _copy_state(source: nn.Module, target: nn.Module) -> None:
    given, wanted = _own_state(source), _own_state(target)
    if {name: tensor.shape for name, tensor in given.items()} != {
        name: tensor.shape for name, tensor in wanted.items()
    }:
        raise InvalidInputError(f"source must have {target}, as the target has; got {source}")
    for name, tensor in wanted.items():
        tensor.copy_(given[name])


@torch.no_grad()
def _linear(weights: FloatArray, bias: FloatArray, like: Tensor) -> nn.Linear:
    """Return the conventional layer with weights (m, n) and biases (m,)."""
    m, n = weights.shape
    layer = nn.Linear(n, m, device="meta", dtype=like.dtype).to_empty(device=like.device)
    layer.weight.copy_(torch.as_tensor(weights))
    layer.bias.copy_(torch.as_tensor(bias))
    return layer


def check_pairs(pairs: Any) -> list[tuple[FloatArray, FloatArray]]:
    """Return the checked weights (m, n) and biases (m,) of layers."""
    checked = []
    try:
        for weights, bias in pairs:
            checked.append((check_matrix("weights", weights), check_targets("bias", bias, length=len(weights))))
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidTypeError(f"transfer must be (weights, bias) of every layer; got {pairs!r:.60}") from None
    return checked


def count_trainable(model: nn.Module) -> int:
    """Return the number of trainable parameters of a module; on the device "meta", it takes no memory."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
