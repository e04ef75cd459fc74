"""Effects, importances and formulas of estimators, in the columns of the user's table."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.inspection import permutation_importance
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from qsdp import (
    QuantizedNetworkClassifier,
    QuantizedNetworkRegressor,
)
from qsdp.encoding import Expression

RNG = np.random.default_rng(0)
X = RNG.normal([40.0, 0.0, 0.01, 5.0], [12.0, 1.0, 0.001, 2.0], size=(80, 4))
Z = (X - X.mean(axis=0)) / X.std(axis=0)
Y = 100.0 + 5.0 * (3.0 * Z[:, 0] + 2.0 * Z[:, 0] * Z[:, 1] + Z[:, 2] ** 2)
CODES = np.digitize(Y, np.quantile(Y, [0.3, 0.7]))
OPTIONS = {"beta": 1.0, "encoding": "standard", "random_state": 0}


def regressor(n_neurons=12, **options):
    return QuantizedNetworkRegressor(n_neurons, **{**OPTIONS, **options})


def classifier(**options):
    return QuantizedNetworkClassifier(12, **{**OPTIONS, **options})


class Bits:
    """Stand-in of an encoding."""

    def __init__(self, expressions):
        self.expressions = expressions

    def renamed(self, names):
        return Bits([replace(one, column=names[one.position]) for one in self.expressions])


class BitEncoder(TransformerMixin, BaseEstimator):
    """Columns 1 and 0 as numbers, and bits of column 0; no input for the other columns."""

    def fit(self, X, y=None):
        self.encoding_ = Bits(
            [
                Expression("x1", 1, "value", None, 0.25, 2.0),
                Expression("x0", 0, "above", 30.0, 0.0, 1.0),
                Expression("x0", 0, "value", None, 40.0, 12.0),
                Expression("x0", 0, "above", 45.5, 0.5, 0.5),
            ]
        )
        return self

    def transform(self, X):
        parts = [(X[:, e.position] > e.value) if e.is_bit else X[:, e.position] for e in self.encoding_.expressions]
        pairs = zip(parts, self.encoding_.expressions, strict=True)
        return np.column_stack([(part - e.center) / e.scale for part, e in pairs])


def output_of(model, data):
    return model.decision_function(data) if is_classifier(model) else model.predict(data)


MODELS = {
    "regressor": lambda: regressor().fit(X, Y),
    "weighted": lambda: regressor().fit(X, Y, sample_weight=np.arange(80) % 3),
    "two targets": lambda: regressor().fit(X, np.column_stack([Y, -1e3 * X[:, 3]])),
    "constant column": lambda: regressor(activation=None, encoding="none", beta=1e-3).fit(X, Y),
    "min max": lambda: regressor(encoding=MinMaxScaler()).fit(X, Y),
    "scaled twice, some columns": lambda: regressor(
        encoding=make_pipeline(RobustScaler(), VarianceThreshold(), StandardScaler())
    ).fit(X, Y),
    "mixed columns": lambda: regressor(encoding=PCA(3)).fit(X, Y),
    "bins": lambda: regressor(encoding=KBinsDiscretizer(3, encode="onehot-dense")).fit(X, Y),
    "bits": lambda: regressor(encoding=BitEncoder()).fit(X, Y),
    "bits, bilinear": lambda: regressor(encoding=BitEncoder(), activation=None).fit(X, Y),
    "two classes": lambda: classifier().fit(X, CODES > 0),
    "two outputs": lambda: classifier(loss="cross_entropy").fit(X, CODES > 0),
    "three classes": lambda: classifier().fit(X, CODES),
}


pytestmark = [
    pytest.mark.filterwarnings("ignore:the columns of X differ in scale"),
    pytest.mark.filterwarnings("ignore:the certified gap is"),
]


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


def test_effects_add_up_to_predictions(model):
    data = X[::3] + 0.1 * RNG.normal(size=X[::3].shape) * X.std(axis=0)
    values = output_of(model, data)
    effects, parts = model.effects(), model.contributions(data)
    assert parts.shape == (*values.shape, len(effects.terms))
    np.testing.assert_allclose(effects.constant + parts.sum(axis=-1), values, rtol=0, atol=1e-12 * np.abs(values).max())


def test_sizes_over_the_training_data_are_those_of_the_contributions(model):
    weights = model.result_.problem.sample_weight
    data = X if weights is None else X[np.arange(80) % 3 > 0]
    parts = model.contributions(data).reshape(len(data), -1, len(model.effects().terms))
    for k in range(parts.shape[1]):
        mean = np.average(parts[:, k], axis=0, weights=weights)
        sizes = np.sqrt(np.average((parts[:, k] - mean) ** 2, axis=0, weights=weights))
        table = {one.columns: one.size for one in model.effects().table(k)}
        found = [table[term] for term in model.effects().terms]
        np.testing.assert_allclose(found, sizes, rtol=1e-6, atol=1e-9 * sizes.max())
    given = model.effects(data, sample_weight=weights)
    np.testing.assert_allclose(given.main, model.effects().main, rtol=1e-9, atol=1e-12)


def evaluated(text, data):
    """Return the values of a formula in x0, x1, ... for rows of data."""
    body = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", text.replace("^", "**"))
    columns = {f"x{j}": column for j, column in enumerate(data.T)}
    return eval(body, {"__builtins__": {}}, columns) * np.ones(len(data))


def within_limits(model, data):
    """Return data with numbers beyond the limits of the encoding cut, as the network sees them."""
    for one in getattr(model.encoder_, "expressions_", ()):
        if one.kind == "value":
            data = data.copy()
            data[:, one.position] = np.clip(data[:, one.position], one.low, one.high)
    return data


@pytest.mark.parametrize("name", [name for name in MODELS if name not in {"mixed columns", "bins"}])
def test_formulas_are_the_predictions(name):
    model = MODELS[name]()
    values = output_of(model, X)
    texts = model.to_expression(digits=17)
    data = within_limits(model, X)
    found = np.column_stack([evaluated(text, data) for text in ([texts] if isinstance(texts, str) else texts)])
    np.testing.assert_allclose(found.reshape(values.shape), values, rtol=0, atol=1e-9 * np.abs(values).max())


def test_a_formula_of_few_digits_is_near_whatever_the_means():
    far = X + np.array([1e6, 0.0, 0.0, 0.0])
    model = regressor().fit(far, Y)
    values = model.predict(far)
    data = within_limits(model, far)
    assert np.abs(evaluated(model.to_expression(digits=6), data) - values).max() < 1e-2 * values.std()


def test_bits_are_written_as_zero_and_one_without_squares():
    text = MODELS["bits"]().to_expression(["age", "annual income", "c", "d"], digits=3)
    assert "(age > 30)" in text
    assert "(age > 45.5)" in text
    assert "(age - 40)" in text
    assert "(annual income - 0.25)" in text
    assert not re.search(r"> [\d.]+\)\^2", text)


@pytest.mark.parametrize("encoding", ["additive", "standard"])
def test_formulas_have_no_products_of_two_values_of_a_column(encoding):
    rng = np.random.default_rng(1)
    colours = np.array(["red", "blue", "green", None], dtype=object)[rng.integers(0, 4, 300)]
    frame = pd.DataFrame({"colour": colours, "size": rng.normal(size=300)})
    target = frame["size"] * (frame["colour"] == "red") + 2.0 * frame["colour"].isna()
    model = QuantizedNetworkRegressor(beta="1%", encoding=encoding, random_state=0).fit(frame, target)
    terms = r"\((colour (?:== \w+|is missing))\)"
    text = model.to_expression(digits=17)
    assert set(re.findall(terms, text)) >= {"colour == red", "colour is missing"}
    assert not re.search(rf"{terms} {terms}", text)
    encoder = model.encoder_.inputs_ if encoding == "additive" else model.encoder_
    (size,) = (one for one in encoder.expressions_ if one.kind == "value")
    for colour in ("red", "blue", "green", None):
        bits = {f"colour == {name}": name == colour for name in ("red", "blue", "green")}
        bits["colour is missing"] = colour is None
        formula = text.replace("size", "x0")
        for name, bit in bits.items():
            formula = formula.replace(f"({name})", f"({int(bit)})")
        row = pd.DataFrame({"colour": pd.Series([colour], dtype=object), "size": [0.5]})
        assert size.low < 0.5 < size.high
        np.testing.assert_allclose(evaluated(formula, np.array([[0.5]])), model.predict(row), rtol=1e-9)


def test_importances_of_bits_are_those_of_their_column():
    model = MODELS["bits"]()
    assert model.feature_importances_.shape == (4,)
    assert model.feature_importances_[2:].tolist() == [0.0, 0.0]
    assert model.effects(names=list("abcd")).columns == tuple("abcd")


def test_importances(model):
    if isinstance(model.encoder_, (PCA, KBinsDiscretizer)):
        effects = model.effects()
        assert effects.columns == tuple(model.encoder_.get_feature_names_out())
        assert effects.importances.sum() == pytest.approx(1.0)
        with pytest.raises(AttributeError, match=r"one column each; use .* the outputs of (PCA|KBinsDiscretizer)"):
            _ = model.feature_importances_
        return
    assert model.feature_importances_.shape == (4,)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.effects().columns == ("x0", "x1", "x2", "x3")


def test_importances_rank_as_permutations_do():
    model = regressor(n_neurons=40, refine="refit", beta=0.1).fit(X, Y)
    permuted = permutation_importance(model, X, Y, n_repeats=5, random_state=0).importances_mean
    assert np.argmax(model.feature_importances_) == np.argmax(permuted) == 0
    assert np.argmin(model.feature_importances_) == np.argmin(permuted) == 3
    pairs = [one for one in model.effects().table() if len(one.columns) == 2]
    assert pairs[0].columns == ("x0", "x1")


def test_units_of_targets_do_not_matter_for_importances_and_do_for_effects():
    one, other = (regressor().fit(X, np.column_stack([Y, unit * X[:, 3]])) for unit in (1.0, 1024.0))
    np.testing.assert_allclose(one.feature_importances_, other.feature_importances_, rtol=1e-9)
    np.testing.assert_allclose(1024.0 * one.effects().main[1], other.effects().main[1], rtol=1e-9)


def test_outputs_have_the_names_of_classes():
    labels = np.array(["low", "middle", "high"])[CODES]
    model = classifier().fit(X, labels)
    effects = model.effects()
    assert effects.outputs == ("class high", "class low", "class middle")
    assert effects.table("class low") == effects.table(1)
    # Numbers that are classes are not taken for ranks.
    rows = classifier().fit(X, CODES).effects()._summary().rows
    assert [name.split(":")[0] for name, _ in rows[1:]] == ["class 0", "class 1", "class 2"]
    # The only score of two classes is positive for the second one, and the summary says so.
    assert ("output", "class True") in classifier().fit(X, CODES > 0).effects()._summary().rows
    scores = effects.constant + model.contributions(X).sum(axis=-1)
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=0, atol=1e-9)
    targets = np.stack([X[:, 0], X[:, 1] * X[:, 2]], axis=1)
    assert regressor().fit(X, targets).effects().outputs == ("output 0", "output 1")


def test_after_resampling_the_new_network_is_explained():
    model = regressor().fit(X, Y)
    before = model.effects().main
    effects = model.resample(200, random_state=1).effects()
    assert not np.array_equal(effects.main, before)
    total = effects.constant + model.contributions(X).sum(axis=1)
    np.testing.assert_allclose(total, model.predict(X), rtol=1e-12)


def test_effects_of_other_transformers_are_those_of_their_outputs() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "city": rng.choice(["x", "y"], 90), "b": rng.normal(size=90)})
    target = frame["a"] * frame["b"] + (frame["city"] == "x")
    encoding = make_column_transformer((OneHotEncoder(), ["city"]), (StandardScaler(), ["a", "b"]))
    model = QuantizedNetworkRegressor(20, beta="5%", encoding=encoding, refine="none", random_state=0)
    model.fit(frame, target)
    names = ("onehotencoder__city_x", "onehotencoder__city_y", "standardscaler__a", "standardscaler__b")
    assert model.effects().columns == model.effects(names=["1", "2", "3"]).columns == names
    assert set(re.findall(r"[a-z_]{3,}", model.to_expression())) == set(names)
    parts = model.effects().constant + model.contributions(frame).sum(axis=1)
    np.testing.assert_allclose(parts, model.predict(frame), rtol=0, atol=1e-12)
    # Without names of outputs, they have numbers.
    model.set_params(encoding=FunctionTransformer(np.tanh)).fit(X, Y)
    assert model.effects().columns == ("input 0", "input 1", "input 2", "input 3")
