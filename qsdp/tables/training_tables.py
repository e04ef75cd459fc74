"""Use of a table for training: targets, weights, held-out rows, and the training problem of a fitted model."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import LARGEST_INTEGER
from qsdp._utils.summary import first_few
from qsdp._utils.validation import FloatArray, check_choice, warn
from qsdp.certificates.files import data_digest, problem_data
from qsdp.encoding.reading_rule import BOOLEAN, CATEGORY, MARKERS, NUMBER, is_missing, kind_of, read_column, row_name
from qsdp.encoding.used_columns import listing, require, title
from qsdp.estimators.table_source import TableSource
from qsdp.exceptions import InvalidInputError, InvalidTypeError, QSDPWarning
from qsdp.problem import TrainingProblem
from qsdp.tables import MISSING

if TYPE_CHECKING:
    import pandas

__all__ = [
    "TASKS",
    "coded_problem",
    "digest_of",
    "has_target",
    "inputs_in",
    "inputs_of",
    "labels_of",
    "marked",
    "numbers_of",
    "problem_if_trained",
    "problem_on",
    "row_numbers",
    "source_of",
    "split",
    "targets_of",
    "weights_of",
    "with_target",
]

TASKS = ("auto", "classification", "regression")

#: Largest number of classes of a target.
_MAX_CLASSES = 100

#: Number of classes from which a target that looks like numbers has a warning.
_MANY_CLASSES = 10

#: Patterns of labels that are integers, and of numbers, which are equal regardless of trailing zeros (labels with
#: leading zeros are names).
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*)?")


def source_of(
    table: pandas.DataFrame,
    target: str,
    *,
    task: str = "auto",
    weights: str | None = None,
    drop: Sequence[str] = (),
    decimal: str = ".",
    thousands: str | None = None,
    missing: Collection[str] = MISSING,
    seed: int = 0,
    test_size: float = 0.2,
    left_out: Collection[str] = (),
    texts: Mapping[str, int] | None = None,
) -> TableSource:
    """Determine the roles of the columns of a table, and check its names and its target.

    The task "auto" is classification for a target that is not numeric or has exactly two values. `left_out` are the
    columns that the reader left out, `texts` those of the target that counted as missing, with their numbers.

    Raises
    ------
    InvalidInputError
        A column is absent or has two roles, no column is left as an input, or the target cannot be learned.
    """
    check_choice("task", task, TASKS)
    require(table, [target, *([] if weights is None else [weights]), *(name for name in drop if name not in left_out)])
    if target in drop:
        raise InvalidInputError(f"column {target!r} cannot be both the target and dropped")
    if weights is not None and weights in (target, *drop):
        raise InvalidInputError(f"column {weights!r} cannot be both the weights and the target or dropped")
    if not set(map(str, table.columns)) - {target, weights, *drop}:
        raise InvalidInputError(f"{title(table)} has no column left to learn from besides the target {target!r}")
    source = TableSource(target, weights, None, decimal, thousands, tuple(sorted(missing)), seed, float(test_size))
    known = with_target(source, table)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind = kind_of(known[target], target)
    numeric = kind not in {BOOLEAN, CATEGORY}
    labels = labels_of(known[target])
    classes, counts = (values.tolist() for values in np.unique(labels, return_counts=True))
    for warning in caught if len(classes) > _MANY_CLASSES else ():
        # A few classes may well look like numbers, such as <=50K and >50K.
        warn(str(warning.message))
    if len(classes) < 2:
        what = f"holds only {str(classes[0])!r}" if classes else "has no values"
        absent = len(table) - len(known)
        what += f" besides {absent} missing entries{marked(texts or {})}" if absent else ""
        raise InvalidInputError(f"target {target!r} of {title(table)} {what}; there is nothing to learn")
    if task == "regression" or (task == "auto" and numeric and len(classes) > 2):
        source = replace(source, kind=kind if numeric else NUMBER)
        numbers_of(with_target(source, known), target, source.kind or NUMBER)
    elif len(classes) > _MAX_CLASSES:
        shown = first_few([f"{str(label)!r} ({count})" for label, count in zip(classes, counts, strict=True)])
        advice = "; use --task regression for a number" if numeric else ""
        raise InvalidInputError(
            f"target {target!r} of {title(table)} has {len(classes)} classes, at most {_MAX_CLASSES} are possible: "
            f"{shown}{advice}"
        )
    elif alike := [label for label, count in Counter(str(label).casefold() for label in classes).items() if count > 1]:
        same = listing(str(label) for label in classes if str(label).casefold() == alike[0])
        warn(f"target {target!r} of {title(table)}: the classes {same} differ only in upper and lower case")
    return source


def row_numbers(table: pandas.DataFrame) -> set[str]:
    """Return the columns that number the rows of a table from 0 or from 1 on.

    Such numbers predict targets that are sorted, but not those of other files.
    """
    import pandas as pd

    numbered = set()
    for name in table.columns:
        begins = str(table[name].iloc[0]).removesuffix(".0")
        if begins in {"0", "1"}:
            numbers = pd.to_numeric(table[name], errors="coerce").to_numpy()
            if np.array_equal(numbers, int(begins) + np.arange(len(table))):
                numbered.add(name)
    return numbered


def marked(texts: Mapping[str, int]) -> str:
    """List in brackets the texts that counted as missing, with their numbers; empty if there are none."""
    shown = ", ".join(f"{text!r} {count}" for text, count in texts.items() if text)
    return f" ({shown}; --missing says what counts as missing)" if shown else ""


def with_target(source: TableSource, table: pandas.DataFrame) -> pandas.DataFrame:
    """Select the rows that have a target."""
    require(table, [source.target])
    return table[has_target(source, table)]


def has_target(source: TableSource, table: pandas.DataFrame) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that have a target."""
    marks = frozenset() if source.kind is None else MARKERS
    entries = table[source.target].tolist()
    return np.array([not is_missing(entry) and str(entry).lower() not in marks for entry in entries], bool)


