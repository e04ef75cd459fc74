"""The C source of a model in integers: encoding of columns, evaluation, class."""

from __future__ import annotations

from string import Template

from qsdp.export._c_text import Tables, counter_type, literal, signed
from qsdp.export._fixed_point import Bits, Numbers
from qsdp.export._integer_model import Inputs, IntegerModel
from qsdp.export._layout import type_width

__all__ = ["entry_points", "input_type", "output_type", "source_text"]

_FILE = Template("""\
${head}
#include "${name}.h"

/* Where tables live: some machines have a keyword for it. */
#ifndef TABLE
#define TABLE static const
#endif

${tables}
${functions}""")

_BIT = Template("""\
static uint8_t bit(${position} *position)
{
    const ${position} at = (*position)++;

    return packed[at >> 3] >> (7 - (at & 7)) & 1;
}
""")

_NEXT = Template("""\
static ${number} next(${position} *position)
{
    ${number} number = 0;
    uint8_t i;

    for (i = 0; i < ${n_bits}; i++) {
        number = (${number})(number << 1 | bit(position));
    }
    return number;
}
""")

_PROJECT = Template("""\
static ${projection} project(const ${x} *x, ${position} *position)
{
    ${projection} sum = 0;
    ${counter} i;

    for (i = 0; i < ${n_inputs}; i++) {
        const ${projection} value = x[i];

        ${add}
    }
    return ${result};
}
""")

#: Of neurons that share a second-layer weight, for one output.
_SHARED = Template("""\
static void evaluate(const ${x} *x, ${total} *output)
{
    ${position} position = 0;
    ${counter} j;
    ${total} sum = 0;

    for (j = 0; j < ${m}; j++) {
        const ${total} left = project(x, &position);

        sum += ${product};
    }
    output[0] = ${result};
}
""")

#: Of neurons that share second-layer weights, output by output.
_GROUPED = Template("""\
static void evaluate(const ${x} *x, ${total} *output)
{
    ${position} position = 0;
    ${counter} j;
    ${output_counter} k;

    for (k = 0; k < ${C}; k++) {
        ${total} sum = 0;

        for (j = 0; j < ${size}; j++) {
            const ${total} left = project(x, &position);

            sum += ${product};
        }
        output[k] = sum * ${factor} + ${bias};
    }
}
""")

#: Of neurons with second-layer weights of their own.
_FREE = Template("""\
static void evaluate(const ${x} *x, ${total} *output)
{
    ${position} position = 0;
    ${counter} j;
    ${output_counter} k;
    ${weight_counter} at = 0;

    for (k = 0; k < ${C}; k++) {
        output[k] = ${bias};
    }
    for (j = 0; j < ${m}; j++) {
        const ${total} left = project(x, &position);
        const ${total} product = ${product};

        for (k = 0; k < ${C}; k++, at++) {
            output[k] += product * ${alpha};
        }
    }
}
""")

_FORM = Template("""\
static void evaluate(const ${x} *x, ${total} *output)
{
    ${projection} z[${size}];
    ${position} position = 0;
    ${counter} i, l;
    ${output_counter} k;

    for (i = 0; i < ${n_inputs}; i++) {
        z[i] = ${scaled};
    }
${last}\
    for (k = 0; k < ${C}; k++) {
        ${total} sum = ${bias};

        for (i = 0; i < ${size}; i++) {
            const ${total} diagonal = (${entry}) * z[i];
            ${total} row = 0;

            for (l = i + 1; l < ${size}; l++) {
                row += (${entry}) * z[l];
            }
            sum += (2 * row + diagonal) * z[i];
        }
        output[k] = sum;
    }
}
""")

_FILLED = Template("""\
static int32_t filled(const int32_t *column, ${counter} i)
{
    return column[i] == ${missing} ? ${fill} : column[i];
}
""")

_ENCODE = Template("""\
static void encode(const int32_t *column, ${x} *x)
{
    ${counter} i;

${body}}
""")

_NUMBERS = Template("""\
    for (i = 0; i < ${n}; i++) {
        const int32_t value = ${read}, least = ${low};
        uint32_t above = value < least ? 0 : (uint32_t)value - (uint32_t)least;

        if (above > ${width}) {
            above = ${width};
        }
        above = (above * ${slope} + ((uint32_t)1 << ${shift} >> 1)) >> ${shift};
        *x++ = (${x})((int32_t)above + ${start});
    }
""")

