"""Samples with several data matrices ("blocks"), stored as packed upper triangles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.summary import Summarized, Summary, first_few
from qsdp._utils.validation import (
    LARGEST,
    SMALLEST,
    FloatArray,
    ReadOnlyArrays,
    check_choice,
    check_integer,
    check_matrix,
    check_numbers,
    check_real,
    check_unmasked,
    read_only,
)
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["KINDS", "Blocks", "Layout", "PatchGeometry", "check_blocks", "check_layout", "one_block"]

#: Kinds of blocks: a symmetric matrix for each sample, or a vector.
KINDS = ("quadratic", "linear")

#: Types of rows that are kept without a copy: floats, and integers whose conversion to double precision is exact.
_KEPT = frozenset({"f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4"})


class PatchGeometry(NamedTuple):
    """Integers from which `qsdp-check` recomputes packed rows of images, in the order in which certificates store them.

    Attributes
    ----------
    size, stride, padding : int
        Side of the patches, distance between neighbours, and border of zeros around an image.
    regions : int
        Regions per side of an image.
    pooling : int
        Side of the squares of pixels that are summed.
    centre, constant : int
        Number subtracted from these sums, and last entry of the patches unless it is zero.
    floats : int
        Bytes, 4 or 8, of the floats to which means over the patches of a region are rounded; 0 for integer sums.
    """

    size: int
    stride: int
    padding: int
    regions: int
    pooling: int
    centre: int
    constant: int
    floats: int = 0


@dataclass(frozen=True)
class Layout:
    r"""Layout of the blocks of a sample: sides, kinds, penalty weights, and positions of packed entries.

    In a stack of matrices, of shape (R, N, N), each has the side N of the largest block. Rows and columns beyond a
    block's side are zero. A linear block x counts as the diagonal matrix of x: for signs u and v, the values of both
    kinds of neurons are the same.

    Attributes
    ----------
    sizes : tuple of int
        Sides :math:`N_r` of the R blocks.
    linear : tuple of bool
        Whether each block is a vector of :math:`N_r` numbers rather than a symmetric matrix.
    omega : tuple of float
        Weights :math:`\omega_r` of the penalties.
    patches : PatchGeometry, optional
        Numbers from which `qsdp-check` recomputes the packed rows of integer images. Layouts that differ only in these
        are equal.
    """

    sizes: tuple[int, ...]
    linear: tuple[bool, ...]
    omega: tuple[float, ...]
    patches: PatchGeometry | None = field(default=None, compare=False)

    @property
    def n_blocks(self) -> int:
        """Number R of blocks."""
        return len(self.sizes)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the blocks."""
        return tuple(KINDS[flat] for flat in self.linear)

    def described(self, *, than: Layout | None) -> str:
        """Describe the layout for an error message, by an attribute in which it differs from another one."""
        names = ("sizes", "kinds", "omega")
        differing = [name for name in names if than is None or getattr(self, name) != getattr(than, name)]
        return f"blocks of {differing[0]} {getattr(self, differing[0])!r:.90}"

    @cached_property
    def side(self) -> int:
        """Side N of the largest block."""
        return max(self.sizes)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Index of the first packed entry of each block, followed by the number P of entries."""
        counts = [n if flat else n * (n + 1) // 2 for n, flat in zip(self.sizes, self.linear, strict=True)]
        return (0, *np.cumsum(counts).tolist())

    @property
    def n_entries(self) -> int:
        """Number P of packed entries of a sample."""
        return self.starts[-1]

    @cached_property
    def block(self) -> npt.NDArray[np.intp]:
        """Block of each packed entry, of shape (P,)."""
        return read_only(np.repeat(np.arange(self.n_blocks), np.diff(self.starts)))

    @cached_property
    def _pairs(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        pairs = [
            (np.arange(n), np.arange(n)) if flat else np.triu_indices(n)
            for n, flat in zip(self.sizes, self.linear, strict=True)
        ]
        first, second = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        return read_only(first), read_only(second)

    @property
    def first(self) -> npt.NDArray[np.intp]:
        """Row of each packed entry in its matrix, of shape (P,)."""
        return self._pairs[0]

    @property
    def second(self) -> npt.NDArray[np.intp]:
        """Column of each packed entry in its matrix, of shape (P,), at least its row."""
        return self._pairs[1]

    @cached_property
    def counts(self) -> FloatArray:
        """Number of times that each packed entry occurs in its matrix: 1 on the diagonal, else 2."""
        return read_only(np.where(self.first == self.second, 1.0, 2.0))

    @cached_property
    def factors(self) -> FloatArray:
        """Roots of `counts`: entries times these are coordinates in an orthonormal basis of symmetric matrices."""
        return read_only(np.sqrt(self.counts))

    @cached_property
    def _places(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        origin = self.block * self.side**2
        upper = origin + self.first * self.side + self.second
        return read_only(upper), read_only(origin + self.second * self.side + self.first)

    @cached_property
    def prices(self) -> FloatArray:
        r"""Penalties :math:`\omega_r D_r` of a second-layer weight of one, of shape (R,)."""
        return read_only(np.array(self.omega) * self.sizes)

    def priced(self, alpha: FloatArray, block: npt.NDArray[np.intp]) -> FloatArray:
        """Multiply second-layer weights (m, C) of neurons in these blocks by the penalties of a weight of one."""
        return np.asarray(alpha * self.prices[block][:, None])

    @cached_property
    def used(self) -> npt.NDArray[np.bool_]:
        """Mask of shape (R, N) of the rows of the matrices that belong to a block."""
        return read_only(np.arange(self.side) < np.array(self.sizes)[:, None])

    def entries(self, T: FloatArray) -> FloatArray:
        """Pack a stack of symmetric matrices (C R, N, N) into entries (C, P)."""
        return T.reshape(-1, self.n_blocks * self.side**2).take(self._places[0], axis=1)

    def means(self, T: FloatArray) -> FloatArray:
        """Pack the symmetric parts of a stack of matrices (C R, N, N) into entries (C, P)."""
        flat = T.reshape(-1, self.n_blocks * self.side**2)
        upper, lower = self._places
        return 0.5 * (flat.take(upper, axis=1) + flat.take(lower, axis=1))

    def matrices(self, entries: FloatArray) -> FloatArray:
        """Unpack entries (C, P) to a stack of symmetric matrices (C R, N, N)."""
        upper, lower = self._places
        flat = np.zeros((len(entries), self.n_blocks * self.side**2))
        flat[:, upper] = entries
        flat[:, lower] = entries
        return flat.reshape(-1, self.side, self.side)

    def check_matrices(self, name: str, matrices: Any, n_outputs: int) -> list[FloatArray]:
        """Check a list over blocks of finite arrays, see `stack`, and return them as float64."""
        if not isinstance(matrices, (list, tuple)):
            raise InvalidTypeError(f"{name} must be a list with an array for each block; got {type(matrices).__name__}")
        arrays = [check_numbers(name, array, "(C, N, N) for each block") for array in matrices]
        sides = zip(self.sizes, self.linear, strict=True)
        shapes, given = [(n_outputs, n) if flat else (n_outputs, n, n) for n, flat in sides], [a.shape for a in arrays]
        if given != shapes:
            raise InvalidInputError(f"{name} must have arrays of shapes {shapes}; got {given}")
        return arrays

    def stack(self, parts: Sequence[FloatArray]) -> FloatArray:
        """Combine arrays over blocks, (C, N_r, N_r) or (C, N_r) for linear blocks, into a stack (C R, N, N)."""
        whole = np.zeros((len(parts[0]), self.n_blocks, self.side, self.side))
        for r, (part, n) in enumerate(zip(parts, self.sizes, strict=True)):
            if self.linear[r]:
                whole[:, r, np.arange(n), np.arange(n)] = part
            else:
                whole[:, r, :n, :n] = part
        return whole.reshape(-1, self.side, self.side)

    def unstack(self, stack: FloatArray) -> list[FloatArray]:
        """Split a stack (C R, N, N) into arrays over blocks, (C, N_r, N_r) or (C, N_r) for linear blocks."""
        whole = stack.reshape(-1, self.n_blocks, self.side, self.side)
        parts = [whole[:, r, :n, :n] for r, n in enumerate(self.sizes)]
        return [part.diagonal(0, 1, 2) if flat else part for part, flat in zip(parts, self.linear, strict=True)]

    def products(self, U: FloatArray, V: FloatArray, block: npt.NDArray[np.intp] | None = None) -> FloatArray:
        r"""Compute vectors (k, P) whose inner products with packed entries are the values of neurons.

        These are :math:`u_j^T \mathcal{X}_r v_j` in a quadratic block, and :math:`x_r^T u_j` in a linear one. `block`
        is the block of each pair of rows of U and V, of shape (k, N); None is the first.
        """
        vectors = np.zeros((len(U), self.n_entries))
        for r in range(self.n_blocks):
            mine = slice(None) if block is None else np.flatnonzero(block == r)
            entries = slice(self.starts[r], self.starts[r + 1])
            first, second = self.first[entries], self.second[entries]
            u, v = U[mine], V[mine]
            if self.linear[r]:
                mixed = u[:, first]
            else:
                # An entry off the diagonal has two places, so this is not halved there.
                mixed = u[:, first] * v[:, second]
                mixed += u[:, second] * v[:, first]
                mixed *= 0.5 * self.counts[entries]
            vectors[mine, entries] = mixed
        return vectors


@lru_cache(maxsize=16)
def one_block(size: int) -> Layout:
    """Create the layout of a single symmetric matrix, in the order of `numpy.triu_indices`."""
    return Layout((size,), (False,), (1.0,))


class Blocks(Summarized, ReadOnlyArrays):
    r"""Samples with several data matrices or vectors, such as the mean products of the patches of image regions.

    A neuron lives in one block: :math:`u^T \mathcal{X}_{ir} v` of a quadratic block, :math:`x_{ir}^T u` of a linear
    one. Blocks are accepted wherever data X are, for binary neurons without an activation.

    Parameters
    ----------
    rows : array-like of shape (n, P)
        Packed entries, one sample per row, block after block: of a quadratic block the
        :math:`N_r (N_r + 1)/2` entries of the upper triangle of its symmetric matrix, row by row, every entry once; of
        a linear block its :math:`N_r` entries. Finite floats of single or double precision, or integers. Arrays of
        these types are kept without a copy, memory maps included, and must not be changed.
    sizes : sequence of int
        Sides :math:`N_r` of the blocks.
    kinds : sequence of {"quadratic", "linear"}, optional
        None makes every block quadratic.
    omega : sequence of float, optional
        Factors :math:`\omega_r > 0` of the blocks in the penalty
        :math:`\beta \sum_r \omega_r N_r \sum_{j \in J_r} |\alpha_j|`; None makes each one.

    Attributes
    ----------
    shape : tuple of int
        (n, P).
    n_blocks : int
        Number R of blocks.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        An argument is not allowed; the message names it, its value and what is allowed.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> images = np.random.default_rng(0).standard_normal((20, 2, 3))  # two halves of three pixels
    >>> first, second = np.triu_indices(3)
    >>> rows = (images[:, :, first] * images[:, :, second]).reshape(20, -1)
    >>> qsdp.Blocks(rows, sizes=[3, 3])
    Blocks(n_samples=20, sizes=(3, 3))
    """

    def __init__(self, rows: Any, sizes: Sequence[int], kinds: Sequence[str] | None = None, omega: Any = None) -> None:
        self.layout = check_layout(sizes, kinds, omega)
        self.rows: npt.NDArray[Any] = _checked_rows(rows, self.layout)

    @classmethod
    def of(cls, rows: npt.NDArray[Any], layout: Layout) -> Blocks:
        """Create blocks from validated rows and a layout."""
        blocks = cls.__new__(cls)
        blocks.layout, blocks.rows = layout, rows
        return blocks

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sides of the blocks."""
        return self.layout.sizes

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the blocks."""
        return self.layout.kinds

    @property
    def omega(self) -> tuple[float, ...]:
        """Factors of the blocks in the penalty."""
        return self.layout.omega

    @property
    def n_blocks(self) -> int:
        """Number R of blocks."""
        return self.layout.n_blocks

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers n of samples and P of packed entries."""
        return len(self.rows), self.layout.n_entries

    def __len__(self) -> int:
        return len(self.rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        """Raise `InvalidTypeError`: samples in blocks are not rows of columns."""
        raise InvalidTypeError(
            "samples in blocks have no columns, which this function needs; estimators take images or series, and "
            "make blocks of them with encoding=Patches(...) or Windows(...)"
        )

    def __getitem__(self, rows: Any) -> Blocks:
        """Return the blocks of some of the samples."""
        part = self.rows[rows]
        if part.shape[1:] != self.rows.shape[1:]:
            raise InvalidTypeError("samples of blocks must be selected by a slice, a mask or a list of indices")
        return Blocks.of(part, self.layout)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Blocks):
            return NotImplemented
        return self.layout == other.layout and np.array_equal(self.rows, other.rows)

    __hash__ = None  # type: ignore[assignment]  # compares arrays by value

    def __repr__(self) -> str:
        kinds = f", kinds={self.kinds}" if any(self.layout.linear) else ""
        omega = f", omega={self.omega}" if set(self.omega) != {1.0} else ""
        return f"Blocks(n_samples={len(self)}, sizes={self.sizes}{kinds}{omega})"

    def _summary(self) -> Summary:
        sides = [f"{size}{' (linear)' * flat}" for size, flat in zip(self.sizes, self.layout.linear, strict=True)]
        rows = [
            ("samples", f"{len(self):,}"),
            ("blocks", str(self.n_blocks)),
            ("sides", first_few(sides)),
            ("entries", f"{self.layout.n_entries:,} a sample, {self.rows.dtype}"),
        ]
        return Summary("Blocks", rows)


