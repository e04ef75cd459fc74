"""Models of CSV files: columns as people have them, encoded, and stored with the network trained on them."""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import math
import os
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from qsdp._validation import FloatArray, check_choice, read_only
from qsdp.exceptions import InvalidInputError, QSDPWarning, StorageError
from qsdp.lifting import append_constant
from qsdp.losses import LOSSES, get_loss
from qsdp.networks import BilinearNetwork
from qsdp.pipeline import QSDPResult, RandomState
from qsdp.problem import TrainingProblem
from qsdp.sampling import sample_network
from qsdp.shaping import SHAPINGS, SignCovariance
from qsdp.storage import Arrays, pack_signs, read_archive, unpack_signs, write_archive

__all__ = ["Table", "TabularEncoder", "TabularModel", "Training", "load_model", "prepare", "read_table"]

MISSING = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})
TASKS = ("auto", "classification", "regression")

_KIND = "tabular-model"
_DELIMITERS = ",;\t|"
_MAX_VALUES, _MAX_LISTED = 50, 10
#: Numbers whose squares are representable.
_LARGEST = 1e100


# -- reading ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """The entries of a CSV file as text, None where missing, each row with its line in the file."""

    path: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str | None]]
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[str | None]:
        """Return the entries of a column."""
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def take(self, indices: Iterable[int]) -> Table:
        """Return the table of some of the rows."""
        chosen = list(indices)
        return replace(self, rows=[self.rows[i] for i in chosen], lines=[self.lines[i] for i in chosen])

    def known(self, name: str) -> Table:
        """Return the table of the rows in which a column is not missing."""
        return self.take(i for i, entry in enumerate(self.column(name)) if entry is not None)

    def require(self, names: Iterable[str]) -> None:
        """Raise one error that names all columns that are not there."""
        if not (absent := [name for name in names if name not in self.columns]):
            return
        close = difflib.get_close_matches(absent[0], self.columns, n=1)
        hint = f"; did you mean {close[0]!r}?" if close and len(absent) == 1 else ""
        noun = "column" if len(absent) == 1 else "columns"
        raise InvalidInputError(
            f"{self.path!r} has no {noun} {_listing(absent)}; it has {_listing(self.columns)}{hint}"
        )

    def numbers(self, name: str) -> FloatArray | None:
        """Return a column as floats, nan where missing, or None if an entry is not a number."""
        entries = self.column(name)
        parsed = [math.nan if entry is None else _number(entry) for entry in entries]
        if any(number is None for number in parsed):
            return None
        numbers = np.array(parsed, dtype=np.float64)
        for i in map(int, np.flatnonzero(~(np.abs(numbers) <= _LARGEST))):
            if entries[i] is not None:
                raise self.wrong(i, name, f"a finite number within {_LARGEST:g}")
        return numbers

    def all_numbers(self, name: str) -> FloatArray:
        """Return a column as floats, nan where missing; an entry that is not a number is an error."""
        if (numbers := self.numbers(name)) is None:
            entries = self.column(name)
            row = next(i for i, entry in enumerate(entries) if entry is not None and _number(entry) is None)
            raise self.wrong(row, name, "a number")
        return numbers

    def wrong(self, row: int, name: str, expected: str) -> InvalidInputError:
        """Return the error that names file, line, column, entry and what was expected."""
        entry = self.column(name)[row]
        return InvalidInputError(
            f"{self.path!r}, line {self.lines[row]}, column {name!r}: expected {expected}; got {entry!r:.60}"
        )


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a CSV file: UTF-8, a header line, fields split at commas, semicolons, tabs or bars.

    Raises
    ------
    InvalidInputError
        Not UTF-8, no rows, a column without a name or with that of another, or a line with more or fewer
        fields than the header; the message names file and line.
    """
    name = os.fspath(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            text = stream.read()
    except UnicodeDecodeError:
        raise InvalidInputError(f"{name!r} is not UTF-8 text; save it with that encoding") from None
    records = _records(name, text)
    if not records:
        raise InvalidInputError(f"{name!r} is empty; its first line must name the columns")
    (line, header), *body = records
    _check_header(f"{name!r}, line {line}", header)
    for line, fields in body:
        if len(fields) != len(header):
            raise InvalidInputError(f"{name!r}, line {line}: {len(fields)} fields; the header has {len(header)}")
    if not body:
        raise InvalidInputError(f"{name!r} has a header line but no rows")
    rows = [[None if field in MISSING else field for field in fields] for _, fields in body]
    return Table(name, tuple(header), rows, [line for line, _ in body])


def _records(name: str, text: str) -> list[tuple[int, list[str]]]:
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, delimiter=_delimiter(text), skipinitialspace=True, strict=True)
    records, line = [], 1
    try:
        for fields in reader:
            if len(fields) > 1 or any(field.strip() for field in fields):
                records.append((line, [field.strip() for field in fields]))
            line = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInputError(f"{name!r}, line {line}: not valid CSV: {error}") from None
    return records


def _delimiter(text: str) -> str:
    # The sniffer guesses wildly where it may choose freely: only what splits the header is offered to it.
    sample = text[:8192].lstrip("\r\n ")
    header = re.sub('"[^"]*"', "", (sample.splitlines() or [""])[0])
    candidates = [delimiter for delimiter in _DELIMITERS if delimiter in header]
    likely = max(candidates, key=header.count, default=",")
    if len(candidates) < 2:
        return likely
    try:
        sniffed = csv.Sniffer().sniff(sample, "".join(candidates)).delimiter
    except csv.Error:
        return likely
    return sniffed if sniffed in candidates else likely


def _check_header(where: str, header: list[str]) -> None:
    unnamed = [str(number) for number, name in enumerate(header, start=1) if not name]
    if unnamed:
        raise InvalidInputError(f"{where}: every column needs a name; number {', '.join(unnamed)} has none")
    repeated = [name for name, count in Counter(header).items() if count > 1]
    if repeated:
        raise InvalidInputError(f"{where}: every column needs a name of its own; repeated: {_listing(repeated)}")


def _number(entry: str) -> float | None:
    # float() also takes "1_000", which is no number in a CSV file.
    try:
        return None if "_" in entry else float(entry)
    except ValueError:
        return None


def _listing(names: Iterable[str]) -> str:
    shown = [repr(name) for name in names]
    more = [f"... ({len(shown)} in all)"] if len(shown) > 2 * _MAX_LISTED else []
    return ", ".join(shown[: 2 * _MAX_LISTED] + more)


# -- encoding -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers, standardised; missing entries count as the median."""

    name: str
    median: float
    mean: float
    scale: float

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return 1

    def encode(self, table: Table) -> tuple[FloatArray, list[str]]:
        """Return the encoded column, shape (n, 1), and no unseen values."""
        numbers = table.all_numbers(self.name)
        with np.errstate(over="ignore"):
            encoded = (np.where(np.isnan(numbers), self.median, numbers) - self.mean) / self.scale
        for row in map(int, np.flatnonzero(~(np.abs(encoded) <= _LARGEST))):
            raise table.wrong(row, self.name, f"a number of the order of {self.mean:g} +- {self.scale:g}")
        return encoded[:, None], []


