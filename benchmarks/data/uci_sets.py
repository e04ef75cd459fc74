"""Data sets of the UCI Machine Learning Repository: one declaration per set, and a common parser."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from qsdp._utils.validation import FloatArray, check_choice
from qsdp.datasets._dataset import AnyArray, Dataset, Task
from qsdp.datasets._fetch import RawFile, read_raw
from qsdp.exceptions import DatasetError

#: Address of the files whose declaration names no mirrors.
ARCHIVE = "https://archive.ics.uci.edu/ml/machine-learning-databases"
MISSING = "?"
ENCODINGS = {
    "rank": f"rank among the column's sorted strings, {MISSING!r} included",
    "onehot": f"a 0/1 column for each string, {MISSING!r} included",
}


@dataclass(frozen=True)
class UCISpec:
    """Declaration of a UCI data set: its files, columns and classes.

    Attributes
    ----------
    files : tuple of RawFile
        Files, concatenated in this order.
    columns : tuple of str
        Columns of the files in order, including the class.
    target : str
        Column of the class.
    classes : tuple of str
        Names of the classes: for two, the negative and the positive one; for more, those of 0, 1, ...
    n_samples : int
        Number of rows.
    title, citation, licence : str
        Parts of the description.
    labels : mapping of str to str
        Class of each label that differs from the class's name; several labels may have one class.
    categorical : tuple of str
        Columns of symbols; all others are numeric.
    dropped : mapping of str to str
        Columns that are left out, with the reason.
    separator : str or None
        Field separator; None for any run of blanks.
    first_lines : tuple of str
        Lines to skip if a file begins with one of them.
    n_train : int or None
        Number of leading rows that the literature uses for training; the others are for testing.
    note : str
        Further remarks for the description.
    """

    files: tuple[RawFile, ...]
    columns: tuple[str, ...]
    target: str
    classes: tuple[str, ...]
    n_samples: int
    title: str
    citation: str
    licence: str = "CC BY 4.0"
    labels: Mapping[str, str] = field(default_factory=dict)
    categorical: tuple[str, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    separator: str | None = ","
    first_lines: tuple[str, ...] = ()
    n_train: int | None = None
    note: str = ""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns that are used as features."""
        return tuple(name for name in self.columns if name != self.target and name not in self.dropped)

    @property
    def task(self) -> Task:
        """Task, "binary" or "multiclass", by the number of classes."""
        return "binary" if len(self.classes) == 2 else "multiclass"


def _declarations() -> dict[str, UCISpec]:
    """Read ``uci_sets.json``; an entry that is "like" an earlier one inherits the fields that it does not define."""

    def as_declared(entry: dict[str, Any]) -> Any:
        entry = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
        if "sha256" not in entry:
            return entry
        mirrors = entry.get("mirrors", (ARCHIVE,))
        urls = tuple(f"{mirror}/{entry['remote']}" for mirror in mirrors)
        return RawFile(entry["local"], urls, entry["sha256"])

    text = Path(__file__).with_suffix(".json").read_text("utf-8")
    entries: dict[str, dict[str, Any]] = {}
    for name, fields in json.loads(text, object_hook=as_declared).items():
        entries[name] = {**entries.get(fields.pop("like", ""), {}), **fields}
    return {name: UCISpec(**entry) for name, entry in entries.items()}


SPECS: Mapping[str, UCISpec] = MappingProxyType(_declarations())


@dataclass(frozen=True, eq=False, repr=False)
class UCISet(Dataset):
    """Data set of the UCI Machine Learning Repository.

    Attributes
    ----------
    n_train : int or None
        Number of leading rows that the literature uses for training; the other rows are for testing. None if there is
        no such split.
    """

    n_train: int | None = None


