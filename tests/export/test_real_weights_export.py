"""Exports of networks with real weights: refused, since no encoder of images or series makes their columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qsdp
from qsdp.encoding import Patches
from qsdp.exceptions import ExportError, InvalidInputError, QSDPError
from qsdp.export import to_c, to_js, to_onnx, to_verilog

EXPORTS = [to_c, to_js, to_onnx, to_verilog]


def network_of(sizes: Any, kinds: Any, n_weights: int) -> qsdp.BilinearNetwork:
    n_entries = sum(
        size if kind == "weights" else size * (size + 1) // 2 for size, kind in zip(sizes, kinds, strict=True)
    )
    layout, rng = qsdp.Blocks(np.zeros((1, n_entries)), sizes, kinds).layout, np.random.default_rng(0)
    U, V = rng.choice([-1, 1], size=(2, 3, layout.side))
    weights = 0.5 * rng.integers(-3, 4, n_weights)
    return qsdp.BilinearNetwork.on_blocks(layout, U, V, np.full(3, 0.25), np.zeros(3, dtype=int), weights)


@pytest.mark.parametrize("export", EXPORTS)
def test_a_network_alone_is_refused(export: Callable[..., Any]) -> None:
    network = network_of([3, 2], ["quadratic", "weights"], 2)
    for model in (network, network.to_integer_form()):
        with pytest.raises(ExportError, match="pass the fitted estimator instead"):
            export(model)


@pytest.mark.parametrize("export", [to_c, to_js, to_onnx])
def test_an_encoder_of_the_neurons_alone_is_refused(export: Callable[..., Any]) -> None:
    encoder = Patches(size=2, stride=1, regions=1, constant=255).fit(np.zeros((2, 4, 4), dtype=np.uint8))
    sizes, kinds = [*encoder.layout_.all_sizes, 2], [*encoder.layout_.kinds, "weights"]
    network = network_of(sizes, kinds, 2)
    with pytest.raises(InvalidInputError, match="encoder must be the fitted one of the network's blocks"):
        export(network, encoder=encoder)
    with pytest.raises(InvalidInputError, match="network must have the blocks of the encoder"):
        encoder.predict(network, np.zeros((1, 4, 4), dtype=np.uint8))
    with pytest.raises(InvalidInputError, match="network must have the blocks of the encoder"):
        qsdp.plotting.FiltersDisplay(network=network, encoder=encoder)


def test_columns_have_no_weights_to_export() -> None:
    network = qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5])
    assert network.weights.shape == (0,)
    assert "n_weights" not in repr(network)
    with pytest.raises(QSDPError, match="weights must have the shape"):
        network.with_neurons(network.U, network.V, network.alpha, weights=[1.0])
