"""Fully connected networks trained by recursive least squares without PyTorch.

The paper's own back-propagation, whose steps take half to the whole time of those of `RLS` on the same network.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp.activations import DIFFERENTIABLE
from qsdp.baselines.rls._settings import DivergedError, RLSSettings
from qsdp.baselines.rls._update import LayerState, LayerStep
from qsdp.losses import LOSSES

__all__ = ["NumpyAdam", "NumpyNetwork", "NumpyRLS", "initial_parameters", "loss_and_gradient"]

Array = npt.NDArray[Any]


def initial_parameters(sizes: Sequence[int], rng: np.random.Generator, dtype: Any = np.float64) -> list[Array]:
    """Return a matrix (n_in + 1, n_out) a layer, weights over bias, uniform in ±1/sqrt(n_in) as PyTorch has them."""
    return [
        rng.uniform(-1.0 / math.sqrt(n_in), 1.0 / math.sqrt(n_in), (n_in + 1, n_out)).astype(dtype)
        for n_in, n_out in itertools.pairwise(sizes)
    ]


def loss_and_gradient(loss: str, outputs: Array, targets: Array) -> tuple[float, Array]:
    r"""Return a loss per sample and its gradient in the linear outputs.

    The squared loss is :math:`\frac{1}{2M} \|Z - Z^*\|_F^2`: halved, summed over outputs, mean over samples; all
    others are sums over outputs and means over samples.
    """
    share = (0.5 if loss == "squared" else 1.0) / len(outputs)
    function = LOSSES[loss]()
    value, gradient = function.value(outputs, targets), function.gradient(outputs, targets)
    return (share * value if math.isfinite(value) else math.nan), share * gradient


class NumpyNetwork:
    r"""Fully connected network :math:`Y^l = f([Y^{l-1}, 1] \Theta^l)` with a linear output layer.

    Parameters
    ----------
    thetas : list of ndarray of shape (n_in + 1, n_out)
        Weights over bias, a matrix a layer; not copied.
    activation : {"relu", "tanh", "sigmoid", "identity"}
        Of the hidden layers.

    Examples
    --------
    >>> import numpy as np
    >>> network = NumpyNetwork([np.array([[1.0], [-1.0], [0.5]])], "relu")
    >>> network.outputs(np.array([[2.0, 1.0]]))
    array([[1.5]])
    """

    def __init__(self, thetas: list[Array], activation: str = "relu") -> None:
        self.thetas = thetas
        self.activation = DIFFERENTIABLE[activation]()

    @property
    def n_parameters(self) -> int:
        """Number of weights, biases included."""
        return sum(theta.size for theta in self.thetas)

    def outputs(self, X: Array) -> Array:
        """Return the linear outputs of shape (n, C)."""
        H = X.astype(self.thetas[0].dtype, copy=False)
        for number, theta in enumerate(self.thetas):
            H = H @ theta[:-1] + theta[-1]
            if number + 1 < len(self.thetas):
                H = self.activation(H)
        return H

    def forward(self, X: Array) -> tuple[list[Array], Array]:
        """Return the layers' inputs with their column of ones, and the linear outputs."""
        inputs = [_extended(X.astype(self.thetas[0].dtype, copy=False))]
        for theta in self.thetas[:-1]:
            inputs.append(_extended(self.activation(inputs[-1] @ theta)))
        return inputs, inputs[-1] @ self.thetas[-1]

    def gradients(self, inputs: list[Array], delta: Array) -> list[Array]:
        r"""Return the gradients of the parameters by back-propagation.

        :math:`G^l = X_l^T \delta^l`, and :math:`\delta^{l-1} = \delta^l W_l^T \circ f'(Z^{l-1})` with the bias's row
        left out of :math:`W_l`.

        Parameters
        ----------
        inputs : list of ndarray
            Of `forward`.
        delta : ndarray of shape (n, C)
            Gradient in the linear outputs.
        """
        gradients = []
        for number in reversed(range(len(self.thetas))):
            gradients.append(inputs[number].T @ delta)
            if number:
                delta = self.activation.backward(delta @ self.thetas[number][:-1].T, inputs[number][:, :-1])
        return gradients[::-1]


