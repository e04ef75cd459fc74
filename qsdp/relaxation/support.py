"""Rows and columns of the matrices that the data do not reach, as those of zero columns: taken out and put back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qsdp.lifting import QuadraticMap
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution

__all__ = ["expanded", "reached", "restrict_start", "restricted"]


def reached(data: QuadraticMap) -> np.ndarray:
    """Return which rows and columns of the matrices the data reach at all."""
    kept = np.ones(data.size, dtype=bool)
    a, b, c = data.coefficients
    d = data.X.shape[1]
    kept[:d] = np.any(data.X != 0.0, axis=0) & (a != 0.0 or (data.lifted and b != 0.0))
    if data.lifted:
        kept[d] = c != 0.0 or (b != 0.0 and bool(np.any(data.X)))
    return kept


def restricted(data: QuadraticMap, kept: np.ndarray) -> QuadraticMap:
    """Return the map without the others; one stays where the data reach none."""
    d = data.X.shape[1]
    if not np.any(kept):
        kept = np.arange(data.size) == 0
    return replace(data, X=data.X[:, kept[:d]], lifted=data.lifted and bool(kept[d]))


def expanded(raw: RawSolution, kept: np.ndarray) -> RawSolution:
    """Return the solution with the rows and columns that were left out: no coupling, the common diagonal."""
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
    """Return the part of a given solution that belongs to output k, without the rows that are left out."""
    if start is None or start.Z is None or start.V is None or start.nu is None or start.z is None:
        return None
    blocks = slice(k, k + 1) if instance.separable else slice(None)
    if start.Z.shape[1:] != (len(kept), len(kept)) or start.V.shape != start.Z.shape or start.z.shape[1:] != kept.shape:
        return None
    nu = start.nu if blocks == slice(None) else start.nu[:, k]
    Z, V = (np.asarray(M)[blocks][:, kept][:, :, kept] for M in (start.Z, start.V))
    return replace(start, Z=Z, V=V, W=V, nu=nu, z=start.z[blocks][:, kept])
