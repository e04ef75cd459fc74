"""Quadratic function with real coefficients, the float limit of quadratic networks of any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.parallel import blocks
from qsdp._utils.validation import FloatArray
from qsdp.estimators.classes import choose_classes, class_scores, encode_classes
from qsdp.exceptions import InvalidInputError
from qsdp.losses import get_loss

__all__ = ["QuadraticRidgeClassifier"]

#: Number of monomials beyond which the Gram matrix takes more than 2 GiB.
_MAX_MONOMIALS = 16_000


class QuadraticRidgeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Classification by a quadratic function of the data with real coefficients, fitted by ridge regression.

    .. math::

        \min_{w, w_0} \sum_i (w^T \phi(x_i) + w_0 - t_i)^2 + \lambda n \|w\|^2

    over the monomials :math:`\phi(x)` of degree one and two, centred and scaled to deviation one, for targets -1 and +1
    or one-hot rows; :math:`\lambda` has the highest accuracy on `splits`. This is the float quadratic network: bilinear
    networks with as many neurons as inputs and real weights represent every quadratic form.

    Parameters
    ----------
    splits : sequence of (training rows, held-out rows)
    lambdas : sequence of float, optional
        Powers of ten from -7 to 1 by default; among equal accuracies the largest is chosen.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
    lambda_ : float
    coef_ : ndarray of shape (p, C) or (p, 1)
        Coefficients of the centred and scaled monomials.
    scores_ : ndarray of shape (K,)
        Mean accuracies over `splits`.

    Notes
    -----
    The Gram matrix of a training part is accumulated in blocks of bounded memory and takes :math:`8 p^2` bytes.
    """

    def __init__(
        self,
        splits: Sequence[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]],
        lambdas: Sequence[float] = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
    ) -> None:
        self.splits = splits
        self.lambdas = lambdas

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> QuadraticRidgeClassifier:
        """Choose the weight of the penalty on `splits`, then fit to all rows."""
        d = X.shape[1]
        p = d * (d + 3) // 2
        if p > _MAX_MONOMIALS:
            raise InvalidInputError(
                f"X has {d} columns and {p} monomials of degree 1 and 2; at most {_MAX_MONOMIALS} are allowed"
            )
        self.classes_, codes = np.unique(y, return_inverse=True)
        targets = encode_classes(codes, len(self.classes_), get_loss("squared")).reshape(len(y), -1)
        self.n_features_in_ = d
        lambdas = sorted(map(float, self.lambdas))
        self.scores_ = np.zeros(len(lambdas))
        for train, test in self.splits:
            moments = _moments(X[train], targets[train])
            outputs = [_outputs(X[test], _solve(moments, value)) for value in lambdas]
            self.scores_ += [np.mean(_chosen(own) == codes[test]) / len(self.splits) for own in outputs]
        best = max(range(len(lambdas)), key=lambda index: (self.scores_[index], index))
        self.lambda_ = lambdas[best]
        self._solution = _solve(_moments(X, targets), self.lambda_)
        self.coef_ = self._solution[0]
        return self

    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return scores of shape (n,) for two classes, (n, C) for more."""
        check_is_fitted(self)
        outputs = _outputs(X, self._solution)
        return class_scores(outputs[:, 0] if outputs.shape[1] == 1 else outputs)

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return labels of shape (n,)."""
        scores = self.decision_function(X)
        labels: npt.NDArray[Any] = self.classes_[_chosen(scores[:, None] if scores.ndim == 1 else scores)]
        return labels


#: Number of rows, Gram matrix of (phi, 1), and its products with the targets.
_Moments = tuple[int, FloatArray, FloatArray]
#: Coefficients of the scaled monomials, their means, deviations, and the constant.
_Solution = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


def _features(X: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Yield blocks of rows with their monomials of degree one and two."""
    first, second = np.triu_indices(X.shape[1])
    for rows in blocks(len(X), len(first) + X.shape[1]):
        yield rows, np.hstack([X[rows], X[rows][:, first] * X[rows][:, second]])


def _moments(X: FloatArray, targets: FloatArray) -> _Moments:
    p = X.shape[1] * (X.shape[1] + 3) // 2
    gram, products = np.zeros((p + 1, p + 1)), np.zeros((p + 1, targets.shape[1]))
    for rows, phi in _features(X):
        phi = np.hstack([phi, np.ones((len(phi), 1))])
        gram += phi.T @ phi
        products += phi.T @ targets[rows]
    return len(X), gram, products


def _solve(moments: _Moments, weight: float) -> _Solution:
    """Return the ridge regression on centred and scaled monomials."""
    count, gram, products = moments
    mean, target_mean = gram[-1, :-1] / count, products[-1] / count
    centred = gram[:-1, :-1] - count * np.outer(mean, mean)
    variance = centred.diagonal() / count
    constant = variance <= 1e-12 * np.maximum(gram.diagonal()[:-1] / count, 1e-300)
    deviation = np.where(constant, np.inf, np.sqrt(np.maximum(variance, 0.0)))
    centred /= deviation[:, None] * deviation
    centred.flat[:: len(centred) + 1] += weight * count
    right = (products[:-1] - count * mean[:, None] * target_mean) / deviation[:, None]
    try:
        coefficients = cho_solve(cho_factor(centred, overwrite_a=True, check_finite=False), right, check_finite=False)
    except LinAlgError:
        raise InvalidInputError(
            f"lambdas must be larger than the rounding errors of these data; got {weight:g}"
        ) from None
    return coefficients, mean, deviation, target_mean


def _outputs(X: FloatArray, solution: _Solution) -> FloatArray:
    coefficients, mean, deviation, constant = solution
    scaled = coefficients / deviation[:, None]
    outputs = np.empty((len(X), len(constant)))
    for rows, phi in _features(X):
        outputs[rows] = phi @ scaled + (constant - mean @ scaled)
    return outputs


def _chosen(outputs: FloatArray) -> npt.NDArray[np.intp]:
    return choose_classes(outputs[:, 0] if outputs.shape[1] == 1 else outputs)
