"""By which data a network is descended: samples, or their moments where that is cheaper."""

from __future__ import annotations

from qsdp._utils.deadline import NEVER, Deadline
from qsdp.forms import FormMap
from qsdp.fourth_moments import gram_operations
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.refinement._descent import CoordinateDescent
from qsdp.refinement._moment_descent import MomentDescent
from qsdp.refinement._moments import Moments
from qsdp.refinement._sample_descent import SampleDescent
from qsdp.refinement._samples import Samples

__all__ = ["descent_data", "descent_of", "suits_statistics"]

#: Size, and its cube as a multiple of the number of rows, up to which moments are cheaper: 832 neurons of 33 entries on
#: 16000 rows (2.2) take 30 s in place of 50, 128 of 19 on 676 rows (10) 1.2 in place of 0.5. Their objectives are 3 and
#: 5 % lower, as pairs of weights of different neurons move.
_LARGEST, _MULTIPLE = 64, 4.0


def suits_statistics(problem: TrainingProblem) -> bool:
    """Return whether descents of a problem from statistics take no longer than those of some thousand rows.

    A sweep over 32 neurons of 64 entries takes 0.4 s, of 101 entries 2 s; on 20000 rows 0.1 and 0.2 s.
    """
    return problem.size <= _LARGEST


def descent_data(problem: TrainingProblem, deadline: Deadline = NEVER, device: str | None = None) -> Samples | Moments:
    """Return the data of descents for all outputs of a problem, whose products run on a device of torch or in NumPy."""
    if isinstance(problem.weight_map, FormMap):
        return Moments.of(problem, device)
    # By their weight, so that a weight of two is the same as two equal rows.
    many = problem.size**3 <= _MULTIPLE * problem.data_fit.total_weight
    cheaper = problem.loss.quadratic and suits_statistics(problem) and many
    in_time = cheaper and deadline.affords(gram_operations(problem.n_samples, problem.size))
    return Moments.of(problem, device) if in_time else Samples(problem, device)


def descent_of(
    problem: TrainingProblem, network: BilinearNetwork, data: Samples | Moments, deadline: Deadline = NEVER
) -> CoordinateDescent:
    """Return the descent of a network by the given data."""
    if isinstance(data, Moments):
        return MomentDescent(problem, network, data, deadline)
    return SampleDescent(problem, network, data, deadline)
