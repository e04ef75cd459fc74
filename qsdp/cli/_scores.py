"""What accuracy alone hides: scores of classes, the largest class, and a linear model on the same inputs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.cli._reports import score_figures
from qsdp.estimators.classes import choose_classes, class_scores
from qsdp.exceptions import QSDPWarning
from qsdp.report._scored import ScoredRows
from qsdp.report.figures import Figure, show_score
from qsdp.tabular import DataTable, TabularModel, Training

#: Rows and iterations of the logistic regression: enough for a comparison.
_ROWS, _ITERATIONS = 20_000, 300

#: A class of a smaller share of the training rows, with a smaller recall, calls for weights.
_RARE, _FOUND = 0.2, 0.5


def fit_figures(model: TabularModel, training: Training, test: DataTable, sampled: str = "") -> list[Figure]:
    """Return the scores of a model on its training and test rows, and comparisons on the test rows if there are any.

    Classes have the score of always predicting the largest one, that of a logistic regression on the same inputs and
    rows, the mean of their recalls and, for two, the area under the ROC curve.
    """
    fitted = ScoredRows.of(f"{sampled}training rows", model, training.train, training.X)
    parts = [fitted] + ([ScoredRows.of(f"{sampled}test rows", model, test)] if len(test) else [])
    figures = score_figures(model.target, [(part.name, part.score(model.network)) for part in parts])
    return figures if model.target.classes is None else figures + _of_classes(fitted, training.weights, parts[-1])


def _of_classes(fitted: ScoredRows, given: FloatArray | None, part: ScoredRows) -> list[Figure]:
    """Return the comparisons on a part of the rows, of a model that was fitted to rows with the given weights."""
    from sklearn.metrics import recall_score, roc_auc_score

    model, rows, classes = part.model, part.name, part.model.target.classes or ()
    known = part.truth >= 0
    if not np.any(known):
        return []
    X, truth = part.X[known], part.truth[known].astype(int)
    values, weights = part.values()[known], None if part.weights is None else part.weights[known]
    shares = np.bincount(fitted.truth.astype(int), fitted.weights, minlength=len(classes))
    largest = int(np.argmax(shares))
    chosen = choose_classes(values)

    def accuracy(predicted: npt.NDArray[Any]) -> str:
        return show_score(float(np.average(predicted == truth, weights=weights)), number=False)

    figures = [
        ("", accuracy(np.full(len(truth), largest)), f"{rows}, if {classes[largest]!r} is always predicted"),
        (
            "",
            accuracy(_of_logistic_regression(fitted, given, X)),
            f"{rows}, logistic regression on the inputs",
        ),
    ]
    recalls = recall_score(
        truth, chosen, labels=np.unique(truth), average=None, sample_weight=weights, zero_division=0.0
    )
    figures.append(
        ("balanced", show_score(float(recalls.mean()), number=False), f"{rows}, mean of the recalls of the classes")
    )
    if len(classes) == 2 and len(recalls) == 2:
        area = float(roc_auc_score(truth, class_scores(values), sample_weight=weights))
        figures.append(("AUC", f"{area:.3f}", f"{rows}, area under the ROC curve"))
    for code, recall in zip(np.unique(truth).tolist(), recalls.tolist(), strict=True):
        share = shares[code] / shares.sum()
        if share < _RARE and recall < _FOUND and model.weighting.class_weight is None:
            warnings.warn(
                f"class {classes[code]!r} has {100.0 * share:.1f} % of the training rows, and {100.0 * recall:.0f} % "
                f"of its {rows} are found; --class-weight balanced gives all classes the same total weight",
                QSDPWarning,
                stacklevel=2,
            )
            break
    return figures


def _of_logistic_regression(fitted: ScoredRows, weights: FloatArray | None, X: FloatArray) -> FloatArray:
    """Return the classes that a logistic regression on the training rows predicts."""
    from sklearn.linear_model import LogisticRegression

    some = slice(None, None, max(1, len(fitted.X) // _ROWS))
    with warnings.catch_warnings():
        # It need not have converged.
        warnings.simplefilter("ignore")
        linear = LogisticRegression(max_iter=_ITERATIONS)
        linear.fit(fitted.X[some], fitted.truth[some], None if weights is None else weights[some])
    predicted: FloatArray = linear.predict(X)
    return predicted
