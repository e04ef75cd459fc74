"""Solvers to compare, each brought to the same certified relative gap, recomputed in the same way for all.

A peer knows only its own accuracy, so its tolerance is tightened step by step until the gap reaches the level. Times
are those of the whole call, including compilation; only the solvers of this package recompute the gap themselves, so
only their times include that. SCS solves the program (25) as printed, in the data's own units; so does SDPA, which has
no quadratic cone, both for twice the beta, which makes its regulariser the correct one. Clarabel and CVXOPT solve the
smaller program of `solve_relaxation`.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import qsdp
from benchmarks.machinery.common import timed
from benchmarks.machinery.process import peak, program
from qsdp.relaxation.scaled import RawSolution, ScaledProblem
from qsdp.relaxation.solution import Relaxation, finish

OWN = ("auto", "interior", "splitting", "low-rank")

#: Tolerances from coarse to fine. Each digit is costly for first-order methods, hardly for interior-point methods.
_FIRST_ORDER = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7)
_SECOND_ORDER = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
LADDERS = {"scs": _FIRST_ORDER, "clarabel": _SECOND_ORDER, "cvxopt": _SECOND_ORDER, "sdpa": _SECOND_ORDER}
#: Tolerance options of the solvers that are called through CVXPY.
_TOLERANCES = {
    "scs": ("eps_abs", "eps_rel"),
    "clarabel": ("tol_gap_abs", "tol_gap_rel", "tol_feas"),
    "cvxopt": ("abstol", "reltol", "feastol"),
    "sdpa": ("epsilonStar", "epsilonDash"),
}


#: Packages of solvers that are not those of `qsdp.solve_relaxation`.
_PACKAGES = {"sdpa": "sdpap", "cvxopt": "cvxopt"}


def missing(solver, cutnorm_python=""):
    """Return None if a solver can be used on this machine, else the reason why not."""
    if solver in _PACKAGES:
        found = importlib.util.find_spec(_PACKAGES[solver])
    elif solver == "csdp":
        found = shutil.which("csdp")
    elif solver == "cutnorm":
        ran = subprocess.run([cutnorm_python, "-c", "import cutnorm"], capture_output=True, check=False)
        found = ran.returncode == 0
    else:
        found = qsdp.available_solvers().get(solver) is None
    return None if found else "not installed"


@dataclass
class Answer:
    """One solve: seconds, solution and status message of the solver."""

    seconds: float
    relaxation: Relaxation | None
    status: str

    @property
    def figures(self) -> dict[str, Any]:
        """Objective, lower bound and relative gap, or no entries if the solver found no point."""
        names = ("objective", "lower_bound", "relative_gap")
        return {} if self.relaxation is None else {name: getattr(self.relaxation, name) for name in names}


def solve(problem, solver, tolerance, time_limit=None):
    """Solve once, with the default tolerance of the solver if `tolerance` is None."""
    if solver in {"scs", "sdpa", "cvxopt"}:
        return _solve_program(problem, solver, tolerance, time_limit)
    solving = partial(qsdp.solve_relaxation, problem, solver=solver, tol=tolerance, time_limit=time_limit)
    relaxation, seconds = timed(solving, time.perf_counter)
    return Answer(seconds, relaxation, f"{relaxation.solver}: {relaxation.solver_status}")


def program_of(problem: qsdp.TrainingProblem) -> qsdp.paper.Program:
    """Return (25) or (67) with the correct regulariser, which the printed one is for twice the beta."""
    double = problem.with_beta(2.0 * problem.beta)
    return (qsdp.paper.full_program if problem.scalar else qsdp.paper.vector_output_program)(double)


def _solve_program(problem, solver, tolerance, time_limit):
    """Solve a program of `qsdp.paper` in the data's own units."""
    options = {} if tolerance is None else dict.fromkeys(_TOLERANCES[solver], tolerance)
    options |= {"scs": _scs_limits(time_limit), "cvxopt": {"kktsolver": "robust"}}.get(solver, {})
    import cvxpy as cp

    start = time.perf_counter()
    program = qsdp.paper.two_block_program(problem) if solver == "cvxopt" else program_of(problem)
    convex = program.problem
    try:
        convex.solve(solver=solver.upper(), **options)
        status = convex.status
    except cp.SolverError as error:
        status = f"failed: {str(error).splitlines()[0]}"
    seconds = time.perf_counter() - start
    if program.matrices()[0] is None:
        return Answer(seconds, None, status)
    return Answer(seconds, repaired(problem, program, solver, status), status)


