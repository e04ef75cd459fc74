"""Additive models with interactions: what they fit, explain, save and refuse, through the estimators."""

from __future__ import annotations

import itertools
import re
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

import qsdp
from qsdp.encoding import AdditiveBlocks
from qsdp.exceptions import InvalidInputError, SolverError


def table(n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return numbers with holes and categories, and a score with a step and a product."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n, 4)), columns=list("abcd"))
    frame["city"] = pd.Categorical(rng.choice(["Oslo", "Paris", "Rome"], n))
    score = frame.a + 1.5 * (frame.b > 0.5) - 1.2 * frame.c * frame.d + 0.8 * (frame.city == "Rome")
    frame.loc[::9, "a"] = np.nan
    return frame, score.to_numpy() + 0.1 * rng.standard_normal(n)


def labels(score: np.ndarray, kind: str) -> np.ndarray:
    return np.where(score > 0.8, "yes", "no") if kind == "two" else np.digitize(score, [0.0, 1.5])


def additive(kind: str = "number", **parameters: Any) -> Any:
    estimator = qsdp.QuantizedNetworkRegressor if kind == "number" else qsdp.QuantizedNetworkClassifier
    return estimator(encoding="additive", random_state=0, **parameters)


@cache
def fitted(kind: str) -> Any:
    """Return an estimator with the default beta, fitted to `table`."""
    X, score = table()
    return additive(kind).fit(X, target(kind, score))


def target(kind: str, score: np.ndarray) -> np.ndarray:
    return score if kind == "number" else labels(score, kind)


@pytest.mark.parametrize(("kind", "loss"), [("number", "squared"), ("two", "logistic"), ("three", "cross_entropy")])
def test_fits_steps_and_products(kind: str, loss: str) -> None:
    new, truth = table(seed=1)
    model = fitted(kind)
    problem, network = model.result_.problem, model.network_
    assert problem.loss == qsdp.losses.get_loss(loss)
    assert problem.X.kinds == ("weights", "quadratic")
    assert np.any(network.weights)
    assert network.n_neurons
    # Steps of b are weights of thresholds, where rows are enough to find them.
    assert kind == "three" or any(one.startswith("b > ") for one in model.encoder_.inputs_.encoding_.names)
    assert model.score(new, target(kind, truth)) > (0.75 if kind == "three" else 0.85)
    certificate = model.certificate_
    assert certificate.objective == pytest.approx(problem.objective(network), rel=1e-9)
    assert 0.0 <= certificate.relative_gap < 0.3
    optimum = qsdp.column_generation(problem, time_limit=20.0, tol=1e-4)
    assert certificate.lower_bound <= optimum.objective * (1.0 + 1e-9)
    assert optimum.lower_bound <= certificate.objective


@pytest.mark.parametrize("kind", ["number", "two", "three"])
def test_predictions_are_those_of_the_formula_and_the_effects(kind: str) -> None:
    X, score = table(200)
    model = additive(kind, beta="5%").fit(X, target(kind, score))
    outputs = model.predict(X) if kind == "number" else model.decision_function(X)
    form = model._form(model.target_scaling_)
    np.testing.assert_allclose(form.predict(model.encoder_.inputs_.transform(X)), outputs, rtol=1e-9, atol=1e-9)
    effects = model.effects()
    parts = np.moveaxis(model.contributions(X).sum(axis=-1), 0, 0) + effects.constant
    np.testing.assert_allclose(parts, outputs, rtol=1e-8, atol=1e-8)
    importances = model.feature_importances_
    assert importances.shape == (5,)
    assert importances.sum() == pytest.approx(1.0)
    assert importances.min() >= 0.0
    assert importances[[0, 1]].min() > 0.05


def test_probabilities_are_better_than_frequencies() -> None:
    new, truth = table(seed=1)
    for kind in ("two", "three"):
        model = fitted(kind)
        chances = model.predict_proba(new)
        hot = model.classes_ == target(kind, truth)[:, None]
        priors = hot.mean(axis=0)
        assert -np.log(chances[hot]).mean() < -0.7 * (priors @ np.log(priors))


def test_weights_are_repetitions() -> None:
    X, score = table(100)
    counts = np.random.default_rng(1).integers(1, 4, len(X))
    repeated = np.repeat(np.arange(len(X)), counts)
    one = additive().fit(X, score, sample_weight=counts)
    other = additive().fit(X.iloc[repeated], score[repeated])
    assert one.encoder_.inputs_.encoding_.names == other.encoder_.inputs_.encoding_.names
    assert one.result_.problem.beta == pytest.approx(other.result_.problem.beta, rel=1e-9)
    # Fits are optimal to about a thousandth, and ties between neurons are broken by rounding.
    assert one.certificate_.lower_bound == pytest.approx(other.certificate_.lower_bound, rel=1e-3)
    assert one.certificate_.objective == pytest.approx(other.certificate_.objective, rel=3e-3)
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=0.05 * score.std())


