"""Converters of estimators and encoders for skl2onnx, alone and in pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np

from qsdp.encoding.steps import identity, through_steps
from qsdp.exceptions import ExportError, MissingPackageError
from qsdp.export._description import ModelDescription, describe
from qsdp.export._graphs.graph import ML_OPSET, OPSET, Graph, tensor_of, tensor_type
from qsdp.export._graphs.network import add_scores, faster_layout
from qsdp.export._graphs.table import (
    Columns,
    add_inputs,
    add_label,
    add_probabilities,
    holds_text,
)

__all__ = ["register_skl2onnx"]


def register_skl2onnx() -> None:
    """Register converters with skl2onnx for the estimators and encoders of this package, alone and in pipelines.

    The converted models take columns of any skl2onnx types, in the order of training. A missing number is nan, and
    missing text is empty. Models compute in double precision and return numbers in the type of the first numeric
    column. Labels are integers or text, as everywhere in skl2onnx.

    Raises
    ------
    MissingPackageError
        skl2onnx is not installed.

    Examples
    --------
    >>> import qsdp, skl2onnx
    >>> qsdp.export.register_skl2onnx()
    >>> X, y = qsdp.datasets.load_bundled("iris")
    >>> encoder = qsdp.encoding.ThresholdEncoder(2).fit(X)
    >>> [one.name for one in skl2onnx.to_onnx(encoder, X[:1]).graph.output]
    ['variable']
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError:
        raise MissingPackageError("register_skl2onnx needs skl2onnx: pip install skl2onnx") from None
    from qsdp.encoding import TableEncoder, ThresholdEncoder
    from qsdp.estimators import (
        QuantizedNetworkClassifier,
        QuantizedNetworkClassifierCV,
        QuantizedNetworkRegressor,
        QuantizedNetworkRegressorCV,
    )

    options = {"zipmap": [True, False, "columns"], "nocl": [True, False], "output_class_labels": [False, True]}
    parts: list[tuple[list[type], Any, Any, Any]] = [
        ([QuantizedNetworkClassifier, QuantizedNetworkClassifierCV], _classifier_shapes, _convert_classifier, options),
        ([QuantizedNetworkRegressor, QuantizedNetworkRegressorCV], _regressor_shapes, _convert_regressor, None),
        ([TableEncoder, ThresholdEncoder], _encoder_shapes, _convert_encoder, None),
    ]
    for models, shapes, convert, options_of in parts:
        for model in models:
            update_registered_converter(model, f"Qsdp{model.__name__}", shapes, convert, options=options_of)


def _classifier_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    description = describe(operator.raw_operator)
    labels = _labels(operator)
    several = description.decision == "labels"
    kind = StringTensorType if labels.dtype == object else Int64TensorType
    operator.outputs[0].type = kind([None, len(labels)] if several else [None])
    operator.outputs[1].type = _number_type(operator)([None, len(labels)])


def _regressor_shapes(operator: Any) -> None:
    operator.outputs[0].type = _number_type(operator)([None, operator.raw_operator.network_.n_outputs])


def _encoder_shapes(operator: Any) -> None:
    operator.outputs[0].type = _number_type(operator)([None, _encoding(operator.raw_operator).width])


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    description = describe(operator.raw_operator)
    part = _Part(operator)
    scores = part.add_scores(description)
    label = add_label(part.graph, scores, description, _labels(operator))
    probabilities = add_probabilities(part.graph, scores, description)
    part.insert(scope, container, [label, part.as_numbers(probabilities)])


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    part = _Part(operator)
    scores = part.add_scores(describe(operator.raw_operator))
    part.insert(scope, container, [part.as_numbers(scores)])


def _convert_encoder(scope: Any, operator: Any, container: Any) -> None:
    encoding, part = _encoding(operator.raw_operator), _Part(operator)
    inputs, order = add_inputs(part.graph, encoding, part.columns(encoding))
    if np.any(np.diff(order) < 0):
        inputs = part.graph.add("Gather", inputs, np.argsort(order), axis=1)
    part.insert(scope, container, [part.as_numbers(inputs)])


def _encoding(encoder: Any) -> Any:
    names = getattr(encoder, "feature_names_in_", [f"x{j}" for j in range(encoder.n_features_in_)])
    return through_steps(identity([str(name) for name in names]), [encoder])


