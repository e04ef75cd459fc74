"""Solve the relaxation with any back end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from joblib import delayed

from qsdp._utils.parallel import few_threads
from qsdp._utils.progress import NO_LINE, CountedParallel, Line, shown_stages
from qsdp._utils.validation import check_choice, check_flag, check_integer, check_jobs, check_real, warn
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.problem import REGULARIZATIONS, TrainingProblem
from qsdp.relaxation.backends import BACKENDS, Backend, Settings, choose_backend
from qsdp.relaxation.formulations import FORMS
from qsdp.relaxation.incumbent import Progress
from qsdp.relaxation.instance import GramReduction, Instance, Units
from qsdp.relaxation.solution import ZERO_GAP, RawSolution, Relaxation, finish, join_outputs

__all__ = ["check_callback", "solve_relaxation", "solve_with"]

#: Factors on the tolerance of successive attempts: of solvers with an accuracy of their own, and of this package's.
_TIGHTENINGS = (1.0, 1e-2, 1e-4)
_MARGINS = (1.0, 0.3, 0.03)

#: Floating-point operations of a solve up to which it has one thread: planted 2000 x 80 takes 0.8 s with one and
#: 1.3 s with two.
_SMALL = 5e10

#: Multiple of the tolerance beyond which "auto" tries a second solver, and the iterations it gives that one.
_FAR, _ANOTHER_TRY = 100.0, 3000


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
    callback: Callable[[Progress], object] | None = None,
    start: Relaxation | None = None,
    device: str | None = None,
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
    solver : {"auto", "interior", "splitting", "low-rank", "scs", "clarabel", "mosek", "cvxopt"}, default="auto"
        The first three are this package's own. "auto" takes the interior-point method where that is a matter of a
        second, else the one of the three that is expected to need the fewest operations: low rank for hundreds of
        columns and losses without kinks. Iterations of the other two are hard to foresee, so that each must promise to
        save all but a sixteenth unless samples are many times the weights. Where the interior-point method runs out of
        digits, "auto" tries operator splitting as well. The others go through CVXPY.
    tol : float, default=1e-6
        > 0. For this package's own solvers the relative certified gap, of every output, at which they stop. For
        the others their own accuracy: one that reports success with a certified relative gap above ``100 tol``
        is asked again at a hundredth of it, twice at most and while that halves the gap.
    regularization : {"tight", "paper"}, default="tight"
        "paper" halves the regulariser, as printed in (25): for reproduction, its bound is looser.
    form : {"two-block", "full"}, default="two-block"
        Equivalent programs; see `build_two_block` and `build_full`. For solvers through CVXPY.
    max_iter : int, optional
    time_limit : float, optional
        Seconds, > 0.
    verbose : bool, default=False
        Show a progress bar on the standard error, or in the notebook: objective and gap of this package's own solvers,
        the outputs that are done of others.
    n_jobs : int, optional
        Processes for the outputs of a vector problem whose loss adds up over them, as in joblib; None is one. For
        solvers through CVXPY; this package's own solve the outputs together.
    callback : callable, optional
        Called with a `Progress` (iteration, objective, lower_bound, relative_gap, elapsed) whenever one of this
        package's own solvers has certified its best pair; returning True stops it.
    start : Relaxation, optional
        Solution of a problem with the same data, as for another beta, to start one of this package's own solvers
        from.
    device : str, optional
        Device of torch on which heavy products run, such as "cuda"; None is NumPy on the processor. Of "low-rank"
        only: every other solver runs on the processor and refuses a device.

    Returns
    -------
    Relaxation

    Raises
    ------
    UnavailableSolverError, SolverError
        The solver is not installed, has no licence, cannot express the loss, or takes no such limit.

    Warns
    -----
    QSDPWarning
        The certified gap is much larger than was asked for, or `beta` is so large that zero is optimal.

    Notes
    -----
    Equations (25) and (67) of Bartan and Pilanci with the factor of the regulariser corrected. The problem for
    M + 1 levels is the binary one on columns scaled by M. A squared loss with more than N(N + 1)/2 samples is
    reduced to that many rows first.

    Stopped by a limit, the callback or the keyboard, this package's own solvers return the best certified pair;
    `Relaxation.solver_status` says why.

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
        callback=check_callback(callback),
        device=_check_device(device),
    )
    check_choice("regularization", regularization, REGULARIZATIONS)
    check_jobs(n_jobs)
    _check_start(start, problem)
    with shown_stages(check_flag("verbose", verbose)) as stages, stages.stage("solve", settings.tol) as line:
        relaxation = solve_with(problem, solver, settings, regularization, n_jobs=n_jobs, start=start, line=line)
    if relaxation.status != "optimal":
        warn(
            f"solver {relaxation.solver!r} (its status: {relaxation.solver_status}) left a certified relative gap "
            f"of {relaxation.relative_gap:.2g}; the bound is valid but loose: allow more iterations or time, "
            "or rescale the columns of X"
        )
    return relaxation


def solve_with(
    problem: TrainingProblem,
    solver: str,
    settings: Settings,
    regularization: str,
    *,
    n_jobs: int | None = None,
    start: Relaxation | None = None,
    quiet: bool = False,
    line: Line = NO_LINE,
) -> Relaxation:
    """Solve as `solve_relaxation` does, for arguments that are checked; a gap is not warned of, nor zero if `quiet`."""
    normal, units = Instance.of(problem, regularization).normalised()
    if start is not None:
        settings = replace(settings, start=_in_units(start, units))
    backend = choose_backend(solver, normal, settings)
    if (trivial := _zero_if_optimal(problem, settings.tol, regularization, quiet=quiet)) is not None:
        return trivial
    if backend.certified:
        settings = replace(settings, callback=_told_in_units(settings.callback, units, line))
        # Threads that share small matrices wait for one another: on a busy machine much longer than they work.
        small = backend.operations is not None and backend.operations(normal) < _SMALL
        with few_threads(small=small):
            relaxation = _solve_certified(problem, normal, units, backend, settings, regularization)
            if solver == "auto" and _worth_another_try(relaxation, settings):
                relaxation = _tried_again(relaxation, normal, units, settings, regularization)
        return relaxation
    if problem.vector and not problem.loss.coupled:
        return _solve_outputs(problem, backend, settings, regularization, n_jobs, line)
    return _solve_to_the_gap(problem, backend, settings, regularization)


# -- solvers of this package -----------------------------------------------------------------------------


def _solve_certified(
    problem: TrainingProblem,
    normal: Instance,
    units: Units,
    backend: Backend,
    settings: Settings,
    regularization: str,
) -> Relaxation:
    """Solve; go on where the gap in the problem's own units, rounding accounted for, misses the tolerance."""
    began = time.perf_counter()
    best: Relaxation | None = None
    compiled = 0.0
    for margin in _MARGINS:
        left = None if settings.time_limit is None else settings.time_limit - (time.perf_counter() - began)
        if left is not None and left <= 0.0:
            break
        raw = backend.solve(normal, replace(settings, tol=settings.tol * margin, time_limit=left))
        compiled += float(raw.timings.get("compile", 0.0))
        relaxation = _finish_outputs(problem, raw, units, backend.name, settings.tol, regularization)
        if best is None or relaxation.relative_gap < best.relative_gap:
            best = relaxation
        if raw.status != "optimal" or best.status == "optimal":
            break
        settings = replace(settings, start=raw)
    assert best is not None
    return replace(best, compile_time=compiled, solve_time=time.perf_counter() - began - compiled)


