"""Heuristics for the largest magnitude of q' K q over levels: coordinate ascent from many starts, and kicks."""

from __future__ import annotations

import numpy as np

from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.validation import FloatArray
from qsdp.pricing.pool import FormPool

__all__ = ["ascend", "improve_forms", "random_levels"]


def random_levels(rng: np.random.Generator, count: int, free: int, size: int, levels: int) -> FloatArray:
    """Draw `count` vectors, +1 in the coordinates from `free` on."""
    Q = np.ones((count, size))
    Q[:, :free] = 2.0 * rng.integers(0, levels, size=(count, free)) - (levels - 1.0)
    return Q


def ascend(
    K: FloatArray,
    Q: FloatArray,
    sign: FloatArray,
    free: int,
    levels: int,
    deadline: Deadline = NEVER,
    sweeps: int = 60,
) -> FloatArray:
    """Return the rows to which the best change of one coordinate at a time leads; ``sign q' K q`` never falls.

    Parameters
    ----------
    K : ndarray of shape (N, N)
    Q : ndarray of shape (k, N)
    sign : ndarray of shape (k,)
    free : int
        Number of coordinates that may change, the first ones.
    levels : int
    deadline : Deadline
        Looked at before every coordinate.
    sweeps : int, default=60
        Largest number of sweeps through the coordinates; most starts settle within ten.
    """
    Q, top = Q.copy(), levels - 1.0
    active = np.arange(len(Q))
    for _ in range(sweeps):
        if len(active) == 0 or deadline.over:
            break
        rows, s = Q[active].T.copy(), sign[active]
        G = (K @ rows) * s
        changed = np.zeros(len(active), dtype=bool)
        for j in range(free):
            if deadline.over:
                break
            old = rows[j]
            curvature = K[j, j] * s
            h = G[j] - curvature * old
            # The form is curvature t^2 + 2 h t: convex ones are largest at an end, concave ones near the vertex.
            new = np.where(h >= 0.0, top, -top)
            concave = curvature < 0.0
            if levels > 2 and concave.any():
                vertex = -h[concave] / curvature[concave]
                new[concave] = np.clip(2.0 * np.rint(0.5 * (vertex + top)) - top, -top, top)
            gain = (new - old) * (2.0 * h + curvature * (new + old))
            better = gain > 1e-13 * (np.abs(h) + np.abs(curvature))
            moved = np.flatnonzero(better)
            if 4 * len(moved) > len(better):
                # Cheaper than picking columns.
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
    deadline: Deadline = NEVER,
    *,
    n_centres: int = 20,
    n_kicks: int = 15,
    n_redrawn: int = 3,
    rounds: int = 6,
) -> None:
    """Add to the pool the local optima of both signs reached from the rows of `Q`, and those around the best.

    In each of some `rounds`, the best `n_centres` optima are kicked `n_kicks` times each: `n_redrawn` coordinates
    are drawn anew.
    """
    pool.add(Q)
    sign = np.repeat([1.0, -1.0], len(Q))
    Q = ascend(pool.M, np.vstack([Q, Q]), sign, free, levels, deadline)
    values = pool.add(Q)
    for _ in range(rounds if free else 0):
        if deadline.over:
            return
        centres = np.argsort(-values, kind="stable")
        _, distinct = np.unique(np.round(values[centres], 12), return_index=True)
        centres = centres[np.sort(distinct)[:n_centres]]
        least = values[centres].min()
        kicked, s = np.repeat(Q[centres], n_kicks, axis=0), np.repeat(sign[centres], n_kicks)
        where = rng.integers(0, free, size=(len(kicked), n_redrawn))
        drawn = random_levels(rng, len(kicked), n_redrawn, n_redrawn, levels)
        np.put_along_axis(kicked, where, drawn, axis=1)
        moved = ascend(pool.M, kicked, s, free, levels, deadline)
        gained = pool.add(moved)
        better = gained > least
        if not better.any():
            return
        Q, values = np.vstack([Q, moved[better]]), np.concatenate([values, gained[better]])
        sign = np.concatenate([sign, s[better]])
