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
            kept = step.get_support(indices=True).tolist()
            encoding = replace(encoding, expressions=tuple(encoding.expressions[place] for place in kept))
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
    for one, middle, unit in zip(encoding.expressions, center.tolist(), scale.tolist(), strict=True):
        moved = replace(one, center=one.center + one.scale * middle, scale=one.scale * unit)
        if math.isfinite(limits[0]):
            low, high = (moved.center + moved.scale * limit for limit in limits)
            moved = _cut(moved, low, high)
        expressions.append(moved)
    return replace(encoding, expressions=tuple(expressions))


def _cut(one: Expression, low: float, high: float) -> Expression:
    """Narrow the limits of an expression; for a bit, the limits must have no effect."""
    if one.is_bit:
        if low > 0.0 or high < 1.0:
            raise ExportError(f"a scaler clips the bit {one.name!r}, which cannot be exported")
        return one
    if one.low is not None and one.high is not None:
        low, high = max(low, one.low), min(high, one.high)
    return replace(one, low=low, high=high)


def _filled(encoding: Encoding, imputer: Any) -> Encoding:
    """Compose an encoding with an imputer, which fills missing entries of columns."""
    statistics = np.asarray(imputer.statistics_)
    if imputer.add_indicator or statistics.dtype.kind != "f" or np.any(np.isnan(statistics)):
        raise ExportError("SimpleImputer can be exported for numbers only, without indicators and empty columns")
    columns = list(encoding.columns)
    for one, value in zip(encoding.expressions, statistics.tolist(), strict=True):
        fill = one.center + one.scale * value
        if one.is_bit or columns[one.position].fill not in {None, fill}:
            raise ExportError("SimpleImputer can be exported before encoders and after scalers only")
        columns[one.position] = replace(columns[one.position], fill=fill)
    return replace(encoding, columns=tuple(columns))


def _through_encoder(before: Encoding, own: Encoding) -> Encoding:
    """Compose the encodings `before`, whose inputs must be plain numbers, and `own`."""
    names = [column.name for column in before.columns]
    if before == identity(names):
        return own.renamed(names)
    columns, expressions = list(before.columns), []
    for one in own.expressions:
        source = before.expressions[one.position]
        fill = own.columns[one.position].fill
        if source.is_bit or source.low is not None or own.columns[one.position].categories is not None:
            raise ExportError(f"{own!r} cannot be exported after a transformer that makes bits or clips numbers")
        if one.kind == "missing" and columns[source.position].fill is not None:
            raise ExportError(f"{own!r} cannot be exported after an imputer: {one.name!r} is never missing")
        expressions.append(_substituted(one, source))
        if before.columns[source.position].fill is None and fill is not None:
            columns[source.position] = replace(columns[source.position], fill=source.center + source.scale * fill)
    return Encoding(tuple(columns), tuple(expressions))


def _substituted(one: Expression, source: Expression) -> Expression:
    """Rewrite an expression in the output ``(x - center) / scale`` of `source` as an expression in x."""

    def back(value: Any) -> Any:
        return None if value is None else source.center + source.scale * value

    changed = {"center": back(one.center), "scale": source.scale * one.scale} if one.kind == "value" else {}
    return replace(
        one,
        column=source.column,
        position=source.position,
        value=back(one.value),
        low=back(one.low),
        high=back(one.high),
        **changed,
    )