def _worth_another_try(relaxation: Relaxation, settings: Settings) -> bool:
    """Whether the interior-point method ran out of digits far from the tolerance, as on columns of all sizes."""
    stalled = relaxation.solver == "interior" and relaxation.solver_status == "stalled"
    return stalled and relaxation.problem.beta > 0.0 and relaxation.relative_gap > _FAR * settings.tol


def _tried_again(
    relaxation: Relaxation, normal: Instance, units: Units, settings: Settings, regularization: str
) -> Relaxation:
    """Solve by operator splitting, and return the better of the two."""
    limited = replace(settings, max_iter=settings.max_iter or _ANOTHER_TRY, start=None)
    if settings.time_limit is not None:
        left = settings.time_limit - relaxation.solve_time - relaxation.compile_time
        if left <= 0.0:
            return relaxation
        limited = replace(limited, time_limit=left)
    other = _solve_certified(relaxation.problem, normal, units, BACKENDS["splitting"], limited, regularization)
    return min(relaxation, other, key=lambda one: one.relative_gap)


def _finish_outputs(
    problem: TrainingProblem, raw: RawSolution, units: Units, solver: str, tol: float, regularization: str
) -> Relaxation:
    """Finish every output apart where they do not interact: bounds that share no scale are tighter."""
    if not problem.vector or problem.loss.coupled:
        return finish(problem, raw, solver=solver, tol=tol, regularization=regularization, certified=True)
    assert raw.Z is not None
    assert raw.V is not None
    parts = []
    for k in range(problem.n_outputs):
        part = problem.output(k)
        own = Instance.of(part, regularization).normalised()[1]
        weight = units.weight / own.weight
        dual = (units.value / units.prediction) / (own.value / own.prediction)
        Z, V = weight * raw.Z[k : k + 1], weight * raw.V[k : k + 1]
        nu = None if raw.nu is None else dual * raw.nu[:, k]
        z = None if raw.z is None else raw.z[k : k + 1]
        output = RawSolution(Z, V, V, nu, z, status=raw.status, iterations=raw.iterations)
        parts.append(finish(part, output, solver=solver, tol=tol, regularization=regularization, certified=True))
    return replace(join_outputs(problem, parts, certified=True), iterations=raw.iterations)


