"""Low-rank factors of the matrices A and B of every output, with rows on spheres."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from qsdp._utils.numeric import HALF_DIGITS
from qsdp._utils.symmetric import root
from qsdp._utils.tuning import GAIN, INNER, PATIENCE
from qsdp._utils.validation import FloatArray

__all__ = ["Directions", "Factors", "cold_factors", "factors_of", "renewed"]

#: Columns per sign at the start, and largest number of new ones at a time; half or twice is as good.
_COLUMNS = 16

#: New columns for the factors of A and of B of one matrix.
Directions = tuple[FloatArray, FloatArray]

#: Function that returns eigenvalues and eigenvectors of a matrix, scaled from both sides.
Decomposition = Callable[[int, FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Factors:
    r"""Signed low-rank factors: :math:`T_k = \sum_j \sigma_j e_j e_j^T` over the columns e of matrix k.

    There is a matrix for each output, or for each block of each output.
    """

    #: Columns, shape (N, m); those of a matrix are contiguous. The sum of squares of a row over the columns of a
    #: matrix is the same for all rows, the matrix's r.
    E: FloatArray
    #: Signs, shape (m,): 1 for A, -1 for B, and 0 for the slack column of each matrix, which completes the rows.
    signs: FloatArray
    #: Matrix of each column, shape (m,).
    owner: np.ndarray
    n_matrices: int

    @cached_property
    def members(self) -> FloatArray:
        """Indicator matrix of zeros and ones for the matrix of each column, shape (m, K)."""
        members: FloatArray = np.eye(self.n_matrices)[self.owner]
        return members

    @cached_property
    def mixing(self) -> FloatArray:
        """Sign of each column in each matrix, shape (m, K)."""
        return self.signs[:, None] * self.members

    def columns(self, k: int) -> slice:
        """Return the slice of the columns of matrix k."""
        first, last = np.searchsorted(self.owner, [k, k + 1])
        return slice(int(first), int(last))

    def dot(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return the inner products of rows, matrix by matrix, shape (N, K)."""
        return (left * right) @ self.members

    def with_columns(self, E: FloatArray) -> Factors:
        """Return factors with new entries E."""
        fresh = Factors(E, self.signs, self.owner, self.n_matrices)
        fresh.__dict__.update({key: self.__dict__[key] for key in ("members", "mixing") if key in self.__dict__})
        return fresh

    def on_spheres(self, E: FloatArray, radii: FloatArray) -> Factors:
        """Return factors with new entries E whose rows are scaled to the squared radii, of shape (K,)."""
        norms = np.sqrt(self.dot(E, E))
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = np.where(norms > 0.0, np.sqrt(radii) / norms, 0.0)
        return self.with_columns(E * (factors @ self.members.T))

    def parts(self, k: int) -> tuple[FloatArray, FloatArray]:
        """Return the factors of A and of B of matrix k."""
        columns = self.columns(k)
        E, signs = self.E[:, columns], self.signs[columns]
        return E[:, signs > 0.0], E[:, signs < 0.0]

    def matrices(self) -> tuple[FloatArray, FloatArray]:
        """Multiply the factors out to A and B, of shape (K, N, N)."""
        parts = [self.parts(k) for k in range(self.n_matrices)]
        return np.stack([F @ F.T for F, _ in parts]), np.stack([G @ G.T for _, G in parts])


def joined(parts: Sequence[tuple[FloatArray, FloatArray]], radii: FloatArray) -> Factors:
    """Join the factors of all matrices, and append their slack columns."""
    columns: list[FloatArray] = []
    signs: list[FloatArray] = []
    counts: list[int] = []
    for (F, G), r in zip(parts, radii, strict=True):
        rest = np.sqrt(np.maximum(r - np.sum(F * F, axis=1) - np.sum(G * G, axis=1), 0.0))
        columns += [F, G, rest[:, None]]
        signs += [np.ones(F.shape[1]), -np.ones(G.shape[1]), np.zeros(1)]
        counts.append(F.shape[1] + G.shape[1] + 1)
    owner = np.repeat(np.arange(len(counts)), counts)
    factors = Factors(np.hstack(columns), np.concatenate(signs), owner, len(counts))
    return factors.on_spheres(factors.E, radii)


