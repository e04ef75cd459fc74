"""`qsdp report`: write a page about a model of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qsdp._utils.atomic_files import write_together
from qsdp.cli._flags import Force
from qsdp.cli._reports import print_facts
from qsdp.cli._streams import destination, stage
from qsdp.report import make_report
from qsdp.report._page import check_suffix
from qsdp.report.figures import show_measure


def report(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL", help="A saved model of a table.")],
    data: Annotated[
        Path | None,
        typer.Argument(metavar="[DATA]", help="The training file, or another with the same columns."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="PATH.html", help="File of the page; MODEL.html by default.")
    ] = None,
    force: Force = False,
) -> None:
    """Write a page of HTML about a model: scores, certificate, effects of columns, size, and a form that predicts.

    The page loads nothing from elsewhere. With the training file, it separates training and held-out rows, and compares
    the network with logistic (or ridge) regression in 8 bits and with boosted trees. With another file, it scores the
    rows. Without a file, it has no scores.
    """
    path = output or Path(f"{model_file.stem}.html")
    check_suffix("--output", path)
    destination(path, force=force, inputs=[model_file, *([] if data is None else [data])])
    with stage("Reporting"):
        made = make_report(model_file, data)
        write_together({path: made.to_html().encode()})
    facts = [("model", str(model_file)), ("saved", str(path))]
    measures = list(next(iter(made.scores.values()))) if made.scores else []
    # Where classes are even, the other measures add nothing to the accuracy.
    for measure in measures if measures[:1] == ["balanced accuracy"] else measures[:1]:
        scores = [f"{show_measure(measure, score[measure])} of {rows}" for rows, score in made.scores.items()]
        facts.append((measure.removesuffix(" accuracy"), ", ".join(scores)))
    print_facts(facts)
