r"""The oracle of bilinear networks: :math:`\max_{u, v} |u^T M v| = \max_u \|Mu\|_1`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.validation import check_integer, check_real
from qsdp.pricing.arguments import check_rows, check_seed
from qsdp.pricing.bilinear_tree import BilinearTree
from qsdp.pricing.pool import PairPool
from qsdp.pricing.result import Price, PriceTree
from qsdp.pricing.scaling import Scaled
from qsdp.pricing.search import improve

__all__ = ["BilinearOracle", "tree_upper"]

#: Random starts of the search that precedes a proof.
_STARTS = 100


class BilinearOracle:
    r"""Searches for, and proves, the largest :math:`|u^T M v|` over :math:`u, v \in \{\pm1\}^N`.

    Parameters
    ----------
    size : int
        N.
    enumerated : int, default=40
        Number of free coordinates up to which all vectors may be enumerated, if that is faster than branching
        and within the time limit: at worst two seconds for 33, and 1.9 times as many for each one more.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.pricing import BilinearOracle
    >>> price = BilinearOracle(3).prove(np.array([[1.0, 2.0, 0.0], [2.0, -1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> price.value, price.exact, price.upper - price.value < 1e-12
    (5.0, True, True)
    """

    def __init__(self, size: int, *, enumerated: int = 40) -> None:
        self.size = check_integer("size", size, minimum=1)
        self.enumerated = check_integer("enumerated", enumerated, minimum=0, maximum=40)

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
    ) -> Price:
        """Return the best local optima found by alternation and sign flips.

        Parameters
        ----------
        M : ndarray of shape (N, N)
            Symmetric.
        threshold : float, default=0.0
            Only atoms of a larger price are returned.
        starts : ndarray of shape (k, N), optional
            Sign vectors u to start from.
        n_starts : int, default=300
            Number of random starts besides.
        max_atoms : int, default=200
            Largest number of atoms returned.
        rng : numpy.random.Generator
        time_limit : float, optional
            Seconds after which to stop with what was found by then.

        Returns
        -------
        Price
            With an infinite upper bound.
        """
        deadline = Deadline.after(time_limit)
        scaled = Scaled.of(M, self.size)
        check_integer("n_starts", n_starts, minimum=0)
        pool = _pool(scaled, threshold, max_atoms)
        U = rng.choice([-1.0, 1.0], size=(n_starts, self.size))
        if starts is not None:
            given = check_rows(starts, self.size)
            U = np.vstack([given, U])
        if len(U) and len(scaled.M):
            improve(pool, U[:, scaled.support], deadline)
        return _price(scaled, pool, math.inf, False, ())

    def prove(
        self,
        M: Any,
        *,
        threshold: float = 0.0,
        max_atoms: int = 200,
        incumbent: float = 0.0,
        slack: float = 0.0,
        time_limit: float | None = None,
        shift: Any = None,
        interrupted: Callable[[], bool] | None = None,
    ) -> Price:
        r"""Return the largest price with an upper bound, and the tree that proves it.

        Parameters
        ----------
        M : ndarray of shape (N, N)
            Symmetric.
        threshold : float, default=0.0
            Only atoms of a larger price are returned, and of those met the best; none is sought that is more
            than one per cent below the best price.
        max_atoms : int, default=200
            Largest number of atoms returned.
        incumbent : float, default=0.0
            A price known to be attained: nothing below it is examined.
        slack : float, default=0.0
            Relative excess over the best price that need not be found; `upper` includes it.
        time_limit : float, optional
            Seconds after which to stop with what is proven by then.
        shift : ndarray of shape (N,), optional
            A z for which ``Diag(z) + M`` and ``Diag(z) - M`` are about positive semidefinite, such as a
            `DualBound`'s; the better, the better the first bound.
        interrupted : callable, optional
            Polled often; once true, the proof stops as at the time limit.

        Returns
        -------
        Price

        Notes
        -----
        Up to `enumerated` coordinates all vectors are enumerated (see `Enumeration`), beyond it best-first
        branch and bound with a diagonal shift a node (see `shift_bound`).
        """
        scaled = Scaled.of(M, self.size)
        slack = check_real("slack", slack)
        pool = _pool(scaled, threshold, max_atoms, check_real("incumbent", incumbent), slack)
        deadline = Deadline.after(time_limit, wish=interrupted)
        seed = check_seed(shift, scaled)
        _warm(pool, deadline)
        tree = BilinearTree(scaled, pool, self.enumerated, deadline)
        upper, exact = tree.prove(seed)
        return _price(scaled, pool, scaled.outside(upper), exact, (tree.tree(),))


def tree_upper(M: Any, tree: PriceTree) -> float:
    r"""Return the bound on :math:`\max_{u, v} u^T M v` that a tree of a bilinear oracle proves, from scratch.

    Leaves with a shift are bounded by `shift_bound`, the others enumerated. Whether the leaves cover all
    vectors is not checked.
    """
    scaled = Scaled.of(M, len(tree.order))
    pool = _pool(scaled, 0.0, 0)
    _warm(pool, NEVER)
    return scaled.outside(BilinearTree(scaled, pool, 0, NEVER).verify(tree))


def _warm(pool: PairPool, deadline: Deadline) -> None:
    """Find a good price, so that little has to be told apart from it."""
    if len(pool.M):
        improve(pool, np.random.default_rng(0).choice([-1.0, 1.0], size=(_STARTS, len(pool.M))), deadline)


def _pool(scaled: Scaled, threshold: float, max_atoms: int, incumbent: float = 0.0, slack: float = 0.0) -> PairPool:
    inside = scaled.inside(check_real("threshold", threshold))
    atoms = check_integer("max_atoms", max_atoms, minimum=0)
    return PairPool(scaled.M, inside, atoms, scaled.inside(incumbent), slack)


def _price(scaled: Scaled, pool: PairPool, upper: float, exact: bool, trees: tuple[PriceTree, ...]) -> Price:
    U, V = pool.pairs
    return Price(
        value=scaled.outside(pool.best),
        upper=upper,
        exact=exact,
        U=scaled.expand(U),
        V=scaled.expand(V),
        values=np.ldexp(pool.values, scaled.exponent),
        trees=trees,
        sign=np.ones(len(U), dtype=np.int8),
    )
