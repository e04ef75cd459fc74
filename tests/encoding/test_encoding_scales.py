"""Scales: powers of two that keep the size of rows, follow the prices of columns, and pass through encodings."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import qsdp
from qsdp.encoding import SupervisedScaler, TableEncoder, fit_scales, row_scale, supervised_scales
from qsdp.exceptions import InvalidInputError, InvalidTypeError


def is_power_of_two(scales):
    return np.all(np.frexp(scales)[0] == 0.5)


@pytest.fixture(scope="module")
def relaxation():
    X = np.random.default_rng(0).standard_normal((150, 4))
    y = np.stack([X[:, 0] + 0.1 * X[:, 1], X[:, 0] * X[:, 1]], axis=1)
    problem = qsdp.TrainingProblem(X, y, beta=1.0, activation="relu_like")
    return qsdp.solve_relaxation(problem.with_beta(0.1 * qsdp.beta_max(problem)), tol=1e-4)


@given(exponent=st.integers(-150, 150), norm=st.floats(0.1, 10.0))
@settings(max_examples=30, deadline=None)
def test_rows_have_the_norm_whatever_the_units(exponent, norm):
    X = np.random.default_rng(0).standard_normal((20, 3)) * 2.0**exponent
    scale = row_scale(X, norm=norm)
    assert is_power_of_two(scale)
    present = np.sqrt(np.mean(np.sum((scale * X) ** 2, axis=1)))
    assert norm / np.sqrt(2.0) * (1.0 - 1e-9) <= present <= norm * np.sqrt(2.0) * (1.0 + 1e-9)


def test_rows_of_all_sizes():
    assert row_scale(np.zeros((3, 2))) == 1.0
    assert row_scale([[1e308, 1e308]], norm=1.0) == 2.0**-1024
    X = np.random.default_rng(0).standard_normal((10, 2)) * np.arange(1, 11)[:, None]
    repeated = np.repeat(X, np.arange(10), axis=0)
    assert row_scale(X, sample_weight=np.arange(10.0)) == row_scale(repeated)


def test_scales_follow_the_prices_and_keep_the_rows(relaxation):
    scales = supervised_scales(relaxation)
    assert is_power_of_two(scales)
    assert scales[:2].min() > scales[2:].max()
    X = relaxation.problem.X
    assert 0.5 <= np.mean((X * scales) ** 2) / np.mean(X**2) <= 2.0
    assert supervised_scales(relaxation, exponent=0.0).tolist() == [1.0] * 4
    assert set(supervised_scales(relaxation, exponent=9.0, limit=2.0)) <= {0.5, 1.0, 2.0}


def test_scales_permute_with_the_columns(relaxation):
    problem, order = relaxation.problem, [2, 0, 3, 1]
    other = qsdp.TrainingProblem(problem.X[:, order], problem.y, beta=problem.beta, activation="relu_like")
    permuted = supervised_scales(qsdp.solve_relaxation(other, tol=1e-4))
    assert permuted.tolist() == supervised_scales(relaxation)[order].tolist()


def test_rounds_and_problems_that_zero_solves(relaxation):
    problem = relaxation.problem
    common = row_scale(problem.X)
    assert fit_scales(problem, n_rounds=0).tolist() == [common] * 4
    assert not np.array_equal(fit_scales(problem, n_rounds=2), [common] * 4)
    nothing = qsdp.TrainingProblem(problem.X, np.zeros(150), beta=1.0, activation="relu_like")
    assert fit_scales(nothing, n_rounds=2).tolist() == [common] * 4


@pytest.mark.parametrize("scaler", [SupervisedScaler(), SupervisedScaler(loss="logistic", n_rounds=2)], ids=repr)
def test_check_estimator(scaler):
    outcomes = check_estimator(scaler, on_skip=None, on_fail=None)
    failed = [outcome["check_name"] for outcome in outcomes if outcome["status"] == "failed"]
    assert failed == []
    assert sum(outcome["status"] == "passed" for outcome in outcomes) >= 50


@pytest.mark.parametrize("loss", ["squared", "logistic", "cross_entropy", "hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_of_any_name(loss, n_classes):
    X = np.random.default_rng(0).standard_normal((90, 3))
    names = np.array(["a", "b", "c"])[np.clip(np.digitize(X[:, 0], [-0.4, 0.4]), 0, n_classes - 1)]
    scaler = SupervisedScaler(loss=loss).fit(X, names)
    assert scaler.scales_[0] > scaler.scales_[1:].max()


def test_numbers_and_rows_of_large_data():
    X = np.random.default_rng(0).standard_normal((500, 3))
    y = np.round(5.0 * X[:, 1])
    scaler = SupervisedScaler(target_type="continuous", max_samples=100).fit(X, y)
    assert scaler.scales_.argmax() == 1
    assert np.array_equal(scaler.inverse_transform(scaler.transform(X)), X)
    assert np.array_equal(SupervisedScaler().fit(X, 1e3 * y + 0.5).scales_, SupervisedScaler().fit(X, y + 0.5).scales_)
    weights = np.arange(500) % 2.0
    kept = SupervisedScaler().fit(X[1::2], X[1::2, 1])
    assert np.array_equal(SupervisedScaler().fit(X, X[:, 1], sample_weight=weights).scales_, kept.scales_)


def test_an_encoding_takes_the_scales_of_a_pipeline():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.standard_normal(80), "b": rng.choice(["u", "v", "w"], 80)})
    pipeline = make_pipeline(TableEncoder(n_thresholds=2), SupervisedScaler()).fit(X, X["a"] > 0.2)
    encoder, scaler = pipeline
    scaled = encoder.encoding_.scaled(scaler.scales_)
    table = [X["a"].to_numpy(), X["b"].to_numpy(dtype=object)]
    np.testing.assert_array_equal(scaled.encode(table), pipeline.transform(X))
    assert scaled.names == tuple(pipeline.get_feature_names_out())


def test_wrong_arguments(relaxation):
    with pytest.raises(InvalidTypeError, match="relaxation must be a Relaxation; got ndarray"):
        supervised_scales(relaxation.Z[0])
    with pytest.raises(InvalidInputError, match=r"limit must be a finite number >= 1; got 0\.5"):
        supervised_scales(relaxation, limit=0.5)
    with pytest.raises(InvalidInputError, match="norm must be a finite number > 0; got 0"):
        row_scale([[1.0]], norm=0.0)
    X = np.eye(4)
    for message, parameters, y in (
        ("n_rounds must be an integer >= 0", {"n_rounds": -1}, [0, 1, 0, 1]),
        ("fraction must be a finite number > 0", {"fraction": 0.0}, [0, 1, 0, 1]),
        ("target_type must be one of", {"target_type": "binary"}, [0, 1, 0, 1]),
        ("max_samples must be an integer >= 2", {"max_samples": 1}, [0, 1, 0, 1]),
        ("y holds only one class, 1;", {}, [1, 1, 1, 1]),
        ("loss must be a loss of real targets if y holds numbers", {"loss": "hinge"}, [0.1, 0.2, 0.3, 0.4]),
    ):
        with pytest.raises(InvalidInputError, match=message):
            SupervisedScaler(**parameters).fit(X, y)
