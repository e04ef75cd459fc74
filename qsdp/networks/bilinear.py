"""Bilinear networks with quantized first-layer weights, and exact conversion to and from polynomial networks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.outputs import outputs_text, squeezed
from qsdp._utils.parallel import count_jobs
from qsdp._utils.summary import Summary, format_bits, format_count
from qsdp._utils.validation import FloatArray, check_choice, check_matrix, read_only
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks.integer_form import IntegerForm
from qsdp.networks.polynomial import QUADRATIC, PolynomialNetwork, merged_network
from qsdp.networks.quadratic_form import NeuronFunction, QuadraticForm, form_of_neurons
from qsdp.networks.storage import pack_levels, write_archive
from qsdp.networks.weights import (
    FLOAT_BITS,
    LARGEST_WEIGHT,
    bits_of,
    check_alpha,
    check_weights,
    count_floats,
    pack_alpha,
)
from qsdp.training_data import check_levels, quadratic_map

__all__ = ["KIND", "BilinearNetwork", "from_polynomial", "is_narrow", "to_polynomial"]

KIND = "bilinear-network"


@dataclass(frozen=True, eq=False, repr=False)
class BilinearNetwork(NeuronFunction):
    r"""Two-layer network :math:`f(x) = \sum_j \alpha_j\, u_j^T \mathcal{X} v_j` with quantized weights.

    For the bilinear activation, :math:`\mathcal{X} = x x^T`, so :math:`f(x) = \sum_j \alpha_j (x^T u_j)(x^T v_j)`.
    For a polynomial activation with a linear or constant part, :math:`\mathcal{X}` is the lift of x, and the last
    entries of :math:`u_j` and :math:`v_j` are binary.

    Parameters
    ----------
    U, V : array-like of shape (m, D)
        First-layer weights with levels -M, -M + 2, ..., M (-1 and +1 for M = 1), stored as read-only int8 arrays.
        D is the number of inputs, plus one if the activation is lifted.
    alpha : array-like of shape (m,) or (m, C)
        Finite second-layer weights; (m, C) for C outputs.
    levels : int, default=2
        Number of levels, M + 1.
    activation : None, str, (a, b, c) or PolynomialActivation, default=None
        None is bilinear.

    Attributes
    ----------
    output_shape : tuple of int
        Shape of the value at one sample: () if alpha has the shape (m,), else (C,).
    output_weights : ndarray of shape (m, C)
        `alpha` with an axis of outputs, also for a scalar network; `forms` and `outputs` have that axis, too.

    Raises
    ------
    InvalidInputError
        A weight is not one of the levels, or the shapes do not match.

    Notes
    -----
    Equations (24), (57) and Theorem 1 of Bartan and Pilanci.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> network = qsdp.BilinearNetwork(U=[[1, 1], [1, -1]], V=[[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> network
    BilinearNetwork(n_neurons=2, n_inputs=2, n_bits=40, shared alpha=0.5)
    >>> network.predict([[3.0, 1.0]])
    array([6.])
    """

    U: npt.NDArray[np.int8]
    V: npt.NDArray[np.int8]
    alpha: FloatArray
    levels: int = 2
    activation: PolynomialActivation | None = None

    def __post_init__(self) -> None:
        levels = check_levels(self.levels)
        activation = get_activation(self.activation)
        U, V = (check_weights(name, getattr(self, name), levels, _is_lifted(activation)) for name in ("U", "V"))
        if U.shape != V.shape:
            raise InvalidInputError(f"V must have the shape of U, {U.shape}; got {V.shape}")
        alpha = check_alpha(self.alpha, U.shape[0])
        vars(self).update(U=U, V=V, alpha=alpha, levels=levels, activation=activation)

    @property
    def lifted(self) -> bool:
        """Whether the last entry of a neuron belongs to the linear and constant part of the activation."""
        return _is_lifted(self.activation)

    @property
    def n_inputs(self) -> int:
        """Number of inputs: the number of columns that `predict` expects."""
        return int(self.U.shape[1]) - self.lifted

    def with_weights(self, U: Any, V: Any, alpha: Any, rows: Any = slice(None)) -> BilinearNetwork:
        """Return a network with these weights and the levels and activation of this one; `rows` selects its neurons."""
        return BilinearNetwork(U, V, alpha, self.levels, self.activation)

    @property
    def n_bits(self) -> int:
        """Size in bits: ceil(log2(M + 1)) per first-layer weight (1 if binary), 32 per real number.

        A second-layer weight that the neurons of an output share counts once per output. With vector outputs, the
        number of neurons of each output counts another 32 bits. Files store real numbers in double precision.
        """
        weights = 2 * self.n_neurons * (bits_of(self.levels) * self.n_inputs + self.lifted)
        return weights + FLOAT_BITS * count_floats(self.alpha)

    @cached_property
    def forms(self) -> FloatArray:
        """Symmetric matrices of shape (C, D, D), also for a scalar network; see `quadratic_form`."""
        return read_only(form_of_neurons(self.U, self.V, self.output_weights))

    @property
    def quadratic_form(self) -> FloatArray:
        r"""Symmetric matrices S of shape (D, D) or (C, D, D) with :math:`f(x) = \langle \mathcal{X}, S \rangle`."""
        S: FloatArray = squeezed(self.forms, self.output_shape)
        return S

    def outputs(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return `predict` with the shape (n, C), also for a scalar network.

        Notes
        -----
        The outputs are computed from `quadratic_form`, which costs ``n D^2`` per output for any number of neurons.
        If neurons are so few that it costs less, they are evaluated one by one. In addition to X, the outputs, and
        the larger of `quadratic_form` and these few neurons as floats, this takes about 32 MiB per thread, for any n
        and m.
        """
        data = quadratic_map(check_matrix("X", X, n_columns=self.n_inputs), self.activation)
        jobs = count_jobs(n_jobs)
        if is_narrow(self):
            U, V = self.U.astype(np.float64), self.V.astype(np.float64)
            return data.combinations(U, V, self.output_weights, jobs)
        return np.stack([data.forward(S, jobs) for S in self.forms], axis=1)

    def to_quadratic_form(self) -> QuadraticForm:
        """Return the network as an explicit `QuadraticForm`, ``x' S x + s' x + s0``."""
        return QuadraticForm.of_lift(self.quadratic_form, self.activation)

    def to_integer_form(self) -> IntegerForm:
        r"""Return the same function as integer quadratic forms, which take fewer bits for many neurons.

        If the neurons of an output share :math:`\alpha`, the matrix of the output is :math:`|\alpha|` times an integer
        matrix: each entry sums halves of two products of weights, and the two products have the same parity.

        Raises
        ------
        InvalidInputError
            Alpha is not shared, see `shared_alpha`.
        """
        if not self.shared_alpha:
            raise InvalidInputError("alpha must be the same for all neurons of an output for an integer form")
        alpha = self.output_weights
        # The sums are exact: products of 7-bit integers, halved in pairs of equal parity.
        matrices = np.rint(form_of_neurons(self.U, self.V, np.sign(alpha))).astype(np.int64)
        scales = np.abs(alpha).max(axis=0, initial=0.0)
        return IntegerForm(read_only(matrices), read_only(scales), self.activation, self.output_shape)

    def to_polynomial(self, method: str = "auto") -> PolynomialNetwork:
        """Return the same function as a standard network with polynomial activation; see `to_polynomial`."""
        return to_polynomial(self, method=method)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to `path` as packed bits with a strict header, readable by `qsdp.load_network`."""
        write_archive(path, KIND, *self.archive())

    def archive(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the header and the arrays of the network's file as plain bits."""
        header = {
            "n_neurons": self.n_neurons,
            "n_inputs": self.n_inputs,
            "levels": self.levels,
            "activation": list(self.activation.coefficients) if self.activation else None,
        }
        arrays = {
            name: pack_levels(weights, self.levels - 1, lifted=self.lifted)
            for name, weights in (("U", self.U), ("V", self.V))
        }
        return header, {**arrays, **pack_alpha(self.alpha, arrays["U"].nbytes + arrays["V"].nbytes)}

    def __repr__(self) -> str:
        if self.shared_alpha:
            alpha = "shared alpha" + ("" if self.output_shape else f"={self.alpha[0]:.6g}")
        else:
            alpha = "free alpha"
        levels = f"levels={self.levels}, " if self.levels > 2 else ""
        activation = f"activation={self.activation.coefficients}, " if self.activation else ""
        return (
            f"BilinearNetwork(n_neurons={self.n_neurons}, n_inputs={self.n_inputs}"
            f"{outputs_text(self.output_shape)}, {levels}{activation}n_bits={self.n_bits}, {alpha})"
        )

    def _summary(self) -> Summary:
        rows = [
            ("network", format_count(self.n_neurons, self.n_inputs, self.n_outputs)),
            ("first layer", f"{self.levels} levels"),
        ]
        if self.activation is not None:
            rows.append(("activation", str(self.activation)))
        return Summary("BilinearNetwork", [*rows, ("storage", format_bits(self.n_bits))])


def is_narrow(network: BilinearNetwork) -> bool:
    """Whether evaluating the neurons takes fewer operations per sample than evaluating the quadratic forms."""
    D = int(network.U.shape[1])
    return network.n_neurons * (4 * D + 2 * network.n_outputs) < network.n_outputs * D**2


def _is_lifted(activation: PolynomialActivation | None) -> bool:
    return activation is not None and activation.lifted


def to_polynomial(network: BilinearNetwork, *, method: str = "auto") -> PolynomialNetwork:
    r"""Return exactly the same function as a polynomial network.

    Parameters
    ----------
    network : BilinearNetwork
        Network with any activation and levels, and scalar or vector outputs.
    method : {"auto", "3m", "2m"}, default="auto"
        "3m" uses :math:`\tilde u^T \mathcal{X} \tilde v = 2 \sigma(x^T(u+v)/2) - \sigma(x^T u)/2 - \sigma(x^T v)/2`
        after moving the signs of the last entries to alpha. "2m" is for activations without linear and constant
        part. It uses :math:`(x^T u)(x^T v) = (x^T w)^2 - (x^T w_-)^2` with :math:`w = (u+v)/2` and
        :math:`w_- = (u-v)/2`, so its coefficients have equal magnitudes. "auto" is "2m" if possible.

    Returns
    -------
    PolynomialNetwork
        Equal neurons are merged (also opposite ones if the activation is even), neurons that cancel are dropped, and
        constant neurons become part of the bias. Weights are integers of both parities up to M in magnitude.

    Notes
    -----
    Section 2.4 and Appendix C of Bartan and Pilanci, with the factors 2, -1/2, -1/2 that the appendix omits. The
    weights have 2 M + 1 values. With the M + 1 levels of U and V there may be no such network, contrary to Theorem 1:
    :math:`x_1^2 - x_2^2` is one binary bilinear neuron, but binary networks with :math:`\sigma(t) = t^2` have matrices
    of constant diagonal.

    Examples
    --------
    >>> import qsdp
    >>> qsdp.to_polynomial(qsdp.BilinearNetwork([[1, 1]], [[1, -1]], [1.0])).Q
    array([[0, 1],
           [1, 0]], dtype=int8)
    """
    check_choice("method", method, ["auto", "3m", "2m"])
    if not isinstance(network, BilinearNetwork):
        raise InvalidTypeError(f"network must be a BilinearNetwork; got {type(network).__name__}")
    activation = network.activation or QUADRATIC
    U, V = network.U, network.V
    alpha = network.output_weights
    if network.lifted:
        if method == "2m":
            raise InvalidInputError("method must be '3m' for an activation with linear or constant part; got '2m'")
        signs_u, signs_v = U[:, -1:], V[:, -1:]
        U, V = U[:, :-1] * signs_u, V[:, :-1] * signs_v
        alpha = alpha * (signs_u * signs_v)
    if method == "3m" or network.lifted:
        Q = np.concatenate([_half_sum(U, V), U, V])
        full = np.concatenate([2.0 * alpha, -0.5 * alpha, -0.5 * alpha])
    else:
        Q = np.concatenate([_half_sum(U, V), (U >> 1) - (V >> 1)])
        full = np.concatenate([alpha, -alpha])
    return merged_network(Q, full, activation, network.output_shape)


def _half_sum(U: npt.NDArray[np.int8], V: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Compute (U + V) / 2 for weights of equal parity, without overflow of int8."""
    halves: npt.NDArray[np.int8] = (U >> 1) + (V >> 1) + (U & V & 1)
    return halves


def from_polynomial(network: PolynomialNetwork) -> BilinearNetwork:
    r"""Return exactly the same function as a bilinear network with :math:`v_j = u_j`.

    Weights of one parity keep their values and have M + 1 levels. Weights of both parities are doubled: they have
    2 M + 1 levels, and the activation becomes :math:`(a/4, b/2, c)`. A bias needs c != 0 and becomes three neurons, one
    of which has opposite last entries in :math:`u_j` and :math:`v_j`.

    Raises
    ------
    InvalidInputError
        The network has a bias but its activation has no constant part, or the doubled weights exceed 127.

    Notes
    -----
    Theorem 1 of Bartan and Pilanci. Bilinear networks can do more: the optimum of their problem (24) is at most that of
    polynomial networks, (12), and usually smaller.
    """
    if not isinstance(network, PolynomialNetwork):
        raise InvalidTypeError(f"network must be a PolynomialNetwork; got {type(network).__name__}")
    a, b, c = network.activation.coefficients
    M, Q = network.largest_weight, network.Q.astype(np.int16)
    activation = network.activation
    if not network.one_parity:
        M, Q, activation = 2 * M, 2 * Q, PolynomialActivation(a / 4.0, b / 2.0, c)
        if M > LARGEST_WEIGHT:
            raise InvalidInputError(f"weights of both parities must be at most 63 in magnitude; got {M // 2}")
    U, V, alpha = Q, Q, network.output_weights
    if activation.lifted:
        ones = np.ones((len(Q), 1), dtype=np.int16)
        U = V = np.hstack([Q, ones])
    if np.any(network.bias):
        if c == 0.0:
            raise InvalidInputError("bias must be 0 where the activation has no constant part c")
        # sigma(t) + sigma(-t) minus twice the neuron with opposite last entries equals 4 c.
        q = np.full(network.n_inputs, M, dtype=np.int16)
        U = np.vstack([U, np.append(q, 1), np.append(-q, 1), np.append(q, 1)])
        V = np.vstack([V, np.append(q, 1), np.append(-q, 1), np.append(q, -1)])
        shares = np.array([1.0, 1.0, -2.0]) / (4.0 * c)
        alpha = np.concatenate([alpha, shares[:, None] * network.bias])
    alpha = squeezed(alpha, network.output_shape, axis=1)
    return BilinearNetwork(U.astype(np.int8), V.astype(np.int8), alpha, M + 1, activation)
