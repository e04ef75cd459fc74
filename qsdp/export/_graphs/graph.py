"""ONNX graphs as lists of nodes, which become a model or a part of another graph."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp import __version__
from qsdp.exceptions import ExportError, MissingPackageError

__all__ = ["IR_VERSION", "ML_OPSET", "OPSET", "Graph", "OnnxNode", "Tensor", "require_onnx"]

#: Versions of exported models, from onnx 1.8: onnx itself writes its newest, which runtimes may not read yet.
IR_VERSION, OPSET, ML_OPSET = 7, 13, 2

_ML = "ai.onnx.ml"


def require_onnx() -> Any:
    """Import onnx, or raise an error that explains how to install it."""
    try:
        import onnx
    except ImportError:
        raise MissingPackageError("to_onnx needs onnx: pip install onnx") from None
    return onnx


@dataclass(frozen=True)
class Tensor:
    """Input or output of a model: its data type, and its shape with None for the number of rows."""

    name: str
    dtype: npt.DTypeLike
    shape: Sequence[int | None]


@dataclass(frozen=True)
class OnnxNode:
    """ONNX node, with the names of its inputs and of its only output."""

    op: str
    inputs: tuple[str, ...]
    output: str
    domain: str
    attributes: Mapping[str, Any]


@dataclass
class Graph:
    """ONNX graph: nodes in order, and constant arrays; their names begin with a slash, unlike those of columns.

    Attributes
    ----------
    nodes : list of OnnxNode
    arrays : dict of str to ndarray
    outputs : list of Tensor
    """

    nodes: list[OnnxNode] = field(default_factory=list)
    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    outputs: list[Tensor] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Size of all arrays in bytes."""
        return sum(array.nbytes for array in self.arrays.values())

    def add(self, op: str, *inputs: str | npt.NDArray[Any], domain: str = "", **attributes: Any) -> str:
        """Add a node whose inputs are tensors, by name, or arrays; return the name of its output."""
        names = tuple(tensor if isinstance(tensor, str) else self.keep(tensor) for tensor in inputs)
        output = f"/{op}_{len(self.nodes)}"
        self.nodes.append(OnnxNode(op, names, output, domain, attributes))
        return output

    def publish(self, tensor: str, name: str, dtype: npt.DTypeLike, *shape: int) -> str:
        """Make a tensor an output, and return its name.

        It is renamed if the last node creates it; else an identity node with the name is added.
        """
        self.outputs.append(Tensor(name, dtype, (None, *shape)))
        if self.nodes[-1].output == tensor:
            self.nodes[-1] = replace(self.nodes[-1], output=name)
        else:
            self.nodes.append(OnnxNode("Identity", (tensor,), name, "", {}))
        return name

    def keep(self, array: npt.NDArray[Any]) -> str:
        """Add a constant array; return its name."""
        name = f"/array_{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def cast(self, tensor: str, source: npt.DTypeLike, target: npt.DTypeLike) -> str:
        """Add a conversion between data types, unless they are equal or it exists already; return its output."""
        if np.dtype(source) == np.dtype(target):
            return tensor
        number = tensor_type(target)
        known = (node.output for node in self.nodes if node.inputs == (tensor,) and node.attributes.get("to") == number)
        return next(known, "") or self.add("Cast", tensor, to=number)

    def join(self, tensors: Sequence[str]) -> str:
        """Add a concatenation of the columns of tensors, unless there is only one; empty text if there is none."""
        return tensors[0] if len(tensors) == 1 else self.add("Concat", *tensors, axis=1) if tensors else ""

    def encode_text(self, tensor: str, categories: Sequence[str]) -> str:
        """Add the category numbers of texts, from 0; other texts become -1."""
        codes = list(range(len(categories)))
        return self.add(
            "LabelEncoder", tensor, domain=_ML, keys_strings=list(categories), values_int64s=codes, default_int64=-1
        )

    def to_model(
        self,
        inputs: Sequence[Tensor],
        *,
        description: str,
        properties: Mapping[str, Any] | None = None,
    ) -> Any:
        """Build and check the onnx.ModelProto.

        Parameters
        ----------
        inputs : sequence of Tensor
        description : str
        properties : mapping of str to value, optional
            Stored as metadata, in JSON.

        Raises
        ------
        ExportError
            An input has the name of an output.
        """
        for output in self.outputs:
            if output.name in {tensor.name for tensor in inputs}:
                raise ExportError(f"column {output.name!r} has the name of an output")
        onnx = require_onnx()
        helper = onnx.helper
        nodes = [
            helper.make_node(
                node.op, node.inputs, [node.output], name=f"{node.op}_{number}", domain=node.domain, **node.attributes
            )
            for number, node in enumerate(self.nodes)
        ]
        ends = [
            [helper.make_tensor_value_info(tensor.name, tensor_type(tensor.dtype), tensor.shape) for tensor in tensors]
            for tensors in (inputs, self.outputs)
        ]
        arrays = [tensor_of(name, array) for name, array in self.arrays.items()]
        graph = helper.make_graph(nodes, "qsdp", *ends, arrays)
        versions = {"": OPSET, **({_ML: ML_OPSET} if any(node.domain == _ML for node in self.nodes) else {})}
        model = helper.make_model(
            graph,
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid(*version) for version in versions.items()],
            producer_name="qsdp",
            producer_version=__version__,
            doc_string=description,
        )
        # Symbols of kinds that JSON does not have, such as dates, are stored as text.
        texts = {key: json.dumps(value, default=str) for key, value in (properties or {}).items()}
        helper.set_model_props(model, texts)
        onnx.checker.check_model(model)
        return model


def tensor_type(dtype: npt.DTypeLike) -> int:
    """Return the code of a data type in ONNX; objects and texts are strings."""
    onnx, kind = require_onnx(), np.dtype(dtype)
    number: int = onnx.TensorProto.STRING if kind.kind in "OUT" else onnx.helper.np_dtype_to_tensor_dtype(kind)
    return number


def tensor_of(name: str, array: npt.NDArray[Any]) -> Any:
    """Convert an array to an onnx.TensorProto."""
    onnx = require_onnx()
    if array.dtype.kind in "OUT":
        texts = [str(entry).encode() for entry in array.ravel().tolist()]
        return onnx.helper.make_tensor(name, onnx.TensorProto.STRING, array.shape, texts)
    return onnx.numpy_helper.from_array(array, name)
