"""Memory of a solve: what it takes at least, and the refusal of what cannot fit."""

from __future__ import annotations

from qsdp._utils.memory import format_bytes, main_memory
from qsdp.exceptions import InvalidInputError
from qsdp.problem import TrainingProblem
from qsdp.relaxation.backends import BACKENDS

__all__ = ["check_memory", "least_memory"]

#: Matrices of each output that this package's own methods hold at least: two points, dual weights, directions.
_MATRICES = 8

#: Bytes of a float, and of an entry of a sparse matrix with its place.
_FLOAT, _ENTRY = 8, 12


def least_memory(problem: TrainingProblem, *, own: bool = True) -> int:
    r"""Return the bytes that a solve takes at least, beside the data.

    Of n samples, N inputs and C outputs, this package's own methods take a copy of the rows and matrices of side N:
    :math:`8 n N + 64\,C N^2`. Solvers through CVXPY get an entry of a sparse matrix for every sample, reduced to
    :math:`N (N + 1) / 2` rows at most, and every product of two inputs: :math:`12 \min(n, N(N+1)/2) N^2`.
    """
    # A problem from statistics has fewer rows than samples.
    n, N, C = len(problem.y), problem.size, problem.n_outputs
    if own:
        return _FLOAT * (n * N + _MATRICES * C * N * N)
    return _ENTRY * min(n, N * (N + 1) // 2) * N * N


def check_memory(problem: TrainingProblem, solver: str) -> None:
    """Raise `InvalidInputError` where a solve takes more than the main memory."""
    own = solver == "auto" or BACKENDS[solver].certified
    needed, there = least_memory(problem, own=own), main_memory()
    if needed > there:
        size = f"{problem.n_samples:,} samples, {problem.size:,} inputs and {problem.n_outputs} outputs"
        other = "" if own else ", or solver='auto'"
        raise InvalidInputError(
            f"problem must fit into memory: solver={solver!r} takes {format_bytes(needed)} at least for {size}, there "
            f"are {format_bytes(there)}; take fewer rows or columns of X{other}"
        )
