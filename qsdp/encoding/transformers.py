"""Scikit-learn transformers that encode the columns of a table as inputs of a network."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from qsdp._utils.option_fields import StoredArguments
from qsdp._utils.stored import are_texts
from qsdp._utils.validation import check_choice, check_sample_weight, errors_of, warn
from qsdp.encoding.expressions import Expression
from qsdp.encoding.fitting import EncodingRule
from qsdp.encoding.reading_rule import (
    CATEGORY,
    EXAMPLES,
    PLURALS,
    as_table,
    chosen_columns,
    is_missing,
    kind_of,
    read_column,
    row_name,
)
from qsdp.encoding.table_encoding import Encoding
from qsdp.encoding.used_columns import columns_of_training, is_frame, listing
from qsdp.exceptions import InvalidInputError, InvalidTypeError, StorageError

__all__ = ["TableEncoder"]

_UNKNOWN = ("warn", "ignore", "error")


class TableEncoder(StoredArguments, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Inputs of a network for a table of numbers, categories and missing entries.

    Numbers are standardised, become thermometer bits, or both. Each category becomes a bit; two categories become one
    bit. Columns that do not vary have no input.

    Parameters
    ----------
    encoding : {"standard", "thresholds", "both"}, default="both"
        Encoding of numbers: standardised (zero mean, unit variance); thermometer bits, which are whether the number is
        above each of some thresholds; or both.
    n_thresholds : int, default=3
        Maximum number of thresholds per column, >= 1. A column of k distinct values has at most k - 1.
    strategy : {"quantile", "uniform"}, default="quantile"
        Divide columns into bins of equal weight, or of equal width. Thresholds that divide the rows alike are merged.
    bits : {"binary", "bipolar"}, default="binary"
        Bits as 0 and 1, or as -1 and +1.
    missing : {"indicator", "fill"}, default="indicator"
        "indicator" adds a bit for missing entries to every column of numbers that has some in `fit`. In all other bits,
        a missing number counts as the median of its column, even if the column had none in `fit`.
    categorical_features : "from_dtype" or array-like, default="from_dtype"
        Columns that hold categories, as a boolean mask, indices or names. "from_dtype": the type of a column decides,
        or its entries if they are text or Python objects: numbers, dates (days since 1970), true/false or categories.
    max_categories : int, default=50
        Maximum number of categories per column that have a bit, >= 2: the most frequent ones. The others set no bit.
    handle_unknown : {"warn", "ignore", "error"}, default="warn"
        What to do about categories in `transform` that were absent, or too rare for a bit, in `fit`: no bit is set.
    cut : float, optional
        Number of standard deviations from the mean, > 0, at which numbers are clipped: quadratic functions extrapolate
        badly to outliers, and bounded inputs suit fixed-point arithmetic.
    dtype : data type, default="float64"
        Data type of the output; integers only if all inputs are bits, of which ``numpy.int8`` takes a byte each.

    Attributes
    ----------
    encoding_ : Encoding
        The encoding itself. It does not need scikit-learn and can be stored as JSON.
    expressions_ : tuple of Expression
        Definition of every input.
    is_binary_ : bool
        Whether every input is a bit, all as 0 and 1 or all as -1 and +1.
    dropped_ : dict of str to str
        Columns without an input, and why: "constant", "no values", or "no gain" if an estimator left them out.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    Notes
    -----
    A missing number counts as the median of its column; a missing category sets no bit. If a column has missing entries
    in `fit`, another bit marks them (``missing="indicator"``). The kind of a column is decided in `fit`; `transform`
    reads any table in it, even a single row. If no column varies, the first one becomes an input that is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.encoding import TableEncoder
    >>> X = np.array([[20.0, "Paris"], [30.0, "Rome"], [np.nan, "Oslo"], [50.0, "Rome"]], dtype=object)
    >>> encoder = TableEncoder(n_thresholds=1).fit(X)
    >>> encoder.get_feature_names_out(["age", "city"]).tolist()
    ['age', 'age > 25', 'age is missing', 'city == Oslo', 'city == Paris', 'city == Rome']
    >>> encoder.transform([[50.0, "Rome"]]).round(2)
    array([[1.61, 1.  , 0.  , 0.  , 0.  , 1.  ]])

    Thermometer bits of numbers alone, in bytes:

    >>> encoder = TableEncoder("thresholds", n_thresholds=2, dtype="int8").fit([[1.0], [2.0], [2.0], [5.0]])
    >>> encoder.get_feature_names_out(["age"]).tolist()
    ['age > 1.5', 'age > 3.5']
    >>> encoder.transform([[1.0], [2.0], [9.0]])
    array([[0, 0],
           [1, 0],
           [1, 1]], dtype=int8)
    """

    n_features_in_: int

    def __init__(
        self,
        encoding: str = EncodingRule.encoding,
        *,
        n_thresholds: int = EncodingRule.n_thresholds,
        strategy: str = EncodingRule.strategy,
        bits: str = EncodingRule.bits,
        missing: str = EncodingRule.missing,
        categorical_features: Any = "from_dtype",
        max_categories: int = EncodingRule.max_categories,
        handle_unknown: str = "warn",
        cut: float | None = EncodingRule.cut,
        dtype: Any = "float64",
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn the encoding of the columns of X, shape (n, d), with optional row weights (n,) >= 0; y is ignored.

        A row of weight k counts as k equal rows; a row of weight zero is left out.
        """
        rule = self._rule()
        raw = _columns_of(self._checked(X, reset=True))
        names = self._names().tolist()
        kinds = self._kinds(raw, names)
        table = [self._read(*each) for each in zip(raw, names, kinds, strict=True)]
        weights = check_sample_weight(sample_weight, len(table[0]))
        if weights is not None:
            positive = weights > 0.0
            table, weights = [column[positive] for column in table], weights[positive]
        self.encoding_, self.dropped_ = rule.fit(table, names, weights, kinds)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes of a copy, a pickle or a file, with the encoding as JSON text."""
        state = dict(super().__getstate__())
        if "encoding_" in state:
            state["encoding_"] = json.dumps(self.encoding_.to_state(), allow_nan=False)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes; raise an error if they are not those of an encoder, as in a forged file."""
        learned = {name: state[name] for name in ("encoding_", "dropped_") if name in state}
        super().__setstate__({name: value for name, value in state.items() if name not in learned})
        if learned:
            self._rule()
            encoding = Encoding.from_state(json.loads(learned["encoding_"]))
            self.restore(encoding, learned["dropped_"], named="feature_names_in_" in state)
            encoding._checked_type(self.dtype)
            self.get_params(deep=False)

    def restore(self, encoding: Encoding, dropped: dict[str, str], *, named: bool) -> None:
        """Set the fitted attributes to those of an equal encoder, whose training data were `named` or not."""
        if not are_texts(dropped):
            raise StorageError("dropped_ must be texts by the names of columns")
        names = [column.name for column in encoding.columns]
        self.encoding_, self.dropped_, self.n_features_in_ = encoding, dropped, len(names)
        if named:
            self.feature_names_in_ = np.array(names, dtype=object)

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Return the inputs of the network, shape (n, width).

        Warns
        -----
        QSDPWarning
            Some categories are unknown, with ``handle_unknown="warn"``.
        """
        check_is_fitted(self)
        return self._encoded(self._checked(X, reset=False))

    def _encoded(self, X: Any, *, warned: bool = False) -> npt.NDArray[Any]:
        """Return `transform` of a table that has been checked; `warned` tells whether `fit` has read it."""
        table = self._table(X, warned=warned)
        self._report_unseen(table)
        return self.encoding_.encode(table, self.dtype)

    def _report_unseen(self, table: list[npt.NDArray[Any]]) -> None:
        """Report entries of a table outside the categories of the columns in use, by the rule `handle_unknown`."""
        if self.handle_unknown != "ignore" and (unseen := self.encoding_.unseen(table)):
            listed = ", ".join(f"{name!r} {len(some)} (such as {some[0]!r:.60})" for name, some in unseen.items())
            message = (
                "entries outside the categories of their columns (new, missing, or too rare in fit for one of the "
                f"max_categories={self.max_categories} bits) set none of the bits: {listed}"
            )
            self._report(message)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the inputs, such as ``age``, ``age > 42.5``, ``city == Paris``, ``age is missing``.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of X, if it had none in `fit`.
        """
        check_is_fitted(self)
        names = self._names(input_features).tolist()
        return np.array(self.encoding_.renamed(names).names, dtype=object)

    @property
    def expressions_(self) -> tuple[Expression, ...]:
        """Definition of every input; see `Expression`."""
        check_is_fitted(self)
        return self.encoding_.expressions

    @property
    def is_binary_(self) -> bool:
        """Whether every input is a bit, all as 0 and 1 or all as -1 and +1."""
        check_is_fitted(self)
        return self.encoding_.is_binary

    def _names(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        return np.asarray(_check_feature_names_in(self, input_features), dtype=object)

    def _rule(self) -> EncodingRule:
        """Return the rule of the checked parameters."""
        check_choice("handle_unknown", self.handle_unknown, _UNKNOWN)
        return EncodingRule(**{field.name: getattr(self, field.name) for field in fields(EncodingRule)})

    def _table(self, X: Any, *, warned: bool = False) -> list[npt.NDArray[Any]]:
        """Convert the columns in use to arrays of numbers or symbols, in the kinds of training; others to NaN.

        If `warned`, `fit` has warned of the entries of this table.
        """
        raw, names, columns = _columns_of(X), self._names().tolist(), self.encoding_.columns
        # Arrays throughout: rows of a pandas Series are indexed by labels.
        table: list[npt.NDArray[Any]] = [np.broadcast_to(np.nan, X.shape[0])] * len(raw)
        for position in self.encoding_.used:
            column = columns[position]
            known = column.categories or ()
            table[position] = self._read(raw[position], names[position], column.kind, known, warned=warned)
        return table

    def _read(
        self, column: Any, name: str, kind: str, known: Collection[Any] = (), *, warned: bool = False
    ) -> npt.NDArray[Any]:
        """Convert a column to numbers or symbols, and warn of entries that are not of its kind.

        Raises
        ------
        InvalidInputError
            More than half of the entries are not of this kind: the column is another one than in training.
        """
        declared = not isinstance(self.categorical_features, str)
        entries, odd = read_column(column, name, kind, known, declared=declared)
        if odd and not warned:
            row, text = odd[0]
            what, such = f"column {name!r} holds {PLURALS[kind]}", f"such as {text!r:.60} in {row_name(column, row)}"
            if len(odd) > sum(not is_missing(entry) for entry in entries.tolist()):
                raise InvalidInputError(
                    f"{what} written like {EXAMPLES[kind]!r}, in which most of its entries here cannot be read, "
                    f"{such}; write the column as in training, or fit the model to a table that is written like this"
                )
            quoted = listing(dict.fromkeys(f"{entry:.60}" for _, entry in odd))
            self._report(
                f"{what}, but {len(odd)} of {len(entries)} entries are not {PLURALS[kind]}, {such}; they count as "
                f"missing: {quoted}"
            )
        return entries

    def _report(self, message: str) -> None:
        if self.handle_unknown == "error":
            raise InvalidInputError(message)
        if self.handle_unknown == "warn":
            warn(message)

    def _kinds(self, raw: list[Any], names: list[str]) -> list[str]:
        """Decide the kind of each column."""
        if isinstance(self.categorical_features, str):
            check_choice("categorical_features", self.categorical_features, ["from_dtype"])
            return [kind_of(column, name) for column, name in zip(raw, names, strict=True)]
        kinds = []
        for column, name, symbolic in zip(raw, names, chosen_columns(self.categorical_features, names), strict=True):
            kinds.append(CATEGORY if symbolic else kind_of(column, name, declared=True))
            if kinds[-1] == CATEGORY and not symbolic:
                entries, _ = read_column(column, name, CATEGORY, declared=True)
                first = next(entry for entry in entries.tolist() if entry is not None)
                raise InvalidTypeError(
                    f"column {name!r} must hold numbers, or be among categorical_features; got text, such as "
                    f"{first!r:.60}"
                )
        return kinds

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Return an array or data frame with entries of any type, in the columns of training unless `reset`."""
        X = as_table(X)
        if not reset:
            X = columns_of_training(X, self, self.encoding_.used)
        entries = {"skip_check_array": True} if is_frame(X) else {"dtype": None, "ensure_all_finite": False}
        with errors_of("X"):
            return validate_data(self, X, reset=reset, **entries)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def _columns_of(X: Any) -> list[Any]:
    """Split an array or a data frame into its columns."""
    if 0 in X.shape:
        raise InvalidInputError(f"X must have at least one row and one column; got shape {X.shape}")
    if isinstance(X, np.ndarray):
        return list(X.T)
    return [_safe_indexing(X, position, axis=1) for position in range(X.shape[1])]