def load_uci(name: str, *, encoding: str = "rank") -> UCISet:
    """Load a data set of the UCI Machine Learning Repository.

    The files are read from ``$QSDP_DATA/uci/<set>/<file>`` if the environment variable ``QSDP_DATA`` is set; otherwise
    they are downloaded once into the user's cache folder by pooch. Their checksums are verified.

    Parameters
    ----------
    name : str
        A name from the table below. Two classes are coded as -1.0 and +1.0; the table gives the positive one. More
        classes are coded as 0, 1, ... in the order of `target_names`.
    encoding : {"rank", "onehot"}, default "rank"
        How categorical attributes become numbers. With "rank", a value becomes its rank, from 0, among the distinct
        strings of the column in sorted order. This is not always the natural order: "5-9" comes after "45-49". The
        sizes in the table are for "rank". With "onehot", each distinct string becomes a 0/1 column. In both cases, a
        missing value "?" is a separate value. Missing continuous values become the median of the column over all
        rows, training and test alike.

    Returns
    -------
    UCISet
        The set, with its source, citation and licence in `description`. For "adult" and "letter", the literature
        trains on the first `n_train` rows.

    Raises
    ------
    DatasetError
        A file is not found, cannot be downloaded, or does not have the expected contents.

    Notes
    -----
    ====================  =====  =======  ======================  =============================================
    name                   rows  columns  classes                 remarks
    ====================  =====  =======  ======================  =============================================
    "breast-cancer"         286        9  + recurrence-events     all categorical
    "ionosphere"            351       33  + g                     the second attribute is constant 0 and dropped
    "credit-approval"       690       15  + "+"                   9 categorical
    "vehicle"               846       18  4, in alphabetic order
    "adult"               48842       14  + >50K                  8 categorical; the files adult.data and
                                                                  adult.test one after the other
    "banknote"             1372        4  + 1
    "heart"                 270       13  + presence              3 categorical (chest-pain, resting-ecg, thal)
    "pima"                  768        8  + positive              zeros that stand for missing values are kept
    "spambase"             4601       57  + spam
    "glass"                 214        9  6, in the files' order  the running number is dropped
    "letter"              20000       16  26, A to Z
    "wine-quality"         6497       11  7, quality 3 to 9       the red wines, then the white ones
    "wine-quality-red"     1599       11  6, quality 3 to 8
    "wine-quality-white"   4898       11  7, quality 3 to 9
    ====================  =====  =======  ======================  =============================================

    The quality of a wine is its class + 3. These classes are ordered.

    Examples
    --------
    >>> from benchmarks.data.uci_sets import load_uci
    >>> load_uci("ionosphere")  # doctest: +SKIP
    Dataset('ionosphere', X (351, 33), y (351,), binary)
    """
    spec = SPECS[check_choice("name", name, SPECS)]
    check_choice("encoding", encoding, ENCODINGS)
    rows = parse_rows(spec, map(_read_text, spec.files))
    X, feature_names = encode_features(spec, rows, encoding)
    return UCISet(
        name=name,
        X=X,
        y=encode_target(spec, rows),
        feature_names=feature_names,
        target_names=spec.classes,
        task=spec.task,
        description=_describe(name, spec, rows, encoding),
        n_train=spec.n_train,
    )


def _describe(name: str, spec: UCISpec, rows: ParsedRows, encoding: str) -> str:
    source = spec.files[0].urls[0].rsplit("/", 1)[0]
    lines = [f"{name}: {spec.title}.", f"Source: {source}", spec.citation, f"Licence: {spec.licence}."]
    if spec.categorical:
        lines.append(f"Encoding of the {len(spec.categorical)} categorical attributes: {ENCODINGS[encoding]}.")
    lines.extend(f"Dropped: {column} ({reason})." for column, reason in spec.dropped.items())
    count, affected, continuous = count_missing(spec, rows)
    lines.append(f"Missing values: {count} in {affected} rows." if count else "Missing values: none.")
    if continuous:
        lines.append("Missing continuous values: replaced by the column's median over all rows.")
    if spec.note:
        lines.append(spec.note)
    if spec.n_train is not None:
        lines.append(f"Usual split: the first {spec.n_train} rows for training, the others for test.")
    return "\n".join(lines)


def _read_text(file: RawFile) -> tuple[Path, str]:
    path, content = read_raw(file)
    return path, content.decode("utf-8", errors="replace")


