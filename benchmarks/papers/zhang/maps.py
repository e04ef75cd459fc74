"""The linear maps of a model as matrices, the means of their inputs, and their learning rates.

A fully connected or convolutional layer is one map. A recurrent layer has two, of its inputs and of its own outputs one
step earlier. The four gates of an LSTM are side by side, so that their order does not matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qsdp._utils.validation import check_choice, check_real
from qsdp.exceptions import InvalidInputError, InvalidTypeError


@dataclass(frozen=True)
class LinearMap:
    """Weights (n_out, ...) and a bias (n_out,), or None if it is not trained, as one matrix (n_out, side)."""

    name: str
    weight: nn.Parameter
    bias: nn.Parameter | None

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Weight and bias."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    @property
    def n_out(self) -> int:
        """Number of outputs."""
        return int(self.weight.shape[0])

    @property
    def n_in(self) -> int:
        """Number of inputs, without the constant of the bias."""
        return self.weight.numel() // self.n_out

    @property
    def side(self) -> int:
        """Number of rows of P."""
        return self.n_in + (self.bias is not None)

    def matrix(self) -> Tensor:
        """Return a copy of the parameters of shape (n_out, side)."""
        return self._joined(self.weight.detach(), None if self.bias is None else self.bias.detach())

    def gradient(self) -> Tensor:
        """Return the gradients of shape (n_out, side)."""
        assert self.weight.grad is not None
        return self._joined(self.weight.grad, None if self.bias is None else self.bias.grad)

    def add(self, change: Tensor) -> None:
        """Add a matrix of shape (n_out, side) to the parameters."""
        self.weight.add_(change[:, : self.n_in].reshape(self.weight.shape))
        if self.bias is not None:
            self.bias.add_(change[:, -1])

    def _joined(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        flat = weight.reshape(self.n_out, -1)
        return flat.clone() if bias is None else torch.cat([flat, bias[:, None]], dim=1)


@dataclass(frozen=True)
class Mean:
    """Mean input (n_in,) of a map over the rows of a forward pass; T in the factor k T is the rows per sample."""

    value: Tensor
    rows: int
    samples: int


class LayerMaps(ABC):
    """Base class: a module that the optimiser trains, and the linear maps in it."""

    def __init__(self, name: str, module: nn.Module, batch_first: bool) -> None:
        self.name, self.module, self.batch_first = name, module, batch_first
        self.maps = [one for one in self._find_maps() if one.weight.requires_grad]

    def _find_maps(self) -> list[LinearMap]:
        """Return the linear maps of the module; a subclass overrides this if it has several."""
        return [self._map("weight", "bias")]

    @abstractmethod
    def means(self, inputs: Sequence[Any], output: Any) -> list[tuple[LinearMap, Mean]]:
        """Return the mean inputs of all maps, given arguments and result of the module's forward pass."""

    @abstractmethod
    def rows(self, inputs: Sequence[Any], output: Any) -> Tensor:
        """Return all inputs of the module's affine function, (rows, side), for a forward pass."""

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return weights (outputs, side) and biases (outputs,) of that function, with all maps side by side."""
        own = dict(self.module.named_parameters(recurse=False))
        weights = [own[name].detach().flatten(start_dim=1) for name in own if name.startswith("weight")]
        biases = [own[name].detach() for name in own if name.startswith("bias")]
        joined = torch.cat(weights, dim=1)
        return joined, sum(biases, start=joined.new_zeros(len(joined)))

    def _map(self, weight: str, bias: str, suffix: str = "") -> LinearMap:
        parameters = dict(self.module.named_parameters(recurse=False))
        trained = parameters.get(bias)
        if trained is not None and not trained.requires_grad:
            trained = None
        return LinearMap(f"{self.name}{suffix}", parameters[weight], trained)

    def _select(self, means: Mapping[str, Mean]) -> list[tuple[LinearMap, Mean]]:
        return [(one, means[one.name]) for one in self.maps]


class DenseMaps(LayerMaps):
    """Maps of `torch.nn.Linear`; leading dimensions beyond the batch are time steps."""

    module: nn.Linear

    def means(self, inputs: Sequence[Any], output: Any) -> list[tuple[LinearMap, Mean]]:
        """Return the mean over samples and time steps."""
        x, rows = inputs[0], self.rows(inputs, output)
        samples = len(rows) if x.dim() < 3 else x.shape[0 if self.batch_first else 1]
        return self._select({self.name: Mean(rows.mean(dim=0), len(rows), int(samples))})

    def rows(self, inputs: Sequence[Any], output: Any) -> Tensor:
        """Return the inputs of all samples and time steps."""
        rows: Tensor = inputs[0].detach().reshape(-1, inputs[0].shape[-1])
        return rows


class ConvolutionMaps(LayerMaps):
    """Maps of `torch.nn.Conv2d`; every position of the output is one more row."""

    module: nn.Conv2d

    def means(self, inputs: Sequence[Any], output: Any) -> list[tuple[LinearMap, Mean]]:
        """Return the mean over samples and positions of the flattened receptive fields.

        It equals the mean over positions of the mean image, since receptive fields are linear in the image.
        """
        x = inputs[0].detach()
        images = 1 if x.dim() == 3 else len(x)
        image = x[None] if x.dim() == 3 else x.mean(dim=0, keepdim=True)
        fields = self._fields(image)
        rows = images * fields.shape[-1]
        return self._select({self.name: Mean(fields.mean(dim=-1)[0], rows, rows)})

    def rows(self, inputs: Sequence[Any], output: Any) -> Tensor:
        """Return the receptive fields of all samples and positions, flattened."""
        x = inputs[0].detach()
        fields = self._fields(x[None] if x.dim() == 3 else x)
        return fields.transpose(1, 2).reshape(-1, fields.shape[1])

    def _fields(self, images: Tensor) -> Tensor:
        """Return the receptive fields (images, side, positions)."""
        module = self.module
        return F.unfold(_padded(images, module), module.kernel_size, dilation=module.dilation, stride=module.stride)


class RecurrentMaps(LayerMaps):
    """Maps of `torch.nn.RNN` and `torch.nn.LSTM` with one layer: of the inputs and of the previous outputs."""

    module: nn.RNN | nn.LSTM

    def _find_maps(self) -> list[LinearMap]:
        names = {"ih": ".input", "hh": ".recurrent"}
        return [self._map(f"weight_{s}_l0", f"bias_{s}_l0", name) for s, name in names.items()]

    def means(self, inputs: Sequence[Any], output: Any) -> list[tuple[LinearMap, Mean]]:
        """Return the means over samples and time steps; the initial state is zero unless it is an input."""
        x, y, first = self._steps(inputs, output)
        times, samples = x.shape[:2]
        rows = int(times * samples)
        before = y[:-1].sum(dim=(0, 1)) + first.sum(dim=0)
        return self._select(
            {
                f"{self.name}.input": Mean(x.mean(dim=(0, 1)), rows, int(samples)),
                f"{self.name}.recurrent": Mean(before / rows, rows, int(samples)),
            }
        )

    def rows(self, inputs: Sequence[Any], output: Any) -> Tensor:
        """Return inputs and outputs one step earlier, side by side, of all time steps and samples."""
        x, y, first = self._steps(inputs, output)
        before = torch.cat([first[None], y[:-1]])
        return torch.cat([x, before], dim=2).flatten(end_dim=1)

    def _steps(self, inputs: Sequence[Any], output: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return inputs and outputs (times, samples, ...), and the outputs before the first step (samples, n)."""
        if isinstance(inputs[0], nn.utils.rnn.PackedSequence):
            raise InvalidTypeError(f"layer {self.name!r}: packed sequences are not covered by RLS; pad them instead")
        x, y = inputs[0].detach(), output[0].detach()
        if x.dim() == 2:
            x, y = x[:, None], y[:, None]
        elif self.module.batch_first:
            x, y = x.transpose(0, 1), y.transpose(0, 1)
        state = inputs[1] if len(inputs) > 1 else None
        if state is None:
            return x, y, y.new_zeros(y.shape[1:])
        first = (state[0] if isinstance(state, tuple) else state).detach()
        return x, y, first.reshape(-1, first.shape[-1])


