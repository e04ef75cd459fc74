"""Networks of binary neurons on data in blocks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from qsdp._utils.atomic_files import write_whole
from qsdp._utils.outputs import outputs_text
from qsdp._utils.parallel import chunks
from qsdp._utils.stored import Checks, checked, is_count, is_list, is_text
from qsdp._utils.summary import Summary, first_few, format_bits, format_count
from qsdp._utils.validation import FloatArray, check_matrix, check_numbers, own, read_only
from qsdp.blocks import Layout, check_layout
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.block_form import BlockForm, BlockFunction
from qsdp.networks.coding import BitReader
from qsdp.networks.compact import integer_weights, pack_neurons, read_compact, weights_memory
from qsdp.networks.quadratic_form import NeuronFunction
from qsdp.networks.storage import Arrays, bits_of_integers, check_memory, fits_memory, write_archive
from qsdp.networks.weights import (
    FLOAT_BITS,
    bits_of,
    check_alpha,
    count_floats,
    pack_alpha,
    unpack_alpha,
)

__all__ = ["KIND", "BlockNetwork", "blocks_from_archive", "blocks_of_contents"]

KIND = "block-network"

_HEADER: Checks = {
    "n_neurons": is_count,
    "sizes": lambda value: is_list(value) and all(map(is_count, value)),
    "kinds": lambda value: is_list(value) and all(map(is_text, value)),
    "n_outputs": lambda value: value is None or is_count(value),
    "second_layer": lambda value: value in {"shared", "single", "free"},
}


@dataclass(frozen=True, eq=False, repr=False)
class BlockNetwork(BlockFunction, NeuronFunction):
    r"""Network :math:`f(x) = \sum_j \alpha_j\, u_j^T \mathcal{X}_{r_j}(x)\, v_j` of binary neurons, each in one block.

    In a linear block, a neuron is :math:`\alpha_j\, x_{r_j}^T u_j`.

    Parameters
    ----------
    U, V : array-like of shape (m, N)
        Weights -1 and +1 in the first :math:`N_r` entries of the block's neurons and 0 beyond, N the side of the
        largest block; V is 0 in linear blocks. Stored as read-only int8 arrays.
    alpha : array-like of shape (m,) or (m, C)
        Finite second-layer weights.
    block : array-like of shape (m,)
        Block of each neuron, 0 .. R - 1.
    sizes : sequence of int
        Sides :math:`N_r` of the blocks.
    kinds : sequence of {"quadratic", "linear"}, optional
        None makes every block quadratic.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        An argument is not allowed; the message names it, its value and what is allowed.

    Examples
    --------
    >>> import qsdp
    >>> network = qsdp.BlockNetwork([[1, 1], [1, -1]], [[1, 1], [1, 1]], [0.5, 1.0], block=[0, 1], sizes=[2, 2])
    >>> network.predict(qsdp.Blocks([[1.0, 0.0, 1.0, 2.0, 0.0, 1.0]], sizes=[2, 2]))
    array([2.])
    """

    U: npt.NDArray[np.int8]
    V: npt.NDArray[np.int8]
    alpha: FloatArray
    block: npt.NDArray[np.intp]
    sizes: Sequence[int]
    kinds: Sequence[str] | None = None
    #: Sides and kinds of the blocks, with penalties of weight one.
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        layout = check_layout(self.sizes, self.kinds)
        U, V = (check_matrix(name, getattr(self, name), kept=["i1"]) for name in ("U", "V"))
        if U.shape[1] != layout.side or V.shape != U.shape:
            raise InvalidInputError(f"U and V must have shapes (m, {layout.side}); got {U.shape} and {V.shape}")
        block = _checked_numbers(self.block, len(U), layout.n_blocks)
        for name, weights, inside in zip(("U", "V"), (U, V), _signed(layout, block), strict=True):
            if not np.array_equal(np.abs(weights), inside):
                raise InvalidInputError(
                    f"{name} must have entries -1 and +1 inside the sides of the neurons' blocks"
                    f"{', 0 in linear blocks' * (name == 'V')}, and 0 beyond"
                )
        alpha = check_alpha(self.alpha, len(U))
        vars(self).update(
            U=own(U.astype(np.int8)), V=own(V.astype(np.int8)), alpha=alpha, block=read_only(block),
            sizes=layout.sizes, kinds=layout.kinds, layout=layout,
        )  # fmt: skip

    @classmethod
    def of(
        cls, layout: Layout, U: npt.NDArray[Any], V: npt.NDArray[Any], alpha: FloatArray, block: npt.NDArray[Any]
    ) -> BlockNetwork:
        """Build a network from signs, replacing entries outside the blocks and in V of linear blocks by zeros."""
        inside, quadratic = _signed(layout, block)
        return cls(np.where(inside, U, 0), np.where(quadratic, V, 0), alpha, block, layout.sizes, layout.kinds)

    @property
    def signed(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Masks of the entries of U and V that are signs."""
        return _signed(self.layout, self.block)

    @cached_property
    def _second_layer(self) -> str:
        """Storage format of alpha: one weight per output, one per neuron with an output index, or the full matrix."""
        if self.shared_alpha:
            return "shared"
        return "free" if np.any((self.output_weights != 0.0).sum(axis=1) > 1) else "single"

    def with_weights(self, U: Any, V: Any, alpha: Any, rows: Any = slice(None)) -> BlockNetwork:
        """Return a network with these weights, whose neurons are in the blocks of the neurons `rows` of this one."""
        return BlockNetwork(U, V, alpha, self.block[rows], self.sizes, self.kinds)

    @property
    def n_bits(self) -> int:
        """Size in bits: one per sign, the block index of each neuron, and 32 per second-layer weight.

        A weight shared by the neurons of an output is stored once, with their number. If every neuron serves one
        output, the index of that output is stored instead of zeros.
        """
        sides = np.array(self.layout.sizes) * np.where(self.layout.linear, 1, 2)
        single = self._second_layer == "single"
        numbers = bits_of(self.layout.n_blocks) + (bits_of(self.n_outputs) if single else 0)
        floats = self.n_neurons if single else count_floats(self.alpha)
        return int(sides[self.block].sum()) + self.n_neurons * numbers + FLOAT_BITS * floats

    @cached_property
    def entries(self) -> FloatArray:
        """Vectors of shape (C, P) whose inner products with packed entries are the outputs."""
        return read_only(self._summed(self.output_weights))

    def _summed(self, weights: npt.NDArray[Any]) -> FloatArray:
        """Sum the vectors of the neurons, with weights (m, C), a few neurons at a time; return shape (C, P)."""
        total = np.zeros((self.n_outputs, self.n_inputs))
        for some in chunks(self.n_neurons, self.n_inputs):
            U, V = (side[some].astype(np.float64) for side in (self.U, self.V))
            total += weights[some].T @ self.layout.products(U, V, self.block[some])
        return total

    def to_integer_form(self) -> BlockForm:
        """Return the same function in terms of integer matrices and one scale per output.

        Raises
        ------
        InvalidInputError
            Second-layer weights are not integers times such a scale, see the argument `alpha_bits` of `qsdp.refit`.
        """
        factored = integer_weights(self.output_weights)
        if factored is None:
            raise InvalidInputError(
                "alpha must be integers up to 2^15 times one scale of single precision for each output for an integer "
                "form: use qsdp.refit(..., alpha_bits=8)"
            )
        integers, scales = factored
        # A neuron adds (u_i v_j + u_j v_i) / 2, which is -1, 0 or 1, so the sums are exact.
        total = np.rint(self._summed(integers) / self.layout.counts).astype(np.int64)
        return BlockForm(self.layout, read_only(total), read_only(scales), self.output_shape)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to `path`, readable by `qsdp.load_network`.

        If second-layer weights are integers times a scale of each output (see `alpha_bits` of `qsdp.refit`), the file
        takes few bytes, without the order of neurons and signs that do not change the function; neurons that serve
        several outputs are loaded once for each. Otherwise, neurons are written unchanged in `n_bits` bits and real
        numbers in double precision, with a strict header and a digest.
        """
        contents = pack_neurons(self)
        if contents is None:
            write_archive(path, KIND, *self.archive())
        else:
            write_whole(path, contents)

    def archive(self) -> tuple[dict[str, Any], Arrays]:
        """Return the header and the arrays of the network's file."""
        header = {
            "n_neurons": self.n_neurons,
            "sizes": list(self.layout.sizes),
            "kinds": list(self.layout.kinds),
            "n_outputs": self.n_outputs if self.output_shape else None,
            "second_layer": self._second_layer,
        }
        numbers = [(self.block, bits_of(self.layout.n_blocks))]
        if self._second_layer == "single":
            owners = np.argmax(self.output_weights != 0.0, axis=1)
            numbers.append((owners, bits_of(self.n_outputs)))
        inside, quadratic = self.signed
        parts = [bits_of_integers(values, width).ravel() for values, width in numbers]
        parts += [(self.U[inside] > 0).astype(np.uint8), (self.V[quadratic] > 0).astype(np.uint8)]
        neurons = np.packbits(np.concatenate(parts))
        if self._second_layer == "single":
            arrays = {"alpha": self.output_weights[np.arange(self.n_neurons), owners]}
        else:
            arrays = pack_alpha(self.alpha, neurons.nbytes)
        arrays = {"neurons": neurons, **arrays}
        needed = weights_memory(self.layout, self.n_neurons, self.n_outputs)
        n_bytes = sum(array.nbytes for array in arrays.values())
        if not fits_memory(needed, n_bytes):
            raise InvalidInputError(
                f"a network of {self.n_neurons} neurons on blocks of sides up to {self.layout.side} with "
                f"{self.n_outputs} outputs cannot be stored in {n_bytes} bytes, fewer than load_network trusts for so "
                "many weights; leave out the largest blocks or the outputs that have no neurons"
            )
        return header, arrays

    def to_polynomial(self, method: str = "auto") -> NoReturn:
        """Raise `InvalidInputError`: a network on blocks is not a function of columns."""
        raise InvalidInputError("a network on blocks has no polynomial network: its inputs are matrices, not columns")

    def __repr__(self) -> str:
        return (
            f"BlockNetwork(n_neurons={self.n_neurons}, n_blocks={self.layout.n_blocks}"
            f"{outputs_text(self.output_shape)}, n_bits={self.n_bits})"
        )

    def _summary(self) -> Summary:
        rows = [
            ("network", format_count(self.n_neurons, self.n_inputs, self.n_outputs)),
            ("blocks", f"{self.layout.n_blocks} of sides {first_few([str(size) for size in self.layout.sizes])}"),
            ("storage", format_bits(self.n_bits)),
        ]
        return Summary("BlockNetwork", rows)


