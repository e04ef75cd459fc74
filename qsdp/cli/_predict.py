"""`qsdp predict`: predictions of a saved model."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from qsdp._utils.files import write_whole
from qsdp._utils.validation import FloatArray
from qsdp.cli._options import Force, ModelFile
from qsdp.cli._streams import destination, say, stage
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.report.figures import show_score
from qsdp.tabular import Table, TabularModel, Target, class_scores, load_model, read_table


def predict(
    model_file: ModelFile,
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="CSV file with the columns of the training file.")],
    output: Annotated[
        Path | None, typer.Option(metavar="PRED.csv", help="Output file; standard output by default.")
    ] = None,
    force: Force = False,
) -> None:
    """Predict the rows of a CSV file, as CSV with a column `prediction` and, for classes, scores.

    Columns are matched by name. Two classes have one `score`, positive for the second class; more classes have one
    `score_LABEL` each, of which the largest decides. The losses logistic and cross_entropy add one
    `probability_LABEL` per class. If the file has the target, accuracy or R^2 is printed to standard error.
    """
    path = None if output is None else destination(output, force=force, inputs=[file, model_file])
    with stage("Predicting"):
        model, table = load_model(model_file), read_table(file)
        outputs = model.outputs(table)
        content = _prediction_csv(model, outputs).encode()
        verdict = _verdict(model.target, table, outputs)
        if path is not None:
            write_whole(path, content)
    if path is None:
        typer.echo(content, nl=False)
    if verdict:
        say(verdict)


def _prediction_csv(model: TabularModel, outputs: FloatArray) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names, columns = ["prediction"], [list(model.target.decode(outputs))]
    for name, values in _figures(model, outputs):
        names.append(name)
        columns.append(values)
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return stream.getvalue()


def _figures(model: TabularModel, outputs: FloatArray) -> Iterator[tuple[str, list[float]]]:
    """Yield the columns of scores and probabilities with their names."""
    if (classes := model.target.classes) is None:
        return
    scores, probabilities = class_scores(model.target.values(outputs)), model.probabilities(outputs)
    if scores.ndim == 1:
        yield "score", scores.tolist()
    else:
        yield from zip([f"score_{label}" for label in classes], scores.T.tolist(), strict=True)
    if probabilities is not None:
        yield from zip([f"probability_{label}" for label in classes], probabilities.T.tolist(), strict=True)


def _verdict(target: Target, table: Table, outputs: FloatArray) -> str:
    """Return a line with the score on the rows with a target, or an empty one."""
    if target.name not in table.columns:
        return ""
    known = [row for row, entry in enumerate(table.column(target.name)) if entry is not None]
    if not known:
        return ""
    try:
        score = target.score(outputs[known], target.truth(table.take(known)))
    except InvalidInputError as error:
        # The predictions do not depend on that column.
        warnings.warn(f"not scored: {error}", QSDPWarning, stacklevel=2)
        return ""
    metric = "accuracy" if target.classes else "R^2"
    return f"{metric} {show_score(score, number=target.classes is None)} on {len(known)} rows with {target.name!r}"
