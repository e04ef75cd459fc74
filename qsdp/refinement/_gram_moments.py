"""Second moments as the data of coordinate descent: Gram matrix of the data map."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray
from qsdp.data_map import SAMPLES
from qsdp.forms import FormMap
from qsdp.gram import pair_places
from qsdp.lifting import power_of_two
from qsdp.problem import TrainingProblem
from qsdp.refinement._descent import DescentData
from qsdp.statistics import SufficientStatistics
from qsdp.statistics.moments import ROWS_AT_ONCE

__all__ = ["Moments"]


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
        return np.stack([self.gram[np.ix_(row, row)] for row in pair_places(self.size)])

    def own_curvatures(self, others: FloatArray) -> FloatArray:
        r"""Compute :math:`v^T H_k v` for rows v of `others` and all k, shape (B, N)."""
        curvatures = np.empty_like(others)
        for k, H in enumerate(self.row_curvatures):
            curvatures[:, k] = np.einsum("jb,jb->j", others @ H, others)
        return curvatures

    def images_of_row(self, k: int, sides: FloatArray) -> FloatArray:
        r"""Compute :math:`\sum_i w_i \langle (\mathcal{X}_i)_k, v \rangle \mathcal{X}_i` for rows v of `sides`.

        Maps shape (B, N) to (B, N, N).
        """
        return self.packed_images(k, sides).take(pair_places(self.size), axis=1)

    def images_of_rows(self, rows: npt.NDArray[np.intp], sides: FloatArray) -> FloatArray:
        """Compute `images_of_row` for a row k of its own for each row v of `sides`."""
        each = zip(rows, sides[:, None], strict=True)
        return np.concatenate([self.images_of_row(int(k), side) for k, side in each])

    def packed_images(self, k: int, sides: FloatArray) -> FloatArray:
        """Compute the upper triangles (B, p) of `images_of_row`."""
        images: FloatArray = sides @ self.gram[pair_places(self.size)[k]]
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
