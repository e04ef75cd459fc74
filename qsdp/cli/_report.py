"""`qsdp report`: write an HTML report or a model card of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qsdp._utils.files import write_together
from qsdp._utils.validation import check_choice, check_integer
from qsdp.cli._flags import Force
from qsdp.cli._reports import print_facts
from qsdp.cli._streams import destination, stage
from qsdp.report import make_report
from qsdp.report._content import leading
from qsdp.report._rendering import RENDERINGS
from qsdp.report.figures import show_measure


def report(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A saved model, or a network, a certificate or statistics.")
    ],
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA]",
            help="The training file, or another with the same columns; .npz of X and y for estimators.",
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Page (.html) or model card (.md); may be repeated. MODEL.html by default."),
    ] = None,
    draws: Annotated[int, typer.Option(help="Number of networks sampled for each number of neurons.")] = 5,
    force: Force = False,
) -> None:
    """Write a report of a model: certificate, accuracy, size, effects of columns, encoding, provenance.

    An HTML page loads nothing from elsewhere, and predicts rows that its reader enters. A card is Markdown with the
    YAML header that model repositories read. With the training file, the report distinguishes training and
    held-out rows, and shows gap and accuracy for other numbers of neurons. With another file, it scores the rows.
    Without a file, it leaves out everything that needs rows. Models of images and series show the filters of each
    region. Files of networks, certificates and statistics have no columns: the report says what is in them, and what
    is not.
    """
    check_integer("--draws", draws, minimum=1)
    inputs = [model_file, *([] if data is None else [data])]
    paths = output or [Path(f"{model_file.stem}.html")]
    for path in paths:
        check_choice("the ending of --output", path.suffix, RENDERINGS)
        destination(path, force=force, inputs=inputs)
    with stage("Reporting"):
        made = make_report(model_file, data, n_draws=draws)
        write_together({path: made.rendered(path.suffix).encode() for path in paths})
    facts = [("model", str(model_file)), ("saved", ", ".join(map(str, paths)))]
    for measure in leading(list(next(iter(made.scores.values())))) if made.scores else []:
        scores = [f"{show_measure(measure, score[measure])} of {rows}" for rows, score in made.scores.items()]
        facts.append((measure.removesuffix(" accuracy"), ", ".join(scores)))
    print_facts(facts)