def _labels(operator: Any) -> Any:
    """Return the classes as text or integers, or their indices with the option "nocl"."""
    from skl2onnx.common.utils_classifier import get_label_classes

    labels = np.asarray(get_label_classes(operator.scope_inst, operator.raw_operator))
    if labels.dtype.kind in "OUT":
        return labels.astype(object)
    # In skl2onnx, numeric classes are integers.
    return labels.astype(np.int64)


def _number_type(operator: Any) -> Any:
    """Return the skl2onnx type of an operator's numeric outputs: double if its first numeric input is, else single."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    numbers = (one.type for one in operator.inputs if not isinstance(one.type, StringTensorType))
    return DoubleTensorType if isinstance(next(numbers, None), DoubleTensorType) else FloatTensorType


class _Part:
    """Subgraph between the inputs and outputs of an skl2onnx operator."""

    def __init__(self, operator: Any) -> None:
        self.operator, self.graph = operator, Graph()

    def columns(self, encoding: Any) -> Columns:
        """Return the tensors of the columns, with numeric columns concatenated in double precision."""
        from skl2onnx.common.data_types import DoubleTensorType, StringTensorType

        numbers: list[str] = []
        positions: list[int] = []
        texts, position = {}, 0
        for variable in self.operator.inputs:
            name, (_, *widths) = variable.full_name, variable.type.shape
            # A single input may have been declared without its width.
            width = widths[0] or len(encoding.columns) if widths else 1
            own = range(position, position + width)
            position += width
            if isinstance(variable.type, StringTensorType):
                for place, column in enumerate(own):
                    texts[column] = self.graph.add("Gather", name, np.array([place]), axis=1) if width > 1 else name
            else:
                positions += own
                given = np.float64 if isinstance(variable.type, DoubleTensorType) else np.float32
                numbers.append(self.graph.cast(name, given, np.float64))
        wanted = {at for at in encoding.used if holds_text(encoding.columns[at])}
        wrong = [encoding.columns[at].name for at in encoding.used if (at in wanted) != (at in texts)]
        if position != len(encoding.columns) or wrong:
            what = f"column {wrong[0]!r} has another type" if wrong else f"there are {len(encoding.columns)} columns"
            raise ExportError(f"the input types given to skl2onnx do not match: in training, {what}")
        return Columns(self.graph.join(numbers), positions, texts)

    def add_scores(self, description: ModelDescription) -> str:
        """Add nodes for the scores of a model, in double precision."""
        assert description.encoding is not None
        inputs, order = add_inputs(self.graph, description.encoding, self.columns(description.encoding))
        return add_scores(self.graph, inputs, description, order, faster_layout(description.network))

    def as_numbers(self, tensor: str) -> str:
        """Add a conversion from double precision to the numeric type of the operator's outputs."""
        from skl2onnx.common.data_types import DoubleTensorType

        wanted = np.float64 if _number_type(self.operator) is DoubleTensorType else np.float32
        return self.graph.cast(tensor, np.float64, wanted)

    def insert(self, scope: Any, container: Any, outputs: list[str]) -> None:
        """Add the nodes to the container, and connect `outputs` to the outputs of the operator."""
        names = {name: scope.get_unique_variable_name(name.strip("/")) for name in self.graph.arrays}
        for name, array in self.graph.arrays.items():
            if array.dtype == object:
                container.add_initializer(names[name], tensor_type(object), array.shape, array.ravel().tolist())
            else:
                container.add_initializer(names[name], None, array.shape, tensor_of(name, array))
        made = [one.output for one in self.graph.nodes]
        names.update({name: scope.get_unique_variable_name(name.strip("/")) for name in made})
        for node in self.graph.nodes:
            inputs = [names.get(name, name) for name in node.inputs]
            version = ML_OPSET if node.domain else OPSET
            container.add_node(
                node.op, inputs, [names[node.output]], op_domain=node.domain, op_version=version, **node.attributes
            )
        for tensor, variable in zip(outputs, self.operator.outputs, strict=True):
            container.add_node("Identity", [names.get(tensor, tensor)], [variable.full_name], op_version=OPSET)
