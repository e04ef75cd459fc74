"""Offsets of class scores for which the largest score is most often that of the right class."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax

from qsdp._utils.validation import FloatArray
from qsdp.choosing.beta import LeftOutOutputs
from qsdp.estimators.choices import is_clear_gain

__all__ = ["decision_offsets"]


def decision_offsets(left_out: LeftOutOutputs, means: FloatArray) -> FloatArray:
    r"""Choose the offsets that are added to the outputs of a squared loss before the largest decides.

    The squared loss fits the mean of a one-hot target: a rare class may be the most likely one, and its output still
    be below that of a frequent class, because it varies less. The multinomial logistic regression of the class on
    :math:`a f_c(x) + b_c`, a > 0, of left-out rows has offsets :math:`b_c / a` that allow for it. They replace the
    `means` of the one-hot targets if clearly fewer left-out rows are then misclassified.

    Parameters
    ----------
    left_out : LeftOutOutputs
        Outputs and centred one-hot targets.
    means : ndarray of shape (C,)
        Weighted means of the one-hot targets.

    Returns
    -------
    ndarray of shape (C,)
    """
    classes = np.argmax(left_out.targets + means, axis=1)
    offsets = _likeliest(left_out.outputs, classes, left_out.weights)
    if offsets is None:
        return means
    before, after = (
        left_out.weights * (np.argmax(left_out.outputs + one, axis=1) != classes) for one in (means, offsets)
    )
    return offsets if is_clear_gain(before - after, before) else means


def _likeliest(outputs: FloatArray, classes: npt.NDArray[np.intp], weights: FloatArray) -> FloatArray | None:
    """Return the offsets of the likeliest multinomial logistic model; None if its slope is not positive.

    A penalty of one on slope and offsets, as in scikit-learn, keeps them finite where outputs separate the classes.
    """
    unit = math.sqrt(float(weights @ np.square(outputs).mean(axis=1)) / float(weights.sum())) or 1.0
    F, count = outputs / unit, outputs.shape[1]
    hot = np.eye(count)[classes]

    def logarithms(parameters: FloatArray) -> FloatArray:
        found: FloatArray = log_softmax(parameters[0] * F + parameters[1:], axis=1)
        return found

    def value(parameters: FloatArray) -> float:
        likelihood = weights @ logarithms(parameters)[np.arange(len(F)), classes]
        return float(0.5 * parameters @ parameters - likelihood)

    def gradient(parameters: FloatArray) -> FloatArray:
        slopes = weights[:, None] * (np.exp(logarithms(parameters)) - hot)
        found: FloatArray = parameters + np.r_[np.sum(slopes * F), slopes.sum(axis=0)]
        return found

    def hessian(parameters: FloatArray) -> FloatArray:
        P = np.exp(logarithms(parameters))
        weighted, changes = weights[:, None] * P, F - np.sum(P * F, axis=1, keepdims=True)
        mixed = np.sum(weighted * changes, axis=0)
        of_offsets = np.diag(weighted.sum(axis=0)) - P.T @ weighted
        of_slope = np.array([[np.sum(weighted * changes * F)]])
        found: FloatArray = np.eye(count + 1) + np.block([[of_slope, mixed[None]], [mixed[:, None], of_offsets]])
        return found

    start = np.r_[1.0, np.zeros(count)]
    slope, *offsets = minimize(value, start, jac=gradient, hess=hessian, method="trust-exact").x
    return unit * np.array(offsets) / slope if slope > 0.0 else None
