"""Two-layer ReLU networks trained by backpropagation, as scikit-learn estimators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.summary import Rows, format_bits
from qsdp._utils.validation import (
    FloatArray,
    check_flag,
    check_integer,
    check_matrix,
    check_numbers,
    read_only_copy,
)
from qsdp.baselines._estimator import BaselineClassifier, BaselineRegressor
from qsdp.baselines._history import History
from qsdp.baselines._layers import AffineForm, TrainedLayer, relu
from qsdp.baselines.backprop._training import GradientDescent, GradientTraining
from qsdp.baselines.backprop.backprop_estimators import GradientTrained
from qsdp.baselines.backprop.float_networks import TwoLayerNetwork
from qsdp.baselines.backprop.rounding import Rounding, round_to_levels
from qsdp.exceptions import InvalidInputError
from qsdp.networks.weights import FLOAT_BITS, bits_of, check_alpha, check_weights, count_floats
from qsdp.problem import TrainingProblem
from qsdp.training_data import check_levels

__all__ = ["QuantizedReLUNetwork", "ReLUNetwork", "ReLUNetworkClassifier", "ReLUNetworkRegressor"]


class _ReLUs(TwoLayerNetwork):
    """Base class of ReLU networks, with real or quantized first-layer weights."""

    bias: FloatArray
    intercept: FloatArray

    def _set_others(self) -> None:
        """Check and store all parameters but the first layer."""
        m = len(self._first_layer)
        alpha = check_alpha(self.alpha, m)
        object.__setattr__(self, "alpha", alpha)
        for name, shape in (("bias", (m,)), ("intercept", alpha.shape[1:])):
            value = check_numbers(name, getattr(self, name), f"{shape}")
            if value.shape not in {(), shape}:
                raise InvalidInputError(f"{name} must be a number or have shape {shape}; got {value.shape}")
            object.__setattr__(self, name, read_only_copy(np.broadcast_to(value, shape)))

    @property
    def layers(self) -> tuple[TrainedLayer, TrainedLayer]:
        """The network as a chain of two affine layers."""
        first = AffineForm(self._first_layer, self.bias)
        return TrainedLayer(first, relu), TrainedLayer(AffineForm(self.alpha.T, self.intercept))

    def _outputs(self, X: FloatArray) -> FloatArray:
        return relu(X @ self._first_layer.T + self.bias) @ self.alpha + self.intercept


@dataclass(frozen=True, eq=False, repr=False)
class QuantizedReLUNetwork(_ReLUs):
    r"""Network :math:`\sum_j \alpha_j \max(0, x^T q_j + b_j) + \alpha_0` with quantized first-layer weights.

    Parameters
    ----------
    Q : array-like of shape (m, d)
        First-layer weights with levels -M, -M + 2, ..., M; stored as read-only int8.
    bias : array-like of shape (m,)
    alpha : array-like of shape (m,) or (m, C)
    intercept : float or array-like of shape (C,)
    levels : int, default=2
        Number of levels, M + 1.
    """

    Q: npt.NDArray[np.int8]
    bias: FloatArray
    alpha: FloatArray
    intercept: FloatArray
    levels: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "Q", check_weights("Q", self.Q, check_levels(self.levels), False))
        self._set_others()

    @property
    def _first_layer(self) -> npt.NDArray[Any]:
        return self.Q

    @property
    def n_bits(self) -> int:
        """Bits: ceil(log2(M + 1)) per first-layer weight, 32 per real number; biases and intercepts unless all 0."""
        floats = count_floats(self.alpha) + (self.bias.size if np.any(self.bias) else 0)
        floats += self.intercept.size if np.any(self.intercept) else 0
        return self.Q.size * bits_of(self.levels) + FLOAT_BITS * floats

    def _rows(self) -> Rows:
        return [("activation", "ReLU"), ("first layer", f"{self.levels} levels"), ("storage", format_bits(self.n_bits))]

    def __repr__(self) -> str:
        return (
            f"QuantizedReLUNetwork(n_neurons={self.n_neurons}, n_inputs={self.n_inputs}, levels={self.levels}, "
            f"n_bits={self.n_bits})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ReLUNetwork(_ReLUs):
    r"""Network :math:`\sum_j \alpha_j \max(0, x^T w_j + b_j) + \alpha_0` with real weights.

    Parameters
    ----------
    W : array-like of shape (m, d)
    bias : float or array-like of shape (m,), default=0
    alpha : array-like of shape (m,) or (m, C)
    intercept : float or array-like of shape (C,), default=0

    Examples
    --------
    >>> network = ReLUNetwork([[1.0, -0.5]], bias=0.25, alpha=[2.0], intercept=1.0)
    >>> network.predict([[1.0, 1.0]])
    array([2.5])
    >>> network.quantized().predict([[1.0, 1.0]])  # 0.75 (1, -1) for (1, -0.5)
    array([1.5])
    """

    W: FloatArray
    bias: FloatArray
    alpha: FloatArray
    intercept: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "W", read_only_copy(check_matrix("W", self.W)))
        self._set_others()

    @property
    def _first_layer(self) -> npt.NDArray[Any]:
        return self.W

    @property
    def n_parameters(self) -> int:
        """Number of weights, biases included."""
        return self.W.size + self.bias.size + self.alpha.size + self.intercept.size

    def rounding(self, levels: int = 2, *, scale: str = "neuron") -> Rounding:
        """Return the result of `round_to_levels` for the first layer: levels, scales and relative error."""
        return round_to_levels(self.W, levels, scale=scale)

    def quantized(self, levels: int = 2, *, scale: str = "neuron", X: Any = None) -> QuantizedReLUNetwork:
        r"""Return the network with first-layer weights rounded to levels -M, -M + 2, ..., M.

        Each row w is replaced by the nearest s q (see `round_to_levels`). As
        :math:`\max(0, s t + b) = s \max(0, t + b / s)`, the scales move exactly into the second layer and the biases.

        Parameters
        ----------
        levels : int, default=2
            Number of levels, M + 1.
        scale : {"neuron", "layer"}, default="neuron"
            One scale for every neuron, or one for the whole layer.
        X : array-like of shape (n, d), optional
            Data for calibration. Each output gets the factor and the intercept that bring it closest, in least squares,
            to the trained network's output on these data. No labels are needed, and storage does not grow.

        Notes
        -----
        See section D.1 of Bartan and Pilanci: "the second layer weights are only scaled".
        """
        rounding = self.rounding(levels, scale=scale)
        # Neurons with a row of zeros have scale zero and are constant; they belong to the intercept.
        live = rounding.scales > 0.0
        column = rounding.scales.reshape((-1,) + (1,) * (self.alpha.ndim - 1))
        bias = np.divide(self.bias, rounding.scales, out=np.zeros_like(self.bias), where=live)
        constants = relu(self.bias[~live]) @ self.alpha[~live]
        rounded = QuantizedReLUNetwork(rounding.weights, bias, self.alpha * column, self.intercept + constants, levels)
        return rounded if X is None else _calibrated(rounded, X, self.predict(X))

    def _rows(self) -> Rows:
        return [("activation", "ReLU"), ("first layer", "real numbers"), ("parameters", f"{self.n_parameters:,}")]

    def __repr__(self) -> str:
        return f"ReLUNetwork(n_neurons={self.n_neurons}, n_inputs={self.n_inputs}, n_parameters={self.n_parameters})"


def _calibrated(network: QuantizedReLUNetwork, X: Any, targets: FloatArray) -> QuantizedReLUNetwork:
    """Return the network with factor and intercept of each output chosen by least squares."""
    outputs = network.predict(X).reshape(len(targets), -1)
    fits = [
        np.linalg.lstsq(np.column_stack([column, np.ones_like(column)]), target, rcond=None)[0]
        for column, target in zip(outputs.T, targets.reshape(len(targets), -1).T, strict=True)
    ]
    factors, offsets = (np.array(part) if targets.ndim == 2 else part[0] for part in zip(*fits, strict=True))
    return replace(network, alpha=network.alpha * factors, intercept=network.intercept * factors + offsets)


class _ReLUTraining(GradientTraining):
    r"""Training of the network :math:`f' = \tfrac{1}{\sqrt m} \sum_j a_j \max(0, x'^T w'_j + b_j) + b_0`.

    Weights start standard normal, so that a step changes the function by as much for any width.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        n_neurons: int,
        descent: GradientDescent,
        intercept: bool,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(problem, n_neurons, descent)
        outputs = self.targets.shape[1:]
        starts = {
            "W": rng.standard_normal((n_neurons, problem.n_features)),
            "a": rng.standard_normal((n_neurons, *outputs)),
            "b": np.zeros(n_neurons),
            "b0": np.zeros(outputs),
        }
        self._tensors = {name: descent.tensor(start) for name, start in starts.items()}
        trained = list(starts) if intercept else ["W", "a"]
        self.parameters = {name: self._tensors[name].requires_grad_() for name in trained}

    def layers(self) -> tuple[Any, ...]:
        """Return W, a, b and b_0."""
        return tuple(self._tensors.values())

    def outputs(self, X: Any, *layers: Any) -> Any:
        """Return the outputs of shape (n,) or (n, C)."""
        W, a, b, b0 = layers
        return (X @ W.T + b).relu() @ a / self.m**0.5 + b0

    def penalty(self, *layers: Any) -> Any:
        """Return half the sum of squares of W and a, weighted so that both layers contribute equally at the start."""
        W, a, _, _ = layers
        weight = self.problem.beta * self.units.target / (self.units.factor * self.units.row * self.m**0.5)
        return weight * 0.5 * (W.square().sum() + a.square().sum())

    def network(self) -> ReLUNetwork:
        """Return the network in the user's units."""
        W, a, b, b0 = (tensor.detach().cpu().numpy().astype(np.float64) for tensor in self.layers())
        return ReLUNetwork(W / self.units.row, b, a * (self.units.target / self.m**0.5), b0 * self.units.target)


