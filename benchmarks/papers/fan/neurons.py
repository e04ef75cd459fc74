r"""Quadratic neurons as PyTorch modules: dense layers and convolutions of Fan's neuron and its special cases.

Families that are not special cases, or contain no conventional neuron to start from ("qnn", "form_only", "power_only",
"product_linear"), exist only in NumPy; see `benchmarks.papers.noel`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.methods.torch_training import fill_normal, fill_uniform
from benchmarks.papers.noel.families import Family, get_family
from benchmarks.papers.noel.maps import AffineMap, PowerMap
from qsdp._utils.validation import check_choice, check_integer
from qsdp.exceptions import InvalidInputError
from qsdp.networks import QuadraticForm

__all__ = [
    "CONVOLUTIONS",
    "FAMILIES",
    "CompactConv2d",
    "CompactLinear",
    "FanConv2d",
    "FanLinear",
    "ParabolicConv2d",
    "ParabolicLinear",
    "Poly2Conv2d",
    "Poly2Linear",
    "QuadraticConv2d",
    "QuadraticLinear",
    "QuadraticNeurons",
    "SquareActivationLinear",
]


#: Names of a family's parameters, in the order of its maps. Names end in r for a conventional neuron, in g for a second
#: factor, and in b for powers.
_NAMES = {
    "fan": ("wr", "br", "wg", "bg", "wb", "c"),
    "fan_compact": ("wr", "wb", "c"),
    "parabolic": ("wr", "br", "wg", "bg"),
    "poly2": ("wr", "br", "wg", "bg"),
    "square_act": ("wr", "br"),
}


@torch.no_grad()
def draw_conventional(weight: Tensor, bias: Tensor | None, generator: torch.Generator | None) -> None:
    r"""Draw Kaiming-normal weights, :math:`N(0, 2/n)` for n inputs, and biases uniform on :math:`\pm 1/\sqrt n`."""
    fan_in = math.prod(weight.shape[1:])
    fill_normal(weight, math.sqrt(2.0 / fan_in), generator)
    if bias is not None:
        fill_uniform(bias, 1.0 / math.sqrt(fan_in), generator)


class QuadraticNeurons(nn.Module):
    r"""Pre-activations :math:`z_k(x)`, each a quadratic function of the inputs or of a patch of them.

    Families are those of `benchmarks.papers.noel` that are special cases of Fan's neuron,
    :math:`z = (w^r x + b^r)(w^g x + b^g) + w^b (x \odot x) + c`.

    Parameters
    ----------
    weight_shape : tuple of int
        Shape of every weight array; the first entry is the number m of neurons, the length of every bias.
    device, dtype
        As in PyTorch.

    Attributes
    ----------
    family : str
    roles : dict of str
        Group of every parameter: "r" (the conventional neuron), "g" (second factor) or "b" (powers).
    start : dict of float
        Values of parameters outside of group "r" with which the neuron is a conventional one.
    """

    family: ClassVar[str]
    roles: ClassVar[Mapping[str, str]]
    start: ClassVar[Mapping[str, float]]
    #: The two parameters that are the conventional neuron's weights and bias.
    conventional: ClassVar[tuple[str, str]]
    #: Why there is no conventional start; empty if there is one.
    no_start: ClassVar[str] = ""
    #: The family in NumPy, and the names of its parameters in this class.
    _family: ClassVar[Family]
    _named: ClassVar[Mapping[str, str]]
    #: For every map: whether its inputs are squared, its weights, its bias or None, and a number added to the bias.
    _parts: ClassVar[tuple[tuple[bool, str, str | None, float], ...]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not hasattr(cls, "family"):
            return
        names = _NAMES[cls.family]
        cls._family = family = get_family(cls.family)
        cls._named = named = dict(zip((name for part in family.maps for name in part.names), names, strict=True))
        cls.conventional = ("wr", "br" if "br" in names else "c")
        cls._parts = tuple(
            (
                isinstance(part, PowerMap),
                named[part.weight],
                None if part.bias is None else named[part.bias],
                part.shift if isinstance(part, AffineMap) else 0.0,
            )
            for part in family.maps
        )
        # A bias that replaces the conventional one learns at its rate.
        cls.roles = {name: "r" if name in cls.conventional else {"c": "b"}.get(name, name[-1]) for name in names}
        cls.start = {named[name]: value for name, value in (family.linear_start or {}).items()}
        if family.linear_start is None:
            cls.no_start = "a squared affine function is never affine, unless it is constant"

    def __init__(self, weight_shape: tuple[int, ...], device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        for name in self.roles:
            shape = weight_shape if name.startswith("w") else weight_shape[:1]
            self.register_parameter(name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    @property
    def n_inputs(self) -> int:
        """Number of inputs of a neuron, its fan-in."""
        return math.prod(self._conventional_parameters()[0].shape[1:])

    @property
    def n_neurons(self) -> int:
        """Number m of neurons, or of output channels."""
        return len(self._conventional_parameters()[0])

    def apply_weights(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the affine map of the layer's geometry: a product, or a convolution."""
        raise NotImplementedError(f"{type(self).__name__} does not define apply_weights, its affine map")

    def forward(self, x: Tensor) -> Tensor:
        """Return the pre-activations."""
        values = []
        for squared, weight, bias, shift in self._parts:
            offset: Any = None if bias is None else getattr(self, bias)
            offset = offset + shift if shift else offset
            values.append(self.apply_weights(x * x if squared else x, getattr(self, weight), offset))
        if self._family.factors and len(values) == 3:
            return torch.addcmul(values[2], values[0], values[1])
        outputs: Tensor = cast(Any, self._family).combine(values)
        return outputs

    def to_quadratic_form(self) -> QuadraticForm:
        r"""Return the pre-activations as :math:`x^T Q x + w^T x + b`; for a convolution, on its flattened patch."""
        arrays = {}
        for name, own in self._named.items():
            array = getattr(self, own).detach().cpu().double().numpy()
            arrays[name] = array if array.ndim == 1 else array.reshape(len(array), -1)
        return self._family.to_form(arrays).to_quadratic_form()

    def _conventional_parameters(self) -> tuple[Tensor, Tensor]:
        weight, bias = (getattr(self, name) for name in self.conventional)
        return weight, bias

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the conventional part, and give the other parameters the ReLinear start."""
        draw_conventional(*self._conventional_parameters(), generator)
        for name, value in self.start.items():
            getattr(self, name).fill_(value)

    @torch.no_grad()
    def start_conventional(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Make the layer equal to conventional neurons with given weights and bias (zeros by default), exactly.

        Raises
        ------
        InvalidInputError
            A shape does not match the layer, or the family contains no conventional neuron.
        """
        if self.no_start:
            raise InvalidInputError(f"{type(self).__name__} has no standard initialisation: {self.no_start}")
        own_weight, own_bias = self._conventional_parameters()
        bias = torch.zeros_like(own_bias) if bias is None else bias
        for name, given, own in (("weight", weight, own_weight), ("bias", bias, own_bias)):
            if given.shape != own.shape:
                raise InvalidInputError(f"{name} must have shape {tuple(own.shape)}; got {tuple(given.shape)}")
            own.copy_(given)
        for name, value in self.start.items():
            getattr(self, name).fill_(value)

    @torch.no_grad()
    def start_random(self, scale: float | None, generator: torch.Generator | None = None) -> None:
        r"""Draw all parameters of groups "g" and "b" from :math:`N(0, scale^2)`; None: variance :math:`2/n`."""
        deviation = math.sqrt(2.0 / self.n_inputs) if scale is None else scale
        for name in self.start:
            fill_normal(getattr(self, name), deviation, generator)

    def extra_repr(self) -> str:
        """Return the sizes, which PyTorch shows in the representation of the module."""
        return f"{self.n_inputs}, {self.n_neurons}"


