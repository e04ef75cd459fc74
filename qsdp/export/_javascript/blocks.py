"""Networks on images and series as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qsdp.exceptions import InvalidInputError
from qsdp.export._description import ModelDescription, check_encoder, terms_of_neurons
from qsdp.export._javascript.data import output_names, packed, smallest
from qsdp.networks import BlockForm
from qsdp.networks.compact import integer_weights

__all__ = ["block_data"]

_PATCHES = ("size", "stride", "padding", "regions", "downsample", "centre")


def block_data(description: ModelDescription, kinds: Sequence[str]) -> dict[str, Any]:
    """Return geometry and network of a model of images or series, in the smallest of some layouts."""
    encoder, network = check_encoder(description, series=True), description.network
    stored = smallest({"neurons": _neurons, "form": _form}[kind](description) for kind in kinds)
    stored["rest"] = description.offset.tolist()
    names = output_names(description)
    return {**_geometry(encoder), "inputs": network.n_inputs, "network": stored, "effectOutputs": names}


def _geometry(encoder: Any) -> dict[str, Any]:
    """Return what the encoder does with an image or a series."""
    if hasattr(encoder, "lags"):
        lags = np.ravel(encoder.lags).tolist()
        learned = {"mean": encoder.mean_.tolist(), "scale": encoder.scale_.tolist()}
        shared = {name: getattr(encoder, name) for name in ("size", "stride", "segments", "constant")}
        return {"series": {**shared, **learned, "lags": lags}}
    shared = {name: getattr(encoder, name) for name in _PATCHES}
    return {"image": {**shared, "shape": list(encoder.image_shape_), "constant": encoder.constant_}}


def _neurons(description: ModelDescription) -> dict[str, Any]:
    """Return a term for each neuron and output that it serves, by block and output."""
    network = description.network
    weights, units = _integers(network.output_weights)
    neuron, output = terms_of_neurons(weights, network.block)
    arrays = {"left": network.U[neuron], "right": network.V[neuron], "block": network.block[neuron], "output": output}
    arrays["weight"] = weights[neuron, output]
    return {name: packed(array) for name, array in arrays.items()} | {"units": (units * description.factor).tolist()}


def _form(description: ModelDescription) -> dict[str, Any]:
    network = description.network
    if not isinstance(network, BlockForm):
        weights, units = _integers(network.output_weights)
        network = network.with_weights(network.U, network.V, weights)
        entries = network.entries
    else:
        entries, units = network.integers * network.layout.counts, network.scales
    whole = np.rint(entries)
    stored = packed(whole.astype(np.int64) if np.array_equal(whole, entries) else entries)
    return {"entries": stored, "units": (units * description.factor).tolist()}


def _integers(weights: Any) -> tuple[Any, Any]:
    """Return the second layer as integers and units where it is small multiples of them, else as it is."""
    try:
        return integer_weights(weights)
    except InvalidInputError:
        return weights, np.ones(weights.shape[1])
