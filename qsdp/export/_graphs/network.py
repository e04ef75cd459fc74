"""ONNX nodes of networks: in integers of proven width, and in double precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp.export._description import ModelDescription
from qsdp.export._graphs.graph import Graph
from qsdp.export._integers.exact import exact_network, has_neurons
from qsdp.export._integers.model import IntegerModel
from qsdp.export._integers.vectors import RowVectors
from qsdp.networks import BilinearNetwork, IntegerForm

__all__ = ["Types", "add_integers", "add_scores", "faster_layout", "input_type"]

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


_DOUBLE = Types(np.float64, np.float64, np.float64)


def input_type(input_range: tuple[int, int]) -> np.dtype[Any]:
    """Return the narrowest data type for a range within 32 bits."""
    low, high = input_range
    return next(np.dtype(one) for one in _INPUT_TYPES if np.iinfo(one).min <= low and high <= np.iinfo(one).max)


def faster_layout(network: Any) -> str:
    """Choose "neurons" or "form", whichever takes fewer multiplications per sample."""
    if not has_neurons(network):
        return "form"
    sides, weights = (2, network.U) if isinstance(network, BilinearNetwork) else (1, network.Q)
    (m, D), C = weights.shape, network.n_outputs
    return "neurons" if m * (sides * D + C) < C * D**2 else "form"


def add_integers(graph: Graph, x: str, model: IntegerModel) -> tuple[str, npt.DTypeLike]:
    """Add nodes for the integer outputs (n, C) of a network at integers x; return their name and data type."""
    network, layout, rows, neurons = model.network, model.layout, model.samples, model.network.neurons
    assert isinstance(rows, RowVectors)
    types = Types(
        input_type(model.input_range),
        np.int32 if layout.projection_bound < 2**31 else np.int64,
        np.int32 if max(layout.sum_bound, layout.projection_bound) < 2**31 else np.int64,
    )
    d, gain, kappa, bias = rows.n_inputs, rows.gain, rows.constant, np.array(network.bias)
    if layout.name == "form" or neurons is None:
        upper = network.triangles(rows.blocks) * network.factors[:, None, None]
        # Each pair has two places in the symmetric matrices.
        S = (upper + upper.transpose(0, 2, 1)) // 2
        quadratic, linear = gain**2 * S[:, :d, :d], 2 * gain * kappa * S[:, :d, d:].sum(axis=2)
        rest = kappa**2 * S[:, d:, d:].sum(axis=(1, 2)) + bias
        return _add_form(graph, x, quadratic, linear, rest, types), types.sums
    sides = [neurons.left] if neurons.is_square else [neurons.left, neurons.right]
    factors = [_Affine(side[:, :d], kappa * side[:, d:].sum(axis=1), gain) for side in sides]
    return _add_neurons(graph, x, factors, neurons.weights * network.factors, bias, types), types.sums


def add_scores(graph: Graph, x: str, description: ModelDescription, order: npt.NDArray[Any], layout: str) -> str:
    """Add nodes for the scores (n, C) of encoded inputs x, in double precision; return their name.

    Parameters
    ----------
    graph : Graph
    x : str
        Inputs without the constant column.
    description : ModelDescription
    order : ndarray of int
        Index in the network of each encoded input.
    layout : {"neurons", "form"}
    """
    network, constant = description.network, description.constant
    if layout == "form" or isinstance(network, IntegerForm):
        form = network.to_quadratic_form() if constant is None else network.to_quadratic_form().with_last(constant)
        S, s, s0 = form.rescaled(description.offset, description.factor).parts
        return _add_form(graph, x, S[:, order][:, :, order], s[:, order], s0, _DOUBLE)
    neurons = exact_network(description)
    factors = [_Affine(side[:, order], shift) for side, shift in zip(neurons.sides, neurons.shifts, strict=True)]
    return _add_neurons(graph, x, factors, neurons.alpha, neurons.rest, _DOUBLE)


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


class _Affine(NamedTuple):
    r"""Affine functions of the inputs, :math:`g\, w_j^T x + h_j`."""

    weights: npt.NDArray[Any]
    shift: npt.NDArray[Any]
    gain: int = 1


def _add_neurons(
    graph: Graph,
    x: str,
    factors: list[_Affine],
    alpha: npt.NDArray[Any],
    rest: npt.NDArray[Any],
    types: Types,
) -> str:
    r"""Add nodes for :math:`\sum_j A_{jk} p_j(x) p_j'(x) + B_k` with one (squared) or two affine factors p."""
    projections = []
    for weights, shift, gain in factors:
        own = _add_product(graph, x, weights.T, types.inputs, types.projections)
        if gain != 1:
            own = graph.add("Mul", own, np.array(gain, types.projections))
        if np.any(shift):
            own = graph.add("Add", own, shift.astype(types.projections))
        projections.append(graph.cast(own, types.projections, types.sums))
    products = graph.add("Mul", projections[0], projections[-1])
    sums = _add_product(graph, products, alpha, types.sums, types.sums)
    return graph.add("Add", sums, rest.astype(types.sums)) if np.any(rest) else sums


def _add_product(graph: Graph, x: str, weights: npt.NDArray[Any], given: npt.DTypeLike, wanted: npt.DTypeLike) -> str:
    """Add a node for the product of x with weights; integer weights are stored in the narrowest type."""
    if weights.dtype.kind == "f":
        return graph.add("MatMul", x, weights)
    largest = int(np.abs(weights.astype(np.int64)).max(initial=0))
    narrow = weights.astype(np.min_scalar_type(-largest - 1))
    if np.dtype(given).itemsize == 1 and largest <= _LARGEST_BYTE:
        return graph.cast(graph.add("MatMulInteger", x, narrow), np.int32, wanted)
    return graph.add("MatMul", graph.cast(x, given, wanted), graph.cast(graph.keep(narrow), narrow.dtype, wanted))
