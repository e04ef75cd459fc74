"""Labels of any kind: objects that can be sorted are classes, and the others are refused."""

import enum
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.export import describe

X = np.random.default_rng(0).normal(size=(60, 3))
PRODUCT = X[:, 0] * X[:, 1]


def objects(entries):
    labels = np.empty(len(entries), dtype=object)
    labels[:] = entries
    return labels


LABELS = {
    "intervals": pd.Series(pd.cut(PRODUCT, [-9.0, -0.2, 0.2, 9.0])),
    "list of intervals": list(pd.cut(PRODUCT, [-9.0, 0.0, 9.0])),
    "decimals": [Decimal(int(one > 0.0)) for one in PRODUCT],
    "fractions": objects([Fraction(int(one > 0.0)) for one in PRODUCT]),
    "integers as objects": objects((PRODUCT > 0.0).astype(int).tolist()),
    "periods": pd.Series(pd.PeriodIndex(np.where(PRODUCT > 0.0, "2020Q1", "2020Q2"), freq="Q")),
    "tuples": objects([("up", 1) if one > 0.0 else ("down", 2) for one in PRODUCT]),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_that_can_be_sorted_are_classes(labels):
    codes = np.unique(objects(list(labels)), return_inverse=True)[1]
    model = qsdp.QuantizedNetworkClassifier(20, beta="5%", encoding="standard", refine="none", random_state=0)
    by_codes, by_labels = model.fit(X, codes).predict(X), model.fit(X, labels).predict(X)
    classes = sorted(set(labels))
    assert model.classes_.tolist() == classes
    assert by_labels.tolist() == [classes[code] for code in by_codes]
    assert model.score(X, labels) == pytest.approx(np.mean(by_codes == codes))
    weights = np.arange(60.0)
    assert model.score(X, labels, weights) == pytest.approx(np.average(by_codes == codes, weights=weights))


def test_exports_name_objects_by_their_text():
    model = qsdp.QuantizedNetworkClassifier(n_neurons=20, tol=1e-2, random_state=0).fit(X, LABELS["intervals"])
    description = describe(model)
    assert description.classes == ("(-9.0, -0.2]", "(-0.2, 0.2]", "(0.2, 9.0]")
    scores = description.scores(description.columns(X))
    predicted = description.predictions(description.decide(scores))
    assert predicted.tolist() == [str(label) for label in model.predict(X)]


class Side(str, enum.Enum):
    NORTH = "n"
    NORTHWEST = "nw"


def test_members_that_are_text_are_not_cut():
    labels = [Side.NORTH, Side.NORTHWEST] * 30
    with pytest.raises(InvalidInputError, match=r"by their values, \[label.value for label in y\]; got <Side.NORTH"):
        qsdp.QuantizedNetworkClassifier().fit(X, labels)
    model = qsdp.QuantizedNetworkClassifier(n_neurons=20, tol=1e-2, random_state=0)
    assert model.fit(X, [label.value for label in labels]).classes_.tolist() == ["n", "nw"]


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("message", "labels"),
    {
        "labels of y must be text, numbers or other objects that can be sorted; got Colour, such as <Colour.RED": [
            Colour.RED,
            Colour.BLUE,
        ],
        "objects that can be sorted; got frozenset": [frozenset({1}), frozenset({2})],
        "objects that can be sorted; got dict": [{"a": 1}, {"b": 2}],
        "objects that can be sorted; got list": [[0, 1], [1, 0]],
        "y must have a label in every row; got NaT in row 1": [pd.Period("2020-01"), pd.NaT],
        r"y must have a label in every row; got Decimal\('NaN'\) in row 1": [Decimal(1), Decimal("NaN")],
        "Unknown label type: continuous": [Decimal("0.5"), Decimal("1.5")],
        "must be all text or all numbers": ["a", Decimal(1)],
    }.items(),
)
def test_labels_that_are_refused(message, labels):
    with pytest.raises(InvalidInputError, match=message):
        qsdp.QuantizedNetworkClassifier().fit(X, objects(labels * 30))