def _scs_limits(time_limit):
    return {"max_iters": 10_000_000} | ({} if time_limit is None else {"time_limit_secs": time_limit})


def repaired(problem: qsdp.TrainingProblem, program: Any, solver: str, status: str) -> Relaxation:
    """Return a solution of (25) repaired to exact feasibility, with objective and bound recomputed from the data."""
    (Z, V, W), (nu, z) = program.matrices(), program.duals()
    # Everything is recomputed in the units of the normalised instance.
    scaled = ScaledProblem.from_problem(problem)
    units = scaled.units
    Z, V, W = (block / units.weight for block in (Z, V, W))
    nu = None if nu is None else nu * (units.prediction / units.value)
    return finish(scaled, RawSolution(Z, V, W, nu, z, status=status), solver=solver, tol=1e-6)


def reach(problem, solver, level, budget, ladder=None):
    """Return the coarsest tolerance whose gap is at most the level, its answer, and whether the level was reached.

    The solves take `budget` seconds in total. If no tolerance reaches the level, return the one with the smallest gap.
    """
    if solver in OWN:
        answer = solve(problem, solver, level, budget)
        return level, answer, _gap(answer) <= level
    steps = LADDERS[solver] if ladder is None else ladder
    tolerance, answer = climbed(steps, partial(solve, problem, solver), _gap, level, budget)
    return tolerance, answer, _gap(answer) <= level


def climbed(ladder, attempt, gap, level, budget):
    """Return the first tolerance whose gap is at most the level, with its answer, else those of the smallest gap."""
    tried = []
    for tolerance in ladder:
        answer = attempt(tolerance, budget)
        tried.append((tolerance, answer))
        budget -= answer.seconds
        if gap(answer) <= level or budget <= 0.0:
            break
    return min(tried, key=lambda one: gap(one[1]))


def _gap(answer):
    return np.inf if answer.relaxation is None else answer.relaxation.relative_gap


def class_gaps(relaxation):
    """Return the certified relative gap of each output of a vector problem, recomputed for that output alone."""
    problem, gaps = relaxation.problem, []
    for k in range(problem.n_outputs):
        part = ScaledProblem.from_problem(problem.output(k))
        Z, V = relaxation.Z_stack[k : k + 1], relaxation.V_stack[k : k + 1]
        raw = part.inside(Z, V, relaxation.bound.nu[:, k : k + 1], relaxation.bound.z[k : k + 1])
        gaps.append(finish(part, raw, solver="given", tol=relaxation.tol, certified=True).relative_gap)
    return gaps


# -- the inner problem -----------------------------------------------------------------------------------


@dataclass
class Bound:
    """A bound of the inner problem: seconds, value of a feasible point, upper bound, peak memory of the solver."""

    seconds: float
    value: float
    upper_bound: float
    peak_mib: float

    @property
    def relative_gap(self):
        """Gap relative to the upper bound."""
        return (self.upper_bound - self.value) / abs(self.upper_bound)


def inner(M, solver, tolerance, time_limit=None):
    """Solve the inner problem once."""
    if solver == "qsdp":
        bound, seconds = timed(lambda: qsdp.maxcut_bound(M, tol=tolerance), time.perf_counter)
        return Bound(seconds, bound.value, bound.upper_bound, peak() / 2**20)
    if solver == "csdp":
        return _inner_csdp(M, tolerance, time_limit)
    if solver in _FACTORS:
        (factor, z), seconds = timed(lambda: _FACTORS[solver](M, tolerance, time_limit), time.perf_counter)
        largest = peak() / 2**20
        return Bound(seconds, float(np.sum(factor * (M @ factor))), _safe_bound(M, z), largest)
    return _inner_cvxpy(M, solver, tolerance, time_limit)


def _unit_rows(n):
    """Return random unit vectors, with one dimension more than an optimum needs (Barvinok and Pataki)."""
    V = np.random.default_rng(0).standard_normal((n, math.ceil(math.sqrt(2 * n)) + 1))
    return V / np.linalg.norm(V, axis=1)[:, None]


