"""ONNX nodes of encodings of tables, decisions and probabilities, in double precision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp.encoding import Encoding, Expression, InputColumn
from qsdp.encoding.reading_rule import CATEGORY
from qsdp.exceptions import ExportError
from qsdp.export._description import ModelDescription
from qsdp.export._graphs.graph import Graph

__all__ = [
    "TableColumns",
    "add_answers",
    "add_inputs",
    "add_label",
    "add_probabilities",
    "holds_text",
]


@dataclass(frozen=True)
class TableColumns:
    """Tensors of the columns of a table.

    Attributes
    ----------
    numbers : str
        Tensor of the numeric columns, of shape (n, k) in double precision, with nan for missing entries.
    positions : list of int
        Positions of the columns in `numbers`.
    texts : mapping of int to str
        Tensors of the text columns by position, each of shape (n, 1), with empty text for missing entries.
    """

    numbers: str
    positions: list[int]
    texts: Mapping[int, str]


def holds_text(column: InputColumn) -> bool:
    """Whether a column contains text; other columns contain numbers, with zero and one for true/false."""
    return column.kind == CATEGORY


def add_inputs(graph: Graph, encoding: Encoding, columns: TableColumns) -> tuple[str, npt.NDArray[np.intp]]:
    """Add nodes for the encoded inputs, grouped by kind; return their name, and the index of each input."""
    indices = {position: index for index, position in enumerate(columns.positions)}
    fills = [encoding.columns[position].fill for position in columns.positions]
    filled = columns.numbers
    if any(fill is not None for fill in fills):
        filled = graph.add(
            "Where", graph.add("IsNaN", filled), np.array(fills, dtype=np.float64).reshape(1, -1), columns.numbers
        )
    groups: dict[int | str, list[int]] = defaultdict(list)
    for at, expression in enumerate(encoding.expressions):
        groups[expression.position if expression.position in columns.texts else expression.kind].append(at)
    parts = []
    for key, members in groups.items():
        expressions = [encoding.expressions[at] for at in members]
        if isinstance(key, int):
            parts.append(_texts(graph, columns.texts[key], expressions))
            continue
        source, taken = (
            columns.numbers if key == "missing" else filled,
            [indices[expression.position] for expression in expressions],
        )
        if taken != list(range(len(indices))):
            source = graph.add("Gather", source, np.array(taken), axis=1)
        parts.append(_numbers(graph, source, expressions) if key == "value" else _bits(graph, key, source, expressions))
    return graph.join(parts), np.concatenate(list(groups.values())).astype(np.intp)


def _numbers(graph: Graph, source: str, expressions: Sequence[Expression]) -> str:
    low = np.array([-np.inf if expression.low is None else expression.low for expression in expressions])
    high = np.array([np.inf if expression.high is None else expression.high for expression in expressions])
    center, scale = (
        np.array([expression.center for expression in expressions]),
        np.array([expression.scale for expression in expressions]),
    )
    if np.any(np.isfinite(low)):
        source = graph.add("Min", graph.add("Max", source, low), high)
    if np.any(center):
        source = graph.add("Sub", source, center)
    return graph.add("Div", source, scale) if np.any(scale != 1.0) else source


def _bits(graph: Graph, kind: str, source: str, expressions: Sequence[Expression]) -> str:
    if kind == "missing":
        return _values(graph, graph.add("IsNaN", source), expressions)
    compared = np.array([float(expression.value) for expression in expressions if expression.value is not None])
    return _values(graph, graph.add("Greater" if kind == "above" else "Equal", source, compared), expressions)


def _texts(graph: Graph, source: str, expressions: Sequence[Expression]) -> str:
    texts = ["" if expression.kind == "missing" else str(expression.value) for expression in expressions]
    codes = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    encoded = graph.encode_text(source, list(codes))
    return _values(graph, graph.add("Equal", encoded, np.array([codes[text] for text in texts])), expressions)


def _values(graph: Graph, bits: str, expressions: Sequence[Expression]) -> str:
    values = np.array([expression.bit_values for expression in expressions])
    return graph.add("Where", bits, values[:, 1], values[:, 0])


def _labels_of(description: ModelDescription) -> npt.NDArray[Any]:
    """Convert the classes to an array of texts, integers, floats or booleans.

    Raises
    ------
    ExportError
        The classes are of several kinds.
    """
    kinds = {
        str if isinstance(label, str) else bool if isinstance(label, bool) else float for label in description.classes
    }
    if len(kinds) > 1:
        raise ExportError(f"classes must be all text, all numbers or all booleans; got {description.classes!r:.60}")
    labels = np.array(description.classes)
    return labels.astype(object) if labels.dtype.kind in "UT" else labels


def add_answers(graph: Graph, description: ModelDescription, scores: str, decided: str | None = None) -> None:
    """Publish label, scores and probabilities, if any, of a classifier; scores decide unless `decided` does."""
    labels = _labels_of(description)
    label = add_label(graph, scores if decided is None else decided, description, labels)
    graph.publish(label, "label", labels.dtype)
    scores = graph.publish(scores, "scores", np.float64, len(description.offset))
    if description.link != "none":
        graph.publish(add_probabilities(graph, scores, description), "probabilities", np.float64, len(labels))


def add_label(graph: Graph, scores: str, description: ModelDescription, labels: npt.NDArray[Any]) -> str:
    """Add nodes for the predicted entries of `labels`, shape (n,)."""
    if description.decision == "argmax":
        return graph.add("Gather", labels, graph.add("ArgMax", scores, axis=1, keepdims=0), axis=0)
    positive = graph.cast(graph.add("Greater", scores, np.zeros(1)), np.bool_, np.int64)
    return graph.add("Gather", labels, graph.add("Squeeze", positive, np.array([1])), axis=0)


def add_probabilities(graph: Graph, scores: str, description: ModelDescription) -> str:
    """Add nodes for probabilities of shape (n, k), for k classes."""
    odds = scores
    if description.link == "logistic":
        odds = graph.add("Mul", odds, np.array([[0.0, 1.0]]))
    elif description.link == "normalised":
        # Use the logarithm of the logistic function, so that outliers of all classes have probabilities, too.
        small = graph.add("Exp", graph.add("Neg", graph.add("Abs", odds)))
        rest = graph.add("Log", graph.add("Add", small, np.ones(1)))
        odds = graph.add("Sub", graph.add("Min", odds, np.zeros(1)), rest)
    return graph.add("Softmax", odds, axis=1)
