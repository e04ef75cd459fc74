"""Certificates of low-rank points by their dual vectors, and columns along violated dual constraints."""

from __future__ import annotations

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.tuning import INNER, NEGLIGIBLE, ROUGH
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem import dominating_weights
from qsdp.relaxation.evaluation import DirectEvaluation
from qsdp.relaxation.incumbent import Incumbent
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.solvers.lowrank.factor_objective import ObjectiveData, Point
from qsdp.relaxation.solvers.lowrank.factors import Directions
from qsdp.relaxation.spectra import decomposed

__all__ = ["CachedEvaluation", "offer"]


class CachedEvaluation(DirectEvaluation):
    """Evaluation through the data for a point whose predictions and adjoint are cached."""

    def __init__(self, instance: Instance, data: ObjectiveData) -> None:
        super().__init__(instance)
        self._data = data
        self._prediction: FloatArray | None = None
        self._M: FloatArray | None = None

    def cache(self, prediction: FloatArray, M: FloatArray) -> None:
        """Set the predictions and the adjoint for all points and dual vectors evaluated until the next call."""
        self._prediction, self._M = prediction, M

    def _predictions(self, T: FloatArray, weights: FloatArray) -> FloatArray:
        if self._prediction is not None:
            return self._prediction
        return super()._predictions(T, weights) if np.any(T) else np.zeros_like(self.instance.target)

    def _pulled(self, nu: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.adjoints(nu) if self._M is None else self._M, self.instance.no_weights

    def adjoints(self, nu: FloatArray) -> FloatArray:
        """Return the matrices of shape (K, N, N) of a dual vector of shape (n, C)."""
        return self._data.adjoints(nu)


def offer(incumbent: Incumbent, evaluation: CachedEvaluation, point: Point, tol: float) -> list[Directions]:
    """Offer the point and its dual vector to the incumbent; return each matrix's violated dual constraints.

    They are the eigenvectors that violate dual feasibility. If the gap exceeds `tol`, better weights are computed: the
    multipliers of the rows are the best weights only at an optimal point.
    """
    nu = evaluation.nu(point.nu)
    M = evaluation.adjoints(nu)
    evaluation.cache(point.prediction, M)
    incumbent.offer_point(*point.factors.matrices())
    floor = ROUGH * float(incumbent.gaps.max())
    data, z, directions = evaluation.instance.map, np.empty((len(M), M.shape[1])), []
    for k, (matrix, dual) in enumerate(zip(M, evaluation.instance.duals_of_matrices(nu), strict=True)):
        raised = _raised(matrix, np.maximum(point.z[:, k], 0.0), floor)
        values, vectors = decomposed(data, matrix, dual, 1.0 / np.sqrt(raised))
        z[k], violating = _corrected(raised, values, vectors)
        directions.append(violating)
    incumbent.offer_dual(nu, z)
    gap = float(incumbent.gaps.max())
    if gap > tol and not deadline.over():
        accuracy = min(ROUGH, INNER * gap)
        incumbent.offer_dual(nu, np.stack([dominating_weights(matrix, accuracy) for matrix in M]))
    return directions


def _raised(M: FloatArray, z: FloatArray, floor: float) -> FloatArray:
    """Make the weights positive: add a small multiple of the row sums to z."""
    sums = np.abs(M).sum(axis=1)
    total = float(sums.sum())
    raised = z + (floor * float(z.sum()) / total) * sums if total > 0.0 else np.ones_like(z)
    raised += NEGLIGIBLE * float(raised.mean()) + 1e-300
    return raised


def _corrected(z: FloatArray, values: FloatArray, vectors: FloatArray) -> tuple[FloatArray, Directions]:
    r"""Raise weights so that ``Diag(z) +- M`` are positive semidefinite up to rounding; also return the violations.

    `values` and `vectors` belong to M divided by the roots of z from both sides. The row sums of \|P\|, which dominate
    P, compensate the negative part -P of such a matrix. If few rows cause it, such as rows of rare features, this
    hardly loosens the bound, while scaling all of z would loosen it.
    """
    roots, added = np.sqrt(z), np.zeros_like(z)
    # A needs columns if M exceeds Diag(z), and B if -M does.
    violating = []
    for sign in (1.0, -1.0):
        excess = sign * values - 1.0
        order = np.argsort(-excess)[: int(np.sum(excess > 0.0))]
        weighted = roots[:, None] * vectors[:, order]
        added += np.abs((weighted * excess[order]) @ weighted.T).sum(axis=1)
        violating.append(vectors[:, order] / roots[:, None])
    return z + added, (violating[0], violating[1])