def _told_in_units(
    told: Callable[[Progress], object] | None, units: Units, line: Line
) -> Callable[[Progress], object] | None:
    """Return the callback for normalised instances, which tells the line and whoever asked for it."""
    if told is None and not line.shown:
        return None

    def callback(progress: Progress) -> object:
        own = replace(
            progress, objective=units.value * progress.objective, lower_bound=units.value * progress.lower_bound
        )
        line.closing(own)
        return told(own) if told is not None else None

    return callback


def _in_units(start: Relaxation, units: Units) -> RawSolution:
    """Return a solution as the start of a normalised instance."""
    Z, V = start.blocks[0] / units.weight, start.blocks[1] / units.weight
    nu = start.dual.nu * (units.prediction / units.value)
    return RawSolution(Z, V, V, nu, np.atleast_2d(start.dual.z), status="start")


def check_callback(callback: object) -> Callable[[Progress], object] | None:
    """Return the callback, if it is one or None."""
    if callback is not None and not callable(callback):
        raise InvalidTypeError(f"callback must be callable or None; got {type(callback).__name__}")
    return callback


def _check_device(device: object) -> str | None:
    if device is not None and not isinstance(device, str):
        raise InvalidTypeError(f"device must be a string or None; got {type(device).__name__}")
    return device


def _check_start(start: object, problem: TrainingProblem) -> None:
    if start is None:
        return
    if not isinstance(start, Relaxation):
        raise InvalidTypeError(f"start must be a Relaxation or None; got {type(start).__name__}")
    mine, other = (problem.size, problem.y.shape), (start.problem.size, start.problem.y.shape)
    if mine != other:
        raise InvalidInputError(f"start must be of size and targets {mine}, those of the problem; got {other}")


# -- solvers through CVXPY -------------------------------------------------------------------------------


def _solve_outputs(
    problem: TrainingProblem,
    backend: Backend,
    settings: Settings,
    regularization: str,
    n_jobs: int | None,
    line: Line,
) -> Relaxation:
    """Solve the outputs of a separable vector problem apart, with one reduction of the data for all."""
    reduction = _reduction(problem, settings, regularization)
    # Not to be sent to other processes: what it holds is in the reduction.
    settings = replace(settings, reductions=None)
    parts = CountedParallel(n_jobs, line, problem.n_outputs)(
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


def _reduction(problem: TrainingProblem, settings: Settings, regularization: str) -> GramReduction | None:
    if not GramReduction.pays(problem):
        return None
    scalar = problem.output(0) if problem.vector else problem
    targets = problem.y if problem.vector else problem.y[:, None]
    return GramReduction(Instance.of(scalar, regularization).normalised()[0], targets, settings.reductions)


def _solve_to_the_gap(
    problem: TrainingProblem,
    backend: Backend,
    settings: Settings,
    regularization: str,
    reduction: GramReduction | None = None,
    k: int = 0,
) -> Relaxation:
    """Solve; ask again for more accuracy where the solver claims success and the gap denies it."""
    reduction = reduction or _reduction(problem, settings, regularization)
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
    if _some_neuron_pays(problem, regularization):
        return None
    raw = RawSolution(status="not needed")
    zero = finish(problem, raw, solver="none", tol=tol, regularization=regularization)
    if zero.relative_gap > ZERO_GAP:
        return None
    if not quiet:
        empty = [name for name, array in (("X", problem.X), ("y", problem.y)) if not np.any(array)]
        remedy = f"{empty[0]} is all zero" if empty else "choose a smaller beta to get one that predicts"
        warn(f"with beta={problem.beta:g} the zero network is globally optimal; {remedy}")
    return replace(zero, solve_time=time.perf_counter() - start)


def _some_neuron_pays(problem: TrainingProblem, regularization: str) -> bool:
    r"""Whether some :math:`u^T M_\nu v` is seen to exceed the dual radius for minus the gradient at 0 as :math:`\nu`.

    Cheap, and true of most problems: then the gradient does not prove the zero point optimal.
    """
    instance = Instance.of(problem, regularization)
    nu = instance.zero_dual
    with np.errstate(over="ignore", invalid="ignore"):
        for M in instance.adjoints(nu):
            v = np.where(M.sum(axis=0) < 0.0, -1.0, 1.0)
            for _ in range(3):
                v = np.where(M @ v < 0.0, -1.0, 1.0)
            if float(np.abs(M @ v).sum()) > (1.0 + 1e-6) * instance.dual_radius:
                return True
    return False
