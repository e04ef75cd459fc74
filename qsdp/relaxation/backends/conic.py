"""Conic solvers called through CVXPY: option names, supported limits and supported cones."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS
from qsdp.relaxation.backends.base import Backend
from qsdp.relaxation.formulations import formulate
from qsdp.relaxation.instance import LinearInstance
from qsdp.relaxation.scaled import RawSolution
from qsdp.relaxation.settings import Settings

__all__ = ["CONIC_BACKENDS", "was_interrupted"]


def solve_with_cvxpy(
    instance: LinearInstance, settings: Settings, *, solver: str, options: Callable[[Settings], dict[str, Any]]
) -> RawSolution:
    """Solve the relaxation through CVXPY and return the solver's result unverified.

    Compilation and solve are separate calls, so that each is timed and a solver that stops early still returns the
    point it has reached.
    """
    import cvxpy as cp

    start = time.perf_counter()
    formulation = formulate(instance, form=settings.form)
    data, chain, inverse = formulation.problem.get_problem_data(solver, solver_opts=options(settings))
    compiled = time.perf_counter()
    status, iterations = "time limit", None
    try:
        # Compilation has used part of the time.
        deadline.check()
        with warnings.catch_warnings():
            # The relaxation itself measures and reports the accuracy.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            answer = chain.solve_via_data(formulation.problem, data, False, False, options(settings))
            if was_interrupted(answer):
                raise KeyboardInterrupt
            formulation.problem.unpack_results(answer, chain, inverse)
        status = str(formulation.problem.status)
        iterations = formulation.problem.solver_stats.num_iters
    except deadline.TimeOver:
        pass
    except cp.SolverError as error:
        status = f"failed: {str(error).splitlines()[0]}"
    solved = time.perf_counter()
    Z, V, W = formulation.matrices()
    nu, z = formulation.duals()
    timings = {"compile": compiled - start, "solve": solved - compiled}
    return RawSolution(Z, V, W, nu, z, status=status, iterations=iterations, timings=timings)


def was_interrupted(answer: Any) -> bool:
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
    #: None if the solver takes no time limit.
    time_limit: str | None = None
    #: Options that are always set, unless the settings override them.
    defaults: Mapping[str, object] = field(default_factory=dict)
    #: Keyword of CVXPY under which all options are passed.
    group: str | None = None

    def __call__(self, settings: Settings) -> dict[str, Any]:
        """Translate settings to keyword arguments of ``cvxpy.Problem.solve``."""
        options = {**self.defaults, **dict.fromkeys(self.tolerances, settings.tol)}
        if settings.max_iter is not None:
            options[self.max_iter] = settings.max_iter
        if self.time_limit and deadline.left() < math.inf:
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


def _backend(
    name: str,
    options: ConicOptions,
    *,
    install: str,
    cones: tuple[str, ...] = ("quadratic", "exponential"),
    licence: Callable[[], str | None] | None = None,
) -> Backend:
    def solve(instance: LinearInstance, settings: Settings) -> RawSolution:
        return solve_with_cvxpy(instance, settings, solver=name.upper(), options=options)

    takes_time = options.time_limit is not None
    return Backend(name, solve, name, install, frozenset(cones), takes_time, licence=licence)


#: The conic back ends in the order in which "auto" tries them.
CONIC_BACKENDS = (
    # A first-order method for moderate accuracy.
    _backend(
        "scs",
        ConicOptions(("eps_abs", "eps_rel"), "max_iters", "time_limit_secs", {"max_iters": 20_000}),
        install="pip install scs",
    ),
    # An interior-point method: high accuracy on small problems, but gigabytes of memory for blocks of 100 or more.
    _backend(
        "clarabel",
        ConicOptions(("tol_gap_abs", "tol_gap_rel", "tol_feas"), "max_iter", "time_limit"),
        install="pip install clarabel",
    ),
    # A commercial interior-point method; free licences exist for academia.
    _backend(
        "mosek",
        ConicOptions(
            tuple(f"MSK_DPAR_INTPNT_CO_TOL_{name}" for name in ("REL_GAP", "PFEAS", "DFEAS")),
            "MSK_IPAR_INTPNT_MAX_ITERATIONS",
            "MSK_DPAR_OPTIMIZER_MAX_TIME",
            group="mosek_params",
        ),
        install="pip install mosek",
        licence=_missing_mosek_licence,
    ),
    # An interior-point method in plain Python and LAPACK. Its default factorisation fails on the many equations that
    # share a variable here.
    _backend(
        "cvxopt",
        ConicOptions(("abstol", "reltol", "feastol"), "max_iters", defaults={"kktsolver": "robust"}),
        install="pip install cvxopt",
        cones=("quadratic",),
    ),
)
