"""Data of exported JavaScript: columns, networks and effects as JSON values, with numbers packed in base64."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp.encoding import Expression, InputColumn
from qsdp.encoding.notation import BOOLEAN, DATES, DURATIONS
from qsdp.export._description import ModelDescription
from qsdp.export._integers.exact import exact_network
from qsdp.networks import BilinearNetwork, IntegerForm, QuadraticForm

__all__ = ["columns_data", "effects_data", "network_data", "output_names", "packed", "smallest", "unit_of"]

#: Significant digits of the ranges of columns, which are computed back from those of inputs.
_DIGITS = 12

_UNITS = {
    **dict.fromkeys(DATES, "days since 1970-01-01"),
    **dict.fromkeys(DURATIONS, "seconds"),
}


def packed(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Pack numbers in the smallest of three forms: codes of a table, offsets from the smallest integer, or floats."""
    flat = np.ascontiguousarray(values).ravel()
    table, codes = np.unique(flat, return_inverse=True)
    candidates = [_coded(codes.ravel(), table=table.tolist())] if len(table) <= max(2, len(flat) // 2) else []
    if flat.dtype.kind in "iu":
        low = int(flat.min())
        candidates.append(_coded(flat.astype(np.int64) - low, low=low))
    else:
        data = base64.b64encode(flat.astype("<f8").tobytes()).decode()
        candidates.append({"count": len(flat), "bits": 64, "data": data})
    return min(candidates, key=lambda one: len(json.dumps(one)))


def _coded(codes: npt.NDArray[Any], **meaning: Any) -> dict[str, Any]:
    bits = max(int(codes.max(initial=0)).bit_length(), 1)
    lowest_first = (codes[:, None] >> np.arange(bits)) & 1
    data = base64.b64encode(np.packbits(lowest_first.astype(np.uint8), bitorder="little").tobytes()).decode()
    return {"count": len(codes), "bits": bits, **meaning, "data": data}


def network_data(description: ModelDescription, kinds: Sequence[str]) -> dict[str, Any]:
    """Encode the network with its scaling and constants, in the smallest of some layouts."""
    return smallest({"neurons": _neurons, "form": _form}[kind](description) for kind in kinds)


def smallest(candidates: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the data that is the shortest as JSON."""
    return min(candidates, key=lambda one: len(json.dumps(one)))


def _neurons(description: ModelDescription) -> dict[str, Any]:
    neurons = exact_network(description)
    data: dict[str, Any] = {name: packed(side) for name, side in zip(("left", "right"), neurons.sides, strict=False)}
    data |= {"tail": list(neurons.tail), "rest": neurons.rest.tolist()}
    served = neurons.alpha != 0.0
    if not served.all():
        # With several outputs, most neurons serve one.
        return data | {"served": packed(served.astype(np.int64)), "alpha": packed(neurons.alpha[served])}
    return data | {"alpha": packed(neurons.alpha)}


def _form(description: ModelDescription) -> dict[str, Any]:
    """Encode the quadratic form: matrices L of z' L z, z = (x, 1), with units and factors of its terms."""
    network, constant = description.network, description.constant
    if isinstance(network, BilinearNetwork) and network.shared_alpha:
        network = network.to_integer_form()
    if isinstance(network, IntegerForm):
        a, b, c = network.activation.coefficients if network.activation else (1.0, 0.0, 0.0)
        if constant is not None:
            b, c = 2.0 * a * constant, a * constant**2
        width = network.n_inputs - (constant is not None)
        matrices: npt.NDArray[Any] = network.matrices
        units, lift = network.scales * description.factor, [a, 0.5 * b, c]
        if matrices.shape[-1] == width:
            matrices = np.pad(matrices, ((0, 0), (0, 1), (0, 1)))
    else:
        form = network.to_quadratic_form()
        form = form if constant is None else form.with_last(constant)
        matrices, units, lift = QuadraticForm(*form.parts).lifted(), description.factor, [1.0, 1.0, 1.0]
    upper = np.triu_indices(matrices.shape[-1])
    entries = packed(matrices[:, upper[0], upper[1]])
    return {"entries": entries, "units": units.tolist(), "lift": lift, "rest": description.offset.tolist()}


def effects_data(description: ModelDescription) -> dict[str, Any]:
    """Encode the constants that centre the effects of columns."""
    encoding, moments = description.encoding, description.moments
    assert encoding is not None
    assert moments is not None
    groups = [one.position for one in encoding.expressions]
    form = description.network.to_quadratic_form()
    form = form if description.constant is None else form.with_last(description.constant)
    form = form.rescaled(description.offset, description.factor)
    S, s, s0 = form.parts
    if description.decision == "argmax" and len(s0) == 2:
        S, s, s0 = (part[1:] - part[:1] for part in (S, s, s0))
    constant, means = moments.effects(QuadraticForm(S, s, s0), groups)
    columns = sorted(set(groups))
    main = np.stack([means[:, np.array(groups) == column].sum(axis=1) for column in columns], axis=1)
    arrays = {"mean": moments.mean, "main": main, "constant": constant}
    return {name: packed(array) for name, array in arrays.items()}


def output_names(description: ModelDescription) -> list[str]:
    """Return the names of the explained outputs: a label or class each, but one for two classes, or a number."""
    if description.decision == "labels":
        return [f"label {label}" for label in description.classes]
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
                "type": _type(column),
                "unit": unit_of(column),
                "categories": None if column.categories is None else list(column.categories),
                "range": ranges.get(position),
            }.items()
            if value is not None
        }
        | ({} if position in encoding.used else {"required": False})
        | ({"nullable": True} if column.fill is not None or None in (column.categories or ()) else {})
        for position, column in enumerate(encoding.columns)
    ]


def _type(column: InputColumn) -> str | None:
    if column.categories is None:
        return "date" if column.notation in DATES else None
    return "boolean" if column.notation == BOOLEAN else "category"


def unit_of(column: InputColumn) -> str | None:
    """Return the unit of a numeric column if its notation has one, such as dates and percentages; else None."""
    if column.categories is not None or column.notation is None:
        return None
    unit = column.notation.partition(" in ")[2]
    return "fraction, 0.125 for 12.5%" if unit == "%" else unit or _UNITS.get(column.notation)


def _ranges(description: ModelDescription) -> dict[int, list[float]]:
    """Return the range of numeric columns in training, or of their thresholds."""
    found: dict[int, list[float]] = {}
    assert description.encoding is not None
    for place, one in enumerate(description.encoding.expressions):
        if one.kind == "value" and description.ranges is not None:
            ends = [_rounded(one, float(end[place])) for end in description.ranges]
        elif one.kind == "above":
            low, high = found.get(one.position, [np.inf, -np.inf])
            ends = [min(low, float(one.value or 0.0)), max(high, float(one.value or 0.0))]
        else:
            continue
        found[one.position] = ends
    return found


def _rounded(one: Expression, value: float) -> float:
    return float(f"{one.center + one.scale * value:.{_DIGITS}g}")
