"""C source of an integer model: encoding of columns, evaluation of the network, and decision."""

from __future__ import annotations

import numpy as np

from qsdp.export._c.c_text import Tables, column_type, counter_type, literal, template_types, unsigned
from qsdp.export._integers.integer_inputs import Inputs
from qsdp.export._integers.layout import type_width
from qsdp.export._integers.model import IntegerModel
from qsdp.export._integers.vectors import ImageVectors, RowVectors
from qsdp.export._templates import render

__all__ = ["c_source", "entry_points", "stream_point"]

#: Largest size in bytes of the tables of sums, on the stack; half of it and twice of it differ by 3 % of the time.
_TABLE = 2048


def entry_points(model: IntegerModel, name: str) -> list[str]:
    """Write the declarations of the public C functions of a whole sample, without semicolons."""
    types, parameters = template_types(model, name), f"const {column_type(model)} column[{model.n_columns}]"
    prototypes = [f"void {name}_outputs({parameters}, {types['total']} output[{types['C']}])"]
    if model.description.decision != "none":
        prototypes.append(f"{types['class_type']} {name}_class({parameters})")
    return prototypes


def stream_point(model: IntegerModel, name: str) -> str:
    """Write the declaration of the function that takes a series sample by sample; empty for others."""
    if model.series is None:
        return ""
    return f"int32_t {name}_push({name}_state *state, const {column_type(model)} column[{model.series.channels}])"


def c_source(model: IntegerModel, name: str, *, packed: bool) -> str:
    """Write the source file, with weights packed into bits or in the narrowest type."""
    tables, network = Tables(), model.network
    by_kind = _of_rows(model, packed) if isinstance(model.samples, RowVectors) else _of_blocks(model, name)
    spare = by_kind.pop("spare")
    assert isinstance(spare, int)
    numbers = model.layout.numbers.ravel().tolist()
    if packed and numbers:
        tables.add("packed", [*model.layout.table.tolist(), *[0] * spare])
    elif numbers:
        tables.add("weights", numbers)
    return render(
        "source.c",
        **template_types(model, name),
        **by_kind,
        **({} if model.inputs is None else _of_inputs(model.inputs)),
        model=model,
        samples=model.samples,
        inputs=model.inputs,
        network=network,
        neurons=network.neurons,
        layout=model.layout,
        decision=model.description.decision,
        declared=entry_points(model, name),
        packed=packed,
        tables=tables,
        entry=tables.entry,
        literal=literal,
        unsigned=unsigned,
        counter_type=counter_type,
    )


def _of_rows(model: IntegerModel, packed: bool) -> dict[str, object]:
    """Return the template fields of networks of rows."""
    layout, rows = model.layout, model.samples
    products = 0 if layout.terms is None else layout.terms.n_neurons + layout.terms.inputs.size
    # Single bits are shifted out of a byte; if they end with one, they read the next.
    shifted = packed and layout.name == "neurons" and layout.n_bits == 1
    return {
        "shifted": shifted,
        "spare": int(layout.numbers.size % 8 == 0) if shifted else _spare(layout.n_bits),
        "position": counter_type(layout.size),
        "counter": counter_type(max(rows.n_columns, rows.blocks.side, products)),
    }


def _of_blocks(model: IntegerModel, name: str) -> dict[str, object]:
    """Return the template fields of networks on images and series."""
    samples, layout = model.samples, model.layout
    side, blocks = samples.blocks.side, samples.blocks.n_blocks
    entries = side * (side + 1) // 2
    grid = samples.grid if isinstance(samples, ImageVectors) else None
    shape = [] if grid is None else [*grid.image_shape[:2], grid.size]
    tabulated = _tabulated(model)
    return {
        "series": model.series,
        "encoder": model.encoder,
        "grid": grid,
        "streaming": stream_point(model, name),
        "starts": _starts(model),
        "side": side,
        "entries": entries,
        "pixel_width": max(type_width(samples.n_columns), 16),
        "tabulated": tabulated,
        "table_size": _table_size(side, tabulated) if tabulated else 0,
        "spare": _spare(max(layout.n_bits, side if tabulated else 0)),
        "position": counter_type(8 * layout.table.size + 64),
        "counter": counter_type(
            max(*(2 * end for end in shape), entries, blocks * model.network.n_outputs, side, *layout.counts, 1)
        ),
    }


def _starts(model: IntegerModel) -> list[int]:
    """Return the positions of the first bits of the terms of each block."""
    layout, blocks, C = model.layout, model.samples.blocks, model.network.n_outputs
    if layout.counts.size:
        bits = layout.counts.reshape(-1, C).sum(axis=1) * (2 * blocks.side + layout.n_bits)
    else:
        bits = np.diff(blocks.starts) * C * layout.n_bits
    return [0, *np.cumsum(bits)[:-1].tolist()]


def _spare(n_bits: int) -> int:
    """Return the number of bytes behind the packed ones that a reader of numbers may read."""
    return (n_bits + 14) // 8 - 1


def _table_size(side: int, bits: int) -> int:
    """Return the number of sums of all combinations of so many signs."""
    return side * (-(-side // bits) << bits)


def _tabulated(model: IntegerModel) -> int:
    """Return the number of signs whose combinations are tabulated for the neurons of a block; 0 if none are.

    Devices for series may have less memory than an image takes, and no tables.
    """
    side, terms = model.samples.blocks.side, int(model.layout.counts.sum()) / model.samples.blocks.n_blocks
    # Operations of a block: without tables, each product takes about two.
    costs = {0: terms * side * (side + 1)}
    for bits in () if model.series or model.layout.name == "form" else (2, 3, 4, 5):
        if _table_size(side, bits) * model.layout.projection_width // 8 <= _TABLE:
            costs[bits] = side * -(-side // bits) * (2**bits + terms)
    return min(costs, key=lambda bits: costs[bits])


def _of_inputs(inputs: Inputs) -> dict[str, object]:
    """Return the template fields of the encoding: columns of numbers and thresholds, and how many each has."""
    numbers, thresholds = inputs.numbers, [bits for bits in inputs.bits if bits.kind == "above"]
    positions = {"number": numbers.column}
    if thresholds:
        positions["threshold"] = thresholds[0].column
    used = np.unique(np.concatenate(list(positions.values())))
    counts = {
        what: np.searchsorted(columns, used, "right") - np.searchsorted(columns, used)
        for what, columns in positions.items()
    }
    steps = {what: count for what, count in counts.items() if count.any()}
    # Clip after scaling if no product overflows.
    cut_scaled = bool(np.all((inputs.max_entry - numbers.low) * numbers.slope + numbers.half < 2**32))
    half = cut_scaled and inputs.max_entry < 2**15 and int(numbers.shift.min(initial=31)) >= 16
    return {
        "used": used.tolist(),
        "steps": steps,
        "repeated": [what for what, count in steps.items() if not np.all(count == 1)],
        "thresholds": thresholds,
        "codes": [bits for bits in inputs.bits if bits.kind != "above"],
        "cut_scaled": cut_scaled,
        "part": "uint16_t" if half else "uint32_t",
    }
