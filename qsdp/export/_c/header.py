"""C header of an integer model: facts, macros of sizes, bounds and names, conversion of entries, and functions."""

from __future__ import annotations

from collections.abc import Mapping

from qsdp.export._c.source import entry_points, push_declaration
from qsdp.export._c.text import comment, identifiers, initializer, input_width, string, template_types
from qsdp.export._description import described
from qsdp.export._integers.columns import factor_of
from qsdp.export._integers.inputs import Inputs
from qsdp.export._integers.model import IntegerModel
from qsdp.export._integers.vectors import SeriesVectors
from qsdp.export._templates import render

__all__ = ["c_header", "described_storage"]


def c_header(model: IntegerModel, name: str, *, packed: bool) -> str:
    """Write the header file; see `c_source`."""
    types = template_types(model, name)
    push = push_declaration(model, name)
    return render(
        "header.h",
        **types,
        **({} if model.series is None else _state(model, model.series)),
        comment=comment(_facts(model, name, packed)),
        macros=_values(model, types),
        columns=_column_macros(model, types),
        series=model.series,
        scaled=model.inputs is not None and any(model.inputs.scales),
        most=None if model.inputs is None else model.inputs.most,
        declared=[push, *entry_points(model, name)] if push else entry_points(model, name),
    )


def _state(model: IntegerModel, series: SeriesVectors) -> dict[str, object]:
    """Return the sizes of the state between the samples of a series: of the last samples, and of sums and outputs."""
    layout, side = model.layout, series.blocks.side
    ring, entries = (max(series.reaches) + 1) * series.channels, side * (side + 1) // 2
    bits = ring * input_width(model) + len(series.lags) * entries * layout.projection_width
    return {"ring": ring, "entries": entries, "state_bits": bits + model.network.n_outputs * layout.sum_width}


def _values(model: IntegerModel, types: Mapping[str, object]) -> dict[str, str]:
    """Compute the values of macros: sizes, bounds, and the names of columns and classes."""
    network, description = model.network, model.description
    values = {"COLUMNS": str(model.n_columns), "OUTPUTS": str(network.n_outputs)}
    bounds = {"UNIT": network.unit, "ERROR": model.error}
    if model.inputs is not None:
        if description.n_columns < model.n_columns:
            values["CHANNELS"] = str(description.n_columns)
        values["MISSING"] = f"{str(types['column']).removesuffix('_t').upper()}_MIN"
        bounds["ROUNDING"] = model.rounding_error
    for name, numbers in bounds.items():
        texts = [repr(number) for number in numbers.tolist()]
        values[name] = texts[0] if len(texts) == 1 else initializer(texts)
    if description.encoding is not None:
        values["COLUMN_NAMES"] = initializer(string(column.name) for column in description.encoding.columns)
    if description.classes:
        values["CLASSES"] = str(len(description.classes))
        values["CLASS_NAMES"] = initializer(string(str(label)) for label in description.classes)
    return values


def _facts(model: IntegerModel, name: str, packed: bool) -> list[str]:
    """Write the comment lines that describe what the code computes and how accurately."""
    network, layout, upper = model.description.network, model.layout, name.upper()
    facts = [
        f"{name}: {described(network)}, made by qsdp.",
        "",
        f"Stored as {described_storage(model, packed)}.",
        f"Accumulators: projections reach at most {layout.projection_bound} in magnitude ({layout.projection_width} "
        f"bits), sums {layout.sum_bound} ({layout.sum_width} bits).",
        "",
        *_input_facts(model, name),
        "",
        f"Scores of the model are {upper}_UNIT times output. Each is within {upper}_ERROR of the model's, evaluated",
        "exactly at what the columns stand for"
        + ("." if model.inputs is None else f", or within {upper}_ROUNDING where columns were rounded."),
    ]
    if model.network.n_outputs > 1:
        facts.append("These macros are initialisers of arrays, with a number for each output.")
    decision = {
        "none": [],
        "sign": [f"{name}_class is 1 where the output is > 0, else 0."],
        "argmax": [f"{name}_class is the number of the largest output, the first of equal ones."],
        "labels": [f"{name}_labels has a one for each output > 0, else zeros."],
    }[model.description.decision]
    if model.description.classes:
        decision.append(f"{upper}_CLASS_NAMES initialises an array of texts by number of the class.")
    return [*facts, *(["", *decision] if decision else [])]