@dataclass(frozen=True)
class CategoricalColumn:
    """A column of symbols: one -1/+1 column for two values, a 0/1 column for each of more."""

    name: str
    values: tuple[str | None, ...]

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return 1 if len(self.values) == 2 else len(self.values)

    def encode(self, table: Table) -> tuple[FloatArray, list[str]]:
        """Return the encoded columns, shape (n, width), and the entries that training did not have."""
        n_values = len(self.values)
        codes = np.array([[-1.0], [1.0]]) if n_values == 2 else np.eye(n_values)
        position = {value: index for index, value in enumerate(self.values)}
        entries = table.column(self.name)
        rows = np.array([position.get(entry, n_values) for entry in entries], dtype=np.intp)
        unseen = ["(missing)" if entry is None else entry for entry in entries if entry not in position]
        return np.vstack([codes, np.zeros((1, self.width))])[rows], unseen


@dataclass(frozen=True)
class TabularEncoder:
    """How the columns of a table become numbers.

    Attributes
    ----------
    columns : tuple of NumericColumn and CategoricalColumn
        What is encoded, in this order; columns of a table are found by name.
    dropped : mapping of str to str
        Columns that training could not learn from, each with the reason.
    """

    columns: tuple[NumericColumn | CategoricalColumn, ...]
    dropped: Mapping[str, str]

    @classmethod
    def fit(cls, table: Table, names: Sequence[str], rows: Iterable[int] | None = None) -> TabularEncoder:
        """Learn the encoding of the columns `names` from some of the rows (default: all).

        Whether a column holds numbers is judged on the whole table, so that it cannot depend on which rows
        are held out; everything that is learned comes from `rows`.
        """
        training = table if rows is None else table.take(rows)
        learned = {name: _learn(table, training, name) for name in names}
        columns = tuple(column for column in learned.values() if not isinstance(column, str))
        _check_widths(columns)
        return cls(columns, {name: reason for name, reason in learned.items() if isinstance(reason, str)})

    @property
    def width(self) -> int:
        """Number of encoded columns, without the constant one."""
        return sum(column.width for column in self.columns)

    def encode(self, table: Table) -> FloatArray:
        """Return the encoded rows, shape (n, width).

        Warns
        -----
        QSDPWarning
            Entries that training did not have; they are encoded as zeros.
        """
        table.require(column.name for column in self.columns)
        blocks, notes, n_unseen = [], [], 0
        for column in self.columns:
            block, unseen = column.encode(table)
            blocks.append(block)
            n_unseen += len(unseen)
            if unseen:
                notes.append(f"{column.name!r} {len(unseen)} (such as {unseen[0]!r:.60})")
        if notes:
            warnings.warn(
                f"{table.path!r}: {n_unseen} entries were not seen in training and count as zero: " + ", ".join(notes),
                QSDPWarning,
                stacklevel=2,
            )
        return np.hstack([*blocks, np.empty((len(table), 0))])

    def state(self) -> dict[str, Any]:
        """Return the encoder as lists, mappings, texts and numbers, for `from_state`."""
        kinds = {NumericColumn: "numeric", CategoricalColumn: "categorical"}
        columns = [{"kind": kinds[type(column)], **asdict(column)} for column in self.columns]
        return {"columns": columns, "dropped": dict(self.dropped)}

    @classmethod
    def from_state(cls, state: Any) -> TabularEncoder:
        """Return the encoder of a `state`; one that is none raises StorageError."""
        state = _checked("encoder", state, _ENCODER_CHECKS)
        columns = tuple(_column(column) for column in state["columns"])
        if len({column.name for column in columns}) < len(columns):
            raise StorageError("encoder: a column is there twice")
        return cls(columns, state["dropped"])


