"""Integer forms: quadratic functions of columns or blocks with integer matrices and one scale for each output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from qsdp._utils.outputs import outputs_text
from qsdp._utils.summary import Rows, Summary, first_few, format_bits
from qsdp._utils.validation import FloatArray, IntArray, read_only
from qsdp.activations import PolynomialActivation
from qsdp.block_layout import Layout, single_block
from qsdp.networks.quadratic_form import BlockFunction, packed
from qsdp.networks.weights import FLOAT_BITS, weight_bits

__all__ = ["IntegerForm"]


@dataclass(frozen=True, eq=False, repr=False)
class IntegerForm(BlockFunction):
    r"""Function :math:`f_k(x) = s_k \sum_r \langle \mathcal{X}_r, T_{kr} \rangle` with symmetric integer matrices.

    `BilinearNetwork.to_integer_form` returns such a form. If the neurons of output k have second-layer weights
    :math:`q_j s_k` with integers :math:`q_j`, then :math:`T_{kr} = \sum_j q_j (u_j v_j^T + v_j u_j^T) / 2`, summed over
    the neurons of block r. The size of the form does not depend on the number of neurons. Real weights of columns are
    integers with another scale for each output.

    Attributes
    ----------
    matrices : sequence of ndarray
        The matrices T of each block of neurons as int64 arrays of shape (C, N, N), and vectors (C, N) of linear blocks.
        Columns are one block.
    scales : ndarray of shape (C,)
        The scales :math:`s_k`.
    blocks : Layout or None
        Sides and kinds of the blocks; None for a form in columns.
    activation : PolynomialActivation or None
        None is bilinear.
    output_shape : tuple of int
        Shape of the value at one sample: () or (C,).
    weights : ndarray of shape (p, C), optional
        Integers of the columns of all blocks of real weights; None if there are none.
    weight_scales : ndarray of shape (C,), optional
        Their scales.

    Examples
    --------
    >>> import qsdp
    >>> network = qsdp.BilinearNetwork(U=[[1, 1], [1, -1]], V=[[1, -1], [1, -1]], alpha=[0.5, 0.5])
    >>> form = network.to_integer_form()
    >>> form.matrices[0], form.scales, form.n_bits
    (array([[[ 2, -1],
            [-1,  0]]]), array([0.5]), 41)
    >>> form.predict([[3.0, 1.0]])
    array([6.])
    """

    matrices: Sequence[IntArray]
    scales: FloatArray
    blocks: Layout | None = None
    activation: PolynomialActivation | None = None
    output_shape: tuple[int, ...] = ()
    weights: IntArray | None = None
    weight_scales: FloatArray | None = None

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        """Sides and kinds of the blocks; columns are one quadratic block."""
        return single_block(self.matrices[0].shape[1]) if self.blocks is None else self.blocks

    @cached_property
    def integers(self) -> IntArray:
        """All integers, of shape (C, P): upper triangles of matrices, every entry once, vectors, and real weights."""
        return read_only(packed(self._listed(self.matrices, self._weights)))

    @cached_property
    def block_forms(self) -> tuple[FloatArray, ...]:
        """Symmetric matrices of shape (C, N, N) of each block, and vectors (C, N) of linear ones or real weights."""
        weights = self._weights if self.weight_scales is None else self.weight_scales * self._weights
        return self._listed([(self.scales * part.T).T for part in self.matrices], weights)

    @property
    def _weights(self) -> IntArray:
        return np.zeros((0, self.n_outputs), dtype=np.int64) if self.weights is None else self.weights

    def _listed(self, matrices: Sequence[Any], weights: Any) -> tuple[Any, ...]:
        return self.layout.listed(matrices, self.layout.split(weights.T))

    @property
    def bits(self) -> tuple[int, ...]:
        """Number of bits of each integer of a matrix of an output, set by the one of largest magnitude."""
        integers = self.integers[:, self.layout.matrix_entries]
        return tuple((2 * int(np.abs(each).max(initial=0))).bit_length() for each in integers)

    @property
    def n_bits(self) -> int:
        """Size in bits: for each output, `bits` for every integer of a matrix, and a real number.

        Real weights take their bits besides, see `BilinearNetwork.n_bits`.
        """
        entries = self.layout.n_entries - self.layout.n_weights
        matrices = sum(self.bits) * entries + FLOAT_BITS * self.n_outputs
        factored = None if self.weight_scales is None else (self._weights, self.weight_scales)
        return matrices + weight_bits(self._weights.astype(np.float64), factored)

    def __repr__(self) -> str:
        what = f"n_inputs={self.n_inputs}" if self.blocks is None else f"n_blocks={len(self.layout.kinds)}"
        return f"IntegerForm({what}{outputs_text(self.output_shape)}, n_bits={self.n_bits})"

    def _summary(self) -> Summary:
        rows: Rows = [("inputs", str(self.n_inputs))]
        if self.blocks is not None:
            sides = first_few([str(size) for size in self.layout.all_sizes])
            rows = [("blocks", f"{len(self.layout.kinds)} of sides {sides}")]
        rows += [
            ("outputs", str(self.n_outputs)),
            ("bits of an entry", first_few([str(bits) for bits in self.bits])),
            ("storage", format_bits(self.n_bits)),
        ]
        return Summary("IntegerForm", rows)
