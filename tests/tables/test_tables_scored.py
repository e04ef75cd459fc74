"""Scores of models on rows with known targets."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, r2_score
from table_files import KINDS, fit_to, rows_table, trained

import qsdp
from qsdp.exceptions import InvalidInputError
from qsdp.tables.scored import ScoredRows, scored_rows, truth_of
from qsdp.tables.training_tables import inputs_of, problem_on, split


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_scikit_learn(kind: str) -> None:
    model, rows = trained(kind), rows_table()
    scored = ScoredRows.of("rows", model, rows)
    predicted, written = model.predict(inputs_of(model, rows)), rows[model.table_.target]
    if kind == "price":
        truth = written.astype(float)
        assert scored.score() == pytest.approx(r2_score(truth, predicted), rel=1e-12)
        np.testing.assert_allclose(scored.values(), predicted, rtol=1e-12)
        np.testing.assert_allclose(model.target_scaling_.decode(scored.truth), truth, rtol=1e-12, atol=1e-12)
        return
    assert scored.score() == accuracy_score(written, predicted)
    np.testing.assert_array_equal(scored.confusion(), confusion_matrix(written, predicted, labels=model.classes_))
    assert scored.common_class()[1] == written.value_counts().max() / len(rows)
    np.testing.assert_allclose(
        model.decision_function(inputs_of(model, rows)).reshape(len(rows), -1)[:, -1],
        scored.values().reshape(len(rows), -1)[:, -1]
        - (scored.values().reshape(len(rows), -1)[:, 0] if kind == "entropy" else 0.0),
        rtol=1e-12,
    )


def test_weights_of_rows_count_in_scores() -> None:
    weights = np.arange(len(rows_table())) % 3
    rows = rows_table().assign(w=weights)
    for estimator, target in ((qsdp.QuantizedNetworkClassifier, "label"), (qsdp.QuantizedNetworkRegressor, "price")):
        drop = [name for name in ("label", "price", "grade") if name != target]
        model = fit_to(estimator(random_state=0, encoding="standard"), rows, target, drop, weights="w")
        scored, predicted = ScoredRows.of("rows", model, rows), model.predict(inputs_of(model, rows))
        if target == "label":
            assert scored.score() == pytest.approx(accuracy_score(rows[target], predicted, sample_weight=weights))
            shares = [weights[rows[target] == label].sum() for label in ("big", "small")]
            assert scored.common_class()[1] == pytest.approx(max(shares) / weights.sum())
            totals = scored.confusion(weighted=True)
            assert totals.sum() == weights.sum()
            recalls = np.diagonal(totals) / totals.sum(axis=1)
            assert scored.recalls() == pytest.approx(dict(enumerate(recalls.tolist())))
        else:
            expected = r2_score(rows[target].astype(float), predicted, sample_weight=weights)
            assert scored.score() == pytest.approx(expected, rel=1e-12)
        assert ScoredRows.of("rows", model, rows.drop(columns="w")).weights is None


def test_unknown_labels_are_wrong_and_in_no_confusion() -> None:
    model, rows = trained("label"), rows_table().copy()
    rows.loc[rows.index[:5], "label"] = "other"
    truth = truth_of(model, rows)
    assert truth[:5].tolist() == [-1] * 5
    assert set(truth[5:]) == {0, 1}
    scored = ScoredRows.of("rows", model, rows)
    assert scored.confusion().sum() == len(rows) - 5
    assert scored.score() == pytest.approx(np.trace(scored.confusion()) / len(rows))


def test_a_constant_truth_has_no_score() -> None:
    model: Any = trained("price")
    predicting = SimpleNamespace(predict=lambda X: X[:, 0])
    X = np.array([[1.0], [2.0]])
    assert ScoredRows("rows", model, X, X, np.array([1.0, 2.0]), None).score(predicting) == 1.0
    assert math.isnan(ScoredRows("rows", model, X, X, np.array([2.0, 2.0]), None).score(predicting))


def test_the_parts_of_the_training_table_or_all_rows() -> None:
    model, rows = trained("label"), rows_table()
    (train, test), problem = scored_rows(model, rows)
    assert (train.name, test.name) == ("training rows", "test rows")
    assert problem == problem_on(model, rows)
    parts = split(model.table_, rows)
    np.testing.assert_array_equal(train.X, model.network_inputs(inputs_of(model, parts[0])))
    np.testing.assert_array_equal(test.X, model.network_inputs(inputs_of(model, parts[1])))
    (others,), problem = scored_rows(model, rows[:20])
    assert (others.name, len(others.X), problem) == ("rows", 20, None)
    with pytest.raises(InvalidInputError, match=r"data\.csv' has no row in which the target 'label' is known"):
        scored_rows(model, rows[:3].assign(label=None))