def _learn(table: Table, training: Table, name: str) -> NumericColumn | CategoricalColumn | str:
    entries = set(training.column(name))
    if entries == {None}:
        return "no values"
    if table.numbers(name) is None:
        missing = [None] if None in entries else []
        values = (*sorted(entry for entry in entries if entry is not None), *missing)
        return CategoricalColumn(name, values) if len(values) > 1 else "constant"
    numbers = training.all_numbers(name)
    median = float(np.nanmedian(numbers))
    filled = np.where(np.isnan(numbers), median, numbers)
    mean, scale = float(filled.mean()), float(filled.std())
    # The deviation of equal numbers is not always exactly zero.
    if filled.min() == filled.max() or scale == 0.0:
        return "constant"
    return NumericColumn(name, median, mean, scale)


def _check_widths(columns: Iterable[NumericColumn | CategoricalColumn]) -> None:
    wide = [c for c in columns if isinstance(c, CategoricalColumn) and len(c.values) > _MAX_VALUES]
    if wide:
        found = ", ".join(f"{c.name!r} ({len(c.values)}, such as {c.values[0]!r:.60})" for c in wide)
        options = " ".join(f"--drop {shlex.quote(c.name)}" for c in wide)
        raise InvalidInputError(
            f"columns of text may have at most {_MAX_VALUES} distinct values; more in {found}: "
            f"leave them out with {options}"
        )


