"""Two-layer networks with real weights, and their quantization after training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.summary import Rows, Summarized, Summary, format_count
from qsdp._utils.validation import (
    FloatArray,
    ReadOnlyArrays,
    check_choice,
    check_flag,
    check_matrix,
    check_numbers,
    read_only_copy,
)
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.baselines.backprop.rounding import Rounding, round_to_levels
from qsdp.exceptions import InvalidInputError
from qsdp.networks import BilinearNetwork, PolynomialNetwork, QuadraticForm
from qsdp.networks.weights import check_alpha
from qsdp.problem import TrainingProblem
from qsdp.training_data import check_levels

__all__ = ["SCALES", "FloatNetwork", "TwoLayerNetwork"]

SCALES = ("auto", "layer", "neuron", "paper", "shared")


class TwoLayerNetwork(Summarized, ReadOnlyArrays, ABC):
    """Base class of two-layer networks: sizes, prediction in blocks of rows, and summary."""

    alpha: FloatArray

    @property
    @abstractmethod
    def _first_layer(self) -> npt.NDArray[Any]:
        """Weights of shape (..., m, d)."""

    @abstractmethod
    def _outputs(self, X: FloatArray) -> FloatArray:
        """Return the outputs for some rows."""

    @abstractmethod
    def _rows(self) -> Rows:
        """Return the rows of the summary on the activation, the first layer and the size."""

    @property
    def n_neurons(self) -> int:
        """Number of hidden neurons ``m``."""
        return int(self._first_layer.shape[-2])

    @property
    def n_inputs(self) -> int:
        """Number of inputs, the columns that `predict` expects."""
        return int(self._first_layer.shape[-1])

    def predict(self, X: Any) -> FloatArray:
        """Return the outputs of shape (n,) or (n, C); work memory does not depend on n."""
        X = check_matrix("X", X, n_columns=self.n_inputs)
        outputs = np.empty((len(X), *self.alpha.shape[1:]))
        for rows in chunks(len(X), max(self.n_inputs, 2 * self.n_neurons)):
            outputs[rows] = self._outputs(X[rows])
        return outputs

    def _summary(self) -> Summary:
        n_outputs = self.alpha.shape[1] if self.alpha.ndim == 2 else 1
        size = format_count(self.n_neurons, self.n_inputs, n_outputs)
        return Summary(type(self).__name__, [("network", size), *self._rows()])


@dataclass(frozen=True, eq=False, repr=False)
class FloatNetwork(TwoLayerNetwork):
    r"""Two-layer network :math:`\sum_j \alpha_j (x^T u_j)(x^T v_j)` or :math:`\sum_j \alpha_j \sigma(x^T q_j)`.

    Parameters
    ----------
    factors : array-like of shape (2, m, D) or (1, m, D)
        U and V of a bilinear network, or Q of one with a polynomial activation; real numbers.
    alpha : array-like of shape (m,) or (m, C)
    activation : None, str, (a, b, c) or PolynomialActivation, default=None
        None means bilinear.

    Examples
    --------
    >>> network = FloatNetwork([[[0.5, -1.5]], [[2.0, 2.0]]], [3.0])
    >>> network.predict([[1.0, 1.0]])
    array([-12.])
    >>> network.quantized(corrected=False)  # signs (1, -1) and (1, 1), scales 1 and 2
    BilinearNetwork(n_neurons=1, n_inputs=2, n_bits=36, shared alpha=6)
    """

    factors: FloatArray
    alpha: FloatArray
    activation: PolynomialActivation | None = None

    def __post_init__(self) -> None:
        activation = get_activation(self.activation)
        count = 2 if activation is None else 1
        factors = check_numbers("factors", self.factors, f"({count}, m, D)")
        if factors.ndim != 3 or len(factors) != count or not factors.size:
            raise InvalidInputError(f"factors must have shape ({count}, m, D); got {factors.shape}")
        for name, value in (
            ("factors", read_only_copy(factors)),
            ("alpha", check_alpha(self.alpha, len(factors[0]))),
            ("activation", activation),
        ):
            object.__setattr__(self, name, value)

    @property
    def _first_layer(self) -> npt.NDArray[Any]:
        return self.factors

    def _rows(self) -> Rows:
        kind = "bilinear" if self.activation is None else f"polynomial {self.activation.coefficients}"
        return [("activation", kind), ("first layer", "real numbers"), ("parameters", f"{self.n_parameters:,}")]

    @property
    def n_parameters(self) -> int:
        """Number of weights of both layers."""
        return int(self.factors.size + self.alpha.size)

    @property
    def _lifted(self) -> bool:
        return self.activation is not None and self.activation.lifted

    def _outputs(self, X: FloatArray) -> FloatArray:
        first = X @ self.factors[0].T
        neurons = first * (X @ self.factors[1].T) if self.activation is None else self.activation(first)
        return neurons @ self.alpha

    def to_quadratic_form(self) -> QuadraticForm:
        """Return the same function as the coefficients of a quadratic form."""
        columns = self.alpha.reshape(self.n_neurons, -1).T
        first, last = self.factors[0], self.factors[-1]
        a, b, c = (1.0, 0.0, 0.0) if self.activation is None else self.activation.coefficients
        S = np.stack([(first.T * (a * column)) @ last for column in columns])
        s, s0 = b * columns @ first, c * columns.sum(axis=1)
        return QuadraticForm(S, s, s0) if self.alpha.ndim == 2 else QuadraticForm(S[0], s[0], s0[0])

    def penalty(self, problem: TrainingProblem) -> float:
        r"""Return the regulariser of real weights; for weights -1 and +1 it is that of `problem`.

        .. math::

            \beta \sum_j \|\alpha_j\|_1 \tfrac12 (\|u_j\|^2 + \|v_j\|^2), \qquad
            \beta \sum_j \|\alpha_j\|_1 (\|q_j\|^2 + 1)

        The second is for polynomial activations, without the 1 if there is no linear and constant part. Scaling a
        neuron and unscaling its output weight changes neither function nor regulariser. At its minimum over such
        scalings and splits, the first is :math:`\beta` times a nuclear norm of :math:`\sum_j \alpha_j u_j v_j^T`.
        """
        sizes = np.einsum("kij,kij->i", self.factors, self.factors) / len(self.factors)
        magnitudes = np.abs(self.alpha.reshape(self.n_neurons, -1)).sum(axis=1)
        return problem.beta * float((sizes + self._lifted) @ magnitudes)

    def objective(self, problem: TrainingProblem) -> float:
        """Return the loss on `problem`, summed over samples, plus `penalty`."""
        prediction = self.predict(problem.X)
        if prediction.shape != problem.y.shape:
            raise InvalidInputError(f"problem must have targets of shape {prediction.shape}; got {problem.y.shape}")
        return problem.loss.value(prediction, problem.y) + self.penalty(problem)

    def roundings(self, levels: int = 2, *, scale: str = "neuron") -> tuple[Rounding, ...]:
        """Return `round_to_levels` of each of the factors: levels, scales and relative errors."""
        return tuple(round_to_levels(factor, levels, scale=scale) for factor in self.factors)

    def quantized(
        self, levels: int = 2, *, scale: str = "auto", corrected: bool = True
    ) -> BilinearNetwork | PolynomialNetwork:
        r"""Return the network with first-layer weights rounded to levels -M, -M + 2, ..., M.

        Parameters
        ----------
        levels : int, default=2
            Number of levels, M + 1.
        scale : {"auto", "neuron", "layer", "shared", "paper"}, default="auto"
            How the scale of the weights is represented.

            * "neuron": each row w becomes the nearest s q (see `round_to_levels`), and the scales multiply the output
              weight, :math:`\alpha_j s_{u_j} s_{v_j}` or :math:`\alpha_j s_j^2`. This takes one float per neuron. It is
              impossible for activations with a linear or constant part, which are not homogeneous.
            * "layer": one scale for all rows of a factor. For activations that are not homogeneous, it goes into their
              coefficients :math:`(a s^2, b s, c)`, which is also exact.
            * "shared": one magnitude per output, the c that minimises :math:`\|c \hat Z - Z\|_F`,
              :math:`c = \langle \hat Z, Z\rangle / \langle \hat Z, \hat Z\rangle`, where
              :math:`Z = \sum_j \alpha_j u_j v_j^T` (symmetrised), and :math:`\hat Z` is the same for the levels and
              the signs of :math:`\alpha`. It takes as many bits as a network sampled from the relaxation, and needs
              output weights of one magnitude per output.
            * "paper": the same with the ratio as printed in the paper,
              :math:`\langle \hat Z, Z\rangle / \langle Z, Z\rangle`, and without symmetrised matrices.
            * "auto": "neuron" if that is possible, else "layer".
        corrected : bool, default=True
            For "neuron" and "layer": multiply each output by the factor that brings the network's matrix nearest to
            that of the trained network. Scales that are nearest for each row are too small for the sum: if
            :math:`u_j, v_j` are Gaussian with weak correlations, :math:`\sum_j \alpha_j u_j v_j^T` keeps
            :math:`(2/\pi)^2` of itself.

        Returns
        -------
        BilinearNetwork or PolynomialNetwork

        Notes
        -----
        See section 5.1 of Bartan and Pilanci. `qsdp.refit` chooses output weights from the data instead.
        """
        levels = check_levels(levels)
        check_choice("scale", scale, SCALES)
        check_flag("corrected", corrected)
        if scale == "auto":
            scale = "layer" if self._lifted else "neuron"
        if scale in {"neuron", "shared", "paper"} and self._lifted:
            raise InvalidInputError(
                f"scale must be 'layer' for an activation with a linear or constant part: scaling its argument does "
                f"not scale its value; got {scale!r} with {self.activation}"
            )
        if scale in {"shared", "paper"}:
            self._check_magnitudes()
            signs = self._network(
                [rounding.weights for rounding in self.roundings(levels)], np.sign(self.alpha), levels
            )
            return self._as_printed(signs) if scale == "paper" else self._nearest(signs)
        roundings = self.roundings(levels, scale=scale)
        weights = [rounding.weights for rounding in roundings]
        if self._lifted:
            rounded: BilinearNetwork | PolynomialNetwork = self._in_activation(roundings[0])
        else:
            scales = roundings[0].scales * roundings[-1].scales
            rounded = self._network(weights, self.alpha * scales.reshape((-1,) + (1,) * (self.alpha.ndim - 1)), levels)
        return self._nearest(rounded) if corrected else rounded

    def _network(self, weights: Sequence[Any], alpha: FloatArray, levels: int) -> BilinearNetwork | PolynomialNetwork:
        if self.activation is None:
            return BilinearNetwork(weights[0], weights[1], alpha, levels=levels)
        return PolynomialNetwork(weights[0], alpha, self.activation)

    def _in_activation(self, rounding: Rounding) -> PolynomialNetwork:
        assert self.activation is not None
        a, b, c = self.activation.coefficients
        s = float(rounding.scales[0])
        if s == 0.0:
            # All weights are zero: sigma is its constant part, which no first layer can represent.
            return PolynomialNetwork(rounding.weights, 0.0 * self.alpha, self.activation, c * self.alpha.sum(axis=0))
        return PolynomialNetwork(rounding.weights, self.alpha, PolynomialActivation(a * s * s, b * s, c))

    def _nearest(self, network: BilinearNetwork | PolynomialNetwork) -> BilinearNetwork | PolynomialNetwork:
        """Scale each output of a quantized network so that its matrix is nearest to this network's (Frobenius norm)."""
        exact, rounded = (
            form.lifted().reshape(-1, form.n_inputs + 1, form.n_inputs + 1)
            for form in (self.to_quadratic_form(), network.to_quadratic_form())
        )
        return _multiplied(network, _ratio(exact, rounded, rounded))

    def _as_printed(self, network: BilinearNetwork | PolynomialNetwork) -> BilinearNetwork | PolynomialNetwork:
        """Rescale each output of a network of signs by the ratio printed in the paper."""
        if isinstance(network, BilinearNetwork):
            first, last = network.U, network.V
        else:
            first = last = network.Q
        exact, rounded = (
            np.stack([(left.T.astype(np.float64) * column) @ right for column in alpha.reshape(len(alpha), -1).T])
            for left, right, alpha in ((self.factors[0], self.factors[-1], self.alpha), (first, last, network.alpha))
        )
        return _multiplied(network, _ratio(exact, rounded, exact))

    def _check_magnitudes(self) -> None:
        sizes = np.abs(self.alpha.reshape(self.n_neurons, -1))
        if np.any((sizes > 0.0) & (sizes < (1.0 - 1e-12) * sizes.max(axis=0))):
            raise InvalidInputError(
                "scale must be 'neuron' or 'layer' for a network with second-layer weights of several magnitudes: one "
                "number per output cannot represent them"
            )

    def __repr__(self) -> str:
        kind = "bilinear" if self.activation is None else f"activation={self.activation.coefficients}"
        outputs = f", n_outputs={self.alpha.shape[1]}" if self.alpha.ndim == 2 else ""
        return f"FloatNetwork(n_neurons={self.n_neurons}, n_inputs={self.n_inputs}{outputs}, {kind})"


def _ratio(first: FloatArray, second: FloatArray, divisor: FloatArray) -> FloatArray:
    """Return <first, second> / <divisor, divisor>, one per output; 0 for zero matrices."""
    along, size = np.einsum("kij,kij->k", first, second), np.einsum("kij,kij->k", divisor, divisor)
    ratios: FloatArray = np.divide(along, size, out=np.zeros_like(along), where=size > 0.0)
    return ratios


def _multiplied(
    network: BilinearNetwork | PolynomialNetwork, factors: FloatArray
) -> BilinearNetwork | PolynomialNetwork:
    """Return the network with each output multiplied by a factor."""
    by = factors if network.alpha.ndim == 2 else factors[0]
    if isinstance(network, PolynomialNetwork):
        return replace(network, alpha=network.alpha * by, bias=network.bias * by)
    return replace(network, alpha=network.alpha * by)
