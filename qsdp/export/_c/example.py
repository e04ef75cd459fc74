"""Example program in C that evaluates a few rows and compares the results with those of Python."""

from __future__ import annotations

from fractions import Fraction
from string import Template

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import IntArray
from qsdp.export._c.text import bare, comment, identifiers, initializer, template_types
from qsdp.export._integers.inputs import Inputs
from qsdp.export._integers.model import IntegerModel

__all__ = ["EXAMPLE", "example_rows", "example_source"]

#: Name of the file.
EXAMPLE = "main.c"

#: Number of rows. The second has the smallest entries, the third the largest, the fourth all optional entries missing.
_ROWS = 8

#: Fraction of missing entries in the remaining rows, where entries may be missing.
_MISSING = 0.1

_PROGRAM = Template("""\
${head}
#include <stdio.h>
#include "${name}.h"

#define ROWS ${rows}

static const ${column} rows[ROWS][${upper}_COLUMNS] = {
${columns}
};
static const ${total} outputs[ROWS][${upper}_OUTPUTS] = {
${outputs}
};
${decisions}
int main(void)
{
    int row, k, failures = 0;
${first}
    for (row = 0; row < ROWS; row++) {
        int wrong = 0;
        ${total} output[${upper}_OUTPUTS];
${declared}
        ${name}_outputs(rows[row], output);
        printf("row %d: outputs", row);
        for (k = 0; k < ${upper}_OUTPUTS; k++) {
            printf(" ${format}", (${printed})output[k]);
            wrong += output[k] != outputs[row][k];
        }
${decided}\
        printf(wrong ? ": differs\\n" : ": agrees\\n");
        failures += wrong;
    }
    return failures != 0;
}
""")

_FIRST = Template("""\
    /* The first row, from entries as an application has them. */
    const ${column} first[${upper}_COLUMNS] = {
${entries}
    };

    for (k = 0; k < ${upper}_COLUMNS; k++) {
        failures += first[k] != rows[0][k];
    }
""")

_CLASS = Template("""\
        decision = ${name}_class(rows[row]);
        printf(", class %u", (unsigned)decision);
        wrong += decision != decisions[row];
""")

_LABELS = Template("""\
        ${name}_labels(rows[row], label);
        printf(", labels");
        for (k = 0; k < ${upper}_OUTPUTS; k++) {
            printf(" %u", (unsigned)label[k]);
            wrong += label[k] != decisions[row][k];
        }
""")


def example_source(model: IntegerModel, name: str) -> str:
    """Write the program that tests the exported files called `name`."""
    rows = example_rows(model)
    outputs, types = model.outputs(rows), {**template_types(model, name), "rows": len(rows)}
    wide = types["total"] == "int64_t"
    decisions = declared = decided = ""
    if model.description.decision != "none":
        chosen = model.description.decide(outputs)
        if model.description.decision == "labels":
            decisions = f"static const uint8_t decisions[ROWS][{name.upper()}_OUTPUTS] = {{\n{_table(chosen)}\n}};\n"
            declared, decided = f"        uint8_t label[{name.upper()}_OUTPUTS];\n", _LABELS.substitute(types)
        else:
            kind, listed = types["class_type"], initializer(map(str, chosen.tolist()))
            decisions = f"static const {kind} decisions[ROWS] = {listed};\n"
            declared, decided = f"        {kind} decision;\n", _CLASS.substitute(types)
    return _PROGRAM.substitute(
        types,
        head=comment(
            [
                f"Made by qsdp: rows for {name}.c and the outputs that Python computes for them.",
                "The exit status is 0 if all agree.",
            ]
        ),
        columns=_table(rows),
        outputs=_table(outputs),
        decisions=decisions,
        declared=declared,
        decided=decided,
        first="" if model.inputs is None else _FIRST.substitute(types, entries=_entries(model, name, rows[0])),
        format="%lld" if wide else "%ld",
        printed="long long" if wide else "long",
    )


def example_rows(model: IntegerModel) -> IntArray:
    """Generate rows spread over the ranges and categories of the columns, of shape (n, number of columns)."""
    rng, d = np.random.default_rng(0), model.n_columns
    if model.inputs is None:
        low, high = (np.full(d, end, dtype=np.int64) for end in model.input_range)
        holes, missing = np.zeros(d, dtype=np.bool_), 0
    else:
        low, high, holes = _spans(model, model.inputs, d // model.description.n_columns)
        missing = -model.inputs.most - 1
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
            # Code -1 stands for other categories.
            spans.append((-1, sum(one is not None for one in column.categories) - 1, True))
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
    return max(min(ends) - beyond, -inputs.most), min(max(ends) + beyond, inputs.most)


def _entries(model: IntegerModel, name: str, row: IntArray) -> str:
    """Write the entries of a row as C expressions: macros of numbers, and codes of categories."""
    encoding, inputs = model.description.encoding, model.inputs
    assert encoding is not None
    assert inputs is not None
    texts = []
    names, samples = identifiers(column.name for column in encoding.columns), len(row) // len(encoding.columns)
    for identifier, scale, value in zip(names * samples, inputs.scales * samples, row.tolist(), strict=True):
        number = bare(value) if scale is None else f"{name.upper()}_FIXED_{identifier}({float(value / scale)!r})"
        texts.append(f"        {number},")
    return "\n".join(texts)


def _table(rows: IntArray) -> str:
    """Write rows of integers as the entries of a two-dimensional C array."""
    return "\n".join(f"    {initializer(map(bare, row))}," for row in rows.tolist())
