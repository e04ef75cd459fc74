"""Networks of other sizes from the solution of a model, measured for reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.gap import relative
from qsdp._utils.outputs import squeezed
from qsdp._utils.validation import FloatArray
from qsdp.problem import TrainingProblem
from qsdp.sampling import sample_network
from qsdp.tables.scored import ScoredRows
from qsdp.tables.training import solution_of

__all__ = ["Sizes", "measure_sizes"]

#: Numbers of neurons of the sampled networks.
_SIZES = (10, 30, 100, 300, 1000, 3000)


@dataclass(frozen=True, eq=False)
class Sizes:
    """Networks of several sizes.

    Attributes
    ----------
    neurons : ndarray of float of shape (K,)
    bits : ndarray of int of shape (K,)
    scores : ndarray of shape (K, R)
    gaps : ndarray of shape (K, R) or None
        Relative gaps; None if the training set is not known.
    """

    neurons: FloatArray
    bits: npt.NDArray[np.intp]
    scores: FloatArray
    gaps: FloatArray | None


def measure_sizes(model: Any, rows: ScoredRows, problem: TrainingProblem | None, n_draws: int) -> Sizes:
    """Sample `n_draws` networks of each size from the solution of a model, with scores on rows.

    Gaps need the problem of the training rows; they are left out if it is None.
    """
    rng, network, (solution, _) = np.random.default_rng(model.table_.seed), model.network_, solution_of(model)
    sizes = [size for size in _SIZES if size >= network.n_outputs]
    covariance = squeezed(solution.covariances(network.levels), network.output_shape)
    drawn = [
        [sample_network(covariance, size, rng, allocation=model.allocation) for _ in range(n_draws)] for size in sizes
    ]
    scores = np.array([[rows.score(network) for network in networks] for networks in drawn])
    gaps = None
    if problem is not None:
        objectives = np.array([[problem.objective(network) for network in networks] for networks in drawn])
        gaps = np.vectorize(relative)(objectives - model.certificate_.lower_bound, objectives)
    bits = np.array([networks[0].n_bits for networks in drawn])
    return Sizes(np.array(sizes, dtype=np.float64), bits, scores, gaps)
