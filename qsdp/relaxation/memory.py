"""Minimum memory of a solve, and a check that it is available."""

from __future__ import annotations

import numpy as np

from qsdp._utils.main_memory import require_memory
from qsdp.problem import TrainingProblem
from qsdp.relaxation.backends import BACKENDS

__all__ = ["check_memory", "min_memory"]

#: Minimum number of matrices per output that built-in methods hold: points, dual weights, directions.
_MATRICES = 8

#: Bytes of a float, and of an entry of a sparse matrix with its index.
_FLOAT = np.dtype(np.float64).itemsize
_ENTRY = _FLOAT + np.dtype(np.int32).itemsize


def min_memory(problem: TrainingProblem, *, builtin: bool = True, proven: bool = False) -> int:
    r"""Estimate the minimum number of bytes that a solve takes in addition to the data.

    For n samples, N inputs and C outputs, built-in methods take a copy of the rows and matrices of side N:
    :math:`8 n N + 64\,C N^2`. Solvers through CVXPY get a sparse matrix with an entry for every product of two inputs
    in every sample (at most :math:`N (N + 1) / 2` rows after reduction): :math:`12 \min(n, N(N+1)/2) N^2`. If neurons
    are priced exactly, as `proven` bounds of one output after the other require, branch and bound takes
    :math:`32 (2N + 1)^2`; the larger counts.
    """
    # A problem from statistics has fewer rows than samples.
    n, N, C = len(problem.targets), problem.size, problem.n_outputs
    if problem.blocks is not None:
        R, P = problem.blocks.n_blocks, problem.blocks.n_entries
        return _FLOAT * (P * P + _MATRICES * C * R * N * N) if builtin else _ENTRY * min(n, P) * P
    if builtin:
        # Branch and bound holds several matrices of side 2N + 1 at once: free, bordered, shifted, decomposed.
        matrices = max(_MATRICES * C * N * N, 4 * (2 * N + 1) ** 2 if proven else 0)
        return _FLOAT * (n * N + matrices)
    return _ENTRY * min(n, N * (N + 1) // 2) * N * N


def check_memory(problem: TrainingProblem, solver: str = "auto", *, proven: bool = False) -> None:
    """Raise `InvalidInputError` if a solve, or a proof of its bound, takes more than the main memory."""
    builtin = solver == "auto" or BACKENDS[solver].certified
    size = f"{problem.n_samples:,} samples, {problem.size:,} inputs and {problem.n_outputs} outputs"
    work = "a proof" if proven else f"solver={solver!r}"
    advice = "take fewer rows or columns of X" + ("" if builtin else ", or solver='auto'")
    require_memory(min_memory(problem, builtin=builtin, proven=proven), work, size, advice)
