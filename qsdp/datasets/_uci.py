"""Sets of the UCI Machine Learning Repository: one declaration for each set, one parser for all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from qsdp._validation import FloatArray, check_choice
from qsdp.datasets._dataset import AnyArray, Dataset, Task
from qsdp.datasets._fetch import RawFile, read_raw
from qsdp.exceptions import DatasetError

MISSING = "?"
_ENCODINGS = {
    "rank": f"rank among the column's sorted strings, {MISSING!r} included",
    "onehot": f"a 0/1 column for each string, {MISSING!r} included",
}


@dataclass(frozen=True)
class UCISpec:
    """The declaration of one set.

    Attributes
    ----------
    files : tuple of RawFile
        Read one after the other.
    columns : tuple of str
        The columns of the files in order, the class among them.
    target : str
        The column that holds the class.
    classes : tuple of str
        The class labels as the files have them. Two: the negative one, then the positive one. More: the
        class of 0, 1, ...
    n_samples : int
        The number of rows.
    title, citation, licence : str
        For people.
    categorical : frozenset of str
        The columns that hold symbols; all others hold numbers.
    dropped : mapping of str to str
        The columns left out, each with the reason.
    separator : str or None
        What stands between two fields; None for any run of blanks.
    """

    files: tuple[RawFile, ...]
    columns: tuple[str, ...]
    target: str
    classes: tuple[str, ...]
    n_samples: int
    title: str
    citation: str
    licence: str = "CC BY 4.0"
    categorical: frozenset[str] = frozenset()
    dropped: Mapping[str, str] = field(default_factory=dict)
    separator: str | None = ","

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that are kept, without the class."""
        return tuple(name for name in self.columns if name != self.target and name not in self.dropped)

    @property
    def task(self) -> Task:
        """What the class is."""
        return "binary" if len(self.classes) == 2 else "multiclass"


_VEHICLE_FILES = {
    "xaa.dat": "091ec73ae54031aea8432d00caaef101a445eae13196039db9079b0eac13331d",
    "xab.dat": "3fbc55ac03592425521df18d59ba2ed7ddca626b22f84f5fc3253ebda6b82145",
    "xac.dat": "43536f3aadb2a285fa2ba6e13dacc7013c2298fbd728f011e88669bb44856b8d",
    "xad.dat": "371b0de9ba3564d8220d8ad17c5f2f886bafebd2c486de1b0273ceb0c24d3035",
    "xae.dat": "503f9c87feb46dfaab6e3c4275e121640a39c0b30b29f120e679ce8e3fbc7be2",
    "xaf.dat": "460e14ec4746a1464d7a03671e09310695c348d6831452cb53172734a6a70531",
    "xag.dat": "c279f285c353beaa661168e68feeac726cd446f076f717662635267d89006601",
    "xah.dat": "467735394d1a058e15da81d51fd8e1147d425e7f53392ac6b8e730a34a02049e",
    "xai.dat": "feba2f3aad6db050bc7acbd224cd4e0d32846865ab5cfc53cc59baea2e1ff484",
}

