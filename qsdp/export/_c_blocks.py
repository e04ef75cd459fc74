"""C source of networks on image patches: sums of products of pixels by region, then neurons or quadratic forms."""

from __future__ import annotations

from string import Template

from qsdp.export import _c_templates as templates
from qsdp.export._block_model import BlockModel
from qsdp.export._c_text import Tables, class_type, counter_type, literal, signed, unsigned_literal
from qsdp.export._layout import type_width

__all__ = ["block_functions"]

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

_ADD = "value = (${x})(value + image[${index}]);\n"

_PRODUCTS = Template("""\
/* Sums of products over the patches of a region, of the upper triangle row by row. */
static void products(const uint8_t *image, ${counter} region, ${projection} *sum)
{
    const ${counter} top = region / ${regions}, left = region % ${regions};
    ${x} x[${side}];
    ${counter} row, column, i, j;
    ${projection} *entry = sum;

    for (i = 0; i < ${entries}; i++) {
        sum[i] = 0;
    }
    for (row = ${row_edge}; row < ${next_row_edge}; row++) {
        for (column = ${column_edge}; column < ${next_column_edge}; column++) {
            patch(image, row, column, x);
            entry = sum;
            for (i = 0; i < ${side}; i++) {
                for (j = i; j < ${side}; j++, entry++) {
                    *entry = (${projection})(*entry + (${projection})x[i] * x[j]);
                }
            }
        }
    }
${doubled}}
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

_EVALUATE = Template("""\
static void evaluate(const uint8_t *image, ${total} *output)
{
    ${projection} sum[${entries}];
    ${position} at = 0;
    ${counter} region, i;
    ${output_counter} k;${declared}

    for (k = 0; k < ${C}; k++) {
        output[k] = 0;
    }
    for (region = 0; region < ${blocks}; region++) {
        products(image, region, sum);
        for (k = 0; k < ${C}; k++) {
${body}        }
    }
${finish}}
""")

_TERM = Template("""\
            for (i = 0; i < ${count}; i++, at = (${position})(at + ${step})) {
                const ${total} weight = (${total})${number} + ${low};

                output[k] = (${total})(output[k] + weight * ${value});
            }
""")

_FINISH = Template("""\
    for (k = 0; k < ${C}; k++) {
        output[k] = (${total})(${result});
    }
""")


def block_functions(model: BlockModel, tables: Tables) -> list[str]:
    """Write the C functions that evaluate a network on patches, and declare their tables."""
    layout, network, encoder = model.layout, model.network, model.encoder
    types = _types(model)
    width = (layout.n_bits + 14) // 8
    tables.add("packed", [*layout.table.tolist(), *[0] * (width - 1)])
    functions = []
    if layout.name == "neurons" or layout.n_bits == 1:
        functions.append(templates.BIT.substitute(types))
    if layout.n_bits > 1:
        kind = next(bits for bits in (16, 32, 64) if 8 * width <= bits)
        mask, spare = unsigned_literal(2**layout.n_bits - 1), 8 * width - layout.n_bits
        functions.append(
            templates.NUMBER.substitute(types, number=f"uint{kind}_t", n_bytes=width, spare=spare, mask=mask)
        )
    functions.append(_patch(model, types))
    ends: dict[str, str] = {}
    for name, values, index in zip(("row", "column"), encoder.edges, ("top", "left"), strict=True):
        edge = tables.entry(f"{name}_edge", values, "{}")
        ends |= {f"{name}_edge": edge.format(index), f"next_{name}_edge": edge.format(f"{index} + 1")}
    doubled = _DOUBLED.substitute(types) if layout.name == "form" else ""
    functions.append(_PRODUCTS.substitute(types, **ends, doubled=doubled))
    number, declared = ("bit" if layout.n_bits == 1 else "number"), ""
    if layout.name == "neurons":
        functions.append(_NEURON.substitute(types))
        signs = 2 * encoder.layout_.side
        step = signs + layout.n_bits
        count = tables.entry("count", layout.counts.tolist(), "group")
        value, number = "neuron(sum, at)", f"{number}(({types['position']})(at + {signs}))"
        if count.startswith("count["):
            declared = f"\n    {counter_type(layout.counts.size)} group = 0;"
    else:
        count, step, value, number = str(types["entries"]), layout.n_bits, "sum[i]", f"{number}(at)"
    body = _TERM.substitute(types, count=count, step=step, value=value, number=number, low=literal(layout.low))
    if declared:
        body += "            group++;\n"
    result = _result(network.factors.tolist(), network.bias, tables, str(types["total"]))
    finish = "" if result == "output[k]" else _FINISH.substitute(types, result=result)
    functions.append(_EVALUATE.substitute(types, declared=declared, body=body, finish=finish))
    return functions


def _types(model: BlockModel) -> dict[str, object]:
    encoder, layout = model.encoder, model.layout
    side, area = encoder.layout_.side, encoder.downsample**2
    centre = abs(int(encoder.centre)) * area
    largest = max(255 * area + centre, int(encoder.constant_) * area)
    counts = [*encoder.image_shape_[:2], side * (side + 1) // 2, encoder.layout_.n_blocks, encoder.size * 2]
    return {
        "x": signed(max(type_width(largest), 16)),
        "projection": signed(layout.projection_width),
        "total": signed(layout.sum_width),
        "position": counter_type(8 * layout.table.size + 64),
        "counter": counter_type(max(*counts, int(layout.counts.max(initial=0)), 2 * max(encoder.image_shape_))),
        "output_counter": counter_type(model.network.n_outputs),
        "class_type": class_type(model.network.n_outputs),
        "C": model.network.n_outputs,
        "side": side,
        "entries": side * (side + 1) // 2,
        "blocks": encoder.layout_.n_blocks,
        "regions": encoder.regions,
    }


def _patch(model: BlockModel, types: dict[str, object]) -> str:
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
    constant = int(encoder.constant_) * area
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


def _result(factors: list[int], bias: tuple[int, ...], tables: Tables, total: str) -> str:
    """Write output k as an expression of its sum: times a factor, plus a bias."""
    factor = tables.entry("factor", factors, "k", total)
    added = tables.entry("bias", bias, "k", total)
    result = "output[k]" if factor == "1" else f"output[k] * {factor}"
    return result if added == "0" else f"{result} + {added}"
