"""Example program in C that evaluates a few rows and compares the results with those of Python."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import IntArray
from qsdp.encoding.reading_rule import BOOLEAN
from qsdp.export._c.c_text import bare, identifiers, initializer, template_types
from qsdp.export._integers.integer_inputs import Inputs
from qsdp.export._integers.model import IntegerModel
from qsdp.export._templates import render

__all__ = ["EXAMPLE", "example_rows", "example_source"]

#: Name of the file.
EXAMPLE = "main.c"

#: Number of rows. The second has the smallest entries, the third the largest, the fourth all optional entries missing.
_ROWS = 8

#: Fraction of missing entries in the remaining rows, where entries may be missing.
_MISSING = 0.1


def example_source(model: IntegerModel, name: str) -> str:
    """Write the program that tests the exported files called `name`."""
    rows, decision = example_rows(model), model.description.decision
    outputs = model.outputs(rows)
    return render(
        "main.c",
        **template_types(model, name),
        rows=rows.tolist(),
        outputs=outputs.tolist(),
        chosen=None if decision == "none" else model.description.decide(outputs).tolist(),
        decision=decision,
        first=_entries(model, name, rows[0]),
        initializer=lambda numbers: initializer(map(bare, numbers)),
    )


def example_rows(model: IntegerModel) -> IntArray:
    """Generate rows spread over the ranges and categories of the columns, of shape (n, number of columns)."""
    rng, d = np.random.default_rng(0), model.n_columns
    if model.inputs is None:
        low, high = (np.full(d, end, dtype=np.int64) for end in model.input_range)
        holes, missing = np.zeros(d, dtype=np.bool_), 0
    else:
        low, high, holes = _spans(model, model.inputs, d // model.description.n_columns)
        missing = -model.inputs.max_entry - 1
    rows: IntArray = rng.integers(low, high, size=(_ROWS, d), endpoint=True)
    rows[1], rows[2] = low, high
    rows[3] = np.where(holes, missing, rows[3])
    rows[4:] = np.where(holes & (rng.random((_ROWS - 4, d)) < _MISSING), missing, rows[4:])
    return rows


def _spans(model: IntegerModel, inputs: Inputs, n_samples: int) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_]]:
    """Return the smallest and largest test entries of columns, and a mask of columns that may have missing entries."""
    encoding = model.description.encoding
    assert encoding is not None
    spans = []
    for position, (column, scale) in enumerate(zip(encoding.columns, inputs.scales, strict=True)):
        if column.categories is not None:
            # Code -1 stands for other categories; there is no third truth value.
            spans.append(
                (0 if column.kind == BOOLEAN else -1, sum(symbol is not None for symbol in column.categories) - 1, True)
            )
        elif scale is None:
            spans.append((0, 0, False))
        else:
            spans.append((*_span(inputs, position, scale), column.fill is not None))
    # A series has the spans of its channels in every sample.
    low, high, holes = zip(*spans * n_samples, strict=True)
    return np.array(low, dtype=np.int64), np.array(high, dtype=np.int64), np.array(holes, dtype=np.bool_)


def _span(inputs: Inputs, position: int, scale: Fraction) -> tuple[int, int]:
    """Return the range of a numeric column: the limits of its inputs, or a little beyond its thresholds."""
    mask = inputs.numbers.column == position
    if mask.any():
        # Beyond these the code clips entries, even where the model itself does not.
        low, width = inputs.numbers.low[mask], inputs.numbers.width[mask]
        return int(low.max()), int((low + width).min())
    above = [bits.value[bits.column == position].tolist() for bits in inputs.bits if bits.kind == "above"]
    ends = [value for values in above for value in values] or [0]
    beyond = max((max(ends) - min(ends)) // 8, round(scale), 1)
    return max(min(ends) - beyond, -inputs.max_entry), min(max(ends) + beyond, inputs.max_entry)


def _entries(model: IntegerModel, name: str, row: IntArray) -> list[str]:
    """Write the entries of a row of columns as C expressions: macros of numbers, and codes of categories."""
    encoding, inputs = model.description.encoding, model.inputs
    if encoding is None or inputs is None:
        return []
    names, samples = identifiers(column.name for column in encoding.columns), len(row) // len(encoding.columns)
    return [
        bare(value) if scale is None else f"{name.upper()}_FIXED_{identifier}({float(value / scale)!r})"
        for identifier, scale, value in zip(names * samples, inputs.scales * samples, row.tolist(), strict=True)
    ]
