"""Columns of data as inputs of a network."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array, column_or_1d

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.encoding import EncodingRule, TableEncoder
from qsdp.encoding.fitting import AUTO
from qsdp.encoding.fitting import ENCODINGS as NUMBERS
from qsdp.encoding.scales import scaled_to_rows
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = [
    "ENCODINGS",
    "check_encoding",
    "check_kind_of_array",
    "check_targets_of_frame",
    "fit_encoder",
    "fit_rule",
]

ENCODINGS = (AUTO, *NUMBERS, "none")


def check_encoding(name: str, encoding: Any) -> None:
    """Raise unless `encoding` is one of `ENCODINGS` or a transformer."""
    if isinstance(encoding, str):
        check_choice(name, encoding, ENCODINGS)
    elif isinstance(encoding, type) or not all(hasattr(encoding, method) for method in ("fit", "transform")):
        allowed = ", ".join(f'"{name}"' for name in ENCODINGS)
        raise InvalidTypeError(f"{name} must be {allowed} or a transformer of scikit-learn; got {encoding!r:.60}")


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


def check_targets_of_frame(X: Any, y: Any, *, multi_output: bool = False, y_numeric: bool = False) -> Any:
    """Return the targets of a data frame, checked as `validate_data` checks those of an array."""
    if multi_output:
        target = check_array(y, ensure_2d=False, dtype="numeric" if y_numeric else None, input_name="y")
    else:
        target = column_or_1d(y, warn=True)
    if len(target) != X.shape[0]:
        raise InvalidInputError(f"y must have {X.shape[0]} rows, as X has; got {len(target)}")
    return target


def fit_encoder(encoding: Any, X: Any, weights: FloatArray | None) -> Any:
    """Return the fitted transformer of an `encoding` other than "auto", or None for "none"."""
    if encoding == "none":
        return None
    if not isinstance(encoding, str):
        return clone(encoding).fit(X)
    return fit_rule(EncodingRule.recommended(encoding, X.shape[1]), X, weights)


def fit_rule(rule: EncodingRule, X: Any, weights: FloatArray | None) -> TableEncoder:
    """Return the fitted transformer of a rule, scaled so that rows have a norm of about 1.5, see `row_scale`.

    It does not warn of categories too rare for a bit. If `fit` chooses it, `fit` warns once.
    """
    encoder: TableEncoder = TableEncoder(**asdict(rule), handle_unknown="ignore").fit(X, sample_weight=weights)
    encoder.encoding_ = scaled_to_rows(encoder.encoding_, encoder.transform(X), weights)
    return encoder
