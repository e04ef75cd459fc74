"""The relaxation as a conic program, its solvers, which are called through CVXPY, and the names of their options."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS
from qsdp._utils.validation import FloatArray
from qsdp.relaxation.backends.backend import Backend
from qsdp.relaxation.instance import LinearInstance
from qsdp.relaxation.scaled import RawSolution, Settings

if TYPE_CHECKING:
    import cvxpy as cp
if TYPE_CHECKING:
    import cvxpy as cp

    #: Variables, expressions of Z, V and W, the constraint whose multiplier is z, and the cones.
    Part = tuple[list[cp.Variable], tuple[cp.Expression, ...], cp.Constraint, list[cp.Constraint]]

__all__ = ["CONIC_BACKENDS", "ConicProgram", "run_conic", "two_block"]


@dataclass(frozen=True, eq=False, repr=False)
class ConicProgram:
    """CVXPY problem, and where its matrices and multipliers are.

    Attributes
    ----------
    problem : cvxpy.Problem
    variables : dict of str to cvxpy.Variable
        Variables by name.
    fits : list of cvxpy.Constraint
        For each output of a relaxation, one constraint ``yhat == 2 <X_i, Z>`` for all samples. Its multiplier is the
        dual vector `nu`.
    parts : list of tuple of cvxpy.Expression
        Z, V and W of every output and block of a bilinear relaxation. In a linear block, Z is diagonal.
    diagonals : list of cvxpy.Constraint
        For each of these, the constraint that the diagonals equal ``rho``. Its multiplier is `z` (``[z, z']`` if V and
        W are different variables). In a linear block, the constraint that ``rho`` bounds the entries of Z.
    real : list of cvxpy.Variable
        For each output, the real weights of all blocks of weights times their prices, if there are any.
    """

    problem: cp.Problem
    variables: dict[str, cp.Variable]
    fits: list[cp.Constraint] = field(default_factory=list)
    parts: list[tuple[cp.Expression, ...]] = field(default_factory=list)
    diagonals: list[cp.Constraint] = field(default_factory=list)
    real: list[cp.Variable] = field(default_factory=list)

    def weights(self) -> FloatArray | None:
        """Return the solver's real weights of shape (C, p), or None if there are none."""
        return _stacked([weights.value for weights in self.real]) if self.real else None

    def matrices(self) -> tuple[FloatArray | None, FloatArray | None, FloatArray | None]:
        """Return the solver's values of Z, V and W, each of shape (K, N, N), or None if they have no values."""
        Z, V, W = (_stacked([part[i].value for part in self.parts]) for i in range(3))
        return Z, V, W

    def duals(self) -> tuple[FloatArray | None, FloatArray | None]:
        """Return the solver's multipliers nu of shape (n, C) and z of shape (K, N)."""
        nu = _stacked([constraint.dual_value for constraint in self.fits])
        # CVXPY returns numbers and columns if a constraint has one row.
        if nu is not None:
            nu = nu.reshape(len(self.fits), -1).T
        sides = [Z.shape[0] for Z, _, _ in self.parts]
        multipliers = [constraint.dual_value for constraint in self.diagonals]
        means = [z if z is None else z.reshape(-1, N).mean(axis=0) for z, N in zip(multipliers, sides, strict=True)]
        return nu, _stacked(means)


def two_block(instance: LinearInstance) -> ConicProgram:
    """Build the relaxation of an instance with two cones for each output and block, in the units of the instance."""
    import cvxpy as cp

    layout, (n, C) = instance.map.layout, instance.target.shape
    R = layout.n_blocks
    yhat = cp.Variable((n, C) if C > 1 else n, name="yhat")
    variables, penalty = {"yhat": yhat}, 0.0
    fits, parts, diagonals, cones, real = [], [], [], [], []
    if R:
        rho = cp.Variable(tuple(count for count in (C, R) if count > 1), name="rho")
        variables, penalty = {"rho": rho, **variables}, cp.sum(rho)
    for k in range(C):
        for r, (size, linear) in enumerate(zip(layout.sizes, layout.linear, strict=True)):
            suffix = f"{k}" * (C > 1) + f"_{r}" * (R > 1)
            radius = rho[(k,) * (C > 1) + (r,) * (R > 1)] if C * R > 1 else rho
            added, matrices, diagonal, more = (_linear_part if linear else _quadratic_part)(size, suffix, radius)
            variables |= {variable.name(): variable for variable in added}
            parts.append(matrices)
            diagonals.append(diagonal)
            cones += more
        of_output, weights = [matrices[0] for matrices in parts[k * R :]], None
        if layout.weights:
            weights = cp.Variable(layout.n_weights, name=f"weights{k}" if C > 1 else "weights")
            variables[weights.name()] = weights
            real.append(weights)
            penalty = penalty + 0.5 * cp.norm1(weights)
        # The factor of the matrices is that of the weights, too.
        halved = None if weights is None else 0.5 * weights
        data = 2 * instance.map.expression(of_output[0] if R == 1 else of_output, halved)
        fits.append((yhat[:, k] if C > 1 else yhat) == data)
    loss = instance.fit.expression(cp.reshape(yhat, (n, C), order="C"))
    program = cp.Problem(cp.Minimize(loss + instance.penalty * penalty), [*fits, *diagonals, *cones])
    return ConicProgram(program, variables, fits, parts, diagonals, real)


def _quadratic_part(N: int, suffix: str, rho: cp.Expression) -> Part:
    import cvxpy as cp

    # V and Z are variables themselves: A and B with 2 Z = A - B would double the dense rows.
    V = cp.Variable((N, N), symmetric=True, name=f"V{suffix}")
    Z = cp.Variable((N, N), symmetric=True, name=f"Z{suffix}")
    return [V, Z], (Z, V, V), cp.diag(V) == rho, [V + Z >> 0, V - Z >> 0]


def _linear_part(N: int, suffix: str, rho: cp.Expression) -> Part:
    """Return the variables of a linear block, whose matrices are diagonal and need no semidefinite cone."""
    import cvxpy as cp

    z = cp.Variable(N, name=f"Z{suffix}")
    V = rho * np.eye(N)
    return [z], (cp.diag(z), V, V), cp.abs(z) <= rho, []


def _stacked(values: list[FloatArray | None]) -> FloatArray | None:
    """Stack arrays of different sizes, padded with zeros; None if one is missing."""
    present: list[FloatArray] = [np.asarray(value) for value in values if value is not None]
    if len(present) < len(values):
        return None
    if not present:
        return np.zeros((0, 0, 0))
    ends = [max(lengths) for lengths in zip(*(value.shape for value in present), strict=True)]
    stack = np.zeros((len(present), *ends))
    for part, value in zip(stack, present, strict=True):
        part[tuple(slice(end) for end in value.shape)] = value
    return stack


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