def _inner_cvxpy(M, solver, tolerance, time_limit):
    """Solve the printed program by SCS or the dual by others: n^2 variables are out of reach for these."""
    import cvxpy as cp

    start, n = time.perf_counter(), len(M)
    if solver == "scs":
        K = cp.Variable((n, n), PSD=True)
        unit = cp.diag(K) == 1
        program = cp.Problem(cp.Maximize(cp.trace(M @ K)), [unit])
        options = {"eps_abs": tolerance, "eps_rel": tolerance, **_scs_limits(time_limit)}
    else:
        z = cp.Variable(n)
        dominates = cp.diag(z) - M >> 0
        program = cp.Problem(cp.Minimize(cp.sum(z)), [dominates])
        options = dict.fromkeys(_TOLERANCES[solver], tolerance)
    program.solve(solver=solver.upper(), **options)
    seconds, largest = time.perf_counter() - start, peak() / 2**20
    point, bound = (K.value, unit.dual_value) if solver == "scs" else (dominates.dual_value, z.value)
    if point is None or bound is None:
        raise RuntimeError(f"{solver} ended after {seconds:.0f} s with status {program.status!r} and no solution")
    # Conventions differ in the sign of a multiplier.
    upper = min(_safe_bound(M, bound), _safe_bound(M, -bound)) if solver == "scs" else _safe_bound(M, bound)
    return Bound(seconds, _feasible_value(M, point), upper, largest)


def _inner_mixing(M, tolerance, time_limit):
    r"""Update one unit vector at a time: the mixing method of Wang, Chang and Kolter (2017).

    It solves :math:`\max \langle M, V V^T \rangle` over rows :math:`v_i` of norm one, in :math:`\lceil\sqrt{2n}\rceil +
    1` dimensions. With the others fixed, the best :math:`v_i` is :math:`g_i = \sum_{j \ne i} M_{ij} v_j` over its norm.
    It ends when a sweep raises the value by at most the relative tolerance. Multipliers are :math:`M_{ii} + \|g_i\|`.
    """
    start = time.perf_counter()
    rows = scipy.sparse.csr_array(M, copy=True)
    diagonal = rows.diagonal()
    rows = rows - scipy.sparse.diags_array(diagonal, format="csr")
    rows.eliminate_zeros()
    entries = [slice(*ends) for ends in itertools.pairwise(rows.indptr)]
    neighbours = [(rows.indices[own], rows.data[own]) for own in entries]
    V = _unit_rows(len(diagonal))
    value = float(diagonal.sum() + np.sum(V * (rows @ V)))
    while True:
        rise = 0.0
        for i, (others, weights) in enumerate(neighbours):
            g = weights @ V[others]
            norm = math.sqrt(g @ g)
            if norm > 0.0:
                rise += 2.0 * (norm - float(g @ V[i]))
                V[i] = g / norm
        value += rise
        over = time_limit is not None and time.perf_counter() - start > time_limit
        if over or rise <= tolerance * abs(value):
            break
    return V, diagonal + np.linalg.norm(rows @ V, axis=1)


def _inner_augmented(M, tolerance, time_limit):
    r"""Maximise over low-rank factors with an augmented Lagrangian and L-BFGS, as SDPLR does.

    Burer and Monteiro (2003): :math:`\max \langle M, R R^T \rangle` with :math:`\mathrm{diag}(R R^T) = 1` in
    :math:`\lceil\sqrt{2n}\rceil + 1` columns. L-BFGS with four pairs minimises until the gradient is a tenth of the
    last residual; then the multipliers are updated, and the penalty doubles if the residual has not fallen to a
    quarter. The method ends when the residuals are below the tolerance. The bound uses its multipliers.
    """
    start = time.perf_counter()
    rows = scipy.sparse.csr_array(M)
    R = _unit_rows(rows.shape[0])
    size = float(np.sqrt(rows.multiply(rows).sum(axis=1)).mean())
    z, penalty, best = np.zeros(len(R)), size, np.inf

    def over() -> bool:
        return time_limit is not None and time.perf_counter() - start > time_limit

    def lagrangian(x):
        R = x.reshape(rows.shape[0], -1)
        image, residual = rows @ R, np.sum(R * R, axis=1) - 1.0
        weights = z + penalty * residual
        value = -np.sum(R * image) + z @ residual + 0.5 * penalty * residual @ residual
        return value, (2.0 * (weights[:, None] * R - image)).ravel()

    def watched(x):
        if over():
            raise StopIteration

    while True:
        options = {"maxcor": 4, "maxiter": 1000, "gtol": size * max(tolerance, min(1e-1, 0.1 * best)), "ftol": 0.0}
        found = scipy.optimize.minimize(
            lagrangian, R.ravel(), jac=True, method="L-BFGS-B", callback=watched, options=options
        )
        R = found.x.reshape(R.shape)
        residual = np.sum(R * R, axis=1) - 1.0
        missed = float(np.abs(residual).max())
        z = z + penalty * residual
        if missed > 0.25 * best:
            penalty *= 2.0
        best = min(best, missed)
        if missed <= tolerance or over():
            break
    return R / np.linalg.norm(R, axis=1)[:, None], z


