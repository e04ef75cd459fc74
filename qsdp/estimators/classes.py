"""Classes as targets of a network, and its outputs as classes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from qsdp._utils.validation import FloatArray
from qsdp.losses import CrossEntropy, Logistic, Loss

#: Losses whose outputs are log odds.
PROBABILISTIC: tuple[type[Loss], ...] = (Logistic, CrossEntropy)


def encode_classes(codes: npt.NDArray[np.intp], n_classes: int, loss: Loss) -> FloatArray:
    """Return targets for class numbers: (n,) of -1 and +1 for two classes, else (n, C), a one in its class.

    The rest of a row is 0, and -1 for losses of labels. Coupled losses have rows for two classes too. Negative
    numbers, of no class, become nan.
    """
    if n_classes == 2 and not loss.coupled:
        coded = np.where(codes == 1, 1.0, -1.0)
    else:
        coded = np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0 if loss.labels else 0.0)
    coded[codes < 0] = np.nan
    return coded


def class_scores(outputs: FloatArray) -> FloatArray:
    """Return the scores that decide: (n,) for two classes, positive for the second one; else (n, C)."""
    return outputs[:, 1] - outputs[:, 0] if outputs.ndim == 2 and outputs.shape[1] == 2 else outputs


def choose_classes(outputs: FloatArray) -> npt.NDArray[np.intp]:
    """Return the class numbers that outputs stand for, shape (n,)."""
    scores = class_scores(outputs)
    return np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0.0).astype(np.intp)


def class_probabilities(outputs: FloatArray, loss: Loss) -> FloatArray:
    """Return probabilities of shape (n, C) from outputs trained with a loss of `PROBABILISTIC`.

    The softmax for the cross-entropy; for the logistic loss the logistic function, with more than two classes
    divided by its sum over them.
    """
    if isinstance(loss, CrossEntropy):
        probabilities: FloatArray = softmax(outputs, axis=1)
        return probabilities
    if outputs.ndim == 1:
        positive = expit(outputs)
        return np.column_stack([1.0 - positive, positive])
    # The smallest float keeps rows divisible in which every class is ruled out.
    shares = np.maximum(expit(outputs), np.finfo(np.float64).tiny)
    normalised: FloatArray = shares / shares.sum(axis=1, keepdims=True)
    return normalised
