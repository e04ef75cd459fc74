"""Distillation: approximate a trained model or a layer by a quantized network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from qsdp._utils.options import documented
from qsdp._utils.summary import Summarized, Summary, format_number
from qsdp._utils.tuning import SMALL
from qsdp._utils.validation import (
    FloatArray,
    RandomState,
    check_choice,
    check_matrix,
    check_sample_weight,
    check_targets,
    own,
)
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.certificates import Certificate
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks import BilinearNetwork, QuadraticForm
from qsdp.options import TrainingOptions
from qsdp.pipeline import QSDPResult, run_pipeline
from qsdp.relaxation import spectral_bound
from qsdp.training_data import quadratic_map

__all__ = ["DenseLayer", "DistillationResult", "distill"]

#: Activation whose lift is (x, 1)(x, 1)', which gives every quadratic function, with equal weight on its parts.
_AFFINE_SQUARE = PolynomialActivation(1.0, 2.0, 1.0)

#: Elementwise functions of dense layers, by name.
FUNCTIONS: dict[str, Callable[[FloatArray], Any]] = {
    "sigmoid": expit,
    "tanh": np.tanh,
    "relu": lambda Z: np.maximum(Z, 0.0),
    "identity": lambda Z: Z,
}


@dataclass(frozen=True, eq=False)
class DenseLayer:
    r"""Dense layer :math:`x \mapsto \phi(W x + b)` from any framework.

    Parameters
    ----------
    weights : array-like of shape (C, d)
        One row per neuron, the layout of PyTorch's ``Linear.weight``.
    bias : array-like of shape (C,), optional
    activation : callable or str, default="relu"
        Elementwise function of an array, or one of "relu", "tanh", "sigmoid" and "identity".
    """

    weights: FloatArray
    bias: FloatArray | None = None
    activation: Callable[[FloatArray], Any] | str = "relu"

    def __post_init__(self) -> None:
        weights = own(check_matrix("weights", self.weights))
        bias = np.zeros(len(weights)) if self.bias is None else check_targets("bias", self.bias, length=None)
        if bias.shape != (len(weights),):
            raise InvalidInputError(f"bias must have shape {(len(weights),)}; got {bias.shape}")
        if not callable(self.activation):
            check_choice("activation", self.activation, FUNCTIONS)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "bias", own(bias))

    @property
    def n_inputs(self) -> int:
        """Number of inputs d."""
        return int(self.weights.shape[1])

    def preactivations(self, X: Any) -> FloatArray:
        """Compute ``W x + b`` of shape (n, C)."""
        assert self.bias is not None
        values: FloatArray = check_matrix("X", X, n_columns=self.n_inputs) @ self.weights.T + self.bias
        return values

    def predict(self, X: Any) -> FloatArray:
        """Compute the layer's outputs of shape (n, C)."""
        function = self.activation if callable(self.activation) else FUNCTIONS[self.activation]
        values = np.asarray(function(self.preactivations(X)), dtype=np.float64)
        if values.shape != (len(X), len(self.weights)) or not np.all(np.isfinite(values)):
            raise InvalidInputError("activation must return finite values of the shape of its argument")
        return values

    def fit_activation(self, X: Any, sample_weight: Any = None) -> PolynomialActivation:
        r"""Fit :math:`a t^2 + b t + c` to the activation by least squares over the pre-activations on (weighted) X."""
        t, values = self.preactivations(X).ravel(), self.predict(X).ravel()
        # Powers of standardised values keep the columns of the fit comparable.
        middle, spread = float(t.mean()), float(t.std()) or 1.0
        u = (t - middle) / spread
        weights = check_sample_weight(sample_weight, len(X))
        roots = np.ones_like(u) if weights is None else np.sqrt(np.repeat(weights, len(self.weights)))
        powers = np.column_stack([u * u, u, np.ones_like(u)])
        c2, c1, c0 = np.linalg.lstsq(roots[:, None] * powers, roots * values, rcond=None)[0]
        a, b = c2 / spread**2, c1 / spread
        return PolynomialActivation(a, b - 2.0 * a * middle, (a * middle - b) * middle + c0)

    def to_quadratic_form(self, X: Any, sample_weight: Any = None) -> QuadraticForm:
        """Approximate the layer by C quadratic functions, with `fit_activation` as the activation."""
        a, b, c = self.fit_activation(X, sample_weight).coefficients
        W, bias = self.weights, np.asarray(self.bias)
        S = a * W[:, :, None] * W[:, None, :]
        return QuadraticForm(S, (2.0 * a * bias + b)[:, None] * W, (a * bias + b) * bias + c)


