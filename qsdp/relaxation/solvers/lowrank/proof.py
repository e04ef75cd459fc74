"""What a point proves, and along which columns it can be improved."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from qsdp._utils.deadline import Deadline, TimeOver
from qsdp._utils.validation import FloatArray
from qsdp.inner_problem import grothendieck_bound
from qsdp.relaxation.evaluation import DirectEvaluation, Ray
from qsdp.relaxation.incumbent import Incumbent
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.solvers.lowrank.factors import Directions
from qsdp.relaxation.solvers.lowrank.objective import Data, Point

__all__ = ["KnownEvaluation", "offer"]

#: What is added to the multipliers before their violations are looked for, in proportion to the row sums of M, is this
#: share of the gap, at most the limit: it loosens the bound by as much at most.
_FLOOR_SHARE, _LARGEST_FLOOR = 1e-2, 1e-4
#: Relative accuracy of the best weights for a matrix, as a share of the gap, and at most.
_WEIGHT_SHARE, _LARGEST_WEIGHT_GAP = 0.05, 1e-2


class KnownEvaluation(DirectEvaluation):
    """Evaluation through the data, of a point whose predictions and adjoint are known already.

    Parameters
    ----------
    instance : Instance
    data : Data
        Of the instance.
    """

    def __init__(self, instance: Instance, data: Data) -> None:
        super().__init__(instance)
        self._data = data
        self._prediction: FloatArray | None = None
        self._M: FloatArray | None = None

    def know(self, prediction: FloatArray, M: FloatArray) -> None:
        """Take the predictions of the points and the adjoint at the dual vectors that come until the next call."""
        shape = self.instance.target.shape
        self._prediction, self._M = prediction.reshape(shape), M

    def point(self, T: FloatArray) -> Ray:
        """Return the losses along the ray through T."""
        if self._prediction is None:
            return self.point_of(np.zeros_like(self.instance.target)) if not np.any(T) else super().point(T)
        return self.point_of(self._prediction)

    def dual(self, candidate: FloatArray) -> tuple[FloatArray, Ray]:
        r"""Return :math:`M_\nu` and the dual values along the ray."""
        nu = self.nu(candidate)
        M = self.adjoints(nu) if self._M is None else self._M
        return M, self.dual_of(nu)

    def adjoints(self, nu: FloatArray) -> FloatArray:
        """Return the matrices of shape (C, N, N) of a dual vector in the shape of the target."""
        columns = nu.T if nu.ndim == 2 else [nu]
        return np.stack([self._data.exact.adjoint(column) for column in columns])


def offer(incumbent: Incumbent, evaluation: KnownEvaluation, point: Point, tol: float) -> list[Directions]:
    """PricingResult the point and its dual vector; return what the proof lacks, as columns for every output.

    Where the gap exceeds `tol`, weights are looked for that prove more.
    """
    shape = evaluation.instance.target.shape
    nu = evaluation.nu(point.nu.reshape(shape))
    M = evaluation.adjoints(nu)
    evaluation.know(point.prediction, M)
    incumbent.offer_point(*point.factors.matrices())
    floor = min(_LARGEST_FLOOR, _FLOOR_SHARE * float(incumbent.gaps.max()))
    z, directions = np.empty((len(M), M.shape[1])), []
    for block, matrix in enumerate(M):
        if incumbent.deadline.late:
            raise TimeOver
        z[block], lacking = _corrected(matrix, np.maximum(point.z[:, block], 0.0), floor)
        directions.append(lacking)
    incumbent.offer_dual(nu, z)
    gap = float(incumbent.gaps.max())
    if gap > tol and not incumbent.expired:
        accuracy = min(_LARGEST_WEIGHT_GAP, _WEIGHT_SHARE * gap)
        incumbent.offer_dual(nu, np.stack([_best_weights(matrix, accuracy, incumbent.deadline) for matrix in M]))
    return directions


def _best_weights(M: FloatArray, accuracy: float, deadline: Deadline) -> FloatArray:
    """Return weights with ``Diag(z) +- M`` positive semidefinite of nearly the least sum.

    The multipliers of the rows are these only where the point is optimal.
    """
    z = grothendieck_bound(M, tol=accuracy, time_limit=deadline.time_limit).z
    weights: FloatArray = z[: len(M)] + z[len(M) :]
    return weights


def _corrected(M: FloatArray, z: FloatArray, floor: float) -> tuple[FloatArray, Directions]:
    r"""Return weights with ``Diag(z) +- M`` positive semidefinite, but for rounding, and what was lacking for that.

    The negative part -P of such a matrix is made up for by the row sums of \|P\|, which dominate P: where few rows
    are to blame, as those of rare features, that costs the bound next to nothing, while scaling all of z would.
    """
    sums = np.abs(M).sum(axis=1)
    total = float(sums.sum())
    raised = z + (floor * float(z.sum()) / total) * sums if total > 0.0 else np.ones_like(z)
    raised += 1e-12 * float(raised.mean()) + 1e-300
    roots = np.sqrt(raised)
    values, vectors = scipy.linalg.eigh(M / np.outer(roots, roots), check_finite=False)
    added = np.zeros_like(z)
    # The columns of A lack where M exceeds Diag(z), those of B where -M does.
    lacking = []
    for sign in (1.0, -1.0):
        excess = sign * values - 1.0
        order = np.argsort(-excess)[: int(np.sum(excess > 0.0))]
        weighted = roots[:, None] * vectors[:, order]
        added += np.abs((weighted * excess[order]) @ weighted.T).sum(axis=1)
        lacking.append(vectors[:, order] / roots[:, None])
    return raised + added, (lacking[0], lacking[1])
