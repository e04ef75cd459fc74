"""Merging of scikit-learn transformers before a network into one encoding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.encoding.expressions import Expression, InputColumn
from qsdp.encoding.table_encoding import Encoding
from qsdp.exceptions import ExportError

__all__ = ["identity", "through_steps"]


def identity(names: Sequence[str]) -> Encoding:
    """Create the identity encoding, whose inputs are the columns; no entries may be missing."""
    columns = tuple(InputColumn(name) for name in names)
    return Encoding(columns, tuple(Expression(name, position, "value") for position, name in enumerate(names)))


def through_steps(encoding: Encoding, steps: Iterable[Any]) -> Encoding:
    """Compose an encoding with fitted transformers.

    Parameters
    ----------
    encoding : Encoding
    steps : iterable
        Encoders of this package; scikit-learn's ``StandardScaler``, ``MinMaxScaler``, ``MaxAbsScaler``,
        ``RobustScaler``, ``SimpleImputer`` and transformers that select columns; pipelines of them, "passthrough" and
        None.

    Raises
    ------
    ExportError
        A transformer is of another kind: its outputs do not come from one column each.
    """
    for step in steps:
        if step is None or step == "passthrough":
            continue
        if hasattr(step, "steps"):
            encoding = through_steps(encoding, [part for _, part in step.steps])
        elif hasattr(step, "encoding_"):
            encoding = _through_encoder(encoding, step.encoding_)
        elif (moments := _affine(step, encoding.width)) is not None:
            encoding = _scaled(encoding, *moments)
        elif type(step).__name__ == "SimpleImputer":
            encoding = _filled(encoding, step)
        elif hasattr(step, "get_support"):
            selected = step.get_support(indices=True).tolist()
            encoding = replace(encoding, expressions=tuple(encoding.expressions[index] for index in selected))
        else:
            raise ExportError(
                f"{type(step).__name__} cannot be exported; transformers that can: TableEncoder, StandardScaler, "
                "MinMaxScaler, MaxAbsScaler, RobustScaler, SimpleImputer, selectors. Estimators encode data frames "
                "themselves (encoding='standard')"
            )
    return encoding


_Moments = tuple[FloatArray, FloatArray, tuple[float, float]]


def _affine(step: Any, width: int) -> _Moments | None:
    """Extract center, scale and limits of a scaler's outputs ``(x - center) / scale``; None for other steps."""
    zeros, ones, unlimited = np.zeros(width), np.ones(width), (-math.inf, math.inf)
    name = type(step).__name__
    if name == "StandardScaler":
        return (step.mean_ if step.with_mean else zeros), (step.scale_ if step.with_std else ones), unlimited
    if name == "RobustScaler":
        return (
            (step.center_ if step.with_centering else zeros),
            (step.scale_ if step.with_scaling else ones),
            unlimited,
        )
    if name == "MaxAbsScaler":
        return zeros, step.scale_, (-1.0, 1.0) if getattr(step, "clip", False) else unlimited
    if name == "MinMaxScaler":
        return -step.min_ / step.scale_, 1.0 / step.scale_, step.feature_range if step.clip else unlimited
    return None


def _scaled(encoding: Encoding, center: FloatArray, scale: FloatArray, limits: tuple[float, float]) -> Encoding:
    """Replace the inputs x of an encoding by ``(x - center) / scale``, clipped to limits."""
    expressions = []
    for expression, middle, unit in zip(encoding.expressions, center.tolist(), scale.tolist(), strict=True):
        moved = replace(expression, center=expression.center + expression.scale * middle, scale=expression.scale * unit)
        if math.isfinite(limits[0]):
            low, high = (moved.center + moved.scale * limit for limit in limits)
            moved = _cut(moved, low, high)
        expressions.append(moved)
    return replace(encoding, expressions=tuple(expressions))


def _cut(expression: Expression, low: float, high: float) -> Expression:
    """Narrow the limits of an expression; for a bit, the limits must have no effect."""
    if expression.is_bit:
        if low > 0.0 or high < 1.0:
            raise ExportError(f"a scaler clips the bit {expression.name!r}, which cannot be exported")
        return expression
    if expression.low is not None and expression.high is not None:
        low, high = max(low, expression.low), min(high, expression.high)
    return replace(expression, low=low, high=high)


def _filled(encoding: Encoding, imputer: Any) -> Encoding:
    """Compose an encoding with an imputer, which fills missing entries of columns."""
    statistics = np.asarray(imputer.statistics_)
    if imputer.add_indicator or statistics.dtype.kind != "f" or np.any(np.isnan(statistics)):
        raise ExportError("SimpleImputer can be exported for numbers only, without indicators and empty columns")
    columns = list(encoding.columns)
    for expression, value in zip(encoding.expressions, statistics.tolist(), strict=True):
        fill = expression.center + expression.scale * value
        if expression.is_bit or columns[expression.position].fill not in {None, fill}:
            raise ExportError("SimpleImputer can be exported before encoders and after scalers only")
        columns[expression.position] = replace(columns[expression.position], fill=fill)
    return replace(encoding, columns=tuple(columns))


def _through_encoder(before: Encoding, encoded: Encoding) -> Encoding:
    """Compose the encodings `before`, whose inputs must be plain numbers, and `encoded`."""
    names = [column.name for column in before.columns]
    if before == identity(names):
        return encoded.renamed(names)
    columns, expressions = list(before.columns), []
    for expression in encoded.expressions:
        source = before.expressions[expression.position]
        fill = encoded.columns[expression.position].fill
        if source.is_bit or source.low is not None or encoded.columns[expression.position].categories is not None:
            raise ExportError(f"{encoded!r} cannot be exported after a transformer that makes bits or clips numbers")
        if expression.kind == "missing" and columns[source.position].fill is not None:
            raise ExportError(f"{encoded!r} cannot be exported after an imputer: {expression.name!r} is never missing")
        expressions.append(_substituted(expression, source))
        if before.columns[source.position].fill is None and fill is not None:
            columns[source.position] = replace(columns[source.position], fill=source.center + source.scale * fill)
    return Encoding(tuple(columns), tuple(expressions))


def _substituted(expression: Expression, source: Expression) -> Expression:
    """Rewrite an expression in the output ``(x - center) / scale`` of `source` as an expression in x."""

    def back(value: Any) -> Any:
        return None if value is None else source.center + source.scale * value

    changed = (
        {"center": back(expression.center), "scale": source.scale * expression.scale}
        if expression.kind == "value"
        else {}
    )
    return replace(
        expression,
        column=source.column,
        position=source.position,
        value=back(expression.value),
        low=back(expression.low),
        high=back(expression.high),
        **changed,
    )