@dataclass(frozen=True, eq=False, repr=False)
class DistillationResult(Summarized):
    r"""Result of `distill`: a quantized network that matches the outputs of a model on data.

    Attributes
    ----------
    network : BilinearNetwork
    result : QSDPResult
        Relaxation, covariance, problem and timings. Its certificate bounds the summed squared mismatch plus
        regulariser of *every* quantized network.
    relative_error : float
        Square root of the (weighted) summed squared mismatch over the summed squared outputs of the model, on the data.
    relaxed_error : float
        The same for the predictions of the relaxation, the limit of many neurons.
    """

    network: BilinearNetwork
    result: QSDPResult
    relative_error: float
    relaxed_error: float

    @property
    def certificate(self) -> Certificate:
        """Objective of this match, and the lower bound on the objective of the best quantized match."""
        return self.result.certificate

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of the network."""
        return self.network.predict(X)

    def resample(
        self, n_neurons: int, random_state: RandomState = None, *, levels: int | None = None
    ) -> DistillationResult:
        """Sample another network, with any number of neurons and levels, without solving the relaxation again."""
        return _match(self.result.resample(n_neurons, random_state, levels=levels))

    def __repr__(self) -> str:
        return (
            f"DistillationResult({self.network!r}; {self.result.problem.settings_text()}; "
            f"relative error {self.relative_error:.3g} "
            f"(relaxation {self.relaxed_error:.3g}); {self.certificate})"
        )

    def _summary(self) -> Summary:
        rows = [
            ("relative error", f"{format_number(self.relative_error, 4)} on the data"),
            ("of the relaxation", f"{format_number(self.relaxed_error, 4)}, the limit of many neurons"),
            *self.certificate._summary().rows,
            *self.network._summary().rows,
            self.result._timings_row(),
        ]
        return Summary("DistillationResult", rows)


@documented(TrainingOptions)
def distill(
    model: Any,
    X: Any,
    n_neurons: int = 1000,
    *,
    beta: float | None = None,
    sample_weight: Any = None,
    levels: int = TrainingOptions.levels,
    activation: str | Sequence[float] | PolynomialActivation | None = "auto",
    outputs: Sequence[int] | None = None,
    match: str = "model",
    solver: str = TrainingOptions.solver,
    shaping: str = TrainingOptions.shaping,
    refine: str = "none",
    tol: float = TrainingOptions.tol,
    allocation: str = "proportional",
    time_limit: float | None = TrainingOptions.time_limit,
    n_jobs: int | None = TrainingOptions.n_jobs,
    device: str | None = TrainingOptions.device,
    random_state: RandomState = None,
    verbose: bool | int = TrainingOptions.verbose,
) -> DistillationResult:
    r"""Match the outputs of a trained model on data by a quantized network, with a certificate.

    .. math::

        \min_{m, u, v, \alpha} \sum_i w_i \|f(x_i) - g(x_i)\|^2 + \beta D \sum_j \|\alpha_j\|_1
        \quad\text{over quantized } f, \text{ for the model } g.

    The loss is a sum over outputs, so a layer is matched one neuron at a time, with a lower bound for each neuron.
    The problem of neuron k is ``match.result.problem.output(k)`` for the returned ``match``.

    Parameters
    ----------
    model : QuadraticForm, network, DenseLayer, array-like of shape (d, d) or (C, d, d), or any object
        A matrix S represents :math:`x^T S x`. For other objects, ``to_quadratic_form()`` is used if available, as it is
        for every network of this package and the quadratic neurons of the baselines. Otherwise,
        ``decision_function(X)`` is used for classifiers that have it, and ``predict(X)`` for all others.
    X : array-like of shape (n, d)
        Data on which the outputs are matched. No targets are needed.
    n_neurons
        See `TrainingOptions`.
    beta : float, optional
        Weight of the regulariser. By default, a thousandth of an upper bound, averaged over outputs, on the value from
        which on the zero network is optimal.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`w_i` >= 0 of the rows of X. None means weights of one. See `TrainingProblem`.
    levels
        See `TrainingOptions`.
    activation : "auto", None, str, (a, b, c) or PolynomialActivation, default="auto"
        "auto" is bilinear for a model :math:`x^T S x`. For any other model, it is (1, 2, 1), with the lift
        :math:`(x, 1)(x, 1)^T`.
    outputs : sequence of int, optional
        Neurons of a layer or outputs of a model to match, in this order. By default, all are matched.
    match : {"model", "polynomial"}, default="model"
        For a `DenseLayer`: whether to match its outputs or those of `DenseLayer.to_quadratic_form`.
    solver, shaping, refine, tol, allocation, time_limit, n_jobs, device, random_state, verbose
        See `TrainingOptions`.

    Returns
    -------
    DistillationResult

    Notes
    -----
    Section 6 of Bartan and Pilanci suggests this, layer by layer, for the quantization of a trained network.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> layer = qsdp.DenseLayer(np.eye(2, 5), activation="relu")
    >>> match = qsdp.distill(layer, X, n_neurons=4000, random_state=0)
    >>> match.relaxed_error < 0.5
    True
    >>> match.certificate.lower_bound <= match.certificate.objective
    True
    """
    automatic = isinstance(activation, str) and activation == "auto"
    given = {
        **locals(),
        "beta": TrainingOptions.beta if beta is None else beta,
        "activation": None if automatic else activation,
    }
    options = TrainingOptions.of(given)
    check_choice("match", match, ["model", "polynomial"])
    X = check_matrix("X", X)
    weights = check_sample_weight(sample_weight, len(X))
    target, has_affine_part = _targets(model, X, match, weights)
    if outputs is not None:
        target = _selected(target, outputs)
    if automatic:
        options = replace(options, activation=_AFFINE_SQUARE if has_affine_part else None)
    if beta is None:
        weighted = target if weights is None else (weights * target.T).T
        options = replace(options, beta=_default_beta(X, weighted, options))
    return _match(run_pipeline(options.problem(X, target, weights), options))


def _match(result: QSDPResult) -> DistillationResult:
    problem = result.problem
    size = problem.data_fit.value_at_zero or 1.0
    predictions = (problem.outputs(result.network), result.relaxation.outputs(problem.X))
    errors = [math.sqrt(problem.data_fit.value(prediction) / size) for prediction in predictions]
    return DistillationResult(result.network, result, *errors)


def _targets(model: Any, X: FloatArray, match: str, weights: FloatArray | None) -> tuple[FloatArray, bool]:
    """Compute the outputs of the model on X; also return whether the model has a linear or constant part."""
    if isinstance(model, DenseLayer):
        return (model.predict(X) if match == "model" else model.to_quadratic_form(X, weights).predict(X)), True
    if hasattr(model, "to_quadratic_form"):
        form = model.to_quadratic_form()
    elif hasattr(model, "decision_function") and _is_classifier(model):
        return check_targets("the model's decision function", model.decision_function(X), length=len(X)), True
    elif hasattr(model, "predict"):
        return check_targets("the model's predictions", model.predict(X), length=len(X)), True
    elif type(model).__module__.partition(".")[0] == "torch":
        raise InvalidTypeError(
            f"model must be arrays or have a method predict; got a torch {type(model).__name__}: take "
            "qsdp.DenseLayer(layer.weight.detach().numpy(), layer.bias.detach().numpy(), activation='identity') of a "
            "linear layer, or an object whose predict(X) calls the module on arrays"
        )
    else:
        try:
            form = QuadraticForm(model)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(
                "model must be a quadratic form, a network, a DenseLayer, a matrix S of shape (d, d) or (C, d, d), or "
                f"have a method predict; got {type(model).__name__} ({error})"
            ) from None
    return form.predict(X), bool(np.any(form.s) or np.any(form.s0))


def _is_classifier(model: Any) -> bool:
    if not hasattr(model, "__sklearn_tags__"):
        return False
    from sklearn.base import is_classifier

    return bool(is_classifier(model))


def _selected(target: FloatArray, outputs: Sequence[int]) -> FloatArray:
    if target.ndim == 1:
        raise InvalidInputError("outputs must be None for a model with one output")
    chosen = list(outputs)
    valid = all(isinstance(k, (int, np.integer)) and not isinstance(k, bool) for k in chosen)
    if not chosen or not valid or not all(0 <= k < target.shape[1] for k in chosen):
        raise InvalidInputError(f"outputs must be numbers from 0 to {target.shape[1] - 1}; got {chosen!r}")
    return np.ascontiguousarray(target[:, chosen])


def _default_beta(X: FloatArray, target: FloatArray, options: TrainingOptions) -> float:
    """Compute the default beta: a fraction of an upper bound on the largest useful one, averaged over outputs."""
    M = options.levels - 1
    data = quadratic_map(M * X, get_activation(options.activation))
    bounds = [spectral_bound(data.adjoint(2.0 * column), np.ones(data.size)) for column in target.reshape(len(X), -1).T]
    dimension = X.shape[1] * M + data.lifted
    return float(SMALL * np.mean(bounds) * data.size / dimension)
