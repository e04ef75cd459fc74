r"""The oracle of polynomial networks: :math:`\max_q |q^T K q|` over levels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from qsdp._utils.deadline import Deadline
from qsdp._utils.validation import check_flag, check_integer, check_real
from qsdp.pricing.arguments import check_rows, check_seed
from qsdp.pricing.form_search import improve_forms, random_levels
from qsdp.pricing.form_tree import FormTree
from qsdp.pricing.pool import FormPool
from qsdp.pricing.result import Price, PriceTree
from qsdp.pricing.scaling import Scaled

__all__ = ["PolynomialOracle"]

#: Random starts of the search that precedes a proof.
_STARTS = 100


class PolynomialOracle:
    r"""Searches for, and proves, the largest :math:`|q^T K q|` over :math:`q \in \{-M, -M + 2, \dots, M\}^d`.

    Parameters
    ----------
    n_features : int
        d.
    levels : int
        M + 1, from 2 to 128.
    lifted : bool
        Whether q has one more entry, fixed at +1; K is then of side d + 1.
    enumerated : int, default=2**26
        Number of vectors up to which all of them may be enumerated: at most half a second.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.pricing import PolynomialOracle
    >>> price = PolynomialOracle(2, 3, False).prove(np.array([[1.0, -1.0], [-1.0, 0.0]]), threshold=5.0)
    >>> price.value, price.exact, price.U.tolist(), price.sign.tolist()
    (12.0, True, [[2, -2]], [1])
    """

    def __init__(self, n_features: int, levels: int, lifted: bool, *, enumerated: int = 2**26) -> None:
        self.n_features = check_integer("n_features", n_features, minimum=1)
        self.levels = check_integer("levels", levels, minimum=2, maximum=128)
        self.lifted = check_flag("lifted", lifted)
        self.enumerated = check_integer("enumerated", enumerated, minimum=0)
        self.size = self.n_features + self.lifted

    def search(
        self,
        M: Any,
        *,
        threshold: float = 0.0,
        starts: Any = None,
        n_starts: int = 300,
        max_atoms: int = 200,
        rng: np.random.Generator,
    ) -> Price:
        """Return the best local optima found by coordinate ascent, for both signs of the form.

        Parameters
        ----------
        M : ndarray of shape (N, N)
            K, symmetric.
        threshold : float, default=0.0
            Only atoms of a larger price are returned.
        starts : ndarray of shape (k, N), optional
            Vectors q to start from.
        n_starts : int, default=300
            Number of random starts besides.
        max_atoms : int, default=200
            Largest number of atoms returned.
        rng : numpy.random.Generator

        Returns
        -------
        Price
            With an infinite upper bound.
        """
        scaled = Scaled.of(M, self.size)
        check_integer("n_starts", n_starts, minimum=0)
        pool = self._pool(scaled, threshold, max_atoms)
        Q = random_levels(rng, n_starts, self.n_features, self.size, self.levels)
        if starts is not None:
            given = check_rows(starts, self.size)
            if self.lifted:
                # q and -q are the same neuron only together with the constant.
                given = given * given[:, -1:]
            Q = np.vstack([given, Q])
        if len(Q) and len(scaled.M):
            free = len(scaled.M) - self._fixes(scaled)
            improve_forms(pool, Q[:, scaled.support], free, self.levels, rng)
        return self._price(scaled, pool, math.inf, False, ())

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
        r"""Return the largest price of both signs with an upper bound, and the trees that prove it.

        Parameters
        ----------
        M : ndarray of shape (N, N)
            K, symmetric.
        threshold, max_atoms, incumbent, slack, time_limit, interrupted :
            As for `BilinearOracle.prove`.
        shift : ndarray of shape (N,), optional
            A z for which ``Diag(z) + K`` and ``Diag(z) - K`` are about positive semidefinite.

        Returns
        -------
        Price

        Notes
        -----
        Enumeration evaluates both signs at once; beyond it every sign has its tree (see `FormTree`).
        """
        scaled = Scaled.of(M, self.size)
        slack = check_real("slack", slack)
        pool = self._pool(scaled, threshold, max_atoms, check_real("incumbent", incumbent), slack)
        deadline = Deadline.after(time_limit, wish=interrupted)
        seed = check_seed(shift, scaled)
        fixes = self._fixes(scaled)
        if len(scaled.M):
            rng = np.random.default_rng(0)
            free = len(scaled.M) - fixes
            Q = random_levels(rng, _STARTS, free, len(scaled.M), self.levels)
            improve_forms(pool, Q, free, self.levels, rng)
        tree = FormTree(scaled, pool, self.levels, fixes, float(self.enumerated), deadline)
        upper, exact = tree.prove(seed)
        return self._price(scaled, pool, scaled.outside(upper), exact, tree.trees())

    def _fixes(self, scaled: Scaled) -> bool:
        """Return whether the entry fixed at +1 has any part in the form."""
        return bool(self.lifted and len(scaled.support) and scaled.support[-1] == self.size - 1)

    def _pool(
        self, scaled: Scaled, threshold: float, max_atoms: int, incumbent: float = 0.0, slack: float = 0.0
    ) -> FormPool:
        inside = scaled.inside(check_real("threshold", threshold))
        atoms = check_integer("max_atoms", max_atoms, minimum=0)
        return FormPool(scaled.M, inside, atoms, scaled.inside(incumbent), slack, even=not self._fixes(scaled))

    def _price(self, scaled: Scaled, pool: FormPool, upper: float, exact: bool, trees: tuple[PriceTree, ...]) -> Price:
        atoms = pool.atoms.reshape(len(pool.values), len(scaled.M))
        Q = scaled.expand(atoms, self.levels - 1)
        if self.lifted:
            Q[:, -1] = 1
        forms = np.einsum("ij,ij->i", atoms @ scaled.M, atoms)
        return Price(
            value=scaled.outside(pool.best),
            upper=upper,
            exact=exact,
            U=Q,
            V=Q,
            values=np.ldexp(pool.values, scaled.exponent),
            trees=trees,
            sign=np.where(forms >= 0.0, 1, -1).astype(np.int8),
        )
