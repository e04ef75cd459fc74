"""Quadratic function with real coefficients, the float limit of quadratic networks of any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.base import BaseEstimator, ClassifierMixin

from qsdp._utils.parallel import blocks
from qsdp._utils.validation import FloatArray
from qsdp.estimators.classes import choose_classes, encode_classes
from qsdp.exceptions import InvalidInputError
from qsdp.losses import get_loss

__all__ = ["QuadraticRidgeClassifier"]

#: Number of monomials beyond which the Gram matrix takes more than 2 GiB.
_MAX_MONOMIALS = 16_000

#: Number of rows, Gram matrix of (phi, 1), and its products with the targets.
_Moments = tuple[int, FloatArray, FloatArray]
#: Coefficients of the monomials (p, K), and constants (K,).
_Solution = tuple[FloatArray, FloatArray]


class QuadraticRidgeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Classification by a quadratic function of the data with real coefficients, fitted by ridge regression.

    .. math::

        \min_{w, w_0} \sum_i (w^T \phi(x_i) + w_0 - t_i)^2 + \lambda n \|w\|^2

    over the monomials :math:`\phi(x)` of degree one and two, centred and scaled to deviation one, for targets -1 and +1
    or one-hot rows. This is the float quadratic network: bilinear networks with as many neurons as inputs and real
    weights represent every quadratic form. Of `lambdas` the one of the highest mean accuracy on `splits`, in `scores_`,
    is chosen, among equals the largest; `coef_` has a row for each monomial as it is.

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
        lambdas = sorted(map(float, self.lambdas))
        self.scores_ = np.zeros(len(lambdas))
        for train, test in self.splits:
            moments = _moments(X[train], targets[train])
            chosen = [_chosen(X[test], _solve(moments, value)) for value in lambdas]
            self.scores_ += [np.mean(own == codes[test]) / len(self.splits) for own in chosen]
        best = max(range(len(lambdas)), key=lambda index: (self.scores_[index], index))
        self.lambda_ = lambdas[best]
        self.coef_, self.intercept_ = _solve(_moments(X, targets), self.lambda_)
        return self

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return labels of shape (n,)."""
        labels: npt.NDArray[Any] = self.classes_[_chosen(X, (self.coef_, self.intercept_))]
        return labels


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
    deviation = np.where(constant, np.inf, np.sqrt(np.maximum(variance, 0.0)))[:, None]
    centred /= deviation * deviation.T
    centred.flat[:: len(centred) + 1] += weight * count
    right = (products[:-1] - count * mean[:, None] * target_mean) / deviation
    try:
        factor = cho_factor(centred, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise InvalidInputError(
            f"lambdas must be larger than the rounding errors of these data; got {weight:g}"
        ) from None
    coefficients = cho_solve(factor, right, check_finite=False) / deviation
    return coefficients, target_mean - mean @ coefficients


def _chosen(X: FloatArray, solution: _Solution) -> npt.NDArray[np.intp]:
    coefficients, constant = solution
    outputs = np.vstack([phi @ coefficients + constant for _, phi in _features(X)])
    return choose_classes(outputs[:, 0] if outputs.shape[1] == 1 else outputs)