@dataclass(eq=False, repr=False, kw_only=True)
class _ReLU(GradientTrained):
    r"""Base class of `ReLUNetworkRegressor` and `ReLUNetworkClassifier`.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Train :math:`b_j` and :math:`\alpha_0`, which are neither regularised nor quantized. Otherwise they are zero.
    learning_rate : float, default=0.5
        Learning rate for the mean over samples, with data and targets scaled as in `BackpropRegressor`. SGD needs 0.1
        to 2 here, Adam a tenth of that.
    clip : float or None, default=1.0
        Gradients with a larger norm are scaled down to this norm.

    Attributes
    ----------
    network_ : ReLUNetwork
    layers_ : tuple of TrainedLayer
        The network as a chain of two affine layers. `distill` matches it layer by layer by SDP, `qsdp.distill` as a
        whole.
    """

    fit_intercept: bool = True
    learning_rate: float = 0.5

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        m = check_integer("n_neurons", self.n_neurons, minimum=1)
        intercept = check_flag("fit_intercept", self.fit_intercept)
        descent = GradientDescent.from_parameters(self)
        problem, apart = self._problem(X, targets, rng)
        training = _ReLUTraining(problem, m, descent, intercept, rng)
        descent.run(training, rng, history, self._score, width=1, held=apart)
        self.network_ = training.network()

    @property
    def layers_(self) -> tuple[TrainedLayer, TrainedLayer]:
        """The network as a chain of two affine layers."""
        layers: tuple[TrainedLayer, TrainedLayer] = self.network_.layers
        return layers

    def quantized(self, levels: int = 2, *, scale: str = "neuron", X: Any = None) -> QuantizedReLUNetwork:
        """Return the trained network with its first layer rounded; see `ReLUNetwork.quantized`."""
        check_is_fitted(self)
        rounded: QuantizedReLUNetwork = self.network_.quantized(levels, scale=scale, X=X)
        return rounded