def cold_factors(M: FloatArray, decomposed: Decomposition, rng: np.random.Generator) -> Factors:
    """Compute initial factors of radius one with a large inner product with M, a descent direction of the loss.

    Each row moves to the maximum of its inner product, as in the mixing method, but all rows move at once. `decomposed`
    returns eigenvalues, in ascending order, and eigenvectors of the k-th matrix scaled from both sides.
    """
    parts = []
    for k, matrix in enumerate(M):
        weights = np.abs(matrix).sum(axis=1)
        roots = 1.0 / np.sqrt(np.maximum(weights, HALF_DIGITS * (weights.mean() or 1.0)))
        values, vectors = decomposed(k, roots)
        count = min(_COLUMNS, len(values))
        top = roots[:, None] * vectors[:, ::-1][:, :count] * np.sqrt(np.maximum(values[::-1][:count], 0.0))
        bottom = roots[:, None] * vectors[:, :count] * np.sqrt(np.maximum(-values[:count], 0.0))
        E = np.hstack([top, bottom])
        E += INNER * (np.abs(E).mean() or 1.0) * rng.standard_normal(E.shape)
        signs = np.repeat([1.0, -1.0], count)
        E = _unit_rows(E)
        for _ in range(PATIENCE):
            pull = matrix @ (E * signs)
            E = _unit_rows(pull + INNER * np.linalg.norm(pull, axis=1, keepdims=True) * E)
        # Keep the rows inside the sphere, so that the slack column is not a stationary point.
        E *= 1.0 - GAIN
        parts.append((E[:, :count], E[:, count:]))
    return joined(parts, np.ones(len(M)))


def factors_of(A: FloatArray, B: FloatArray, cutoff: float = 1e-6) -> Factors:
    """Factor matrices of shape (K, N, N), without eigenvalues below the fraction `cutoff` of the largest."""
    parts = [(root(a, cutoff), root(b, cutoff)) for a, b in zip(A, B, strict=True)]
    radii = np.array([max(float((np.sum(F * F, axis=1) + np.sum(G * G, axis=1)).max()), 1e-300) for F, G in parts])
    return joined(parts, radii)


def renewed(
    factors: Factors, radii: FloatArray, z: FloatArray, directions: Sequence[Directions], cutoff: float, size: float
) -> Factors:
    """Drop columns whose squares are below the fraction `cutoff` of the largest, and add new columns.

    The new columns are the directions of every matrix, and their largest entry is the fraction `size` of the root of
    the radius. Rows with negative multipliers z, of shape (N, K), are shortened: the sphere keeps them too long.
    """
    parts, shorter = [], 1.0 - 0.5 * size**2 * (z < 0.0)
    for k in range(factors.n_matrices):
        remaining = [_compressed(part, cutoff) * shorter[:, k, None] for part in factors.parts(k)]
        entry = size * float(np.sqrt(radii[k]))
        fresh = [_scaled(V[:, : _COLUMNS // 2], entry) for V in directions[k]]
        parts.append((np.hstack([remaining[0], fresh[0]]), np.hstack([remaining[1], fresh[1]])))
    return joined(parts, radii)


def _compressed(F: FloatArray, cutoff: float) -> FloatArray:
    if not F.size:
        return F
    U, sizes, _ = scipy.linalg.svd(F, full_matrices=False, check_finite=False)
    remaining = sizes**2 > cutoff * sizes[0] ** 2
    compressed: FloatArray = U[:, remaining] * sizes[remaining]
    return compressed


def _scaled(V: FloatArray, size: float) -> FloatArray:
    largest = np.abs(V).max(axis=0, initial=0.0)
    return V * (size / np.where(largest > 0.0, largest, 1.0))


def _unit_rows(E: FloatArray) -> FloatArray:
    norms = np.linalg.norm(E, axis=1, keepdims=True)
    units: FloatArray = np.where(norms > 0.0, E / np.where(norms > 0.0, norms, 1.0), 1.0 / np.sqrt(E.shape[1]))
    return units
