"""`save` of estimators and `qsdp.load`: equal predictions, small files, and what has no form in a file."""

from __future__ import annotations

import copy
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

import qsdp
from qsdp.encoding import AdditiveBlocks, Patches, TableEncoder, Windows
from qsdp.estimators.saving import TRUSTED
from qsdp.exceptions import InvalidInputError
from qsdp.export import to_c, to_js, to_onnx
from qsdp.losses import Absolute, CrossEntropy, Hinge, Huber, Logistic, Squared, SquaredHinge

Classifier, Regressor = qsdp.QuantizedNetworkClassifier, qsdp.QuantizedNetworkRegressor

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.exceptions.QSDPWarning")


def table(n: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40.0, 10.0, n), "city": rng.choice(["Oslo", "Rome", "Bonn"], n)})
    frame["old"] = rng.random(n) < 0.5
    frame.loc[3, "age"] = np.nan
    return frame


def numbers(n: int = 80) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, 3))


def images(n: int = 80) -> np.ndarray:
    return np.random.default_rng(0).random((n, 6, 6))


def series(n: int = 80) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, 2, 12))


def targets(kind: str, n: int = 80) -> Any:
    rng = np.random.default_rng(1)
    frame = table(n)
    score = np.where(frame.city == "Rome", 1.0, -1.0) * (frame.age.fillna(0.0) > 40.0) + 0.1 * rng.standard_normal(n)
    cut = np.digitize(score, [-0.3, 0.3])
    labels = {
        "text": np.array(["a", "bb", "ccc"])[cut],
        "objects": np.array(["a", "bb", "ccc"], dtype=object)[cut],
        "integers": cut + 5,
        "floats": cut + 0.0,
        "booleans": score > 0.0,
        "number": 1000.0 + 7.0 * score,
        "numbers": np.stack([score, 3.0 * score - 1.0], axis=1),
    }
    return labels[kind]


