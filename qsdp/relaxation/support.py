"""Presolve: take out rows and columns of the matrices that do not enter the predictions, and put them back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qsdp.lifting import QuadraticMap
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution

__all__ = ["active_coordinates", "expand", "restrict", "restrict_start"]


def active_coordinates(data: QuadraticMap) -> np.ndarray:
    """Return a mask of the rows and columns of the matrices on which predictions depend, shape (N,)."""
    kept = np.ones(data.size, dtype=bool)
    a, b, c = data.coefficients
    d = data.X.shape[1]
    kept[:d] = np.any(data.X != 0.0, axis=0) & (a != 0.0 or (data.lifted and b != 0.0))
    if data.lifted:
        kept[d] = c != 0.0 or (b != 0.0 and bool(np.any(data.X)))
    return kept


def restrict(data: QuadraticMap, kept: np.ndarray) -> QuadraticMap:
    """Return the map of the kept coordinates; the first stays where none is active."""
    d = data.X.shape[1]
    if not np.any(kept):
        kept = np.arange(data.size) == 0
    return replace(data, X=data.X[:, kept[:d]], lifted=data.lifted and bool(kept[d]))


def expand(raw: RawSolution, kept: np.ndarray) -> RawSolution:
    """Return the solution in all coordinates; those left out have the common diagonal and no coupling."""
    assert raw.Z is not None
    assert raw.V is not None
    assert raw.z is not None
    if not np.any(kept):
        kept = np.arange(len(kept)) == 0
    shape = (len(raw.Z), len(kept), len(kept))
    Z, V, z = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])
    inner = np.ix_(np.arange(len(raw.Z)), kept, kept)
    Z[inner], V[inner], z[:, kept] = raw.Z, raw.V, raw.z
    outer = np.flatnonzero(~kept)
    V[:, outer, outer] = np.diagonal(raw.V, axis1=1, axis2=2).max(axis=1, keepdims=True)
    return replace(raw, Z=Z, V=V, W=V, z=z)


def restrict_start(start: RawSolution | None, instance: Instance, kept: np.ndarray, k: int) -> RawSolution | None:
    """Return the part of a given solution that belongs to output k, in the kept coordinates."""
    if start is None or start.Z is None or start.V is None or start.nu is None or start.z is None:
        return None
    blocks = slice(k, k + 1) if instance.separable else slice(None)
    if start.Z.shape[1:] != (len(kept), len(kept)) or start.V.shape != start.Z.shape or start.z.shape[1:] != kept.shape:
        return None
    nu = start.nu if blocks == slice(None) else start.nu[:, k]
    Z, V = (np.asarray(M)[blocks][:, kept][:, :, kept] for M in (start.Z, start.V))
    return replace(start, Z=Z, V=V, W=V, nu=nu, z=start.z[blocks][:, kept])
