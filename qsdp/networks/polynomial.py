"""Two-layer networks with a polynomial activation and integer weights."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import CANCELLED
from qsdp._utils.outputs import outputs_text, squeezed
from qsdp._utils.parallel import chunks
from qsdp._utils.stored import Checks, checked, is_activation, is_count
from qsdp._utils.summary import Summary, format_bits, format_count
from qsdp._utils.validation import FloatArray, check_matrix, check_numbers, read_only, read_only_copy
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.compact import second_layer_bits
from qsdp.networks.quadratic_form import NeuronFunction, QuadraticForm, form_of_neurons
from qsdp.networks.storage import pack_levels, unpack_levels, write_archive
from qsdp.networks.weights import (
    FLOAT_BITS,
    LARGEST_WEIGHT,
    bits_of,
    check_alpha,
    pack_alpha,
    unpack_alpha,
)

__all__ = ["PolynomialNetwork", "merged_network", "polynomial_from_archive"]

KIND = "polynomial-network"

QUADRATIC = PolynomialActivation(1.0, 0.0, 0.0)


_HEADER: Checks = {
    "n_neurons": is_count,
    "n_inputs": is_count,
    "largest_weight": lambda value: is_count(value) and value <= LARGEST_WEIGHT,
    "equal_parity": lambda value: type(value) is bool,
    "activation": lambda value: value is not None and is_activation(value),
}


@dataclass(frozen=True, eq=False, repr=False)
class PolynomialNetwork(NeuronFunction):
    r"""Two-layer network :math:`f(x) = \sum_j \alpha_j \sigma(x^T q_j) + \mathrm{bias}` with integer weights.

    Parameters
    ----------
    Q : array-like of shape (m, d)
        First-layer weights, integers in -127 .. 127, stored as a read-only int8 array.
    alpha : array-like of shape (m,) or (m, C)
        Second-layer weights.
    activation : str, (a, b, c) or PolynomialActivation
        :math:`\sigma(t) = a t^2 + b t + c`.
    bias : float or array-like of shape (C,), default=0

    Attributes
    ----------
    output_shape : tuple of int
        Shape of the value at one sample: () if alpha has the shape (m,), else (C,).
    output_weights : ndarray of shape (m, C)
        `alpha` with an axis of outputs, also for a scalar network; `outputs` has that axis, too.

    Notes
    -----
    Equation (1) of Bartan and Pilanci.

    Examples
    --------
    >>> import qsdp
    >>> network = qsdp.PolynomialNetwork([[1, 0], [1, -1]], [2.0, -1.0], activation=(1, 0, 0))
    >>> network.predict([[3.0, 1.0]])
    array([14.])
    """

    Q: npt.NDArray[np.int8]
    alpha: FloatArray
    activation: PolynomialActivation = QUADRATIC
    bias: FloatArray = 0.0  # type: ignore[assignment]

    def __post_init__(self) -> None:
        activation = get_activation(self.activation)
        if activation is None:
            raise InvalidInputError("activation must be a polynomial for a PolynomialNetwork; got None")
        Q = _check_integers(self.Q)
        alpha = check_alpha(self.alpha, len(Q))
        bias = check_numbers("bias", self.bias, f"{alpha.shape[1:]}")
        if bias.shape not in {(), alpha.shape[1:]}:
            raise InvalidInputError(f"bias must be a number or have shape {alpha.shape[1:]}; got {bias.shape}")
        bias = read_only_copy(np.broadcast_to(bias, alpha.shape[1:]))
        vars(self).update(Q=Q, alpha=alpha, activation=activation, bias=bias)

    @property
    def n_inputs(self) -> int:
        """Number of inputs ``d``."""
        return int(self.Q.shape[1])

    @property
    def largest_weight(self) -> int:
        """Largest magnitude M of a first-layer weight, at least 1."""
        return max(1, int(np.abs(self.Q.astype(np.int16)).max()))

    @property
    def equal_parity(self) -> bool:
        """Whether all weights are among the M + 1 levels -M, -M + 2, ..., M."""
        return not np.any((self.Q.astype(np.int16) + self.largest_weight) % 2)

    @property
    def n_values(self) -> int:
        """Number of values that a stored weight can take: M + 1 levels, or 2 M + 1 integers."""
        return self.largest_weight + 1 if self.equal_parity else 2 * self.largest_weight + 1

    @property
    def n_bits(self) -> int:
        """Bits: ceil(log2(n_values)) per first-layer weight, 32 per real number; see `BilinearNetwork.n_bits`."""
        biases = FLOAT_BITS * int(np.count_nonzero(self.bias))
        return self.Q.size * bits_of(self.n_values) + second_layer_bits(self.alpha) + biases

    @cached_property
    def _form(self) -> QuadraticForm:
        a, b, c = self.activation.coefficients
        columns = self.output_weights.T
        S = a * form_of_neurons(self.Q, self.Q, self.output_weights)
        s = b * sum(columns[:, some] @ self.Q[some] for some in chunks(self.n_neurons, self.n_inputs))
        s0 = c * columns.sum(axis=1) + self.bias
        return QuadraticForm(*(squeezed(part, self.output_shape) for part in (S, s, s0)))

    def to_quadratic_form(self) -> QuadraticForm:
        """Return the network as an explicit quadratic function."""
        return self._form

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to `path` as packed bits with a strict header, readable by `qsdp.load_network`."""
        header: dict[str, Any] = {
            "n_neurons": self.n_neurons,
            "n_inputs": self.n_inputs,
            "largest_weight": self.largest_weight,
            "equal_parity": self.equal_parity,
            "activation": list(self.activation.coefficients),
        }
        Q, bias = pack_levels(self.Q, self.largest_weight, step=1 + self.equal_parity), np.atleast_1d(self.bias)
        alpha = pack_alpha(self.alpha, Q.nbytes + bias.nbytes)
        write_archive(path, KIND, header, {"Q": Q, "bias": bias, **alpha})

    def __repr__(self) -> str:
        return (
            f"PolynomialNetwork(n_neurons={self.n_neurons}, n_inputs={self.n_inputs}"
            f"{outputs_text(self.output_shape)}, activation={self.activation.coefficients}, "
            f"largest_weight={self.largest_weight}, n_bits={self.n_bits})"
        )

    def _summary(self) -> Summary:
        rows = [
            ("network", format_count(self.n_neurons, self.n_inputs, self.n_outputs)),
            ("first layer", f"integers up to {self.largest_weight}"),
            ("activation", str(self.activation)),
            ("storage", format_bits(self.n_bits)),
        ]
        return Summary("PolynomialNetwork", rows)


