r"""The relaxation in low-rank factors, for hundreds of columns and any number of samples.

The factors of optimal :math:`A = F F^T`, :math:`B = G G^T` have few columns if :math:`\beta` is large enough to
generalise. The constraint :math:`\mathrm{diag}(A + B) = r \mathbf 1` says that the rows of :math:`E = [F, G]` lie on a
sphere of radius :math:`\sqrt r` (a slack column, which enters neither matrix, completes the rows). On this manifold the
problem is smooth and unconstrained,

.. math:: \min_{E}\; \ell(\mathcal{A}(F F^T - G G^T), y) + c r,

and is solved by a trust-region Newton method with preconditioned conjugate gradients. This takes products of the data
with thin matrices, but no Gram matrix of the map and no kernel (Burer and Monteiro 2003; Boumal, Voroninski and
Bandeira 2016 for why local minima with enough columns are global). The dual vector at a point proves how far the
point is from optimal. Columns are added along the eigenvectors that violate dual feasibility.
"""

from __future__ import annotations

from qsdp.relaxation.solvers.lowrank.low_rank import operations, solve_low_rank, unfit

__all__ = ["operations", "solve_low_rank", "unfit"]