@dataclass(frozen=True)
class Target:
    """What the output of the network stands for: a class, by its sign, or a standardised number.

    Attributes
    ----------
    name : str
        Column.
    classes : tuple of two str or None
        Labels of -1 and +1; None for regression.
    mean, scale : float
        Of the target's training rows for regression, 0 and 1 for classes.
    """

    name: str
    classes: tuple[str, str] | None
    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def fit(cls, table: Table, name: str, task: str, rows: Iterable[int]) -> Target:
        """Learn the target from a table without missing targets; mean and deviation from `rows`."""
        numbers, labels = table.numbers(name), _labels(table, name)
        if len(labels) < 2:
            what = f"holds only {labels[0][0]!r}" if labels else "has no values"
            raise InvalidInputError(f"target {name!r} of {table.path!r} {what}; there is nothing to learn")
        if task == "classification" or (task == "auto" and (numbers is None or len(labels) == 2)):
            if len(labels) > 2:
                raise _too_many_classes(table, name, labels, numeric=numbers is not None)
            return cls(name, (labels[0][0], labels[1][0]))
        training = table.all_numbers(name)[list(rows)]
        scale = float(training.std())
        if training.min() == training.max() or scale == 0.0:
            raise InvalidInputError(f"target {name!r} is constant in the {len(training)} training rows")
        return cls(name, None, float(training.mean()), scale)

    def encode(self, table: Table) -> FloatArray:
        """Return -1 and +1, nan for other labels; or standardised numbers."""
        if self.classes is None:
            return (table.all_numbers(self.name) - self.mean) / self.scale
        codes: dict[float | str | None, float] = {_key(label): sign for label, sign in self._signs()}
        keys = (None if entry is None else _key(entry) for entry in table.column(self.name))
        return np.array([codes.get(key, math.nan) for key in keys])

    def decode(self, outputs: FloatArray) -> list[str] | FloatArray:
        """Return the labels or numbers that the outputs of the network stand for."""
        if self.classes is None:
            return outputs * self.scale + self.mean
        return [self.classes[int(output > 0.0)] for output in outputs]

    def score(self, outputs: FloatArray, target: FloatArray) -> float:
        """Return the accuracy, or R^2: nan where the encoded target is constant."""
        if self.classes is not None:
            return float(np.mean(np.where(outputs > 0.0, 1.0, -1.0) == target))
        spread = float(np.sum((target - target.mean()) ** 2))
        return 1.0 - float(np.sum((target - outputs) ** 2)) / spread if spread > 0.0 else math.nan

    def _signs(self) -> Iterable[tuple[str, float]]:
        return zip(self.classes or (), (-1.0, 1.0), strict=True)


def _key(label: str) -> float | str:
    number = _number(label)
    return label if number is None or math.isnan(number) else number


def _labels(table: Table, name: str) -> list[tuple[str, int]]:
    """Return the distinct labels as first written, with their counts; "1" and "1.0" are one."""
    entries = [entry for entry in table.column(name) if entry is not None]
    counts = Counter(map(_key, entries))
    written: dict[float | str, str] = {}
    for entry in entries:
        written.setdefault(_key(entry), entry)
    keys = sorted(counts, key=lambda key: (isinstance(key, str), key))
    return [(written[key], counts[key]) for key in keys]


def _too_many_classes(table: Table, name: str, labels: list[tuple[str, int]], *, numeric: bool) -> InvalidInputError:
    shown = ", ".join(f"{label!r} ({count})" for label, count in labels[:_MAX_LISTED])
    more = f", and {len(labels) - _MAX_LISTED} more" if len(labels) > _MAX_LISTED else ""
    advice = " or use --task regression" if numeric else ""
    return InvalidInputError(
        f"target {name!r} of {table.path!r} has {len(labels)} classes, this version trains on two: "
        f"{shown}{more}; keep the rows of two classes{advice}"
    )


# -- training -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Holdout:
    """Which rows are held out: enough to find the same ones again."""

    seed: int
    test_size: float

    def split(self, n: int) -> tuple[list[int], list[int]]:
        """Return training and test rows of n."""
        order = np.random.default_rng(self.seed).permutation(n).tolist()
        # Rounded, because (1 - 0.9) * 10 is a little less than 1.
        n_train = int(round((1.0 - self.test_size) * n, 9))
        return order[:n_train], order[n_train:]


@dataclass(frozen=True, eq=False, repr=False)
class Training:
    """A table made ready: X with the constant column, y, and what encoded them."""

    X: FloatArray
    y: FloatArray
    test: Table
    encoder: TabularEncoder
    target: Target
    holdout: Holdout
    n_unlabelled: int

    def model(self, result: QSDPResult) -> TabularModel:
        """Return the model of a `result` trained on X and y."""
        return TabularModel(
            encoder=self.encoder,
            target=self.target,
            network=result.network,
            covariance=result.covariance,
            loss=result.problem.loss.name,
            beta=result.problem.beta,
            lower_bound=result.certificate.lower_bound,
            objective=result.certificate.objective,
            holdout=self.holdout,
            digest=_digest(self.X, self.y),
        )


