"""Parquet and Arrow files as data frames, read by pyarrow if it is installed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, warn
from qsdp.exceptions import InvalidInputError, MissingPackageError
from qsdp.tables.numbered_frames import Reading, named_frame

if TYPE_CHECKING:
    import pandas

__all__ = ["arrow_readings", "kind"]

#: First bytes of files, and pyarrow's names of the formats.
_KINDS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"FEA1": "feather"}
#: Name of pandas' type of periods.
_PERIOD = "pandas.period"


def kind(path: str | os.PathLike[str]) -> str | None:
    """Detect pyarrow's name of a file's format; None for text. Folders contain Parquet files."""
    if os.path.isdir(path):
        return "parquet"
    if os.path.exists(path) and not os.path.isfile(path):
        # Reading from a pipe would consume its contents.
        return None
    with open(path, "rb") as stream:
        begin = stream.read(max(map(len, _KINDS)))
    return next((name for magic, name in _KINDS.items() if begin.startswith(magic)), None)


def arrow_readings(name: str, kind: str, rows: int | None) -> Iterator[Reading]:
    """Yield the rows of a file, all at once if `rows` is None, in the order of the file."""
    with _reasons(name):
        data = _dataset(name, kind)
        columns = list(map(str, data.schema.names))
        if len(set(columns)) < len(columns):
            raise InvalidInputError(f"{name!r}: names of columns must be distinct")
        if periods := _period_columns(data.schema):
            raise InvalidInputError(
                f"{name!r}: column {periods[0]!r} holds periods, which are neither dates nor numbers: convert them to "
                f"dates before writing the file, frame[{periods[0]!r}].dt.to_timestamp()"
            )
        if index := _index_columns(data.schema):
            warn(f"{name!r}: left out {', '.join(map(repr, index))}, the index of a data frame")
        nested = {field.name: field.type for field in data.schema if _is_nested(field.type)}
        if nested:
            kinds = ", ".join(f"{column!r} ({kind})" for column, kind in nested.items())
            warn(f"{name!r}: left out columns that hold neither numbers nor text: {kinds}")
        left_out = (*index, *nested)
        schemas = [data.schema, *(part.physical_schema for part in data.get_fragments())]
        categorical = {name for schema in schemas for name in _categorical_columns(schema)}
        columns = [column for column in columns if column not in left_out]
        if not columns:
            raise InvalidInputError(f"{name!r} has no column of numbers or text")
        if rows is None:
            whole = data.to_table(columns)
            batches = iter([whole] if len(whole) else [])
        else:
            batches = (batch for batch in data.scanner(columns, batch_size=rows).to_batches() if len(batch))
    first = 1
    while True:
        with _reasons(name):
            batch = next(batches, None)
            if batch is None:
                return
            parts = {
                label: _categories(column) if label in categorical else _column(column)
                for label, column in zip(columns, batch.columns, strict=True)
            }
        yield Reading(named_frame(name, parts, range(first, first + len(batch)), "row"), left_out)
        first += len(batch)


def _dataset(name: str, kind: str) -> Any:
    try:
        import pyarrow
        import pyarrow.dataset as datasets
    except ImportError:
        raise MissingPackageError(f"{name!r} holds {kind} data, which pyarrow reads: pip install pyarrow") from None
    if not os.path.isdir(name):
        return datasets.dataset(name, format=kind)
    parts = _parts(name)
    # The values of a partitioned folder's columns are in the names of its folders.
    folder = {"format": kind, "partitioning": "hive", "partition_base_dir": name}
    first = datasets.dataset(parts, **folder)
    # The schema of the first file lacks columns and wider types of others.
    schemas = [first.schema, *(part.physical_schema for part in first.get_fragments())]
    schema = pyarrow.unify_schemas(list(map(_decoded, schemas)), promote_options="permissive")
    return datasets.dataset(parts, schema=schema, **folder)


def _parts(name: str) -> list[str]:
    """Return the Parquet files of a folder; as elsewhere, names that begin with _ or . are those of other files."""
    paths = sorted(path for path in Path(name).rglob("*.parquet") if path.is_file())
    parts = [str(path) for path in paths if not any(part[0] in "_." for part in path.relative_to(name).parts)]
    if not parts:
        raise InvalidInputError(f"{name!r} is a folder without Parquet files (*.parquet)")
    return parts


def _decoded(schema: Any) -> Any:
    """Return a schema with the types of categories in place of categorical types, which do not merge with others."""
    for position, field in enumerate(schema):
        if _is_categorical(field.type):
            schema = schema.set(position, field.with_type(field.type.value_type))
    return schema


def _index_columns(schema: Any) -> list[str]:
    """Return the columns that pandas wrote as the index of a data frame."""
    try:
        index = [name for name in _written_by_pandas(schema).get("index_columns", []) if isinstance(name, str)]
    except (ValueError, AttributeError, TypeError):
        return []
    return [name for name in index if name in schema.names]


def _categorical_columns(schema: Any) -> list[str]:
    """Return the columns of a categorical type; Parquet keeps that of other categories than text in notes of pandas."""
    try:
        noted = {
            column["name"]
            for column in _written_by_pandas(schema).get("columns", [])
            if column["pandas_type"] == "categorical"
        }
    except (ValueError, AttributeError, TypeError, KeyError):
        noted = set()
    return [field.name for field in schema if _is_categorical(field.type) or field.name in noted]


def _written_by_pandas(schema: Any) -> Any:
    return json.loads((schema.metadata or {}).get(b"pandas", b"{}"))


def _period_columns(schema: Any) -> list[str]:
    """Return the columns of pandas' periods, an extension type if pandas is imported, else one of integers."""
    return [
        field.name
        for field in schema
        if getattr(field.type, "extension_name", None) == _PERIOD
        or (field.metadata or {}).get(b"ARROW:extension:name") == _PERIOD.encode()
    ]


@contextmanager
def _reasons(name: str) -> Iterator[None]:
    """Convert errors of pyarrow to errors about the file."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("pyarrow"):
            raise
        reason = str(error).split("\n", 1)[0]
        raise InvalidInputError(f"{name!r} cannot be read: {reason}") from None


def _is_nested(kind: Any) -> bool:
    """Whether entries of a column are lists, records or bytes."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_categorical(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_dictionary(kind))


def _categories(column: Any) -> pandas.Categorical:
    """Convert a categorical column to a categorical one of text."""
    import pandas as pd

    return pd.Categorical([None if entry is None else str(entry) for entry in column.to_pylist()])


def _column(column: Any) -> npt.NDArray[Any]:
    """Convert a column to numbers with NaN for nulls, to times, or to Python objects with None for nulls."""
    import pyarrow as pa

    types, kind = pa.types, column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        # Half-precision numbers cannot be cast directly, and casts of decimals do not round correctly.
        through = pa.float32() if types.is_float16(kind) else pa.string() if types.is_decimal(kind) else kind
        wide = column.cast(through)
        numbers: FloatArray = np.array(wide.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        return numbers
    if types.is_boolean(kind) and not column.null_count:
        flags: npt.NDArray[Any] = np.array(column.to_pylist(), dtype=bool)
        return flags
    if types.is_timestamp(kind):
        times: npt.NDArray[Any] = column.cast(pa.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)
        return times
    return np.fromiter(
        (entry.strip() if isinstance(entry, str) else entry for entry in column.to_pylist()), dtype=object
    )
