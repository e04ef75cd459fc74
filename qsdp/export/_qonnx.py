"""Networks as QONNX: float32 that holds integers, with the bits of every weight said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp.exceptions import ExportError
from qsdp.export._integer_model import DIGITS, checked_range
from qsdp.export._integer_network import IntegerNetwork, integer_network
from qsdp.export._layout import layouts
from qsdp.export._model import ModelDescription, describe
from qsdp.export._onnx_graph import Graph, Tensor, require_onnx

__all__ = ["to_qonnx"]

_DOMAIN = "qonnx.custom_op.general"

#: Magnitudes of integers up to this are exact in single precision, and so are their sums in any order.
_EXACT = 2**24

_RANGE = (-128, 127)


def to_qonnx(model: Any, *, input_range: Sequence[int] | None = None) -> Any:
    """Return a network as QONNX, which hls4ml and FINN turn into circuits.

    Weights of two levels are `BipolarQuant` nodes of scale 1, other integers `Quant` nodes. All tensors are integers
    in single precision, which is exact: every intermediate value is proven to be below 2^24 in magnitude.

    Parameters
    ----------
    model : BilinearNetwork or PolynomialNetwork
        Estimators encode columns, for which QONNX has no place: take their ``network_``.
    input_range : (int, int), optional
        Smallest and largest input, integers; by default those of 8 bits. They are quantized to the bits that it needs.

    Returns
    -------
    onnx.ModelProto
        With the input "X" of shape (1, d) and the output "outputs" of shape (1, C), which times the metadata "unit"
        are the network's outputs, up to the metadata "error".

    Raises
    ------
    ExportError
        Some intermediate value may reach 2^24, or the model is no network alone.
    MissingPackageError
        onnx is not installed.
    """
    require_onnx()
    description = describe(model)
    if description.encoding is not None:
        raise ExportError("to_qonnx takes a network alone, of integer inputs; take the network_ of an estimator")
    given = checked_range(_RANGE if input_range is None else input_range)
    network = _fitting(description, given)
    graph = Graph()
    graph.add("Identity", _add_network(graph, network, given), output="outputs")
    return graph.to_model(
        [Tensor("X", np.float32, (1, network.n_inputs))],
        [Tensor("outputs", np.float32, (1, network.n_outputs))],
        description="A quantized network: its outputs are unit times these, for integers in input_range.",
        properties={
            "unit": json.dumps(network.unit.tolist()),
            "error": json.dumps(network.error.tolist()),
            "input_range": json.dumps(given),
        },
        domains={_DOMAIN: 1},
    )


def _fitting(description: ModelDescription, given: tuple[int, int]) -> IntegerNetwork:
    """Return the network in integers, of the most digits whose sums are exact."""
    d = description.network.n_inputs
    largest = np.full(d, max(map(abs, given)), dtype=np.int64)
    bound = 0
    for digits in DIGITS:
        network = integer_network(
            description.network,
            description.offset,
            description.factor,
            order=np.arange(d),
            unit=Fraction(1),
            largest=largest,
            error=np.zeros(d),
            rounding=np.zeros(d),
            digits=digits,
            common_unit=description.decision == "argmax",
        )
        wanted = "neurons" if network.is_product else "form"
        layout = next(one for one in layouts(network, largest) if one.name == wanted)
        bound = max(layout.projection_bound, layout.sum_bound)
        if bound < _EXACT:
            return network
    raise ExportError(
        f"intermediate values may reach {bound}, and QONNX is exact below 2^24 = {_EXACT} only: take a smaller "
        "input_range, fewer neurons or equal second-layer weights"
    )


def _add_network(graph: Graph, network: IntegerNetwork, given: tuple[int, int]) -> str:
    d = network.n_inputs
    x = _quantized(graph, "X", given)
    if network.is_product:
        sides = [network.left] if network.is_square else [network.left, network.right]
        factors = [_projections(graph, x, side[:, :d], side[:, d:].sum(axis=1), network) for side in sides]
        x, weights = graph.add("Mul", factors[0], factors[-1]), network.alpha
    else:
        # The activation has no square: kappa and the right sides make the function linear.
        weights = 2 * network.gain * network.kappa * network.form[:, :d, d:].sum(axis=2).T
    outputs = graph.add("MatMul", x, _weights(graph, weights))
    return _shifted(graph, outputs, np.array(network.bias))


def _projections(graph: Graph, x: str, side: npt.NDArray[Any], last: npt.NDArray[Any], network: IntegerNetwork) -> str:
    own = graph.add("MatMul", x, _weights(graph, side.T))
    if network.gain != 1:
        own = graph.add("Mul", own, np.array(network.gain, np.float32))
    return _shifted(graph, own, network.kappa * last)


def _shifted(graph: Graph, x: str, shift: npt.NDArray[Any]) -> str:
    return graph.add("Add", x, _weights(graph, shift)) if np.any(shift) else x


def _weights(graph: Graph, weights: npt.NDArray[Any]) -> str:
    """Add integers as constants of the fewest bits."""
    floats = weights.astype(np.float32)
    if np.all(np.abs(weights) == 1):
        return graph.add("BipolarQuant", floats, np.ones((), np.float32), domain=_DOMAIN)
    scale = 1 if np.any(weights % 2) else 2
    return _quantized(graph, floats, (int(weights.min()) // scale, int(weights.max()) // scale), scale)


def _quantized(graph: Graph, x: str | npt.NDArray[Any], span: tuple[int, int], scale: int = 1) -> str:
    """Add `scale` times the integers of a range, which are narrow where they are as many on both sides of zero."""
    low, high = span
    largest = max(-low - 1, high)
    signed = low < 0
    n_bits = max(largest.bit_length(), 1) + signed
    narrow = signed and low > -(2 ** (n_bits - 1))
    constants = (np.array(value, np.float32) for value in (scale, 0, n_bits))
    attributes = {"signed": int(signed), "narrow": int(narrow), "rounding_mode": "ROUND"}
    return graph.add("Quant", x, *constants, domain=_DOMAIN, **attributes)
