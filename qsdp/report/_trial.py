"""The script of a page on which a model can be tried."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np

from qsdp.exceptions import ExportError
from qsdp.export import ModelDescription, describe, to_js

__all__ = ["script_of"]

#: Number of controls that are shown at once; those of columns with smaller effects are folded.
_CONTROLS = 12


def script_of(model: Any) -> str | None:
    """Return an estimator as JavaScript with controls for its columns, or None without columns or a script."""
    try:
        description = describe(model)
        if description.encoding is None:
            return None
        module = to_js(description)
    except ExportError:
        return None
    used, columns = description.encoding.used, description.encoding.columns
    importances = getattr(model, "feature_importances_", np.zeros(len(columns)))
    by_effect = sorted(used, key=lambda position: -float(importances[position]))
    settings = {
        "starts": [_start(description, position) for position in range(len(columns))],
        "first": sorted(by_effect[:_CONTROLS]),
        "others": sorted(by_effect[_CONTROLS:]),
    }
    stored = json.dumps(settings, allow_nan=False).replace("<", "\\u003c")
    controls = files("qsdp.report").joinpath("templates", "trial.js").read_text("utf-8")
    return f"\n{module.source}\n{{\nconst TRIAL = {stored};\n\n{controls}}}\n"


def _start(description: ModelDescription, position: int) -> Any:
    """Return the value with which a control starts: the median, the number of the most frequent category, or None."""
    assert description.encoding is not None
    column = description.encoding.columns[position]
    if column.categories is None or description.moments is None:
        return column.fill
    frequencies = np.full(len(column.categories), np.nan)
    for expression, mean in zip(description.encoding.expressions, description.moments.mean, strict=True):
        if expression.position == position and expression.kind in {"equals", "missing"}:
            frequencies[column.categories.index(expression.value)] = expression.center + expression.scale * mean
    # A category without an input of its own has the other rows.
    rest = 1.0 - np.nansum(frequencies)
    return int(np.argmax(np.where(np.isnan(frequencies), rest, frequencies)))