# -- parsing ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParsedRows:
    """Fields of all files by column, and the position of each row in its file.

    Attributes
    ----------
    columns : dict of str to list of str
        Fields of each column; equal strings are one object.
    starts : list of (int, Path, int)
        For each file, the index of its first row, its path, and the line of that row.
    """

    columns: dict[str, list[str]]
    starts: list[tuple[int, Path, int]]

    def where(self, index: int) -> str:
        """Return the file and line of a row, for error messages."""
        first, path, line = [start for start in self.starts if start[0] <= index][-1]
        return f"{path}, line {line + index - first}"


def parse_rows(spec: UCISpec, files: Iterable[tuple[Path, str]]) -> ParsedRows:
    """Split texts into rows with the columns of `spec`; blank lines are allowed only at the end."""
    columns: list[list[str]] = [[] for _ in spec.columns]
    starts: list[tuple[int, Path, int]] = []
    known: dict[str, str] = {}
    for path, text in files:
        lines = text.rstrip().split("\n")
        skipped = int(lines[0].strip() in spec.first_lines)
        if len(lines) == skipped:
            raise DatasetError(f"{path}: no rows after the first line")
        starts.append((len(columns[0]), path, 1 + skipped))
        for number, line in enumerate(lines[skipped:], start=1 + skipped):
            fields = [part.strip() for part in line.split(spec.separator)]
            if len(fields) != len(columns):
                raise DatasetError(f"{path}, line {number}: expected {len(columns)} fields, found {len(fields)}")
            if "" in fields:
                raise DatasetError(f"{path}, line {number}: {spec.columns[fields.index('')]} is empty")
            for column, entry in zip(columns, fields, strict=True):
                column.append(known.setdefault(entry, entry))
    return ParsedRows(dict(zip(spec.columns, columns, strict=True)), starts)


# -- encoding --------------------------------------------------------------------------------------------


def encode_features(spec: UCISpec, rows: ParsedRows, encoding: str) -> tuple[FloatArray, tuple[str, ...]]:
    """Encode the features as a matrix; also return the names of its columns."""
    encoded: list[FloatArray] = []
    names: list[str] = []
    for feature in spec.features:
        fields = rows.columns[feature]
        if feature not in spec.categorical:
            numbers = np.array([_number(rows, feature, index) for index in range(len(fields))])
            encoded.append(np.where(np.isnan(numbers), np.nanmedian(numbers), numbers))
            names.append(feature)
            continue
        values = sorted(set(fields))
        rank = {value: position for position, value in enumerate(values)}
        ranks = np.array([rank[value] for value in fields])
        if encoding == "rank":
            encoded.append(ranks.astype(np.float64))
            names.append(feature)
        else:
            encoded.append(np.eye(len(values))[ranks])
            names.extend(f"{feature}={value}" for value in values)
    return np.column_stack(encoded), tuple(names)


def encode_target(spec: UCISpec, rows: ParsedRows) -> AnyArray:
    """Encode two classes as -1.0 and +1.0, or more classes as integers from 0."""
    number = {name: index for index, name in enumerate(spec.classes)}
    number |= {label: number[name] for label, name in spec.labels.items()}
    labels = rows.columns[spec.target]
    for index, label in enumerate(labels):
        if label not in number:
            known = ", ".join(map(repr, sorted(number)))
            raise DatasetError(f"{rows.where(index)}: {spec.target} is {label!r}, expected one of {known}")
    classes = np.array([number[label] for label in labels], dtype=np.int64)
    return classes if spec.task == "multiclass" else 2.0 * classes - 1.0


def count_missing(spec: UCISpec, rows: ParsedRows) -> tuple[int, int, bool]:
    """Count missing values and rows with missing values; also return whether any is in a numeric column."""
    missing = {name: [field == MISSING for field in rows.columns[name]] for name in spec.features}
    affected = int(np.any(list(missing.values()), axis=0).sum())
    counts = {name: sum(flags) for name, flags in missing.items()}
    return sum(counts.values()), affected, any(counts[name] for name in counts if name not in spec.categorical)


def _number(rows: ParsedRows, column: str, index: int) -> float:
    text = rows.columns[column][index]
    if text == MISSING:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in text:  # float() also takes "nan", "inf" and "1_000"
        raise DatasetError(f"{rows.where(index)}: {column} is {text!r}, expected a number or {MISSING!r}")
    return number
