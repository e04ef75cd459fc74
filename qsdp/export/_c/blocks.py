"""C source of networks on images and series: sums of products by block, then neurons or quadratic forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Template

from qsdp.export._c.encoding import encoding_functions
from qsdp.export._c.text import Tables, bit_readers, counter_type, literal, number_reader, scaled_sum
from qsdp.export._integers.layout import type_width
from qsdp.export._integers.model import IntegerModel
from qsdp.export._integers.vectors import SeriesVectors, Vectors

__all__ = ["block_functions", "push_declaration", "state_type"]

_PATCH = Template("""\
/* The pixels of the patch in a row and column of patches${with_constant}. */
static void patch(const uint8_t *image, ${counter} row, ${counter} column, ${x} *x)
{
    ${counter} i, j, k;${declared}

    for (i = 0; i < ${size}; i++) {
        for (j = 0; j < ${size}; j++) {
            const ${place} at = (${place})(row * ${stride} + i);
            const ${place} beside = (${place})(column * ${stride} + j);

            for (k = 0; k < ${channels}; k++) {
                ${x} value = ${start};

${sum}                *x++ = value;
            }
        }
    }
${constant}}
""")

#: Largest size in bytes of the tables of sums, on the stack; half of it and twice of it differ by 3 % of the time.
_TABLE = 2048

_ADD = "value = (${x})(value + image[${index}]);\n"

_ADD_PRODUCTS = Template("""\
/* Adds the products of two entries of a vector, of the upper triangle row by row. */
static void add(const ${x} *x, ${projection} *sum)
{
    ${counter} i, j;

    for (i = 0; i < ${side}; i++) {
        for (j = i; j < ${side}; j++, sum++) {
            *sum = (${projection})(*sum + (${projection})x[i] * x[j]);
        }
    }
}
""")

_DOUBLED = Template("""\
    for (i = 0, entry = sum; i < ${side}; i++) {
        for (entry++, j = (${counter})(i + 1); j < ${side}; j++, entry++) {
            *entry = (${projection})(2 * *entry);
        }
    }