def test_noise_columns_are_left_out_of_products() -> None:
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((2, 500, 60))
    # Without a choice of columns, products of sixty inputs hardly find the one that matters.
    score = [np.sin(2.0 * rows[:, 0]) + rows[:, 1] * rows[:, 2] for rows in (X, new)]
    model = additive().fit(X, score[0] + 0.1 * rng.standard_normal(500))
    assert {0, 1, 2} <= {one.position for one in model.encoder_.inputs_.expressions_}
    assert len({one.position for one in model.encoder_.inputs_.expressions_}) <= 10
    assert model.score(new, score[1]) > 0.9


def test_products_of_columns_without_effects_of_their_own_are_found() -> None:
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((2, 1000, 30))
    y, truth = (rows[:, 0] + 1.5 * rows[:, 1] * rows[:, 2] > 0.3 for rows in (X, new))
    model = additive("two").fit(X, y)
    used = {one.position for one in model.encoder_.inputs_.expressions_}
    assert {0, 1, 2} <= used
    assert len(used) < 12
    assert model.score(new, truth) > 0.9


@pytest.mark.parametrize("kind", ["number", "three"])
def test_a_number_of_neurons_keeps_the_largest_or_splits_them(kind: str) -> None:
    X, score = table(150)
    y = target(kind, score)
    free = additive(kind, beta="5%").fit(X, y)
    problem, gap, m = free.result_.problem, free.certificate_.relative_gap, free.network_.n_neurons
    assert m > 4
    few, refitted, raw = (
        additive(kind, n_neurons=4, beta="5%", refine=how).fit(X, y) for how in ("polish", "refit", "none")
    )
    for model in (few, refitted, raw):
        assert model.network_.n_neurons <= 4
        assert model.certificate_.lower_bound == pytest.approx(free.certificate_.lower_bound, rel=1e-6)
        assert model.certificate_.objective == pytest.approx(problem.objective(model.network_), rel=1e-9)
    assert raw.network_.n_neurons == 4
    objectives = [model.certificate_.objective for model in (free, few, refitted, raw)]
    assert objectives == sorted(objectives)
    # More neurons than the optimum needs cost nothing.
    many = additive(kind, n_neurons=2 * m, beta="5%", refine="none").fit(X, y)
    assert many.network_.n_neurons == 2 * m
    assert many.certificate_.relative_gap < gap + 0.01
    assert free.resample(20, random_state=0).network_.n_neurons == 20


def test_pairs_of_thresholds_are_found_among_many_columns() -> None:
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((300, 60)), rng.standard_normal((1000, 60))
    y, truth = (((rows[:, 0] > 0) & (rows[:, 1] > 0)) | ((rows[:, 2] > 0) & (rows[:, 3] > 0)) for rows in (X, new))
    model = additive("two").fit(X, y)
    assert {one.position for one in model.encoder_.inputs_.expressions_} == {0, 1, 2, 3}
    assert model.score(new, truth) > 0.9


def test_columns_whose_slope_is_zero_at_a_zero_network_have_weights_and_products() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 1002)), rng.standard_normal(50)
    y -= y.mean()
    # Of more than a thousand columns, this one is not among the first inputs of neurons, but y = x1000 - x1001.
    X[:, 1001] -= X[:, 1001].mean()
    X[:, 1001] -= y * (X[:, 1001] @ y) / (y @ y)
    X[:, 1000] = y + X[:, 1001]
    model = additive(beta="20%").fit(X, y)
    assert {1000, 1001} <= {term.position for term in model.encoder_.inputs_.expressions_}
    assert model.certificate_.lower_bound <= model.certificate_.objective


def test_optimal_networks_are_proven() -> None:
    X, score = table(120)
    model = additive(refine="exact", beta="10%").fit(X[["a", "b", "c"]], score)
    assert model.certificate_.bound_type == "exact"
    assert model.certificate_.relative_gap < 1e-6


