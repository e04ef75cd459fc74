r"""Initial points of the central path: from the zero point, or from the solution of a similar problem.

At the zero point the dual vector is :math:`\nu_0 = -\nabla \ell(0)`. The cold start takes a share of it that lies well
inside the feasible set, multiples of the identity for A and B, and equal weights. A warm start is a convex combination
of the cold one and the given point: the cold part keeps it off the boundary, where no step would be long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qsdp._utils.validation import FloatArray
from qsdp.losses import DataFit
from qsdp.relaxation.solvers.interior.newton import Newton

__all__ = ["Start", "cold_start", "warm_start"]

#: Share of the dual vector at the zero point that the start takes, times w to a power where the dual radius is only a
#: share w of what that vector needs; and the largest r, in multiples of the one that explains the targets along the
#: dual matrix. A quadratic loss takes fewer iterations from weights that add up to the dual radius.
_SHARE, _POWER, _REACH = 0.5, 0.5, 10.0
_QUADRATIC_SHARE, _QUADRATIC_POWER, _QUADRATIC_REACH = 0.8, 1.0, 4.0

#: The largest ratio of two rows of the dual matrix that counts as none.
_EVEN = 100.0

#: The gap above which a given pair is ignored, and the least and largest share of the cold start that is mixed in.
_FAR, _LEAST_SHARE, _LARGEST_SHARE = 0.5, 1e-2, 0.3


@dataclass(frozen=True)
class Start:
    """A start: nu (C, n), Y (C, 2, N, N), r (C,), z (C, N), and the dual radius of the path, see `cold_start`."""

    nu: FloatArray
    Y: FloatArray
    r: FloatArray
    z: FloatArray
    dual_radius: float


def cold_start(fit: DataFit, newton: Newton, nu: FloatArray, M: FloatArray, dual_radius: float, value: float) -> Start:
    """Return the start from the zero point, whose dual vector is nu, of shape (C, n), with matrices M of (C, N, N).

    M is not zero, the dual radius c is positive, and `value` is the loss at zero.
    """
    n_blocks, size = M.shape[:2]
    largest = float(np.abs(np.linalg.eigvalsh(M)).max())
    ratio = min(1.0, dual_radius / (size * largest))
    part, power, reach = (
        (_QUADRATIC_SHARE, _QUADRATIC_POWER, _QUADRATIC_REACH) if fit.quadratic else (_SHARE, _POWER, _REACH)
    )
    share = part * ratio**power
    weight = max(share / part * largest, dual_radius / size)
    roots = 1.0 if fit.weights is None else np.sqrt(fit.weights)
    moved = float(np.linalg.norm(roots * newton.forward(M)))
    explained = float(np.linalg.norm(roots * fit.target.T)) / max(moved, 1e-300) * largest
    rows = np.linalg.norm(M, axis=2)
    # Along M only its largest rows explain anything; where others are far smaller, they may need a much larger r.
    even = float(rows.max()) < _EVEN * float(rows.min())
    r = min(0.25 * value / dual_radius / n_blocks, reach * explained if even else np.inf)
    Y = np.zeros((n_blocks, 2, size, size))
    diagonal = np.arange(size)
    Y[..., diagonal, diagonal] = 0.5 * r
    return Start(share * nu, Y, np.full(n_blocks, r), np.full((n_blocks, size), weight), dual_radius)


def warm_start(cold: Start, newton: Newton, nu: FloatArray, Y: FloatArray, z: FloatArray, gap: float) -> Start | None:
    """Return the start near a pair of this certified relative gap, or None where that is too far from a solution.

    nu is in the closed domain of the conjugate, Y positive semidefinite with equal diagonals of A + B; of z only ratios
    matter.
    """
    r = np.diagonal(Y[:, 0] + Y[:, 1], axis1=1, axis2=2).max(axis=1)
    if gap > _FAR or not np.all(r > 0.0):
        return None
    size, dual_radius = z.shape[1], cold.dual_radius
    weights = np.maximum(z, 0.0)
    weights += 1e-6 * weights.mean(axis=1, keepdims=True)
    weights[~np.any(weights > 0.0, axis=1)] = 1.0
    roots = 1.0 / np.sqrt(weights)
    M = newton.adjoint(nu)
    scaled = np.abs(np.linalg.eigvalsh(M * roots[:, :, None] * roots[:, None, :])).max(axis=1)
    needed = scaled * weights.sum(axis=1)
    share = min(1.0, dual_radius / float(needed.max()))
    weights *= share * scaled[:, None]
    weights += (dual_radius - weights.sum(axis=1, keepdims=True)) / size
    # Off the boundary by more the less the pair is a solution.
    mixed = min(_LARGEST_SHARE, max(_LEAST_SHARE, gap))
    kept = 1.0 - mixed
    even = np.zeros_like(Y)
    diagonal = np.arange(size)
    even[..., diagonal, diagonal] = 0.5 * r[:, None, None]
    return Start(
        kept * share * nu + mixed * min(1.0, dual_radius / float(cold.z.sum(axis=1).max())) * cold.nu,
        kept * Y + mixed * even,
        r,
        kept * weights + mixed * dual_radius / size,
        dual_radius,
    )
