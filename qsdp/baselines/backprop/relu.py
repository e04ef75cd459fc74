"""Two-layer ReLU networks trained by backpropagation, as scikit-learn estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from qsdp._utils.validation import FloatArray, check_flag, check_integer
from qsdp.baselines._estimator import BaselineClassifier, BaselineRegressor
from qsdp.baselines._history import History
from qsdp.baselines._layers import TrainedLayer
from qsdp.baselines.backprop._descent import GradientDescent, descent_of
from qsdp.baselines.backprop._face import GradientTrained
from qsdp.baselines.backprop._training import Training
from qsdp.baselines.backprop.relu_networks import QuantizedReLUNetwork, ReLUNetwork
from qsdp.problem import TrainingProblem

__all__ = ["ReLUNetworkClassifier", "ReLUNetworkRegressor"]


class _ReLUTraining(Training):
    r"""The network :math:`f' = \tfrac{1}{\sqrt m} \sum_j a_j \max(0, x'^T w'_j + b_j) + b_0`.

    Weights are standard normal to start with: steps change the function as much for any width.
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
        """Return half the squares of W and a, weighted so that the layers start balanced."""
        W, a, _, _ = layers
        weight = self.problem.beta * self.units.target / (self.units.factor * self.units.row * self.m**0.5)
        return weight * 0.5 * (W.square().sum() + a.square().sum())

    def network(self) -> ReLUNetwork:
        """Return the network in the user's units."""
        W, a, b, b0 = (tensor.detach().cpu().numpy().astype(np.float64) for tensor in self.layers())
        return ReLUNetwork(W / self.units.row, b, a * (self.units.target / self.m**0.5), b0 * self.units.target)


@dataclass(eq=False, repr=False, kw_only=True)
class _ReLU(GradientTrained):
    r"""What regressor and classifier share.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Train :math:`b_j` and :math:`\alpha_0`, which are neither regularised nor quantized; otherwise they are zero.
    learning_rate : float, default=0.5
        Of the mean over samples, for data and targets in units of their own size, as in `BackpropRegressor`. SGD
        wants 0.1 to 2 here, Adam a tenth of that.
    clip : float or None, default=1.0
        Gradients of larger norm are shortened to it.

    Attributes
    ----------
    network_ : ReLUNetwork
    layers_ : tuple of TrainedLayer
        The same as a chain of two affine layers: `distill` matches it layer by layer by SDP, `qsdp.distill` as a
        whole.
    """

    fit_intercept: bool = True
    learning_rate: float = 0.5

    def _train(self, X: FloatArray, targets: FloatArray, history: History, rng: np.random.Generator) -> None:
        m = check_integer("n_neurons", self.n_neurons, minimum=1)
        intercept = check_flag("fit_intercept", self.fit_intercept)
        descent = descent_of(self)
        problem, apart = self._problem(X, targets, rng)
        training = _ReLUTraining(problem, m, descent, intercept, rng)
        self._descend(training, descent, rng, history, width=1, held=apart)
        self.network_ = training.network()

    def _outputs(self, X: FloatArray) -> FloatArray:
        return self.network_.predict(X)

    @property
    def layers_(self) -> tuple[TrainedLayer, TrainedLayer]:
        """The network as a chain of two affine layers."""
        return self.network_.layers

    def quantized(self, levels: int = 2, *, scale: str = "neuron", X: Any = None) -> QuantizedReLUNetwork:
        """Return the trained network with its first layer rounded; see `ReLUNetwork.quantized`."""
        check_is_fitted(self)
        return self.network_.quantized(levels, scale=scale, X=X)


class ReLUNetworkRegressor(_ReLU, BaselineRegressor):
    r"""Regression by a two-layer ReLU network with real weights, trained by SGD with momentum.

    .. math::

        \min_{w, b, \alpha} \sum_i \ell(f(x_i), y_i)
        + \beta \sum_j \tfrac12 \big(\kappa \|w_j\|^2 + \|\alpha_j\|^2 / \kappa\big), \qquad
        f(x) = \sum_j \alpha_j \max(0, x^T w_j + b_j) + \alpha_0

    that is, weight decay. Its minimum over scalings of neurons, which leave f as it is, is
    :math:`\beta \sum_j \|w_j\| \|\alpha_j\|` for any :math:`\kappa`; here it is the root mean square of the rows' norms
    times that of the targets (1 for labels) over :math:`\sqrt m`, which starts the layers balanced.

    Notes
    -----
    Section D.1 and Figure 6 of Bartan and Pilanci. An epoch takes about 6 n m d operations, and memory as
    `BackpropRegressor` does.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.baselines import ReLUNetworkRegressor
    >>> X = np.random.default_rng(0).standard_normal((300, 4))
    >>> model = ReLUNetworkRegressor(50, beta=1e-3, random_state=0).fit(X, np.abs(X).sum(axis=1))
    >>> model.score(X, np.abs(X).sum(axis=1)) > 0.95
    True
    >>> model.quantized(levels=4)
    QuantizedReLUNetwork(n_neurons=50, n_inputs=4, levels=4, n_bits=6864)
    """


class ReLUNetworkClassifier(_ReLU, BaselineClassifier):
    """Classification by a two-layer ReLU network with real weights, trained by SGD with momentum.

    Objective, parameters and units are those of `ReLUNetworkRegressor`.

    Examples
    --------
    >>> import qsdp
    >>> from sklearn.preprocessing import StandardScaler
    >>> from qsdp.baselines import ReLUNetworkClassifier
    >>> X, y = qsdp.datasets.load_bundled("breast-cancer-wisconsin")
    >>> X = StandardScaler().fit_transform(X)
    >>> model = ReLUNetworkClassifier(30, n_epochs=10, random_state=0).fit(X[:400], y[:400])
    >>> model.score(X[400:], y[400:]) > 0.9
    True
    """
