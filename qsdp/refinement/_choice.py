"""Choice between samples and their second moments as the data of coordinate descent, whichever is cheaper."""

from __future__ import annotations

from contextlib import suppress

from qsdp._utils import deadline
from qsdp._utils.deadline import TimeOver
from qsdp.problem import TrainingProblem
from qsdp.refinement._block_samples import BlockSamples
from qsdp.refinement._descent import CoordinateDescent, Neurons
from qsdp.refinement._moment_descent import MomentDescent
from qsdp.refinement._moments import Moments
from qsdp.refinement._sample_descent import SampleDescent
from qsdp.refinement._samples import Samples

__all__ = ["AnyData", "descent_data", "descent_of", "suits_statistics"]

AnyData = Samples | BlockSamples | Moments

#: Moments are used up to this side N, and while N^3 is at most four times the number of rows.
_LARGEST = 64


def suits_statistics(problem: TrainingProblem) -> bool:
    """Whether coordinate descent on statistics is about as fast as on some thousand rows.

    A sweep over 32 neurons takes 0.4 s with 64 entries and 2 s with 101 entries; on 20000 rows it takes 0.1 and 0.2 s.
    """
    return problem.blocks is None and problem.size <= _LARGEST


def descent_data(problem: TrainingProblem, device: str | None = None) -> AnyData:
    """Prepare the data of coordinate descent for all outputs of a problem, on a torch device or in NumPy.

    If the moments would take more than half of the time limit, samples are used, which need no preparation.
    """
    if problem.blocks is not None:
        problem.require_rows("polish on blocks")
        return BlockSamples(problem, device)
    if not problem.weight_map.has_rows:
        return Moments.of(problem, device)
    # Count rows by weight, so that a row of weight two is the same as two equal rows.
    many = problem.size**3 <= 4.0 * problem.data_fit.total_weight
    if problem.loss.quadratic and suits_statistics(problem) and many:
        with suppress(TimeOver), deadline.fraction(0.5):
            return Moments.of(problem, device)
    return Samples(problem, device)


def descent_of(problem: TrainingProblem, network: Neurons, data: AnyData) -> CoordinateDescent:
    """Start a coordinate descent of a network on `data`."""
    if isinstance(data, Moments):
        return MomentDescent(problem, network, data)
    return SampleDescent(problem, network, data)