def layer_of(name: str, module: nn.Module, batch_first: bool) -> LayerMaps | None:
    """Return a module as a layer, or None if RLS does not support its class; raise an error for unsupported options."""
    own = set(dict(module.named_parameters(recurse=False)))
    if isinstance(module, nn.Linear) and "weight" in own:
        return DenseMaps(name, module, batch_first)
    if isinstance(module, nn.Conv2d) and "weight" in own:
        if module.groups != 1:
            raise _refusal(name, f"a convolution of {module.groups} groups has a different input for each group")
        return ConvolutionMaps(name, module, batch_first)
    if isinstance(module, (nn.RNN, nn.LSTM)):
        if module.num_layers != 1:
            reason = f"of {module.num_layers} stacked layers in one module only the last one's outputs are seen"
            raise _refusal(name, reason, "use one module for each layer")
        if module.bidirectional:
            raise _refusal(name, "the derivation has one direction of time")
        if module.proj_size:
            raise _refusal(name, "projections of the outputs are not part of the derivation")
        return RecurrentMaps(name, module, batch_first)
    return None


def _refusal(name: str, reason: str, advice: str | None = None) -> InvalidInputError:
    advice = advice or f"exclude it: exclude=[{name!r}], rest='adam'"
    return InvalidInputError(f"RLS cannot train the layer {name!r}: {reason}; {advice}")


