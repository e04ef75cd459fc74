"""C source of an integer model: encoding of columns, evaluation of the network, and decision."""

from __future__ import annotations

from qsdp.export import _c_templates as templates
from qsdp.export._block_model import BlockModel
from qsdp.export._c_blocks import block_functions
from qsdp.export._c_encoding import encoding_functions
from qsdp.export._c_text import (
    Tables,
    bit_readers,
    class_type,
    column_type,
    counter_type,
    literal,
    output_type,
    scaled_sum,
    signed,
)
from qsdp.export._integer_model import IntegerModel
from qsdp.export._layout import NetworkLayout, type_width

__all__ = ["c_source", "entry_points"]


def entry_points(model: IntegerModel | BlockModel, name: str) -> list[str]:
    """Write the declarations of the public C functions, without semicolons."""
    columns = f"const {column_type(model)} column[{model.n_columns}]"
    C = model.network.n_outputs
    found = [f"void {name}_outputs({columns}, {output_type(model)} output[{C}])"]
    if model.description.decision == "labels":
        found.append(f"void {name}_labels({columns}, uint8_t label[{C}])")
    elif model.description.decision != "none":
        found.append(f"{class_type(C)} {name}_class({columns})")
    return found


def c_source(model: IntegerModel | BlockModel, name: str, head: str, *, packed: bool) -> str:
    """Write the source file, with weights packed into bits or in the narrowest type; `head` is its first comment."""
    tables = Tables()
    outputs, *decisions = entry_points(model, name)
    if isinstance(model, BlockModel):
        functions = block_functions(model, name, tables, outputs)
    else:
        types = _types(model)
        functions = _network(model, types, tables, packed)
        if model.inputs is None:
            functions.append(f"{outputs}\n{{\n    evaluate(column, output);\n}}\n")
        else:
            functions += encoding_functions(model.inputs, types, tables, f"{name.upper()}_MISSING")
            functions.append(templates.OUTPUTS.substitute(types, declared=outputs))
    C = model.network.n_outputs
    decided = {"total": output_type(model), "output_counter": counter_type(C), "class_type": class_type(C), "C": C}
    functions += [
        templates.DECISIONS[model.description.decision].substitute(decided, name=name, declared=declared)
        for declared in decisions
    ]
    return templates.FILE.substitute(
        head=head, name=name, tables="\n".join(tables.declared), functions="\n".join(functions)
    )


def _network(model: IntegerModel, types: dict[str, object], tables: Tables, packed: bool) -> list[str]:
    """Write the C functions that evaluate a network at integer inputs."""
    functions = []
    if packed:
        layout, shifted = model.layout, _is_shifted(model.layout)
        # Single bits that end with a byte read the next one.
        spare = int(layout.numbers.size % 8 == 0) if shifted else None
        single = (layout.n_bits == 1 or bool(layout.signs)) and not shifted
        functions += bit_readers(layout, types, tables, single=single, spare=spare)
    else:
        tables.add("weights", model.layout.numbers.ravel().tolist())
    evaluation = _form if model.layout.name == "form" else _neurons
    return functions + evaluation(model, types, tables, packed)


def _types(model: IntegerModel) -> dict[str, object]:
    """Return the types and sizes that are fields of all templates."""
    network, layout, n = model.network, model.layout, model.description.n_columns
    x = column_type(model) if model.inputs is None else signed(type_width(max(int(model.inputs.largest.max()), 1)))
    column = column_type(model)
    return {
        "x": x,
        "column": column,
        "projection": signed(layout.projection_width),
        "total": signed(layout.sum_width),
        "position": counter_type(layout.size),
        "counter": counter_type(max(n, len(network.left), network.left.shape[1])),
        "output_counter": counter_type(network.n_outputs),
        "class_type": class_type(network.n_outputs),
        "n_inputs": network.n_inputs,
        "m": len(network.left),
        "C": network.n_outputs,
    }


