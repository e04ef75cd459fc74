"""Coordinate descent over single first-layer weights for a squared loss, by second moments of the data."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.numeric import CANCELLED, ROUNDING
from qsdp._utils.validation import FloatArray
from qsdp.networks.weights import owners_of
from qsdp.problem import TrainingProblem
from qsdp.refinement._descent import LARGEST_BATCH, CoordinateDescent, IntArray, Neurons
from qsdp.refinement._moments import Moments
from qsdp.refinement._samples import SMALL

__all__ = ["MomentDescent"]

#: Number of moves that are tried in pairs.
_PAIRED = 128


class MomentDescent(CoordinateDescent):
    r"""Coordinate descent for a squared loss by second moments, at a cost independent of the number of rows.

    With one side of all neurons fixed, the loss is quadratic in the other one. Let g be the loss gradient,
    :math:`M_c = \sum_i g_{ic} \mathcal{X}_i`, and :math:`H_k` the sum of the outer products of the k-th rows of
    :math:`\mathcal{X}_i` with themselves. The derivative in :math:`u_{jk}` is :math:`\sum_c \alpha_{jc} (M_c v_j)_k`,
    and the second derivative in :math:`u_{jk}` and :math:`u_{lk}` is :math:`2\, \alpha_j^T \alpha_l\, v_j^T H_k v_l`.
    So the effect of every move of the entries k of the sides is known exactly, and the best move is made until none
    helps, separately for neurons of different outputs. :math:`M_c` then changes by one product with the Gram matrix.
    """

    def __init__(self, problem: TrainingProblem, network: Neurons, data: Moments) -> None:
        self.moments = data
        super().__init__(problem, network, data)

    def images(self, rows: slice = slice(None)) -> FloatArray:
        r"""Return the outputs :math:`u_j^T \mathcal{X}_i v_j` of neurons, of shape (n, B)."""
        return self.moments.map.products(self.U[rows], self.V[rows])

    @property
    def batch_size(self) -> int:
        """Number of neurons whose second-layer weights move together."""
        return LARGEST_BATCH

    def sweep(self, *, thorough: bool) -> int:
        """Try moves of both sides of every neuron, and return how many were accepted.

        A cheap sweep makes the best of all moves of one side, or, if there are many, moves the entries k of all
        neurons, for one k after the other. A thorough sweep also makes pairs of moves once no single one helps.
        """
        slopes = self.moments.map.adjoints(self.gradient)
        return self._move(self.U, self.V, slopes, thorough) + self._move(self.V, self.U, slopes, thorough)

    def _move(self, moving: IntArray, other: IntArray, slopes: FloatArray, thorough: bool) -> int:
        """Move entries of one side until none helps, and update the slopes (C, N, N) of the loss."""
        sides = [_Side(self, members, moving, other) for members in self._groups()]
        # The best of all moves takes a product of these sizes.
        few = self.moments.size * max(len(self.moments.gram), *(side.weights.size for side in sides)) <= SMALL
        if thorough or few:
            for side in sides:
                side.move(slopes, pairs=thorough)
        else:
            for k in deadline.in_time(range(self.moments.size)):
                changes = np.zeros(slopes.shape[:2])
                for side in sides:
                    side.move_row(k, slopes, changes)
                moved = np.any(changes, axis=1)
                if np.any(moved):
                    slopes[moved] += 2.0 * self.moments.images_of_row(k, changes[moved])
        for side in sides:
            moving[side.members] = side.weights.astype(np.int8)
            self.value -= side.fall
        return sum(side.moves for side in sides)

    def _groups(self) -> list[npt.NDArray[np.intp]]:
        """Divide the neurons into groups that do not interact, since they have no output in common."""
        if np.any(np.count_nonzero(self.alpha, axis=1) > 1):
            return [np.arange(len(self.alpha))]
        owners = owners_of(self.alpha)
        return [np.flatnonzero(owners == k) for k in np.unique(owners)]


class _Side:
    """One side of neurons that interact, whose weights move by two while the other side is fixed.

    Attributes
    ----------
    members, outputs : ndarray of int
        The neurons, and the outputs that they serve.
    weights : ndarray of shape (m, N)
    moves : int
        Number of moves so far.
    fall : float
        Their decrease of the loss.
    """

    def __init__(
        self, descent: MomentDescent, members: npt.NDArray[np.intp], moving: IntArray, other: IntArray
    ) -> None:
        self.members, self.moments, self.largest = members, descent.moments, descent.largest
        alpha = descent.alpha[members]
        self.outputs = np.flatnonzero(np.any(alpha, axis=0))
        self._alpha = alpha[:, self.outputs]
        self.weights, self._other = moving[members].astype(np.float64), other[members].astype(np.float64)
        self._own = 2.0 * np.square(alpha).sum(axis=1)[:, None] * self.moments.own_curvatures(self._other)
        self._tolerance = max(descent.tolerance, CANCELLED * float(self._own.max(initial=0.0)))
        self.moves, self.fall = 0, 0.0

    def move_row(self, k: int, slopes: FloatArray, changes: FloatArray) -> None:
        """Make the best moves of the entries k until none helps, and add them to the changes (C, N) of rows k."""
        alpha, other, weights, own = self._alpha, self._other, self.weights[:, k], self._own[:, k]
        gradient = (alpha * (other @ slopes[self.outputs, k].T)).sum(axis=1)
        tolerance = max(self._tolerance, CANCELLED * float(np.abs(gradient).max()))
        while True:
            steps, falls = _moves(weights, gradient, own, self.largest[k])
            j = _first_of_best(falls, tolerance)
            if not falls[j] > tolerance:
                return
            weights[j] += steps[j]
            change = steps[j] * alpha[j]
            gradient += 2.0 * (alpha @ change) * (other @ (self.moments.row_curvatures[k] @ other[j]))
            changes[self.outputs] += np.multiply.outer(change, other[j])
            self.moves, self.fall = self.moves + 1, self.fall + float(falls[j])

    def move(self, slopes: FloatArray, *, pairs: bool) -> None:
        """Make the best of all moves, or of `pairs` if no single one helps, until none does; update the slopes."""
        while not deadline.over():
            gradient = np.einsum("jc,cja->ja", self._alpha, self._other @ slopes[self.outputs])
            tolerance = max(self._tolerance, CANCELLED * float(np.abs(gradient).max()))
            steps, falls = _moves(self.weights, gradient, self._own, self.largest)
            best = _first_of_best(falls.ravel(), tolerance)
            chosen, fall = [best], float(falls.flat[best])
            if pairs and not fall > tolerance:
                chosen, fall = self._best_pair(steps, falls, tolerance)
            if not fall > tolerance:
                return
            for j, k in zip(*np.unravel_index(chosen, falls.shape), strict=True):
                self.weights[j, k] += steps[j, k]
                change = steps[j, k] * np.multiply.outer(self._alpha[j], self._other[j])
                slopes[self.outputs] += 2.0 * self.moments.images_of_row(k, change)
            self.moves, self.fall = self.moves + 1, self.fall + fall

    def _best_pair(self, steps: FloatArray, falls: FloatArray, tolerance: float) -> tuple[list[int], float]:
        """Find the best pair among the moves that increase the loss least alone; return its indices and decrease."""
        least = np.sort(np.argsort(-falls, axis=None, kind="stable")[:_PAIRED])
        j, k = np.unravel_index(least, falls.shape)
        alpha, other = self._alpha[j], self._other[j]
        images = np.concatenate([self.moments.images_of_row(a, other[i : i + 1]) for i, a in enumerate(k)])
        cross = 2.0 * (alpha @ alpha.T) * np.einsum("pqb,qb->pq", images[:, k], other)
        both = falls[j, k][:, None] + falls[j, k] - np.multiply.outer(steps[j, k], steps[j, k]) * cross
        np.fill_diagonal(both, -np.inf)
        first, second = divmod(_first_of_best(both.ravel(), tolerance), len(least))
        return [int(least[first]), int(least[second])], float(both[first, second])


def _moves(
    weights: FloatArray, gradient: FloatArray, own: FloatArray, largest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Compute a move of each weight by :math:`\pm 2`, downhill if allowed, and the decrease of a quadratic function.

    `own` holds the second derivative in each weight.
    """
    steps = -np.copysign(2.0, gradient)
    steps = np.where(np.abs(weights + steps) <= largest, steps, -steps)
    return steps, -steps * gradient - 2.0 * own


def _first_of_best(falls: FloatArray, tolerance: float) -> int:
    """Return the first index of the largest decrease; decreases that differ only by rounding count as equal."""
    top = float(falls.max())
    return int(np.argmax(falls >= top - max(tolerance, ROUNDING * abs(top))))
