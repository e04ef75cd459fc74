"""Integer forms on blocks: functions that are linear in packed entries, with integer coefficients."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from qsdp._utils.outputs import outputs_text
from qsdp._utils.parallel import chunks
from qsdp._utils.summary import Summary, first_few, format_bits
from qsdp._utils.validation import FloatArray, IntArray, read_only
from qsdp.blocks import Layout, check_blocks
from qsdp.exceptions import InvalidInputError
from qsdp.networks.quadratic_form import QuadraticFunction
from qsdp.networks.weights import FLOAT_BITS

__all__ = ["BlockForm", "BlockFunction"]


class BlockFunction(QuadraticFunction):
    """Function of samples in blocks that is linear in their packed entries."""

    #: Sides and kinds of the blocks.
    layout: Layout

    @cached_property
    @abstractmethod
    def entries(self) -> FloatArray:
        """Vectors of shape (C, P) whose inner products with packed entries are the outputs."""

    @property
    def n_inputs(self) -> int:
        """Number of packed entries of a sample."""
        return self.layout.n_entries

    def outputs(self, X: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Return `predict` with the shape (n, C), also for a scalar function."""
        rows = check_blocks(X, self.layout).rows
        values = np.empty((len(rows), self.n_outputs))
        for some in chunks(*rows.shape):
            values[some] = rows[some] @ self.entries.T
        return values

    def to_quadratic_form(self) -> NoReturn:
        """Raise `InvalidInputError`: the function is not one of columns."""
        raise InvalidInputError(f"a {type(self).__name__} has no quadratic form in columns of data")


@dataclass(frozen=True, eq=False, repr=False)
class BlockForm(BlockFunction):
    r"""Function :math:`f_c(x) = s_c \sum_r \langle \mathcal{X}_r, T_{cr} \rangle` with symmetric integer matrices.

    `BlockNetwork.to_integer_form` returns it. For neurons with weights :math:`q_j s_c` and integers q,
    :math:`T_{cr} = \sum_j q_j (u_j v_j^T + v_j u_j^T) / 2`. For many neurons, this form takes fewer bits.

    Attributes
    ----------
    layout : Layout
        Sides and kinds of the blocks.
    integers : ndarray of shape (C, P)
        Upper triangles of the matrices, each entry once, int64; the vectors themselves for linear blocks.
    scales : ndarray of shape (C,)
        The scales :math:`s_c`, of single precision.
    output_shape : tuple of int
        () or (C,).
    """

    layout: Layout
    integers: IntArray
    scales: FloatArray
    output_shape: tuple[int, ...] = field(default=())

    @cached_property
    def entries(self) -> FloatArray:
        """Vectors of shape (C, P) whose inner products with packed entries are the outputs."""
        return read_only(self.scales[:, None] * (self.integers * self.layout.counts))

    @property
    def n_bits(self) -> int:
        """Size in bits: for each output, the bits of its widest integer for every entry, and a real number."""
        bits = [(2 * int(np.abs(one).max())).bit_length() for one in self.integers]
        return sum(bits) * self.layout.n_entries + FLOAT_BITS * len(bits)

    def __repr__(self) -> str:
        return f"BlockForm(n_blocks={self.layout.n_blocks}{outputs_text(self.output_shape)}, n_bits={self.n_bits})"

    def _summary(self) -> Summary:
        rows = [
            ("blocks", f"{self.layout.n_blocks} of sides {first_few([str(size) for size in self.layout.sizes])}"),
            ("outputs", str(self.n_outputs)),
            ("storage", format_bits(self.n_bits)),
        ]
        return Summary("BlockForm", rows)
