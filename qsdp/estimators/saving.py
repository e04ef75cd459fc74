"""Files of fitted estimators in the format of skops, without code and without the training data.

A file is a ZIP archive of ``schema.json``, which describes a tree of objects, and of one ``.npy`` file for each array.
Reading trusts nothing: sizes and names are checked before anything is unpacked, every type must be one of `TRUSTED`,
and all values are checked once the objects exist.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from qsdp._utils.atomic_files import check_path, write_whole
from qsdp.estimators.restoring import packed, restored
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks import load_network

__all__ = ["TRUSTED", "load", "save"]

_SKLEARN = (
    "compose._column_transformer.ColumnTransformer",
    "decomposition._pca.PCA",
    "feature_selection._variance_threshold.VarianceThreshold",
    "impute._base.MissingIndicator",
    "impute._base.SimpleImputer",
    "pipeline.FeatureUnion",
    "pipeline.Pipeline",
    "preprocessing._data.MaxAbsScaler",
    "preprocessing._data.MinMaxScaler",
    "preprocessing._data.PowerTransformer",
    "preprocessing._data.QuantileTransformer",
    "preprocessing._data.RobustScaler",
    "preprocessing._data.StandardScaler",
    "preprocessing._discretization.KBinsDiscretizer",
    "preprocessing._encoders.OneHotEncoder",
    "preprocessing._encoders.OrdinalEncoder",
    "preprocessing._function_transformer.FunctionTransformer",
    "preprocessing._polynomial.PolynomialFeatures",
)
_LOSSES = (
    *(f"_piecewise.{name}" for name in ("Absolute", "Hinge", "Huber", "Squared", "SquaredHinge")),
    "_logistic.Logistic",
    "_cross_entropy.CrossEntropy",
)
_NUMBERS = ("bool", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")

#: All types that files may hold, by the loader of skops that makes them. No file adds to them. Functions, methods and
#: types whose construction runs code are not among them.
TRUSTED: dict[str, frozenset[str]] = {
    "DTypeNode": frozenset({"numpy.dtype"}),
    "DictNode": frozenset({"builtins.dict"}),
    "JsonNode": frozenset({"builtins.str"}),
    "ListNode": frozenset({"builtins.list"}),
    "NdArrayNode": frozenset({"numpy.float64", "numpy.int64", "numpy.ndarray"}),
    "ObjectNode": frozenset(
        {
            "qsdp.activations.PolynomialActivation",
            "qsdp.encoding.additive_blocks.AdditiveBlocks",
            "qsdp.encoding.patches.Patches",
            "qsdp.encoding.transformers.TableEncoder",
            "qsdp.encoding.windows.Windows",
            "qsdp.estimators.classifier.QuantizedNetworkClassifier",
            "qsdp.estimators.regressor.QuantizedNetworkRegressor",
            *(f"qsdp.losses.{name}" for name in _LOSSES),
            *(f"sklearn.{name}" for name in _SKLEARN),
        }
    ),
    "SliceNode": frozenset({"builtins.slice"}),
    "TupleNode": frozenset({"builtins.tuple"}),
    "TypeNode": frozenset({"builtins.float", "builtins.int", "builtins.str", *(f"numpy.{name}" for name in _NUMBERS)}),
}

#: Bytes that any file may unpack to, and bytes for each byte of the file: about four times what schemas need.
_ANY_SIZE, _RATIO = 2**22, 100

#: Depth to which objects of a file may contain each other; pipelines in column transformers need about 20.
_DEEPEST = 64

_SCHEMA, _ARRAY = "schema.json", re.compile(r"[0-9]+\.npy")

#: Beginning of a ZIP archive.
_MAGIC = b"PK\x03\x04"

#: What the standard library, NumPy, skops and scikit-learn raise for contents that they do not expect.
_FAULTS = (
    ArithmeticError, AttributeError, EOFError, ImportError, LookupError, MemoryError, NotImplementedError,
    RecursionError, RuntimeError, TypeError, ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, see `QuantizedNetworkRegressor.save`."""
    from skops.io import dumps

    plain = object.__new__(type(model))
    vars(plain).update(packed(model))
    try:
        contents = dumps(plain)
        with zipfile.ZipFile(io.BytesIO(contents)) as archive:
            schema, members = json.loads(archive.read(_SCHEMA)), {}
            for number, node in enumerate(_arrays(schema)):
                members[f"{number}.npy"] = array = archive.read(node["file"])
                _check_array(array)
                node["file"] = f"{number}.npy"
    except _FAULTS as error:
        raise InvalidInputError(
            f"the model cannot be saved: {error!s:.200}; pickle it with joblib.dump or cloudpickle, or save its "
            "network with model.network_.save"
        ) from None
    write_whole(path, _archive(schema, members, zipfile.ZIP_DEFLATED))


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator that its `save` wrote, or a network.

    Nothing in the file is executed: its types are compared with a fixed list, and its values are checked. Predictions
    of a loaded estimator equal those of the saved one bit for bit. Transformers of scikit-learn among its encoders are
    restored as scikit-learn stores them.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    QuantizedNetworkClassifier, QuantizedNetworkRegressor or a network
        See also `load_network` and `load_certificate`.

    Raises
    ------
    StorageError
        The file is damaged, holds a type that is not on the list, or is neither an estimator nor a network.

    Examples
    --------
    >>> import os, tempfile, qsdp
    >>> X, y = qsdp.datasets.load_bundled("diabetes")
    >>> model = qsdp.QuantizedNetworkRegressor(beta="5%", random_state=0).fit(X[:200], y[:200])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.qsdp")
    >>> model.save(path)
    >>> bool((qsdp.load(path).predict(X) == model.predict(X)).all())
    True
    """
    path = check_path(path)
    with open(path, "rb") as stream:
        contents = stream.read(len(_MAGIC))
        if contents != _MAGIC:
            return load_network(path)
        contents += stream.read()
    from skops.io import loads

    try:
        trusted = sorted(name for names in TRUSTED.values() for name in names)
        return restored(loads(_checked(contents), trusted=trusted))
    except _FAULTS as error:
        raise StorageError(f"{path!r} is not a model of qsdp or is damaged: {error!s:.200}") from None


def _checked(contents: bytes) -> bytes:
    """Return an archive of nothing but the checked members of a file."""
    with zipfile.ZipFile(io.BytesIO(contents)) as archive:
        members = archive.infolist()
        names = sorted(member.filename for member in members)
        allowed = {_SCHEMA, *filter(_ARRAY.fullmatch, names)}
        if len(set(names)) < len(names) or not set(names) <= allowed:
            raise StorageError(f"its members are not those of a model; they begin with {names[:3]!r:.90}")
        if sum(member.file_size for member in members) > max(_ANY_SIZE, _RATIO * len(contents)):
            raise StorageError(f"it unpacks to more than {_RATIO} times its size")
        if any(member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} for member in members):
            raise StorageError("its members are compressed in another way than by deflation")
        unpacked = {}
        for member in members:
            with archive.open(member) as stream:
                # Whatever the member unpacks to, no more is read; a wrong checksum is an error.
                unpacked[member.filename] = stream.read(member.file_size)
    schema = json.loads(unpacked.pop(_SCHEMA))
    if sorted(node["file"] for node in _arrays(schema)) != sorted(unpacked):
        raise StorageError("its arrays are not those of its schema")
    for array in unpacked.values():
        _check_array(array)
    return _archive(schema, unpacked, zipfile.ZIP_STORED)


def _arrays(node: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the nodes of numeric arrays of a schema; raise StorageError for a type that is not trusted."""
    if type(node) is not dict or depth > _DEEPEST:
        raise StorageError("its schema is not a tree of objects")
    loader, name = node["__loader__"], f"{node['__module__']}.{node['__class__']}"
    if name not in TRUSTED.get(loader, ()):
        raise StorageError(f"it holds an object of the type {name:.90} ({loader:.30}), which models do not hold")
    # Identities let one node stand for another; they are addresses in the memory of whoever wrote the file.
    node.pop("__id__", None)
    content: Any = node.get("content")
    children: list[Any] = []
    if loader == "DictNode":
        children = [node["key_types"], *content.values()]
    elif loader in {"ListNode", "TupleNode"}:
        children = content
    elif loader == "DTypeNode" or (loader == "ObjectNode" and content is not None):
        children = [content]
    elif loader == "SliceNode" and not all(bound is None or type(bound) is int for bound in content.values()):
        raise StorageError("its slices are not made of integers")
    elif loader == "NdArrayNode" and node["type"] == "json":
        children = [*content, node["shape"]]
    elif loader == "NdArrayNode":
        yield node
    for child in children:
        yield from _arrays(child, depth + 1)


def _check_array(contents: bytes) -> None:
    """Raise StorageError unless the contents are an array of numbers or text, of the size that its header says."""
    stream = io.BytesIO(contents)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, _, dtype = readers[np.lib.format.read_magic(stream)](stream)
    if dtype.kind not in "biufU" or not dtype.itemsize:
        raise StorageError(f"it holds an array of {dtype}, not of numbers or text")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(contents) - stream.tell():
        raise StorageError(f"it holds an array of shape {shape!r:.60} and another size")


def _archive(schema: dict[str, Any], members: Mapping[str, bytes], compression: int) -> bytes:
    """Return the file of a schema and of arrays; equal contents give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, member in [(_SCHEMA, json.dumps(schema).encode()), *members.items()]:
            # Without the time of writing.
            archive.writestr(zipfile.ZipInfo(name), member, compression, 9)
    return buffer.getvalue()