class ReLUNetworkRegressor(_ReLU, BaselineRegressor):
    r"""Regression by a two-layer ReLU network with real weights, trained by SGD with momentum.

    .. math::

        \min_{w, b, \alpha} \sum_i \ell(f(x_i), y_i)
        + \beta \sum_j \tfrac12 \big(\kappa \|w_j\|^2 + \|\alpha_j\|^2 / \kappa\big), \qquad
        f(x) = \sum_j \alpha_j \max(0, x^T w_j + b_j) + \alpha_0

    The penalty is weight decay. Its minimum over scalings of neurons, which do not change f, is
    :math:`\beta \sum_j \|w_j\| \|\alpha_j\|` for any :math:`\kappa`. Here :math:`\kappa` is the root mean square of the
    rows' norms times that of the targets (1 for labels), divided by :math:`\sqrt m`. The layers then start balanced.

    Notes
    -----
    See section D.1 and Figure 6 of Bartan and Pilanci. An epoch takes about 6 n m d operations and the same memory as
    `BackpropRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.baselines import ReLUNetworkRegressor
    >>> X = np.random.default_rng(0).standard_normal((300, 4))
    >>> model = ReLUNetworkRegressor(50, beta=1e-3, random_state=0).fit(X, np.abs(X).sum(axis=1))
    >>> model.score(X, np.abs(X).sum(axis=1)) > 0.95
    True
    >>> model.quantized(levels=4)
    QuantizedReLUNetwork(n_neurons=50, n_inputs=4, levels=4, n_bits=3632)
    """


class ReLUNetworkClassifier(_ReLU, BaselineClassifier):
    """Classification by a two-layer ReLU network with real weights, trained by SGD with momentum.

    The objective, parameters and units are those of `ReLUNetworkRegressor`.

    Examples
    --------
    >>> import qsdp
    >>> from qsdp.baselines import ReLUNetworkClassifier
    >>> X, y = qsdp.datasets.load_bundled("iris")
    >>> ReLUNetworkClassifier(30, n_epochs=10, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """
