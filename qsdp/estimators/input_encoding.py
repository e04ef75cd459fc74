"""Encoding of the columns of data as inputs of a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_y

from qsdp._utils.validation import FloatArray, check_choice, check_matrix, errors_of
from qsdp.encoding import EncodingRule, TableEncoder
from qsdp.encoding.fitting import ADDITIVE, AUTO
from qsdp.encoding.fitting import ENCODINGS as NUMBERS
from qsdp.encoding.reading_rule import is_missing, is_wide
from qsdp.encoding.region_moments import BlockEncoder
from qsdp.encoding.scales import scaled_to_rows
from qsdp.encoding.used_columns import is_frame
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = [
    "ENCODINGS",
    "check_encoding",
    "check_kind_of_array",
    "check_targets",
    "encoded",
    "explained_by_columns",
    "fit_encoder",
    "has_encoder",
    "makes_blocks",
    "uses_transformer",
]

ENCODINGS = (AUTO, ADDITIVE, *NUMBERS, "none")


def check_encoding(name: str, encoding: Any) -> Any:
    """Return one of `ENCODINGS`, of which None means "none", or a transformer."""
    if encoding is None:
        return "none"
    if isinstance(encoding, str):
        return check_choice(name, encoding, ENCODINGS)
    if isinstance(encoding, type) or not all(hasattr(encoding, method) for method in ("fit", "transform")):
        allowed = ", ".join(f'"{name}"' for name in ENCODINGS)
        raise InvalidTypeError(f"{name} must be {allowed} or a transformer of scikit-learn; got {encoding!r:.60}")
    return encoding


def has_encoder(encoding: Any) -> bool:
    """Return whether an `encoding` changes the columns of X."""
    return encoding is not None and not (isinstance(encoding, str) and encoding == "none")


def uses_transformer(encoding: Any) -> bool:
    """Return whether an `encoding` is a transformer, which checks the entries of X itself."""
    return encoding is not None and not isinstance(encoding, str)


def makes_blocks(encoding: Any) -> bool:
    """Return whether an `encoding` converts images or series to blocks; it checks their shape itself."""
    return isinstance(encoding, BlockEncoder)


def check_kind_of_array(X: Any, *, frames: bool) -> None:
    """Raise for arrays of dates or of text that is not numeric; `frames` tells whether data frames may have text."""
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if kind in ("m", "M"):
        raise InvalidTypeError(f"X must hold numbers; got times ({X.dtype}): convert them to numbers, such as days")
    if kind in ("U", "S"):
        try:
            X.astype(np.float64)
        except ValueError as error:
            remedy = "" if frames else " and encoding must not be 'none'"
            raise InvalidInputError(
                f"X must hold numbers as an array: {error}; columns of text must be in a data frame{remedy}"
            ) from None


@contextmanager
def explained_by_columns(X: Any, *, refused: bool) -> Iterator[None]:
    """Replace an error of validation by one that names a column of text, times or missing entries, if `refused`."""
    try:
        yield
    except (TypeError, ValueError):
        if refused:
            _check_numbers_alone(X)
        raise


def _check_numbers_alone(X: Any) -> None:
    """Raise an error if X has columns of text, times or missing entries."""
    remedy = "encoding='auto' takes such columns, encoding='none' only numbers"
    columns = [("X", X)]
    if is_frame(X):
        # By position, since names may repeat.
        columns = [(f"column {name!r} of X", _safe_indexing(X, j, axis=1)) for j, name in enumerate(X.columns)]
    for name, column in columns:
        entries = np.asarray(column)
        if entries.dtype.kind == "c":
            continue
        present = [entry for entry in entries.ravel().tolist() if not is_missing(entry)]
        try:
            np.asarray(present, dtype=np.float64)
            numbers = entries.dtype.kind not in "mM"
        except (TypeError, ValueError):
            numbers = False
        if not numbers and is_frame(X):
            raise InvalidInputError(f"{name} must hold numbers; got {column.dtype}: {remedy}")
        if numbers and len(present) < entries.size:
            raise InvalidInputError(f"{name} contains NaN, that is, missing entries: {remedy}")


def check_targets(X: Any, y: Any, **options: bool) -> Any:
    """Return the targets of the rows of X as scikit-learn checks them, with its options."""
    with errors_of("y"):
        if y is None:
            raise ValueError("the estimator requires y to be passed, but the target y is None")
        if scipy.sparse.issparse(y):
            raise TypeError("sparse targets must be dense; use y.toarray()")
        target = _check_y(y.to_list() if is_wide(y) else y, **options)
    if not len(X):
        raise InvalidInputError("X must have at least one row; got none")
    if len(target) != len(X):
        raise InvalidInputError(f"y must have {len(X)} rows, as X has; got {len(target)}")
    return target


def fit_encoder(
    encoding: Any, X: Any, y: Any, weights: FloatArray | None, max_categories: int = EncodingRule.max_categories
) -> tuple[Any, Any]:
    """Return the fitted transformer of an `encoding` other than "auto", or None for "none", and the inputs for X.

    As in a pipeline of scikit-learn, the inputs for X are those of `fit_transform`, if the transformer has it: an
    encoder that learns from y, such as `TargetEncoder`, codes every row by other rows.
    """
    if not has_encoder(encoding):
        return None, X
    if not uses_transformer(encoding):
        rule = EncodingRule.recommended(encoding, X.shape[1], max_categories)
        encoder: Any = TableEncoder(**asdict(rule)).fit(X, sample_weight=weights)
        encoder.encoding_, inputs = scaled_to_rows(encoder.encoding_, encoded(encoder, X, warned=True), weights)
        return encoder, inputs
    encoder = clone(encoding)
    if makes_blocks(encoder):
        return encoder, encoder.fit_transform(X)
    with config_context(transform_output="default"):
        if hasattr(encoder, "fit_transform"):
            return encoder, _inputs(encoder, encoder.fit_transform(X, y), len(y))
        encoder = encoder.fit(X, y)
    return encoder, encoded(encoder, X)


def encoded(encoder: Any, X: Any, *, warned: bool = False) -> Any:
    """Return the inputs of the network for rows of X: a finite array, or blocks.

    `warned` tells whether a `TableEncoder` has warned of the entries of X, in its fit.
    They depend on the `set_output` of the encoder and its steps, but not on the global configuration.
    """
    if makes_blocks(encoder):
        return encoder.transform(X)
    # The estimator has checked the table as this encoder would; subclasses may transform it in another way.
    checked = getattr(type(encoder), "transform", None) is TableEncoder.transform
    with config_context(transform_output="default"):
        output = encoder._encoded(X, warned=warned) if checked else encoder.transform(X)
        return _inputs(encoder, output, X.shape[0])


def _inputs(encoder: Any, output: Any, n_rows: int) -> FloatArray:
    """Return the output of a transformer as a finite array of shape (n, width)."""
    if scipy.sparse.issparse(output):
        output = output.toarray()  # type: ignore[attr-defined]
    called = f"{' '.join(repr(encoder).split()):.60}"
    name, entries = f"the output of encoding={called}", np.asarray(output)
    if entries.dtype.kind == "f" and not np.isfinite(entries).all():
        raise InvalidInputError(f"{name} must be finite; found missing entries or infinity: impute them in a pipeline")
    inputs = check_matrix(name, output)
    if len(inputs) != n_rows:
        raise InvalidInputError(f"encoding must keep all {n_rows} rows of X; {called} gives {len(inputs)}")
    return inputs