class QuadraticLinear(QuadraticNeurons):
    """A dense layer of quadratic neurons: inputs (..., n), outputs (..., m).

    Parameters
    ----------
    in_features, out_features : int
        Fan-in n and number m of neurons.
    device, dtype
        As in PyTorch.
    """

    def __init__(self, in_features: int, out_features: int, *, device: Any = None, dtype: Any = None) -> None:
        n = check_integer("in_features", in_features, minimum=1)
        m = check_integer("out_features", out_features, minimum=1)
        super().__init__((m, n), device, dtype)

    def apply_weights(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return ``x @ weight.T + bias``; with weights (R, m, n), for R layers at once."""
        if weight.ndim == 2:
            return functional.linear(x, weight, bias)
        x = x.expand(len(weight), *x.shape[-2:])
        return x @ weight.mT if bias is None else torch.baddbmm(bias[:, None], x, weight.mT)


class QuadraticConv2d(QuadraticNeurons):
    r"""A convolution of quadratic neurons; with Fan's neurons, it is :math:`conv_r(x)\,conv_g(x) + conv_b(x \odot x)`.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size : int
        Side of the square patch.
    stride, padding : int
        As in `torch.nn.Conv2d`; the padding is with zeros.
    device, dtype
        As in PyTorch.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        *,
        stride: int = 1,
        padding: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        size = check_integer("kernel_size", kernel_size, minimum=1)
        channels = check_integer("in_channels", in_channels, minimum=1)
        m = check_integer("out_channels", out_channels, minimum=1)
        super().__init__((m, channels, size, size), device, dtype)
        self.stride = check_integer("stride", stride, minimum=1)
        self.padding = check_integer("padding", padding, minimum=0)

    def apply_weights(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the convolution with given weights."""
        return functional.conv2d(x, weight, bias, self.stride, self.padding)


class FanLinear(QuadraticLinear):
    r"""Fan's neurons, :math:`z = (w^r x + b^r)(w^g x + b^g) + w^b (x \odot x) + c`: 3n + 3 parameters each.

    Parameters
    ----------
    in_features, out_features : int
    device, dtype
        As in PyTorch.

    Notes
    -----
    Fan et al., "On Expressivity and Trainability of Quadratic Networks", equation (4). A new layer is a conventional
    one: ``wg = 0, bg = 1, wb = 0, c = 0``, the ReLinear start.

    Examples
    --------
    >>> import torch
    >>> from benchmarks.papers.fan import FanLinear
    >>> layer, x = FanLinear(3, 2), torch.randn(5, 3)
    >>> bool((layer(x) == torch.nn.functional.linear(x, layer.wr, layer.br)).all())
    True
    >>> layer.to_quadratic_form()
    QuadraticForm(n_inputs=3, n_outputs=2)
    """

    family = "fan"


class CompactLinear(QuadraticLinear):
    r"""The compact neurons :math:`z = w^r x + w^b (x \odot x) + c`: 2n + 1 parameters each, no products of inputs."""

    family = "fan_compact"


class ParabolicLinear(QuadraticLinear):
    r"""Parabolic neurons :math:`z = (w^r x + b^r)(w^g x + b^g)`, the RPQNN neuron: 2n + 2 parameters each."""

    family = "parabolic"


class Poly2Linear(QuadraticLinear):
    r"""Polynomial neurons of rank two, :math:`z = (w^r x + b^r)(w^g x + b^g + 1)`: 2n + 2 parameters each."""

    family = "poly2"


class SquareActivationLinear(QuadraticLinear):
    r"""Conventional neurons under a square, :math:`z = (w^r x + b^r)^2`: a family without a ReLinear start."""

    family = "square_act"


class FanConv2d(QuadraticConv2d):
    r"""Fan's neurons on patches, :math:`conv_r(x)\,conv_g(x) + conv_b(x \odot x)`: three convolutions with bias."""

    family = "fan"


class CompactConv2d(QuadraticConv2d):
    r"""Compact neurons on patches, :math:`conv_r(x) + conv_b(x \odot x)`, with one bias in all."""

    family = "fan_compact"


class ParabolicConv2d(QuadraticConv2d):
    r"""Parabolic neurons on patches, :math:`conv_r(x)\,conv_g(x)`."""

    family = "parabolic"


class Poly2Conv2d(QuadraticConv2d):
    r"""Polynomial neurons of rank two on patches, :math:`conv_r(x)\,(conv_g(x) + 1)`."""

    family = "poly2"


#: Dense layers by family; "linear", the conventional neuron, is PyTorch's class.
FAMILIES: dict[str, type[nn.Module]] = {
    "linear": nn.Linear,
    **{layer.family: layer for layer in QuadraticLinear.__subclasses__()},
}

#: Families without a conventional neuron w.x + b to start from, or that are not special cases of Fan's neuron.
_ELSEWHERE = dict.fromkeys(
    ("form_only", "power_only", "product_linear", "qnn"),
    "ReLinear is of special cases of Fan's neuron that can start as w.x + b; "
    "benchmarks.papers.noel.QuadraticNetworkClassifier has all families",
)


def check_family(name: Any, families: Iterable[str] = FAMILIES) -> str:
    """Return the checked name of a family, by default of dense layers; "rpqnn" means "parabolic"."""
    return "parabolic" if name == "rpqnn" else check_choice("family", name, families, _ELSEWHERE)


#: Convolutions by family.
CONVOLUTIONS = {layer.family: layer for layer in QuadraticConv2d.__subclasses__()}
