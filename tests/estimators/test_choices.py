"""The choice of encoding and inputs: errors and importances against least squares, and what is found."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp import TrainingProblem
from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray
from qsdp.choosing.distinct_rows import DistinctRows
from qsdp.choosing.regression import LeftOut, RidgeFit, left_out_fit
from qsdp.encoding.scales import NO_GAIN
from qsdp.estimators import choices, thresholds
from qsdp.estimators.choices import (
    _FOLDS,
    _STEPS,
    Candidate,
    _as_good,
    _Elimination,
    _fewest_of_all_rows,
    choose_encoder,
    first_clear_best,
    is_clear_gain,
    standard_error,
    useful_inputs,
)
from qsdp.lifting import QuadraticMap

RELU = (0.0937, 0.5, 0.4688)


def features(X: FloatArray, activation: tuple[float, float, float] | None) -> FloatArray:
    """Return features whose inner products are those of the matrices of the rows."""
    a, b, c = activation or (1.0, 0.0, 0.0)
    products = np.stack([np.outer(x, x).ravel() for x in X])
    return np.hstack([a * products, np.sqrt(0.5) * b * X, np.full((len(X), 1), c)])


def predictions(
    training: FloatArray, y: FloatArray, weights: FloatArray, others: FloatArray, strength: float
) -> FloatArray:
    """Return what a ridge regression on features predicts, by least squares."""
    root = np.sqrt(weights)[:, None]
    mean = float(np.sum((root * training) ** 2)) / len(training)
    lhs = np.vstack([root * training, np.sqrt(strength * mean) * np.eye(training.shape[1])])
    rhs = np.vstack([root * y, np.zeros((training.shape[1], y.shape[1]))])
    found: FloatArray = others @ np.linalg.lstsq(lhs, rhs, rcond=None)[0]
    return found


@pytest.mark.parametrize("activation", [None, RELU])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_errors_and_importances_are_those_of_regressions_on_folds(
    activation: tuple[float, float, float] | None, n_outputs: int
) -> None:
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(23, 4)), rng.uniform(0.5, 2.0, size=23)
    y = rng.normal(size=(23, n_outputs)) + X[:, :1] ** 2
    problem = TrainingProblem(X, y.squeeze(), beta=1.0, activation=activation, sample_weight=weights)
    rows = DistinctRows.from_rows(X)
    elimination = _Elimination.of(problem, rows, 4, 2.0)
    # Inputs may differ between folds; the strength is the same.
    inputs = [np.array(own) for own in ([0, 2], [0, 1], [0, 2], [1, 3], [2, 3], [0, 3])]
    errors, importances, strength = elimination.measure(inputs, 0.01)
    order = elimination.left_out.samples
    np.testing.assert_array_equal(elimination.X, 2.0 * X[order])
    X, y, weights = elimination.X, y[order], weights[order]

    def held_out_errors(strength: float) -> FloatArray:
        found = np.empty(23)
        for fold, own in enumerate(inputs[1:]):
            out, rows = np.arange(23) % _FOLDS == fold, features(X[:, own], activation)
            predicted = predictions(rows[~out], y[~out], weights[~out], rows[out], strength)
            found[out] = weights[out] * np.square(predicted - y[out]).sum(axis=1)
        return found

    assert strength == min(0.01 * _STEPS, key=lambda one: float(held_out_errors(one).sum()))
    np.testing.assert_allclose(errors, held_out_errors(strength), rtol=1e-7)
    for own, found, fold in zip(inputs, importances, [None, *range(_FOLDS)], strict=True):
        training = np.ones(23, dtype=bool) if fold is None else np.arange(23) % _FOLDS != fold
        rows = X[:, own]
        of_training, others = features(rows[training], activation), features(rows, activation)
        predicted = predictions(of_training, y[training], weights[training], others, strength)
        for k, importance in enumerate(found):
            moved = rows[training]
            moved[:, k] = np.average(moved[:, k], weights=weights[training])
            after = predictions(of_training, y[training], weights[training], features(moved, activation), strength)
            changes = np.square(predicted[training] - after).sum(axis=1)
            assert importance == pytest.approx(weights[training] @ changes, rel=1e-6)


def planted(n: int = 200, d: int = 12, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return data whose targets depend on the first two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] * X[:, 1] + X[:, 0] + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("seed", range(3))
def test_inputs_without_a_say_are_left_out(seed: int) -> None:
    X, y = planted(seed=seed)
    kept = useful_inputs(TrainingProblem(X, y, beta=1.0, activation=RELU), DistinctRows.from_rows(X), 12)
    assert {0, 1} <= set(kept.tolist())
    assert len(kept) <= 4


def test_as_good_is_within_standard_errors_of_the_smallest() -> None:
    least = np.array([1.0, 2.0, 3.0, 4.0])
    shape = np.array([-1.0, 1.0, -1.0, 1.0])
    error = standard_error(shape)
    for share, expected in ((0.49, True), (0.51, False)):
        # A constant does not change the deviation.
        errors = least + shape + share * error
        assert _as_good(errors, least, 0.5) is expected
    assert _as_good(least, least, 0.0)


def test_the_strength_follows_the_number_of_functions() -> None:
    # With as many functions as rows, the weak penalty of a regression that interpolates is the worst one.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 30))
    y = X[:, 0] + 0.3 * rng.normal(size=80)
    problem = TrainingProblem(X, y, beta=1.0, activation=RELU)
    elimination = _Elimination.of(problem, DistinctRows.from_rows(X), 30, 1.0)
    inputs = [np.arange(10)] * (1 + _FOLDS)
    weak, _, strength = elimination.measure(inputs, 1e-6)
    for _ in range(10):
        errors, _, strength = elimination.measure(inputs, strength)
    assert strength > 1e-2
    assert errors.sum() < 0.5 * weak.sum()


@pytest.mark.parametrize(("slope", "expected"), [(0.15, {0, 1}), (0.0, {0})])
def test_all_rows_decide_how_many_inputs_remain(
    slope: float, expected: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    problem = TrainingProblem(X, X[:, 0] + slope * X[:, 1] + rng.normal(size=2000), beta=1.0, activation=RELU)
    rows = DistinctRows.from_rows(X)
    fit = left_out_fit(problem, rows)
    candidates = [np.arange(k) for k in (1, 2, 3, 5)]
    assert set(_fewest_of_all_rows(problem, 5, candidates, fit).tolist()) == expected
    # A few rows rank the inputs; too few to see the second one.
    monkeypatch.setattr(choices, "MAX_FUNCTIONS", 40)
    assert expected <= set(useful_inputs(problem, rows, 5).tolist())


def test_fewer_inputs_are_not_tried_where_more_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 6))
    problem = TrainingProblem(X, X.sum(axis=1) + rng.normal(size=2000), beta=1.0, activation=RELU)
    rows = DistinctRows.from_rows(X)
    fit, tried, best = left_out_fit(problem, rows), [], LeftOut.best

    def counted(left_out: LeftOut, data: QuadraticMap) -> RidgeFit:
        tried.append(data.n_features)
        return best(left_out, data)

    monkeypatch.setattr(LeftOut, "best", counted)
    candidates = [np.arange(k) for k in range(1, 7)]
    assert len(_fewest_of_all_rows(problem, 6, candidates, fit)) == 6
    assert tried == [1, 5]


@pytest.mark.parametrize("n", [300, 1500])
def test_few_of_many_inputs_are_found(n: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 100))
    y = X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=n)
    kept = useful_inputs(TrainingProblem(X, y, beta=1.0, activation=RELU), DistinctRows.from_rows(X), 100)
    assert {0, 1, 2} <= set(kept.tolist())
    assert len(kept) <= 10


def test_noise_does_not_pass_for_a_clear_gain() -> None:
    # Correlations on all rows would find inputs whose held-out errors look small.
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, 60)), rng.normal(size=200)
    problem, rows = TrainingProblem(X, y, beta=1.0, activation=RELU), DistinctRows.from_rows(X)
    elimination = _Elimination.of(problem, rows, 60, 1.0)
    errors = [errors.mean() for _, errors in elimination.steps(elimination.ranked(44), 1.0)]
    assert min(errors) > 0.9 * np.var(y)
    biased = elimination.steps([elimination.ranked(44)[0]] * (1 + _FOLDS), 1.0)
    assert min(errors.mean() for _, errors in biased) < min(errors)


def test_all_inputs_stay_where_a_regression_has_too_few_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    problem = TrainingProblem(X, X[:, 0] + rng.normal(size=2000), beta=1.0, activation=RELU)
    rows = DistinctRows.from_rows(X)
    known = problem, 5, [np.arange(k) for k in (1, 2, 3, 5)], left_out_fit(problem, rows)
    assert _fewest_of_all_rows(*known).tolist() == [0]
    # It has more degrees of freedom than this.
    monkeypatch.setattr(choices, "_LIMITED", 1e-3)
    assert _fewest_of_all_rows(*known).tolist() == [0, 1, 2, 3, 4]


def test_columns_after_the_inputs_stay() -> None:
    # Without the constant column the function would be even, and could not follow the first column.
    X, y = planted()
    with_constant = np.hstack([X, np.ones((len(X), 1))])
    problem, rows = TrainingProblem(with_constant, y, beta=1.0), DistinctRows.from_rows(X)
    kept = useful_inputs(problem, rows, 12)
    assert {0, 1} <= set(kept.tolist()) < set(range(12))
    elimination = _Elimination.of(problem, rows, 12, 1.0)
    errors, _, _ = elimination.measure([kept] * (1 + _FOLDS), 1e-3)
    assert errors.mean() < 0.3 * np.var(y)


def test_all_inputs_stay_where_rows_are_few_or_time_is_over() -> None:
    X, y = planted(n=19)
    assert useful_inputs(TrainingProblem(X, y, beta=1.0), DistinctRows.from_rows(X), 12).tolist() == list(range(12))
    X, y = planted()
    problem, rows = TrainingProblem(X, y, beta=1.0), DistinctRows.from_rows(X)
    with deadline.within(0.0):
        assert useful_inputs(problem, rows, 12).tolist() == list(range(12))
    assert useful_inputs(problem, rows, 2).tolist() == [0, 1]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), factor=st.integers(1, 3))
def test_weights_are_repetitions_and_the_order_is_none(seed: int, factor: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = planted(n=30, d=6, seed=seed)
    counts = factor * rng.integers(1, 4, size=30)
    weighted = TrainingProblem(X, y, beta=1.0, activation=RELU, sample_weight=counts.astype(float))
    again = rng.permutation(np.repeat(np.arange(30), counts))
    repeated = TrainingProblem(X[again], y[again], beta=1.0, activation=RELU)
    one, other = (useful_inputs(each, DistinctRows.from_rows(each.X), 6) for each in (weighted, repeated))
    assert one.tolist() == other.tolist()


def test_estimators_take_the_inputs_that_help_and_say_so() -> None:
    X, y = planted()
    model = qsdp.QuantizedNetworkRegressor(random_state=0).fit(X, y)
    encoding = model.encoder_.encoding_
    assert {0, 1} <= set(encoding.used)
    assert model.network_.n_inputs == encoding.width
    unused = set(range(12)) - set(encoding.used)
    assert unused
    assert model.encoder_.dropped_ == {f"x{k}": NO_GAIN for k in sorted(unused)}
    size = float(np.sqrt(np.mean(np.square(model.encoder_.transform(X)).sum(axis=1))))
    assert 1.5 / np.sqrt(2.0) <= size <= 1.5 * np.sqrt(2.0)


def steps(x: FloatArray) -> FloatArray:
    """Return bits for thresholds of one column."""
    return (x > np.linspace(-1.5, 1.5, 7)).astype(float)


def candidates(x: FloatArray, y: FloatArray, loss: str = "squared") -> Iterator[Candidate]:
    for name, X in (("numbers", x), ("both", np.hstack([x, steps(x)])), ("never", None)):
        assert X is not None, "asked for although the one before was no gain"
        yield Candidate(name, 0, TrainingProblem(X, y, beta=1.0, activation="relu_like", loss=loss))


def chosen(x: FloatArray, y: FloatArray, loss: str = "squared") -> str:
    return str(first_clear_best(candidates(x, y, loss), DistinctRows.from_rows(x)).encoding)


def test_more_inputs_are_taken_where_they_help_only() -> None:
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(200, 1)), 0.1 * rng.normal(size=200)
    assert chosen(x, x[:, 0] ** 2 - x[:, 0] + noise) == "numbers"
    with pytest.raises(AssertionError, match="asked for"):
        # The next is asked for after a gain.
        chosen(x, np.sign(np.sin(3.0 * x[:, 0])) + noise)


def test_no_time_and_few_rows_leave_the_first() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 1))
    y = np.sign(np.sin(3.0 * x[:, 0]))
    with deadline.within(0.0):
        assert chosen(x, y) == "numbers"
    assert chosen(x[:7], y[:7]) == "numbers"


def test_no_regression_begins_after_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, fits = np.random.default_rng(1), []
    x = rng.normal(size=(200, 1))

    def expiring(problem: TrainingProblem, rows: DistinctRows) -> RidgeFit:
        fits.append(left_out_fit(problem, rows))
        scope.expire()
        return fits[-1]

    monkeypatch.setattr(choices, "left_out_fit", expiring)
    with deadline.within(1e6) as scope:
        found = first_clear_best(candidates(x, np.sign(np.sin(3.0 * x[:, 0]))), DistinctRows.from_rows(x))
    assert found.encoding == "numbers"
    assert fits == [found.fit]


def test_columns_that_remain_of_many_have_thresholds() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(600, 80))
    y = ((X[:, 3] > 0.0) & (X[:, 5] > 0.0)).astype(int)
    model = qsdp.QuantizedNetworkClassifier(random_state=0).fit(X[:400], y[:400])
    assert model.encoder_.encoding == "both"
    used = set(model.encoder_.encoding_.used)
    assert {3, 5} <= used
    assert model.encoder_.dropped_ == {f"x{k}": NO_GAIN for k in range(80) if k not in used}
    # Numbers alone are right on less than nine of ten new rows.
    assert model.score(X[400:], y[400:]) > 0.93


def test_categories_make_room_for_splits_where_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 800
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((n, 2))
    categories = rng.integers(0, 8, size=(n, 2))
    y = (numbers > (0.7, 0.2)).sum(axis=1) + 1.0 * (categories[:, 0] == 3)
    letters = np.array(list("abcdefgh"))[categories]
    X = pd.DataFrame(numbers, columns=["first", "second"]).assign(used=letters[:, 0], noise=letters[:, 1])
    for module in (choices, thresholds):
        monkeypatch.setattr(module, "MANY", 500)
        monkeypatch.setattr(module, "MAX_INPUTS", 16)
    monkeypatch.setattr(thresholds, "MAX_ROWS", 300)
    monkeypatch.setattr(thresholds, "_FEWEST_ROWS", 100)
    original, widths = choices.with_thresholds, []
    monkeypatch.setattr(
        choices, "with_thresholds", lambda one, *others: widths.append(one.width) or original(one, *others)
    )

    encoder, _ = choose_encoder(X, None, lambda columns: TrainingProblem(columns, y, beta=1.0, activation=RELU))
    # Two numbers and sixteen categories leave no room for five thresholds of two columns.
    assert widths
    assert max(widths) <= 6
    found = encoder.encoding_
    assert "noise" in encoder.dropped_
    assert {one.value for one in found.expressions if one.column == "used"} == {"d"}
    for name, threshold in {"first": 0.7, "second": 0.2}.items():
        splits = [one.value for one in found.expressions if one.column == name and one.kind == "above"]
        assert np.abs(np.array(splits) - threshold).min() < 0.1
    assert found.width <= 16


def test_an_equal_encoding_is_no_candidate() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(50, 2))
    y = rng.normal(size=50)
    problem = TrainingProblem(x, y, beta=1.0)
    both = (Candidate("one", n_thresholds, problem) for n_thresholds in (5, 20))
    found = first_clear_best(both, DistinctRows.from_rows(x))
    assert (found.n_thresholds, found.fit) == (5, None)


def test_clear_gains_are_large_and_certain() -> None:
    errors = np.full(100, 1.0)
    assert is_clear_gain(np.full(100, 0.02), errors)
    assert not is_clear_gain(np.full(100, 0.009), errors)
    uncertain = np.tile([1.0, -0.9], 50)
    assert not is_clear_gain(uncertain, errors)
    assert is_clear_gain(np.tile(uncertain, 20), np.tile(errors, 20))


def test_candidates_are_the_encodings_of_encoders() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.integers(0, 2, 300), rng.normal(size=300)])
    X[:5, 2] = np.nan
    y = np.sign(np.sin(3.0 * X[:, 0])) + 0.1 * rng.normal(size=300)

    def problem_of(columns: FloatArray) -> TrainingProblem:
        return TrainingProblem(columns, y, beta=1.0, activation=RELU)

    encoder, _ = choose_encoder(X, None, problem_of)
    # The steps of the first column need thresholds.
    assert any(one.kind == "above" and one.position == 0 for one in encoder.encoding_.expressions)
    assert encoder.get_params()["encoding"] == "both"
    again = qsdp.encoding.TableEncoder(**encoder.get_params()).fit(X).encoding_
    thresholds = {(one.position, one.value) for one in again.expressions if one.kind == "above"}
    assert thresholds >= {(one.position, one.value) for one in encoder.encoding_.expressions if one.kind == "above"}


@pytest.mark.parametrize("seed", [3, 4])
def test_classes_get_no_thresholds_by_which_more_left_out_rows_are_misclassified(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    centres, X = rng.normal(size=(8, 6)), rng.normal(size=(600, 8))
    y = np.argmax(2.0 * X @ centres + rng.gumbel(size=(600, 6)), axis=1)

    def kinds() -> set[str]:
        model = qsdp.QuantizedNetworkClassifier(48, refine="none", random_state=0).fit(X, y)
        return {one.kind for one in model.encoder_.encoding_.expressions}

    assert kinds() == {"value"}
    monkeypatch.setattr(choices, "misclassifies_more", lambda *fits: False)
    # Squared errors alone would choose them.
    assert kinds() == {"value", "above"}
