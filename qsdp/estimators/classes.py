"""Conversion of class labels to targets of a network, and of its outputs to scores and probabilities of classes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import pairwise
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_expit, softmax

from qsdp._utils.validation import FloatArray, check_choice, check_real
from qsdp.encoding.reading_rule import is_missing, is_wide
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss


def encode_classes(codes: npt.NDArray[np.intp], n_classes: int, loss: Loss) -> FloatArray:
    """Return targets for class numbers: -1 and +1, (n,), for two classes, else rows (n, C) with a one at the class.

    The other entries of a row are 0, or -1 for losses of labels. Coupled losses have rows for two classes too.
    Negative numbers stand for no class and become nan.
    """
    several = class_shape(n_classes, loss)
    coded = np.where(codes[:, None] == np.arange(n_classes), 1.0, 0.0 if several and not loss.labels else -1.0)
    coded[codes < 0] = np.nan
    return coded if several else coded[:, 1]


def class_shape(n_classes: int, loss: Loss) -> tuple[int, ...]:
    """Return the shape of the target of a sample: () for two classes, unless the loss couples outputs, else (C,)."""
    return () if n_classes == 2 and not loss.coupled else (n_classes,)


def centres(loss: Loss) -> bool:
    """Return whether training centres coded classes; losses for classes need the codes -1 and +1, or 0 and 1."""
    return not loss.for_classes


def are_objects(y: npt.NDArray[Any]) -> bool:
    """Return whether labels are Python objects other than text, a kind of targets unknown to scikit-learn."""
    return y.dtype == object and not isinstance(next(iter(y.flat), ""), str)


def check_class_targets(y: npt.NDArray[Any]) -> None:
    """Raise if scikit-learn considers the labels continuous numbers, also if they are objects such as Decimals."""
    from sklearn.utils.multiclass import check_classification_targets

    if not are_objects(y):
        check_classification_targets(y)
    elif all(isinstance(label, Number) for label in y.flat):
        check_classification_targets(y.astype(np.float64))


def check_labels(y: Any) -> None:
    """Raise if rows have several labels, or labels are missing or cannot be sorted, such as text mixed with numbers."""
    y = y.to_list() if is_wide(y) else y
    _check_single_label(y)
    if isinstance(y, list):
        entries = y
        members = [entry for entry in y if isinstance(entry, Enum) and isinstance(entry, str)]
        # NumPy would convert them to their names, cut to the length of the values.
        if np.asarray(members).tolist() != list(map(str, members)):
            raise InvalidInputError(
                "labels of y that are members of an enumeration of text must be given by their values, "
                f"[label.value for label in y]; got {members[0]!r:.60}"
            )
    elif (
        getattr(y, "dtype", None) is not None
        and not hasattr(y, "toarray")
        and (array := np.asarray(y)).dtype.kind == "O"
    ):
        entries = array.ravel().tolist()
    else:
        return
    for row, entry in enumerate(entries):
        if is_missing(entry):
            raise InvalidInputError(f"y must have a label in every row; got {entry!r} in row {row}")
    kinds = {"text" if isinstance(entry, str) else type(entry).__name__ for entry in entries}
    if "text" in kinds and len(kinds) > 1 and not isinstance(y, list):
        raise InvalidInputError(f"labels of y must be all text or all numbers; got {' and '.join(sorted(kinds))}")
    if "text" not in kinds and not (isinstance(y, list) and kinds & {"list", "ndarray"}):
        _check_sortable(entries)


def _check_single_label(y: Any) -> None:
    """Raise an error if rows have several labels, in columns or in lists."""
    try:
        shape = tuple(y.shape) if hasattr(y, "shape") else np.asarray(y).shape
        several, described = len(shape) > 1 and shape[1] > 1, f"shape {shape}"
    except ValueError:
        several, described = True, "rows of different lengths"
    if several:
        raise InvalidInputError(
            f"y must have shape (n,), one label for each row; got {described}: for several labels of a row, use "
            "sklearn.multioutput.MultiOutputClassifier, which trains a classifier for each column of zeros and ones"
        )


def _check_sortable(labels: list[Any]) -> None:
    """Raise an error unless the labels have a total order."""
    try:
        ascending = sorted(set(labels))
        sortable = all(label < other for label, other in pairwise(ascending))
    except TypeError:
        sortable = False
    if not sortable:
        kinds = " and ".join(sorted({type(label).__name__ for label in labels}))
        raise InvalidInputError(
            f"labels of y must be text, numbers or other objects that can be sorted; got {kinds}, such as "
            f"{labels[0]!r:.60}; use text instead: [str(label) for label in y]"
        )


def check_class_weight(name: str, class_weight: Any) -> None:
    """Raise unless `class_weight` is None, "balanced" or a mapping of labels to positive weights."""
    if isinstance(class_weight, Mapping):
        for label, weight in class_weight.items():
            check_real(f"{name}[{label!r}]", weight, strict=True)
    elif class_weight is not None:
        check_choice(f"{name}, if neither None nor a mapping of labels to weights,", class_weight, ["balanced"])


def class_factors(
    class_weight: Any, labels: list[Any], codes: npt.NDArray[np.intp], sample_weight: FloatArray | None
) -> FloatArray | None:
    """Return the factor of each class on the sample weights, or None if every factor is one.

    Parameters
    ----------
    class_weight : None, "balanced" or mapping
        As `check_class_weight` accepts it; a label missing from a mapping has weight one.
    labels : list
        The labels of the class numbers.
    codes : ndarray of shape (n,)
        Class numbers; each class is present.
    sample_weight : ndarray of shape (n,) or None
        Positive weights.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, Mapping):
        unknown = [label for label in class_weight if label not in labels]
        # A mapping for all classes of a data set also fits parts of it, as in cross-validation.
        if unknown and any(label not in class_weight for label in labels):
            raise InvalidInputError(f"class_weight must have labels of y, {labels!r:.60}, as keys; got {unknown[0]!r}")
        return np.array([float(class_weight.get(label, 1.0)) for label in labels])
    totals = np.bincount(codes, sample_weight)
    factors: FloatArray = totals.sum() / (len(labels) * totals)
    return factors


def _per_class(outputs: FloatArray) -> FloatArray:
    """Return outputs with one column per class; if two classes share a single output, the first one gets zeros."""
    columns = outputs.reshape(len(outputs), -1)
    return np.pad(columns, ((0, 0), (max(2 - columns.shape[1], 0), 0)))


def class_scores(outputs: FloatArray) -> FloatArray:
    """Return the decision scores: (n,) for two classes, positive for the second one; else (n, C)."""
    scores = _per_class(outputs)
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def choose_classes(outputs: FloatArray) -> npt.NDArray[np.intp]:
    """Return the predicted class numbers, shape (n,)."""
    chosen: npt.NDArray[np.intp] = np.argmax(_per_class(outputs), axis=1)
    return chosen


def class_logits(outputs: FloatArray, loss: Loss) -> FloatArray:
    """Return logits of shape (n, C), whose softmax gives probabilities if the loss is `probabilistic`.

    If such a loss adds up over more than two classes, the probabilities are the logistic functions of the outputs,
    divided by their sum. For other losses, the logits are the outputs themselves.
    """
    logits = _per_class(outputs)
    apart = logits.size == outputs.size and loss.probabilistic and not loss.coupled
    return log_expit(logits) if apart else logits


def class_probabilities(outputs: FloatArray, loss: Loss) -> FloatArray:
    """Return probabilities of shape (n, C) from outputs trained with a `probabilistic` loss."""
    probabilities: FloatArray = softmax(class_logits(outputs, loss), axis=1)
    return probabilities
