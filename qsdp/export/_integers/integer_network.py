"""Integer networks: neurons or quadratic forms of integer vectors, and outputs in a unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import ROUNDING
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.block_layout import Layout
from qsdp.export._integers.vectors import BlockVectors, RowVectors, Vectors

__all__ = ["EXACT", "Bounds", "IntegerNetwork", "Neurons", "rounded_up", "unit_of"]

#: Relative error below which a number counts as a multiple of a unit.
EXACT = 1e-12

#: Function from bounds on the errors of vectors, of shape (N,), to bounds on the errors of scores, of shape (C,).
Bounds = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Neurons:
    r"""Neurons :math:`\sum_z (u_j^T z)(v_j^T z)` over the vectors z of a block, and their second-layer weights.

    Attributes
    ----------
    left, right : ndarray of shape (m, N)
        :math:`u_j` and :math:`v_j`; equal for a network of squares.
    block : ndarray of shape (m,)
    weights : ndarray of shape (m, C)
    sizes : ndarray of shape (C,) or None
        Number of neurons of each output, if they are consecutive and have weight one; otherwise None.
    n_linear : int
        Number of last neurons that are products of one input, each of another, and the constant, the last input.
    """

    left: IntArray
    right: IntArray
    block: IntArray
    weights: IntArray
    sizes: IntArray | None = None
    n_linear: int = 0

    @property
    def is_square(self) -> bool:
        """Whether both projections of every neuron are the same."""
        return bool(np.array_equal(self.left, self.right))

    def bounds(self, samples: Vectors) -> FloatArray:
        """Bound the magnitudes of the neurons, of shape (m,)."""
        left, right = (np.abs(side).astype(np.float64) @ samples.vector for side in (self.left, self.right))
        return np.asarray(samples.counts[self.block] * left * right)


@dataclass(frozen=True, eq=False)
class IntegerNetwork:
    r"""Quadratic function of integer vectors: scores are `unit` times its outputs.

    For the sums :math:`M_r` of :math:`z_i z_k`, i <= k, over the vectors z of a block r,

    .. math:: f_c = F_c \sum_r G_r \langle S_{cr}, M_r \rangle + B_c

    where :math:`\sum_r \langle S_{cr}, M_r \rangle` is the sum of the neurons times their weights.

    Attributes
    ----------
    neurons : Neurons or None
        None if there is only the quadratic form.
    forms : ndarray of shape (C, P)
        Coefficients S of the products, block after block, each pair once.
    common : int
        The factors G of the blocks are this over numbers of windows, or this: see `Vectors.gains`.
    factors : ndarray of shape (C,)
        Factors F of the outputs.
    bias : tuple of int
        Constants B.
    unit : ndarray of shape (C,)
        Positive factors from outputs to scores.
    sums, totals : int
        Bounds on the magnitudes of sums over neurons, and of outputs.
    """

    neurons: Neurons | None
    forms: IntArray
    common: int
    factors: IntArray
    bias: tuple[int, ...]
    unit: FloatArray
    sums: int
    totals: int

    @property
    def n_outputs(self) -> int:
        """Number of outputs C."""
        return len(self.bias)

    def triangles(self, layout: Layout) -> IntArray:
        """Return the coefficients of the products of one block as upper triangles, of shape (C, N, N)."""
        triangles = np.zeros((self.n_outputs, layout.side, layout.side), dtype=np.int64)
        triangles[:, layout.first, layout.second] = self.forms
        return triangles

    def outputs(self, samples: Vectors, columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Compute the outputs of shape (n, C) of integer columns: int64 or, for columns of these, Python integers."""
        if isinstance(samples, BlockVectors):
            sums = samples.products(columns) @ (self.forms * samples.gains(self.common)[samples.blocks.block]).T
        else:
            assert isinstance(samples, RowVectors)
            sums = self._sums_of_rows(samples.vectors(columns), samples.blocks)
        outputs: npt.NDArray[Any] = sums * self.factors + np.array(self.bias, dtype=sums.dtype)
        return outputs

    def _sums_of_rows(self, z: npt.NDArray[Any], layout: Layout) -> npt.NDArray[Any]:
        """Compute the sums over neurons of vectors z of shape (n, N)."""
        if self.neurons is None:
            return np.stack(
                [((z @ triangle.astype(z.dtype)) * z).sum(axis=1) for triangle in self.triangles(layout)], axis=1
            )
        left, right, weights = (
            array.astype(z.dtype) for array in (self.neurons.left, self.neurons.right, self.neurons.weights)
        )
        sums: npt.NDArray[Any] = (z @ left.T) * (z @ right.T) @ weights
        return sums


def unit_of(weights: FloatArray, digits: int) -> tuple[float, bool]:
    """Choose the unit in which weights become integers of some digits, and return it and whether all are multiples.

    It is the smallest weight if the others are multiples of it, at most 2^digits times as large; else the finest one.
    """
    sizes = np.abs(weights[weights != 0.0])
    if not sizes.size:
        return 1.0, True
    ratios = sizes / sizes.min()
    if ratios.max() <= 2**digits and np.all(np.abs(ratios - np.rint(ratios)) <= EXACT * ratios):
        return float(sizes.min()), True
    return float(sizes.max()) / (2**digits - 1), False


def rounded_up(value: float) -> int:
    """Bound a sum of products of integers >= 0, computed in double precision, from above by an integer."""
    return int(value) if value < 2.0**52 else int(value * (1.0 + ROUNDING))
