"""`qsdp predict`: predict with a saved model."""

from __future__ import annotations

import gzip
import math
import shutil
import sys
import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from qsdp._utils.files import writing_whole
from qsdp._utils.parallel import CACHE_FLOATS
from qsdp._utils.progress import ProgressBar
from qsdp._utils.validation import FloatArray
from qsdp.cli._flags import Force, ModelFile, load_model
from qsdp.cli._streams import STANDARD_OUTPUT, destination, say, stage
from qsdp.estimators.classes import choose_classes, class_probabilities, class_scores
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.losses import get_loss
from qsdp.report.figures import show_score
from qsdp.tables import table_chunks
from qsdp.tables.scored import truth_of
from qsdp.tables.training import has_target

if TYPE_CHECKING:
    import pandas

#: Sums over no rows, see `_added`.
_NO_ROWS = np.zeros(4)

#: Bytes of predictions that are held in memory before they go to the standard output.
_IN_MEMORY = 2**26


def predict(
    model_file: ModelFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or Parquet file with the columns of the training.")],
    output: Annotated[
        Path | None, typer.Option(metavar="PRED.csv", help="Output file; '-', the default, is standard output.")
    ] = None,
    force: Force = False,
) -> None:
    """Predict the rows of a CSV or Parquet file, as CSV with a column `prediction` and, for classes, scores.

    Columns are matched by name. Two classes have one `score`, positive for the second class; more classes have one
    `score_LABEL` each, and the largest decides. The losses logistic and cross_entropy add one
    `probability_LABEL` per class. If the file has the target, accuracy or R² is printed to standard error. Rows are
    read, predicted and written in batches, so files may have any size.
    """
    if output is not None and output.suffix not in {"", ".csv", ".gz", ".txt"}:
        raise InvalidInputError(f"--output must end in .csv or .csv.gz, as predictions are CSV; got {str(output)!r}")
    path = None if output in {None, STANDARD_OUTPUT} else destination(output, force=force, inputs=[file, model_file])
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as waiting:
        with stage("Predicting") as bar, nullcontext(waiting) if path is None else writing_whole(path) as stream:
            packed = path is not None and path.suffix == ".gz"
            # Without a name and a time, equal predictions are equal files.
            with gzip.GzipFile("", "wb", fileobj=stream, mtime=0) if packed else nullcontext(stream) as plain:
                verdict = _write_predictions(load_model(model_file), file, plain, bar)
        if path is None:
            waiting.seek(0)
            shutil.copyfileobj(waiting, sys.stdout.buffer)
            sys.stdout.flush()
    if verdict:
        say(verdict)


def _write_predictions(model: Any, file: Path, stream: Any, bar: ProgressBar) -> str:
    """Write the predictions of all rows; return a line with the score on rows that have a target, or an empty line."""
    # Imported here because usage errors need not wait for it.
    import pandas as pd

    source, done = model.table_, 0
    sums: FloatArray | None = _NO_ROWS
    batch = max(256, CACHE_FLOATS // (len(model.feature_names_in_) + 1))
    for table in table_chunks(file, batch, source.missing):
        with warnings.catch_warnings():
            if done:
                # Warnings about the first rows are not repeated for every batch.
                warnings.simplefilter("ignore", QSDPWarning)
            rows = table.drop(columns=[source.target, source.weights], errors="ignore")
            outputs = model.network_.predict(model.network_inputs(rows))
            columns = pd.DataFrame(_columns(model, outputs))
            columns.to_csv(stream, header=not done, index=False, lineterminator="\n", mode="ab")
            if sums is not None and source.target in table.columns:
                sums = _added(sums, model, table, outputs)
        done += len(table)
        bar.count(done, None, f"{done:,} rows")
    if sums is None or not (n := int(sums[0])):
        return ""
    if source.notation is None:
        return f"accuracy {show_score(sums[1] / n, number=False)} on {n} rows with {source.target!r}"
    spread = sums[2] - sums[3] ** 2 / n
    score = 1.0 - sums[1] / spread if spread > 0.0 else math.nan
    return f"R² {show_score(score, number=True)} on {n} rows with {source.target!r}"


def _added(sums: FloatArray, model: Any, table: pandas.DataFrame, outputs: FloatArray) -> FloatArray | None:
    """Return the sums for the score (correct predictions, or sums for R²) increased by those of a table's rows.

    Targets are standardised, so that their sums hardly cancel. If the target column is invalid, return None.
    """
    known = has_target(model.table_, table)
    try:
        truth = truth_of(model, table[known])
    except InvalidInputError as error:
        # The predictions do not depend on that column.
        warnings.warn(f"not scored: {error}", QSDPWarning, stacklevel=2)
        return None
    if model.table_.notation is None:
        right = choose_classes(model.target_scaling_.decode(outputs[known])) == truth
        added = [len(truth), float(right.sum()), 0.0, 0.0]
    else:
        errors = float(np.sum((truth - outputs[known]) ** 2))
        added = [len(truth), errors, float(truth @ truth), float(truth.sum())]
    total: FloatArray = sums + np.array(added)
    return total


def _columns(model: Any, outputs: FloatArray) -> dict[str, list[Any]]:
    """Return predictions, scores and probabilities as columns by name."""
    values = model.target_scaling_.decode(outputs)
    if model.table_.notation is not None:
        return {"prediction": values.tolist()}
    classes, scores, loss = model.classes_.tolist(), class_scores(values), get_loss(model.loss)
    names = ["score"] if len(classes) == 2 else [f"score_{label}" for label in classes]
    columns: dict[str, list[Any]] = {"prediction": model.classes_[choose_classes(values)].tolist()}
    columns |= dict(zip(names, scores.reshape(len(scores), -1).T.tolist(), strict=True))
    if loss.probabilistic:
        probabilities = class_probabilities(values, loss)
        columns |= dict(zip([f"probability_{label}" for label in classes], probabilities.T.tolist(), strict=True))
    return columns
