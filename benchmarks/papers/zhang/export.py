"""Export of trained convolutional, recurrent and LSTM networks as the affine functions that quantization takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from benchmarks.methods.activations import DIFFERENTIABLE
from benchmarks.methods.layers import trained_layer
from benchmarks.papers.zhang.collector import forward_inputs
from benchmarks.papers.zhang.maps import LayerMaps, excluded_names, layers_of
from qsdp._utils.validation import FloatArray
from qsdp.baselines._layers import AffineForm, TrainedLayer

__all__ = ["ExportedModule", "export_modules"]


@dataclass(frozen=True, eq=False)
class ExportedModule:
    """A module as one affine function of rows, such as the patches of a convolution or the time steps of a recurrence.

    Attributes
    ----------
    name : str
        Name of the module.
    layer : TrainedLayer
        Affine function of the inputs of a `Linear` module; for a convolution, of a flattened receptive field; for
        recurrent modules, of inputs and outputs one step earlier, side by side, with their own activation. The
        pre-activations of an LSTM are its gates, in PyTorch's order.
    inputs : ndarray of shape (rows, d)
        Inputs of the module for the data: for all samples, and for all positions or time steps.
    """

    name: str
    layer: TrainedLayer
    inputs: FloatArray


def export_modules(model: nn.Module, *inputs: Any, exclude: str | Iterable[str] = ()) -> list[ExportedModule]:
    """Return every module that recursive least squares trains as an affine function, with its inputs on data.

    The result suits `qsdp.distill`, `qsdp.baselines.quantize_layers` and certificates, which treat weights as functions
    of data. Weights shared among positions or time steps are one function, of as many rows.

    Parameters
    ----------
    model : torch.nn.Module
        Model as for `RLS`; it is run once, in evaluation mode.
    *inputs
        Inputs of the model: the data, as tensors.
    exclude : str or iterable of str, default=()
        Names of modules to leave out.

    Returns
    -------
    list of ExportedModule
        Modules in the order of the model, in double precision.

    Examples
    --------
    >>> import torch, qsdp
    >>> from benchmarks.papers.zhang import export_modules
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 2))
    >>> first, second = export_modules(model, torch.randn(20, 1, 4, 4))
    >>> first.layer.form, first.inputs.shape
    (AffineForm(n_inputs=9, n_outputs=4), (80, 9))
    >>> match = qsdp.distill(first.layer.form, first.inputs, 3000, random_state=0)
    >>> match.network.n_inputs
    9
    """
    layers = layers_of(model, excluded_names(exclude, model), batch_first=True)
    rows = forward_inputs(model, layers, inputs)
    return [ExportedModule(layer.name, _trained(layer), rows[layer.name]) for layer in layers]


def _trained(layer: LayerMaps) -> TrainedLayer:
    weights, biases = (tensor.cpu().double().numpy() for tensor in layer.affine())
    activation = None
    if isinstance(layer.module, nn.RNN):
        activation = DIFFERENTIABLE[str(layer.module.nonlinearity)]()
    return trained_layer(AffineForm(weights, biases), activation)
