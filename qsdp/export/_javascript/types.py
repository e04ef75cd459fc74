"""TypeScript declarations of an exported JavaScript module."""

from __future__ import annotations

import json
from collections.abc import Sequence
from string import Template

from qsdp.encoding import InputColumn
from qsdp.encoding.notation import BOOLEAN, DATES
from qsdp.export._description import ModelDescription
from qsdp.export._javascript.data import unit_of

__all__ = ["declarations"]

_COLUMNS = """\
/** A column of the table that the model takes. */
export interface Column {
  readonly name: string;
  readonly type: "number" | "date" | "boolean" | "category";
  /** Unit of its numbers, where it is not that of the training table's plain numbers. */
  readonly unit: string | null;
  /** Whether a row must have it. */
  readonly required: boolean;
  /** Whether null, for a missing entry, is allowed. */
  readonly nullable: boolean;
  readonly categories: readonly (string | number | boolean | null)[] | null;
  /** Smallest and largest number in training, or the limits beyond which the model tells none apart. */
  readonly range: readonly [number, number] | null;
}
export declare const columns: readonly Column[];

export interface Options {
  /** "ignore" lets an unknown category be none of the known ones; by default it is an error. */
  readonly unknown?: "error" | "ignore";
}
"""

_SHAPE = """\
/** Height, width and channels of an image. */
export declare const shape: readonly [$shape];

export type Options = Record<string, never>;
"""

_IMAGES = """\
/** Pixels of an image by rows, columns and channels. */
export type Row = readonly Pixels[] | readonly (readonly Pixels[])[];
export type Pixels = readonly number[] | Uint8Array | Float64Array;
/** All pixels, row by row. */
export type Entries = Pixels;

"""

_FUNCTIONS = {
    "classes": """
/** Labels, in the order of probabilities and scores. */
export declare const classes: readonly [$classes];
""",
    "predict": """
/** Predicts for a row, or throws an error that names the column at fault. */
export declare function predict(row: Row | Entries, options?: Options): $prediction;
""",
    "scores": """
/** Scores, of which the class is the largest; or one score, > 0 for the second class. */
export declare function scores(row: Row | Entries, options?: Options): $score;
""",
    "predictProba": """
/** Probabilities in the order of classes. */
export declare function predictProba(row: Row | Entries, options?: Options): number[];
""",
    "contributions": """
/** Contributions to an output: the constant and the values of all terms add up to its score or prediction. */
export interface Explanation {
  readonly output: string;
  readonly constant: number;
  /** $terms */
  readonly terms: readonly { readonly $term; readonly value: number }[];
}
export declare function contributions(row: Row | Entries, options?: Options): Explanation[];
""",
}


def declarations(description: ModelDescription, exports: Sequence[str]) -> str:
    """Write the TypeScript declarations of the names that a module exports."""
    encoding, several = description.encoding, bool(description.network.output_shape)
    if description.blocks is not None:
        row, entries = "", _IMAGES
    elif encoding is None:
        row = "/** Inputs of the network, in order. */\nexport type Row = readonly number[];\n"
        entries = "export type Entries = Float64Array;\n\n"
    else:
        used = encoding.used
        lines = "".join(_field(column, place in used) for place, column in enumerate(encoding.columns))
        row = f"/** A row of the table; other names are ignored. */\nexport interface Row {{\n{lines}}}\n"
        entries = (
            "/** The entries of a row in the order of columns. */\n"
            "export type Entries = readonly (number | boolean | string | null)[];\n\n"
        )
    labels = [_literal(label) for label in description.classes]
    if description.decision == "labels":
        prediction, score = "(0 | 1)[]", "number[]"
    else:
        number = "number[]" if several else "number"
        prediction = " | ".join(labels) or number
        score = "number" if len(labels) == 2 else number
    meaning = {"classes": ", ".join(labels), "prediction": prediction, "score": score}
    if description.blocks is None:
        inputs = _COLUMNS
        meaning |= {
            "term": "columns: readonly string[]",
            "terms": "Terms of one column each, then of pairs.",
        }
    else:
        inputs = Template(_SHAPE).substitute(shape=", ".join(map(str, description.blocks.image_shape_)))
        meaning |= {"term": "region: readonly [number, number]", "terms": "Terms of the regions, by row and column."}
    text = "// Types of a quantized network, made by qsdp.\n\n" + row + entries + inputs
    for name, declaration in _FUNCTIONS.items():
        if name in exports:
            text += Template(declaration).substitute(meaning)
    return text


def _field(column: InputColumn, used: bool) -> str:
    missing = " | null" if column.fill is not None else ""
    if column.categories is not None:
        truth = ["boolean"] if column.notation == BOOLEAN else []
        kinds = " | ".join([_literal(one) for one in column.categories if one is None or not truth] + truth)
    else:
        kinds = "number | boolean" + (" | string" if column.notation in DATES else "") + missing
    about = ""
    if (unit := unit_of(column)) is not None:
        date = ", or an ISO date" if column.notation in DATES else ""
        about = f"  /** {unit[0].upper()}{unit[1:]}{date}. */\n"
    return f"{about}  readonly {json.dumps(column.name)}{'' if used else '?'}: {kinds};\n"


def _literal(value: object) -> str:
    return json.dumps(value)
