"""Ridge regression on all monomials of degree two, the real-valued limit of wide quadratic networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from qsdp._utils.validation import FloatArray
from qsdp.estimators.classes import choose_classes, encode_classes
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
    or one-hot rows. This is the float quadratic network: bilinear networks with as many neurons as inputs and real
    weights represent every quadratic form. The one of `lambdas` with the highest mean accuracy on `splits` (`scores_`)
    is chosen, the largest among equals. `coef_` has a row per monomial. All monomials of all rows are in memory.
    """

    def __init__(
        self,
        splits: Sequence[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]],
        lambdas: Sequence[float] = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
    ) -> None:
        self.splits = splits
        self.lambdas = lambdas

    def fit(self, X: FloatArray, y: npt.NDArray[Any]) -> QuadraticRidgeClassifier:
        """Choose the penalty weight by cross-validation on `splits`, then fit to all rows."""
        p = X.shape[1] * (X.shape[1] + 3) // 2
        if p > _MAX_MONOMIALS:
            raise InvalidInputError(
                f"X has {X.shape[1]} columns and {p} monomials of degree 1 and 2; at most {_MAX_MONOMIALS} are allowed"
            )
        self.classes_, codes = np.unique(y, return_inverse=True)
        targets = encode_classes(codes, len(self.classes_), get_loss("squared")).reshape(len(y), -1)
        lambdas = sorted(map(float, self.lambdas))
        self.scores_ = np.zeros(len(lambdas))
        for train, test in self.splits:
            fits = self._path(X[train], targets[train], lambdas)
            phi = self.monomials_.transform(X[test])
            self.scores_ += [np.mean(_chosen(phi, *fit) == codes[test]) / len(self.splits) for fit in fits]
        best = max(range(len(lambdas)), key=lambda index: (self.scores_[index], index))
        self.lambda_ = lambdas[best]
        self.coef_, self.intercept_ = self._path(X, targets, [self.lambda_])[0]
        return self

    def predict(self, X: FloatArray) -> npt.NDArray[Any]:
        """Return labels of shape (n,)."""
        chosen = _chosen(self.monomials_.transform(X), self.coef_, self.intercept_)
        labels: npt.NDArray[Any] = self.classes_[chosen]
        return labels

    def _path(
        self, X: FloatArray, targets: FloatArray, lambdas: Sequence[float]
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Return coefficients and constants for each penalty weight, and set `monomials_` by these rows."""
        monomials = make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler(copy=False))
        # Arrays, whatever the global configuration says.
        self.monomials_ = monomials.set_output(transform="default")
        phi, constant = self.monomials_.fit_transform(X), targets.mean(axis=0)
        values, vectors = eigh(phi.T @ phi)
        products = vectors.T @ (phi.T @ (targets - constant))
        return [(vectors @ (products / (values + weight * len(X))[:, None]), constant) for weight in lambdas]


def _chosen(phi: FloatArray, coefficients: FloatArray, constant: FloatArray) -> npt.NDArray[np.intp]:
    return choose_classes(phi @ coefficients + constant)
