"""The update of one layer, in NumPy."""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import get_blas_funcs

from qsdp._utils.validation import warn
from qsdp.baselines.rls._settings import DivergedError, RLSSettings

__all__ = ["LayerState", "LayerStep", "update_layer"]

Array = npt.NDArray[Any]


@dataclass
class LayerState:
    """What a layer keeps between steps.

    Attributes
    ----------
    P : ndarray of shape (n_in + 1, n_in + 1)
        Approximate inverse of the inputs' autocorrelation, the bias's constant input last.
    velocity : ndarray of shape (n_in + 1, n_out) or None
        Of the momentum; None before the first step with one.
    steps : int
    resets : int
        How often P had lost definiteness, and was set back.
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
        """Return a state that shares nothing with this one."""
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
    r"""Make one step of recursive least squares, in place, and return h; `RLS` has the equations.

    Parameters
    ----------
    theta : ndarray of shape (n_in + 1, n_out)
        Weights over bias; changed.
    state : LayerState
        Changed.
    gradient : ndarray of shape (n_in + 1, n_out)
        G, of the minibatch's loss.
    mean_input : ndarray of shape (n_in + 1,)
        :math:`\bar x` over the minibatch; its last entry is 1.
    settings : RLSSettings
    learning_rate : float
        :math:`\eta`.
    times : int
        T, the number of time steps a sample has.
    name : str
        Of the layer, for messages.

    Raises
    ------
    DivergedError
        The step is not finite; nothing was changed.

    Notes
    -----
    Zhang et al. (2021), equations (62), (63), (98), (99). One product with P serves G, the mean input and the signs.
    """
    step = LayerStep(theta, state, gradient, mean_input, settings, learning_rate, times, name)
    step.apply()
    return step.h


@dataclass(eq=False)
class LayerStep:
    """The step that `update_layer` makes: found to be finite at once, made by `apply`; until then nothing changes.

    So the steps of all layers can be known to be finite before the first of them is made.
    """

    theta: Array
    state: LayerState
    gradient: InitVar[Array]
    mean_input: InitVar[Array]
    settings: RLSSettings
    learning_rate: float = 1.0
    times: int = 1
    name: str = "a layer"

    def __post_init__(self, gradient: Array, mean_input: Array) -> None:
        theta, state, settings = self.theta, self.state, self.settings
        self._signs = _signs(theta, settings) if settings.l1 else theta[:, :0]
        columns = np.hstack([gradient, mean_input[:, None], self._signs])
        n_out = theta.shape[1]
        self._scale = _guard(state.P, settings)
        with np.errstate(over="ignore", invalid="ignore"):
            product = state.P @ columns
            product *= self._scale
            excitation = float(mean_input @ product[:, n_out])
        if not (np.isfinite(product).all() and math.isfinite(excitation)):
            raise DivergedError(f"the step of {self.name} is not finite after {state.steps} steps")
        # Rounding has cost P its definiteness: h would fall below lambda, and steps would go uphill.
        self._reset = excitation < 0.0
        if self._reset:
            self._scale, product = 1.0, settings.initial_inverse * columns
            excitation = float(mean_input @ product[:, n_out])
        self._gain = settings.ratio * self.times
        self.h = settings.forgetting + self._gain * excitation
        self._change = product[:, :n_out] * (-self.learning_rate / self.h)
        self._u, self._product_of_signs = product[:, n_out], product[:, n_out + 1 :]

    def apply(self) -> None:
        """Change parameters and state."""
        state, settings, forgetting, u = self.state, self.settings, self.settings.forgetting, self._u
        if self._reset:
            warn(f"P of {self.name} lost its definiteness after {state.steps} steps: it is set back to its first value")
            state.P[...] = settings.initial_inverse * np.eye(len(state.P))
            state.resets += 1
        change = self._change
        if settings.momentum:
            if state.velocity is not None:
                change += settings.momentum * state.velocity
            state.velocity = change
        if settings.l1:
            # Of the new P, and the signs of the old parameters.
            shrinkage = self._product_of_signs - np.outer((self._gain / self.h) * u, u @ self._signs)
            change = change - (settings.l1 / forgetting) * shrinkage
        if self._scale != forgetting:
            state.P *= self._scale / forgetting
        _subtract_square(state.P, math.sqrt(self._gain / (forgetting * self.h)) * u)
        self.theta += change
        state.steps += 1


def _guard(P: Array, settings: RLSSettings) -> float:
    """Return what P is to be scaled with, so that its mean eigenvalue is at most that of the first one."""
    if settings.forgetting == 1.0 or not settings.trace_guard:
        return 1.0
    trace, allowed = float(np.trace(P)), len(P) * settings.initial_inverse
    return allowed / trace if trace > allowed else 1.0


def _signs(theta: Array, settings: RLSSettings) -> Array:
    signs = np.sign(theta)
    if not settings.regularize_bias:
        signs[-1] = 0.0
    return signs


def _subtract_square(P: Array, v: Array) -> None:
    """Subtract v v' in place; the products of one vector with itself keep P exactly symmetric."""
    (ger,) = get_blas_funcs(("ger",), (P,))
    # P is symmetric, so its transpose, in the order of columns that BLAS wants, is the same matrix.
    ger(-1.0, v, v, a=P.T, overwrite_x=False, overwrite_y=False, overwrite_a=True)