def prepare(
    table: Table,
    target: str,
    *,
    task: str = "auto",
    drop: Sequence[str] = (),
    test_size: float = 0.2,
    seed: int = 0,
) -> Training:
    """Split a table into training and test rows and encode the former.

    Parameters
    ----------
    table : Table
    target : str
        Column to predict; rows in which it is missing are left out and counted.
    task : {"auto", "classification", "regression"}
        "auto" is classification for a target that is not numeric or has exactly two values.
    drop : sequence of str
        Columns that are not used.
    test_size : float
        Share of the rows that is held out, 0 <= test_size < 1.
    seed : int
        Of the choice of those rows.
    """
    check_choice("task", task, TASKS)
    table.require([target, *drop])
    if target in drop:
        raise InvalidInputError(f"column {target!r} cannot be both the target and dropped")
    labelled = table.known(target)
    holdout = Holdout(seed, test_size)
    train, test = holdout.split(len(labelled))
    if len(labelled) >= 2 > len(train):
        raise InvalidInputError(
            f"{table.path!r} has {len(labelled)} rows, {len(train)} of them for training; at least 2 needed"
        )
    encoded_target = Target.fit(labelled, target, task, train)
    y = encoded_target.encode(labelled.take(train))
    if encoded_target.classes is not None and len(set(y)) < 2:
        raise InvalidInputError(
            f"the {len(train)} training rows hold only one class of target {target!r}; "
            "choose another seed or a smaller test size"
        )
    names = [name for name in table.columns if name != target and name not in drop]
    encoder = TabularEncoder.fit(labelled, names, train)
    if not encoder.columns:
        raise InvalidInputError(f"{table.path!r} has no column left to learn from besides the target {target!r}")
    X = append_constant(encoder.encode(labelled.take(train)))
    return Training(
        X, y, labelled.take(test), encoder, encoded_target, holdout, n_unlabelled=len(table) - len(labelled)
    )


def _digest(X: FloatArray, y: FloatArray) -> str:
    digest = hashlib.sha256(repr(X.shape).encode())
    for array in (X, y):
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


