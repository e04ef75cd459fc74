"""`qsdp predict`: predictions of a saved model."""

from __future__ import annotations

import csv
import gzip
import io
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from qsdp._utils.files import writing_whole
from qsdp._utils.parallel import CACHE_FLOATS
from qsdp._utils.progress import ProgressBar
from qsdp._utils.validation import FloatArray
from qsdp.cli._flags import Force, ModelFile
from qsdp.cli._streams import destination, say, stage
from qsdp.estimators.classes import class_scores
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.report.figures import show_score
from qsdp.tabular import DataTable, RunningScore, TabularModel, load_model, table_batches

#: Bytes of predictions that are held in memory before they go to the standard output.
_IN_MEMORY = 2**26


def predict(
    model_file: ModelFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or Parquet file with the columns of the training.")],
    output: Annotated[
        Path | None, typer.Option(metavar="PRED.csv", help="Output file; standard output by default.")
    ] = None,
    force: Force = False,
) -> None:
    """Predict the rows of a CSV or Parquet file, as CSV with a column `prediction` and, for classes, scores.

    Columns are matched by name. Two classes have one `score`, positive for the second class; more classes have one
    `score_LABEL` each, and the largest decides. The losses logistic and cross_entropy add one
    `probability_LABEL` per class. If the file has the target, accuracy or R^2 is printed to standard error. Rows are
    read, predicted and written in batches, so files may have any size.
    """
    if output is not None and output.suffix not in {"", ".csv", ".gz", ".txt"}:
        raise InvalidInputError(f"--output must end in .csv or .csv.gz, as predictions are CSV; got {str(output)!r}")
    path = None if output is None else destination(output, force=force, inputs=[file, model_file])
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as waiting:
        with stage("Predicting") as bar, nullcontext(waiting) if path is None else writing_whole(path) as stream:
            packed = path is not None and path.suffix == ".gz"
            with gzip.open(stream, "wb") if packed else nullcontext(stream) as plain:
                verdict = _write_predictions(load_model(model_file), file, plain, bar)
        if path is None:
            waiting.seek(0)
            shutil.copyfileobj(waiting, sys.stdout.buffer)
            sys.stdout.flush()
    if verdict:
        say(verdict)


def _write_predictions(model: TabularModel, file: Path, stream: Any, bar: ProgressBar) -> str:
    """Write the predictions of all rows; return a line with the score on rows that have a target, or an empty line."""
    running, done = RunningScore(model.target), 0
    rows = max(256, CACHE_FLOATS // (len(model.encoder.columns) + len(model.encoder.dropped) + 1))
    for table in table_batches(file, rows, frozenset(model.markers)):
        with warnings.catch_warnings():
            if done:
                # Warnings about the first rows are not repeated for every batch.
                warnings.simplefilter("ignore", QSDPWarning)
            outputs = model.outputs(table)
        stream.write(_prediction_csv(model, outputs, header=not done).encode())
        if running.usable:
            _count(running, table, outputs)
        done += len(table)
        bar.count(done, None, f"{done:,} rows")
    if not running.n_rows:
        return ""
    number = model.target.classes is None
    metric = "R^2" if number else "accuracy"
    return f"{metric} {show_score(running.value, number=number)} on {running.n_rows} rows with {model.target.name!r}"


def _count(running: RunningScore, table: DataTable, outputs: FloatArray) -> None:
    try:
        running.add(table, outputs)
    except InvalidInputError as error:
        # The predictions do not depend on that column.
        running.give_up()
        warnings.warn(f"not scored: {error}", QSDPWarning, stacklevel=2)


def _prediction_csv(model: TabularModel, outputs: FloatArray, *, header: bool) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names, columns = ["prediction"], [list(model.target.decode(outputs))]
    for name, values in _figures(model, outputs):
        names.append(name)
        columns.append(values)
    if header:
        writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return stream.getvalue()


def _figures(model: TabularModel, outputs: FloatArray) -> Iterator[tuple[str, list[float]]]:
    """Yield the columns of scores and probabilities with their names."""
    if (classes := model.target.classes) is None:
        return
    scores, probabilities = class_scores(model.target.values(outputs)), model.probabilities(outputs)
    names = ["score"] if len(classes) == 2 else [f"score_{label}" for label in classes]
    yield from zip(names, scores.reshape(len(scores), -1).T.tolist(), strict=True)
    if probabilities is not None:
        yield from zip([f"probability_{label}" for label in classes], probabilities.T.tolist(), strict=True)
