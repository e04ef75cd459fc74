"""TypeScript declarations of an exported JavaScript module."""

from __future__ import annotations

import json
from collections.abc import Sequence

from qsdp.encoding import InputColumn
from qsdp.encoding.notation import BOOLEAN, DATES
from qsdp.export._description import ModelDescription
from qsdp.export._javascript.data import unit_of
from qsdp.export._templates import render

__all__ = ["declarations"]


def declarations(description: ModelDescription, exports: Sequence[str]) -> str:
    """Write the TypeScript declarations of the names that a module exports."""
    encoding, fields = description.encoding, None
    if encoding is not None:
        used = encoding.used
        fields = [_field(column, place in used) for place, column in enumerate(encoding.columns)]
    labels = [json.dumps(label) for label in description.classes]
    number = "number[]" if description.network.output_shape else "number"
    several = description.decision == "labels"
    return render(
        "types.d.ts",
        exports=exports,
        shape=getattr(description.blocks, "image_shape_", None),
        fields=fields,
        labels=labels,
        prediction="(0 | 1)[]" if several else " | ".join(labels) or number,
        score="number[]" if several else "number" if len(labels) == 2 else number,
    )


def _field(column: InputColumn, used: bool) -> dict[str, object]:
    """Return the name, type and description of a column in a row."""
    missing = " | null" if column.fill is not None else ""
    if column.categories is not None:
        truth = ["boolean"] if column.notation == BOOLEAN else []
        kinds = " | ".join([json.dumps(one) for one in column.categories if one is None or not truth] + truth)
    else:
        kinds = "number | boolean" + (" | string" if column.notation in DATES else "") + missing
    about = ""
    if (unit := unit_of(column)) is not None:
        date = ", or an ISO date" if column.notation in DATES else ""
        about = f"{unit[0].upper()}{unit[1:]}{date}"
    return {"name": json.dumps(column.name), "used": used, "kinds": kinds, "about": about}
