"""Conic solvers called through CVXPY, and the names of their options."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS
from qsdp.relaxation.backends.backend import Backend
from qsdp.relaxation.conic_program import two_block
from qsdp.relaxation.instance import LinearInstance
from qsdp.relaxation.scaled import RawSolution, Settings

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["CONIC_BACKENDS", "run_conic"]


class ConicRun(NamedTuple):
    """Status of the solver, its number of iterations, and seconds of the stages "compile" and "solve"."""

    status: str
    iterations: int | None
    timings: dict[str, float]


def run_conic(program: cp.Problem, solver: str, settings: Settings) -> ConicRun:
    """Solve a CVXPY problem by "scs", "clarabel" or "mosek", which assigns values to its variables.

    Compilation and solve are separate calls, so that each is timed and a solver that stops early still returns the
    point it has reached. A solver that fails assigns no values.
    """
    import cvxpy as cp

    start = time.perf_counter()
    options = _OPTIONS[solver](settings)
    data, chain, inverse = program.get_problem_data(solver.upper(), solver_opts=options)
    compiled = time.perf_counter()
    status, iterations = "time limit", None
    try:
        # Compilation has used part of the time.
        deadline.check()
        with warnings.catch_warnings():
            # The caller measures the accuracy.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            answer = chain.solve_via_data(program, data, False, False, _OPTIONS[solver](settings))
            if _was_interrupted(answer):
                raise KeyboardInterrupt
            program.unpack_results(answer, chain, inverse)
        status = str(program.status)
        iterations = program.solver_stats.num_iters
    except deadline.TimeOver:
        pass
    except cp.SolverError as error:
        status = f"failed: {str(error).splitlines()[0]}"
    return ConicRun(status, iterations, {"compile": compiled - start, "solve": time.perf_counter() - compiled})


def _solve_relaxation(instance: LinearInstance, settings: Settings, *, solver: str) -> RawSolution:
    """Solve the relaxation and return the solver's result unverified."""
    program = two_block(instance)
    run = run_conic(program.problem, solver, settings)
    point = program.matrices()
    return RawSolution(*point, *program.duals(), run.status, run.iterations, run.timings, program.weights())


def _was_interrupted(answer: Any) -> bool:
    """Detect that SCS was interrupted from the keyboard: it catches the interrupt itself and returns no point."""
    info = answer.get("info") if isinstance(answer, dict) else None
    if not isinstance(info, dict) or "status_val" not in info:
        return False
    import scs

    return bool(info["status_val"] == scs.SIGINT)


@dataclass(frozen=True)
class ConicOptions:
    """Names under which a solver expects its tolerance, time limit and other options."""

    #: Options that are set to the requested accuracy.
    tolerances: tuple[str, ...]
    max_iter: str
    time_limit: str
    #: Options that are always set, unless the settings override them.
    defaults: Mapping[str, object] = field(default_factory=dict)
    #: Keyword of CVXPY under which all options are passed.
    group: str | None = None

    def __call__(self, settings: Settings) -> dict[str, Any]:
        """Translate settings to keyword arguments of ``cvxpy.Problem.solve``."""
        options = {**self.defaults, **dict.fromkeys(self.tolerances, settings.tol)}
        if settings.max_iter is not None:
            options[self.max_iter] = settings.max_iter
        if deadline.left() < math.inf:
            # For some solvers, zero means no limit.
            options[self.time_limit] = max(deadline.left(), EPS)
        return {self.group: options} if self.group else options


def _missing_mosek_licence() -> str | None:
    """Explain what to set if MOSEK has no valid licence; None if it has one."""
    import mosek

    try:
        with mosek.Env() as environment:
            environment.checkoutlicense(mosek.feature.pton)
    except mosek.Error as error:
        return (
            "MOSEK is installed but has no valid licence: put mosek.lic in ~/mosek or set "
            "MOSEKLM_LICENSE_FILE (academic licences are free, see mosek.com); "
            f"MOSEK says: {str(error).splitlines()[0]}"
        )
    return None


_OPTIONS = {
    # A first-order method for moderate accuracy.
    "scs": ConicOptions(("eps_abs", "eps_rel"), "max_iters", "time_limit_secs", {"max_iters": 20_000}),
    # An interior-point method: high accuracy on small problems, but gigabytes of memory for blocks of 100 or more.
    "clarabel": ConicOptions(("tol_gap_abs", "tol_gap_rel", "tol_feas"), "max_iter", "time_limit"),
    # A commercial interior-point method; free licences exist for academia.
    "mosek": ConicOptions(
        tuple(f"MSK_DPAR_INTPNT_CO_TOL_{name}" for name in ("REL_GAP", "PFEAS", "DFEAS")),
        "MSK_IPAR_INTPNT_MAX_ITERATIONS",
        "MSK_DPAR_OPTIMIZER_MAX_TIME",
        group="mosek_params",
    ),
}

#: The conic back ends in the order in which "auto" tries them.
CONIC_BACKENDS = tuple(
    Backend(
        name,
        partial(_solve_relaxation, solver=name),
        package=name,
        install=f"pip install {name}",
        licence=_missing_mosek_licence if name == "mosek" else None,
    )
    for name in _OPTIONS
)
