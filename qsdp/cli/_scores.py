"""Scores of a fit, with references for accuracy: the largest class, logistic regression, and recalls of classes."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray, warn
from qsdp.cli._leaks import leaking_columns
from qsdp.cli._rows import TrainingRows
from qsdp.exceptions import QSDPWarning
from qsdp.report.figures import Figure, show_score
from qsdp.report.rivals import linear_model
from qsdp.tables.scored import ScoredRows

#: Warn of classes rarer than this in training whose recall is below that.
_RARE_CLASS, _LOW_RECALL = 0.2, 0.5


def fit_figures(model: Any, rows: TrainingRows) -> list[Figure]:
    """Return the scores of a model on its training and test rows, and comparisons on the test rows if there are any.

    Classes have the score of always predicting the largest one, that of a logistic regression on the same inputs and
    rows, the mean of their recalls and, for two, the area under the ROC curve.
    """
    fitted = ScoredRows.from_model("training rows", model, rows.train, model.result_.rows.X)
    with warnings.catch_warnings():
        # The fit has warned of them in its own rows, or the score shows what they cost.
        warnings.filterwarnings("ignore", "entries outside the categories", QSDPWarning)
        parts = [fitted] + ([ScoredRows.from_model("test rows", model, rows.test)] if len(rows.test) else [])
        leaking = leaking_columns(fitted, parts[1]) if len(parts) > 1 else []
    if leaking:
        many, each = ("columns", "each of them") if len(leaking) > 1 else ("column", "it")
        warn(
            f"{many} {', '.join(map(repr, leaking))} alone predicts the {parts[1].name} almost perfectly: if {each} is "
            f"known only together with the target, leave it out with {' '.join(f'--drop {name!r}' for name in leaking)}"
        )
    number = rows.source.kind is not None
    label = "R²" if number else "accuracy"
    figures = [(label, show_score(part.score(), number=number), part.name) for part in parts]
    figures[1:] = [("", *figure[1:]) for figure in figures[1:]]
    return figures if number else figures + _of_classes(fitted, model.result_.rows.sample_weight, parts[-1])


def _of_classes(fitted: ScoredRows, sample_weight: FloatArray | None, part: ScoredRows) -> list[Figure]:
    """Return the figures for classes on training or test rows; `sample_weight` is that of the fit."""
    model, rows, classes = part.model, part.name, [str(label) for label in part.model.classes_.tolist()]
    truth, _, weights = part.known()
    if not len(truth):
        return []
    frequencies = np.bincount(fitted.truth.astype(int), fitted.weights, minlength=len(classes))
    largest = int(np.argmax(frequencies))

    def accuracy(predicted: npt.NDArray[Any]) -> str:
        return show_score(float(np.average(predicted == truth, weights=weights)), number=False)

    figures = [
        ("", accuracy(np.full(len(truth), largest)), f"{rows}, if {classes[largest]!r} is always predicted"),
        (
            "",
            accuracy(linear_model(fitted, sample_weight).predict(part.inputs[part.truth >= 0])),
            f"{rows}, logistic regression on the inputs",
        ),
    ]
    recalls, area = part.recalls(), part.area()
    mean = float(np.mean([*recalls.values()]))
    figures.append(("balanced", show_score(mean, number=False), f"{rows}, mean of the recalls of the classes"))
    if not math.isnan(area):
        figures.append(("AUC", f"{area:.3f}", f"{rows}, area under the ROC curve"))
    for code, recall in recalls.items():
        frequency = frequencies[code] / frequencies.sum()
        if frequency < _RARE_CLASS and recall < _LOW_RECALL and model.class_weight is None:
            warnings.warn(
                f"class {classes[code]!r} has {100.0 * frequency:.1f} % of the training rows, and "
                f"{100.0 * recall:.0f} % of its {rows} are predicted correctly; with --class-weight "
                "balanced, all classes weigh the same",
                QSDPWarning,
                stacklevel=2,
            )
            break
    return figures
