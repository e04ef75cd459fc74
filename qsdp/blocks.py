"""Samples with several data matrices or vectors ("blocks"), stored as packed upper triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.summary import Summarized, Summary, first_few
from qsdp._utils.validation import (
    ReadOnlyArrays,
    check_matrix,
    check_unmasked,
)
from qsdp.block_layout import KINDS, WEIGHTS, Layout, check_layout
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["Blocks", "check_blocks"]

#: Data types of rows that are stored without a copy: floats, and integers that double precision represents exactly.
_UNCOPIED_DTYPES = frozenset({"f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4"})


class Blocks(Summarized, ReadOnlyArrays):
    r"""Samples with several data matrices or vectors, such as the mean products of the patches of image regions.

    A neuron lives in one block: :math:`u^T \mathcal{X}_{ir} v` of a quadratic block, :math:`x_{ir}^T u` of a linear
    one. A block of the kind "weights" has no neurons but a real weight for each of its columns and outputs:
    :math:`\sum_k w_k x_{ik}`. Blocks are accepted wherever data X are, for binary neurons without an activation.

    Parameters
    ----------
    rows : array-like of shape (n, P)
        Packed entries, one sample per row, block after block: of a quadratic block the
        :math:`N_r (N_r + 1)/2` entries of the upper triangle of its symmetric matrix, row by row, every entry once; of
        a linear block or of weights its :math:`N_r` entries. Finite floats of single or double precision, or integers.
        Arrays of these types are stored without a copy, memory maps included, and must not be changed.
    sizes : sequence of int
        Sides :math:`N_r` of the blocks; of weights, the number of columns.
    kinds : sequence of {"quadratic", "linear", "weights"}, optional
        None makes every block quadratic.
    omega : sequence of float or array-like, optional
        Factors :math:`\omega_r > 0` of the blocks in the penalty
        :math:`\beta \sum_r \omega_r N_r \sum_{j \in J_r} |\alpha_j|`, and prices :math:`\omega_k` of weights in
        :math:`\beta \sum_k \omega_k |w_k|`: for each block of weights a number or an array with a price for each
        column. None makes each one.

    Attributes
    ----------
    shape : tuple of int
        (n, P).
    n_blocks : int
        Number of blocks, those of weights included.

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
    def from_layout(cls, rows: npt.NDArray[Any], layout: Layout) -> Blocks:
        """Create blocks from validated rows and a layout."""
        blocks = cls.__new__(cls)
        blocks.layout, blocks.rows = layout, rows
        return blocks

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sides of the blocks; of weights, the number of columns."""
        return self.layout.all_sizes

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the blocks."""
        return self.layout.kinds

    @property
    def omega(self) -> tuple[float | tuple[float, ...], ...]:
        """Factors of the blocks in the penalty; a tuple for weights of several prices."""
        return self.layout.all_omega

    @property
    def n_blocks(self) -> int:
        """Number of blocks, those of weights included."""
        return len(self.sizes)

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
        return Blocks.from_layout(part, self.layout)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Blocks):
            return NotImplemented
        return self.layout == other.layout and np.array_equal(self.rows, other.rows)

    __hash__ = None  # type: ignore[assignment]  # compares arrays by value

    def __repr__(self) -> str:
        kinds = f", kinds={self.kinds}" if set(self.kinds) != {KINDS[0]} else ""
        omega = f", omega={_shortened(self.omega)}" if set(self.omega) != {1.0} else ""
        return f"Blocks(n_samples={len(self)}, sizes={self.sizes}{kinds}{omega})"

    def _summary(self) -> Summary:
        labels = dict(zip(KINDS, ("", " (linear)"), strict=True)) | {WEIGHTS: " (weights)"}
        sides = [f"{size}{labels[kind]}" for size, kind in zip(self.sizes, self.kinds, strict=True)]
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
    if not X.layout.same_blocks(layout):
        expected = Blocks.from_layout(np.empty((0, layout.n_entries)), layout)
        raise InvalidInputError(f"X must have the blocks {expected!r:.90}; got {X!r:.90}")
    return X


def _shortened(omega: tuple[float | tuple[float, ...], ...]) -> str:
    """Return factors of blocks as text, with the first of many prices."""
    texts = [
        f"({first_few(list(map(repr, prices)))})" if isinstance(prices, tuple) else repr(prices) for prices in omega
    ]
    return f"({', '.join(texts)}{',' * (len(texts) == 1)})"


def _checked_rows(rows: Any, layout: Layout) -> npt.NDArray[Any]:
    check_unmasked("rows", rows)
    array: npt.NDArray[Any] = check_matrix("rows", rows, unread_dtypes=_UNCOPIED_DTYPES)
    if array.shape[1] != layout.n_entries:
        raise InvalidInputError(
            f"rows must have {layout.n_entries} columns for blocks of these sizes and kinds; got {array.shape[1]}"
        )
    # Other types have been converted, and read on the way; integers are finite.
    unread = isinstance(rows, np.ndarray) and array.dtype == rows.dtype and array.dtype.kind == "f"
    if unread and not all(np.isfinite(array[some]).all() for some in chunks(*array.shape)):
        raise InvalidInputError("rows must be finite; found NaN or infinity")
    return array