def test_bounds_do_not_depend_on_the_speed_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    # Neurons keep all inputs, which are too many to enumerate all vectors at once.
    X = np.random.default_rng(0).standard_normal((300, 32))
    y = X.sum(axis=1) + (X[:, :16] * X[:, 16:]).sum(axis=1)

    def bound() -> float:
        model = qsdp.QuantizedNetworkRegressor(beta="10%", time_limit=np.inf, random_state=0).fit(X, y)
        return float(model.certificate_.lower_bound)

    expected, seconds = bound(), itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    assert bound() == expected


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"activation": "relu_like"}, 'activation must be "auto" or None for encoding="additive"; got \'relu_like\''),
        ({"levels": 3}, 'levels must be 2 for encoding="additive"; got 3'),
        ({"loss": "absolute"}, "loss must have second derivatives for encoding=\"additive\"; got 'absolute'"),
    ],
)
def test_what_blocks_do_not_have_is_refused(parameters: dict[str, Any], message: str) -> None:
    X, score = table(60)
    with pytest.raises(InvalidInputError, match=message):
        additive(**parameters).fit(X, score)


def test_printed_curves_are_main_effects() -> None:
    explanation = fitted("number").explain()
    shown = str(explanation)
    # Every column with an effect has its curve below it, whatever makes the effect.
    assert shown.count("curve: ") == sum(column.size > 0.0 for column in explanation.columns)
    [city] = [column for column in explanation.columns if column.name == "city"]
    assert not city.weights
    line = ", ".join(f"{effect:.4g} at {name}" for name, effect in city.curve)
    assert f"curve: {line}" in shown
    [b] = [column for column in explanation.columns if column.name == "b"]
    (low, first), *_, (high, last) = b.curve
    [others] = re.findall(rf"curve: {re.escape(f'{first:.4g} at {low:.4g}')}, (.*)", shown)
    assert others.endswith(f"{last:.4g} at {high:.4g}")
    assert len(others.split(", ")) == 4


def test_curves_name_the_sides_of_thresholds() -> None:
    x = np.random.default_rng(0).standard_normal((200, 1))
    encoding = qsdp.encoding.TableEncoder("thresholds", n_thresholds=1)
    model = qsdp.QuantizedNetworkRegressor(encoding=encoding, beta="1%", random_state=0).fit(x, x[:, 0] > 0.0)
    [column] = model.explain().columns
    (threshold, below), (_, above) = column.curve
    assert above > below
    assert f"curve: {below:.4g} at {threshold:.4g}, {above:.4g} above {threshold:.4g}" in str(model.explain())


@pytest.mark.parametrize("encoding", ["auto", "additive", AdditiveBlocks(5)])
@pytest.mark.parametrize("refine", ["polish", "exact"])
def test_a_solver_without_real_weights_is_refused_before_the_rows_are_read(encoding: Any, refine: str) -> None:
    model = qsdp.QuantizedNetworkRegressor(encoding=encoding, solver="low-rank", refine=refine)
    with pytest.raises(SolverError, match="'low-rank' does not support additive models"):
        model.fit(["no rows"], ["no targets"])


def test_collections_are_refused() -> None:
    dask = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).standard_normal((60, 2))
    with pytest.raises(InvalidInputError, match='encoding must not be "additive" for a Dask collection'):
        additive().fit(dask.from_array(X, chunks=(30, 2)), dask.from_array(X[:, 0], chunks=30))


def test_blocks_as_a_transformer_have_the_betas_of_rows() -> None:
    X, score = table(150)
    model = qsdp.QuantizedNetworkRegressor(encoding=AdditiveBlocks(3, intercept="means"), random_state=0).fit(X, score)
    assert model.result_.problem.X.kinds == ("weights", "quadratic")
    assert model.score(X, score) > 0.5


@pytest.mark.parametrize("kind", ["number", "two", "three"])
def test_a_time_limit_that_is_over_at_once_leaves_a_rounded_model(kind: str) -> None:
    X, score = table(100)
    with pytest.warns(qsdp.QSDPWarning, match="time limit"):
        model = additive(kind, time_limit=1e-6).fit(X, target(kind, score))
    assert model.predict(X).shape == (100,)
    assert model.network_.to_integer_form().n_bits > 0
    assert 0.0 <= model.certificate_.lower_bound <= model.certificate_.objective


@pytest.mark.parametrize("later", [{"encoding": "standard"}, {"encoding": AdditiveBlocks(2)}])
def test_warm_starts_of_other_blocks_are_cold(later: dict[str, Any]) -> None:
    X, score = table(60)
    # As many inputs of neurons, and other weights.
    model = qsdp.QuantizedNetworkRegressor(4, beta=1.0, encoding=AdditiveBlocks(0), random_state=0, warm_start=True)
    model.fit(X, score).set_params(**later).fit(X, score)
    cold = qsdp.QuantizedNetworkRegressor(4, beta=1.0, random_state=0, **later).fit(X, score)
    np.testing.assert_array_equal(model.predict(X), cold.predict(X))


