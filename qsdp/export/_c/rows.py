"""C source of the networks of rows: neurons one after another, or quadratic forms."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from qsdp.export._c.encoding import encoding_functions
from qsdp.export._c.text import Tables, bit_readers, counter_type, literal, scaled_sum
from qsdp.export._integers.layout import NetworkLayout
from qsdp.export._integers.model import IntegerModel
from qsdp.export._integers.network import Neurons
from qsdp.export._integers.vectors import RowVectors

__all__ = ["row_functions"]

#: Project on consecutive weights of one bit each, shifted out of a byte, the most significant bit first.
_PROJECT_BITS = Template("""\
static ${projection} project(const ${x} *x, ${position} at)
{
    ${sum} sum = 0;
    uint_fast8_t byte = (uint_fast8_t)(packed[at >> 3] << (at & 7));
    ${counter} i;

    for (i = 0; i < ${n_inputs}; i++) {
        const ${sum} value = x[i];

        sum = (${sum})(byte & 128 ? sum + value : sum - value);
        byte = (uint_fast8_t)(byte << 1);
        if ((++at & 7) == 0) {
            byte = packed[at >> 3];
        }
    }
    return (${projection})(${result});
}
""")

_PROJECT = Template("""\
static ${projection} project(const ${x} *x, ${position} at)
{
    ${projection} sum = 0;
    ${counter} i;

    for (i = 0; i < ${n_inputs}; i++) {
        const ${projection} value = x[i];

        sum = (${projection})(sum + ${weight} * value);${step}
    }
    return (${projection})(${result});
}
""")

#: Evaluate neurons that share second-layer weights, output by output.
_GROUPED = Template("""\
static void evaluate(const ${x} *x, ${total} *output)
{
    ${position} at = 0;
    ${counter} j;
    ${output_counter} k;

    for (k = 0; k < ${C}; k++) {
        ${total} sum = 0;

        for (j = 0; j < ${size}; j++, at = (${position})(at + ${stride})) {
            const ${projection} left = project(x, at);

            sum = (${total})(sum + ${product});
        }
        output[k] = (${total})(${result});
    }
}
""")

#: Evaluate neurons with second-layer weights of their own.
_FREE = Template("""\
static void evaluate(const ${x} *x, ${total} *output)
{
    ${position} at = 0;
    ${counter} j;
    ${output_counter} k;
    ${weight_counter} weight = 0;

    for (k = 0; k < ${C}; k++) {
        output[k] = ${bias};
    }
    for (j = 0; j < ${m}; j++, at = (${position})(at + ${stride})) {
        const ${projection} left = project(x, at);
        const ${total} product = (${total})(${product});

        for (k = 0; k < ${C}; k++, weight++) {
            output[k] = (${total})(output[k] + product * ${alpha});
        }
    }
}
""")

_FORM = Template("""\
static void evaluate(const ${x} *x, ${total} *output)
{
    ${projection} z[${size}];
    ${position} at = 0;
    ${counter} i, l;
    ${output_counter} k;

    for (i = 0; i < ${n_inputs}; i++) {
        z[i] = (${projection})(${scaled});
    }
${last}\
    for (k = 0; k < ${C}; k++) {
        ${total} sum = 0;

        for (i = 0; i < ${size}; i++) {
            const ${total} diagonal = (${total})((${entry}) * z[i]);
            ${total} row = 0;

            at = (${position})(at + ${step});
            for (l = (${counter})(i + 1); l < ${size}; l++) {
                row = (${total})(row + (${entry}) * z[l]);
                at = (${position})(at + ${step});
            }
            sum = (${total})(sum + (2 * row + diagonal) * z[i]);
        }
        output[k] = (${total})(${result});
    }
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


def row_functions(
    model: IntegerModel, types: Mapping[str, object], tables: Tables, outputs: str, *, packed: bool
) -> list[str]:
    """Write the C functions up to that of the outputs, of this declaration, and declare their tables."""
    layout, rows, neurons = model.layout, model.samples, model.network.neurons
    assert isinstance(rows, RowVectors)
    N = rows.blocks.side
    counted = N if neurons is None else max(N, len(neurons.left))
    types = {
        **types,
        "position": counter_type(layout.size),
        "counter": counter_type(max(rows.n_columns, counted)),
        "n_inputs": rows.n_inputs,
    }
    functions = []
    if packed:
        shifted = _is_shifted(layout)
        # Single bits that end with a byte read the next one.
        spare = int(layout.numbers.size % 8 == 0) if shifted else None
        single = (layout.n_bits == 1 or len(layout.parts) > 1) and not shifted
        functions += bit_readers(layout, types, tables, single=single, spare=spare)
    else:
        tables.add("weights", layout.numbers.ravel().tolist())
    if layout.name == "form" or neurons is None:
        functions.append(_form(model, rows, types, tables, packed))
    else:
        functions += _neurons(model, rows, neurons, types, tables, packed)
    if rows.inputs is None:
        return [*functions, f"{outputs}\n{{\n    evaluate(column, output);\n}}\n"]
    encoding = encoding_functions(rows.inputs, types, tables)
    return [*functions, *encoding, _OUTPUTS.substitute(types, declared=outputs)]


def _neurons(
    model: IntegerModel, rows: RowVectors, neurons: Neurons, types: Mapping[str, object], tables: Tables, packed: bool
) -> list[str]:
    """Write the C functions that evaluate neurons one after another."""
    layout, total = model.layout, str(types["total"])
    side = (layout.n_bits if packed else 1) * rows.n_inputs + (len(layout.parts) > 1)
    product = f"({total})left * "
    product += "left" if neurons.is_square else f"project(x, ({types['position']})(at + {side}))"
    fields = {"product": product, "stride": side if neurons.is_square else 2 * side}
    project = _projection(layout, rows, types, packed)
    if neurons.sizes is not None:
        size = tables.entry("size", neurons.sizes.tolist(), "k")
        return [project, _GROUPED.substitute(types, **fields, size=size, result=_result(model, types, tables))]
    weights = neurons.weights
    return [
        project,
        _FREE.substitute(
            types,
            **fields,
            m=len(weights),
            alpha=tables.entry("alpha", weights.ravel().tolist(), "weight", total),
            weight_counter=counter_type(weights.size),
            bias=tables.entry("bias", model.network.bias, "k", total),
        ),
    ]


def _projection(layout: NetworkLayout, rows: RowVectors, types: Mapping[str, object], packed: bool) -> str:
    """Write the C function of a projection, with weights packed into bits or in a table of integers."""
    constant, projection, weights = rows.constant, types["projection"], layout.weights
    positive, negative = literal(constant), literal(-constant)
    step, bit = "", f"({'byte & 128' if _is_shifted(layout) else 'bit(at)'} ? {positive} : {negative})"
    if not packed:
        # Index the table: a pointer to it would have to name its kind of memory.
        weight, bit = f"({projection})weights[at + i]", f"({projection}){positive} * weights[at + {rows.n_inputs}]"
    else:
        number = f"{weights.step} * number(at)" if weights.step > 1 else "number(at)"
        step = f"\n        at = ({types['position']})(at + {layout.n_bits});"
        weight = f"(({projection})({number}) + {literal(weights.low)})"
    result = f"sum * {rows.gain}" if rows.gain > 1 else "sum"
    if constant:
        result += f" + {bit if len(layout.parts) > 1 else positive}"
    if packed and _is_shifted(layout):
        # A single sum, not a vector, may be as wide as suits the machine.
        return _PROJECT_BITS.substitute(types, sum=f"int_fast{layout.projection_width}_t", result=result)
    return _PROJECT.substitute(types, step=step, weight=weight, result=result)


def _is_shifted(layout: NetworkLayout) -> bool:
    """Whether weights are single bits that are shifted out of bytes one after another."""
    return layout.name == "neurons" and layout.n_bits == 1


def _form(model: IntegerModel, rows: RowVectors, types: Mapping[str, object], tables: Tables, packed: bool) -> str:
    """Write the C function that evaluates quadratic forms."""
    layout, total = model.layout, types["total"]
    number = "bit(at)" if layout.n_bits == 1 else "number(at)"
    return _FORM.substitute(
        types,
        size=rows.blocks.side,
        scaled=f"({types['projection']})x[i] * {rows.gain}" if rows.gain > 1 else "x[i]",
        last=f"    z[{rows.n_inputs}] = {literal(rows.constant)};\n" if rows.constant else "",
        entry=f"({total}){number} + {literal(layout.weights.low)}" if packed else f"({total})weights[at]",
        step=layout.n_bits if packed else 1,
        result=_result(model, types, tables),
    )


def _result(model: IntegerModel, types: Mapping[str, object], tables: Tables) -> str:
    """Write output k as an expression of the sum over its neurons, times their common factor, plus a bias."""
    network = model.network
    return scaled_sum("sum", "k", network.factors.tolist(), network.bias, tables, str(types["total"]))