SPECS: Mapping[str, UCISpec] = MappingProxyType(
    {
        "breast-cancer": UCISpec(
            files=(
                RawFile(
                    "uci/breast-cancer/breast-cancer.data",
                    "breast-cancer/breast-cancer.data",
                    "ca7d3fa97b62ff967b6894ffbb3acaaf4a51062e0149e5950b3ad6f685970b65",
                ),
            ),
            columns=(
                "class",
                "age",
                "menopause",
                "tumor-size",
                "inv-nodes",
                "node-caps",
                "deg-malig",
                "breast",
                "breast-quad",
                "irradiat",
            ),
            target="class",
            classes=("no-recurrence-events", "recurrence-events"),
            categorical=frozenset(
                {
                    "age",
                    "menopause",
                    "tumor-size",
                    "inv-nodes",
                    "node-caps",
                    "deg-malig",
                    "breast",
                    "breast-quad",
                    "irradiat",
                }
            ),
            n_samples=286,
            title="recurrence (+1) or not (-1) of breast cancer from 9 categorical attributes",
            citation=(
                "M. Zwitter, M. Soklic. Breast Cancer. UCI Machine Learning Repository, 1988. Thanks go to "
                "M. Zwitter and M. Soklic of the University Medical Centre, Institute of Oncology, "
                "Ljubljana, Yugoslavia, for providing the data."
            ),
        ),
        "ionosphere": UCISpec(
            files=(
                RawFile(
                    "uci/ionosphere/ionosphere.data",
                    "ionosphere/ionosphere.data",
                    "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
                ),
            ),
            columns=(*(f"a{i}" for i in range(1, 35)), "class"),
            target="class",
            classes=("b", "g"),
            dropped={"a2": "constant 0"},
            n_samples=351,
            title="good (+1) or bad (-1) radar returns from the ionosphere, 17 complex pulses",
            citation=(
                "V. G. Sigillito, S. P. Wing, L. V. Hutton, K. B. Baker. Classification of radar returns "
                "from the ionosphere using neural networks. Johns Hopkins APL Technical Digest 10, 262-266, "
                "1989. UCI Machine Learning Repository (Ionosphere)."
            ),
        ),
        "credit-approval": UCISpec(
            files=(
                RawFile(
                    "uci/credit-approval/crx.data",
                    "credit-screening/crx.data",
                    "fff49bc186cbddb3ace7371d40d9fbbb3af4f126019c13ff3f562249b1454f4d",
                ),
            ),
            columns=(*(f"A{i}" for i in range(1, 16)), "class"),
            target="class",
            classes=("-", "+"),
            categorical=frozenset({"A1", "A4", "A5", "A6", "A7", "A9", "A10", "A12", "A13"}),
            n_samples=690,
            title="credit cards granted (+1) or not (-1) from 6 continuous and 9 categorical attributes",
            citation=(
                "J. R. Quinlan. Simplifying decision trees. International Journal of Man-Machine Studies 27, "
                "221-234, 1987. UCI Machine Learning Repository (Credit Approval)."
            ),
        ),
        "vehicle": UCISpec(
            files=tuple(
                RawFile(f"uci/vehicle/{name}", f"statlog/vehicle/{name}", sha256)
                for name, sha256 in _VEHICLE_FILES.items()
            ),
            columns=(
                "compactness",
                "circularity",
                "distance-circularity",
                "radius-ratio",
                "pr-axis-aspect-ratio",
                "max-length-aspect-ratio",
                "scatter-ratio",
                "elongatedness",
                "pr-axis-rectangularity",
                "max-length-rectangularity",
                "scaled-variance-major-axis",
                "scaled-variance-minor-axis",
                "scaled-radius-of-gyration",
                "skewness-major-axis",
                "skewness-minor-axis",
                "kurtosis-minor-axis",
                "kurtosis-major-axis",
                "hollows-ratio",
                "class",
            ),
            target="class",
            classes=("bus", "opel", "saab", "van"),
            separator=None,
            n_samples=846,
            title="four kinds of vehicle from 18 measures of their silhouettes",
            citation=(
                "J. P. Siebert. Vehicle recognition using rule based methods. Turing Institute Research "
                "Memorandum TIRM-87-018, 1987. UCI Machine Learning Repository (Statlog Vehicle). The "
                "data come from the Turing Institute, Glasgow, Scotland (P. Mowforth, B. Shepherd), which "
                "asks to be acknowledged."
            ),
        ),
    }
)


def load_uci(name: str, *, encoding: str = "rank") -> Dataset:
    """Load a set of the UCI Machine Learning Repository.

    The files are taken from ``$QSDP_DATA/uci/<set>/<file>`` when the environment variable ``QSDP_DATA`` is
    set; otherwise they are downloaded once into the user's cache folder. Their checksums are verified.

    Parameters
    ----------
    name : {"breast-cancer", "credit-approval", "ionosphere", "vehicle"}
        The set. The positive class is "recurrence-events", "+" and "g" for the first three, which are
        binary; the classes of "vehicle" are 0 to 3 in alphabetical order. The second attribute of
        "ionosphere" is constant 0 and dropped.
    encoding : {"rank", "onehot"}, default "rank"
        How categorical attributes become numbers. "rank" gives the sizes of the paper (9, 15, 33 and 18
        columns): a value becomes its rank, from 0, among the column's distinct strings in sorted order,
        which is not always the natural one ("5-9" comes after "45-49"). "onehot" gives a column of 0 and 1
        for each distinct string. In both, a missing value "?" is a value of its own. Continuous attributes
        are taken as they are, missing ones replaced by the median of the column over all rows, training
        and test alike.

    Returns
    -------
    Dataset
        The set, with its source, citation and licence in `description`.

    Raises
    ------
    DatasetError
        If a file is not found, cannot be downloaded, or is not the expected one.

    Examples
    --------
    >>> from qsdp.datasets import load_uci
    >>> load_uci("ionosphere")  # doctest: +SKIP
    Dataset('ionosphere', X (351, 33), y (351,), binary)
    """
    spec = SPECS[check_choice("name", name, SPECS)]
    check_choice("encoding", encoding, _ENCODINGS)
    rows = [row for file in spec.files for row in parse_rows(spec, *read_raw(file))]
    X, feature_names = encode_features(spec, rows, encoding)
    return Dataset(
        name=name,
        X=X,
        y=encode_target(spec, rows),
        feature_names=feature_names,
        target_names=spec.classes,
        task=spec.task,
        description=_describe(name, spec, rows, encoding),
    )