class NumpyAdam:
    """Adam of one matrix, with the usual constants."""

    def __init__(self, like: Array, learning_rate: float = 1e-3) -> None:
        self.learning_rate = learning_rate
        self.mean, self.square, self.steps = np.zeros_like(like), np.zeros_like(like), 0

    def update(self, theta: Array, gradient: Array) -> None:
        """Make one step in place."""
        self.steps += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 1e-3 * (gradient * gradient - self.square)
        mean, square = (
            moment / (1.0 - decay**self.steps) for moment, decay in ((self.mean, 0.9), (self.square, 0.999))
        )
        theta -= self.learning_rate * mean / (np.sqrt(square) + 1e-8)


class NumpyRLS:
    r"""Trains a `NumpyNetwork` by minibatches: algorithm 1 of Zhang et al., with its improvements and the hybrid.

    Parameters
    ----------
    network : NumpyNetwork
        Changed by `step`.
    settings : RLSSettings
    learning_rates : sequence of float
        :math:`\eta_l`, one a layer; the paper has 1 for all.
    clip : float or None
        Largest norm of all gradients together.
    adam_learning_rate : float, optional
        Train the output layer by Adam with this rate: the hybrid.
    """

    def __init__(
        self,
        network: NumpyNetwork,
        settings: RLSSettings,
        learning_rates: Sequence[float],
        *,
        clip: float | None = 5.0,
        adam_learning_rate: float | None = None,
    ) -> None:
        self.network, self.settings, self.clip = network, settings, clip
        self.learning_rates = list(learning_rates)
        thetas = network.thetas
        n_rls = len(thetas) - (adam_learning_rate is not None)
        self.states = [LayerState.initial(len(theta), settings, theta.dtype) for theta in thetas[:n_rls]]
        self.adam = None if adam_learning_rate is None else NumpyAdam(thetas[-1], adam_learning_rate)
        self.n_steps = 0
        self.n_clipped = 0

    def step(self, X: Array, targets: Array, loss: str = "squared") -> float:
        """Make one step on a minibatch, and return its loss before it.

        Raises
        ------
        DivergedError
            The gradient, or the step of a layer, is not finite; nothing was changed.
        """
        inputs, outputs = self.network.forward(X)
        value, delta = loss_and_gradient(loss, outputs, targets)
        gradients = self.network.gradients(inputs, delta)
        clipped = self._clip(gradients)
        thetas = self.network.thetas
        # All are computed from the old parameters, so the order of the layers does not matter.
        steps = [
            LayerStep(
                thetas[number],
                state,
                gradients[number],
                inputs[number].mean(axis=0),
                self.settings,
                self.learning_rates[number],
                name=f"layer {number + 1}",
            )
            for number, state in enumerate(self.states)
        ]
        for step in steps:
            step.apply()
        if self.adam is not None:
            self.adam.update(thetas[-1], gradients[-1])
        self.n_clipped += clipped
        self.n_steps += 1
        return value

    def parameters(self) -> list[Array]:
        """Return a copy of the parameters."""
        return [theta.copy() for theta in self.network.thetas]

    def set_parameters(self, thetas: Sequence[Array]) -> None:
        """Set the parameters."""
        for theta, given in zip(self.network.thetas, thetas, strict=True):
            theta[...] = given

    def _clip(self, gradients: list[Array]) -> bool:
        """Clip all gradients, and return whether they were too large."""
        norm = math.sqrt(sum(float(np.vdot(gradient, gradient)) for gradient in gradients))
        if not math.isfinite(norm):
            raise DivergedError(f"the gradient is not finite after {self.n_steps} steps")
        if self.clip is None or norm + 1e-6 <= self.clip:
            return False
        for gradient in gradients:
            gradient *= self.clip / (norm + 1e-6)
        return True


def _extended(H: Array) -> Array:
    return np.hstack([H, np.ones((len(H), 1), dtype=H.dtype)])
