"""Networks on image patches as ONNX: a convolution, sums of products by region, and integer outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from qsdp._utils.numeric import LARGEST_INTEGER
from qsdp.exceptions import ExportError
from qsdp.export._description import ModelDescription, check_encoder
from qsdp.export._graphs.graph import Graph, Tensor
from qsdp.export._graphs.table import add_answers
from qsdp.export._integers.model import IntegerModel, integer_model
from qsdp.export._integers.vectors import ImageVectors

__all__ = ["images_to_onnx"]

_X = "X"

#: Integers up to this are exact in single precision.
_LARGEST_SINGLE = 2**24


def images_to_onnx(description: ModelDescription) -> Any:
    """Export a network on patches to an onnx.ModelProto with the same integer outputs as its C code."""
    check_encoder(description)
    model = integer_model(description, layout="form")
    if model.network.sums > LARGEST_INTEGER:
        raise ExportError("the sums exceed 2^53: take fewer neurons or bits of second-layer weights (qsdp.refit)")
    graph, integers, C = Graph(), model.network, model.network.n_outputs
    pixels = graph.cast(_X, np.uint8, np.float32)
    sums = graph.cast(_sums(graph, pixels, model), np.float64, np.int64)
    outputs = sums if np.all(integers.factors == 1) else graph.add("Mul", sums, integers.factors)
    if any(integers.bias):
        outputs = graph.add("Add", outputs, np.array(integers.bias, dtype=np.int64))
    outputs = graph.publish(outputs, "outputs", np.int64, C)
    # Integers decide, as in C.
    decided = graph.cast(outputs, np.int64, np.float64)
    scores = graph.add("Mul", decided, integers.unit)
    if description.classes:
        add_answers(graph, description, scores, decided)
    else:
        graph.publish(scores, "scores", np.float64, C)
    return graph.to_model(
        [Tensor(_X, np.uint8, (None, *model.encoder.image_shape_))],
        description="A quantized network on images: scores are outputs times unit.",
        properties={"unit": integers.unit.tolist(), "error": model.error.tolist(), "input_range": [0, 255]},
    )


def _patches(graph: Graph, pixels: str, samples: ImageVectors) -> str:
    """Add nodes for the entries of all patches, of shape (n, N, rows, columns), exact in single precision."""
    grid = samples.grid
    size, down, padding, side = grid.size, grid.downsample, grid.padding, grid.side
    height, width, channels = grid.image_shape
    centre = int(grid.centre) * grid.area
    if samples.vector.max() > _LARGEST_SINGLE:
        raise ExportError("sums of pixels exceed 2^24: take a smaller downsample, centre or constant of the encoder")
    images = graph.add("Transpose", pixels, perm=[0, 3, 1, 2])
    # Each output of the convolution is the sum of a square of pixels, or a constant.
    kernels = np.zeros((side, channels, size * down, size * down), dtype=np.float32)
    for k, (i, j, channel) in enumerate(np.ndindex(size, size, channels)):
        kernels[k, channel, i * down : (i + 1) * down, j * down : (j + 1) * down] = 1.0
    biases = np.full(side, -float(centre), dtype=np.float32)
    if grid.constant:
        biases[-1] = samples.constant
    # Rows and columns beyond a multiple of the squares are cut off by negative padding.
    after = [down * padding - length % down for length in (height, width)]
    pads = [0, 0, down * padding, down * padding, 0, 0, *after]
    if any(pads):
        images = graph.add("Pad", images, np.array(pads))
    return graph.add("Conv", images, kernels, biases, strides=[grid.stride * down] * 2)


def _sums(graph: Graph, pixels: str, model: IntegerModel) -> str:
    """Add nodes for the sums over neurons (n, C), integers in double precision, of pixels in single precision."""
    assert isinstance(model.samples, ImageVectors)
    patches = _patches(graph, pixels, model.samples)
    grid, layout = model.samples.grid, model.encoder.layout_
    forms = layout.matrices(model.network.forms / layout.counts).reshape(-1, layout.n_blocks, layout.side**2)
    rows, columns = grid.edges
    total = ""
    for r in range(layout.n_blocks):
        if not np.any(forms[:, r]):
            continue
        i, j = divmod(r, grid.regions)
        starts, ends = np.array([rows[i], columns[j]]), np.array([rows[i + 1], columns[j + 1]])
        region = graph.add("Slice", patches, starts, ends, np.array([2, 3]))
        vectors = graph.add("Reshape", region, np.array([0, layout.side, -1]))
        vectors = graph.cast(vectors, np.float32, np.float64)
        products = graph.add("MatMul", vectors, graph.add("Transpose", vectors, perm=[0, 2, 1]))
        flat = graph.add("Reshape", products, np.array([0, layout.side**2]))
        part = graph.add("MatMul", flat, np.ascontiguousarray(forms[:, r].T))
        total = part if not total else graph.add("Add", total, part)
    if not total:
        raise ExportError("the network is zero, which has no graph")
    return total