""")

#: With g_i = u_i v_i, an entry i < j counts 2 v_i u_j where g_i = g_j, else 0; one on the diagonal counts g_i.
_NEURON = Template("""\
/* The value of the neuron whose signs begin at a bit, at sums of products. */
static ${projection} neuron(const ${projection} *sum, ${position} at)
{
    uint8_t left[${side}], right[${side}];
    ${projection} value = 0;
    ${counter} i, j;

    for (i = 0; i < ${side}; i++) {
        left[i] = bit((${position})(at + i));
        right[i] = bit((${position})(at + ${side} + i));
    }
    for (i = 0; i < ${side}; i++) {
        const uint8_t differ = left[i] ^ right[i];
        const ${projection} diagonal = *sum++;
        ${projection} row = 0;

        for (j = (${counter})(i + 1); j < ${side}; j++, sum++) {
            if ((left[j] ^ right[j]) == differ) {
                row = (${projection})(left[j] ? row + *sum : row - *sum);
            }
        }
        row = (${projection})(2 * row);
        row = (${projection})(left[i] ? row + diagonal : row - diagonal);
        value = (${projection})(right[i] ? value + row : value - row);
    }
    return value;
}
""")

#: Sums of the products with every combination of signs, `bits` at a time, of each row of the matrix of sums.
_TABULATE = Template("""\
/* Adds up the sums of products of every row with all combinations of ${bits} signs. */
static void tabulate(const ${projection} *sum, ${projection} *table)
{
    ${counter} i, j, k;

    for (i = 0; i < ${side}; i++) {
        for (j = 0; j < ${side}; j++) {
            const uint16_t other = (uint16_t)(${last} - j), low = i < other ? i : other, high = i < other ? other : i;
            const ${projection} value = sum[low * (${twice} - low) / 2 + high];
            ${projection} *part = table + (j / ${bits} * ${side} + i) * ${combinations};
            const ${counter} half = (${counter})(1 << j % ${bits});

            if (half == 1) {
                part[0] = 0;
            }
            for (k = 0; k < half; k++, part++) {
                part[half] = (${projection})(*part + value);
                *part = (${projection})(*part - value);
            }
        }
    }
}
""")

_TABULATED = Template("""\
/* The value of the neuron whose signs begin at a bit, from tabulated sums. */
static ${projection} neuron(const ${projection} *table, ${position} at)
{
    const uint32_t left = signs(at), right = signs((${position})(at + ${side}));
    uint32_t mark = ${first};
    ${projection} value = 0;

    for (; mark; mark >>= 1, table += ${combinations}) {
        const ${projection} row = (${projection})(${row});

        value = (${projection})(left & mark ? value + row : value - row);
    }
    return value;
}
""")

_TERMS = Template("""\
/* Adds the terms of a block to the outputs; its weights begin at a bit, and those of the next one at the result. */
static ${position} terms(${kind}${projection} *sum, ${counter} block, ${position} at, ${total} *output)
{
    ${counter} i${declared};
    ${output_counter} k;

${before}\
    for (k = 0; k < ${C}; k++) {
        for (i = 0; i < ${count}; i++, at = (${position})(at + ${step})) {
            const ${total} weight = (${total})(((${total})${number} + ${low})${gain});

            output[k] = (${total})(output[k] + weight * ${value});
        }
${after}    }
    return at;
}
""")

_IMAGE = Template("""\
${declared}
{
    ${projection} sum[${entries}];
    ${x} x[${side}];
    ${position} at = 0;
    ${counter} region, row, beside, i;
    ${output_counter} k;

    for (k = 0; k < ${C}; k++) {
        output[k] = 0;
    }
    for (region = 0; region < ${blocks}; region++) {
        const ${counter} top = region / ${regions}, left = region % ${regions};

        for (i = 0; i < ${entries}; i++) {
            sum[i] = 0;
        }
        for (row = ${row_edge}; row < ${next_row_edge}; row++) {
            for (beside = ${column_edge}; beside < ${next_column_edge}; beside++) {
                patch(column, row, beside, x);
                add(x, sum);
            }
        }
        at = terms(sum, region, at, output);
    }
${finish}}
""")

#: A sample completes at most one window of each lag; the last window of a segment completes a block.
_PUSH = Template("""\
${declared_push}
{
    ${x} x[${side}];
    uint32_t lag, i, j;

    if (state->time == 0) {
        for (i = 0; i < ${C}; i++) {
            state->output[i] = 0;
        }
        state->block = state->at = 0;
    }
    encode(column, state->x + state->time % ${span} * ${channels});
    for (lag = 0; lag < ${lags}; lag++) {
        const uint32_t first = (uint32_t)(state->time - ${reach}), next = (uint32_t)(first / ${stride} + 1);

${skipped}\
        for (i = 0; i < ${size}; i++) {
            for (j = 0; j < ${channels}; j++) {
                x[i * ${channels} + j] = state->x[(first + i * ${lag}) % ${span} * ${channels} + j];
            }
        }
${constant}\
        add(x, state->sum[lag]);
        if (next * ${segments} / ${windows} != (next - 1) * ${segments} / ${windows}) {
            const ${counter} block = (${counter})state->block++;

            state->at = (uint32_t)terms(state->sum[lag], block, (${position})state->at, state->output);
            for (i = 0; i < ${entries}; i++) {
                state->sum[lag][i] = 0;
            }
        }
    }
    if (++state->time < ${length}) {
        return -1;
    }
    state->time = 0;
${finish}${choice}}
""")

#: A whole series; its state ends with it.
_SERIES = Template("""\
${declared_outputs}
{
    ${name}_state state = {0};
    uint32_t time;
    ${output_counter} k;

    for (time = 0; time < ${length}; time++, column += ${channels}) {
        (void)${name}_push(&state, column);
    }
    for (k = 0; k < ${C}; k++) {
        output[k] = state.output[k];
    }
}
""")

#: Fields of the state; zeros are its beginning.
_STATE = Template("""\
/* What is stored between samples, ${bytes} bytes or a few more; before the first sample, all zeros. */
typedef struct {
    ${x} x[${ring}];
    ${projection} sum[${lags}][${entries}];
    ${total} output[${C}];
    uint32_t time, block, at;
} ${name}_state;

""")

_FINISH = Template("""\
    for (${k} = 0; ${k} < ${C}; ${k}++) {
        ${output}[${k}] = (${total})(${result});
    }
""")

_CHOICE = {
    "none": "    return 0;\n",
    "labels": "    return 0;\n",
    "sign": "    return state->output[0] > 0;\n",
    "argmax": """\
    for (i = 0, j = 1; j < ${C}; j++) {
        if (state->output[j] > state->output[i]) {
            i = j;
        }
    }
    return (int32_t)i;
