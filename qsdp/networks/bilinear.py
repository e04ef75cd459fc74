"""Bilinear networks of quantized neurons on columns or blocks, and exact conversions of polynomial networks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.atomic_files import write_whole
from qsdp._utils.outputs import outputs_text, squeezed
from qsdp._utils.parallel import count_jobs
from qsdp._utils.summary import Summary, first_few, format_bits, format_count
from qsdp._utils.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_matrix,
    read_only,
)
from qsdp.activations import PolynomialActivation, get_activation
from qsdp.block_layout import Layout, check_layout, single_block
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.networks.archive import pack_archive
from qsdp.networks.compact import integer_weights, pack_neurons, second_layer_bits
from qsdp.networks.integer_form import IntegerForm
from qsdp.networks.polynomial import QUADRATIC, PolynomialNetwork, merged_network
from qsdp.networks.quadratic_form import BlockFunction, NeuronFunction, form_of_neurons
from qsdp.networks.storage import Arrays, write_archive
from qsdp.networks.weights import (
    LARGEST_WEIGHT,
    bits_of,
    check_alpha,
    check_column_weights,
    check_signs,
    check_weights,
    signed_entries,
    weight_bits,
)
from qsdp.training_data import check_binary, check_levels, quadratic_map

__all__ = ["KIND", "BilinearNetwork", "from_polynomial", "is_narrow"]

KIND = "bilinear-network"


@dataclass(frozen=True, eq=False, repr=False)
class BilinearNetwork(BlockFunction, NeuronFunction):
    r"""Two-layer network :math:`f(x) = \sum_j \alpha_j\, u_j^T \mathcal{X}_{r_j} v_j` with quantized weights.

    On columns x, :math:`\mathcal{X} = x x^T` for the bilinear activation, so
    :math:`f(x) = \sum_j \alpha_j (x^T u_j)(x^T v_j)`. For a polynomial activation with a linear or constant part,
    :math:`\mathcal{X}` is the lift of x, and the last entries of :math:`u_j` and :math:`v_j` are binary. On `Blocks`,
    every neuron is in one block :math:`r_j`, and in a linear block it is :math:`\alpha_j\, x_{r_j}^T u_j`. Blocks of
    the kind "weights" add :math:`\sum_k w_k x_k` over their columns.

    Parameters
    ----------
    U, V : array-like of shape (m, D)
        First-layer weights with levels -M, -M + 2, ..., M (-1 and +1 for M = 1), stored as read-only int8 arrays.
        D is the number of inputs, plus one if the activation is lifted. On blocks, D is the side of the largest block,
        weights beyond the side of a neuron's block are 0, and so is V in linear blocks.
    alpha : array-like of shape (m,) or (m, C)
        Finite second-layer weights; (m, C) for C outputs.
    block : array-like of shape (m,), optional
        Block of each neuron, 0 .. R - 1; blocks of the kind "weights", which have no neurons, are not counted.
    sizes : sequence of int, optional
        Sides of the blocks; None for a network on columns.
    kinds : sequence of {"quadratic", "linear", "weights"}, optional
        None makes every block quadratic.
    levels : int, default=2
        Number of levels, M + 1; 2 on blocks.
    activation : None, str, (a, b, c) or PolynomialActivation, default=None
        None is bilinear, the only one on blocks.
    weights : array-like of shape (p,) or (p, C), optional
        Finite real weights :math:`w_k` of the p columns of all blocks of the kind "weights", with the outputs of
        `alpha`; None makes them zero. A network with such blocks may have no neurons, m = 0.

    Attributes
    ----------
    layout : Layout
        Sides and kinds of the blocks, with penalties of weight one; columns are one quadratic block.
    output_shape : tuple of int
        Shape of the value at one sample: () if alpha has the shape (m,), else (C,).
    output_weights : ndarray of shape (m, C)
        `alpha` with an axis of outputs, also for a scalar network; `forms` and `outputs` have that axis, too.
    column_weights : ndarray of shape (p, C)
        `weights` with an axis of outputs.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        An argument is not allowed; the message names it, its value and what is allowed.

    Notes
    -----
    Equations (24), (57) and Theorem 1 of Bartan and Pilanci.

    Examples
    --------
    >>> import qsdp
    >>> network = qsdp.BilinearNetwork(U=[[1, 1], [1, -1]], V=[[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> network
    BilinearNetwork(n_neurons=2, n_inputs=2, n_bits=40, shared alpha=0.5)
    >>> network.predict([[3.0, 1.0]])
    array([6.])
    >>> network = qsdp.BilinearNetwork([[1, 1], [1, -1]], [[1, 1], [1, 1]], [0.5, 1.0], block=[0, 1], sizes=[2, 2])
    >>> network.predict(qsdp.Blocks([[1.0, 0.0, 1.0, 2.0, 0.0, 1.0]], sizes=[2, 2]))
    array([2.])
    """

    U: npt.NDArray[np.int8]
    V: npt.NDArray[np.int8]
    alpha: FloatArray
    block: npt.NDArray[np.intp] = None  # type: ignore[assignment]
    sizes: Sequence[int] | None = None
    kinds: Sequence[str] | None = None
    levels: int = 2
    activation: PolynomialActivation | None = None
    weights: FloatArray = None  # type: ignore[assignment]
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        levels, activation, sizes, kinds = check_levels(self.levels), get_activation(self.activation), None, None
        if self.sizes is None:
            U, V = (check_weights(name, getattr(self, name), levels, _is_lifted(activation)) for name in ("U", "V"))
            if U.shape != V.shape:
                raise InvalidInputError(f"V must have the shape of U, {U.shape}; got {V.shape}")
            if self.kinds is not None or (self.block is not None and np.any(self.block)):
                raise InvalidInputError("block and kinds are for networks on blocks, which need sizes; got sizes=None")
            if self.block is not None and np.shape(self.block) != (len(U),):
                raise InvalidInputError(
                    f"block must have {len(U)} zeros, one for each neuron, or be None on columns; got shape "
                    f"{np.shape(self.block)}"
                )
            # Takes no memory for each neuron, and a byte in a pickle.
            block: Any = np.broadcast_to(np.int8(0), len(U))
            layout = single_block(U.shape[1])
        else:
            layout = check_layout(self.sizes, self.kinds)
            check_binary(layout, levels, activation)
            sizes, kinds = layout.all_sizes, layout.kinds
            U, V, block = check_signs(self.U, self.V, self.block, layout)
        alpha = check_alpha(self.alpha, len(U))
        weights = check_column_weights(self.weights, layout, alpha)
        vars(self).update(U=U, V=V, alpha=alpha, block=block, sizes=sizes, kinds=kinds, weights=weights)
        vars(self).update(levels=levels, activation=activation, layout=layout)

    @classmethod
    def on_blocks(
        cls,
        layout: Layout,
        U: npt.NDArray[Any],
        V: npt.NDArray[Any],
        alpha: Any,
        block: npt.NDArray[Any],
        weights: Any = None,
    ) -> BilinearNetwork:
        """Build a network from signs, replacing entries outside the blocks and in V of linear blocks by zeros."""
        inside, quadratic = signed_entries(layout, block)
        U, V = np.where(inside, U, 0), np.where(quadratic, V, 0)
        return cls(U, V, alpha, block, layout.all_sizes, layout.kinds, weights=weights)

    def with_neurons(self, U: Any, V: Any, alpha: Any, rows: Any = slice(None), weights: Any = None) -> BilinearNetwork:
        """Return a network with other neurons, in the blocks of the neurons `rows` of this one.

        Real weights stay, unless others are passed.
        """
        return BilinearNetwork(
            U,
            V,
            alpha,
            self.block[rows],
            self.sizes,
            self.kinds,
            levels=self.levels,
            activation=self.activation,
            weights=self.weights if weights is None and len(self.weights) else weights,
        )

    # -- the function ----------------------------------------------------------------------------------

    @property
    def blocks(self) -> Layout | None:
        """Sides and kinds of the blocks of a sample; None for a network on columns."""
        return None if self.sizes is None else self.layout

    @cached_property
    def block_forms(self) -> tuple[FloatArray, ...]:
        """Symmetric matrices (C, N, N) of each block, and vectors (C, N) of linear ones and of real weights."""
        parts = self.layout.listed(list(self._summed(self.output_weights)), self.layout.split(self.column_weights.T))
        return tuple(read_only(part) for part in parts)

    @property
    def column_weights(self) -> FloatArray:
        """Real weights of shape (p, C), also for a scalar network."""
        return self.weights.reshape(len(self.weights), self.n_outputs)

    def _summed(self, weights: npt.NDArray[Any]) -> Iterator[FloatArray]:
        """Sum the neurons of each block with weights (m, C)."""
        for r, (size, flat) in enumerate(zip(self.layout.sizes, self.layout.linear, strict=True)):
            # Without a copy for columns.
            rows = slice(None) if self.layout.n_blocks == 1 else np.flatnonzero(self.block == r)
            U, V = self.U[rows, :size], self.V[rows, :size]
            yield weights[rows].T @ U.astype(np.float64) if flat else form_of_neurons(U, V, weights[rows])

    @property
    def forms(self) -> FloatArray:
        """Symmetric matrices of shape (C, D, D) of a network on columns; see `quadratic_form`."""
        return self._of_columns()

    @property
    def quadratic_form(self) -> FloatArray:
        r"""Symmetric matrices S of shape (D, D) or (C, D, D) with :math:`f(x) = \langle \mathcal{X}, S \rangle`."""
        S: FloatArray = squeezed(self._of_columns(), self.output_shape)
        return S

    def outputs(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return `predict` with the shape (n, C), also for a scalar network.

        Notes
        -----
        The outputs are computed from `block_forms`, which costs ``n D^2`` per output for any number of neurons. If
        neurons on columns are so few that it costs less, they are evaluated one by one. In addition to X, the outputs,
        and the larger of `block_forms` and these few neurons as floats, this takes about 32 MiB per thread, for any n
        and m.
        """
        if self.blocks is not None:
            return super().outputs(X)
        data = quadratic_map(check_matrix("X", X, n_columns=self.n_inputs), self.activation)
        jobs = count_jobs(n_jobs)
        if is_narrow(self):
            U, V = self.U.astype(np.float64), self.V.astype(np.float64)
            return data.combinations(U, V, self.output_weights, jobs)
        return np.stack([data.forward(S, jobs) for S in self.forms], axis=1)

    def to_integer_form(self) -> IntegerForm:
        r"""Return the same function as integer quadratic forms, which take fewer bits for many neurons.

        If the neurons of an output share :math:`\alpha`, the matrix of the output is :math:`|\alpha|` times an integer
        matrix: each entry sums halves of two products of weights, and the two products have the same parity. The same
        holds if second-layer weights are integers times a scale of the output. Real weights must be integers times
        another scale of the output.

        Raises
        ------
        InvalidInputError
            Second-layer weights are neither shared, see `shared_alpha`, nor integers times a scale, see the argument
            `alpha_bits` of `qsdp.refit`; or real weights are not integers times a scale.
        """
        alpha = self.output_weights
        shared = (np.sign(alpha), np.abs(alpha).max(axis=0, initial=0.0)) if self.shared_alpha else None
        factored, real = shared or integer_weights(alpha), self._integer_weights
        if factored is None or real is None:
            raise InvalidInputError(
                "alpha must be the same for all neurons of an output, or integers up to 2^15 times one scale of single "
                "precision, and weights such integers, for an integer form: use qsdp.refit(..., alpha_bits=8)"
            )
        integers, scales = factored
        # The sums are exact: products of 7-bit integers, halved in pairs of equal parity.
        matrices = [np.rint(part).astype(np.int64) for part in self._summed(integers)]
        return IntegerForm(
            matrices,
            read_only(scales),
            self.blocks,
            self.activation,
            self.output_shape,
            read_only(real[0]),
            read_only(real[1]),
        )

    @cached_property
    def _integer_weights(self) -> tuple[IntArray, FloatArray] | None:
        """Real weights as integers (p, C) times scales (C,), if there are such."""
        return integer_weights(self.column_weights)

    def to_polynomial(self, method: str = "auto") -> PolynomialNetwork:
        r"""Return exactly the same function as a standard network with polynomial activation.

        Parameters
        ----------
        method : {"auto", "3m", "2m"}, default="auto"
            "3m" uses :math:`\tilde u^T \mathcal{X} \tilde v = 2 \sigma(x^T(u+v)/2) - \sigma(x^T u)/2 -
            \sigma(x^T v)/2` after moving the signs of the last entries to alpha. "2m" is for activations without linear
            and constant part. It uses :math:`(x^T u)(x^T v) = (x^T w)^2 - (x^T w_-)^2` with :math:`w = (u+v)/2` and
            :math:`w_- = (u-v)/2`, so its coefficients have equal magnitudes. "auto" is "2m" if possible.

        Returns
        -------
        PolynomialNetwork
            Equal neurons are merged (also opposite ones if the activation is even), neurons that cancel are dropped,
            and constant neurons become part of the bias. Weights are integers of both parities up to M in magnitude.

        Notes
        -----
        Section 2.4 and Appendix C of Bartan and Pilanci, with the factors 2, -1/2, -1/2 that the appendix omits. The
        weights have 2 M + 1 values. With the M + 1 levels of U and V there may be no such network, contrary to
        Theorem 1: :math:`x_1^2 - x_2^2` is one binary bilinear neuron, but binary networks with
        :math:`\sigma(t) = t^2` have matrices of constant diagonal.

        Examples
        --------
        >>> import qsdp
        >>> qsdp.BilinearNetwork([[1, 1]], [[1, -1]], [1.0]).to_polynomial().Q
        array([[0, 1],
               [1, 0]], dtype=int8)
        """
        check_choice("method", method, ["auto", "3m", "2m"])
        if self.blocks is not None:
            raise InvalidInputError(
                "a network on blocks has no polynomial network: its inputs are matrices, not columns"
            )
        activation, U, V, alpha = self.activation or QUADRATIC, self.U, self.V, self.output_weights
        if self.lifted:
            if method == "2m":
                raise InvalidInputError("method must be '3m' for an activation with linear or constant part; got '2m'")
            signs_u, signs_v = U[:, -1:], V[:, -1:]
            U, V = U[:, :-1] * signs_u, V[:, :-1] * signs_v
            alpha = alpha * (signs_u * signs_v)
        if method == "3m" or self.lifted:
            Q = np.concatenate([_half_sum(U, V), U, V])
            full = np.concatenate([2.0 * alpha, -0.5 * alpha, -0.5 * alpha])
        else:
            Q = np.concatenate([_half_sum(U, V), (U >> 1) - (V >> 1)])
            full = np.concatenate([alpha, -alpha])
        return merged_network(Q, full, activation, self.output_shape)

    # -- storage ---------------------------------------------------------------------------------------

    @property
    def n_bits(self) -> int:
        """Size in bits: ceil(log2(M + 1)) per first-layer weight (1 if binary), 32 per real number.

        A second-layer weight that the neurons of an output share counts once per output, and weights that are integers
        of b bits, sign included, times a scale for each output count b bits each and 32 for the scale. With vector
        outputs, the number of neurons of each output counts another 32 bits. On blocks, the block of each neuron
        counts, and if every neuron serves one output, the index of that output in place of zeros. Files store real
        numbers in double precision.

        Real weights of columns take 32 bits each, or b bits if they are integers of b bits, sign included, times a
        scale for each output, which takes 32 bits. If it is less, weights of zero take one bit, and the others that bit
        and their own.
        """
        layout, m = self.layout, self.n_neurons
        signs = int((np.array(layout.sizes) * np.where(layout.linear, 1, 2))[self.block].sum())
        last = 2 * m * self.lifted
        numbers = bits_of(layout.n_blocks) + (bits_of(self.n_outputs) if self._single else 0)
        neurons = bits_of(self.levels) * (signs - last) + last + m * numbers
        neurons += second_layer_bits(self.alpha, single=self._single)
        return neurons + weight_bits(self.column_weights, self._integer_weights)

    @cached_property
    def _single(self) -> bool:
        """Whether a file holds the only second-layer weight of each neuron and its output, on blocks alone."""
        single = bool(np.all((self.output_weights != 0.0).sum(axis=1) <= 1))
        return self.blocks is not None and single and not self.shared_alpha

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to `path`, readable by `qsdp.load_network`.

        Neurons are written unchanged as packed bits, and real numbers in double precision, with a strict header and a
        digest. On blocks, if second-layer weights are integers times a scale of each output (see `alpha_bits` of
        `qsdp.refit`), the file takes few bytes, without the order of neurons and signs that do not change the function;
        neurons that serve several outputs are loaded once for each.
        """
        contents = None if self.blocks is None else pack_neurons(self)
        if contents is None:
            write_archive(path, KIND, *self.archive())
        else:
            write_whole(path, contents)

    def archive(self) -> tuple[dict[str, Any], Arrays]:
        """Return the header and the arrays of the network's file as plain bits."""
        return pack_archive(self)

    # -- texts -----------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        if self.blocks is not None:
            return (
                f"BilinearNetwork(n_neurons={self.n_neurons}, n_blocks={len(self.layout.kinds)}"
                f"{self._weights_text(', n_weights=')}{outputs_text(self.output_shape)}, n_bits={self.n_bits})"
            )
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

    def _weights_text(self, label: str) -> str:
        """Return how many real weights are not zero, after a label; nothing if there are none."""
        return f"{label}{np.count_nonzero(self.weights)}" if self.layout.n_weights else ""

    def _summary(self) -> Summary:
        rows = [("network", format_count(self.n_neurons, self.n_inputs, self.n_outputs))]
        if self.blocks is None:
            rows.append(("first layer", f"{self.levels} levels"))
        else:
            sides = first_few([str(size) for size in self.layout.all_sizes])
            rows.append(("blocks", f"{len(self.layout.kinds)} of sides {sides}"))
            if self.layout.n_weights:
                rows.append(("real weights", f"{self._weights_text('')} of {self.weights.size} are not zero"))
        if self.activation is not None:
            rows.append(("activation", str(self.activation)))
        return Summary("BilinearNetwork", [*rows, ("storage", format_bits(self.n_bits))])


def _is_lifted(activation: PolynomialActivation | None) -> bool:
    return activation is not None and activation.lifted


def is_narrow(network: BilinearNetwork) -> bool:
    """Whether evaluating the neurons takes fewer operations per sample than evaluating the quadratic forms."""
    D = int(network.U.shape[1])
    return network.n_neurons * (4 * D + 2 * network.n_outputs) < network.n_outputs * D**2


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
    if not network.equal_parity:
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
        extra = np.array([1.0, 1.0, -2.0]) / (4.0 * c)
        alpha = np.concatenate([alpha, extra[:, None] * network.bias])
    alpha = squeezed(alpha, network.output_shape, axis=1)
    return BilinearNetwork(U.astype(np.int8), V.astype(np.int8), alpha, levels=M + 1, activation=activation)
