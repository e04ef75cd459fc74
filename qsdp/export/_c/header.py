"""C header of an integer model: facts, macros of sizes, bounds and names, conversion of entries, and functions."""

from __future__ import annotations

from qsdp.encoding.reading_rule import DATE
from qsdp.export._c.c_source import entry_points, stream_point
from qsdp.export._c.c_text import identifiers, input_width, printable, string, template_types
from qsdp.export._description import described
from qsdp.export._integers.fixed_point import factor_of
from qsdp.export._integers.integer_inputs import Inputs
from qsdp.export._integers.model import IntegerModel
from qsdp.export._integers.vectors import SeriesVectors
from qsdp.export._templates import render

__all__ = ["c_header", "described_storage", "state_bytes"]


def c_header(model: IntegerModel, name: str, *, packed: bool) -> str:
    """Write the header file; see `c_source`."""
    description, inputs = model.description, model.inputs
    return render(
        "header.h",
        **template_types(model, name),
        **({} if model.series is None else _state(model.series)),
        state_bytes=state_bytes(model),
        model=model,
        layout=model.layout,
        inputs=inputs,
        series=model.series,
        decision=description.decision,
        described=described(description.network),
        storage=described_storage(model, packed),
        names=[] if description.encoding is None else [string(column.name) for column in description.encoding.columns],
        classes=[string(str(label)) for label in description.classes],
        nullable=inputs is not None
        and (inputs.fills is not None or any(bits.kind == "missing" for bits in inputs.bits)),
        thresholds=inputs is not None and any(bits.kind == "above" for bits in inputs.bits),
        columns=_conversions(model, name),
        printable=printable,
        scaled=inputs is not None and any(inputs.scales),
        declared=[*filter(None, [stream_point(model, name)]), *entry_points(model, name)],
    )


def _state(series: SeriesVectors) -> dict[str, int]:
    """Return the numbers of entries of a series' state between samples: last samples, and sums of products of a lag."""
    side = series.blocks.side
    return {"ring": (max(series.reaches) + 1) * series.channels, "entries": side * (side + 1) // 2}


def state_bytes(model: IntegerModel) -> int:
    """Return the size of the C state between the samples of a series; 0 for other models.

    This is the size where integers are aligned to their width; elsewhere it is smaller.
    """
    if model.series is None:
        return 0
    sizes, layout = _state(model.series), model.layout
    # Widths and numbers of entries in the order of the structure.
    parts = [
        (input_width(model), sizes["ring"]),
        (layout.projection_width, len(model.series.lags) * sizes["entries"]),
        (layout.sum_width, model.network.n_outputs),
        (32, 1),
    ]
    end = 0
    for bits, number in parts:
        end = _aligned(end, bits // 8) + number * bits // 8
    return _aligned(end, max(bits // 8 for bits, _ in parts))


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def described_storage(model: IntegerModel, packed: bool) -> str:
    """Describe what is stored, and its size."""
    what, terms = {"neurons": "neurons", "form": "the quadratic form"}[model.layout.name], model.layout.terms
    if terms is not None and terms.inputs.size:
        what += " and weights of inputs"
    if packed:
        return f"{what}, {model.layout.table.size} bytes of bits"
    return f"{what}, {model.layout.numbers.size} integers"


def _conversions(model: IntegerModel, name: str) -> list[tuple[str, str]]:
    """Write what the entries of each column are, and the macro that converts a number, without its prefix, if any."""
    if model.inputs is None or model.description.encoding is None:
        return []
    conversions, columns = [], model.description.encoding.columns
    names = identifiers(column.name for column in columns)
    for position, (column, identifier, scale) in enumerate(zip(columns, names, model.inputs.scales, strict=True)):
        macro = ""
        if column.categories is not None:
            codes = ", ".join(f"{code} {symbol}" for code, symbol in enumerate(column.categories) if symbol is not None)
            meaning = f"the code of a category: {codes}; -1 for others"
        elif scale is None:
            meaning = "not used"
        else:
            never = ", must not be missing" if column.fill is None else ""
            unit = "days since 1970-01-01, " if column.kind == DATE else ""
            meaning = f"{unit}scale {float(scale):.9g}{_ends(model, model.inputs, position)}{never}"
            divisor, factor = factor_of(scale)
            times = f"* {factor!r}" if divisor == 1.0 else f"/ {divisor!r}"
            macro = f"FIXED_{identifier}(entry) {name}_round((entry) {times})"
        conversions.append((f"Column {position}, {column.name}: {meaning}.", macro))
    return conversions


def _ends(model: IntegerModel, inputs: Inputs, position: int) -> str:
    """Describe the limits at which a column is clipped; empty unless the column is a numeric input."""
    assert model.description.encoding is not None
    numbers = inputs.numbers
    mask = numbers.column == position
    low, high = numbers.low[mask], (numbers.low + numbers.width)[mask]
    if not mask.any():
        return ""
    # The model itself does not clip such a column.
    values = (
        expression
        for expression in model.description.encoding.expressions
        if expression.position == position and not expression.is_bit
    )
    unlimited = any(expression.low is None for expression in values)
    return f", clipped at {low[0]} and {high[0]}" + (", between which the bounds hold" if unlimited else "")
