"""Warnings of relaxations that were not solved to the requested tolerance: the cause, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import HALF_DIGITS
from qsdp._utils.tuning import FAR, INNER
from qsdp._utils.validation import FloatArray, warn
from qsdp.data_map import COLUMNS
from qsdp.relaxation.solution import Relaxation

__all__ = [
    "falls_short",
    "ratio_of_scales",
    "warn_of_choices",
    "warn_of_shortfall",
]


def falls_short(relaxation: Relaxation, tol: float) -> bool:
    """Whether the certified gap is so much larger than the tolerance that a warning is due."""
    return relaxation.status != "optimal" and INNER * relaxation.relative_gap > tol


def warn_of_shortfall(relaxation: Relaxation, tol: float, solver: str) -> None:
    """Warn if a relaxation falls short of the tolerance, unless the user's callback stopped the solve.

    Parameters
    ----------
    relaxation : Relaxation
    tol : float
    solver : str
        The solver as requested, which may be "auto".
    """
    if not falls_short(relaxation, tol) or relaxation.solver_status == "stopped by the callback":
        return
    warn(
        f"the certified relative gap of the relaxation is {relaxation.relative_gap:.2g}, above tol={tol:g}, though its "
        f"lower bound is valid: {_cause(relaxation, solver)}"
    )


def warn_of_choices() -> None:
    """Warn about searches that the time limit ended early, unless a warning about the relaxation named them."""
    if stages := deadline.ended():
        warn(
            f"the time limit ended {_listed(stages)}: certificate and predictions are valid, but a longer search "
            "may give a better result; allow more time with time_limit"
        )


def _cause(relaxation: Relaxation, solver: str) -> str:
    """Explain the cause of a gap and what to do about it."""
    name, status, problem = relaxation.solver, relaxation.solver_status, relaxation.problem
    if relaxation.interrupted:
        return "the solve was interrupted"
    if status == "time limit":
        stages = [*deadline.ended(), "the solve"]
        return f"the time limit ended {_listed(stages)}; allow more time with time_limit"
    # A solver that stalls or takes too many iterations is then a symptom.
    ratio = ratio_of_scales(problem.X) if COLUMNS in problem.map.offers else 1.0
    if ratio > FAR:
        return f"the columns of X differ in scale by a factor of {ratio:.0f}; standardise them"
    if status == "iteration limit":
        more = f"allow more with max_iter of qsdp.solve_relaxation, or try {_other(name, solver)}"
        return f"solver {name!r} reached its iteration limit; {more}"
    reason = "cannot improve it in floating point" if status == "stalled" else f"ended with status {status!r}"
    return f"solver {name!r} {reason}; try {_other(name, solver)}"


def _listed(stages: Sequence[str]) -> str:
    *others, last = stages
    return f"{', '.join(others)} and {last}" if others else last


def _other(name: str, solver: str) -> str:
    """Return the argument that selects another solver, as text for a message."""
    return f"solver={'auto' if solver != 'auto' else 'splitting' if name != 'splitting' else 'scs'!r}"


def ratio_of_scales(X: FloatArray) -> float:
    """Compute the largest ratio of the standard deviations of two non-constant columns, or one."""
    # Divide first, so that squares of extreme values stay finite; later checks refuse such values.
    largest = float(np.abs(X).max()) or 1.0
    varying = X.max(axis=0) > X.min(axis=0)
    deviations = np.std(X[:, varying] / largest, axis=0)
    # A scaler turns a constant column into rounding errors, which do not count as a column of small scale.
    deviations = deviations[deviations > HALF_DIGITS * np.abs(X[:, varying] / largest).max(axis=0, initial=0.0)]
    return float(deviations.max() / deviations.min()) if deviations.size else 1.0