def described_storage(model: IntegerModel, packed: bool) -> str:
    """Describe what is stored, and its size."""
    what = {"neurons": "neurons", "form": "the quadratic form"}[model.layout.name]
    if packed:
        return f"{what}, {model.layout.table.size} bytes of bits"
    return f"{what}, {model.layout.numbers.size} integers"


def _input_facts(model: IntegerModel, name: str) -> list[str]:
    if model.series is not None:
        ends = "the class" if model.description.decision in {"sign", "argmax"} else "0"
        return [
            f"Columns are a series of {model.series.length} samples: channels of the first, then those of the second.",
            f"{name}_push takes one sample after another. It returns -1 until the last one of a series, and {ends}",
            "with it; the outputs are in the state then. An entry is the nearest integer to scale times the value of a",
            "channel, see the macros, and must not be missing. Bounds hold unless it is clipped.",
        ]
    if model.encoder is not None:
        sides = " x ".join(str(side) for side in model.encoder.image_shape_)
        return [f"Columns are the pixels of an image of {sides}, rows first: bytes, channels next to each other."]
    if model.inputs is None:
        low, high = model.input_range
        return [f"Inputs are integers from {low} to {high}; others may overflow."]
    facts = [
        "A column of numbers is the nearest integer to scale times the entry, see the macros. They clip entries larger",
        f"than {model.inputs.most} in magnitude, including infinity.",
    ]
    if model.inputs.fills is not None or any(one.kind == "missing" for one in model.inputs.bits):
        facts.append(f"A missing entry is {name.upper()}_MISSING; the macros convert nan to it.")
    else:
        facts.append("No entry may be missing or nan.")
    return facts


def _column_macros(model: IntegerModel, types: Mapping[str, object]) -> list[str]:
    """Write a conversion macro for each numeric column, and the codes of categories."""
    if model.inputs is None or model.description.encoding is None:
        return []
    lines, columns = [], model.description.encoding.columns
    for position, (column, identifier) in enumerate(
        zip(columns, identifiers(one.name for one in columns), strict=True)
    ):
        scale = model.inputs.scales[position]
        about = f"Column {position}, {column.name}: "
        if column.categories is not None:
            codes = ", ".join(f"{code} {symbol}" for code, symbol in enumerate(column.categories) if symbol is not None)
            lines.append(comment([f"{about}the code of a category: {codes}; -1 for others."]))
        elif scale is None:
            lines.append(comment([f"{about}not used."]))
        else:
            never = ", must not be missing" if column.fill is None else ""
            lines.append(comment([f"{about}scale {float(scale):.9g}{_ends(model, model.inputs, position)}{never}."]))
            divisor, factor = factor_of(scale)
            times = f"* {factor!r}" if divisor == 1.0 else f"/ {divisor!r}"
            lines.append(f"#define {types['upper']}_FIXED_{identifier}(entry) {types['name']}_round((entry) {times})")
    return lines


def _ends(model: IntegerModel, inputs: Inputs, position: int) -> str:
    """Describe the limits at which a column is clipped; empty unless the column is a numeric input."""
    assert model.description.encoding is not None
    numbers = inputs.numbers
    mask = numbers.column == position
    low, high = numbers.low[mask], (numbers.low + numbers.width)[mask]
    if not mask.any():
        return ""
    # The model itself does not clip such a column.
    values = (one for one in model.description.encoding.expressions if one.position == position and not one.is_bit)
    unlimited = any(one.low is None for one in values)
    return f", clipped at {low[0]} and {high[0]}" + (", between which the bounds hold" if unlimited else "")
