"""Layers of the networks of other papers: their activations, as `qsdp.baselines` writes them, and their widths."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from benchmarks.methods.activations import Activation, Identity, ReLU
from qsdp._utils.validation import check_integer
from qsdp.baselines import AffineForm, TrainedLayer, relu
from qsdp.exceptions import InvalidTypeError
from qsdp.networks import QuadraticForm


def trained_layer(form: QuadraticForm | AffineForm, activation: Activation | None = None) -> TrainedLayer:
    """Return a layer of a trained network, whose activation is None for the identity and `relu` for a rectifier."""
    if isinstance(activation, Identity):
        activation = None
    return TrainedLayer(form, relu if isinstance(activation, ReLU) else activation)


def activation_of(layer: TrainedLayer) -> Any:
    """Return the activation of a layer as an object with a derivative, if `trained_layer` has made it."""
    if layer.activation is None:
        return Identity()
    return ReLU() if layer.activation is relu else layer.activation


def check_hidden(hidden: Any) -> list[int]:
    """Return the widths of the hidden layers, given one width or a sequence of widths, which may be empty."""
    if isinstance(hidden, Integral):
        hidden = (hidden,)
    if isinstance(hidden, (str, bytes)) or not isinstance(hidden, (Sequence, np.ndarray)):
        raise InvalidTypeError(
            f"hidden must be the width of one hidden layer, or a sequence of widths, one for each layer; got {hidden!r}"
        )
    return [check_integer("hidden", width, minimum=1) for width in hidden]