""",
}


def push_declaration(series: SeriesVectors, types: Mapping[str, object]) -> str:
    """Return the declaration of the function that takes a sample of a series, without semicolon."""
    name = types["name"]
    return f"int32_t {name}_push({name}_state *state, const {types['column']} column[{series.channels}])"


def state_type(model: IntegerModel, series: SeriesVectors, types: Mapping[str, object]) -> str:
    """Write the C type of the state of a series."""
    layout, entries = model.layout, _entries(series)
    ring = (max(series.reaches) + 1) * series.channels
    sums = len(series.lags) * entries
    x_width = int(re.sub(r"\D", "", str(types["x"])))
    bits = ring * x_width + sums * layout.projection_width + model.network.n_outputs * layout.sum_width
    return _STATE.substitute(types, ring=ring, bytes=bits // 8 + 12, lags=len(series.lags), entries=entries)


def block_functions(model: IntegerModel, types: Mapping[str, object], tables: Tables, outputs: str) -> list[str]:
    """Write the C functions up to that of the outputs, of this declaration, and declare their tables."""
    layout, network, series = model.layout, model.network, model.series
    types = {**types, **_sizes(model)}
    neurons, tabulated = layout.name == "neurons", bool(types["bits"])
    longest = model.samples.blocks.side if tabulated else 0
    single = (neurons and not tabulated) or layout.n_bits == 1
    readers = bit_readers(layout, types, tables, single=single, longest=longest)
    functions = [*readers, _ADD_PRODUCTS.substitute(types)]
    if neurons:
        functions += _tabulated(types) if tabulated else [_NEURON.substitute(types)]
    functions.append(_terms(model, types, tables))
    output, index = ("state->output", "i") if series else ("output", "k")
    value, total = f"{output}[{index}]", str(types["total"])
    result = scaled_sum(value, index, network.factors.tolist(), network.bias, tables, total)
    finish = "" if result == value else _FINISH.substitute(types, output=output, result=result, k=index)
    if series is None:
        return [*functions, *_of_images(model, types, tables, finish, outputs)]
    return [*functions, *_of_series(model, series, types, tables, finish, outputs)]


def _entries(samples: Vectors) -> int:
    """Return the number of products of two entries of a vector."""
    return samples.blocks.side * (samples.blocks.side + 1) // 2


def _sizes(model: IntegerModel) -> dict[str, object]:
    """Return the sizes that templates share, and the types of their counters."""
    samples, layout, C = model.samples, model.layout, model.network.n_outputs
    entries, side, blocks = _entries(samples), samples.blocks.side, samples.blocks.n_blocks
    shape = [] if model.series else [2 * end for end in (*samples.encoder.image_shape_[:2], samples.encoder.size)]
    bits = _tabulated_bits(model)
    return {
        "bits": bits,
        "combinations": 2**bits,
        "position": counter_type(8 * layout.table.size + 64),
        "counter": counter_type(max(*shape, entries, blocks * C, side, *layout.counts, 1)),
        "side": side,
        "entries": entries,
        "blocks": blocks,
    }


def _tabulated_bits(model: IntegerModel) -> int:
    """Return the number of signs whose combinations are tabulated for the neurons of a block; 0 if none are.

    Devices for series may have less memory than an image takes, and no tables.
    """
    side, terms = model.samples.blocks.side, model.layout.counts.sum() / model.samples.blocks.n_blocks
    # Operations of a block: without tables, each product takes about two.
    costs = {0: terms * side * (side + 1)}
    for bits in () if model.series or model.layout.name == "form" else (2, 3, 4, 5):
        sums = side * -(-side // bits)
        if sums * 2**bits * model.layout.projection_width // 8 <= _TABLE:
            costs[bits] = sums * (2**bits + terms)
    return min(costs, key=lambda bits: costs[bits])


def _tabulated(types: Mapping[str, object]) -> list[str]:
    """Write the C functions that tabulate sums, and read the value of a neuron from them."""
    bits, side, size = (int(str(types[name])) for name in ("bits", "side", "combinations"))
    parts = [f"table[{k * side * size} + (right >> {k * bits} & {size - 1})]" for k in range(-(-side // bits))]
    return [
        number_reader("signs", side, types),
        _TABULATE.substitute(types, last=side - 1, twice=2 * side - 1),
        _TABULATED.substitute(types, first=f"(uint32_t)1 << {side - 1}", row=" + ".join(parts)),
    ]


def _terms(model: IntegerModel, types: Mapping[str, object], tables: Tables) -> str:
    """Write the C function that adds the terms of a block."""
    layout, samples = model.layout, model.samples
    number, declared, before, after = "bit" if layout.n_bits == 1 else "number", "", "", ""
    gain = tables.entry("gain", model.network.gains[samples.order].tolist(), "block", str(types["total"]))
    if layout.name == "neurons":
        signs = 2 * samples.blocks.side
        fields = {"kind": "const ", "step": signs + layout.n_bits, "value": "neuron(sum, at)"}
        fields |= {"number": f"{number}(({types['position']})(at + {signs}))"}
        fields["count"] = tables.entry("count", layout.counts.tolist(), "group")
        if "[group]" in str(fields["count"]):
            declared, after = f", group = ({types['counter']})(block * {types['C']})", "        group++;\n"
        if bits := int(str(types["bits"])):
            size = signs // 2 * -(-signs // 2 // bits) * 2**bits
            declared, before = f"{declared};\n    {types['projection']} table[{size}]", "    tabulate(sum, table);\n"
            fields["value"] = "neuron(table, at)"
    else:
        fields = {"kind": "", "step": layout.n_bits, "value": "sum[i]", "number": f"{number}(at)"}
        fields["count"] = types["entries"]
        declared, before = f", j;\n    {types['projection']} *entry", _DOUBLED.substitute(types)
    if not after and "block" not in gain:
        before = f"    (void)block;\n{before}"
    fields |= {"gain": "" if gain == "1" else f" * {gain}", "low": literal(layout.weights.low)}
    return _TERMS.substitute(types, **fields, declared=declared, before=before, after=after)


def _of_images(
    model: IntegerModel, types: Mapping[str, object], tables: Tables, finish: str, outputs: str
) -> list[str]:
    """Write the C functions that read the patches of an image and evaluate all regions."""
    ends: dict[str, str] = {}
    for name, values, index in zip(("row", "column"), model.encoder.edges, ("top", "left"), strict=True):
        edge = tables.entry(f"{name}_edge", values, "{}")
        ends |= {f"{name}_edge": edge.format(index), f"next_{name}_edge": edge.format(f"{index} + 1")}
    regions = model.encoder.regions
    return [_patch(model, types), _IMAGE.substitute(types, **ends, finish=finish, regions=regions, declared=outputs)]


def _of_series(
    model: IntegerModel, series: SeriesVectors, types: Mapping[str, object], tables: Tables, finish: str, outputs: str
) -> list[str]:
    """Write the C functions that take the samples of a series, one after another or all."""
    assert series.inputs is not None
    encoder = series.encoder
    types = {**types, "channels": series.channels, "lags": len(series.lags), "length": series.length}
    fields = {
        "span": max(series.reaches) + 1,
        "reach": tables.entry("reach", series.reaches, "lag"),
        "lag": tables.entry("distance", series.lags, "lag"),
        "windows": tables.entry("windows", [edges[-1] for edges in series.edges], "lag"),
        "stride": encoder.stride,
        "segments": encoder.segments,
        "size": encoder.size,
    }
    # The window of the first sample, or each one, may be complete.
    unless = [f"state->time < {fields['reach']}"] * any(series.reaches)
    unless += [f"first % {encoder.stride} != 0"] * (encoder.stride > 1)
    skipped = f"        if ({' || '.join(unless)}) {{\n            continue;\n        }}\n" if unless else ""
    last = f"        x[{series.blocks.side - 1}] = {literal(series.constant)};\n" if encoder.constant else ""
    choice = Template(_CHOICE[model.description.decision]).substitute(types)
    push = _PUSH.substitute(
        types,
        **fields,
        declared_push=push_declaration(series, types),
        skipped=skipped,
        constant=last,
        finish=finish,
        choice=choice,
    )
    encoding = encoding_functions(series.inputs, types, tables)
    return [*encoding, push, _SERIES.substitute(types, declared_outputs=outputs)]


def _patch(model: IntegerModel, types: Mapping[str, object]) -> str:
    """Write the C function that reads the pixels of a patch, summed over squares if images are downsampled."""
    encoder = model.encoder
    height, width, channels = encoder.image_shape_
    down, padding, area = encoder.downsample, encoder.padding, encoder.downsample**2
    rows, columns = height // down, width // down
    scale = "" if down == 1 else f" * {down}"
    place = f"int_fast{max(type_width(height * width * channels), 16)}_t"
    shift = f" - {padding}" if padding else ""
    first = [f"({name}{shift}){scale}" if shift else f"{name}{scale}" for name in ("at", "beside")]
    more = [" + l", " + m"] if down > 1 else ["", ""]
    index = f"(({first[0]}{more[0]}) * {width} + {first[1]}{more[1]}) * {channels} + ({place})k"
    line = Template(_ADD).substitute(types, index=index)
    indent = " " * 16
    if down > 1:
        line = (
            f"for (l = 0; l < {down}; l++) {{\n{indent}    for (m = 0; m < {down}; m++) {{\n"
            f"{indent}        {line}{indent}    }}\n{indent}}}\n"
        )
    body = f"{indent}{line}"
    if padding:
        inside = f"at >= {padding} && at < {rows + padding} && beside >= {padding} && beside < {columns + padding}"
        inner = "".join(f"    {one}\n" for one in body.splitlines())
        body = f"{indent}if ({inside}) {{\n{inner}{indent}}}\n"
    constant = model.samples.constant
    return _PATCH.substitute(
        types,
        place=place,
        size=encoder.size,
        stride=encoder.stride,
        channels=channels,
        start=literal(-int(encoder.centre) * area),
        sum=body,
        declared=f"\n    {place} l, m;" if down > 1 else "",
        constant=f"    *x = {literal(constant)};\n" if constant else "",
        with_constant=", and a constant" if constant else "",
    )
