"""`qsdp predict`: a saved model on another file."""

from __future__ import annotations

import csv
import io
import warnings
from pathlib import Path
from typing import Annotated

import typer

from qsdp._validation import FloatArray
from qsdp.cli._options import Force, ModelFile
from qsdp.cli._reports import show_score
from qsdp.cli._streams import destination, say, stage, write_whole
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.tabular import Table, Target, load_model, read_table


def predict(
    model_file: ModelFile,
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="CSV file with the columns of training.")],
    output: Annotated[Path | None, typer.Option(metavar="PRED.csv", help="Instead of the standard output.")] = None,
    force: Force = False,
) -> None:
    """Predict the rows of a CSV file, as CSV: a column `prediction` and, for classes, `score`.

    Columns are found by name. The score is the network's output; above 0 it means the second class. If the
    file has the target too, accuracy or R^2 goes to the standard error.
    """
    path = None if output is None else destination(output, force=force, inputs=[file, model_file])
    with stage("Predicting"):
        model, table = load_model(model_file), read_table(file)
        outputs = model.outputs(table)
        content = _prediction_csv(model.target, outputs).encode()
        verdict = _verdict(model.target, table, outputs)
        if path is not None:
            write_whole(path, content)
    if path is None:
        typer.echo(content, nl=False)
    if verdict:
        say(verdict)


def _prediction_csv(target: Target, outputs: FloatArray) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    predictions = target.decode(outputs)
    if target.classes is None:
        writer.writerow(["prediction"])
        writer.writerows([float(prediction)] for prediction in predictions)
    else:
        writer.writerow(["prediction", "score"])
        writer.writerows(zip(predictions, map(float, outputs), strict=True))
    return stream.getvalue()


def _verdict(target: Target, table: Table, outputs: FloatArray) -> str:
    """Return a line with the score on the rows whose target is known, or nothing."""
    if target.name not in table.columns:
        return ""
    known = [row for row, entry in enumerate(table.column(target.name)) if entry is not None]
    if not known:
        return ""
    try:
        score = target.score(outputs[known], target.encode(table.take(known)))
    except InvalidInputError as error:
        # The predictions are right whatever stands in that column.
        warnings.warn(f"not scored: {error}", QSDPWarning, stacklevel=2)
        return ""
    metric = "accuracy" if target.classes else "R^2"
    return f"{metric} {show_score(target, score)} on {len(known)} rows with {target.name!r}"
