r"""The relaxation in factors of low rank, for hundreds of columns and any number of samples.

Optimal :math:`A = F F^T`, :math:`B = G G^T` have few columns where :math:`\beta` is large enough to generalise, and the
constraint :math:`\mathrm{diag}(A + B) = r \mathbf 1` says that the rows of :math:`E = [F, G]` lie on a sphere of
radius :math:`\sqrt r` (a last column that enters neither takes what a row does not need). On that manifold the
problem is smooth and without constraints,

.. math:: \min_{E}\; \ell(\mathcal{A}(F F^T - G G^T), y) + c r,

and is solved by a trust-region Newton method whose systems are solved by preconditioned conjugate gradients: products
of the data with thin matrices, no Gram matrix of the map and no kernel (Burer and Monteiro 2003; Boumal, Voroninski
and Bandeira 2016 for why local minima with enough columns are global). The dual vector at a point proves how far it is
from optimal, and columns are added along the eigenvectors that the proof lacks.
"""

from __future__ import annotations

from qsdp.relaxation.solvers.lowrank.solve import operations, solve_low_rank, unfit

__all__ = ["operations", "solve_low_rank", "unfit"]
