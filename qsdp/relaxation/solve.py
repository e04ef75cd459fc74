"""Solve the relaxation with any back end."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from joblib import Parallel, delayed

from qsdp._validation import check_choice, check_integer, check_jobs, check_real, warn
from qsdp.exceptions import InvalidTypeError
from qsdp.problem import REGULARIZATIONS, TrainingProblem
from qsdp.relaxation.backends import BACKENDS, Backend, Settings, choose_backend
from qsdp.relaxation.formulations import FORMS
from qsdp.relaxation.instance import GramReduction, Instance
from qsdp.relaxation.solution import ZERO_GAP, RawSolution, Relaxation, finish, join_outputs

__all__ = ["solve_relaxation"]

#: Factors on the tolerance of successive attempts.
_TIGHTENINGS = (1.0, 1e-2, 1e-4)


def solve_relaxation(
    problem: TrainingProblem,
    solver: str = "auto",
    tol: float = 1e-6,
    *,
    regularization: str = "tight",
    form: str = "two-block",
    max_iter: int | None = None,
    time_limit: float | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> Relaxation:
    r"""Solve the semidefinite relaxation of a training problem.

    .. math::

        \min_{V, Z, W, \rho}\; \ell(2 \langle \mathcal{X}_i, Z \rangle, y) + 2 \beta D \rho \quad\text{s.t.}\quad
        \begin{bmatrix} V & Z \\ Z^T & W \end{bmatrix} \succeq 0,\; V_{jj} = W_{jj} = \rho

    Its optimum bounds that of every network from below, and is at least the optimum for ``beta / 1.783``.
    The solver's answer is repaired to exact feasibility, and objective and lower bound are recomputed from
    the data: both hold at any tolerance and after any early stop.

    Parameters
    ----------
    problem : TrainingProblem
    solver : {"auto", "scs", "clarabel", "mosek", "cvxopt"}, default="auto"
        "auto" takes the first usable one, SCS where it is installed.
    tol : float, default=1e-6
        The solver's own accuracy, > 0. A solver that reports success with a certified relative gap above
        ``100 tol`` is asked again at a hundredth of it, twice at most and while that halves the gap.
    regularization : {"tight", "paper"}, default="tight"
        "paper" halves the regulariser, as printed in (25): for reproduction, its bound is looser.
    form : {"two-block", "literal"}, default="two-block"
        Equivalent programs; see `build_two_block` and `build_literal`.
    max_iter : int, optional
    time_limit : float, optional
        Seconds, > 0.
    verbose : bool, default=False
        Let the solver print.
    n_jobs : int, optional
        Processes for the outputs of a vector problem whose loss adds up over them, as in joblib; None is one.

    Returns
    -------
    Relaxation

    Raises
    ------
    UnavailableSolverError, SolverError
        The solver is not installed, has no licence, or cannot express the loss.

    Warns
    -----
    QSDPWarning
        The certified gap is much larger than was asked for, or `beta` is so large that zero is optimal.

    Notes
    -----
    Equations (25) and (67) of Bartan and Pilanci with the factor of the regulariser corrected. The problem for
    M + 1 levels is the binary one on columns scaled by M. A squared loss with more than N(N + 1)/2 samples is
    reduced to that many rows first.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((30, 4))
    >>> relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.1))
    >>> relaxation.lower_bound <= relaxation.objective and relaxation.relative_gap < 1e-4
    True
    """
    if not isinstance(problem, TrainingProblem):
        raise InvalidTypeError(f"problem must be a TrainingProblem; got {type(problem).__name__}")
    settings = Settings(
        tol=check_real("tol", tol, strict=True),
        form=check_choice("form", form, FORMS),
        max_iter=None if max_iter is None else check_integer("max_iter", max_iter, minimum=1, maximum=2**31 - 1),
        time_limit=None if time_limit is None else check_real("time_limit", time_limit, strict=True),
        verbose=bool(verbose),
    )
    check_choice("regularization", regularization, REGULARIZATIONS)
    check_jobs(n_jobs)
    backend = choose_backend(solver, problem.loss, max_iter=settings.max_iter, time_limit=settings.time_limit)
    if (trivial := _zero_if_optimal(problem, settings.tol, regularization)) is not None:
        return trivial
    if problem.vector and not problem.loss.coupled:
        relaxation = _solve_outputs(problem, backend, settings, regularization, n_jobs)
    else:
        relaxation = _solve_to_the_gap(problem, backend, settings, regularization)
    if relaxation.status != "optimal":
        warn(
            f"solver {backend.name!r} (its status: {relaxation.solver_status}) left a certified relative gap "
            f"of {relaxation.relative_gap:.2g}; the bound is valid but loose: allow more iterations or time, "
            "or rescale the columns of X"
        )
    return relaxation


def _solve_outputs(
    problem: TrainingProblem, backend: Backend, settings: Settings, regularization: str, n_jobs: int | None
) -> Relaxation:
    """Solve the outputs of a separable vector problem apart, with one reduction of the data for all."""
    reduction = _reduction(problem, regularization)
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_solve_output)(problem.output(k), backend.name, settings, regularization, reduction, k)
        for k in range(problem.n_outputs)
    )
    return join_outputs(problem, list(parts))


def _solve_output(
    problem: TrainingProblem,
    solver: str,
    settings: Settings,
    regularization: str,
    reduction: GramReduction | None,
    k: int,
) -> Relaxation:
    """Solve one output; the solver goes by name, since functions changed at run time cannot cross processes."""
    trivial = _zero_if_optimal(problem, settings.tol, regularization, quiet=True)
    return trivial or _solve_to_the_gap(problem, BACKENDS[solver], settings, regularization, reduction, k)


def _reduction(problem: TrainingProblem, regularization: str) -> GramReduction | None:
    if not GramReduction.pays(problem):
        return None
    scalar = problem.output(0) if problem.vector else problem
    targets = problem.y if problem.vector else problem.y[:, None]
    return GramReduction(Instance.of(scalar, regularization).normalised()[0], targets)


def _solve_to_the_gap(
    problem: TrainingProblem,
    backend: Backend,
    settings: Settings,
    regularization: str,
    reduction: GramReduction | None = None,
    k: int = 0,
) -> Relaxation:
    """Solve; ask again for more accuracy where the solver claims success and the gap denies it."""
    reduction = reduction or _reduction(problem, regularization)
    normal, units = Instance.of(problem, regularization).normalised()
    instance = reduction.reduced(normal, units, k) if reduction else normal
    best: Relaxation | None = None
    for tightening in _TIGHTENINGS:
        raw = backend.solve(instance, replace(settings, tol=settings.tol * tightening))
        if reduction and raw.nu is not None and np.all(np.isfinite(raw.nu)):
            raw = replace(raw, nu=reduction.lift_dual(raw.nu, instance, normal))
        relaxation = finish(problem, raw, solver=backend.name, tol=settings.tol, regularization=regularization)
        helped = best is None or relaxation.relative_gap < 0.5 * best.relative_gap
        if best is not None:
            better = min(best, relaxation, key=lambda candidate: candidate.relative_gap)
            relaxation = replace(
                better,
                compile_time=best.compile_time + relaxation.compile_time,
                solve_time=best.solve_time + relaxation.solve_time,
            )
        best = relaxation
        if best.status == "optimal" or raw.status != "optimal" or not helped:
            break
    assert best is not None
    return best


def _zero_if_optimal(
    problem: TrainingProblem, tol: float, regularization: str, *, quiet: bool = False
) -> Relaxation | None:
    """Return the zero point where the data prove it optimal, as for all-zero data or a large beta."""
    start = time.perf_counter()
    raw = RawSolution(status="not needed")
    zero = finish(problem, raw, solver="none", tol=tol, regularization=regularization)
    if zero.relative_gap > ZERO_GAP:
        return None
    if not quiet:
        empty = [name for name, array in (("X", problem.X), ("y", problem.y)) if not np.any(array)]
        remedy = f"{empty[0]} is all zero" if empty else "choose a smaller beta to get one that predicts"
        warn(f"with beta={problem.beta:g} the zero network is globally optimal; {remedy}")
    return replace(zero, solve_time=time.perf_counter() - start)
