"""What the estimators' defaults promise: units do not matter, nor the order of rows, nor what a table holds."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

from qsdp import (
    QSDPWarning,
    QuantizedNetworkClassifier,
    QuantizedNetworkRegressor,
)
from qsdp.datasets import load_bundled
from qsdp.exceptions import InvalidInputError, InvalidTypeError

Classifier, Regressor = QuantizedNetworkClassifier, QuantizedNetworkRegressor
both = pytest.mark.parametrize("estimator", [Classifier, Regressor], ids=["classifier", "regressor"])

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 4))
REAL = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * RNG.standard_normal(90)
CODES = (REAL > 0).astype(int)


def target(estimator: type) -> np.ndarray:
    return REAL if estimator is Regressor else CODES


def outputs(model: Any, data: Any) -> np.ndarray:
    return model.decision_function(data) if hasattr(model, "decision_function") else model.predict(data)


def predictions(estimator: type, data: Any, y: Any = None, at: Any = None, **fit: Any) -> np.ndarray:
    """Return what an estimator gives for the data it is fitted to: of defaults, but for the seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the certified gap is|with beta=", category=QSDPWarning)
        model = estimator(random_state=0).fit(data, target(estimator) if y is None else y, **fit)
    return outputs(model, data if at is None else at)


@functools.cache
def plain(estimator: type) -> np.ndarray:
    """Return what an estimator gives for the data as they are."""
    return predictions(estimator, X)


# -- units -------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("scales", [[1e-6, 1.0, 1e6, 3.0], 1e100], ids=["unequal", "huge"])
def test_units_of_the_columns_do_not_matter(estimator: type, scales: Any) -> None:
    moved = np.multiply(scales, X)
    np.testing.assert_allclose(predictions(estimator, moved), plain(estimator), rtol=1e-6, atol=1e-7)


@both
def test_origins_of_the_columns_do_not_matter(estimator: type) -> None:
    np.testing.assert_allclose(predictions(estimator, X + 1000.0), plain(estimator), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("estimator", [Regressor])
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 1000.0), (1e-6, 5.0), (1e6, -1e6)])
def test_units_of_the_target_do_not_matter(estimator: type, scale: float, offset: float) -> None:
    moved = (predictions(estimator, X, offset + scale * REAL) - offset) / scale
    np.testing.assert_allclose(moved, plain(estimator), rtol=1e-5, atol=1e-6)


@both
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e8 + 0.1])
def test_constant_columns_do_not_matter(estimator: type, constant: float) -> None:
    data = np.c_[np.full(90, constant), X]
    np.testing.assert_allclose(predictions(estimator, data), plain(estimator), rtol=1e-9, atol=1e-9)


@both
def test_only_constant_columns(estimator: type) -> None:
    constant = predictions(estimator, np.ones((90, 2)))
    assert np.ptp(constant) == 0.0
    if estimator is Regressor:
        assert constant[0] == pytest.approx(REAL.mean(), abs=1e-9)


def test_constant_targets() -> None:
    with pytest.warns(QSDPWarning, match="zero network is globally optimal"):
        model = Regressor(random_state=0).fit(X, np.full(90, -7.7))
    np.testing.assert_allclose(model.predict(X), -7.7, rtol=1e-12)


# -- rows ----------------------------------------------------------------------------------------------

COUNTS = np.random.default_rng(1).integers(0, 4, len(X))


@both
def test_weights_are_repeated_rows(estimator: type) -> None:
    y = target(estimator)
    weighted = estimator(random_state=0).fit(X, y, COUNTS)
    by_rows = estimator(random_state=0).fit(np.repeat(X, COUNTS, axis=0), np.repeat(y, COUNTS))
    assert weighted.result_.problem.beta == pytest.approx(by_rows.result_.problem.beta, rel=1e-9)
    np.testing.assert_allclose(outputs(weighted, X), outputs(by_rows, X), rtol=1e-6, atol=1e-6)


@both
def test_the_order_of_rows_does_not_matter(estimator: type) -> None:
    order = np.random.default_rng(2).permutation(len(X))
    moved = predictions(estimator, X[order], target(estimator)[order], at=X)
    np.testing.assert_allclose(moved, plain(estimator), rtol=1e-6, atol=1e-6)


# -- tables --------------------------------------------------------------------------------------------


def table(frames: Any) -> Any:
    """Return the columns with text, truth values and missing entries beside them."""
    age = X[:, 0].copy()
    age[::7] = np.nan
    return frames.DataFrame(
        {
            "age": age,
            "size": X[:, 1],
            "city": np.array(["Oslo", "Paris", "Rome"])[np.digitize(X[:, 2], [-0.5, 0.5])].tolist(),
            "member": (X[:, 3] > 0).tolist(),
        }
    )


