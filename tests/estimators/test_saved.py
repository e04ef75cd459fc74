"""`save` of estimators and `qsdp.load`: equal predictions, clear refusals, and damaged or forged files."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import qsdp
from qsdp.losses import Huber, Squared
from qsdp.networks.storage import read_archive, write_archive

Classifier, Regressor = qsdp.QuantizedNetworkClassifier, qsdp.QuantizedNetworkRegressor


def table(n: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40.0, 10.0, n), "city": rng.choice(["Oslo", "Rome", "Bonn"], n)})
    frame["old"] = rng.random(n) < 0.5
    frame.loc[3, "age"] = np.nan
    return frame


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
        "several": np.stack([cut == 0, cut > 0], axis=1).astype(int),
        "number": 1000.0 + 7.0 * score,
        "numbers": np.stack([score, 3.0 * score - 1.0], axis=1),
    }
    return labels[kind]


CASES: list[tuple[type, dict[str, Any], str]] = [
    (Classifier, {}, "text"),
    (Classifier, {"loss": "cross_entropy", "n_neurons": 12}, "objects"),
    (Classifier, {"loss": "logistic", "class_weight": {5: 1.0, 6: 2.0, 7: 1.0}}, "integers"),
    (Classifier, {"loss": "hinge", "activation": None}, "floats"),
    (Classifier, {"encoding": "thresholds", "beta": "10%"}, "booleans"),
    (Classifier, {"beta": 0.5}, "several"),
    (Regressor, {"loss": Huber(delta=0.7), "activation": (0.5, 0.1, 0.2)}, "number"),
    (Regressor, {"levels": 3, "time_limit": np.inf}, "numbers"),
]


@pytest.fixture(scope="module", params=range(len(CASES)))
def fitted(request: pytest.FixtureRequest) -> Any:
    kind, options, target = CASES[request.param]
    return kind(random_state=0, **options).fit(table(), targets(target))


def test_predictions_are_equal_bit_for_bit(fitted: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.qsdp"
    fitted.save(path)
    loaded = qsdp.load(path)
    assert type(loaded) is type(fitted)
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        if hasattr(fitted, method):
            one, other = getattr(fitted, method)(table(60)), getattr(loaded, method)(table(60))
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype
    assert loaded.certificate_ == fitted.certificate_
    assert loaded.constant_ == fitted.constant_
    np.testing.assert_array_equal(loaded.feature_importances_, fitted.feature_importances_)
    assert list(loaded.feature_names_in_) == ["age", "city", "old"]
    again = tmp_path / "again.qsdp"
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()


def test_parameters_are_kept(fitted: Any, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    loaded, original = qsdp.load(tmp_path / "model").get_params(), fitted.get_params()
    assert loaded.keys() == original.keys()
    for name, value in original.items():
        expected = tuple(value) if isinstance(value, list) else value
        assert loaded[name] == expected


def test_a_loaded_estimator_draws_the_networks_of_the_saved_one(tmp_path: Path) -> None:
    model = Regressor(random_state=0, refine="none").fit(table(), targets("number"))
    model.save(tmp_path / "model")
    loaded = qsdp.load(tmp_path / "model").resample(40, 3)
    expected = model.resample(40, 3)
    np.testing.assert_array_equal(loaded.predict(table()), expected.predict(table()))
    assert loaded.certificate_.lower_bound == expected.certificate_.lower_bound
    assert np.isnan(loaded.certificate_.objective)
    loaded.save(tmp_path / "other")
    assert np.isnan(qsdp.load(tmp_path / "other").certificate_.objective)
    more = qsdp.load(tmp_path / "model").resample(10, 0, levels=4)
    assert more.network_.levels == 4
    assert more.certificate_.lower_bound <= model.resample(10, 0, levels=4).certificate_.lower_bound * (1.0 + 1e-9)
    with pytest.raises(qsdp.QSDPError, match="refine must be 'none' without the training data"):
        loaded.resample(10, refine="polish")
    with pytest.raises(AttributeError, match="neither files nor pickles hold the training data"):
        _ = loaded.result_


def test_arrays_without_names_and_without_encoding(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((50, 3))
    model = Regressor(encoding=None, beta=0.1, random_state=0).fit(X, X[:, 0] * X[:, 1])
    model.save(tmp_path / "model")
    loaded = qsdp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert not hasattr(loaded, "feature_names_in_")
    with pytest.raises(ValueError, match="features"):
        loaded.predict(X[:, :2])


def test_networks_load_as_networks(tmp_path: Path) -> None:
    network = qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5])
    network.save(tmp_path / "network")
    assert isinstance(qsdp.load(tmp_path / "network"), qsdp.BilinearNetwork)


class Own(Squared):
    """A loss of somebody else."""


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({"encoding": StandardScaler()}, "number", "encoding=StandardScaler.* cannot be saved; use joblib.dump"),
        ({"loss": Own()}, "number", "loss=.* cannot be saved; use joblib.dump .* model.network_.save"),
    ],
)
def test_what_has_no_form_in_a_file_is_refused(options: Any, y: str, message: str, tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((80, 2))
    model = Regressor(random_state=0, **options).fit(X, targets(y))
    with pytest.raises(qsdp.QSDPError, match=message):
        model.save(tmp_path / "model")
    assert not os.listdir(tmp_path)


def test_labels_of_other_types_are_refused(tmp_path: Path) -> None:
    intervals = pd.cut(targets("number"), 2)
    model = Classifier(random_state=0).fit(table(), np.asarray(intervals, dtype=object))
    with pytest.raises(qsdp.QSDPError, match=r"labels of the type Interval cannot be saved; use joblib\.dump"):
        model.save(tmp_path / "model")


def test_an_unfitted_estimator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted"):
        Regressor().save(tmp_path / "model")


def damaged(value: Any, rng: np.random.Generator) -> Any:
    """Return another JSON value in place of one."""
    others: list[Any] = [None, True, -1, 0, 2**70, 0.5, 1e308, "", "x" * 50, "\ud800", [], [None], {}, {"a": 1}]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        others += [-value, value + 1, value * 1e-300]
    return others[rng.integers(len(others))]


def places(state: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all values of nested JSON."""
    inner = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


