"""Recursive least squares without PyTorch: the update of a layer, and fully connected networks.

With the paper's own back-propagation, a step takes half to the whole time of a step of `RLS` on the same network.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import get_blas_funcs

from benchmarks.methods.activations import DIFFERENTIABLE
from benchmarks.papers.zhang.settings import RLSSettings
from qsdp._utils.validation import warn
from qsdp.baselines._history import DivergedError
from qsdp.losses import LOSSES

__all__ = ["LayerState", "NumpyNetwork", "NumpyRLS", "initial_parameters", "loss_and_gradient", "update_layer"]

Array = npt.NDArray[Any]


@dataclass
class LayerState:
    """State of a layer between steps.

    Attributes
    ----------
    P : ndarray of shape (n_in + 1, n_in + 1)
        Approximate inverse of the inputs' autocorrelation, with the constant input of the bias last.
    velocity : ndarray of shape (n_in + 1, n_out) or None
        Velocity of the momentum; None before the first step with momentum.
    steps : int
    resets : int
        Number of times that P lost its definiteness and was reset.
    """

    P: Array
    velocity: Array | None = None
    steps: int = 0
    resets: int = 0

    @classmethod
    def initial(cls, side: int, settings: RLSSettings, dtype: Any = np.float64) -> LayerState:
        r"""Return :math:`P_0 = p_0 I` of a given side."""
        return cls(settings.initial_inverse * np.eye(side, dtype=dtype))

    def copy(self) -> LayerState:
        """Return a copy that shares no arrays with this state."""
        velocity = None if self.velocity is None else self.velocity.copy()
        return LayerState(self.P.copy(), velocity, self.steps, self.resets)


def update_layer(
    theta: Array,
    state: LayerState,
    gradient: Array,
    mean_input: Array,
    settings: RLSSettings,
    *,
    learning_rate: float = 1.0,
    times: int = 1,
    name: str = "a layer",
) -> float:
    r"""Make one step of recursive least squares in place, and return h; see `RLS` for the equations.

    Parameters
    ----------
    theta : ndarray of shape (n_in + 1, n_out)
        Weights over bias; changed in place.
    state : LayerState
        State of the layer; changed in place.
    gradient : ndarray of shape (n_in + 1, n_out)
        Gradient G of the minibatch's loss.
    mean_input : ndarray of shape (n_in + 1,)
        Mean input :math:`\bar x` of the minibatch; its last entry is 1.
    settings : RLSSettings
    learning_rate : float
        Learning rate :math:`\eta`.
    times : int
        Number of time steps per sample, T.
    name : str
        Name of the layer, for messages.

    Raises
    ------
    DivergedError
        The step is not finite; nothing was changed.

    Notes
    -----
    Zhang et al. (2021), equations (62), (63), (98), (99). One product with P serves G, the mean input and the signs.
    """
    h, apply = _step(theta, state, gradient, mean_input, settings, learning_rate, times, name)
    apply()
    return h


def _step(
    theta: Array,
    state: LayerState,
    gradient: Array,
    mean_input: Array,
    settings: RLSSettings,
    learning_rate: float,
    times: int,
    name: str,
) -> tuple[float, Callable[[], None]]:
    """Compute the step of `update_layer` without any change; return its h and a function that applies the step.

    This makes it possible to check the steps of all layers before the first one is applied.
    """
    signs = np.sign(theta) if settings.l1 else theta[:, :0]
    if not settings.regularize_bias:
        signs[-1] = 0.0
    columns = np.hstack([gradient, mean_input[:, None], signs])
    n_out, forgetting = theta.shape[1], settings.forgetting
    scale = 1.0
    if forgetting != 1.0 and settings.trace_guard:
        trace, allowed = float(np.trace(state.P)), len(theta) * settings.initial_inverse
        scale = allowed / trace if trace > allowed else 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        product = state.P @ columns
        product *= scale
        excitation = float(mean_input @ product[:, n_out])
    if not (np.isfinite(product).all() and math.isfinite(excitation)):
        raise DivergedError(f"the step of {name} is not finite after {state.steps} steps")
    # Rounding errors have made P indefinite: h would fall below lambda, and steps would go uphill.
    reset = excitation < 0.0
    if reset:
        scale, product = 1.0, settings.initial_inverse * columns
        excitation = float(mean_input @ product[:, n_out])
    gain = settings.ratio * times
    h, u = forgetting + gain * excitation, product[:, n_out]

    def apply() -> None:
        if reset:
            warn(f"P of {name} was not positive definite after {state.steps} steps: reset to its initial value")
            state.P[...] = settings.initial_inverse * np.eye(len(state.P))
            state.resets += 1
        change = product[:, :n_out] * (-learning_rate / h)
        if settings.momentum:
            if state.velocity is not None:
                change += settings.momentum * state.velocity
            state.velocity = change
        if settings.l1:
            # The shrinkage uses the new P and the signs of the old parameters.
            shrinkage = product[:, n_out + 1 :] - np.outer((gain / h) * u, u @ signs)
            change = change - (settings.l1 / forgetting) * shrinkage
        if scale != forgetting:
            state.P *= scale / forgetting
        _subtract_square(state.P, math.sqrt(gain / (forgetting * h)) * u)
        theta[...] += change
        state.steps += 1

    return h, apply


def _subtract_square(P: Array, v: Array) -> None:
    """Subtract v v' in place; the products of one vector with itself keep P exactly symmetric."""
    (ger,) = get_blas_funcs(("ger",), (P,))
    # P is symmetric, so that its transpose, in the column order that BLAS expects, is the same matrix.
    ger(-1.0, v, v, a=P.T, overwrite_x=False, overwrite_y=False, overwrite_a=True)


