"""The scikit-learn regressor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from qsdp._utils.options import documented
from qsdp._utils.outputs import squeezed
from qsdp._utils.validation import FloatArray, RandomState, check_targets
from qsdp.activations import PolynomialActivation
from qsdp.estimators.collections import rows_here
from qsdp.estimators.explanation import Explained
from qsdp.estimators.options import EstimatorOptions
from qsdp.exceptions import InvalidInputError
from qsdp.losses import Loss, get_loss
from qsdp.statistics.collections import Rows, is_collection

__all__ = ["QuantizedNetworkRegressor"]


@documented(EstimatorOptions)
class QuantizedNetworkRegressor(RegressorMixin, Explained):  # type: ignore[misc]
    r"""Regression by a network with quantized first-layer weights and a certified gap to the global optimum.

    Fits :math:`f(x) = \sum_j \alpha_j (\tilde x^T u_j)(\tilde x^T v_j)` with :math:`u_j, v_j \in \{\pm1\}^D` to
    standardised targets, where :math:`\tilde x` is the activation's lift of the encoded and scaled x.

    Parameters
    ----------
    n_neurons, beta, loss, activation, levels, encoding, max_categories, constant_column, solver, shaping, refine, tol,
    allocation, time_limit, n_jobs, device, random_state, warm_start, keep_data, verbose
        See `EstimatorOptions`.

    Attributes
    ----------
    network_ : BilinearNetwork or BlockNetwork
        Fitted network on the encoded inputs; the constant column, if appended, is one more input.
    encoder_ : transformer or None
        Fitted transformer of columns to inputs; see `encoding`.
    target_scaling_ : TargetScaling
        Offset and scale of the targets in training.
    constant_ : float
        Entry of the constant column, if there is one: the power of two nearest to the largest root mean square of an
        input.
    certificate_ : Certificate
        Objective of the network and lower bound for every network on the same inputs and scaled targets.
    result_ : QSDPResult
        Problem, relaxation, covariance and timings.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Defined when X has column names that are all strings.

    See Also
    --------
    qsdp.solve_and_sample : The same for unchanged data and targets, with the defaults of the paper.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.load_bundled("diabetes")
    >>> model = qsdp.QuantizedNetworkRegressor(random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.4, model.certificate_.relative_gap < 0.1
    (True, True)
    """

    def __init__(
        self,
        n_neurons: int | None = EstimatorOptions.n_neurons,
        *,
        beta: float | str = EstimatorOptions.beta,
        loss: str | Loss = EstimatorOptions.loss,
        activation: str | Sequence[float] | PolynomialActivation | None = EstimatorOptions.activation,
        levels: int = EstimatorOptions.levels,
        encoding: Any = EstimatorOptions.encoding,
        max_categories: int = EstimatorOptions.max_categories,
        constant_column: bool = EstimatorOptions.constant_column,
        solver: str = EstimatorOptions.solver,
        shaping: str = EstimatorOptions.shaping,
        refine: str = EstimatorOptions.refine,
        tol: float = EstimatorOptions.tol,
        allocation: str = EstimatorOptions.allocation,
        time_limit: float | None = EstimatorOptions.time_limit,
        n_jobs: int | None = EstimatorOptions.n_jobs,
        device: str | None = EstimatorOptions.device,
        random_state: RandomState = EstimatorOptions.random_state,
        warm_start: bool = EstimatorOptions.warm_start,
        keep_data: bool = EstimatorOptions.keep_data,
        verbose: bool | int | None = EstimatorOptions.verbose,
    ) -> None:
        self._keep(locals())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> QuantizedNetworkRegressor:
        """Fit the network to data (n, d), or images or series, and targets (n,) or (n, C), with weights if given.

        All may be Dask collections; X may also be `qsdp.RowBatches`, which come with their targets and weights.
        """
        return self._fit_to(X, y, sample_weight)

    def _fit_to(self, X: Any, y: Any, sample_weight: Any, **routed: Any) -> QuantizedNetworkRegressor:
        options = self._options()
        loss = get_loss(self.loss)
        if loss.for_classes:
            raise InvalidInputError(f"loss must be a loss of real targets for a regressor; got {self.loss!r}")
        X, y, sample_weight, of_collections = rows_here(X, y, sample_weight, missing=self._takes_frames)
        self._fit(self._validated(X, y, sample_weight), options, **of_collections, **routed)
        return self

    @property
    def _targets(self) -> dict[str, Any]:
        return {"y_numeric": True, "multi_output": True}

    def _coded(self, samples: Rows) -> tuple[FloatArray, FloatArray | None]:
        return check_targets("y", samples.y, length=len(samples.y)), samples.weights

    def predict(self, X: Any) -> Any:
        """Return predictions of shape (n,) or (n, C).

        A Dask array gives an array, a Dask data frame a series or data frame with its index.
        """
        if is_collection(X):
            return self._of_collection("predict", X, np.float64, *self.network_.output_shape)
        return squeezed(self._output(X), self.network_.output_shape, axis=1)
