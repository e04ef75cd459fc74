"""TypeScript declarations of an exported JavaScript module."""

from __future__ import annotations

import json
from collections.abc import Sequence

from qsdp.encoding import InputColumn
from qsdp.encoding.reading_rule import BOOLEAN, DATE
from qsdp.export._description import ModelDescription
from qsdp.export._javascript.data import DAYS
from qsdp.export._templates import render

__all__ = ["declarations"]


def declarations(description: ModelDescription, exports: Sequence[str]) -> str:
    """Write the TypeScript declarations of the names that a module exports."""
    encoding, fields = description.encoding, None
    if encoding is not None:
        used = encoding.used
        fields = [_field(column, position in used) for position, column in enumerate(encoding.columns)]
    labels = [json.dumps(label) for label in description.classes]
    number = "number[]" if description.network.output_shape else "number"
    return render(
        "types.d.ts",
        exports=exports,
        shape=getattr(description.blocks, "image_shape_", None),
        fields=fields,
        labels=labels,
        prediction=" | ".join(labels) or number,
        score="number" if len(labels) == 2 else number,
    )


def _field(column: InputColumn, used: bool) -> dict[str, object]:
    """Return the name, type and description of a column in a row."""
    texts = [json.dumps(category) for category in column.categories or ()]
    if column.kind == BOOLEAN:
        texts = ["boolean", *(text for text in texts if text == "null")]
    kinds = texts or [
        "number",
        *(["string"] if column.kind == DATE else []),
        *([] if column.fill is None else ["null"]),
    ]
    about = f"{DAYS[0].upper()}{DAYS[1:]}, or an ISO date" if column.kind == DATE else ""
    return {"name": json.dumps(column.name), "used": used, "kinds": " | ".join(kinds), "about": about}