@both
@pytest.mark.parametrize("encoding", ["standard", "thresholds", "both", "auto"])
def test_tables_of_text_and_missing_entries(estimator: type, encoding: str) -> None:
    data, y = table(pd), target(estimator)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="X .*feature names")
        model = estimator(encoding=encoding, random_state=0, beta="2%").fit(data, y)
    assert model.feature_names_in_.tolist() == ["age", "size", "city", "member"]
    assert np.all(np.isfinite(outputs(model, data)))
    assert model.score(data, y) > (0.75 if y is CODES else 0.3)


@pytest.mark.parametrize("frames", ["pandas", "polars"])
@pytest.mark.parametrize("encoding", ["standard", "none"])
def test_columns_of_a_data_frame_are_found_by_name(frames: str, encoding: str) -> None:
    data, y = table(pytest.importorskip(frames)), target(QuantizedNetworkRegressor)
    if encoding == "none":
        data = data[["size"]].assign(other=1.0) if frames == "pandas" else data[["size"]].with_columns(other=1.0)
    model = QuantizedNetworkRegressor(beta="2%", encoding=encoding, random_state=0).fit(data, y)
    names = list(data.columns)
    expected = model.predict(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error", QSDPWarning)
        np.testing.assert_array_equal(model.predict(data[names[::-1]]), expected)
        assert model.score(data[names[::-1]], y) == model.score(data, y)
        assert np.array_equal(model.training_problem(data[names[::-1]], y).X, model.result_.problem.X)
    wide = data.assign(id=0) if frames == "pandas" else data.with_columns(id=0)
    ignored = "the data frame: ignored the columns that were not used in training: 'id'"
    with pytest.warns(QSDPWarning, match=ignored):
        np.testing.assert_array_equal(model.predict(wide[["id", *names[::-1]]]), expected)
    if encoding != "none":
        with pytest.warns(QSDPWarning, match=ignored):
            np.testing.assert_array_equal(model.encoder_.transform(wide), model.encoder_.transform(data))
    with pytest.raises(InvalidInputError, match=r"the data frame has no column 'size'; it has '.*'"):
        model.predict(wide[["id", *(name for name in names if name != "size")]])
    if frames == "pandas":
        with pytest.raises(InvalidInputError, match="must be distinct; repeated: 'size'"):
            model.predict(data[[*names, "size"]])


@pytest.mark.parametrize("encoding", ["auto", "standard"])
def test_fit_tells_once_of_categories_too_rare_for_a_bit(encoding: str) -> None:
    rng = np.random.default_rng(0)
    number = np.arange(120) % 60
    data = pd.DataFrame({"size": rng.normal(size=120), "town": [f"town {k}" for k in number]})
    model = Regressor(8, beta="5%", encoding=encoding, refine="none", random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Towns that did not matter would be left out, and not be told of.
        model.fit(data, 0.3 * np.sign(np.sin(3.0 * data["size"])) + 3.0 * (number < 10))
    assert len([one for one in caught if "none of the bits: 'town' 20 " in str(one.message)]) == 1
    with pytest.warns(QSDPWarning, match="max_categories=50 bits.* set none of the bits"):
        model.predict(data.assign(town="town 9"))


@both
def test_categories_that_fit_did_not_see_are_warned_of(estimator: type) -> None:
    data = table(pd)
    model = estimator(beta="2%", random_state=0).fit(data, target(estimator))
    with pytest.warns(QSDPWarning, match="'city' 90 .*'Lima'"):
        assert np.all(np.isfinite(model.predict(data.assign(city="Lima"))))


@both
def test_missing_entries_of_arrays(estimator: type) -> None:
    holes = np.where(np.random.default_rng(3).random(X.shape) < 0.1, np.nan, X)
    model = estimator(beta="2%", random_state=0).fit(holes, target(estimator))
    assert model.score(holes, target(estimator)) > (0.75 if estimator is Classifier else 0.3)
    # Also where there were none in training.
    whole = estimator(beta="2%", random_state=0).fit(X, target(estimator))
    assert np.all(np.isfinite(outputs(whole, holes)))
    with pytest.raises(InvalidInputError, match="NaN"):
        estimator(encoding="none").fit(holes, target(estimator))
    with pytest.raises(InvalidInputError, match="infinity"):
        estimator().fit(np.where(np.isnan(holes), np.inf, holes), target(estimator))


@both
def test_transformers_as_encodings(estimator: type) -> None:
    y = target(estimator)
    model = estimator(encoding=StandardScaler(), beta="5%", random_state=0).fit(X, y)
    by_hand = estimator(encoding="none", beta="5%", random_state=0).fit(StandardScaler().fit_transform(X), y)
    np.testing.assert_allclose(
        outputs(model, X), outputs(by_hand, StandardScaler().fit_transform(X)), rtol=1e-9, atol=1e-9
    )
    assert not hasattr(model.encoding, "mean_"), "the parameter itself is not fitted"
    for wrong in (3, np.log):
        with pytest.raises(InvalidInputError, match=rf"'encoding' parameter of {estimator.__name__} must be .*Got"):
            estimator(encoding=wrong).fit(X, y)
    with pytest.raises(InvalidTypeError, match="encoding must be"):
        estimator(encoding=StandardScaler).fit(X, y)
    with pytest.raises(InvalidInputError, match="encoding must be one of"):
        estimator(encoding="onehot").fit(X, y)


@both
def test_the_automatic_encoding_is_additive_where_a_network_can_be(estimator: type) -> None:
    y = target(estimator)
    automatic, additive = (
        estimator(encoding=encoding, beta="5%", random_state=0).fit(X, y) for encoding in ("auto", "additive")
    )
    np.testing.assert_array_equal(outputs(automatic, X), outputs(additive, X))
    for options in ({"levels": 3}, {"activation": "relu_like"}, {"loss": "absolute"}):
        automatic, standard = (
            estimator(8, encoding=encoding, beta="5%", random_state=0, **options).fit(X, y)
            for encoding in ("auto", "standard")
        )
        np.testing.assert_array_equal(outputs(automatic, X), outputs(standard, X))
        with pytest.raises(InvalidInputError, match='for encoding="additive"'):
            estimator(encoding="additive", **options).fit(X, y)


# -- how good ------------------------------------------------------------------------------------------


@both
def test_an_interrupted_polish_leaves_a_fitted_estimator(estimator: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("qsdp.refinement.polishing.Run", interrupted)
    with pytest.warns(QSDPWarning) as caught:
        model = estimator(encoding="standard", beta="2%", random_state=0).fit(X, target(estimator))
    assert [
        str(warning.message).startswith("interrupted:") for warning in caught if "gap" not in str(warning.message)
    ] == [True]
    assert model.certificate_.lower_bound <= model.certificate_.objective
    assert np.all(np.isfinite(outputs(model, X)))


@both
@pytest.mark.parametrize("encoding", ["additive", "standard"])
def test_a_fit_that_fails_leaves_the_model_of_the_fit_before(
    estimator: type, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = estimator(encoding=encoding, beta="2%", random_state=0).fit(X, target(estimator))
    before = outputs(model, X)
    others = np.where(REAL > 1.0, "large", "small") if estimator is Classifier else 1000.0 * REAL + 7.0

    def interrupted(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(InvalidInputError, match="y must have 90 rows"):
        model.fit(X[:, :2], others[:5])
    monkeypatch.setattr("qsdp.estimators.quantized_network.run_pipeline", interrupted)
    for data in (X, X[:, :2]):
        with pytest.raises(KeyboardInterrupt):
            model.fit(data, others)
        np.testing.assert_array_equal(outputs(model, X), before)
    fresh = estimator(encoding=encoding, beta="2%", random_state=0)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, others)
    assert vars(fresh) == vars(estimator(encoding=encoding, beta="2%", random_state=0))


def test_a_regressor_of_diabetes() -> None:
    # Ridge regression has 0.4 to 0.5.
    X_train, X_test, y_train, y_test = train_test_split(*load_bundled("diabetes"), random_state=0)
    assert Regressor(random_state=0).fit(X_train, y_train).score(X_test, y_test) >= 0.3


# -- the warning about the gap -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss", ["squared", "logistic", "cross_entropy", "hinge", "squared_hinge", "absolute", "huber"]
)
def test_classes_of_fewer_samples_than_folds(loss: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.repeat([0, 1, 2], [20, 18, 2])
    model = QuantizedNetworkClassifier(loss=loss, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.45
    assert model.decision_function(X).shape == (40, 3)


def test_small_tables_use_one_thread() -> None:
    threads = []

    def watched(data: np.ndarray) -> np.ndarray:
        threads.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
        return data

    with threadpool_limits(2):
        Regressor(encoding=FunctionTransformer(watched), beta=1.0, random_state=0).fit(X, REAL)
    assert set(threads) == {1}
