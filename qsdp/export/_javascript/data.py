"""Data of exported JavaScript: columns, networks and effects as JSON values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp.encoding import Expression
from qsdp.encoding.reading_rule import DATE, NUMBER
from qsdp.export._description import ModelDescription, check_encoder
from qsdp.export._exact import exact_network, form_of_blocks
from qsdp.networks import QuadraticForm

__all__ = ["DAYS", "columns_data", "effects_data", "image_data", "network_data", "output_names"]

#: What an encoder of images does with an image, besides its shape and constant.
_PATCHES = ("size", "stride", "padding", "regions", "downsample", "centre")

#: Significant digits of the ranges of columns, which are computed back from those of inputs.
_DIGITS = 12

#: Unit of dates.
DAYS = "days since 1970-01-01"


def network_data(description: ModelDescription) -> dict[str, Any]:
    """Return the quadratic forms of a model of columns, with its constants."""
    exact = exact_network(description)
    first, second = np.triu_indices(exact.matrices.shape[-1])
    entries = [plain(matrix[first, second]) for matrix in exact.matrices]
    return {"entries": entries, "units": plain(exact.units), "tail": list(exact.tail), "rest": plain(exact.rest)}


def image_data(description: ModelDescription) -> dict[str, Any]:
    """Return geometry and quadratic forms of a model of images."""
    encoder, network = check_encoder(description), description.network
    (grid,) = encoder.grids
    geometry = {name: getattr(grid, name) for name in _PATCHES}
    entries, units = form_of_blocks(network)
    return {
        "image": {**geometry, "shape": list(grid.image_shape), "constant": grid.constant},
        "inputs": network.n_inputs,
        "network": {
            "entries": [plain(form) for form in entries],
            "units": plain(units * description.factor),
            "rest": plain(description.offset),
        },
        "effectOutputs": output_names(description),
    }


def plain(values: npt.NDArray[Any]) -> list[Any]:
    """Return numbers as JSON values, without the points of integers."""
    return [int(value) if value == int(value) and abs(value) < 2.0**53 else value for value in values.tolist()]


def effects_data(description: ModelDescription) -> dict[str, Any]:
    """Encode the constants that centre the effects of columns."""
    encoding, moments = description.encoding, description.moments
    assert encoding is not None
    assert moments is not None
    groups = [expression.position for expression in encoding.expressions]
    S, s, s0 = exact_network(description).form.parts
    if description.decision == "argmax" and len(s0) == 2:
        S, s, s0 = (part[1:] - part[:1] for part in (S, s, s0))
    constant, means = moments.effects(QuadraticForm(S, s, s0), groups)
    columns = sorted(set(groups))
    main = np.stack([means[:, np.array(groups) == column].sum(axis=1) for column in columns], axis=1)
    return {"mean": moments.mean.tolist(), "main": main.tolist(), "constant": constant.tolist()}


def output_names(description: ModelDescription) -> list[str]:
    """Return the names of the explained outputs: a class each, but one for two classes, or a number."""
    if description.classes:
        both = len(description.classes) == 2
        return [f"class {label}" for label in description.classes[both:]]
    return [f"output {number}" for number in range(description.network.n_outputs)]


def columns_data(description: ModelDescription) -> list[dict[str, Any]]:
    """Encode the description of each column; the default, which is omitted, is a number that must not be missing."""
    encoding = description.encoding
    assert encoding is not None
    ranges = _ranges(description)
    return [
        {
            key: value
            for key, value in {
                "name": column.name,
                "type": None if column.kind == NUMBER else column.kind,
                "unit": DAYS if column.kind == DATE else None,
                "categories": None if column.categories is None else list(column.categories),
                "range": ranges.get(position),
            }.items()
            if value is not None
        }
        | ({} if position in encoding.used else {"required": False})
        | ({"nullable": True} if column.fill is not None or None in (column.categories or ()) else {})
        for position, column in enumerate(encoding.columns)
    ]


def _ranges(description: ModelDescription) -> dict[int, list[float]]:
    """Return the range of numeric columns in training, or of their thresholds."""
    ranges: dict[int, list[float]] = {}
    assert description.encoding is not None
    for index, expression in enumerate(description.encoding.expressions):
        if expression.kind == "value" and description.ranges is not None:
            ends = [_rounded(expression, float(end[index])) for end in description.ranges]
        elif expression.kind == "above":
            low, high = ranges.get(expression.position, [np.inf, -np.inf])
            ends = [min(low, float(expression.value or 0.0)), max(high, float(expression.value or 0.0))]
        else:
            continue
        ranges[expression.position] = ends
    return ranges


def _rounded(expression: Expression, value: float) -> float:
    return float(f"{expression.center + expression.scale * value:.{_DIGITS}g}")