_BITS = Template("""\
    for (i = 0; i < ${n}; i++) {
        *x++ = ${test} ? ${on} : ${off};
    }
""")

_OUTPUTS = Template("""\
${declared}
{
    ${x} x[${n_inputs}];

    encode(column, x);
    evaluate(x, output);
}
""")

_DECISIONS = {
    "sign": Template("""\
${declared}
{
    ${total} output[1];

    ${name}_outputs(column, output);
    return output[0] > 0;
}
"""),
    "argmax": Template("""\
${declared}
{
    ${total} output[${C}];
    ${output_counter} k, best = 0;

    ${name}_outputs(column, output);
    for (k = 1; k < ${C}; k++) {
        if (output[k] > output[best]) {
            best = k;
        }
    }
    return best;
}
"""),
    "labels": Template("""\
${declared}
{
    ${total} output[${C}];
    ${output_counter} k;

    ${name}_outputs(column, output);
    for (k = 0; k < ${C}; k++) {
        label[k] = output[k] > 0;
    }
}
"""),
}


def input_type(model: IntegerModel) -> str:
    """Return the type of the columns."""
    low, high = model.input_range
    return signed(type_width(max(-low - 1, high, 1)))


def output_type(model: IntegerModel) -> str:
    """Return the type of the outputs."""
    return signed(model.layout.sum_width)


def entry_points(model: IntegerModel, name: str) -> list[str]:
    """Return the declarations of the functions, without semicolons."""
    columns = f"const {input_type(model)} column[{model.description.n_columns}]"
    C = model.network.n_outputs
    found = [f"void {name}_outputs({columns}, {output_type(model)} output[{C}])"]
    if model.description.decision == "labels":
        found.append(f"void {name}_labels({columns}, uint8_t label[{C}])")
    elif model.description.decision != "none":
        found.append(f"{counter_type(C)} {name}_class({columns})")
    return found


def source_text(model: IntegerModel, name: str, head: str) -> str:
    """Return the source file below a comment."""
    tables, types, missing = Tables(), _types(model), f"{name.upper()}_MISSING"
    outputs, *decisions = entry_points(model, name)
    tables.add("packed", model.layout.table.tolist())
    functions = [_BIT.substitute(types)]
    if model.layout.n_bits > 1:
        number = f"uint{next(width for width in (16, 32, 64) if model.layout.n_bits <= width)}_t"
        functions.append(_NEXT.substitute(types, number=number, n_bits=model.layout.n_bits))
    functions += _form(model, types, tables) if model.layout.name == "form" else _neurons(model, types, tables)
    if model.inputs is None:
        functions.append(f"{outputs}\n{{\n    evaluate(column, output);\n}}\n")
    else:
        functions += _encoding(model, model.inputs, types, tables, missing)
        functions.append(_OUTPUTS.substitute(types, declared=outputs))
    decision = model.description.decision
    functions += [_DECISIONS[decision].substitute(types, name=name, declared=declared) for declared in decisions]
    return _FILE.substitute(head=head, name=name, tables="\n".join(tables.declared), functions="\n".join(functions))


def _types(model: IntegerModel) -> dict[str, object]:
    """Return the types and sizes that the templates share."""
    network, layout, n = model.network, model.layout, model.description.n_columns
    x = input_type(model) if model.inputs is None else signed(type_width(max(int(model.inputs.largest.max()), 1)))
    return {
        "x": x,
        "projection": signed(layout.projection_width),
        "total": signed(layout.sum_width),
        "position": counter_type(8 * layout.table.size),
        "counter": counter_type(max(n, len(network.left), network.left.shape[1])),
        "output_counter": counter_type(network.n_outputs),
        "n_inputs": network.n_inputs,
        "m": len(network.left),
        "C": network.n_outputs,
    }