def _neurons(model: IntegerModel, types: dict[str, object], tables: Tables, packed: bool) -> list[str]:
    """Write the C functions that evaluate neurons one after another."""
    network, layout = model.network, model.layout
    project = (_packed_projection if packed else _plain_projection)(model, types)
    side = (layout.n_bits if packed else 1) * network.n_inputs + layout.signs
    product = f"({types['total']})left * " + (
        "left" if network.is_square else f"project(x, ({types['position']})(at + {side}))"
    )
    types = {**types, "stride": side if network.is_square else 2 * side}
    if network.sizes is None:
        return [
            project,
            templates.FREE.substitute(
                types,
                product=product,
                alpha=tables.entry("alpha", network.alpha.ravel().tolist(), "weight", str(types["total"])),
                weight_counter=counter_type(network.alpha.size),
                bias=tables.entry("bias", network.bias, "k", str(types["total"])),
            ),
        ]
    size, result = tables.entry("size", network.sizes.tolist(), "k"), _scaled_sum(model, tables)
    return [project, templates.GROUPED.substitute(types, product=product, size=size, result=result)]


def _packed_projection(model: IntegerModel, types: dict[str, object]) -> str:
    """Write the C function of a projection with packed weights."""
    layout, kappa = model.layout, model.network.kappa
    if _is_shifted(layout):
        last = f"(byte & 128 ? {literal(kappa)} : {literal(-kappa)})"
        # A single sum, not a vector, may be as wide as suits the machine.
        fast = f"int_fast{layout.projection_width}_t"
        return templates.PROJECT_BITS.substitute(types, sum=fast, result=_projection(model, last))
    number = f"{layout.step} * number(at)" if layout.step > 1 else "number(at)"
    return templates.PROJECT.substitute(
        types,
        step=f"\n        at = ({types['position']})(at + {layout.n_bits});",
        weight=f"(({types['projection']})({number}) + {literal(layout.low)})",
        result=_projection(model, f"(bit(at) ? {literal(kappa)} : {literal(-kappa)})"),
    )


def _plain_projection(model: IntegerModel, types: dict[str, object]) -> str:
    """Write the C function of a projection with weights in a table of integers."""
    # Index the table: a pointer to it would have to name its kind of memory.
    last = f"({types['projection']}){literal(model.network.kappa)} * weights[at + {model.network.n_inputs}]"
    return templates.PROJECT.substitute(
        types,
        step="",
        weight=f"({types['projection']})weights[at + i]",
        result=_projection(model, last),
    )


def _is_shifted(layout: NetworkLayout) -> bool:
    """Whether weights are single bits that are shifted out of bytes one after another."""
    return layout.name == "neurons" and layout.n_bits == 1


def _projection(model: IntegerModel, signed_kappa: str) -> str:
    network = model.network
    result = f"sum * {network.gain}" if network.gain > 1 else "sum"
    return f"{result} + {signed_kappa if model.layout.signs else literal(network.kappa)}" if network.kappa else result


def _scaled_sum(model: IntegerModel, tables: Tables) -> str:
    """Write output k as an expression of the sum over its neurons, times their common factor, plus a bias."""
    return scaled_sum("sum", "k", model.network.factors.tolist(), model.network.bias, tables, output_type(model))


def _form(model: IntegerModel, types: dict[str, object], tables: Tables, packed: bool) -> list[str]:
    """Write the C function that evaluates quadratic forms."""
    network, layout = model.network, model.layout
    number = "bit(at)" if layout.n_bits == 1 else "number(at)"
    entry = f"({types['total']}){number} + {literal(layout.low)}" if packed else f"({types['total']})weights[at]"
    scaled = f"({types['projection']})x[i] * {network.gain}" if network.gain > 1 else "x[i]"
    return [
        templates.FORM.substitute(
            types,
            size=network.left.shape[1],
            scaled=scaled,
            last=f"    z[{network.n_inputs}] = {literal(network.kappa)};\n" if network.kappa else "",
            entry=entry,
            step=layout.n_bits if packed else 1,
            result=_scaled_sum(model, tables),
        )
    ]
