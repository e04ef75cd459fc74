"""Search for columns that predict left-out rows almost perfectly by themselves, which often means a leak."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.tables.scored import ScoredRows

__all__ = ["leaking_columns"]

#: Area under the ROC curve, or rank correlation with a number, from which a column predicts almost perfectly.
_ALMOST = 0.999

#: Fewest left-out rows: of fewer, some column of noise orders them by chance. Ten to fifty would do.
_FEWEST = 20


def leaking_columns(fitted: ScoredRows, part: ScoredRows) -> list[str]:
    """Return the columns in use each of which predicts left-out rows almost perfectly, unless it is the only one.

    For classes, a tree with one leaf for each class, of this column alone and of the training rows, must have an area
    under the ROC curve of at least 0.999. A number must have the same order as the column, or the reverse one: the
    magnitude of their rank correlation is at least 0.999. Categories are first replaced by their mean targets.
    """
    encoder, classes = part.model._columns_encoder, hasattr(part.model, "classes_")
    columns = encoder.encoding_.columns
    if len(columns) < 2 or len(part.truth) < _FEWEST:
        return []
    train, test = encoder._table(fitted.table, warned=True), encoder._table(part.table, warned=True)
    learned = fitted.truth >= 0 if classes else np.ones(len(fitted.truth), dtype=bool)
    scored = part.truth >= 0 if classes else np.ones(len(part.truth), dtype=bool)
    leaking = []
    for position in encoder.encoding_.used:
        pair = train[position][learned], test[position][scored]
        if columns[position].categories is not None:
            pair = _means_of_categories(*pair, fitted.truth[learned])
        if _predicts(pair, fitted.truth[learned], part.truth[scored], classes=classes):
            leaking.append(columns[position].name)
    return leaking


def _predicts(columns: tuple[FloatArray, FloatArray], learned: FloatArray, truth: FloatArray, *, classes: bool) -> bool:
    train, test = columns
    if not classes:
        from scipy.stats import spearmanr

        with warnings.catch_warnings():
            # A constant column has no rank correlation.
            warnings.simplefilter("ignore")
            return abs(float(spearmanr(test, truth, nan_policy="omit").statistic)) >= _ALMOST
    from sklearn.metrics import roc_auc_score
    from sklearn.tree import DecisionTreeClassifier

    labels = np.unique(learned)
    if not np.array_equal(labels, np.unique(truth)):
        return False
    tree = DecisionTreeClassifier(max_leaf_nodes=len(labels), random_state=0).fit(train[:, None], learned)
    likely = tree.predict_proba(test[:, None])
    area = roc_auc_score(truth, likely[:, 1] if len(labels) == 2 else likely, multi_class="ovr")
    return bool(area >= _ALMOST)


def _means_of_categories(
    train: npt.NDArray[Any], test: npt.NDArray[Any], truth: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean target of the category of each row; the mean of all where training has no such category."""
    totals: dict[Any, list[float]] = {}
    for entry, value in zip(train.tolist(), truth.tolist(), strict=True):
        totals.setdefault(entry, []).append(value)
    means = {entry: float(np.mean(values)) for entry, values in totals.items()}
    overall = float(truth.mean())
    return tuple(np.array([means.get(entry, overall) for entry in part.tolist()]) for part in (train, test))  # type: ignore[return-value]
