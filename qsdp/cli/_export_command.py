"""`qsdp export`: write a saved model in another format."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Annotated

import typer

from qsdp._utils.atomic_files import write_together
from qsdp._utils.validation import check_choice
from qsdp.cli._flags import Force
from qsdp.cli._reports import print_facts
from qsdp.cli._streams import destination, stage
from qsdp.exceptions import InvalidInputError
from qsdp.export import FORMATS


def export(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model that `qsdp fit` saved, or a file of a network.")
    ],
    to: Annotated[str, typer.Option("--to", help=f"Format: {' | '.join(FORMATS)}.")],
    output: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Output file; MODEL with the suffix of the format by default.")
    ] = None,
    width: Annotated[
        int | None, typer.Option(help="Bits of the widest accumulator of C: 16 | 32 | 64; 64 by default.")
    ] = None,
    column_width: Annotated[
        int | None, typer.Option(help="Bits of the columns of C: 16 | 32; 32 by default, 16 for series.")
    ] = None,
    example: Annotated[
        bool,
        typer.Option("--example", help="Also write main.c, which runs the C code on a few rows and checks it."),
    ] = False,
    force: Force = False,
) -> None:
    """Write a model in a format that needs no Python.

    c: C99 of integers without library calls, as PATH.c and PATH.h; PATH.h explains the numbers. The code includes the
    encoding of columns and the decision between classes. The code of a network alone reads 16-bit integers. With
    --example, a program main.c is added, which evaluates a few rows and exits with status 0 only if all outputs equal
    those of Python. The code of a model of images reads bytes. The code of a model of series takes its samples one at a
    time.

    js: a module of JavaScript for browsers and Node, with its types, as PATH.js and PATH.d.ts. It predicts, gives
    probabilities and explains predictions from rows as JSON has them, or from images.

    onnx: a graph from columns to labels and probabilities in double precision; for a network alone, one of integers.

    verilog: modules for models whose inputs are bits, such as those of `qsdp fit --encoding thresholds`. One module
    takes the columns as fixed-point words, one takes the bits of thresholds, categories and missing entries. The header
    of the file describes both.
    """
    form = FORMATS[check_choice("--to", to, FORMATS)]
    requested = {"width": width, "column_width": column_width, "example": example or None}
    options = {name: value for name, value in requested.items() if value is not None}
    if unknown := [name for name in options if name not in form.options]:
        raise InvalidInputError(f"--{unknown[0].replace('_', '-')} is not an option of --to {to}")
    suffix = form.suffixes[0]
    path = output or Path(_default_name(model_file.stem, identifier=to in {"c", "verilog"}) + suffix)
    if path.suffix != suffix:
        raise InvalidInputError(f"--output must end in {suffix} for --to {to}; got {str(path)!r}")
    names = form.files(path.stem, options)
    paths = {name: destination(path.with_name(name), force=force, inputs=[model_file]) for name in names}
    # Loads scikit-learn.
    from qsdp.estimators import load

    with stage("Exporting"):
        exported = form.export(load(model_file), path.stem, **options)
        write_together({paths[name]: contents for name, contents in exported.contents.items()})
    print_facts([("model", str(model_file)), ("saved", ", ".join(str(paths[name]) for name in names)), *exported.facts])


def _default_name(stem: str, *, identifier: bool) -> str:
    """Convert the name of a model file to one for exported files, for some formats also an ASCII identifier."""
    if identifier:
        # Letters lose their accents.
        stem = unicodedata.normalize("NFKD", stem.replace("ß", "ss")).encode("ascii", "ignore").decode()
    name = re.sub(r"\W", "_", stem)
    return name if name[:1].isalpha() else f"model_{name}".rstrip("_")