def _neurons(model: IntegerModel, types: dict[str, object], tables: Tables) -> list[str]:
    """Return the functions that evaluate neurons one after another."""
    network, layout = model.network, model.layout
    if layout.n_bits == 1:
        add = "sum += bit(position) ? value : -value;"
    else:
        weight = f"{layout.step} * next(position)" if layout.step > 1 else "next(position)"
        add = f"sum += (({types['projection']})({weight}) + {literal(layout.low)}) * value;"
    result = f"sum * {network.gain}" if network.gain > 1 else "sum"
    if layout.signs:
        result += f" + (bit(position) ? {literal(network.kappa)} : {literal(-network.kappa)})"
    elif network.kappa:
        result += f" + {literal(network.kappa)}"
    project = _PROJECT.substitute(types, add=add, result=result)
    product = "left * left" if network.is_square else "left * project(x, &position)"
    if network.sizes is None:
        return [
            project,
            _FREE.substitute(
                types,
                product=product,
                alpha=tables.entry("alpha", network.alpha.ravel().tolist(), "at"),
                weight_counter=counter_type(network.alpha.size),
                bias=tables.entry("bias", network.bias, "k"),
            ),
        ]
    # Rows of neurons of output k are equal, and zero but for that output.
    factors = network.alpha.sum(axis=0) // network.sizes.clip(1)
    if network.n_outputs == 1:
        total = "sum" if factors[0] == 1 else f"sum * {literal(int(factors[0]))}"
        shown = f"{total} + {literal(network.bias[0])}" if network.bias[0] else total
        return [project, _SHARED.substitute(types, product=product, result=shown)]
    return [
        project,
        _GROUPED.substitute(
            types,
            product=product,
            size=tables.entry("size", network.sizes.tolist(), "k"),
            factor=tables.entry("factor", factors.tolist(), "k"),
            bias=tables.entry("bias", network.bias, "k"),
        ),
    ]


def _form(model: IntegerModel, types: dict[str, object], tables: Tables) -> list[str]:
    """Return the function that evaluates quadratic forms."""
    network, layout = model.network, model.layout
    source = "bit(&position)" if layout.n_bits == 1 else "next(&position)"
    scaled = f"({types['projection']})x[i] * {network.gain}" if network.gain > 1 else "x[i]"
    return [
        _FORM.substitute(
            types,
            size=network.left.shape[1],
            scaled=scaled,
            last=f"    z[{network.n_inputs}] = {literal(network.kappa)};\n" if network.kappa else "",
            entry=f"({types['total']}){source} + {literal(layout.low)}",
            bias=tables.entry("bias", network.bias, "k"),
        )
    ]


def _encoding(model: IntegerModel, inputs: Inputs, types: dict[str, object], tables: Tables, missing: str) -> list[str]:
    """Return the functions from columns to inputs."""
    functions, body, filled = [], "", inputs.fills is not None
    if inputs.fills is not None:
        fill = tables.entry("fill", inputs.fills.tolist(), "i")
        functions.append(_FILLED.substitute(types, missing=missing, fill=fill))
    if len(inputs.numbers.column):
        body += _numbers(inputs.numbers, types, tables, filled)
    for one in inputs.bits:
        body += _bits(one, tables, filled, missing)
    if inputs.constant is not None:
        body += f"    *x = {literal(inputs.constant)};\n"
    counted = "for (" in body
    encode = _ENCODE.substitute(types, body=body)
    functions.append(encode if counted else encode.replace(f"    {types['counter']} i;\n\n", ""))
    return functions


def _read(column: str, filled: bool) -> str:
    return f"filled(column, {column})" if filled else f"column[{column}]"


def _numbers(numbers: Numbers, types: dict[str, object], tables: Tables, filled: bool) -> str:
    names = ("low", "width", "slope", "shift", "start")
    entries = {name: tables.entry(name, getattr(numbers, name).tolist(), "i") for name in names}
    column = tables.entry("number_column", numbers.column.tolist(), "i")
    return _NUMBERS.substitute(types, n=len(numbers.column), read=_read(column, filled), **entries)


def _bits(bits: Bits, tables: Tables, filled: bool, missing: str) -> str:
    column = tables.entry(f"{bits.kind}_column", bits.column.tolist(), "i")
    on, off = (tables.entry(f"{bits.kind}_{end}", getattr(bits, end).tolist(), "i") for end in ("on", "off"))
    if bits.kind == "missing":
        test = f"column[{column}] == {missing}"
    elif bits.kind == "equals":
        test = f"column[{column}] == {tables.entry('equals_value', bits.value.tolist(), 'i')}"
    else:
        test = f"{_read(column, filled)} > {tables.entry('above_value', bits.value.tolist(), 'i')}"
    return _BITS.substitute(n=len(bits.column), test=test, on=on, off=off)
