"""Encodings of columns: every transformer of scikit-learn, every kind of table, and any output configuration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    StandardScaler,
    TargetEncoder,
)

import qsdp
from qsdp.encoding import TableEncoder
from qsdp.exceptions import InvalidInputError, InvalidTypeError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3)).round(1)
LABELS = np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0.0, "up", "down")
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
TEXT = FRAME.assign(side=np.where(X[:, 2] > 0.0, "left", "right"))

#: Fast parameters of the four estimators.
FAST: dict[str, Any] = {"n_neurons": 20, "refine": "none", "random_state": 0}
ESTIMATORS: dict[str, Any] = {
    "Classifier": FAST | {"beta": "5%"},
    "Regressor": FAST | {"beta": "5%"},
}
pytestmark = pytest.mark.filterwarnings("ignore::qsdp.exceptions.QSDPWarning")


def outputs_of(estimator: str, table: Any, **parameters: Any) -> Any:
    """Return the outputs of an estimator fitted to a table, for the rows of the table."""
    target = LABELS if estimator.startswith("Classifier") else X[:, 0] * X[:, 1] + X[:, 2]
    cls = getattr(qsdp, f"QuantizedNetwork{estimator}")
    model = cls(**(ESTIMATORS[estimator] | parameters)).fit(table, target)
    return model.decision_function(table) if estimator.startswith("Classifier") else model.predict(table)


@pytest.mark.parametrize(
    ("estimator", "encoding", "table"),
    [
        ("Classifier", "auto", X),
        ("Classifier", "auto", FRAME),
        ("Classifier", "auto", pl.DataFrame(TEXT.to_dict("list"))),
        ("Regressor", "standard", X),
        ("Classifier", "both", FRAME),
        ("Regressor", TableEncoder("thresholds"), pl.DataFrame(TEXT.to_dict("list"))),
    ],
    ids=lambda one: str(one) if isinstance(one, (str, TableEncoder)) else type(one).__module__.partition(".")[0],
)
def test_fits_do_not_depend_on_the_output_configuration(estimator: str, encoding: Any, table: Any) -> None:
    plain = outputs_of(estimator, table, encoding=encoding)
    for library in ("pandas", "polars"):
        with sklearn.config_context(transform_output=library):
            assert_array_equal(outputs_of(estimator, table, encoding=encoding), plain)


@pytest.mark.parametrize(
    ("estimator", "encoding", "library"),
    [
        ("Classifier", OneHotEncoder(handle_unknown="ignore"), "pandas"),
        ("Regressor", KBinsDiscretizer(n_bins=3), "polars"),
    ],
)
def test_sparse_outputs_do_not_depend_on_the_configuration(estimator: str, encoding: Any, library: str) -> None:
    plain = outputs_of(estimator, X, encoding=encoding)
    model = getattr(qsdp, f"QuantizedNetwork{estimator}")(**(ESTIMATORS[estimator] | {"encoding": encoding}))
    model.fit(X, LABELS if estimator.startswith("Classifier") else X[:, 0] * X[:, 1] + X[:, 2])
    with sklearn.config_context(transform_output=library):
        assert_array_equal(outputs_of(estimator, X, encoding=encoding), plain)
        predict = model.decision_function if estimator.startswith("Classifier") else model.predict
        assert_array_equal(predict(X), plain)


BOOLEANS = FRAME.assign(a=pd.array([None, True] * 30, dtype="boolean"))
DATED = TEXT.assign(day=pd.date_range("2024-01-01", periods=60))


@pytest.mark.parametrize("frame", [TEXT, DATED], ids=["text", "dates"])
@pytest.mark.parametrize("lists", [False, True])
def test_arrays_of_objects_are_encoded_like_frames(lists: bool, frame: pd.DataFrame) -> None:
    plain = outputs_of("Classifier", frame, encoding="standard")
    rows = frame.to_numpy().tolist() if lists else frame.to_numpy()
    assert_array_equal(outputs_of("Classifier", rows, encoding="standard"), plain)


@pytest.mark.parametrize("kind", ["Table", "RecordBatch"])
def test_tables_of_arrow_are_encoded_like_frames(kind: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    arrow, reordered = (getattr(pyarrow, kind).from_pandas(frame) for frame in (DATED, DATED[DATED.columns[::-1]]))
    plain = outputs_of("Classifier", DATED)
    assert_array_equal(outputs_of("Classifier", arrow), plain)
    model = qsdp.QuantizedNetworkClassifier(**ESTIMATORS["Classifier"]).fit(DATED, LABELS)
    assert_array_equal(model.decision_function(reordered), plain)
    encoder = TableEncoder().fit(arrow)
    assert_array_equal(encoder.transform(reordered), TableEncoder().fit_transform(DATED))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (TEXT, r"column 'side' of X must hold numbers; got (str|object): encoding='auto' takes such columns"),
        (DATED[["a", "day"]], "column 'day' of X must hold numbers; got datetime64.*: encoding='auto'"),
        (FRAME.where(X > -0.5), r"column 'a' of X contains NaN, that is, missing entries: encoding='auto'"),
        (HOLES, r"X contains NaN, that is, missing entries: encoding='auto' takes such columns"),
        (FRAME.where(X > -0.5, np.inf), "Input X contains infinity"),
        (pd.concat([TEXT, TEXT], axis=1), r"column 'side' of X must hold numbers; got (str|object): encoding='auto'"),
        (BOOLEANS, "column 'a' of X contains NaN, that is, missing entries: encoding='auto' takes such columns"),
    ],
    ids=["text", "dates", "missing", "missing in an array", "infinity", "names that repeat", "missing booleans"],
)
def test_numbers_alone_without_an_encoder(wrong: Any, message: str) -> None:
    model = qsdp.QuantizedNetworkRegressor(encoding="none", **ESTIMATORS["Regressor"])
    with pytest.raises(InvalidInputError, match=message):
        model.fit(wrong, X[:, 0])
    if wrong.shape[1] == 3:
        model.fit(FRAME if isinstance(wrong, pd.DataFrame) else X, X[:, 0])
        with pytest.raises(ValueError, match=message):
            model.predict(wrong)


def dense(transformer: Any, table: Any) -> Any:
    """Return the columns that a transformer makes of a table, dense."""
    made = transformer.fit_transform(table, LABELS)
    return made.toarray() if hasattr(made, "toarray") else np.asarray(made, dtype=np.float64)


@pytest.mark.parametrize(
    ("encoding", "table"),
    [
        (OneHotEncoder(handle_unknown="ignore"), X),
        (KBinsDiscretizer(n_bins=3), X),
        (FunctionTransformer(), FRAME),
        (FunctionTransformer(), pl.DataFrame(FRAME.to_dict("list"))),
        (SimpleImputer(), HOLES),
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), HOLES),
        (OneHotEncoder(), TEXT[["side"]].to_numpy()),
        (make_column_transformer((OneHotEncoder(), ["side"]), remainder="passthrough", sparse_threshold=1.0), TEXT),
        (make_column_transformer((OneHotEncoder(), [3]), remainder="passthrough"), TEXT.to_numpy()),
        (SelectKBest(k=1), X),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("estimator", ["Classifier"])
def test_a_transformer_is_fitted_as_in_a_pipeline(estimator: str, encoding: Any, table: Any) -> None:
    expected = outputs_of(estimator, dense(sklearn.clone(encoding), table), encoding="none")
    assert_allclose(outputs_of(estimator, table, encoding=encoding), expected, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # newer releases seed the encoder in another way
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_encodings_that_learn_from_targets_code_each_training_row_by_others(estimator: str) -> None:
    encoding = TargetEncoder(random_state=0)
    target = LABELS if estimator.startswith("Classifier") else X[:, 0] * X[:, 1] + X[:, 2]
    cls = getattr(qsdp, f"QuantizedNetwork{estimator}")
    model = cls(**(ESTIMATORS[estimator] | {"encoding": encoding})).fit(TEXT[["side"]], target)
    crossed = TargetEncoder(random_state=0).fit_transform(TEXT[["side"]], target)
    inputs = model.result_.problem.X[:, : crossed.shape[1]]
    assert_array_equal(inputs, crossed)
    # New rows are coded by all training rows, which gives other numbers.
    assert np.abs(model.encoder_.transform(TEXT[["side"]]) - inputs).max() > 1e-3


class Bare(BaseEstimator):
    """A transformer with neither `fit_transform` nor `set_output`."""

    def fit(self, X: Any, y: Any = None) -> Bare:
        assert len(y) == len(X)
        return self

    def transform(self, X: Any) -> Any:
        return 2.0 * X


class Dropping(Bare):
    """A transformer that loses rows."""

    def transform(self, X: Any) -> Any:
        return X[1:]


@pytest.mark.parametrize(
    ("encoding", "table", "error", "words"),
    [
        (StandardScaler(), HOLES, InvalidInputError, r"the output of encoding=StandardScaler\(\) must be finite"),
        (FunctionTransformer(), TEXT, InvalidTypeError, "must be a numeric array .* got text or dates, such as"),
        (Dropping(), X, InvalidInputError, r"encoding must keep all 60 rows of X; Dropping\(\) gives 59"),
        ("none", HOLES, InvalidInputError, "contains NaN"),
    ],
)
def test_outputs_that_are_no_inputs_are_refused(encoding: Any, table: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        outputs_of("Classifier", table, encoding=encoding)


def test_an_array_given_to_a_model_of_a_frame_has_one_warning() -> None:
    message = "X does not have valid feature names, but QuantizedNetworkClassifier was fitted with feature names"
    for encoding in ("standard", "none", TableEncoder()):
        parameters = ESTIMATORS["Classifier"] | {"encoding": encoding}
        model = qsdp.QuantizedNetworkClassifier(**parameters).fit(FRAME, LABELS)
        with pytest.warns(UserWarning, match=message) as caught:
            assert_array_equal(model.predict(X), model.predict(FRAME))
        assert len(caught) == 1


def test_targets_are_checked_alike_for_frames_and_arrays() -> None:
    for table in (X, FRAME):
        model = qsdp.QuantizedNetworkClassifier()
        with pytest.raises(InvalidInputError, match="y must have 60 rows, as X has; got 5"):
            model.fit(table, LABELS[:5])
        with pytest.raises(InvalidInputError, match="y is not valid: Input y contains NaN"):
            model.fit(table, np.where(X[:, 0] > 0.0, np.nan, 1.0))
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            model.fit(table, None)
        with pytest.raises(InvalidTypeError, match=r"y is not valid: sparse targets must be dense; use y\.toarray"):
            qsdp.QuantizedNetworkRegressor().fit(table, csr_array(X[:, :1]))
    with pytest.raises(InvalidInputError, match="X must have at least one row"):
        qsdp.QuantizedNetworkClassifier().fit(FRAME.iloc[:0], LABELS[:0])


@pytest.mark.parametrize("encoding", ["auto", "standard", "thresholds", "both"])
def test_large_tables_of_all_kinds_of_columns(encoding: str) -> None:
    n, rng = 8000, np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "key": [f"id{i:05d}" for i in range(n)],
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(n), unit="h"),
            "colour": rng.choice(["red", "blue"], n),
            "nothing": [None] * n,
            "size": rng.normal(size=n),
        },
        index=10**6 + rng.permutation(n),
    )
    labels = (table["size"] > 0.3) ^ (table["colour"] == "red")
    model = qsdp.QuantizedNetworkClassifier(10, beta=0.1, encoding=encoding, refine="none", random_state=0)
    model.fit(table, labels)
    inputs = model.encoder_.inputs_ if encoding == "auto" else model.encoder_
    assert {"colour", "size"} <= {one.column for one in inputs.expressions_}
    assert set(inputs.dropped_) >= {"key", "nothing"}
    # The rows' labels play no part.
    assert_array_equal(model.predict(table), model.predict(table.reset_index(drop=True)))


@pytest.mark.parametrize("kind", ["Int128", "UInt128"])
def test_wide_integers_of_polars_are_numbers(kind: str) -> None:
    numbers = pl.Series(range(60), dtype=getattr(pl, kind))
    wide = pl.DataFrame({"a": X[:, 0], "n": numbers})
    plain = wide.cast({"n": pl.Int64})
    for cls in (qsdp.QuantizedNetworkClassifier, qsdp.QuantizedNetworkRegressor):
        expected = cls(**ESTIMATORS["Classifier"]).fit(plain, plain["n"] // 30).predict(plain)
        assert_array_equal(cls(**ESTIMATORS["Classifier"]).fit(wide, plain["n"] // 30).predict(wide), expected)
        targets = (plain["n"] // 30).cast(numbers.dtype)
        assert_array_equal(cls(**ESTIMATORS["Classifier"]).fit(wide, targets).predict(wide), expected)