#: Low-rank methods, which return a factor with unit rows and multipliers.
_FACTORS = {"mixing": _inner_mixing, "sdplr-like": _inner_augmented}


def _inner_csdp(M, tolerance, time_limit):
    """Run CSDP on a file; the time is that of the process, including reading the file."""
    n = len(M)
    with tempfile.TemporaryDirectory() as home:
        i, j = np.nonzero(np.triu(M))
        lines = [f"{n}", "1", f"{n}", " ".join(["1.0"] * n)]
        lines += [f"0 1 {a + 1} {b + 1} {M[a, b]:.17g}" for a, b in zip(i, j, strict=True)]
        lines += [f"{k} 1 {k} {k} 1.0" for k in range(1, n + 1)]
        Path(home, "problem").write_text("\n".join(lines) + "\n")
        settings = {
            "axtol": 1e-8, "atytol": 1e-8, "objtol": tolerance, "pinftol": 1e8, "dinftol": 1e8, "maxiter": 100,
            "minstepfrac": 0.90, "maxstepfrac": 0.97, "minstepp": 1e-8, "minstepd": 1e-8, "usexzgap": 1, "tweakgap": 0,
            "affine": 0, "printlevel": 0, "perturbobj": 0, "fastmode": 0,
        }  # fmt: skip
        Path(home, "param.csdp").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        seconds, largest, _ = program(["csdp", "problem", "answer"], home, time_limit)
        first, *entries = Path(home, "answer").read_text().splitlines()
    K = np.zeros((n, n))
    for matrix, _, i, j, value in (line.split() for line in entries):
        if matrix == "2":
            K[int(i) - 1, int(j) - 1] = K[int(j) - 1, int(i) - 1] = float(value)
    return Bound(seconds, _feasible_value(M, K), _safe_bound(M, np.array(first.split(), dtype=float)), largest)


def inner_cutnorm(M, level, python):
    """Return the first tolerance of `cutnorm.py` whose gap is at most the level, else that of the smallest gap."""
    bounds = []
    with tempfile.TemporaryDirectory() as home:
        paths = [str(Path(home, name)) for name in ("matrix.npy", "answer.npz")]
        np.save(paths[0], M)
        script = Path(__file__).with_name("cutnorm.py")
        _, largest, status = program([python, script, *paths])
        if status:
            raise RuntimeError(f"{script.name} ended with exit status {status}")
        answer = dict(np.load(paths[1]))
    for tolerance, seconds, Y in zip(answer["tolerances"], answer["seconds"], answer["points"], strict=True):
        z = np.sum(Y * (M @ Y), axis=1)
        bounds.append((float(tolerance), Bound(float(seconds), float(z.sum()), _safe_bound(M, z), largest)))
        if bounds[-1][1].relative_gap <= level:
            return bounds[-1]
    return min(bounds, key=lambda pair: pair[1].relative_gap)


def _feasible_value(M, K):
    """Return the value at the nearest factor with unit rows."""
    values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    Y = vectors * np.sqrt(np.maximum(values, 0.0))
    Y /= np.maximum(np.linalg.norm(Y, axis=1), 1e-300)[:, None]
    return float(np.sum(Y * (M @ Y)))


def _safe_bound(M, z):
    """Return the sum of z, raised so that Diag(z) - M is positive semidefinite, plus an allowance for rounding."""
    values = np.linalg.eigvalsh(np.diag(z) - M)
    n = len(z)
    rounding = 10.0 * n * n * np.finfo(float).eps * float(np.abs(values).max())
    return float(z.sum()) + n * max(0.0, -float(values[0])) + rounding
