"""Hooks that collect the mean inputs of layers from forward passes that are followed by a backward pass."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from benchmarks.papers.zhang.maps import LayerMaps, LinearMap, Mean
from qsdp.exceptions import InvalidInputError

__all__ = ["Collector", "forward_inputs"]

_Means = list[tuple[LinearMap, Mean]]


class Collector:
    """Stores the mean inputs of all maps between two steps of the optimiser.

    A forward pass in training mode attaches a note to its outputs; the note counts once a gradient reaches one of them.
    Evaluations between forward pass and step are therefore not counted, whatever their mode. Every minibatch of an
    accumulated gradient is counted.
    """

    def __init__(self) -> None:
        self._notes: dict[int, _Means] = {}
        self._numbers = itertools.count()

    def watch(self, layers: list[LayerMaps]) -> list[Any]:
        """Register hooks on the layers' modules, and return the handles."""
        return [layer.module.register_forward_hook(_Hook(self, layer), with_kwargs=True) for layer in layers]

    def clear(self) -> None:
        """Delete all recorded mean inputs."""
        self._notes.clear()

    def mean(self, one: LinearMap) -> Mean | None:
        """Return the mean input of a map over the forward passes that gradients have reached."""
        found = [mean for means in self._notes.values() for owner, mean in means if owner is one]
        if len(found) < 2:
            return found[0] if found else None
        rows = sum(mean.rows for mean in found)
        value = torch.stack([mean.value * (mean.rows / rows) for mean in found]).sum(dim=0)
        return Mean(value, rows, sum(mean.samples for mean in found))

    def note(self, means: _Means, outputs: list[Tensor]) -> None:
        """Record the mean inputs of a forward pass as soon as a gradient reaches one of its outputs."""
        number = next(self._numbers)

        def count(gradient: Tensor) -> None:
            self._notes[number] = means

        for output in outputs:
            output.register_hook(count)  # type: ignore[no-untyped-call]


class _Hook:
    """Hook that a module calls after its forward pass; it has no effect in copied and pickled modules."""

    def __init__(self, collector: Collector, layer: LayerMaps) -> None:
        self.collector: weakref.ref[Collector] | None = weakref.ref(collector)
        self.layer: LayerMaps | None = layer

    def __getstate__(self) -> dict[str, None]:
        return {"collector": None, "layer": None}

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        collector = None if self.collector is None else self.collector()
        if collector is None or self.layer is None or not module.training or not torch.is_grad_enabled():
            return
        outputs = [tensor for tensor in _tensors(output) if tensor.requires_grad]
        if outputs:
            collector.note(self.layer.means(_arguments(args, kwargs), output), outputs)


@torch.no_grad()
def forward_inputs(
    model: nn.Module, layers: list[LayerMaps], inputs: Sequence[Any]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the input rows of every layer in one forward pass in evaluation mode, over all calls of the layer."""
    seen: dict[str, list[Tensor]] = {layer.name: [] for layer in layers}

    def note(layer: LayerMaps, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        seen[layer.name].append(layer.rows(_arguments(args, kwargs), output))

    handles = [layer.module.register_forward_hook(partial(note, layer), with_kwargs=True) for layer in layers]
    training = model.training
    try:
        model.eval()
        model(*inputs)
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    missing = [name for name, rows in seen.items() if not rows]
    if missing:
        raise InvalidInputError(f"model must call its module {missing[0]!r}, or exclude must name it")
    return {name: torch.cat(rows).cpu().double().numpy() for name, rows in seen.items()}


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the input and, for recurrent modules, the initial state."""
    return [*args, *(kwargs[name] for name in ("input", "hx") if name in kwargs)]


def _tensors(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, tuple):
        for part in output:
            yield from _tensors(part)