#: Rows, targets, and parameters that differ from the defaults, of estimators that together hold every trusted type.
CASES: dict[str, tuple[Callable[..., Any], str, dict[str, Any]]] = {
    "defaults": (table, "text", {}),
    "joint": (table, "objects", {"loss": CrossEntropy(), "n_neurons": 12}),
    "weighted": (table, "integers", {"loss": "logistic", "class_weight": {5: 1.0, 6: 2.0, np.int64(7): 1.0}}),
    "balanced": (table, "booleans", {"loss": Logistic(), "class_weight": "balanced"}),
    "weighted truth": (table, "booleans", {"class_weight": {False: 1.0, True: 2.0}}),
    "hinge": (table, "floats", {"loss": Hinge(), "activation": None}),
    "squared hinge": (table, "booleans", {"loss": SquaredHinge(), "encoding": "thresholds", "beta": "10%"}),
    "both": (table, "text", {"beta": np.float64(0.5), "encoding": "both"}),
    "huber": (table, "number", {"loss": Huber(delta=0.7), "activation": (0.5, 0.1, 0.2)}),
    "absolute": (table, "number", {"loss": Absolute(), "activation": qsdp.PolynomialActivation(0.1, 1.0, 0.0)}),
    "levels": (table, "numbers", {"loss": Squared(), "levels": 3, "time_limit": np.inf}),
    "generator": (table, "number", {"random_state": np.random.RandomState(0), "encoding": "standard"}),
    "no encoding": (numbers, "number", {"encoding": None, "constant_column": False}),
    "table encoder": (table, "number", {"encoding": TableEncoder("thresholds", n_thresholds=2, dtype=np.float32)}),
    "additive": (table, "text", {"encoding": "additive", "beta": "10%"}),
    "additive blocks": (table, "number", {"encoding": AdditiveBlocks(2, products="all", intercept="means")}),
    "images": (images, "text", {"encoding": Patches(size=[2, 3], regions=[2, 1]), "activation": None}),
    "series": (series, "number", {"encoding": Windows(size=4, segments=2, lags=(1, 2)), "activation": None}),
    "scaled": (numbers, "number", {"encoding": StandardScaler()}),
    "columns": (
        table, "text",
        {"encoding": ColumnTransformer([
            ("numbers", make_pipeline(SimpleImputer(add_indicator=True), MinMaxScaler()), ["age"]),
            ("categories", OneHotEncoder(handle_unknown="ignore"), ["city"]),
            ("missing", MissingIndicator(), slice(0, 1)),
        ], remainder="passthrough")},
    ),
    "nested": (table, "booleans", {"encoding": make_pipeline(TableEncoder("standard"), MaxAbsScaler())}),
    "ordinal": (
        table, "number",
        {"encoding": ColumnTransformer([("o", OrdinalEncoder(), ["city"])], sparse_threshold=0.0)},
    ),
    "union": (
        numbers, "number",
        {"encoding": FeatureUnion([
            ("bins", KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf")),
            ("components", PCA(2)), ("power", PowerTransformer()), ("quantiles", QuantileTransformer(n_quantiles=20)),
            ("robust", RobustScaler()), ("products", PolynomialFeatures(include_bias=False)),
            ("varying", VarianceThreshold()), ("same", FunctionTransformer()),
        ])},
    ),
}  # fmt: skip


@cache
def fitted(case: str) -> Any:
    rows, kind, options = CASES[case]
    estimator = Regressor if kind.startswith("number") else Classifier
    model = estimator(**{"random_state": 0, "beta": 0.5, "n_neurons": 20, **options})
    return model.fit(rows(), targets(kind))


def results(model: Any, case: str) -> dict[str, Any]:
    """Return what a model answers about rows that it was not fitted to."""
    X, answers = CASES[case][0](60), dict[str, Any]()
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        if hasattr(model, method):
            answers[method] = getattr(model, method)(X)
    if isinstance(model.encoder_, AdditiveBlocks):
        answers |= {"inputs": model.network_inputs(X).rows, "expression": model.to_expression()}
    elif case not in {"images", "series"}:
        answers |= {"inputs": model.network_inputs(X), "expression": model.to_expression()}
    if case not in {"images", "series"}:
        answers["main"] = model.effects(X).main
        # Inputs of other transformers may be made of several columns, whose contributions require the training data.
        if case not in {"additive blocks", "columns", "ordinal", "union"}:
            answers["contributions"] = model.contributions(X)
    answers["importances"] = getattr(model, "feature_importances_", None) if model.encoder_ is not None else 0
    return answers


@pytest.mark.parametrize("case", CASES)
def test_a_loaded_model_answers_bit_for_bit_alike(case: str, tmp_path: Path) -> None:
    model, path = copy.copy(fitted(case)), tmp_path / "model.qsdp"
    model.save(path)
    loaded = qsdp.load(path)
    assert type(loaded) is type(model)
    before, after = results(model, case), results(loaded, case)
    for name, expected in before.items():
        np.testing.assert_array_equal(after[name], expected)
        assert getattr(after[name], "dtype", None) == getattr(expected, "dtype", None)
    assert (loaded.certificate_, str(loaded.certificate_)) == (model.certificate_, str(model.certificate_))
    assert loaded.refined_ == model.refined_
    assert getattr(loaded, "classes_", np.zeros(0)).dtype == getattr(model, "classes_", np.zeros(0)).dtype
    assert loaded.__dict__.get("feature_names_in_") is None or [*loaded.feature_names_in_] == [*model.feature_names_in_]
    # A loaded model is saved like any other.
    loaded.save(tmp_path / "again.qsdp")
    assert (tmp_path / "again.qsdp").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("case", CASES)
def test_parameters_are_those_of_the_saved_model(case: str, tmp_path: Path) -> None:
    fitted(case).save(tmp_path / "model")
    loaded, original = qsdp.load(tmp_path / "model").get_params(), fitted(case).get_params()
    assert loaded.keys() == original.keys()
    for name, value in original.items():
        if name == "random_state" and case == "generator":
            assert loaded[name] is None
        elif hasattr(value, "get_params") or isinstance(value, list):
            assert repr(loaded[name]) == repr(value)
        else:
            assert loaded[name] == value or (value != value and loaded[name] != loaded[name])
            assert isinstance(value, (np.generic, type(loaded[name])))


def test_every_type_on_the_list_is_one_that_models_hold(tmp_path: Path) -> None:
    held: set[str] = set()
    for case in CASES:
        fitted(case).save(tmp_path / "model")
        with zipfile.ZipFile(tmp_path / "model") as archive:
            json.loads(
                archive.read("schema.json"),
                object_hook=lambda node: (
                    held.add(f"{node['__module__']}.{node['__class__']}")
                    if node.get("__loader__") == "ObjectNode"
                    else None
                ),
            )
    assert held == TRUSTED["ObjectNode"]


@pytest.mark.parametrize("case", ["defaults", "joint", "both", "huber", "levels", "nested"])
def test_exports_of_a_loaded_model_are_the_same(case: str, tmp_path: Path) -> None:
    model = fitted(case)
    model.save(tmp_path / "model.qsdp")
    loaded = qsdp.load(tmp_path / "model.qsdp")
    (before, after), names = [to_c(one) for one in (model, loaded)], ("header", "source")
    assert [getattr(after, name) for name in names] == [getattr(before, name) for name in names]
    assert to_js(loaded).source == to_js(model).source
    assert to_onnx(loaded).SerializeToString() == to_onnx(model).SerializeToString()


def test_files_are_small(tmp_path: Path) -> None:
    X, y = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
    Classifier(random_state=0).fit(X, y).save(tmp_path / "tumours")
    # A table like that of the census: numbers, categories of up to 40 values, two classes.
    rng = np.random.default_rng(0)
    n = 250
    census = pd.DataFrame({f"number {j}": rng.gamma(2.0, 10.0, n).round() for j in range(6)})
    for j, count in enumerate((2, 5, 6, 7, 9, 14, 16, 40)):
        census[f"category {j}"] = np.array([f"value {k} of {count}" for k in range(count)])[rng.integers(count, size=n)]
    rich = (census["number 0"] + 20.0 * (census["category 3"] == "value 1 of 7") > 30.0).to_numpy()
    Classifier(encoding="both", beta="1%", random_state=0).fit(census, rich).save(tmp_path / "census")
    sizes = {name: (tmp_path / name).stat().st_size for name in os.listdir(tmp_path)}
    assert max(sizes.values()) < 30_000, sizes


def test_names_of_columns_are_checked_after_loading(tmp_path: Path) -> None:
    fitted("defaults").save(tmp_path / "model")
    loaded = qsdp.load(tmp_path / "model")
    assert list(loaded.feature_names_in_) == ["age", "city", "old"]
    with pytest.raises(qsdp.QSDPError, match="city"):
        loaded.predict(table()[["age", "old"]])


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_targets_of_any_size_can_be_saved(scale: float, tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((30, 2))
    y = scale * (X[:, 0] + X[:, 0] * X[:, 1])
    model = Regressor(beta="5%", random_state=0).fit(X, np.column_stack([y, X[:, 1]]))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(qsdp.load(tmp_path / "model").predict(X), model.predict(X))


class Other(Squared):
    """A loss of somebody else."""


class Doubled(StandardScaler):  # type: ignore[misc]
    """A transformer of somebody else."""


class Mine(Regressor):
    """An estimator of somebody else."""


@pytest.mark.parametrize(
    ("estimator", "options", "y", "name"),
    [
        (Regressor, {"loss": Other()}, "number", r"test_saved\.Other"),
        (Regressor, {"encoding": Doubled()}, "number", r"test_saved\.Doubled"),
        (Regressor, {"encoding": make_pipeline(MinMaxScaler(), Doubled())}, "number", r"test_saved\.Doubled"),
        (Regressor, {"encoding": FunctionTransformer(np.tanh)}, "number", r"numpy\.tanh"),
        (Regressor, {"encoding": FunctionTransformer(abs)}, "number", r"builtins\.abs"),
        (Regressor, {"encoding": SplineTransformer(3)}, "number", r"sklearn.*SplineTransformer"),
        (Mine, {}, "number", r"test_saved\.Mine"),
        (Classifier, {}, "intervals", "Interval"),
    ],
)
def test_other_types_are_refused_by_name(estimator: Any, options: Any, y: str, name: str, tmp_path: Path) -> None:
    labels = np.asarray(pd.cut(targets("number"), 2), dtype=object) if y == "intervals" else targets(y)
    model = estimator(random_state=0, beta=0.5, n_neurons=20, **options).fit(numbers(), labels)
    with pytest.raises(InvalidInputError, match=rf"cannot be saved: .*{name}.*; pickle it with joblib.dump or cl"):
        model.save(tmp_path / "model")
    assert not os.listdir(tmp_path)
    assert pickle.loads(pickle.dumps(model)).predict(numbers()).tolist() == model.predict(numbers()).tolist()