def _checked_numbers(block: Any, m: int, n_blocks: int) -> npt.NDArray[np.intp]:
    numbers = check_numbers("block", block, "(m,)")
    if numbers.shape != (m,) or np.any((numbers < 0) | (numbers >= n_blocks) | (numbers != np.rint(numbers))):
        raise InvalidInputError(f"block must have {m} numbers from 0 to {n_blocks - 1}, one for each neuron")
    return numbers.astype(np.intp)


def _signed(layout: Layout, block: npt.NDArray[Any]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return masks of the entries of U and V that are signs."""
    inside = np.arange(layout.side) < np.array(layout.sizes)[block, None]
    return inside, inside & ~np.array(layout.linear)[block, None]


def blocks_from_archive(header: dict[str, Any], arrays: Arrays) -> BlockNetwork:
    """Build the network of a file's header and arrays; raise `StorageError` for any mismatch."""
    fields = checked("header", header, _HEADER)
    layout, m, C = check_layout(fields["sizes"], fields["kinds"]), fields["n_neurons"], fields["n_outputs"] or 1
    packed, single = arrays["neurons"], fields["second_layer"] == "single"
    if m > 8 * packed.nbytes:
        raise StorageError(f"{m} neurons are more than {packed.nbytes} bytes hold")
    check_memory(weights_memory(layout, m, C), sum(array.nbytes for array in arrays.values()))
    alpha = unpack_alpha(arrays, m, {"neurons"})
    if alpha.shape[1:] != (() if single or fields["n_outputs"] is None else (C,)):
        raise StorageError(f"alpha of shape {alpha.shape} does not belong to {m} neurons and {C} outputs")
    if packed.dtype != np.uint8 or packed.shape != (packed.size,):
        raise StorageError("neurons must be bytes")
    reader = BitReader(packed)
    block = reader.integers(m, bits_of(layout.n_blocks))
    owners = reader.integers(m, bits_of(C) if single else 0)
    if np.any(block >= layout.n_blocks) or np.any(owners >= C) or (single and np.any(owners[alpha == 0.0])):
        raise StorageError("numbers of blocks or outputs are beyond those of the network")
    U, V = (np.zeros((m, layout.side), dtype=np.int8) for _ in range(2))
    for signs, mask in zip((U, V), _signed(layout, block), strict=True):
        signs[mask] = 2 * reader.take(int(mask.sum())).astype(np.int8) - 1
    reader.finish()
    if single and fields["n_outputs"] is not None:
        full = np.zeros((m, C))
        full[np.arange(m), owners] = alpha
        alpha = full
    network = BlockNetwork(U, V, alpha, block, layout.sizes, layout.kinds)
    if network._second_layer != fields["second_layer"]:
        raise StorageError("its neurons are not stored in canonical form")
    return network


def blocks_of_contents(contents: bytes) -> BlockNetwork:
    """Read the network of a compact file; raise `StorageError` for any mismatch."""
    layout, shape, arrays = read_compact(contents)
    alpha = arrays["alpha"] if shape else arrays["alpha"][:, 0]
    network = BlockNetwork.of(layout, arrays["U"], arrays["V"], alpha, arrays["block"])
    if pack_neurons(network) != contents:
        raise StorageError("its numbers are not coded in canonical form")
    return network
