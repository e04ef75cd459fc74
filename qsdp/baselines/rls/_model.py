"""What the optimiser takes from a model: its layers and maps, their learning rates, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from qsdp._utils.validation import check_choice, check_real
from qsdp.baselines.rls._maps import LayerMaps, LinearMap, layer_of
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["check_maps", "excluded_names", "layers_of", "learning_rates", "make_rest"]

_REST: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
}


def excluded_names(exclude: str | Iterable[str], model: nn.Module) -> list[str]:
    """Return the names of modules to leave out."""
    names = [exclude] if isinstance(exclude, str) else list(exclude)
    known = [name for name, _ in model.named_modules()]
    return [check_choice("exclude", name, known) for name in names]


def layers_of(model: nn.Module, excluded: list[str], batch_first: bool) -> list[LayerMaps]:
    """Return the layers that are trained."""
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
    """Raise unless every map has weights of its own, of a precision that is allowed, and a P that is not too large."""
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
    """Return the optimiser of the parameters that are not covered."""
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