def check_blocks(X: Any, layout: Layout) -> Blocks:
    """Check that X consists of blocks of these sizes and kinds; penalty weights may differ."""
    if not isinstance(X, Blocks):
        raise InvalidTypeError(f"X must be Blocks, as the data of the problem were; got {type(X).__name__}")
    if (X.layout.sizes, X.layout.linear) != (layout.sizes, layout.linear):
        expected = Blocks.of(np.empty((0, layout.n_entries)), layout)
        raise InvalidInputError(f"X must have the blocks {expected!r:.90}; got {X!r:.90}")
    return X


def check_layout(sizes: Any, kinds: Any = None, omega: Any = None) -> Layout:
    """Check sides, kinds and penalty weights of blocks (see `Blocks`), and return the layout."""
    listed = _listed("sizes", sizes)
    if not listed:
        raise InvalidInputError("sizes must have an entry for each block; got none")
    checked = tuple(check_integer("sizes", size, minimum=1) for size in listed)
    names = ["quadratic"] * len(checked) if kinds is None else _listed("kinds", kinds)
    weights = [1.0] * len(checked) if omega is None else _listed("omega", omega)
    for name, values in (("kinds", names), ("omega", weights)):
        if len(values) != len(checked):
            raise InvalidInputError(f"{name} must have an entry for each of {len(checked)} blocks; got {len(values)}")
    linear = tuple(check_choice("kinds", kind, KINDS) == "linear" for kind in names)
    factors = tuple(check_real("omega", weight, strict=True) for weight in weights)
    if not all(SMALLEST <= factor <= LARGEST for factor in factors):
        raise InvalidInputError(f"omega must be within {SMALLEST:g} .. {LARGEST:g}; got {list(factors)!r:.60}")
    return Layout(checked, linear, factors)


def _listed(name: str, values: Any) -> list[Any]:
    # NumPy raises its own error for lists of lists of several lengths.
    flat = isinstance(values, Sequence) or getattr(values, "ndim", 0) == 1
    if isinstance(values, (str, bytes)) or not flat:
        raise InvalidTypeError(f"{name} must be a list with an entry for each block; got {values!r:.60}")
    return list(values)


def _checked_rows(rows: Any, layout: Layout) -> npt.NDArray[Any]:
    check_unmasked("rows", rows)
    array: npt.NDArray[Any] = check_matrix("rows", rows, kept=_KEPT)
    if array.shape[1] != layout.n_entries:
        raise InvalidInputError(
            f"rows must have {layout.n_entries} columns for blocks of these sizes and kinds; got {array.shape[1]}"
        )
    # Other types have been converted, and read on the way; integers are finite.
    unread = isinstance(rows, np.ndarray) and array.dtype == rows.dtype and array.dtype.kind == "f"
    if unread and not all(np.isfinite(array[some]).all() for some in chunks(*array.shape)):
        raise InvalidInputError("rows must be finite; found NaN or infinity")
    return array
