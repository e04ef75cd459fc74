"""Second moments as the data of coordinate descent: Gram matrix of the data map."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from qsdp._utils.arrays import library_of
from qsdp._utils.parallel import LARGE_FLOATS
from qsdp._utils.validation import FloatArray
from qsdp.gram import pair_places
from qsdp.lifting import power_of_two
from qsdp.problem import TrainingProblem
from qsdp.refinement._descent import DescentData
from qsdp.refinement._samples import Samples

__all__ = ["Moments"]


@dataclass(eq=False, repr=False)
class Moments(DescentData):
    r"""Sums over all rows of products of two entries of :math:`\mathcal{X}_i`.

    Attributes
    ----------
    gram : ndarray of shape (p, p)
        :math:`\sum_i w_i (\mathcal{X}_i)_{ab} (\mathcal{X}_i)_{cd}` for pairs of the upper triangle, p = N(N+1)/2.
    """

    gram: FloatArray

    @classmethod
    def of(cls, problem: TrainingProblem, device: str | None = None) -> Moments:
        """Compute the moments of a problem's rows or statistics, on a torch device or in NumPy.

        Raises
        ------
        TimeOver
            A time limit passed between chunks of rows.
        """
        data = problem.weight_map
        if data.has_rows:
            samples, weights = Samples(problem), problem.sample_weight
            gram = samples.map.pair_sums(weights, device=device)
            own = samples.map, samples.unit, samples.large, samples.largest_image, weights
            return cls(*own, library_of(device), gram)
        unit = power_of_two(data.largest_entry)
        data = data.scaled(1.0 / unit)
        gram = data.pair_sums(device=device)
        largest = data.of_scaled_data(problem.levels - 1.0).absolute_sums.max(initial=0.0)
        return cls(data, unit, False, float(largest), None, library_of(device), gram)

    @property
    def size(self) -> int:
        """Side N of the matrices."""
        return self.map.size

    def sides_at_once(self, most: int) -> int:
        """Return how many sides (at most `most`) to pass to `curvature` at once, to limit temporary arrays."""
        return max(1, min(most, LARGE_FLOATS // self.size**3, int(LARGE_FLOATS**0.5) // self.size))

    def curvature(self, others: FloatArray) -> FloatArray:
        r"""Compute :math:`\sum_i w_i (\mathcal{X}_i v_j) (\mathcal{X}_i v_l)^T` for all pairs of rows v of `others`.

        Maps shape (B, N) to (B, N, B, N): second moments of the outputs of neurons with these other sides.
        """
        # torch warns about an index array that is not writeable.
        place, library = pair_places(self.size).copy(), self.library
        sides = library.take(others)
        halves = library.zeros((len(others), self.size, len(self.gram)))
        for entry, rows in enumerate(place):
            halves[:, entry] = sides @ self._taken[rows]
        curvature: FloatArray = np.ascontiguousarray(library.give((halves[:, :, place] @ sides.T).swapaxes(2, 3)))
        return curvature

    @cached_property
    def _taken(self) -> Any:
        """Gram matrix as an array of the library."""
        return self.library.take(self.gram)

    def own_curvature(self, others: FloatArray) -> FloatArray:
        r"""Compute :math:`\sum_i w_i (\mathcal{X}_i v)_a^2` for rows v of `others` and all a, shape (B, N)."""
        outer = others[:, :, None] * others[:, None, :]
        curvature: FloatArray = outer.reshape(len(others), -1) @ self._own.T
        return curvature

    @cached_property
    def _own(self) -> FloatArray:
        r"""Products :math:`\sum_i w_i (\mathcal{X}_i)_{ab} (\mathcal{X}_i)_{ac}` of shape (N, N^2)."""
        place = pair_places(self.size)
        return np.stack([self.gram[np.ix_(rows, rows)].ravel() for rows in place])

    def image(self, S: FloatArray) -> FloatArray:
        r"""Compute :math:`\sum_i w_i \langle \mathcal{X}_i, S \rangle \mathcal{X}_i` for any matrix S."""
        first, second = np.triu_indices(self.size)
        entries = S[first, second] + S[second, first]
        entries[first == second] *= 0.5
        values = self.library.give(self._taken @ self.library.take(entries))
        matrix: FloatArray = values[pair_places(self.size)]
        return matrix
