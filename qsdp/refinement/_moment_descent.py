"""Coordinate descent over single first-layer weights for a squared loss, by second moments of the data."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.numeric import CANCELLED, ROUNDING
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray
from qsdp.data_map import SAMPLES
from qsdp.forms import FormMap
from qsdp.gram import pair_positions, pairs_of
from qsdp.lifting import power_of_two
from qsdp.networks import BilinearNetwork
from qsdp.networks.weights import owners_of
from qsdp.problem import TrainingProblem
from qsdp.refinement._descent import LARGEST_BATCH, CoordinateDescent, DescentData, IntArray
from qsdp.refinement._samples import SMALL
from qsdp.statistics import SufficientStatistics
from qsdp.statistics.moments import ROWS_AT_ONCE

__all__ = ["MomentDescent", "Moments"]


#: Number of moves that are tried in pairs.
_PAIRED = 128


class Moments(DescentData):
    r"""Sums over all rows of products of two entries of :math:`\mathcal{X}_i`, shared by the descents for all outputs.

    The descents run on a problem without rows, whose targets and predictions are at most p + C numbers.

    Attributes
    ----------
    size : int
        Side N of the matrices.
    gram : ndarray of shape (p, p)
        :math:`\sum_i w_i (\mathcal{X}_i)_{ab} (\mathcal{X}_i)_{cd}` for pairs of the upper triangle, p = N(N+1)/2.

    Raises
    ------
    TimeOver
        A time limit passed between chunks of rows.
    """

    map: FormMap

    #: The problem has few rows, all of weight one, in double precision.
    large = False
    weights = None
    dtype = np.float64

    def __init__(self, problem: TrainingProblem) -> None:
        self.problem = _without_rows(problem) if SAMPLES in problem.weight_map.offers else problem
        data: Any = self.problem.weight_map
        self.unit = power_of_two(data.largest_entry)
        self.map = data.scaled(1.0 / self.unit)
        self.size = self.map.size
        with deadline.unlimited():
            self.gram = self.map.pair_sums()
        self.largest_image = float(self.map.of_scaled_data(problem.levels - 1.0).absolute_sums.max(initial=0.0))

    @cached_property
    def row_curvatures(self) -> FloatArray:
        r"""Sums :math:`H_k = \sum_i w_i (\mathcal{X}_i)_k (\mathcal{X}_i)_k^T` over k-th rows, of shape (N, N, N)."""
        return np.stack([self.gram[np.ix_(row, row)] for row in pair_positions(self.size)])

    def side_curvatures(self, others: FloatArray) -> FloatArray:
        r"""Compute :math:`v^T H_k v` for rows v of `others` and all k, shape (B, N)."""
        curvatures = np.empty_like(others)
        for k, H in enumerate(self.row_curvatures):
            curvatures[:, k] = np.einsum("jb,jb->j", others @ H, others)
        return curvatures

    def images_of_row(self, k: int, sides: FloatArray) -> FloatArray:
        r"""Compute :math:`\sum_i w_i \langle (\mathcal{X}_i)_k, v \rangle \mathcal{X}_i` for rows v of `sides`.

        Maps shape (B, N) to (B, N, N).
        """
        return self.packed_images(k, sides).take(pair_positions(self.size), axis=1)

    def images_of_rows(self, rows: npt.NDArray[np.intp], sides: FloatArray) -> FloatArray:
        """Compute `images_of_row` for a row k of its own for each row v of `sides`."""
        each = zip(rows, sides[:, None], strict=True)
        return np.concatenate([self.images_of_row(int(k), side) for k, side in each])

    def packed_images(self, k: int, sides: FloatArray) -> FloatArray:
        """Compute the upper triangles (B, p) of `images_of_row`."""
        images: FloatArray = sides @ self.gram[pair_positions(self.size)[k]]
        return images


def _without_rows(problem: TrainingProblem) -> TrainingProblem:
    """Return the problem of the statistics of a problem's rows, if these are complete in time."""
    statistics = SufficientStatistics(max_memory=sys.maxsize)
    parts = chunks(problem.n_samples, problem.size**2 // 2, ROWS_AT_ONCE)
    for number, rows in enumerate(parts):
        deadline.check()
        # At the present speed, the last part would be too late.
        if number and deadline.elapsed() * len(parts) > deadline.limit() * number:
            raise deadline.TimeOver
        part = problem.take(rows)
        statistics.partial_fit(part.X, part.y, part.sample_weight)
    return TrainingProblem.from_statistics(
        statistics, beta=problem.beta, loss=problem.loss, activation=problem.activation, levels=problem.levels
    )


class MomentDescent(CoordinateDescent):
    r"""Coordinate descent for a squared loss by second moments, at a cost independent of the number of rows.

    With one side of all neurons fixed, the loss is quadratic in the other one. Let g be the loss gradient,
    :math:`M_c = \sum_i g_{ic} \mathcal{X}_i`, and :math:`H_k` the sum of the outer products of the k-th rows of
    :math:`\mathcal{X}_i` with themselves. The derivative in :math:`u_{jk}` is :math:`\sum_c \alpha_{jc} (M_c v_j)_k`,
    and the second derivative in :math:`u_{jk}` and :math:`u_{lk}` is :math:`2\, \alpha_j^T \alpha_l\, v_j^T H_k v_l`.
    So the effect of every move of the entries k of the sides is known exactly, and the best move is made until none
    helps, separately for neurons of different outputs. :math:`M_c` then changes by one product with the Gram matrix.
    """

    def __init__(self, problem: TrainingProblem, network: BilinearNetwork, data: Moments) -> None:
        self.moments = data
        super().__init__(problem, network, data)
        self._known = [(np.zeros_like(side), np.zeros(side.shape)) for side in (self.U, self.V)]

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
        moves = self._move(self.U, self.V, slopes, thorough) + self._move(self.V, self.U, slopes, thorough)
        # Moves update slopes, not predictions.
        self.refresh()
        return moves

    def _move(self, moving: IntArray, other: IntArray, slopes: FloatArray, thorough: bool) -> int:
        """Move entries of one side until none helps, and update the slopes (C, N, N) of the loss."""
        side = _Side(self, moving, other)
        # The best of all moves takes a product of these sizes.
        few = self.moments.size * max(len(self.moments.gram), self.moments.size * int(side.sizes.max())) <= SMALL
        if thorough or few:
            for group in range(len(side.sizes)):
                side.move(group, slopes, pairs=thorough)
        else:
            positions, (rows, columns) = pair_positions(self.moments.size), pairs_of(self.moments.size)
            packed = np.ascontiguousarray(slopes[:, rows, columns])
            for k in deadline.in_time(range(self.moments.size)):
                changes = side.move_row(k, packed[:, positions[k]])
                moved = np.any(changes, axis=1)
                if np.any(moved):
                    packed[moved] += self.moments.packed_images(k, 2.0 * changes[moved])
            slopes[:] = packed.take(positions, axis=1)
        moving[side.members] = side.weights[:, side.used].T.astype(np.int8)
        self.value -= side.fall
        return side.moves

    def groups(self) -> tuple[list[npt.NDArray[np.intp]], npt.NDArray[np.intp]]:
        """Divide the neurons into G groups that do not interact, and return the Q outputs (G, Q) of each."""
        if np.any(np.count_nonzero(self.alpha, axis=1) > 1):
            return [np.arange(len(self.alpha))], np.arange(self.alpha.shape[1])[None]
        owners = owners_of(self.alpha)
        outputs = np.unique(owners)
        return [np.flatnonzero(owners == k) for k in outputs], outputs[:, None]

    def side_curvatures(self, sides: IntArray) -> FloatArray:
        r"""Return :math:`v^T H_k v` for all rows v of U or V, computed again only where they have changed."""
        known, curvatures = self._known[int(sides is self.V)]
        changed = np.any(known != sides, axis=1)
        known[changed] = sides[changed]
        curvatures[changed] = self.moments.side_curvatures(sides[changed].astype(np.float64))
        return curvatures


class _Side:
    """One side of all neurons, whose weights move by two while the other side is fixed.

    Attributes
    ----------
    sizes : ndarray of shape (G,)
        Numbers of neurons of groups that do not interact.
    used : ndarray of bool, shape (G, m)
        False for neurons without effect, which fill groups below the largest size m.
    members : ndarray of int
        The used neurons.
    outputs : ndarray of int, shape (G, Q)
        Outputs that the groups serve.
    weights : ndarray of shape (N, G, m)
    moves : int
        Number of moves so far.
    fall : float
        Their decrease of the loss.
    """

    def __init__(self, descent: MomentDescent, moving: IntArray, other: IntArray) -> None:
        self.moments, self.largest = descent.moments, descent.largest
        groups, self.outputs = descent.groups()
        self.sizes, self.members = np.array([len(group) for group in groups]), np.concatenate(groups)
        self.used = np.arange(self.sizes.max()) < self.sizes[:, None]
        neurons = np.zeros(self.used.shape, dtype=np.intp)
        neurons[self.used] = self.members
        self._alpha = descent.alpha[neurons[:, :, None], self.outputs[:, None, :]] * self.used[:, :, None]
        self.weights, self._other = moving.T[:, neurons].astype(np.float64), other[neurons].astype(np.float64)
        self._curvatures = 2.0 * np.square(self._alpha).sum(axis=2) * descent.side_curvatures(other).T[:, neurons]
        self._tolerance = np.maximum(descent.tolerance, CANCELLED * self._curvatures.max(axis=(0, 2)))
        self.moves, self.fall = 0, 0.0

    def move_row(self, k: int, slopes: FloatArray) -> FloatArray:
        """Make the best moves of the entries k until none helps; return the changes of the rows k of the forms (C, N).

        All groups make one move at a time, until none of theirs helps. `slopes` (C, N) are those in the rows k.
        """
        alpha, other, weights, second = self._alpha, self._other, self.weights[k], self._curvatures[k]
        curvatures, changes = self.moments.row_curvatures[k], np.zeros(slopes.shape)
        gradient = (alpha * (other @ slopes[self.outputs].transpose(0, 2, 1))).sum(axis=2)
        tolerance = np.maximum(self._tolerance, CANCELLED * np.abs(gradient).max(axis=1))
        groups = np.arange(len(self.sizes))
        while not deadline.over():
            steps, falls = _moves(weights[groups], gradient[groups], second[groups], self.largest[k])
            best = _first_of_best(falls, tolerance[groups])
            each = (falls[np.arange(len(groups)), best] > tolerance[groups]).nonzero()[0]
            if not len(each):
                break
            groups, best = groups[each], best[each]
            step = steps[each, best]
            weights[groups, best] += step
            change, sides = step[:, None] * alpha[groups, best], other[groups, best]
            # A stacked product would first copy the other sides of these groups.
            images = zip(groups.tolist(), sides @ curvatures, strict=True)
            products = np.array([other[group] @ image for group, image in images])
            gradient[groups] += 2.0 * np.einsum("gjc,gc->gj", alpha[groups], change) * products
            changes[self.outputs[groups]] += change[:, :, None] * sides[:, None, :]
            self.moves, self.fall = self.moves + len(each), self.fall + float(falls[each, best].sum())
        return changes

    def move(self, group: int, slopes: FloatArray, *, pairs: bool) -> None:
        """Make the best of all moves of a group, or of `pairs` if no single one helps, until none does.

        Update the slopes.
        """
        m, outputs = int(self.sizes[group]), self.outputs[group]
        alpha, other = self._alpha[group, :m], self._other[group, :m]
        weights, second = self.weights[:, group, :m].T, self._curvatures[:, group, :m].T
        while not deadline.over():
            gradient = np.einsum("jc,cja->ja", alpha, other @ slopes[outputs])
            tolerance = max(self._tolerance[group], CANCELLED * float(np.abs(gradient).max()))
            steps, falls = _moves(weights, gradient, second, self.largest)
            best = int(_first_of_best(falls.ravel(), tolerance))
            chosen, fall = [best], float(falls.flat[best])
            if pairs and not fall > tolerance:
                chosen, fall = self._best_pair(alpha, other, steps, falls, tolerance)
            if not fall > tolerance:
                return
            for j, k in zip(*np.unravel_index(chosen, falls.shape), strict=True):
                weights[j, k] += steps[j, k]
                change = steps[j, k] * np.multiply.outer(alpha[j], other[j])
                slopes[outputs] += 2.0 * self.moments.images_of_row(k, change)
            self.moves, self.fall = self.moves + 1, self.fall + fall

    def _best_pair(
        self, alpha: FloatArray, other: FloatArray, steps: FloatArray, falls: FloatArray, tolerance: float
    ) -> tuple[list[int], float]:
        """Find the best pair among the moves that increase the loss least alone; return its indices and decrease."""
        promising = np.sort(np.argsort(-falls, axis=None, kind="stable")[:_PAIRED])
        j, k = np.unravel_index(promising, falls.shape)
        alpha, other = alpha[j], other[j]
        images = self.moments.images_of_rows(k, other)
        cross = 2.0 * (alpha @ alpha.T) * np.einsum("pqb,qb->pq", images[:, k], other)
        both = falls[j, k][:, None] + falls[j, k] - np.multiply.outer(steps[j, k], steps[j, k]) * cross
        np.fill_diagonal(both, -np.inf)
        first, second = divmod(int(_first_of_best(both.ravel(), tolerance)), len(promising))
        return [int(promising[first]), int(promising[second])], float(both[first, second])


def _moves(
    weights: FloatArray, gradient: FloatArray, second: FloatArray, largest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Compute a move of each weight by :math:`\pm 2`, downhill if allowed, and the decrease of a quadratic function.

    `own` holds the second derivative in each weight.
    """
    steps = -np.copysign(2.0, gradient)
    steps = np.where(np.abs(weights + steps) <= largest, steps, -steps)
    return steps, -steps * gradient - 2.0 * second


def _first_of_best(falls: FloatArray, tolerance: FloatArray | float) -> npt.NDArray[np.intp]:
    """Return the first index of the largest decrease; decreases that differ only by rounding count as equal."""
    top = falls.max(axis=-1)
    threshold = top - np.maximum(tolerance, ROUNDING * np.abs(top))
    first: npt.NDArray[np.intp] = np.argmax(falls >= threshold[..., None], axis=-1)
    return first
