"""Coordinate descent over single first-layer weights for a squared loss, by second moments of the data."""

from __future__ import annotations

import numpy as np

from qsdp._utils.numeric import CANCELLED, ROUNDING
from qsdp._utils.validation import FloatArray
from qsdp.problem import TrainingProblem
from qsdp.refinement._descent import CoordinateDescent, IntArray, Neurons
from qsdp.refinement._moments import Moments

__all__ = ["MomentDescent"]

#: Largest batch of neurons, whose curvature is one matrix; half or twice costs time.
_LARGEST_BATCH = 32

#: Number of weights of a batch that are tried in pairs.
_PAIRED = 128


class MomentDescent(CoordinateDescent):
    r"""Coordinate descent for a squared loss by second moments, at a cost independent of the number of rows.

    With the other sides of some neurons fixed, the loss is quadratic in all entries of the sides that move. Let
    :math:`p_{ij} = \mathcal{X}_i v_j`, and let g be the loss gradient. The gradient in :math:`u_j` is
    :math:`\sum_c \alpha_{jc} M_c v_j` for :math:`M_c = \sum_i g_{ic} \mathcal{X}_i`, and the second derivative in
    :math:`u_j, u_l` is :math:`2\, \alpha_j^T \alpha_l \sum_i w_i\, p_{ij} p_{il}^T`. So the effect of every move of a
    batch is known exactly, and the best move is made until none helps. A sweep computes gradients from the data once.
    """

    def __init__(self, problem: TrainingProblem, network: Neurons, data: Moments) -> None:
        self.moments = data
        super().__init__(problem, network, data)

    def images(self, rows: slice = slice(None)) -> FloatArray:
        r"""Return the outputs :math:`u_j^T \mathcal{X}_i v_j` of neurons, of shape (n, B)."""
        return self.moments.map.products(self.U[rows], self.V[rows])

    @property
    def batch_size(self) -> int:
        """Number of neurons whose moves are computed together, limited by the size of their curvature matrix."""
        return self.moments.sides_at_once(_LARGEST_BATCH)

    def sweep(self, *, thorough: bool) -> int:
        """Try moves of both sides of every neuron, and return how many were accepted.

        A cheap sweep skips neurons for which no single move would help. A thorough sweep also moves pairs of weights of
        a batch once no single move helps.
        """
        slopes = np.stack([self.moments.adjoint(column) for column in self.gradient.T])
        accepted = 0
        for rows in self.batches():
            accepted += self._move(self.U, self.V, rows, slopes, thorough)
            accepted += self._move(self.V, self.U, rows, slopes, thorough)
        return accepted

    def _move(self, moving: IntArray, other: IntArray, rows: slice, slopes: FloatArray, thorough: bool) -> int:
        """Make moves of one side of a batch until none helps, and update the slopes (C, N, N) of the loss."""
        sides, others, alpha = moving[rows].astype(np.float64), other[rows].astype(np.float64), self.alpha[rows]
        gradient = np.einsum("jc,cab,jb->ja", alpha, slopes, others, optimize=True)
        places = np.arange(len(moving))[rows]
        if not thorough:
            own = 2.0 * (alpha**2).sum(axis=1)[:, None] * self.moments.own_curvature(others)
            helpful = np.any(moves(sides, gradient, own, self.largest)[1] > self.tolerance, axis=1)
            if not helpful.any():
                return 0
            places, sides, others = places[helpful], sides[helpful], others[helpful]
            alpha, gradient = alpha[helpful], gradient[helpful]
        curvature = self.moments.curvature(others)
        curvature *= 2.0 * (alpha @ alpha.T)[:, None, :, None]
        before = sides.copy()
        count, fall = best_moves(
            sides.reshape(-1),
            gradient.reshape(-1),
            curvature.reshape(gradient.size, -1),
            np.tile(self.largest, len(sides)),
            self.tolerance,
            pairs=thorough,
        )
        if count:
            self.value -= fall
            moving[places] = sides.astype(np.int8)
            for k, weights in enumerate(alpha.T):
                slopes[k] += 2.0 * self.moments.image(((sides - before) * weights[:, None]).T @ others)
        return count


def best_moves(
    weights: FloatArray,
    gradient: FloatArray,
    curvature: FloatArray,
    largest: FloatArray,
    tolerance: float,
    *,
    pairs: bool = True,
) -> tuple[int, float]:
    r"""Minimise a quadratic function by greedy moves of :math:`\pm 2`; return the number of moves and the decrease.

    Parameters
    ----------
    weights, gradient : ndarray of shape (k,)
        Start and the gradient there; both are changed in place.
    curvature : ndarray of shape (k, k)
        Second derivatives, symmetric.
    largest : ndarray of shape (k,)
        Largest magnitudes allowed for the weights.
    tolerance : float
        Smaller decreases do not count, nor do decreases that may be rounding errors.
    pairs : bool
        Whether to try pairs of weights when no single move helps, among those whose single moves increase it least.
    """
    own = curvature.diagonal().copy()
    tolerance = max(tolerance, CANCELLED * float(own.max() + np.abs(gradient).max()))
    count, total = 0, 0.0
    while True:
        steps, falls = moves(weights, gradient, own, largest)
        chosen = [_first_of_best(falls, tolerance)]
        fall = float(falls[chosen[0]])
        if pairs and not fall > tolerance:
            chosen, fall = _best_pair(steps, falls, curvature, tolerance)
        if not fall > tolerance:
            return count, total
        for one in chosen:
            weights[one] += steps[one]
            gradient += steps[one] * curvature[one]
        count, total = count + 1, total + fall


def moves(
    weights: FloatArray, gradient: FloatArray, own: FloatArray, largest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Compute a move of each weight by :math:`\pm 2`, downhill if allowed, and the decrease of a quadratic function.

    `own` holds the second derivative in each weight. All have the same shape, but `largest` has only the last axis.
    """
    steps = -np.copysign(2.0, gradient)
    steps = np.where(np.abs(weights + steps) <= largest, steps, -steps)
    return steps, -steps * gradient - 2.0 * own


def _first_of_best(falls: FloatArray, tolerance: float) -> int:
    """Return the first index of the largest decrease; decreases that differ only by rounding count as equal."""
    top = float(falls.max())
    return int(np.argmax(falls >= top - max(tolerance, ROUNDING * abs(top))))


def _best_pair(
    steps: FloatArray, falls: FloatArray, curvature: FloatArray, tolerance: float
) -> tuple[list[int], float]:
    """Find the best pair among the moves that increase the function least alone; return its indices and decrease."""
    if len(falls) < 2:
        return [0], -np.inf
    least = np.sort(np.argsort(-falls, kind="stable")[:_PAIRED])
    both = falls[least, None] + falls[least]
    both -= steps[least, None] * steps[least] * curvature[np.ix_(least, least)]
    np.fill_diagonal(both, -np.inf)
    first, second = divmod(_first_of_best(both.ravel(), tolerance), len(least))
    return [int(least[first]), int(least[second])], float(both[first, second])
