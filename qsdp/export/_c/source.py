"""C source of an integer model: encoding of columns, evaluation of the network, and decision."""

from __future__ import annotations

from string import Template

from qsdp.export._c.blocks import block_functions
from qsdp.export._c.rows import row_functions
from qsdp.export._c.text import Tables, column_type, template_types
from qsdp.export._integers.model import IntegerModel
from qsdp.export._integers.vectors import RowVectors

__all__ = ["c_source", "entry_points"]

_FILE = Template("""\
${head}
#include "${name}.h"

/* Where tables live: some machines have a keyword for it. */
#ifndef QSDP_TABLE
#define QSDP_TABLE static const
#endif

${tables}
${functions}""")

_DECISIONS = {
    "sign": Template("""\
${declared}
{
    ${total} output[1];

    ${name}_outputs(column, output);
    return (${class_type})(output[0] > 0);
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
    return (${class_type})best;
}
"""),
    "labels": Template("""\
${declared}
{
    ${total} output[${C}];
    ${output_counter} k;

    ${name}_outputs(column, output);
    for (k = 0; k < ${C}; k++) {
        label[k] = (uint8_t)(output[k] > 0);
    }
}
"""),
}


def entry_points(model: IntegerModel, name: str) -> list[str]:
    """Write the declarations of the public C functions, without semicolons."""
    types, columns = template_types(model, name), f"const {column_type(model)} column[{model.n_columns}]"
    found = [f"void {name}_outputs({columns}, {types['total']} output[{types['C']}])"]
    if model.description.decision == "labels":
        found.append(f"void {name}_labels({columns}, uint8_t label[{types['C']}])")
    elif model.description.decision != "none":
        found.append(f"{types['class_type']} {name}_class({columns})")
    return found


def c_source(model: IntegerModel, name: str, head: str, *, packed: bool) -> str:
    """Write the source file, with weights packed into bits or in the narrowest type; `head` is its first comment."""
    tables, types = Tables(), template_types(model, name)
    outputs, *decisions = entry_points(model, name)
    if isinstance(model.samples, RowVectors):
        functions = row_functions(model, types, tables, outputs, packed=packed)
    else:
        functions = block_functions(model, types, tables, outputs)
    decide = _DECISIONS.get(model.description.decision)
    functions += [decide.substitute(types, declared=declared) for declared in decisions if decide is not None]
    return _FILE.substitute(head=head, name=name, tables="\n".join(tables.declared), functions="\n".join(functions))
