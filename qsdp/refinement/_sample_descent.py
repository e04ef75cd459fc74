"""Coordinate descent over single first-layer weights, by products with the samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.parallel import LARGE_FLOATS
from qsdp._utils.validation import FloatArray
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.refinement._descent import LARGEST_BATCH, CoordinateDescent, IntArray, in_double
from qsdp.refinement._models import (
    AGREEMENT,
    agreeing,
    cross_changes,
    curvature_floor,
    sampled_curvature,
    side_by_side,
)
from qsdp.refinement._samples import BlockImages, BlockSamples, Images, Samples

__all__ = ["SampleDescent"]

#: Divisor of the neurons of a network that form a batch, and of the entries of a side that move at once; half or twice
#: changes objectives by up to 1.6 % either way.
_DIVISOR = 8


class SampleDescent(CoordinateDescent):
    r"""Coordinate descent for any loss by products with the samples.

    Moving the weight :math:`u_{jk}` by :math:`\delta = \pm 2` moves the predictions by
    :math:`\delta\, x_{ik} p_{ij}\, \alpha_j` with :math:`p_j = a X v_j + (b/2) t_j`, where :math:`t_j` is the last
    entry of :math:`v_j` (for the last entry of a lift, :math:`q_j = (b/2) X v_j + c\, t_j` replaces :math:`x_k p_j`).
    The slopes of all moves of a side are the product :math:`X^T (p_j \circ G \alpha_j)`, where G is the loss gradient.
    By convexity the loss changes by ``delta * slope`` at least, so only downhill moves can help. A move is accepted
    only if an evaluation shows that the loss falls.

    Notes
    -----
    No n x m array is formed. Large data is not copied, except in single precision. On large data a cheap sweep moves
    several entries of a side at once if a quadratic model of all of them predicts a larger fall than for the best one
    alone. It also moves several sides together if they agree in that model. Most of the time is spent on
    evaluations of the loss and products with the data.
    """

    def __init__(self, problem: TrainingProblem, network: BilinearNetwork, data: Samples | BlockSamples) -> None:
        self.samples = data
        self.n_moves = 2 if data.large else 1
        super().__init__(problem, network, data)

    def images(self, rows: slice = slice(None)) -> FloatArray:
        r"""Return the outputs :math:`u_j^T \mathcal{X}_i v_j` of neurons, of shape (n, B)."""
        return self.samples.outputs(self.U[rows], self.V[rows], self.block[rows]).T

    @property
    def batch_size(self) -> int:
        """Number of neurons whose moves are computed together from one gradient."""
        # On large data a model selects joint moves of a batch, and small batches would leave the processor idle.
        divisor = 2 if self.samples.large else _DIVISOR
        held = len(self.f) * self.samples.held
        return min(max(1, len(self.U) // divisor), LARGEST_BATCH, max(1, LARGE_FLOATS // held))

    def sweep(self, *, thorough: bool) -> int:
        """Try moves of both sides of every neuron, and return how many were accepted.

        A cheap sweep tries the move of each side that a quadratic model prefers. A thorough sweep tries all moves that
        are not proven useless. If it accepts none (and ends in time), no single move lowers the loss.
        """
        accepted = 0
        for rows in self.batches():
            accepted += self._move(self.U, self.V, rows, thorough)
            accepted += self._move(self.V, self.U, rows, thorough)
        return accepted

    def _move(self, moving: IntArray, other: IntArray, rows: slice, thorough: bool) -> int:
        weights, alpha, dtype = moving[rows], self.alpha[rows], self.samples.dtype
        images = self.samples.images(other[rows], self.block[rows])
        slopes = images.products(alpha.astype(dtype, copy=False) @ self.gradient.astype(dtype, copy=False).T)
        steps = np.where(slopes > 0.0, -2, 2)
        downhill = (slopes != 0.0) & (np.abs(weights + steps) <= self.largest)
        if not np.any(downhill):
            return 0
        size = float(np.sqrt(np.mean(np.square(alpha))) * np.sqrt(self.samples.mean(images.squares[0])))
        curvature = self._curvature(alpha, 2.0 * size * self.samples.width)
        change = 2.0 * (images.square_products(curvature) - np.abs(slopes))
        change[~downhill] = math.inf
        if thorough:
            reach = 2.0 * images.largest * float(np.abs(alpha).max())
            floor = curvature_floor(self.fit, self.f, alpha, curvature, reach)
            lowest = 2.0 * (images.square_products(floor) - np.abs(slopes))
            candidates = downhill & (lowest < -self.tolerance)
            return sum(
                self._try_all(moving, rows.start + j, images[j : j + 1], steps[j], change[j], mask)
                for j, mask in enumerate(candidates)
                if np.any(mask)
            )
        entries = np.argmin(change, axis=1)
        predicted = change[np.arange(len(entries)), entries]
        chosen = np.flatnonzero(predicted < -self.tolerance)
        if not len(chosen):
            return 0
        entries, alpha, predicted = entries[chosen], alpha[chosen], predicted[chosen]
        delta = np.zeros((len(chosen), len(self.largest)))
        delta[np.arange(len(chosen)), entries] = steps[chosen, entries]
        sides = images[chosen]
        moves = sides.moves(entries) * steps[chosen, entries][:, None].astype(dtype)
        if self.samples.large:
            several = self._several(change[chosen], steps[chosen])
            self._replace(delta, moves, predicted, several, slopes[chosen], curvature[chosen], sides)
        order = np.argsort(predicted, kind="stable")
        if self.samples.large or self.fit.quadratic:
            # For a squared loss the model equals the loss up to rounding, so one evaluation suffices for all moves that
            # it accepts together.
            cross = cross_changes(moves, curvature[chosen], alpha)
            order = order[agreeing(predicted[order], cross[np.ix_(order, order)], self.tolerance)]
        taken = order[self._take(moves[order], alpha[order], predicted[order])]
        moving[rows.start + chosen[taken]] += delta[taken].astype(np.int8)
        return len(taken)

    def _curvature(self, alpha: FloatArray, step: float) -> Any:
        """Compute the curvature of the loss along each row of `alpha` (B, C): (B, n), or (B, 1) for equal samples."""
        equal = self.fit.quadratic and self.fit.weights is None
        fit, f = (self.fit.rows(slice(1)), self.f[:1]) if equal else (self.fit, self.f)
        return sampled_curvature(fit, f, alpha, step, self.samples.dtype)

    def _several(self, change: FloatArray, steps: npt.NDArray[np.int64]) -> FloatArray:
        """Select moves (B, N) of the most promising entries of each side."""
        count = min(self.n_moves, change.shape[1])
        best = np.argpartition(change, count - 1, axis=1)[:, :count]
        promised = np.take_along_axis(change, best, axis=1) < -self.tolerance
        moves = np.zeros(change.shape)
        np.put_along_axis(moves, best, promised * np.take_along_axis(steps, best, axis=1), axis=1)
        return moves

    def _replace(
        self,
        delta: FloatArray,
        moves: Any,
        predicted: FloatArray,
        several: FloatArray,
        slopes: FloatArray,
        curvature: Any,
        sides: Images | BlockImages,
    ) -> None:
        """Replace the single move of a side by several moves if the model predicts a larger joint decrease."""
        images = sides.combined(several)
        curved = in_double(np.einsum("ij,ij,ij->i", curvature, images, images))
        change = np.einsum("ij,ij->i", slopes, several) + 0.5 * curved
        better = change < predicted
        delta[better], moves[better], predicted[better] = several[better], images[better], change[better]
        # Try twice as many moves next time if that helped most sides, else half as many.
        limit = max(2, len(self.largest) // _DIVISOR)
        self.n_moves = min(2 * self.n_moves, limit) if np.mean(better) > 0.5 else max(2, self.n_moves // 2)

    def _take(self, moves: Any, alpha: FloatArray, predicted: FloatArray) -> npt.NDArray[np.bool_]:
        """Accept moves (B, n) jointly if the loss decreases nearly as predicted, else try each half of them."""
        taken = np.zeros(len(moves), dtype=bool)
        pending = [(0, len(moves))]
        while pending and not deadline.over():
            start, stop = pending.pop()
            f = self.f + in_double(moves[start:stop].T @ alpha[start:stop].astype(self.samples.dtype, copy=False))
            value = self.fit.value(f)
            fall = self.value - value
            exact = self.fit.quadratic or stop - start == 1
            needed = 0.0 if exact else -AGREEMENT * float(predicted[start:stop].sum())
            if fall > self.tolerance and fall >= needed:
                self.accept(f, value)
                taken[start:stop] = True
            elif stop - start > 1:
                middle = (start + stop) // 2
                pending += [(middle, stop), (start, middle)]
        return taken

    def _try_all(
        self,
        moving: IntArray,
        j: int,
        images: Images | BlockImages,
        steps: npt.NDArray[np.int64],
        change: FloatArray,
        mask: npt.NDArray[np.bool_],
    ) -> int:
        """Evaluate candidates of one side, the most promising first, and accept each that lowers the loss."""
        accepted = 0
        entries = np.flatnonzero(mask)
        entries = entries[np.argsort(change[entries], kind="stable")]
        if self.f.shape[1] == 1:
            entries = entries[self._falls(images, steps, entries, self.alpha[j, 0]) > 0.5 * self.tolerance]
        for k in deadline.in_time(entries.tolist()):
            # The other side is fixed, so the image of a move is correct whatever was accepted before.
            image = in_double(images.moves(np.array([k]))[0])
            f = self.f + np.multiply.outer(steps[k] * image, self.alpha[j])
            value = self.fit.value(f)
            if self.value - value > self.tolerance:
                self.accept(f, value)
                moving[j, k] += np.int8(steps[k])
                accepted += 1
        return accepted

    def _falls(
        self, images: Images | BlockImages, steps: npt.NDArray[np.int64], entries: npt.NDArray[np.intp], alpha: float
    ) -> FloatArray:
        """Compute the decrease of the loss of one output for each of the moves of one side."""
        falls = np.zeros(len(entries))
        before = self.fit.values(self.f)
        chunk = max(1, LARGE_FLOATS // len(self.f))
        for start in deadline.in_time(range(0, len(entries), chunk)):
            some = entries[start : start + chunk]
            moves = in_double(images.moves(some)) * (steps[some] * alpha)[:, None]
            after = side_by_side(self.fit, len(some)).values((self.f.T + moves).T)
            falls[start : start + chunk] = (before - after).sum(axis=0)
        return falls