def split(source: TableSource, table: pandas.DataFrame) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Split the rows with a target and a positive weight into training and held-out rows."""
    known = with_target(source, table)
    order = np.random.default_rng(source.seed).permutation(len(known))
    # Rounded, because (1 - 0.9) * 10 is a little less than 1.
    n_train = int(round((1.0 - source.test_size) * len(known), 9))
    weights = weights_of(source, known)
    counting = np.ones(len(known), dtype=bool) if weights is None else weights > 0.0
    train, test = (known.take(part[counting[part]]) for part in (order[:n_train], order[n_train:]))
    return train, test


def weights_of(source: TableSource, table: pandas.DataFrame) -> FloatArray | None:
    """Read the column of weights; raise an error that counts the invalid rows."""
    if source.weights is None:
        return None
    require(table, [source.weights])
    weights = numbers_of(table, source.weights)
    for fault, rows in (("no weight", np.isnan(weights)), ("a negative weight", weights < 0.0)):
        if np.any(rows):
            raise InvalidInputError(
                f"{title(table)}, column {source.weights!r}: {int(rows.sum())} of {len(table)} rows have {fault}, the "
                f"first in {row_name(table, int(rows.argmax()))}; weights must be numbers >= 0"
            )
    return weights


def targets_of(source: TableSource, table: pandas.DataFrame, classes: Sequence[Any] = ()) -> npt.NDArray[Any]:
    """Read the targets of rows: numbers, or labels, written as in `classes` if there are any."""
    if source.kind is not None:
        return numbers_of(table, source.target, source.kind)
    return labels_of(table[source.target], classes)


def labels_of(column: Any, known: Sequence[Any] = ()) -> npt.NDArray[Any]:
    """Read the labels of a column as text, or as integers if all are integers.

    "1" and "1.0" are the same label, and "true" and "TRUE", written as in `known`, else in the shortest form in the
    column; "01" is another than "1".
    """
    texts = {entry: _text(entry) for entry in set(column.tolist())}
    written: dict[Decimal | str, str] = {}
    for text in [*map(str, known), *sorted(texts.values(), key=lambda text: (len(text), text))]:
        written.setdefault(_label_key(text), text)
    integers = all(type(label) is int for label in known) if known else all(map(_INTEGER.fullmatch, written.values()))
    labels: dict[Any, int | str] = {}
    for entry, text in texts.items():
        label = written[_label_key(text)]
        # Another file may have labels that no row of the training had.
        labels[entry] = int(label) if integers and _INTEGER.fullmatch(label) else label
    chosen = [labels[entry] for entry in column.tolist()]
    plain = integers and all(type(label) is int for label in labels.values())
    return np.array(chosen, dtype=np.int64 if plain else object)


def _text(entry: Any) -> str:
    """Convert a label to text; whole numbers are written as integers."""
    if isinstance(entry, float) and entry.is_integer() and abs(entry) < LARGEST_INTEGER:
        return str(int(entry))
    return str(entry)


def _label_key(label: str) -> Decimal | str:
    """Compute a key for comparing labels, equal for "1" and "1.0" but not for "01", and for "true" and "TRUE"."""
    if _NUMBER.fullmatch(label):
        return Decimal(label)
    return label.lower() if label.lower() in {"true", "false"} else label


def numbers_of(table: pandas.DataFrame, name: str, kind: str = NUMBER) -> FloatArray:
    """Read a column of numbers or dates, with NaN for missing entries; raise an error for other entries."""
    numbers, odd = read_column(table[name], name, kind)
    if odd:
        row, text = odd[0]
        raise InvalidInputError(
            f"{title(table)}, {row_name(table, row)}, column {name!r}: expected a {kind}; got {text!r:.60} ({len(odd)} "
            "such entries); --decimal and --thousands say how numbers are written, --missing which texts are missing"
        )
    return numbers


def inputs_of(model: Any, table: pandas.DataFrame) -> pandas.DataFrame:
    """Select the input columns of a fitted model by name; columns that it does not use may be absent."""
    names = list(map(str, model.feature_names_in_))
    encoding = model._columns_encoder.encoding_
    require(table, [names[position] for position in encoding.used])
    return table.reindex(columns=names)


def inputs_in(source: TableSource, drop: Collection[str], table: pandas.DataFrame) -> pandas.DataFrame:
    """Select the columns of a table that are neither the target nor the weights nor dropped."""
    return table[[name for name in table.columns if name not in {source.target, source.weights, *drop}]]


def problem_on(model: Any, table: pandas.DataFrame) -> TrainingProblem:
    """Rebuild the training problem of a model from its table; raise an error for another table."""
    # Absent columns and invalid weights have errors of their own.
    known = with_target(model.table_, table)
    inputs_of(model, known), weights_of(model.table_, known)
    problem = problem_if_trained(model, table)
    if problem is None:
        raise InvalidInputError(
            f"{title(table)} is not the file this model was trained on: its training rows differ; "
            "objective and bound refer to those rows only"
        )
    return problem


def problem_if_trained(model: Any, table: pandas.DataFrame) -> TrainingProblem | None:
    """Rebuild the training problem of a model if this is the table on which it was trained; None for another table."""
    source = model.table_
    if source.weights is not None and source.weights not in table.columns:
        return None
    try:
        problem = coded_problem(model, split(source, table)[0])
    except (InvalidInputError, InvalidTypeError):
        # Labels, weights or kinds of columns of another table may not be those of training.
        return None
    return problem if digest_of(problem) == source.digest else None


def coded_problem(model: Any, training: pandas.DataFrame) -> TrainingProblem:
    """Encode training rows as the training problem of a model."""
    source = model.table_
    targets = targets_of(source, training, getattr(model, "classes_", np.zeros(0)).tolist())
    with warnings.catch_warnings():
        # Values not seen in training belong to another table, which the digest reveals.
        warnings.simplefilter("ignore", QSDPWarning)
        problem: TrainingProblem = model.training_problem(
            inputs_of(model, training), targets, weights_of(source, training)
        )
    return problem


def digest_of(problem: TrainingProblem) -> str:
    """Compute the SHA-256 of the inputs, targets and weights of a problem."""
    return data_digest(*problem_data(problem).values())
