"""ONNX nodes of networks: in integers of proven width, and in double precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp.export._description import ModelDescription
from qsdp.export._exact import exact_network
from qsdp.export._graphs.graph import Graph
from qsdp.export._integers.model import IntegerModel
from qsdp.export._integers.vectors import RowVectors

__all__ = ["Types", "add_integers", "add_scores", "input_type"]

#: Input types of a network alone, narrowest first.
_INPUT_TYPES = (np.uint8, np.int8, np.int16, np.int32)

#: Instructions of processors for 8-bit products add two of them in 16 bits: 2 * 255 * 64 fits.
_LARGEST_BYTE = 64


@dataclass(frozen=True)
class Types:
    """Data types of inputs, of projections on neurons and of sums."""

    inputs: npt.DTypeLike
    projections: npt.DTypeLike
    sums: npt.DTypeLike


def input_type(input_range: tuple[int, int]) -> np.dtype[Any]:
    """Return the narrowest data type for a range within 32 bits."""
    low, high = input_range
    return next(np.dtype(dtype) for dtype in _INPUT_TYPES if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max)


def add_integers(graph: Graph, x: str, model: IntegerModel) -> tuple[str, npt.DTypeLike]:
    """Add nodes for the integer outputs (n, C) of a network at integers x; return their name and data type."""
    network, layout, rows = model.network, model.layout, model.samples
    assert isinstance(rows, RowVectors)
    inputs, bias = input_type(model.input_range), np.array(network.bias)
    sums = np.int32 if max(layout.sum_bound, layout.projection_bound) < 2**31 else np.int64
    d, gain, kappa = rows.n_inputs, rows.gain, rows.constant
    if layout.name == "neurons" and (neurons := network.neurons) is not None:
        types = Types(inputs, np.int32 if layout.projection_bound < 2**31 else np.int64, sums)
        sides = [side[:, :d] for side in (neurons.left, neurons.right)]
        shifts = [kappa * side[:, d:].sum(axis=1) for side in (neurons.left, neurons.right)]
        return _add_neurons(graph, x, sides, shifts, neurons.weights * network.factors, bias, types, gain), sums
    upper = network.triangles(rows.blocks) * network.factors[:, None, None]
    # Each pair has two places in the symmetric matrices.
    S = (upper + upper.transpose(0, 2, 1)) // 2
    quadratic, linear = gain**2 * S[:, :d, :d], 2 * gain * kappa * S[:, :d, d:].sum(axis=2)
    rest = kappa**2 * S[:, d:, d:].sum(axis=(1, 2)) + bias
    return _add_form(graph, x, quadratic, linear, rest, Types(inputs, sums, sums)), sums


def add_scores(graph: Graph, x: str, description: ModelDescription, order: npt.NDArray[Any]) -> str:
    """Add nodes for the scores (n, C) of encoded inputs x, in double precision; return their name.

    Parameters
    ----------
    graph : Graph
    x : str
        Inputs without the constant column.
    description : ModelDescription
    order : ndarray of int
        Index in the network of each encoded input.
    """
    exact, double = exact_network(description), Types(np.float64, np.float64, np.float64)
    if exact.faster_layout == "form":
        S, s, s0 = exact.form.parts
        return _add_form(graph, x, S[:, order][:, :, order], s[:, order], s0, double)
    sides = [side[:, : exact.n_inputs][:, order] for side in (exact.left, exact.right)]
    shifts = [side[:, exact.n_inputs :] @ np.array(exact.tail) for side in (exact.left, exact.right)]
    return _add_neurons(graph, x, sides, shifts, exact.alpha, exact.rest, double)


def _add_form(
    graph: Graph,
    x: str,
    S: npt.NDArray[Any],
    s: npt.NDArray[Any],
    s0: npt.NDArray[Any],
    types: Types,
) -> str:
    r"""Add nodes for :math:`x^T (S_k x + s_k) + s_{0k}` for C outputs."""
    C, d = s.shape
    slopes = _add_product(graph, x, S.transpose(2, 0, 1).reshape(d, C * d), types.inputs, types.sums)
    if np.any(s):
        slopes = graph.add("Add", slopes, s.reshape(C * d).astype(types.sums))
    inputs = graph.cast(x, types.inputs, types.sums)
    if C > 1:
        slopes = graph.add("Reshape", slopes, np.array([0, C, d]))
        inputs = graph.add("Unsqueeze", inputs, np.array([1]))
    products = graph.add("Mul", slopes, inputs)
    # MatMul, because ReduceSum of onnxruntime adds 64-bit integers in double precision.
    sums = graph.add("MatMul", products, np.ones((d, 1) if C == 1 else d, types.sums))
    return graph.add("Add", sums, s0.astype(types.sums)) if np.any(s0) else sums


def _add_neurons(
    graph: Graph,
    x: str,
    sides: list[npt.NDArray[Any]],
    shifts: list[npt.NDArray[Any]],
    alpha: npt.NDArray[Any],
    rest: npt.NDArray[Any],
    types: Types,
    gain: int = 1,
) -> str:
    r"""Add nodes for :math:`\sum_j A_{jk} p_j(x) p_j'(x) + B_k` with affine functions p, of which x has the gain."""
    squares = all(np.array_equal(first, second) for first, second in (sides, shifts))
    projections = []
    for weights, shift in list(zip(sides, shifts, strict=True))[: 1 if squares else 2]:
        projection = _add_product(graph, x, weights.T, types.inputs, types.projections)
        if gain != 1:
            projection = graph.add("Mul", projection, np.array(gain, types.projections))
        if np.any(shift):
            projection = graph.add("Add", projection, shift.astype(types.projections))
        projections.append(graph.cast(projection, types.projections, types.sums))
    products = graph.add("Mul", projections[0], projections[-1])
    sums = _add_product(graph, products, alpha, types.sums, types.sums)
    return graph.add("Add", sums, rest.astype(types.sums)) if np.any(rest) else sums


def _add_product(graph: Graph, x: str, weights: npt.NDArray[Any], source: npt.DTypeLike, target: npt.DTypeLike) -> str:
    """Add a node for the product of x with weights; integer weights are stored in the narrowest type."""
    if weights.dtype.kind == "f":
        return graph.add("MatMul", x, weights)
    largest = int(np.abs(weights.astype(np.int64)).max(initial=0))
    narrow = weights.astype(np.min_scalar_type(-largest - 1))
    if np.dtype(source).itemsize == 1 and largest <= _LARGEST_BYTE:
        return graph.cast(graph.add("MatMulInteger", x, narrow), np.int32, target)
    return graph.add("MatMul", graph.cast(x, source, target), graph.cast(graph.keep(narrow), narrow.dtype, target))