def _padded(image: Tensor, module: nn.Conv2d) -> Tensor:
    if isinstance(module.padding, str):
        if module.padding == "valid":
            return image
        totals = [step * (size - 1) for step, size in zip(module.dilation, module.kernel_size, strict=True)]
        (top, bottom), (left, right) = ((total // 2, total - total // 2) for total in totals)
    else:
        (top, left), (bottom, right) = module.padding, module.padding
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    return F.pad(image, (left, right, top, bottom), mode=mode)


_REST: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
}


def excluded_names(exclude: str | Iterable[str], model: nn.Module) -> list[str]:
    """Return the checked names of modules to leave out."""
    names = [exclude] if isinstance(exclude, str) else list(exclude)
    known = [name for name, _ in model.named_modules()]
    return [check_choice("exclude", name, known) for name in names]


def layers_of(model: nn.Module, excluded: list[str], batch_first: bool) -> list[LayerMaps]:
    """Return the layers of a model that RLS trains."""
    layers = []
    for name, module in model.named_modules():
        if any(name == one or name.startswith(f"{one}.") for one in excluded):
            continue
        for parameter in module.parameters(recurse=False):
            if isinstance(parameter, nn.parameter.UninitializedParameter):
                raise InvalidInputError(f"{name!r} has no shape yet: run the model once before RLS(model)")
        layer = layer_of(name or "model", module, batch_first)
        if layer is not None and layer.maps:
            layers.append(layer)
    if not layers:
        raise InvalidInputError("model must have a Linear, Conv2d, RNN or LSTM module to train; all are excluded")
    return layers


def check_maps(maps: list[LinearMap], memory_limit: int) -> None:
    """Raise an error unless every map has its own weights, an allowed precision and a P that is not too large."""
    owners: dict[int, str] = {}
    for one in maps:
        if one.weight.dtype not in {torch.float32, torch.float64}:
            raise InvalidTypeError(f"{one.name!r} must be of single or double precision; got {one.weight.dtype}")
        if id(one.weight) in owners:
            raise InvalidInputError(
                f"{one.name!r} shares its weights with {owners[id(one.weight)]!r}, so they have no single input; "
                "exclude both"
            )
        owners[id(one.weight)] = one.name
        size = one.side**2 * one.weight.element_size()
        if size > memory_limit:
            raise InvalidInputError(
                f"{one.name!r} needs a P of {one.side} x {one.side} numbers, {size / 1e9:.2f} GB: more than "
                f"memory_limit={memory_limit}; raise it, or exclude the layer: exclude=[{one.name!r}], rest='adam'"
            )


def learning_rates(lr: float | Mapping[str, float], layers: list[LayerMaps]) -> dict[str, float]:
    """Return the learning rate of every map."""
    names = {one.name: layer.name for layer in layers for one in layer.maps}
    if not isinstance(lr, Mapping):
        rate = check_real("lr", lr, strict=True)
        return dict.fromkeys(names, rate)
    for key in lr:
        check_choice("lr", key, {*names, *names.values()})
    given = {key: check_real(f"lr[{key!r}]", rate, strict=True) for key, rate in lr.items()}
    return {name: given.get(name, given.get(module, 1.0)) for name, module in names.items()}


def make_rest(rest: Any, others: list[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer | None:
    """Return the optimiser of the parameters that RLS does not train."""
    if rest is not None and not callable(rest):
        rest = _REST[check_choice("rest", rest, _REST)]
    if not others:
        return None
    if rest is None:
        names = ", ".join(repr(name) for name, _ in others)
        raise InvalidInputError(
            f"RLS covers Linear, Conv2d, RNN and LSTM layers that are not excluded; {names} need another optimiser: "
            "rest='adam' or 'sgd'"
        )
    made: torch.optim.Optimizer = rest([parameter for _, parameter in others])
    return made
