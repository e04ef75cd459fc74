r"""Oracle of polynomial networks: :math:`\max_q |q^T K q|` over levels."""

from __future__ import annotations

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import CANCELLED, DIGITS
from qsdp._utils.tuning import MOST_STEPS, PATIENCE
from qsdp._utils.validation import FloatArray, check_flag, check_integer
from qsdp.pricing.form_tree import FormTree
from qsdp.pricing.oracle import Oracle
from qsdp.pricing.pool import CENTRES, FormPool
from qsdp.pricing.result import SignArray
from qsdp.pricing.scaling import Scaled
from qsdp.training_data import check_levels

__all__ = ["PolynomialOracle"]

#: Maximum rounds of kicks, and coordinates redrawn by a kick; a hundred rounds take six times as long for no gain.
_ROUNDS, _REDRAWN = 6, 3


class PolynomialOracle(Oracle[FormPool]):
    r"""Pricing oracle for the largest :math:`|q^T K q|` over :math:`q \in \{-M, -M + 2, \dots, M\}^d`.

    Both signs of the form are covered: enumeration evaluates them at once, branch and bound has a tree for each.

    Parameters
    ----------
    n_features : int
        d.
    levels : int
        M + 1, from 2 to 128.
    lifted : bool
        Whether q has one more entry, fixed at +1; K is then of side d + 1.
    enumerated : int, default=2**20
        Number of vectors up to which all are enumerated instead of branching, which takes milliseconds.

    Examples
    --------
    >>> import numpy as np
    >>> from qsdp.pricing import PolynomialOracle
    >>> best = PolynomialOracle(2, 3, False).prove(np.array([[1.0, -1.0], [-1.0, 0.0]]), threshold=5.0)
    >>> best.value, best.exact, best.U.tolist(), best.sign.tolist()
    (12.0, True, [[2, -2]], [1])
    """

    def __init__(self, n_features: int, levels: int, lifted: bool, *, enumerated: int = 2**20) -> None:
        self.n_features = check_integer("n_features", n_features, minimum=1)
        self.levels = check_levels(levels)
        self.lifted = check_flag("lifted", lifted)
        self.enumerated = check_integer("enumerated", enumerated, minimum=0)
        self.size = self.n_features + self.lifted

    def _pool(self, scaled: Scaled, threshold: float, max_atoms: int, incumbent: float, slack: float) -> FormPool:
        return FormPool(scaled.M, threshold, max_atoms, incumbent, slack, even=not self._fixes(scaled))

    def _draw(self, rng: np.random.Generator, count: int, free: int, size: int) -> FloatArray:
        return random_levels(rng, count, free, size, self.levels)

    def _improve(self, pool: FormPool, starts: FloatArray, free: int, rng: np.random.Generator) -> None:
        improve_forms(pool, starts, free, self.levels, rng)

    def _tree(self, scaled: Scaled, pool: FormPool) -> FormTree:
        return FormTree(scaled, pool, self.levels, self._fixes(scaled), self.enumerated)

    def _atoms(self, scaled: Scaled, pool: FormPool) -> tuple[SignArray, SignArray, SignArray]:
        atoms = pool.atoms.reshape(len(pool.values), len(scaled.M))
        Q = scaled.expand(atoms, self.levels - 1)
        if self.lifted:
            Q[:, -1] = 1
        forms = np.einsum("ij,ij->i", atoms @ scaled.M, atoms)
        return Q, Q, np.where(forms >= 0.0, 1, -1).astype(np.int8)


def random_levels(rng: np.random.Generator, count: int, free: int, size: int, levels: int) -> FloatArray:
    """Draw `count` vectors of random levels, with +1 in the coordinates from `free` on."""
    Q = np.ones((count, size))
    Q[:, :free] = 2.0 * rng.integers(0, levels, size=(count, free)) - (levels - 1.0)
    return Q


def ascend(
    K: FloatArray,
    Q: FloatArray,
    sign: FloatArray,
    free: int,
    levels: int,
) -> FloatArray:
    """Increase ``sign q' K q`` by coordinate ascent from the rows of Q.

    Only the first `free` coordinates change. Most starts settle within ten sweeps.
    """
    Q, top = Q.copy(), levels - 1.0
    active = np.arange(len(Q))
    for _ in range(MOST_STEPS):
        if len(active) == 0:
            break
        rows, s = Q[active].T.copy(), sign[active]
        G = (K @ rows) * s
        changed = np.zeros(len(active), dtype=bool)
        for j in range(free):
            old = rows[j]
            curvature = K[j, j] * s
            h = G[j] - curvature * old
            # The form is curvature t^2 + 2 h t, largest at an end if convex and near the vertex if concave.
            new = np.where(h >= 0.0, top, -top)
            concave = curvature < 0.0
            if levels > 2 and concave.any():
                vertex = -h[concave] / curvature[concave]
                new[concave] = np.clip(2.0 * np.rint(0.5 * (vertex + top)) - top, -top, top)
            gain = (new - old) * (2.0 * h + curvature * (new + old))
            better = gain > CANCELLED * (np.abs(h) + np.abs(curvature))
            moved = np.flatnonzero(better)
            if 4 * len(moved) > len(better):
                # Updating all columns is cheaper than selecting the changed ones.
                step = (new - old) * better
                G += K[j][:, None] * (step * s)
                rows[j] = old + step
            elif len(moved):
                G[:, moved] += np.outer(K[j], (new - old)[moved] * s[moved])
                rows[j, moved] = new[moved]
            changed |= better
        Q[active] = rows.T
        active = active[changed]
    return Q


def improve_forms(
    pool: FormPool,
    Q: FloatArray,
    free: int,
    levels: int,
    rng: np.random.Generator,
) -> None:
    """Local search for both signs: add to the pool the optima reached from the rows of `Q` and near the best optima.

    In each round the best optima are perturbed several times each; a perturbation redraws a few coordinates.
    """
    pool.add(Q)
    sign = np.repeat([1.0, -1.0], len(Q))
    Q = ascend(pool.M, np.vstack([Q, Q]), sign, free, levels)
    values = pool.add(Q)
    for _ in deadline.in_time(range(_ROUNDS if free else 0)):
        centres = np.argsort(-values, kind="stable")
        _, distinct = np.unique(np.round(values[centres], DIGITS), return_index=True)
        centres = centres[np.sort(distinct)[:CENTRES]]
        least = values[centres].min()
        kicked, s = np.repeat(Q[centres], PATIENCE, axis=0), np.repeat(sign[centres], PATIENCE)
        where = rng.integers(0, free, size=(len(kicked), _REDRAWN))
        drawn = random_levels(rng, len(kicked), _REDRAWN, _REDRAWN, levels)
        np.put_along_axis(kicked, where, drawn, axis=1)
        moved = ascend(pool.M, kicked, s, free, levels)
        gained = pool.add(moved)
        better = gained > least
        if not better.any():
            return
        Q, values = np.vstack([Q, moved[better]]), np.concatenate([values, gained[better]])
        sign = np.concatenate([sign, s[better]])
