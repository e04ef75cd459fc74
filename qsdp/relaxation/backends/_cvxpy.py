"""Run a conic solver on a CVXPY formulation."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

from qsdp._utils.deadline import TimeOver
from qsdp.relaxation.backends.base import Settings
from qsdp.relaxation.formulations import formulate
from qsdp.relaxation.instance import LinearInstance
from qsdp.relaxation.scaled import RawSolution

__all__ = ["solve_with_cvxpy"]

#: SCS's number for "stopped by SIGINT".
_SCS_INTERRUPTED = -5


def solve_with_cvxpy(
    instance: LinearInstance, settings: Settings, *, solver: str, options: Callable[[Settings], dict[str, Any]]
) -> RawSolution:
    """Build, compile and solve the relaxation; what the solver reports is passed on unverified.

    Compiling and solving are called apart, so that each is timed and a solver that stops early still hands
    over the point it has reached.
    """
    import cvxpy as cp

    start = time.perf_counter()
    formulation = formulate(instance, form=settings.form)
    data, chain, inverse = formulation.problem.get_problem_data(solver, solver_opts=options(settings))
    compiled = time.perf_counter()
    status, iterations = "time limit", None
    try:
        # What is left of the time is less by what compiling took.
        settings.deadline.check()
        with warnings.catch_warnings():
            # The accuracy reached is measured and reported by the relaxation itself.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            answer = chain.solve_via_data(formulation.problem, data, False, False, options(settings))
            if _was_interrupted(answer):
                raise KeyboardInterrupt
            formulation.problem.unpack_results(answer, chain, inverse)
        status = str(formulation.problem.status)
        iterations = formulation.problem.solver_stats.num_iters
    except TimeOver:
        pass
    except cp.SolverError as error:
        status = f"failed: {str(error).splitlines()[0]}"
    solved = time.perf_counter()
    Z, V, W = formulation.blocks()
    nu, z = formulation.duals()
    timings = {"compile": compiled - start, "solve": solved - compiled}
    return RawSolution(Z, V, W, nu, z, status=status, iterations=iterations, timings=timings)


def _was_interrupted(answer: Any) -> bool:
    """Return whether the keyboard stopped SCS, which catches the interrupt itself and returns no point."""
    info = answer.get("info") if isinstance(answer, dict) else None
    return isinstance(info, dict) and info.get("status_val") == _SCS_INTERRUPTED
