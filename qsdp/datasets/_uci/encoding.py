"""Encoding of columns of text fields as numbers."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.datasets._dataset import AnyArray
from qsdp.datasets._uci.rows import ParsedRows
from qsdp.datasets._uci.spec import UCISpec
from qsdp.exceptions import DatasetError

MISSING = "?"
ENCODINGS = {
    "rank": f"rank among the column's sorted strings, {MISSING!r} included",
    "onehot": f"a 0/1 column for each string, {MISSING!r} included",
}


def encode_features(spec: UCISpec, rows: ParsedRows, encoding: str) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the feature matrix and the names of its columns."""
    encoded: list[FloatArray] = []
    names: list[str] = []
    for feature in spec.features:
        fields = rows.columns[feature]
        if feature not in spec.categorical:
            numbers = np.array([_number(rows, feature, index) for index in range(len(fields))])
            encoded.append(np.where(np.isnan(numbers), np.nanmedian(numbers), numbers))
            names.append(feature)
            continue
        values = sorted(set(fields))
        rank = {value: position for position, value in enumerate(values)}
        ranks = np.array([rank[value] for value in fields])
        if encoding == "rank":
            encoded.append(ranks.astype(np.float64))
            names.append(feature)
        else:
            encoded.append(np.eye(len(values))[ranks])
            names.extend(f"{feature}={value}" for value in values)
    return np.column_stack(encoded), tuple(names)


def encode_target(spec: UCISpec, rows: ParsedRows) -> AnyArray:
    """Return -1.0 and +1.0 for two classes, or integers from 0 for more."""
    number = {name: index for index, name in enumerate(spec.classes)}
    number |= {label: number[name] for label, name in spec.labels.items()}
    labels = rows.columns[spec.target]
    for index, label in enumerate(labels):
        if label not in number:
            known = ", ".join(map(repr, sorted(number)))
            raise DatasetError(f"{rows.where(index)}: {spec.target} is {label!r}, expected one of {known}")
    classes = np.array([number[label] for label in labels], dtype=np.int64)
    return classes if spec.task == "multiclass" else 2.0 * classes - 1.0


def count_missing(spec: UCISpec, rows: ParsedRows) -> tuple[int, int, bool]:
    """Return the number of missing values, of rows with one, and whether any is in a numeric column."""
    missing = {name: [field == MISSING for field in rows.columns[name]] for name in spec.features}
    affected = int(np.any(list(missing.values()), axis=0).sum())
    counts = {name: sum(flags) for name, flags in missing.items()}
    return sum(counts.values()), affected, any(counts[name] for name in counts if name not in spec.categorical)


def _number(rows: ParsedRows, column: str, index: int) -> float:
    text = rows.columns[column][index]
    if text == MISSING:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in text:  # float() also takes "nan", "inf" and "1_000"
        raise DatasetError(f"{rows.where(index)}: {column} is {text!r}, expected a number or {MISSING!r}")
    return number
