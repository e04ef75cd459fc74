"""Export to QONNX: integers in single precision, with the number of bits of every weight declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, IntArray
from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export._description import ModelDescription, describe, is_on_blocks
from qsdp.export._graphs.graph import Graph, Tensor, require_onnx
from qsdp.export._graphs.images import add_image_sums
from qsdp.export._integers.model import DIGITS, checked_range, integer_model
from qsdp.export._integers.network import EXACT, unit_of
from qsdp.networks import BilinearNetwork, IntegerForm, PolynomialNetwork

__all__ = ["to_qonnx"]

_DOMAIN = "qonnx.custom_op.general"

#: Integers below this limit are exact in single precision, and so are their sums in any order.
_LIMIT = 2**24

_RANGE = (-128, 127)


def to_qonnx(model: Any, *, input_range: Sequence[int] | None = None, encoder: Any = None) -> Any:
    r"""Export a network to QONNX, which hls4ml and FINN convert to circuits.

    The outputs are :math:`\sum_j A_{jk} (u_j^T x)(v_j^T x) + b_k^T x + c_k` with integers A, b, c. Weights of two
    levels are ``BipolarQuant`` nodes of scale 1; other integers are ``Quant`` nodes. All tensors are in single
    precision, and exact: every intermediate value is proven to be an integer below 2^24 in magnitude.

    Parameters
    ----------
    model : BilinearNetwork or PolynomialNetwork
        QONNX cannot express how estimators encode columns: pass the ``network_`` of an estimator. An estimator whose
        encoding is `qsdp.encoding.Patches`, or a `BlockNetwork` or `BlockForm` with its `encoder`, takes images.
    input_range : (int, int), optional
        Smallest and largest input, integers; by default, those of 8 bits, signed or for images unsigned. Inputs are
        quantized to as many bits as this range needs. It begins at 0 for images.
    encoder : Patches, optional
        The fitted encoder of a network on blocks alone.

    Returns
    -------
    onnx.ModelProto
        The input is "X" of shape (1, d). The output "outputs" of shape (1, C) holds integers; times the metadata
        "unit", they are the network's outputs up to the metadata "error". The error is 0 if second-layer weights and
        the linear and constant parts are multiples of one unit.

        A network on images has the input "X" of shape (1, height, width, channels): a convolution by 0 and 1 makes the
        patches, and the products of their entries, summed by region, are multiplied by integers. The metadata "unit",
        "error" and "offset" then have an entry for each output: scores are "outputs" times "unit" plus "offset".

    Raises
    ------
    ExportError
        An intermediate value may reach 2^24, or the model is neither a network alone nor one on images.
    MissingPackageError
        onnx is not installed.

    Examples
    --------
    >>> import qsdp
    >>> network = qsdp.BilinearNetwork([[1, 1], [1, -1]], [[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> [node.op_type for node in qsdp.export.to_qonnx(network).graph.node]
    ['Quant', 'BipolarQuant', 'MatMul', 'BipolarQuant', 'MatMul', 'Mul', 'BipolarQuant', 'MatMul']
    """
    require_onnx()
    description = describe(model, encoder=encoder, blocks=True)
    if is_on_blocks(description.network):
        return _of_images(description, checked_range((0, 255) if input_range is None else input_range))
    if description.encoding is not None:
        raise ExportError("to_qonnx takes a network alone, of integer inputs, such as the network_ of an estimator")
    if isinstance(description.network, IntegerForm):
        raise ExportError("to_qonnx takes a network with neurons, which an integer form no longer has")
    given = checked_range(_RANGE if input_range is None else input_range)
    network = _fitting(description.network, max(map(abs, given)))
    graph = Graph()
    d, C = network.linear.shape
    graph.publish(_add_network(graph, network, given), "outputs", np.float32, C, n_rows=1)
    return graph.to_model(
        [Tensor("X", np.float32, (1, d))],
        description="A quantized network: its outputs are unit times these, for integers in input_range.",
        properties={
            "unit": network.unit,
            "error": network.error,
            "input_range": given,
            "bound": network.bound,
        },
        domains={_DOMAIN: 1},
    )


def _of_images(description: ModelDescription, given: tuple[int, int]) -> Any:
    """Export a network on images, with as many digits of what must be rounded as are exact in single precision."""
    if given[0] != 0:
        raise InvalidInputError(f"input_range must begin at 0 for images; got {given}")
    bound = 0
    for digits in DIGITS:
        model = integer_model(description, layout="form", input_range=given, digits=[digits])
        entries, forms = model.samples.largest_products, np.abs(model.network.forms)
        # Also the entries of vectors, which are summed pixels.
        bound = int(max((forms @ entries).max(), entries.max(), model.samples.vector.max()))
        if bound < _LIMIT:
            break
    else:
        raise _too_large(bound)
    graph, integers = Graph(), model.network
    pixels = _quantized(graph, "X", given)

    def constant(array: npt.NDArray[Any]) -> str:
        return _weights(graph, array.astype(np.int64))

    sums = add_image_sums(graph, pixels, model, np.float32, constant)
    graph.publish(sums, "outputs", np.float32, integers.n_outputs, n_rows=1)
    return graph.to_model(
        [Tensor("X", np.float32, (1, *model.encoder.image_shape_))],
        description="A quantized network on images: scores are outputs times unit plus offset.",
        properties={
            "unit": (integers.unit * integers.factors).tolist(),
            "offset": (integers.unit * np.array(integers.bias, dtype=np.float64)).tolist(),
            "error": model.error.tolist(),
            "input_range": given,
            "bound": bound,
        },
        domains={_DOMAIN: 1},
    )


def _too_large(bound: int) -> ExportError:
    return ExportError(
        f"sums may reach {bound}, and QONNX is exact below 2^24 = {_LIMIT} only: take a smaller input_range, fewer "
        "neurons or equal second-layer weights"
    )


@dataclass(frozen=True, eq=False)
class _Network:
    """Function ``unit * (sum_j alpha_jk (w_j . x)(w'_j . x) + linear_k . x + constant_k)`` with integer coefficients.

    Attributes
    ----------
    sides : list of ndarray of shape (m, d)
        w and w', or only w for a network of squares; empty for an activation without a square.
    alpha : ndarray of shape (m, C)
    linear : ndarray of shape (d, C)
    constant : ndarray of shape (C,)
    unit : float
        Positive factor from integers to outputs.
    error : float
        Bound on the distance from the outputs of the network.
    bound : int
        Bound on the magnitudes of all intermediate values.
    """

    sides: list[IntArray]
    alpha: IntArray
    linear: IntArray
    constant: IntArray
    unit: float
    error: float
    bound: int


def _fitting(network: BilinearNetwork | PolynomialNetwork, largest: int) -> _Network:
    """Convert a network to integers with the smallest error among units for which sums are exact."""
    form = network.to_quadratic_form()
    d, (_, s, s0) = network.n_inputs, form.parts
    square = network.activation.coefficients[0] if network.activation else 1.0
    weights = [network.U, network.V] if isinstance(network, BilinearNetwork) else [network.Q]
    sides = [own[:, :d].astype(np.int64) for own in weights] if square else []
    if not any(np.any(side % 2) for side in sides):
        # Levels such as -2, 0 and 2 need fewer bits when halved.
        sides, square = [side // 2 for side in sides], 4.0 * square
    exact = square * network.output_weights, s.T, s0
    candidates = [_rounded(sides, exact, unit, largest) for unit in _units(exact[0] if square else exact[1])]
    fitting = [one for one in candidates if one.bound < _LIMIT]
    if not fitting:
        raise _too_large(min(one.bound for one in candidates))
    return min(fitting, key=lambda one: one.error)


def _units(weights: FloatArray) -> list[float]:
    """List candidate units: the weights' common unit and fractions of it, else fractions of the largest weight."""
    unit, exact = unit_of(weights, DIGITS[0])
    if exact:
        return [unit / 2**digits for digits in range(DIGITS[0])]
    return [float(np.abs(weights).max()) / (2**digits - 1) for digits in DIGITS]


def _rounded(
    sides: list[IntArray], exact: tuple[FloatArray, FloatArray, FloatArray], unit: float, largest: int
) -> _Network:
    """Round exact second-layer weights, linear and constant parts to integers times a unit."""
    parts = [np.rint(own / unit) for own in exact]
    rests = [np.abs(own - unit * part) for own, part in zip(exact, parts, strict=True)]
    bounds = [np.abs(side).sum(axis=1) * float(largest) for side in sides] or [np.zeros(len(parts[0]))]
    products = bounds[0] * bounds[-1]
    sums, lost = (
        products @ np.abs(alpha) + largest * np.abs(linear).sum(axis=0) + np.abs(constant)
        for alpha, linear, constant in (parts, rests)
    )
    error = float(lost.max()) if np.any(lost > EXACT * unit * sums) else 0.0
    bound = int(max(sums.max(), *(values.max() for values in (*bounds, products))))
    alpha, linear, constant = (part.astype(np.int64) for part in parts)
    return _Network(sides, alpha, linear, constant, unit, error, bound)


def _add_network(graph: Graph, network: _Network, given: tuple[int, int]) -> str:
    x = _quantized(graph, "X", given)
    sums = []
    if network.sides:
        factors = [graph.add("MatMul", x, _weights(graph, side.T)) for side in network.sides]
        if len(factors) == 1:
            # Give the tensor a second name: when qonnx renames tensors, it forgets the second of two equal inputs.
            factors.append(graph.add("Identity", factors[0]))
        products = graph.add("Mul", *factors)
        sums.append(graph.add("MatMul", products, _weights(graph, network.alpha)))
    if np.any(network.linear) or not sums:
        sums.append(graph.add("MatMul", x, _weights(graph, network.linear)))
    if np.any(network.constant):
        sums.append(_weights(graph, network.constant))
    outputs = sums[0]
    for other in sums[1:]:
        outputs = graph.add("Add", outputs, other)
    return outputs


def _weights(graph: Graph, weights: IntArray) -> str:
    """Add nodes for integer constants with the minimum number of bits."""
    floats = weights.astype(np.float32)
    if np.all(np.abs(weights) == 1):
        return graph.add("BipolarQuant", floats, np.ones((), np.float32), domain=_DOMAIN)
    return _quantized(graph, floats, (int(weights.min()), int(weights.max())))


def _quantized(graph: Graph, x: str | npt.NDArray[Any], span: tuple[int, int]) -> str:
    """Add a quantizer node for integers of a range with the minimum number of bits ("narrow" if symmetric)."""
    low, high = span
    signed = low < 0
    n_bits = max(max(-low - 1, high).bit_length(), 1) + signed
    narrow = signed and low > -(2 ** (n_bits - 1))
    constants = (np.array(value, np.float32) for value in (1, 0, n_bits))
    return graph.add(
        "Quant", x, *constants, domain=_DOMAIN, signed=int(signed), narrow=int(narrow), rounding_mode="ROUND"
    )
