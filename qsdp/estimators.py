"""scikit-learn estimators over the pipeline."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from qsdp._validation import FloatArray
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.lifting import append_constant
from qsdp.losses import Loss, get_loss
from qsdp.pipeline import QSDPResult, RandomState, solve_and_sample

__all__ = ["QuantizedNetworkClassifier", "QuantizedNetworkRegressor"]

#: Ratio of column deviations beyond which standardising is suggested.
_WILD_RATIO = 100.0


class _QuantizedNetwork(BaseEstimator):  # type: ignore[misc]
    """What regressor and classifier share: parameters, data checks, fitting on +-1 or real targets."""

    result_: QSDPResult
    n_features_in_: int

    def __init__(
        self,
        n_neurons: int = 1000,
        *,
        beta: float = 0.1,
        loss: str | Loss = "squared",
        constant_column: bool = True,
        solver: str = "auto",
        shaping: str = "krivine",
        tol: float = 1e-6,
        random_state: RandomState = None,
    ) -> None:
        self.n_neurons = n_neurons
        self.beta = beta
        self.loss = loss
        self.constant_column = constant_column
        self.solver = solver
        self.shaping = shaping
        self.tol = tol
        self.random_state = random_state

    def _fit(self, X: FloatArray, target: FloatArray) -> None:
        _warn_of_scales(X)
        self.result_ = solve_and_sample(
            self._inputs(X),
            target,
            n_neurons=self.n_neurons,
            beta=self.beta,
            loss=self.loss,
            solver=self.solver,
            shaping=self.shaping,
            tol=self.tol,
            random_state=self.random_state,
        )
        self._expose()

    def _expose(self) -> None:
        self.network_ = self.result_.network
        self.certificate_ = self.result_.certificate

    def resample(self, n_neurons: int, random_state: RandomState = None) -> Any:
        """Replace the fitted network by one of another size, without another solve.

        Parameters
        ----------
        n_neurons : int
            m >= 1. The parameter `n_neurons` of the estimator stays as it was.
        random_state : int, Generator, RandomState or None

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.result_ = self.result_.resample(n_neurons, random_state)
        self._expose()
        return self

    def _output(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.network_.predict(self._inputs(X))

    def _inputs(self, X: FloatArray) -> FloatArray:
        return append_constant(X) if self.constant_column else X


class QuantizedNetworkRegressor(RegressorMixin, _QuantizedNetwork):  # type: ignore[misc]
    r"""Regression by a network with binary first-layer weights and a certified gap to the global optimum.

    Fits :math:`f(x) = \sum_j \alpha_j (\tilde x^T u_j)(\tilde x^T v_j)` with :math:`u_j, v_j \in \{\pm1\}^D`,
    where :math:`\tilde x = (x, 1)`.

    Parameters
    ----------
    n_neurons : int, default=1000
        m. The solve does not depend on it; sampling noise falls as :math:`1/\sqrt m`.
    beta : float, default=0.1
        Regularisation, >= 0, of :math:`\beta D \sum_j |\alpha_j|` beside a loss summed over samples.
    loss : {"squared", "absolute", "huber"} or Loss, default="squared"
    constant_column : bool, default=True
        Append a column of ones; without it the network is even, :math:`f(-x) = f(x)`.
    solver : str, default="auto"
        See `qsdp.solve_relaxation`.
    shaping : {"krivine", "sdp"}, default="krivine"
        See `qsdp.shape_covariance`.
    tol : float, default=1e-6
        Accuracy of the solver.
    random_state : int, Generator, RandomState or None
        Seed of the sampling.

    Attributes
    ----------
    network_ : BilinearNetwork
        The fitted network; with the constant column it has one input more than the data.
    certificate_ : Certificate
        Its objective and the lower bound on that of every network.
    result_ : QSDPResult
        Relaxation, covariance and timings.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    See Also
    --------
    qsdp.solve_and_sample : The same without the constant column and scikit-learn.

    Notes
    -----
    Columns of very different scale make quantized weights unequal; put a ``StandardScaler`` in front.

    Examples
    --------
    >>> import qsdp
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = qsdp.datasets.load_bundled("diabetes")
    >>> network = qsdp.QuantizedNetworkRegressor(10_000, beta=10.0, random_state=0)
    >>> model = make_pipeline(StandardScaler(), network)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.3
    True
    """

    def fit(self, X: Any, y: Any) -> QuantizedNetworkRegressor:
        """Fit the network to data (n, d) and targets (n,)."""
        if get_loss(self.loss).labels:
            raise InvalidInputError(f"loss must be one of real targets for a regressor; got {self.loss!r}")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._fit(X, np.asarray(y, dtype=np.float64))
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return predictions of shape (n,)."""
        return self._output(X)


class QuantizedNetworkClassifier(ClassifierMixin, _QuantizedNetwork):  # type: ignore[misc]
    r"""Binary classification by a network with binary first-layer weights and a certified gap.

    Fits :math:`f(x) = \sum_j \alpha_j (\tilde x^T u_j)(\tilde x^T v_j)`, :math:`u_j, v_j \in \{\pm1\}^D`,
    to the labels coded as -1 (first class in sorted order) and +1, and predicts by its sign.

    Parameters
    ----------
    n_neurons : int, default=1000
        m. The solve does not depend on it; sampling noise falls as :math:`1/\sqrt m`.
    beta : float, default=0.1
        Regularisation, >= 0, of :math:`\beta D \sum_j |\alpha_j|` beside a loss summed over samples.
    loss : str or Loss, default="squared"
        "squared" (on the coded labels, as in the paper), "logistic", "hinge", "squared_hinge", "absolute"
        or "huber".
    constant_column : bool, default=True
        Append a column of ones; without it the network is even, :math:`f(-x) = f(x)`.
    solver : str, default="auto"
        See `qsdp.solve_relaxation`.
    shaping : {"krivine", "sdp"}, default="krivine"
        See `qsdp.shape_covariance`.
    tol : float, default=1e-6
        Accuracy of the solver.
    random_state : int, Generator, RandomState or None
        Seed of the sampling.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    network_ : BilinearNetwork
        The fitted network; with the constant column it has one input more than the data.
    certificate_ : Certificate
        Its objective and the lower bound on that of every network.
    result_ : QSDPResult
        Relaxation, covariance and timings.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    Notes
    -----
    Columns of very different scale make quantized weights unequal; put a ``StandardScaler`` in front.

    Examples
    --------
    >>> import qsdp
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
    >>> model = make_pipeline(StandardScaler(), qsdp.QuantizedNetworkClassifier(beta=10.0, random_state=0))
    >>> model.fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.9
    True
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> QuantizedNetworkClassifier:
        """Fit the network to data (n, d) and labels (n,) of two classes, of any kind."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        if type_of_target(y) == "multiclass":
            raise InvalidInputError(
                "Only binary classification is supported. The type of the target is multiclass, "
                f"with {len(np.unique(y))} classes; wrap the estimator in OneVsRestClassifier."
            )
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                f"Classifier can't train when only one class is present; y holds only {self.classes_[0]!r}."
            )
        self._fit(X, np.where(codes == 1, 1.0, -1.0))
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Return the network's outputs of shape (n,); positive ones mean ``classes_[1]``."""
        return self._output(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted labels of shape (n,)."""
        positive = self.decision_function(X) > 0.0
        labels: npt.NDArray[Any] = self.classes_[positive.astype(np.intp)]
        return labels


def _warn_of_scales(X: FloatArray) -> None:
    # Divided first, so that squares of extreme values stay finite; those are refused later, by name.
    largest = float(np.abs(X).max()) or 1.0
    deviations = np.std(X / largest, axis=0)
    varying = deviations[deviations > 0.0]
    if varying.size and varying.max() > _WILD_RATIO * varying.min():
        warnings.warn(
            f"the columns of X differ in scale by a factor of {varying.max() / varying.min():.0f}; quantized "
            "weights cannot make up for it: put sklearn.preprocessing.StandardScaler in front",
            QSDPWarning,
            stacklevel=4,
        )
