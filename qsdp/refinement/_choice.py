"""Choice between samples and their second moments as the data of coordinate descent, whichever is cheaper."""

from __future__ import annotations

from contextlib import suppress

from qsdp._utils import deadline
from qsdp._utils.deadline import TimeOver
from qsdp._utils.parallel import WORK_FLOATS
from qsdp.data_map import SAMPLES, require
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.refinement._descent import CoordinateDescent
from qsdp.refinement._moment_descent import MomentDescent, Moments
from qsdp.refinement._sample_descent import SampleDescent
from qsdp.refinement._samples import BlockSamples, Samples
from qsdp.sampling import check_memory_of_neurons

__all__ = ["AnyData", "check_memory_of_polish", "descent_data", "descent_of", "suits_statistics"]

AnyData = Samples | BlockSamples | Moments

#: Moments of statistics are used up to this side N.
_LARGEST = 80

#: Operations of a polish for each entry of a row of the data (or of the data map, on moments) and neuron.
_OPERATIONS = 320.0

#: Time of these operations on rows that do not fit into one temporary array, relative to fewer rows. Half or twice as
#: much only moves the border between two choices that take nearly the same time.
_LARGE = 2.5


def suits_statistics(problem: TrainingProblem) -> bool:
    """Whether coordinate descent on statistics is about as fast as on some thousand rows."""
    return problem.blocks is None and problem.size <= _LARGEST


def check_memory_of_polish(problem: TrainingProblem, n_neurons: int) -> None:
    """Raise `InvalidInputError` if polishing so many neurons takes more than the main memory.

    A polish holds two copies of the network, that of the descent and the best one, in addition to the network, and on
    moments also six arrays of floats and two of weights.
    """
    N, C = problem.size, problem.n_outputs
    copies = 2 * (2 * N + 8 * C)
    held = (6 * 8 + 2) * N if _on_moments(problem, n_neurons) else 0
    check_memory_of_neurons("polishing", n_neurons, N, C, copies + held)


def descent_data(problem: TrainingProblem, n_neurons: int) -> AnyData:
    """Prepare the data of coordinate descent for all outputs of a problem.

    If the moments would take more than half of the time limit, samples are used, which need no preparation.
    """
    check_memory_of_polish(problem, n_neurons)
    if problem.blocks is not None:
        require(problem.weight_map, "polish on blocks", SAMPLES)
        return BlockSamples(problem)
    if SAMPLES not in problem.weight_map.offers:
        return Moments(problem)
    if _on_moments(problem, n_neurons):
        with suppress(TimeOver), deadline.fraction(0.5):
            return Moments(problem)
    return Samples(problem)


def _on_moments(problem: TrainingProblem, n_neurons: int) -> bool:
    """Whether a polish uses moments if time allows."""
    if problem.blocks is not None:
        return False
    usable = problem.loss.quadratic and suits_statistics(problem)
    return SAMPLES not in problem.weight_map.offers or (usable and _favours_moments(problem, n_neurons))


def _favours_moments(problem: TrainingProblem, n_neurons: int) -> bool:
    """Whether moments take less time than samples, together with computing and factoring the Gram matrix."""
    # A row of weight two is the same as two equal rows; weights that are no numbers of rows may have any unit.
    n, N = float(problem.row_counts.sum()), problem.size
    p = N * (N + 1) // 2
    gram = n * p**2 + p**3 / 3.0
    time = _LARGE if problem.X.size > WORK_FLOATS else 1.0
    return gram + _OPERATIONS * N * p * (n_neurons + N) < time * _OPERATIONS * N * n * n_neurons


def descent_of(problem: TrainingProblem, network: BilinearNetwork, data: AnyData) -> CoordinateDescent:
    """Start a coordinate descent of a network on `data`."""
    if isinstance(data, Moments):
        return MomentDescent(problem, network, data)
    return SampleDescent(problem, network, data)
