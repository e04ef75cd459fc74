"""`qsdp predict`: predict with a saved model."""

from __future__ import annotations

import gzip
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from qsdp._utils.atomic_files import write_whole
from qsdp._utils.validation import FloatArray, warn
from qsdp.cli import _flags as flags
from qsdp.cli._streams import STANDARD_OUTPUT, destination, say, stage
from qsdp.estimators.classes import choose_classes, class_probabilities, class_scores
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import get_loss
from qsdp.report.figures import show_score
from qsdp.tables import read_table
from qsdp.tables.scored import truth_of
from qsdp.tables.training_tables import has_target

if TYPE_CHECKING:
    import pandas


def predict(
    model_file: flags.ModelFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or Parquet file with the columns of the training.")],
    output: Annotated[
        Path | None, typer.Option(metavar="PRED.csv", help="Output file; '-', the default, is standard output.")
    ] = None,
    decimal: flags.Decimal = None,
    thousands: flags.Thousands = None,
    missing: flags.Missing = None,
    force: flags.Force = False,
) -> None:
    """Predict the rows of a CSV or Parquet file, as CSV with a column `prediction` and, for classes, scores.

    Columns are matched by name. Two classes have one `score`, positive for the second class; more classes have one
    `score_LABEL` each, and the largest decides. The losses logistic and cross_entropy add one
    `probability_LABEL` per class. If the file has the target, accuracy or R² is printed to standard error. Columns
    are read in the kinds of the training, and text files as the one of the training, unless --decimal, --thousands or
    --missing say otherwise.
    """
    text_format = flags.text_format(decimal, thousands, missing)
    if output is not None and output.suffix not in {"", ".csv", ".gz", ".txt"}:
        raise InvalidInputError(f"--output must end in .csv or .csv.gz, as predictions are CSV; got {str(output)!r}")
    path = None if output in {None, STANDARD_OUTPUT} else destination(output, force=force, inputs=[file, model_file])
    with stage("Predicting"):
        model = flags.load_model(model_file)
        table = read_table(file, **{**model.table_.reading, **text_format})
        rows = table.drop(columns=[model.table_.target, model.table_.weights], errors="ignore")
        outputs = model.network_.predict(model.network_inputs(rows))
        written = _csv(_columns(model, outputs))
        verdict = _verdict(model, table, outputs)
        if path is not None:
            # Without a name and a time, equal predictions are equal files.
            write_whole(path, gzip.compress(written, mtime=0) if path.suffix == ".gz" else written)
    if path is None:
        sys.stdout.buffer.write(written)
        sys.stdout.flush()
    if verdict:
        say(verdict)


def _csv(columns: dict[str, list[Any]]) -> bytes:
    import pandas as pd

    text: str = pd.DataFrame(columns).to_csv(index=False, lineterminator="\n")
    return text.encode()


def _verdict(model: Any, table: pandas.DataFrame, outputs: FloatArray) -> str:
    """Return a line with the score on the rows that have a target; empty if there are none, or they are invalid."""
    source = model.table_
    if source.target not in table.columns:
        return ""
    known = has_target(source, table)
    try:
        truth = truth_of(model, table[known])
    except (InvalidInputError, InvalidTypeError) as error:
        # The predictions do not depend on that column.
        warn(f"not scored: {error}")
        return ""
    if not len(truth):
        return ""
    rows = f"on {len(truth)} rows with {source.target!r}"
    if source.kind is None:
        right = choose_classes(model.target_scaling_.decode(outputs[known])) == truth
        return f"accuracy {show_score(float(right.mean()), number=False)} {rows}"
    spread = float(np.sum((truth - truth.mean()) ** 2))
    score = 1.0 - float(np.sum((truth - outputs[known]) ** 2)) / spread if spread > 0.0 else math.nan
    return f"R² {show_score(score, number=True)} {rows}"


def _columns(model: Any, outputs: FloatArray) -> dict[str, list[Any]]:
    """Return predictions, scores and probabilities as columns by name."""
    values = model.target_scaling_.decode(outputs)
    if model.table_.kind is not None:
        return {"prediction": values.tolist()}
    classes, scores, loss = model.classes_.tolist(), class_scores(values), get_loss(model._loss)
    names = ["score"] if len(classes) == 2 else [f"score_{label}" for label in classes]
    columns: dict[str, list[Any]] = {"prediction": model.classes_[choose_classes(values)].tolist()}
    columns |= dict(zip(names, scores.reshape(len(scores), -1).T.tolist(), strict=True))
    if loss.probabilistic:
        probabilities = class_probabilities(values, loss)
        columns |= dict(zip([f"probability_{label}" for label in classes], probabilities.T.tolist(), strict=True))
    return columns
