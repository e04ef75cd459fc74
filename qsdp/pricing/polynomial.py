r"""The oracle of polynomial networks: :math:`\max_q |q^T K q|` over levels."""

from __future__ import annotations

import numpy as np

from qsdp._utils.deadline import Deadline
from qsdp._utils.validation import FloatArray, check_flag, check_integer
from qsdp.pricing.form_search import improve_forms, random_levels
from qsdp.pricing.form_tree import FormTree
from qsdp.pricing.oracle import Oracle
from qsdp.pricing.pool import FormPool
from qsdp.pricing.result import SignArray
from qsdp.pricing.scaling import Scaled

__all__ = ["PolynomialOracle"]


class PolynomialOracle(Oracle[FormPool]):
    r"""Searches for, and proves, the largest :math:`|q^T K q|` over :math:`q \in \{-M, -M + 2, \dots, M\}^d`.

    Both signs of the form are covered: enumeration evaluates them at once, branch and bound has a tree for each.

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
    >>> best = PolynomialOracle(2, 3, False).prove(np.array([[1.0, -1.0], [-1.0, 0.0]]), threshold=5.0)
    >>> best.value, best.exact, best.U.tolist(), best.sign.tolist()
    (12.0, True, [[2, -2]], [1])
    """

    def __init__(self, n_features: int, levels: int, lifted: bool, *, enumerated: int = 2**26) -> None:
        self.n_features = check_integer("n_features", n_features, minimum=1)
        self.levels = check_integer("levels", levels, minimum=2, maximum=128)
        self.lifted = check_flag("lifted", lifted)
        self.enumerated = check_integer("enumerated", enumerated, minimum=0)
        self.size = self.n_features + self.lifted

    def _pool(self, scaled: Scaled, threshold: float, max_atoms: int, incumbent: float, slack: float) -> FormPool:
        return FormPool(scaled.M, threshold, max_atoms, incumbent, slack, even=not self._fixes(scaled))

    def _draw(self, rng: np.random.Generator, count: int, free: int, size: int) -> FloatArray:
        return random_levels(rng, count, free, size, self.levels)

    def _improve(
        self, pool: FormPool, starts: FloatArray, free: int, rng: np.random.Generator, deadline: Deadline
    ) -> None:
        improve_forms(pool, starts, free, self.levels, rng, deadline)

    def _tree(self, scaled: Scaled, pool: FormPool, deadline: Deadline) -> FormTree:
        return FormTree(scaled, pool, self.levels, self._fixes(scaled), float(self.enumerated), deadline)

    def _atoms(self, scaled: Scaled, pool: FormPool) -> tuple[SignArray, SignArray, SignArray]:
        atoms = pool.atoms.reshape(len(pool.values), len(scaled.M))
        Q = scaled.expand(atoms, self.levels - 1)
        if self.lifted:
            Q[:, -1] = 1
        forms = np.einsum("ij,ij->i", atoms @ scaled.M, atoms)
        return Q, Q, np.where(forms >= 0.0, 1, -1).astype(np.int8)