@pytest.mark.parametrize("seed", range(40))
def test_forged_files_raise_one_error_or_give_an_estimator(fitted: Any, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    fitted.save(tmp_path / "model")
    kind, header, arrays = read_archive(tmp_path / "model", "estimator")
    header, arrays = json.loads(json.dumps(header)), dict(arrays)
    for _ in range(int(rng.integers(1, 3))):
        if rng.random() < 0.6:
            place = [one for one in places(header) if one][int(rng.integers(len(places(header)) - 1))]
            inner: Any = header
            for key in place[:-1]:
                inner = inner[key]
            if rng.random() < 0.3 and isinstance(inner, dict):
                del inner[place[-1]]
            else:
                inner[place[-1]] = damaged(inner[place[-1]], rng)
        else:
            name = list(arrays)[int(rng.integers(len(arrays)))]
            array = arrays[name]
            change = rng.integers(5)
            if change == 0:
                del arrays[name]
            elif change == 1:
                arrays[name] = array[:-1] if array.ndim and len(array) else array
            elif change == 2:
                arrays[name] = array.astype(np.float32)
            elif change == 3 and array.dtype == np.float64 and array.size:
                arrays[name] = array.copy()
                arrays[name].flat[int(rng.integers(array.size))] = rng.choice([np.nan, np.inf, -1.0, 1e300])
            else:
                arrays["other"] = np.zeros(2)
    try:
        write_archive(tmp_path / "forged", kind, header, arrays)
    except (ValueError, UnicodeError):
        return
    # Any other exception fails the test.
    with contextlib.suppress(qsdp.QSDPError):
        loaded = qsdp.load(tmp_path / "forged")
        loaded.get_params()
        # scikit-learn checks the names of columns.
        with contextlib.suppress(ValueError):
            loaded.predict(table())
