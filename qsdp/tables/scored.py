"""Evaluation of a fitted model on rows of a table with known targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.blocks import Blocks
from qsdp.encoding.used_columns import title
from qsdp.estimators.classes import choose_classes, class_scores
from qsdp.exceptions import InvalidInputError
from qsdp.problem import TrainingProblem
from qsdp.tables.training_tables import inputs_of, problem_if_trained, split, targets_of, weights_of, with_target

if TYPE_CHECKING:
    import pandas

__all__ = ["ScoredRows", "class_names", "scored_rows", "truth_of"]


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with known targets, and the model's outputs, score and confusion matrix on them.

    Attributes
    ----------
    name : str
        Name of the rows, such as "test rows".
    model : estimator
    table : data frame or array
        Rows as `model.predict` takes them.
    X : ndarray or Blocks
        Inputs of networks.
    truth : ndarray of shape (n,)
        True targets: numbers in the units of outputs, or class numbers with -1 for labels not seen in training.
    weights : ndarray of shape (n,) or None
    """

    name: str
    model: Any
    table: Any
    X: FloatArray | Blocks
    truth: FloatArray
    weights: FloatArray | None

    @classmethod
    def from_model(
        cls, name: str, model: Any, table: pandas.DataFrame, X: FloatArray | Blocks | None = None
    ) -> ScoredRows:
        """Collect the rows of a table with targets and, if present, weights; X are their inputs, if known."""
        weights = weights_of(model.table_, table) if model.table_.weights in table.columns else None
        columns = inputs_of(model, table)
        X = model.network_inputs(columns) if X is None else X
        return cls(name, model, columns, X, truth_of(model, table), weights)

    @cached_property
    def inputs(self) -> FloatArray:
        """Encoded columns, which linear models take."""
        inputs: FloatArray = self.model.encoder_.inputs_of(self.X) if isinstance(self.X, Blocks) else self.X
        return inputs

    @cached_property
    def outputs(self) -> FloatArray:
        """Outputs of the model's network."""
        outputs: FloatArray = self.model.network_.predict(self.X)
        return outputs

    def score(self) -> float:
        """Compute the (weighted) accuracy, or R² (NaN for a constant truth)."""
        outputs, truth, weights = self.outputs, self.truth, self.weights
        if hasattr(self.model, "classes_"):
            chosen = choose_classes(self.model.target_scaling_.decode(outputs))
            return float(np.average(chosen == truth, weights=weights))
        spread = float(np.average((truth - np.average(truth, weights=weights)) ** 2, weights=weights))
        error = float(np.average((truth - outputs) ** 2, weights=weights))
        return 1.0 - error / spread if spread > 0.0 else math.nan

    def values(self) -> FloatArray:
        """Return the predicted class scores, or the predicted numbers in the units of the target."""
        values: FloatArray = self.model.target_scaling_.decode(self.outputs)
        return values

    def recalls(self) -> dict[int, float]:
        """Compute the recall of every class of the rows, by its number."""
        from sklearn.metrics import recall_score

        truth, values, weights = self.known()
        labels = np.unique(truth)
        recalls = recall_score(
            truth, choose_classes(values), labels=labels, average=None, sample_weight=weights, zero_division=0.0
        )
        return dict(zip(labels.tolist(), recalls.tolist(), strict=True))

    def area(self) -> float:
        """Compute the area under the ROC curve; NaN unless there are two classes, both among the rows."""
        from sklearn.metrics import roc_auc_score

        truth, values, weights = self.known()
        if not len(np.unique(truth)) == len(self.model.classes_) == 2:
            return math.nan
        return float(roc_auc_score(truth, class_scores(values), sample_weight=weights))

    def known(self) -> tuple[npt.NDArray[np.intp], FloatArray, FloatArray | None]:
        """Return true classes, scores of classes and weights of the rows whose class was seen in training."""
        known = self.truth >= 0
        weights = None if self.weights is None else self.weights[known]
        values = self.model.target_scaling_.decode(self.outputs[known])
        return self.truth[known].astype(np.intp), values, weights

    def confusion(self) -> npt.NDArray[np.int64]:
        """Count the rows of known classes by true and predicted class, (C, C)."""
        from sklearn.metrics import confusion_matrix

        truth, values, _ = self.known()
        counts: npt.NDArray[np.int64] = confusion_matrix(
            truth, choose_classes(values), labels=range(len(self.model.classes_))
        )
        return counts

    def common_class(self) -> tuple[int, float]:
        """Return the class with the largest weight, and its fraction of the rows."""
        weights = np.ones(len(self.truth)) if self.weights is None else self.weights
        known = self.truth >= 0
        totals = np.bincount(self.truth[known].astype(np.intp), weights[known], minlength=1)
        return int(totals.argmax()), float(totals.max() / weights.sum())


def class_names(model: Any) -> list[str] | None:
    """Return the labels of a classifier as text, or None for a regressor."""
    return [str(label) for label in model.classes_] if hasattr(model, "classes_") else None


def truth_of(model: Any, table: pandas.DataFrame) -> npt.NDArray[Any]:
    """Extract the targets of rows: numbers in the units of outputs, or class numbers with -1 for unknown labels."""
    if not hasattr(model, "classes_"):
        numbers: FloatArray = model.target_scaling_.encode(targets_of(model.table_, table))
        return numbers
    labels = model.classes_.tolist()
    known = {label: code for code, label in enumerate(labels)}
    return np.array([known.get(label, -1) for label in targets_of(model.table_, table, labels).tolist()], dtype=np.intp)


def scored_rows(model: Any, table: pandas.DataFrame) -> tuple[list[ScoredRows], TrainingProblem | None]:
    """Return training and test rows with the training problem if the model was trained on the table, else all rows."""
    problem = problem_if_trained(model, table)
    if problem is None:
        rows = with_target(model.table_, table)
        if not len(rows):
            raise InvalidInputError(f"{title(table)} has no row in which the target {model.table_.target!r} is known")
        return [ScoredRows.from_model("rows", model, rows)], None
    train, test = split(model.table_, table)
    parts = [ScoredRows.from_model("training rows", model, train, problem.X)]
    return parts + ([ScoredRows.from_model("test rows", model, test)] if len(test) else []), problem
