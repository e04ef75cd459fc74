"""Loader of all UCI sets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from qsdp._utils.validation import check_choice
from qsdp.datasets import _fetch
from qsdp.datasets._dataset import Dataset
from qsdp.datasets._uci import binary, multiclass, paper
from qsdp.datasets._uci.encoding import ENCODINGS, count_missing, encode_features, encode_target
from qsdp.datasets._uci.rows import ParsedRows, parse_rows
from qsdp.datasets._uci.spec import UCISpec

SPECS: Mapping[str, UCISpec] = MappingProxyType({**paper.SPECS, **binary.SPECS, **multiclass.SPECS})


def load_uci(name: str, *, encoding: str = "rank") -> Dataset:
    """Load a set of the UCI Machine Learning Repository.

    The files are read from ``$QSDP_DATA/uci/<set>/<file>`` if the environment variable ``QSDP_DATA`` is set; otherwise
    they are downloaded once into the user's cache folder. Their checksums are verified.

    Parameters
    ----------
    name : str
        A name from the table below. Two classes are coded as -1.0 and +1.0; the table gives the positive one. More
        classes are coded as 0, 1, ... in the order of `Dataset.target_names`.
    encoding : {"rank", "onehot"}, default "rank"
        How categorical attributes become numbers. With "rank", a value becomes its rank, from 0, among the distinct
        strings of the column in sorted order. This is not always the natural order: "5-9" comes after "45-49". The
        sizes in the table are for "rank". With "onehot", each distinct string becomes a 0/1 column. In both cases, a
        missing value "?" is a value of its own. Missing continuous values become the median of the column over all
        rows, training and test alike.

    Returns
    -------
    Dataset
        The set, with its source, citation and licence in `description`. For "adult" and "letter",
        `Dataset.usual_split` returns the training and test rows of the literature.

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
    >>> from qsdp.datasets import load_uci
    >>> load_uci("ionosphere")  # doctest: +SKIP
    Dataset('ionosphere', X (351, 33), y (351,), binary)
    """
    spec = SPECS[check_choice("name", name, SPECS)]
    check_choice("encoding", encoding, ENCODINGS)
    rows = parse_rows(spec, map(_fetch.read_raw, spec.files))
    X, feature_names = encode_features(spec, rows, encoding)
    return Dataset(
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
    source = spec.files[0].url.rsplit("/", 1)[0]
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