def initial_parameters(sizes: Sequence[int], rng: np.random.Generator, dtype: Any = np.float64) -> list[Array]:
    """Return one matrix (n_in + 1, n_out) per layer, weights over bias, uniform in ±1/sqrt(n_in) as in PyTorch."""
    return [
        rng.uniform(-1.0 / math.sqrt(n_in), 1.0 / math.sqrt(n_in), (n_in + 1, n_out)).astype(dtype)
        for n_in, n_out in itertools.pairwise(sizes)
    ]


def loss_and_gradient(loss: str, outputs: Array, targets: Array) -> tuple[float, Array]:
    r"""Return the loss per sample and its gradient with respect to the linear outputs.

    The squared loss is :math:`\frac{1}{2M} \|Z - Z^*\|_F^2`: half the sum over outputs, averaged over samples.
    All others are summed over outputs and averaged over samples.
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
        Weights over bias, one matrix per layer; they are not copied.
    activation : {"relu", "tanh", "sigmoid", "identity"}
        Activation of the hidden layers.

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
            Inputs of the layers, from `forward`.
        delta : ndarray of shape (n, C)
            Gradient with respect to the linear outputs.
        """
        gradients = []
        for number in reversed(range(len(self.thetas))):
            gradients.append(inputs[number].T @ delta)
            if number:
                delta = self.activation.backward(delta @ self.thetas[number][:-1].T, inputs[number][:, :-1])
        return gradients[::-1]


class NumpyAdam:
    """Adam for one matrix, with the usual constants."""

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


@dataclass(eq=False, repr=False)
class NumpyRLS:
    r"""Trainer of a `NumpyNetwork` on minibatches: algorithm 1 of Zhang et al., with its improvements and the hybrid.

    Parameters
    ----------
    network : NumpyNetwork
        Network, changed by `step`.
    settings : RLSSettings
    learning_rates : sequence of float
        Learning rates :math:`\eta_l`, one per layer; the paper has 1 for all.
    clip : float or None
        Largest norm of all gradients together.
    adam_learning_rate : float, optional
        Train the output layer by Adam with this rate: the hybrid.
    """

    network: NumpyNetwork
    settings: RLSSettings
    learning_rates: Sequence[float]
    clip: float | None = field(default=5.0, kw_only=True)
    adam_learning_rate: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        thetas, rate = self.network.thetas, self.adam_learning_rate
        n_rls = len(thetas) - (rate is not None)
        self.states = [LayerState.initial(len(theta), self.settings, theta.dtype) for theta in thetas[:n_rls]]
        self.adam = None if rate is None else NumpyAdam(thetas[-1], rate)
        self.n_steps = self.n_clipped = 0

    def step(self, X: Array, targets: Array, loss: str = "squared") -> float:
        """Make one step on a minibatch, and return the loss before the step.

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
        # All steps are computed from the old parameters, so that the order of the layers does not matter.
        steps = [
            _step(theta, state, gradient, H.mean(axis=0), self.settings, rate, 1, f"layer {number}")
            for number, (theta, state, gradient, H, rate) in enumerate(
                zip(thetas, self.states, gradients, inputs, self.learning_rates, strict=False), start=1
            )
        ]
        for _, apply in steps:
            apply()
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
        """Clip all gradients, and return whether they were clipped."""
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
