"""Export to ONNX: networks in integers, estimators and models of `qsdp fit` in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp.exceptions import ExportError, InvalidInputError
from qsdp.export._description import ModelDescription, check_encoder, describe, is_on_blocks
from qsdp.export._exact import exact_network
from qsdp.export._graphs.graph import Graph, Tensor, require_onnx
from qsdp.export._graphs.image_graphs import images_to_onnx
from qsdp.export._graphs.network_graphs import add_integers, add_scores, input_type
from qsdp.export._graphs.table import TableColumns, add_answers, add_inputs, holds_text
from qsdp.export._integers.model import integer_model

__all__ = ["onnx_inputs", "to_onnx"]

_X = "X"


def to_onnx(model: Any, *, input_range: Sequence[int] | None = None, encoder: Any = None) -> Any:
    """Export a model to ONNX.

    A network alone becomes a graph of integers. Their widths are proven, so every runtime computes the same outputs.
    Estimators, pipelines and models of `qsdp fit` become graphs in double precision, from unencoded columns to labels
    and probabilities.

    Parameters
    ----------
    model : network, estimator, pipeline or model of `qsdp fit`
        A `BilinearNetwork`, `PolynomialNetwork` or `IntegerForm`; a fitted `QuantizedNetworkClassifier` or
        `QuantizedNetworkRegressor`, alone or at the end of a pipeline. A network or form on blocks with its
        `encoder`, or an estimator whose encoding is `qsdp.encoding.Patches`, takes images of bytes.
    input_range : (int, int), optional
        Smallest and largest input of a network alone; by default, those of 16 bits. The input has the narrowest type
        that holds them: uint8, int8, int16 or int32. Inputs outside the range may overflow.
    encoder : Patches, optional
        The fitted encoder of a network on blocks alone.

    Returns
    -------
    onnx.ModelProto
        A network alone has the input "X" of shape (n, d) and two outputs of shape (n, C): "outputs", int64, and
        "scores", which are "outputs" times the metadata "unit", in double precision. The metadata "error" bounds the
        distance of the scores from the network's. It is 0 for a bilinear or purely quadratic activation if second-layer
        weights are small multiples of a common unit, and so is the bias.

        A network on images has the input "X" of bytes, of the shape of the images, and these two outputs; a classifier
        also "label" and "probabilities". Sums of products of pixels are exact.

        Other models have the input "X" of shape (n, d) in double precision, with nan for missing entries. If some
        column holds text, each column in use is instead an input of shape (n, 1) with the column's name, and missing
        text is empty. See `onnx_inputs`. A regressor has the output "predictions" of shape (n, C). A classifier has
        "label" of shape (n,), "scores" of shape (n, C) and, if the model has them, "probabilities" of shape (n, k), for
        k classes.

        Their metadata, in JSON, are "columns", the names of the columns in the order of "X"; "categories", the symbols
        of each column that has some, with null for a missing one; "classes", the labels of a classifier in the order of
        the scores; "decision", how scores become labels; and "unit", which is 1 for each output.

    Raises
    ------
    ExportError
        Sums exceed 64 bits, or a part of the model cannot be expressed in ONNX.
    MissingPackageError
        onnx is not installed.

    Notes
    -----
    Graphs do not check inputs. Inputs that the original model rejects, such as infinity, yield meaningless outputs.

    Models use version 7 of the ONNX format and version 13 of its operators. The oldest onnxruntime tested is 1.15.

    Examples
    --------
    >>> import onnxruntime, qsdp
    >>> from qsdp.export import onnx_inputs, to_onnx
    >>> network = qsdp.BilinearNetwork([[1, 1], [1, -1]], [[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> session = onnxruntime.InferenceSession(to_onnx(network).SerializeToString())
    >>> outputs, scores = session.run(["outputs", "scores"], onnx_inputs(network, [[3, 1]]))
    >>> outputs.tolist(), scores.tolist()
    ([[12]], [[6.0]])
    """
    require_onnx()
    description = describe(model, encoder=encoder, blocks=True)
    if is_on_blocks(description.network):
        if input_range is not None:
            raise InvalidInputError("input_range is not for a network on images, which takes bytes")
        return images_to_onnx(description)
    if description.encoding is None:
        return _of_network(description, input_range)
    if input_range is not None:
        raise InvalidInputError("input_range is for a network alone; this model takes columns as they are")
    return _of_columns(description)


def onnx_inputs(
    model: Any, X: Any, *, input_range: Sequence[int] | None = None, encoder: Any = None
) -> dict[str, npt.NDArray[Any]]:
    """Convert an array or a data frame to the inputs of `to_onnx(model)`, by name.

    Parameters
    ----------
    model, input_range, encoder
        As for `to_onnx`.
    X : array-like or data frame of shape (n, d), or images
    """
    description = describe(model, encoder=encoder, blocks=True)
    if is_on_blocks(description.network):
        encoder = check_encoder(description)
        return {_X: integer_model(description).columns(X).reshape(-1, *encoder.image_shape_)}
    if description.encoding is None:
        integers = integer_model(description, input_range=input_range)
        return {_X: integers.columns(X).astype(input_type(integers.input_range))}
    tensors, positions = _inputs(description)
    table = description.columns(X)
    columns = [table[position] for position in positions]
    if not any(tensor.dtype is object for tensor in tensors):
        used = description.encoding.used
        # X also has a column for text that is not used; its values do not matter, so NaN fills it.
        numbers = [
            column.astype(np.float64) if position in used or column.dtype != object else np.full(len(column), np.nan)
            for position, column in zip(positions, columns, strict=True)
        ]
        return {_X: np.column_stack(numbers)}
    return {
        tensor.name: np.array([["" if entry is None else entry] for entry in entries], dtype=object)
        if tensor.dtype is object
        else entries.astype(np.float64)[:, None]
        for tensor, entries in zip(tensors, columns, strict=True)
    }


def _of_network(description: ModelDescription, input_range: Sequence[int] | None) -> Any:
    graph, layout = Graph(), exact_network(description).faster_layout
    try:
        model = integer_model(description, input_range=input_range, layout=layout)
    except ExportError:
        if layout == "form":
            raise
        # Sums over neurons may be too wide when those of the form are not.
        model = integer_model(description, input_range=input_range, layout="form")
    outputs, sums = add_integers(graph, _X, model)
    C = model.network.n_outputs
    published = graph.publish(graph.cast(outputs, sums, np.int64), "outputs", np.int64, C)
    scores = graph.add("Mul", graph.cast(published, np.int64, np.float64), model.network.unit)
    graph.publish(scores, "scores", np.float64, C)
    return graph.to_model(
        [Tensor(_X, input_type(model.input_range), (None, model.n_columns))],
        description="A quantized network in integers: scores are outputs times unit, for inputs in input_range.",
        properties={
            "unit": model.network.unit.tolist(),
            "error": model.error.tolist(),
            "input_range": model.input_range,
        },
    )


def _of_columns(description: ModelDescription) -> Any:
    graph, C = Graph(), len(description.offset)
    tensors, positions = _inputs(description)
    assert description.encoding is not None
    inputs, order = add_inputs(graph, description.encoding, _columns(graph, tensors, positions))
    scores = add_scores(graph, inputs, description, order)
    if description.decision == "none":
        graph.publish(scores, "predictions", np.float64, C)
    else:
        add_answers(graph, description, scores)
    return graph.to_model(
        tensors,
        description="A quantized network with the encoding of its columns.",
        properties={"unit": [1.0] * C, **description.names},
    )


def _inputs(description: ModelDescription) -> tuple[list[Tensor], list[int]]:
    """Return the inputs of a model of columns, and the positions of the columns that they contain."""
    encoding = description.encoding
    assert encoding is not None
    used = [encoding.columns[position] for position in encoding.used]
    texts = [holds_text(column) for column in used]
    if not any(texts):
        width = len(encoding.columns)
        return [Tensor(_X, np.float64, (None, width))], list(range(width))
    names = [column.name for column in used]
    if "" in names or len(set(names)) < len(names):
        raise ExportError(f"columns must have names, all different; got {names!r:.60}")
    kinds = [object if text else np.float64 for text in texts]
    return [Tensor(name, kind, (None, 1)) for name, kind in zip(names, kinds, strict=True)], list(encoding.used)


def _columns(graph: Graph, tensors: list[Tensor], positions: list[int]) -> TableColumns:
    """Return the tensors of the columns, with numeric columns concatenated into one."""
    if len(tensors) < len(positions):
        return TableColumns(tensors[0].name, positions, {})
    pairs = list(zip(tensors, positions, strict=True))
    texts = {position: tensor.name for tensor, position in pairs if tensor.dtype is object}
    names = [tensor.name for tensor in tensors if tensor.dtype is not object]
    return TableColumns(graph.join(names), [position for position in positions if position not in texts], texts)