@pytest.mark.parametrize("kind", ["number", "two", "three"])
def test_explanations_have_weights_curves_and_interactions(kind: str) -> None:
    X, score = table(200)
    model = additive(kind, beta="5%").fit(X, target(kind, score))
    effects = model.effects()
    inputs = dict(
        zip(model.encoder_.inputs_.encoding_.names, model.encoder_.inputs_.encoding_.expressions, strict=True)
    )
    for k, name in enumerate(effects.outputs):
        explanation = model.explain(output=k)
        assert explanation == model.explain(output=name)
        assert explanation.output == name
        one = effects.output(k)
        assert explanation.constant == one.constant
        listed = {(column.name,): (column.size, column.fraction) for column in explanation.columns}
        listed |= {effect.columns: (effect.size, effect.fraction) for effect in explanation.interactions}
        assert listed == {effect.columns: (effect.size, effect.fraction) for effect in one.table()}
        for part in (explanation.columns, explanation.interactions):
            sizes = [one.size for one in part]
            assert sizes == sorted(sizes, reverse=True)
        # The weights are those of the network, for terms instead of standardised inputs, in the units of the target.
        weights = {term: weight for column in explanation.columns for term, weight in column.weights}
        unit = np.broadcast_to(model.target_scaling_.scale, len(model.network_.column_weights[0]))
        of_inputs = model.network_.column_weights[: len(inputs), k] * unit[k]
        expected = {
            term: weight / inputs[term].scale for term, weight in zip(inputs, of_inputs.tolist(), strict=True) if weight
        }
        assert weights == pytest.approx(expected, rel=1e-12)
        # Contributions to rows that have the values of a curve are the curve.
        for column in explanation.columns:
            if not column.curve:
                # The fit has left out the column.
                assert (column.size, column.weights) == (0.0, ())
                continue
            rows = pd.concat([X.iloc[[0]]] * len(column.curve), ignore_index=True)
            values = [value for value, _ in column.curve]
            rows[column.name] = pd.Categorical(values) if column.name == "city" else values
            parts = model.contributions(rows).reshape(len(rows), len(effects.outputs), -1)
            place = effects.terms.index((column.name,))
            np.testing.assert_allclose([effect for _, effect in column.curve], parts[:, k, place], rtol=1e-9, atol=1e-9)
        text = str(explanation)
        assert all(name in text for name in weights)
        first = explanation.interactions[0]
        assert (f"{first.name} " in text) == (first.size > 0.0)


def test_explanations_of_other_encodings() -> None:
    X, score = table(200)
    model = qsdp.QuantizedNetworkRegressor(8, encoding="thresholds", beta="5%", random_state=0).fit(X, score)
    explanation = model.explain(X[:50], names=["p", "q", "r", "s", "town"])
    assert {column.name for column in explanation.columns} == {"p", "q", "r", "s", "town"}
    effects = model.effects(X[:50])
    assert sorted(column.size for column in explanation.columns) == sorted(effects.main.tolist())
    # The curve of bits is a staircase: a step at each threshold.
    [staircase] = [column for column in explanation.columns if column.name == "q"]
    assert len({round(effect, 9) for _, effect in staircase.curve}) <= 4
    mixed = qsdp.QuantizedNetworkRegressor(8, encoding=PCA(2), beta="5%", random_state=0).fit(X[["b", "c", "d"]], score)
    with pytest.raises(InvalidInputError, match="explain requires inputs that are made of one column each"):
        mixed.explain()
    with pytest.raises(InvalidInputError, match="output must be"):
        model.explain(output="class yes")


def test_formulas_have_no_terms_of_rounding() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    X = (X - X.mean(axis=0)) / X.std(axis=0) + 1e-9
    score = X[:, 0] - X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(300)
    model = additive(beta="2%").fit(X, score)
    assert model.network_.n_neurons
    S, s, s0 = model._form(model.target_scaling_).parts
    terms = np.count_nonzero(np.triu(S[0])) + np.count_nonzero(s) + np.count_nonzero(s0)
    text = model.to_expression()
    assert len(re.split(r" [+-] ", re.sub(r"\([^()]*\)", "input", text))) == terms
    assert "e-" not in text
    # Weights and neurons of no effect are no part of the network, whatever it is refined by.
    raw = additive(beta="2%", refine="none").fit(X, score).network_
    assert np.abs(raw.output_weights).min() > 1e-8 * np.abs(raw.output_weights).max()