def polynomial_from_archive(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> PolynomialNetwork:
    """Build the network of a file's header and arrays; raise `StorageError` for any mismatch."""
    fields = checked("header", header, _HEADER)
    m, d, M = (fields[name] for name in ("n_neurons", "n_inputs", "largest_weight"))
    Q = unpack_levels(arrays["Q"], (m, d), M, step=1 + fields["equal_parity"])
    alpha, bias = unpack_alpha(arrays, m, {"Q", "bias"}), arrays["bias"]
    if bias.dtype != np.float64 or bias.shape != (math.prod(alpha.shape[1:]),):
        raise StorageError(f"bias of shape {bias.shape} does not belong to the outputs")
    return PolynomialNetwork(Q, alpha, fields["activation"], squeezed(bias, alpha.shape[1:]))


def merged_network(
    Q: npt.NDArray[np.int8], alpha: FloatArray, activation: PolynomialActivation, output_shape: tuple[int, ...]
) -> PolynomialNetwork:
    """Simplify a network: merge equal neurons, drop cancelling ones, and move constant ones to the bias.

    The second-layer weights have the shape (m, C).
    """
    if activation.b == 0.0:
        first = np.argmax(Q != 0, axis=1)
        Q = Q * np.where(Q[np.arange(len(Q)), first] < 0, np.int8(-1), np.int8(1))[:, None]
    rows, inverse = np.unique(Q, axis=0, return_inverse=True)
    sums, sizes = np.zeros((len(rows), alpha.shape[1])), np.zeros((len(rows), alpha.shape[1]))
    np.add.at(sums, inverse.ravel(), alpha)
    np.add.at(sizes, inverse.ravel(), np.abs(alpha))
    sums[np.abs(sums) <= CANCELLED * sizes] = 0.0
    constant = ~rows.any(axis=1)
    bias = activation.c * sums[constant].sum(axis=0)
    used = ~constant & np.any(sums != 0.0, axis=1)
    if not np.any(used):
        rows, sums, used = np.zeros_like(rows[:1]), np.zeros_like(sums[:1]), np.array([True])
    weights = squeezed(sums[used], output_shape, axis=1)
    return PolynomialNetwork(rows[used], weights, activation, squeezed(bias, output_shape))


def _check_integers(Q: Any) -> npt.NDArray[np.int8]:
    array = check_matrix("Q", Q, unread_dtypes=["i1"])
    wrong = (array < -LARGEST_WEIGHT) | (array > LARGEST_WEIGHT)
    if array.dtype != np.int8:
        wrong |= array != np.rint(array)
    if np.any(wrong):
        raise InvalidInputError(
            f"Q must have integer entries in -{LARGEST_WEIGHT} .. {LARGEST_WEIGHT}; found {array[wrong][0]:g}"
        )
    return read_only(array.astype(np.int8, copy=True))