# -- the model ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class TabularModel:
    """A network with the encoding of its table, its certificate, and the covariance it was sampled from.

    Attributes
    ----------
    encoder : TabularEncoder
    target : Target
    network : BilinearNetwork
        Its inputs are the encoded columns and a constant one.
    covariance : SignCovariance
    loss : str
    beta : float
    lower_bound : float
        Bound on the objective of every network, in units of the encoded target.
    objective : float or None
        That of the network in the same units; None where it was resampled without the data.
    holdout : Holdout
    digest : str
        sha256 of the encoded training rows.
    """

    encoder: TabularEncoder
    target: Target
    network: BilinearNetwork
    covariance: SignCovariance
    loss: str
    beta: float
    lower_bound: float
    objective: float | None
    holdout: Holdout
    digest: str

    def outputs(self, table: Table) -> FloatArray:
        """Return the outputs of the network, shape (n,)."""
        return self.network.predict(append_constant(self.encoder.encode(table)))

    def predict(self, table: Table) -> list[str] | FloatArray:
        """Return a label or a number for each row."""
        return self.target.decode(self.outputs(table))

    def resample(self, n_neurons: int, random_state: RandomState = None) -> TabularModel:
        """Return a model with another network from the same covariance; its objective is not known.

        See `evaluated`.
        """
        network = sample_network(self.covariance, n_neurons, random_state)
        return replace(self, network=network, objective=None)

    def evaluated(self, table: Table) -> TabularModel:
        """Return the model with its objective on the table it was trained on; another one is refused."""
        table.require([self.target.name])
        labelled = table.known(self.target.name)
        training = labelled.take(self.holdout.split(len(labelled))[0])
        X, y = self._encode_quietly(training)
        if _digest(X, y) != self.digest:
            raise InvalidInputError(
                f"{table.path!r} is not the file this model was trained on: its training rows differ; "
                "the objective is known on those only"
            )
        problem = TrainingProblem(X, y, beta=self.beta, loss=self.loss)
        return replace(self, objective=problem.objective(self.network))

    def _encode_quietly(self, table: Table) -> tuple[FloatArray, FloatArray]:
        # Unseen values mean other data, which the digest tells.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QSDPWarning)
            return append_constant(self.encoder.encode(table)), self.target.encode(table)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to `path`, readable by `load_model`."""
        network, covariance = self.network, self.covariance
        header = {
            "encoder": self.encoder.state(),
            "target": asdict(self.target),
            "holdout": asdict(self.holdout),
            "covariance": {name: getattr(covariance, name) for name in _COVARIANCE_CHECKS},
            **{name: getattr(self, name) for name in ("loss", "beta", "lower_bound", "objective", "digest")},
        }
        arrays: Arrays = {
            "U": pack_signs(network.U),
            "V": pack_signs(network.V),
            "alpha": network.alpha[:1] if network.shared_alpha else network.alpha,
            "Q": covariance.Q,
        }
        write_archive(path, _KIND, header, arrays)


def load_model(path: str | os.PathLike[str]) -> TabularModel:
    """Return the model that `TabularModel.save` wrote to `path`.

    Raises
    ------
    StorageError
        The file is damaged or no model; everything in it is checked.
    """
    header, arrays = read_archive(path, _KIND)
    try:
        return _model(header, arrays)
    except (InvalidInputError, StorageError) as error:
        raise StorageError(f"{os.fspath(path)!r} is no valid model: {error}") from None


# -- strict reading of what is stored -----------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0.0


def _is_magnitude(value: Any) -> bool:
    return _is_number(value) and value >= 0.0


def _is_text(value: Any) -> bool:
    # Lone surrogates cannot be printed.
    return type(value) is str and not re.search("[\ud800-\udfff]", value)


def _are_values(value: Any) -> bool:
    if type(value) is not list or not 2 <= len(value) <= _MAX_VALUES:
        return False
    texts = value if value[-1] is not None else value[:-1]
    return all(_is_text(text) for text in texts) and len(set(texts)) == len(texts)


def _are_classes(value: Any) -> bool:
    if value is None:
        return True
    # A missing target is no class, and "1" is the class "1.0".
    return _are_values(value) and None not in value and len(value) == 2 == len(set(map(_key, value)))


Checks = Mapping[str, Callable[[Any], bool]]

_ENCODER_CHECKS: Checks = {
    "columns": lambda value: type(value) is list and len(value) > 0,
    "dropped": lambda value: type(value) is dict and all(map(_is_text, [*value, *value.values()])),
}
_COLUMN_CHECKS: Mapping[str, Checks] = {
    "numeric": {
        "kind": _is_text,
        "name": _is_text,
        "median": _is_number,
        "mean": _is_number,
        "scale": _is_positive,
    },
    "categorical": {"kind": _is_text, "name": _is_text, "values": _are_values},
}
_TARGET_CHECKS: Checks = {
    "name": _is_text,
    "classes": _are_classes,
    "mean": _is_number,
    "scale": _is_positive,
}
_HOLDOUT_CHECKS: Checks = {
    "seed": lambda value: type(value) is int and value >= 0,
    "test_size": lambda value: _is_magnitude(value) and value < 1.0,
}
_COVARIANCE_CHECKS: Checks = {
    "constant": _is_positive,
    "rho": _is_magnitude,
    "method": lambda value: _is_text(value) and value in SHAPINGS,
    "residual": _is_magnitude,
}
_MODEL_CHECKS: Checks = {
    "encoder": lambda value: type(value) is dict,
    "target": lambda value: type(value) is dict,
    "holdout": lambda value: type(value) is dict,
    "covariance": lambda value: type(value) is dict,
    "loss": lambda value: _is_text(value) and value in LOSSES,
    "beta": _is_magnitude,
    "lower_bound": _is_number,
    "objective": lambda value: value is None or _is_magnitude(value),
    "digest": lambda value: _is_text(value) and re.fullmatch("[0-9a-f]{64}", value) is not None,
}
_ARRAYS = {"U", "V", "alpha", "Q"}

#: What rounding may do to a covariance; anything more is no covariance.
_TOLERANCE = 1e-6


def _checked(what: str, state: Any, checks: Checks) -> dict[str, Any]:
    if type(state) is not dict or state.keys() != checks.keys():
        raise StorageError(f"{what} must have exactly the fields {_listing(sorted(checks))}")
    for name, is_valid in checks.items():
        if not is_valid(state[name]):
            raise StorageError(f"{what}: {name} cannot be {state[name]!r:.60}")
    return dict(state)


def _column(state: Any) -> NumericColumn | CategoricalColumn:
    kind = state.get("kind") if type(state) is dict else None
    if type(kind) is not str or kind not in _COLUMN_CHECKS:
        raise StorageError(f"encoder: no such kind of column: {kind!r:.60}")
    fields = _checked("column", state, _COLUMN_CHECKS[kind])
    if kind == "numeric":
        return NumericColumn(fields["name"], fields["median"], fields["mean"], fields["scale"])
    return CategoricalColumn(fields["name"], tuple(fields["values"]))


def _target(state: Any) -> Target:
    fields = _checked("target", state, _TARGET_CHECKS)
    if fields["classes"] is None:
        return Target(**fields)
    if (fields["mean"], fields["scale"]) != (0.0, 1.0):
        raise StorageError("target: classes are not standardised")
    return Target(fields["name"], tuple(fields["classes"]))


def _model(header: dict[str, Any], arrays: dict[str, Any]) -> TabularModel:
    fields = _checked("header", header, _MODEL_CHECKS)
    if arrays.keys() != _ARRAYS:
        raise StorageError(f"arrays must be {_listing(sorted(_ARRAYS))}")
    encoder, target = TabularEncoder.from_state(fields["encoder"]), _target(fields["target"])
    names = {column.name for column in encoder.columns}
    if target.name in names or not names.isdisjoint(encoder.dropped):
        raise StorageError("the target, the columns and the dropped columns overlap")
    if target.classes is None and get_loss(fields["loss"]).labels:
        raise StorageError(f"loss {fields['loss']!r} is one of labels, the target is a number")
    # The bound is rounded down, the objective to nearest.
    objective = fields["objective"]
    if objective is not None and fields["lower_bound"] > objective * (1.0 + _TOLERANCE):
        raise StorageError("the lower bound is above the objective")
    dimension = encoder.width + 1
    return TabularModel(
        encoder=encoder,
        target=target,
        network=_network(arrays, dimension),
        covariance=_covariance(fields["covariance"], arrays["Q"], dimension),
        holdout=Holdout(**_checked("holdout", fields["holdout"], _HOLDOUT_CHECKS)),
        **{name: fields[name] for name in ("loss", "beta", "lower_bound", "objective", "digest")},
    )


def _network(arrays: dict[str, Any], dimension: int) -> BilinearNetwork:
    U, V = (unpack_signs(arrays[name], dimension) for name in ("U", "V"))
    alpha = arrays["alpha"]
    if alpha.dtype != np.float64 or alpha.shape not in {(1,), (len(U),)}:
        raise StorageError(f"alpha of shape {alpha.shape} does not fit {len(U)} neurons")
    return BilinearNetwork(U, V, np.broadcast_to(alpha, (len(U),)).copy())


def _covariance(state: Any, Q: Any, dimension: int) -> SignCovariance:
    fields = _checked("covariance", state, _COVARIANCE_CHECKS)
    if Q.dtype != np.float64 or Q.shape != (2 * dimension, 2 * dimension):
        raise StorageError(f"covariance of shape {Q.shape} does not fit {dimension} inputs")
    if not np.all(np.isfinite(Q)) or not np.array_equal(Q, Q.T):
        raise StorageError("covariance is not symmetric and finite")
    diagonal_error = float(np.abs(Q.diagonal() - 1.0).max())
    min_eigenvalue = float(scipy.linalg.eigvalsh(Q, subset_by_index=[0, 0])[0])
    if diagonal_error > _TOLERANCE or min_eigenvalue < -_TOLERANCE * len(Q):
        raise StorageError("covariance does not have a unit diagonal or is not positive semidefinite")
    return SignCovariance(Q=read_only(Q), diagonal_error=diagonal_error, min_eigenvalue=min_eigenvalue, **fields)