class Row(NamedTuple):
    """One line of a file: where it stands, for errors, and its fields."""

    where: str
    fields: dict[str, str]


def parse_rows(spec: UCISpec, path: Path, text: str) -> list[Row]:
    """Split `text` into rows with the columns of `spec`; only trailing blank lines are forgiven."""
    rows = []
    for number, line in enumerate(text.rstrip().split("\n"), start=1):
        where = f"{path}, line {number}"
        fields = [part.strip() for part in line.split(spec.separator)]
        if len(fields) != len(spec.columns):
            raise DatasetError(f"{where}: expected {len(spec.columns)} fields, found {len(fields)}")
        if "" in fields:
            raise DatasetError(f"{where}: {spec.columns[fields.index('')]} is empty")
        rows.append(Row(where, dict(zip(spec.columns, fields, strict=True))))
    return rows


def encode_features(spec: UCISpec, rows: list[Row], encoding: str) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the matrix of features and the names of its columns."""
    blocks: list[FloatArray] = []
    names: list[str] = []
    for feature in spec.features:
        if feature not in spec.categorical:
            numbers = np.array([_number(row, feature) for row in rows])
            blocks.append(np.where(np.isnan(numbers), np.nanmedian(numbers), numbers))
            names.append(feature)
            continue
        values = sorted({row.fields[feature] for row in rows})
        rank = {value: position for position, value in enumerate(values)}
        ranks = np.array([rank[row.fields[feature]] for row in rows])
        if encoding == "rank":
            blocks.append(ranks.astype(np.float64))
            names.append(feature)
        else:
            blocks.append(np.eye(len(values))[ranks])
            names.extend(f"{feature}={value}" for value in values)
    return np.column_stack(blocks), tuple(names)


def encode_target(spec: UCISpec, rows: list[Row]) -> AnyArray:
    """Return -1.0 and +1.0 for two classes, integers from 0 for more."""
    for row in rows:
        label = row.fields[spec.target]
        if label not in spec.classes:
            known = ", ".join(map(repr, spec.classes))
            raise DatasetError(f"{row.where}: {spec.target} is {label!r}, expected one of {known}")
    labels = np.array([spec.classes.index(row.fields[spec.target]) for row in rows], dtype=np.int64)
    return labels if spec.task == "multiclass" else 2.0 * labels - 1.0


def _number(row: Row, column: str) -> float:
    text = row.fields[column]
    if text == MISSING:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in text:  # float() also takes "nan", "inf" and "1_000"
        raise DatasetError(f"{row.where}: {column} is {text!r}, expected a number or {MISSING!r}")
    return number


def _describe(name: str, spec: UCISpec, rows: list[Row], encoding: str) -> str:
    missing = [[feature for feature in spec.features if row.fields[feature] == MISSING] for row in rows]
    source = spec.files[0].url.rsplit("/", 1)[0]
    lines = [f"{name}: {spec.title}.", f"Source: {source}", spec.citation, f"Licence: {spec.licence}."]
    if spec.categorical:
        how = _ENCODINGS[encoding]
        lines.append(f"Encoding of the {len(spec.categorical)} categorical attributes: {how}.")
    lines.extend(f"Dropped: {column} ({reason})." for column, reason in spec.dropped.items())
    counts = [len(features) for features in missing if features]
    lines.append(f"Missing values: {sum(counts)} in {len(counts)} rows." if counts else "Missing values: none.")
    if any(set(features) - spec.categorical for features in missing):
        lines.append("Missing continuous values: replaced by the column's median over all rows.")
    return "\n".join(lines)
