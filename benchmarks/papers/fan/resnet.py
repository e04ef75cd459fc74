"""Residual networks for small images with quadratic convolutions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.papers.fan.networks import count_trainable
from benchmarks.papers.fan.neurons import CONVOLUTIONS, CompactConv2d, check_family, draw_conventional
from qsdp._utils.validation import check_flag, check_integer
from qsdp.exceptions import InvalidInputError

__all__ = ["QResNet", "resnet_parameters"]

#: "linear" is the conventional network.
_FAMILIES = ("linear", *CONVOLUTIONS)


def _convolution(family: str, inputs: int, outputs: int, stride: int, options: dict[str, Any]) -> nn.Module:
    if family == "linear":
        return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False, **options)
    return CONVOLUTIONS[family](inputs, outputs, 3, stride=stride, padding=1, **options)


class _ResidualBlock(nn.Module):
    r"""Two convolutions F and a shortcut without parameters: :math:`\mathrm{relu}(s(x) + \zeta F(x))`."""

    def __init__(
        self, family: str, inputs: int, outputs: int, stride: int, rezero: bool, options: dict[str, Any]
    ) -> None:
        super().__init__()
        self.first = _convolution(family, inputs, outputs, stride, options)
        self.first_norm = nn.BatchNorm2d(outputs, **options)
        self.second = _convolution(family, outputs, outputs, 1, options)
        self.second_norm = nn.BatchNorm2d(outputs, **options)
        self.zeta = nn.Parameter(torch.zeros((), **options)) if rezero else None
        self.stride = stride
        self.added = outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's outputs."""
        inner = torch.relu(self.first_norm(self.first(x)))
        inner = self.second_norm(self.second(inner))
        return torch.relu(self.shortcut(x) + (inner if self.zeta is None else self.zeta * inner))

    def shortcut(self, x: Tensor) -> Tensor:
        """Return every `stride`-th pixel, with zeros for new channels."""
        if self.stride > 1:
            x = x[:, :, :: self.stride, :: self.stride]
        half = self.added // 2
        return functional.pad(x, (0, 0, 0, 0, half, self.added - half)) if self.added else x


class QResNet(nn.Module):
    r"""Residual network of depth 6k + 2 for small images (such as CIFAR's), with quadratic neurons in its blocks.

    It has a conventional 3 x 3 convolution, three stages of k blocks with 1, 2 and 4 times `width` channels, the mean
    over pixels and a conventional classifier. Both convolutions of a block are of the family, each with batch norm.

    Parameters
    ----------
    depth : int
        Depth, of the form 6k + 2.
    family : {"fan", "fan_compact", "parabolic", "poly2", "linear"}, default="fan"
        Network family: QResNet, Compact-QResNet, Parabolic-ResNet, PolyResNet or ResNet; "rpqnn" means "parabolic".
    n_classes : int, default=10
    width : int, default=16
        Number of channels of the first stage.
    in_channels : int, default=3
    rezero : bool, default=False
        Multiply the convolutions of every block by one number :math:`\zeta`, 0 at the start.
    device, dtype
        As in PyTorch.

    Notes
    -----
    See Fan et al., section V. As in the authors' network, only the blocks are quadratic. New networks have the ReLinear
    start. `transfer_weights` starts them from a trained network of family "linear", and `parameter_groups` gives
    learning rates.

    Examples
    --------
    >>> import torch
    >>> from benchmarks.papers.fan import QResNet
    >>> QResNet(20, width=4)(torch.randn(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        depth: int,
        family: str = "fan",
        *,
        n_classes: int = 10,
        width: int = 16,
        in_channels: int = 3,
        rezero: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if check_integer("depth", depth, minimum=8) % 6 != 2:
            raise InvalidInputError(f"depth must be 6k + 2, such as 20, 32, 56 or 110; got {depth}")
        family = check_family(family, _FAMILIES)
        channels = width = check_integer("width", width, minimum=1)
        in_channels = check_integer("in_channels", in_channels, minimum=1)
        rezero = check_flag("rezero", rezero)
        options = {"device": device, "dtype": dtype}
        self.stem = nn.Conv2d(in_channels, width, 3, padding=1, bias=False, **options)
        self.stem_norm = nn.BatchNorm2d(width, **options)
        blocks = []
        for stage in range(3):
            outputs = width * 2**stage
            for number in range((depth - 2) // 6):
                stride = 2 if stage and not number else 1
                blocks.append(_ResidualBlock(family, channels, outputs, stride, rezero, options))
                channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(channels, check_integer("n_classes", n_classes, minimum=2), **options)
        self.reset_conventional()

    def reset_conventional(self, generator: torch.Generator | None = None) -> None:
        r"""Draw the conventional convolutions from Kaiming's normal distribution, :math:`N(0, 2/n)`."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                draw_conventional(module.weight, None, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return log odds of the classes, (n, n_classes), for images (n, in_channels, h, w)."""
        x = torch.relu(self.stem_norm(self.stem(x)))
        logits: Tensor = self.classifier(self.blocks(x).mean(dim=(2, 3)))
        return logits


def resnet_parameters(depth: int, family: str = "fan", *, separate_biases: bool = False, **options: Any) -> int:
    """Return the number of parameters of a `QResNet`, without allocating them.

    Parameters
    ----------
    depth, family, **options
        As in `QResNet`.
    separate_biases : bool, default=False
        Count one bias for each convolution of a compact neuron, as the paper does, although they add up to one bias.
    """
    network = QResNet(depth, family, **options, device="meta")
    total: int = count_trainable(network)
    if check_flag("separate_biases", separate_biases):
        total += sum(module.n_neurons for module in network.modules() if isinstance(module, CompactConv2d))
    return total
