"""Base class of the pricing oracles, with the common steps of search and proof."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray, check_integer, check_numbers, check_real
from qsdp.exceptions import InvalidInputError
from qsdp.pricing.branching import TreeSearch
from qsdp.pricing.pool import Pool
from qsdp.pricing.result import BoundTree, OracleResult, SignArray
from qsdp.pricing.scaling import Scaled

__all__ = ["Oracle"]

AnyPool = TypeVar("AnyPool", bound=Pool)


class Oracle(ABC, Generic[AnyPool]):
    """Pricing oracle: search for, and proof of, the largest pricing value of a symmetric matrix of side `size`."""

    size: int

    def search(
        self,
        M: Any,
        *,
        threshold: float = 0.0,
        starts: Any = None,
        n_starts: int = 300,
        max_atoms: int = 200,
        rng: np.random.Generator,
        time_limit: float | None = None,
    ) -> OracleResult:
        """Search for atoms of large pricing value by local search from `starts` and from random vectors.

        Parameters
        ----------
        M : ndarray of shape (N, N)
            Symmetric.
        threshold : float, default=0.0
            Only atoms of a larger pricing value are returned.
        starts : ndarray of shape (k, N), optional
            Vectors to start from.
        n_starts : int, default=300
            Number of further, random starts.
        max_atoms : int, default=200
            Largest number of atoms returned.
        rng : numpy.random.Generator
        time_limit : float, optional
            Seconds after which the search stops and returns the atoms found so far.

        Returns
        -------
        OracleResult
            The upper bound is infinite.
        """
        scaled = Scaled.of(M, self.size)
        n_starts = check_integer("n_starts", n_starts, minimum=0)
        pool = self._collection(scaled, threshold, max_atoms)
        vectors = self._draw(rng, n_starts, self.size)
        if starts is not None:
            vectors = np.vstack([_checked_starts(starts, self.size), vectors])
        with deadline.after(time_limit):
            if len(vectors) and len(scaled.M):
                self._improve(pool, vectors[:, scaled.support])
        return self._result(scaled, pool, math.inf, False, ())

    def prove(
        self,
        M: Any,
        *,
        threshold: float = 0.0,
        max_atoms: int = 200,
        incumbent: float = 0.0,
        slack: float = 0.0,
        n_starts: int = 100,
        time_limit: float | None = None,
        shift: Any = None,
        interrupted: Callable[[], bool] | None = None,
    ) -> OracleResult:
        r"""Compute the largest pricing value with an upper bound, and the trees that prove it.

        Parameters
        ----------
        M : ndarray of shape (N, N)
            Symmetric.
        threshold : float, default=0.0
            Only atoms of a larger pricing value are returned, the best of those evaluated. Atoms more than one per cent
            below the largest value are not sought.
        max_atoms : int, default=200
            Largest number of atoms returned.
        incumbent : float, default=0.0
            A pricing value known to be attained; smaller values are not examined.
        slack : float, default=0.0
            Relative tolerance of the maximum: `upper` may exceed the largest value found by this much.
        n_starts : int, default=100
            Number of random starts of the search that precedes the proof.
        time_limit : float, optional
            Seconds after which the proof stops with the bound proven so far.
        shift : ndarray of shape (N,), optional
            A z for which ``Diag(z) + M`` and ``Diag(z) - M`` are approximately positive semidefinite, such as that of a
            `DualBound`. A better shift gives a better first bound.
        interrupted : callable, optional
            Polled often; once true, the proof stops as at the time limit.

        Notes
        -----
        If there are few vectors, they are enumerated. Otherwise, best-first branch and bound uses a diagonal shift per
        node (see `shift_bound`).
        """
        scaled = Scaled.of(M, self.size)
        slack = check_real("slack", slack)
        pool = self._collection(scaled, threshold, max_atoms, check_real("incumbent", incumbent), slack)
        n_starts = check_integer("n_starts", n_starts, minimum=0)
        z = _checked_shift(shift, scaled)
        with deadline.after(time_limit, interrupted=interrupted):
            if n_starts and len(scaled.M):
                rng = np.random.default_rng(0)
                self._improve(pool, self._draw(rng, n_starts, len(scaled.M)))
            tree = self._tree(scaled, pool)
            upper, exact = tree.prove(z)
        return self._result(scaled, pool, scaled.outside(upper), exact, (tree.tree(),))

    def _collection(
        self, scaled: Scaled, threshold: float, max_atoms: int, incumbent: float = 0.0, slack: float = 0.0
    ) -> AnyPool:
        inside = scaled.inside(check_real("threshold", threshold))
        max_atoms = check_integer("max_atoms", max_atoms, minimum=0)
        return self._pool(scaled, inside, max_atoms, scaled.inside(incumbent), slack)

    @abstractmethod
    def _pool(self, scaled: Scaled, threshold: float, max_atoms: int, incumbent: float, slack: float) -> AnyPool:
        """Create an empty pool, for values in units of the scaled matrix."""

    @abstractmethod
    def _draw(self, rng: np.random.Generator, count: int, size: int) -> FloatArray:
        """Draw `count` vectors of `size` entries."""

    @abstractmethod
    def _improve(self, pool: AnyPool, starts: FloatArray) -> None:
        """Run local search from `starts`, and add the optima to the pool."""

    @abstractmethod
    def _tree(self, scaled: Scaled, pool: AnyPool) -> TreeSearch:
        """Create the branch-and-bound search of a proof."""

    @abstractmethod
    def _atoms(self, scaled: Scaled, pool: AnyPool) -> tuple[SignArray, SignArray]:
        """Return U and V of the atoms in the pool, in all coordinates."""

    def _result(
        self, scaled: Scaled, pool: AnyPool, upper: float, exact: bool, trees: tuple[BoundTree, ...]
    ) -> OracleResult:
        U, V = self._atoms(scaled, pool)
        values = np.ldexp(pool.values, scaled.exponent)
        return OracleResult(scaled.outside(pool.best), upper, exact, U, V, values, trees)


def _checked_starts(starts: Any, size: int) -> FloatArray:
    given = check_numbers("starts", starts, f"(k, {size})")
    if given.shape[1:] != (size,):
        raise InvalidInputError(f"starts must have shape (k, {size}); got {given.shape}")
    return given


def _checked_shift(shift: Any, scaled: Scaled) -> FloatArray | None:
    """Check a shift, and convert it to the units and coordinates of the scaled matrix."""
    if shift is None:
        return None
    given = check_numbers("shift", shift, "(N,)")
    if given.shape != (scaled.size,):
        raise InvalidInputError(f"shift must have shape {(scaled.size,)}; got {given.shape}")
    inside: FloatArray = np.ldexp(given[scaled.support], -scaled.exponent)
    return inside
