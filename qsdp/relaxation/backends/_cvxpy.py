"""The way from a CVXPY formulation to a conic solver and back, shared by the back ends that use it."""

from __future__ import annotations

import time
import warnings
from typing import Any

from qsdp.relaxation.backends.base import Settings
from qsdp.relaxation.formulations import formulate
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.solution import RawSolution

__all__ = ["solve_with_cvxpy"]

#: SCS's number for "stopped by SIGINT".
_SCS_INTERRUPTED = -5


def solve_with_cvxpy(instance: Instance, settings: Settings, *, solver: str, options: dict[str, Any]) -> RawSolution:
    """Build, compile and solve the relaxation; what the solver reports is passed on, not believed.

    Compiling and solving are called apart, so that each is timed and a solver that stops early still hands
    over the point it has reached.
    """
    import cvxpy as cp

    start = time.perf_counter()
    formulation = formulate(instance, form=settings.form)
    data, chain, inverse = formulation.problem.get_problem_data(solver, solver_opts=options)
    compiled = time.perf_counter()
    status, iterations = "failed", None
    try:
        with warnings.catch_warnings():
            # The accuracy reached is measured and reported by the relaxation itself.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            answer = chain.solve_via_data(formulation.problem, data, False, False, options)
            if _was_interrupted(answer):
                raise KeyboardInterrupt
            formulation.problem.unpack_results(answer, chain, inverse)
        status = str(formulation.problem.status)
        iterations = formulation.problem.solver_stats.num_iters
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
