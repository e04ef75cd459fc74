"""Solve the relaxation with any solver, if it fits into memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from joblib import delayed

from qsdp._utils import deadline
from qsdp._utils.arrays import check_device
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.parallel import CountedParallel, few_threads, require_memory
from qsdp._utils.progress import NO_BAR, ProgressBar, progress
from qsdp._utils.tuning import SECOND
from qsdp._utils.validation import check_integer, check_jobs, check_real, check_verbose, warn
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.problem import TrainingProblem, check_problem
from qsdp.relaxation.backends import BACKENDS, Backend, check_solver, choose_backend, low_rank_first
from qsdp.relaxation.incumbent import FINAL
from qsdp.relaxation.instance import Instance, LinearInstance, Reduction, Units
from qsdp.relaxation.joining import better_of
from qsdp.relaxation.repair import along_gradient
from qsdp.relaxation.scaled import Progress, RawSolution, ScaledProblem, Settings
from qsdp.relaxation.solution import Relaxation, falls_short, finish, join_outputs, warn_of_shortfall

__all__ = ["check_callback", "check_memory", "min_memory", "solve_relaxation", "solve_with", "warn_of_zero"]

#: Iterations of splitting after another method ended above the tolerance; three times as many are no better.
_ANOTHER_TRY = 3000


#: Minimum number of matrices per output that built-in methods hold: points, dual weights, directions.
_MATRICES = 8

#: Bytes of a float, and of an entry of a sparse matrix with its index.
_FLOAT = np.dtype(np.float64).itemsize
_ENTRY = _FLOAT + np.dtype(np.int32).itemsize


def solve_relaxation(
    problem: TrainingProblem,
    solver: str = "auto",
    tol: float = 1e-6,
    *,
    max_iter: int | None = None,
    time_limit: float | None = None,
    verbose: bool | int = False,
    n_jobs: int | None = None,
    callback: Callable[[Progress], object] | None = None,
    start: Relaxation | None = None,
    device: str | None = None,
) -> Relaxation:
    r"""Solve the semidefinite relaxation of a training problem.

    .. math::

        \min_{V, Z, W, \rho}\; \ell(2 \langle \mathcal{X}_i, Z \rangle, y) + 2 \beta D \rho \quad\text{s.t.}\quad
        \begin{bmatrix} V & Z \\ Z^T & W \end{bmatrix} \succeq 0,\; V_{jj} = W_{jj} = \rho

    Its optimal value is a lower bound on the objective of every network, and at least the optimum for
    ``beta / 1.783``. The solver's answer is repaired to exact feasibility, and the objective and the lower bound
    are recomputed from the data. Both hold at any tolerance and after any early stop.

    Parameters
    ----------
    problem : TrainingProblem
    solver : {"auto", "interior", "splitting", "low-rank", "scs", "clarabel", "mosek"}, default="auto"
        "interior", "splitting" and "low-rank" are built in; the others go through CVXPY. "auto" takes the
        interior-point method if it needs about a second, else the built-in method expected to need the fewest
        operations: low rank for hundreds of columns and losses without kinks, splitting for coarse solves (`tol` from
        1e-3 on) of up to 199 columns or 20000 samples. The iterations of these two are hard to predict, so each
        is chosen only if its estimated cost is below 1/16 of that of the interior-point method, unless the solve is
        coarse or samples far outnumber matrix entries. If the chosen solver will take long and the loss has no kinks,
        low rank goes first, with a tenth of its operations and at most a quarter of a `time_limit`: on correlated
        columns it is often many times as fast. If the first method ends above `tol`, one other follows: the chosen one
        after low rank, else splitting, unless a limit on iterations ended the first.
    tol : float, default=1e-6
        > 0. Built-in solvers stop at this certified relative gap, for every output. External solvers interpret it as
        their own accuracy, from which the certified gap may differ by far; `Relaxation.status` is judged by the gap.
    max_iter : int, optional
    time_limit : float, optional
        Seconds, > 0. It is checked between iterations; the current step is finished, then the point is repaired and the
        bound is computed, which takes about as long as an iteration.
    verbose : bool or int, default=False
        Show a progress bar on standard error, or in the notebook: objective and gap for built-in solvers, finished
        outputs for others.
    n_jobs : int, optional
        Processes for the outputs of a vector problem whose loss adds up over outputs, as in joblib; None means one.
        For solvers through CVXPY; built-in solvers solve all outputs together.
    callback : callable, optional
        Called with a `Progress` (iteration, objective, lower_bound, relative_gap, elapsed) whenever a built-in solver
        has certified an iterate. Returning True stops the solver.
    start : Relaxation, optional
        Solution of a problem with the same data, such as one with another beta, as a warm start of built-in solvers;
        a zero solution is ignored.
    device : str, optional
        Torch device, such as "cuda", for the Gram matrix of the data, if the solver computes one; None means NumPy on
        the CPU. Iterations run on the CPU.

    Returns
    -------
    Relaxation

    Raises
    ------
    UnavailableSolverError, SolverError
        The solver is not installed, has no licence, cannot express the loss or does not support the limit, or a
        device is requested and torch is not installed.
    InvalidInputError
        An argument is not allowed, or the solve needs more than the main memory.

    Warns
    -----
    QSDPWarning
        The certified gap is much larger than requested, or `beta` is so large that zero is optimal.

    Notes
    -----
    This is equations (25) and (67) of Bartan and Pilanci with the factor of the regulariser corrected; see
    `qsdp.paper` for the programs as printed. The problem
    for M + 1 levels is the binary one on columns scaled by M. A squared loss with more than N(N + 1)/2 samples is
    first reduced to that many rows. In coarse solves, splitting keeps large matrices in single precision (3 GB for
    197 columns). The objective and the bound are still computed in double precision from the data.

    When a limit, the callback or the keyboard stops a built-in solver, it returns its best point and bound, both
    certified. `Relaxation.solver_status` gives the reason.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((30, 4))
    >>> relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.1))
    >>> relaxation.lower_bound <= relaxation.objective and relaxation.relative_gap < 1e-4
    True
    """
    check_problem(problem)
    settings = Settings(
        tol=check_real("tol", tol, strict=True),
        max_iter=None if max_iter is None else check_integer("max_iter", max_iter, minimum=1, maximum=2**31 - 1),
        callback=check_callback(callback),
        device=check_device(device),
    )
    n_jobs = check_jobs(n_jobs)
    _check_start(start, problem)
    with (
        deadline.after(time_limit),
        progress(check_verbose(verbose)) as stages,
        stages.stage("solve", settings.tol) as bar,
    ):
        relaxation = solve_with(problem, solver, settings, n_jobs=n_jobs, start=start, bar=bar)
    warn_of_shortfall(relaxation, settings.tol, solver)
    return relaxation


def solve_with(
    problem: TrainingProblem,
    solver: str,
    settings: Settings,
    *,
    n_jobs: int | None = None,
    start: Relaxation | None = None,
    bar: ProgressBar = NO_BAR,
) -> Relaxation:
    """Run `solve_relaxation` for checked arguments, without warnings about gaps."""
    check_solver(solver, problem.loss)
    check_memory(problem, solver)
    scaled = ScaledProblem.from_problem(problem)
    # The zero point has no scale, from which a method could start.
    if start is not None and (np.any(start.rho_stack > 0.0) or np.any(start.priced_weights)):
        inside = scaled.inside(start.Z_stack, start.V_stack, start.bound.nu, start.bound.z, start.priced_weights)
        settings = replace(settings, start=inside)
    backend = choose_backend(solver, scaled.instance, settings)
    if (zero := _zero_if_optimal(scaled, settings.tol)) is not None:
        if zero.status == "optimal":
            warn_of_zero(problem)
        return zero
    if not backend.certified:
        return _solve_apart(scaled, backend, settings, n_jobs, bar)
    settings = replace(settings, callback=_callback_in_units(settings.callback, scaled.units, bar))
    # Threads that share small matrices wait for each other; on a busy machine, they wait much longer than they work.
    small = backend.operations is not None and backend.operations(scaled.instance, settings.tol) < SECOND
    with few_threads(small=small):
        if solver == "auto":
            return _solve_in_turn(scaled, backend, settings)
        return _solve_once(scaled, backend, settings)


def _solve_in_turn(scaled: ScaledProblem, chosen: Backend, settings: Settings) -> Relaxation:
    """Solve by the chosen built-in method, and by one other if the first ends above the tolerance.

    The low-rank method goes first if it may save most of the time of the chosen one. Otherwise the other method is
    splitting, for example if columns of very different sizes leave the interior-point method without digits. The better
    point and the better bound are returned. No method follows one that a limit of iterations ended.
    """
    first = low_rank_first(chosen, scaled.instance, settings)
    relaxation = _solve_once(scaled, chosen if first is None else BACKENDS["low-rank"], first or settings)
    # After rounding errors, the gap of the final bound may be slightly larger than the one at which the method stopped.
    nearly = relaxation.solver_status == "optimal" and not falls_short(relaxation, settings.tol)
    if relaxation.status == "optimal" or nearly or relaxation.solver_status in FINAL or deadline.over():
        return relaxation
    if first is None:
        if chosen.name == "splitting" or relaxation.solver_status == "iteration limit":
            return relaxation
        limited = replace(settings, max_iter=settings.max_iter or _ANOTHER_TRY, start=None)
        chosen, settings = BACKENDS["splitting"], limited
    return better_of(_solve_once(scaled, chosen, settings), relaxation)


def _solve_once(
    scaled: ScaledProblem, backend: Backend, settings: Settings, reduction: Reduction | None = None, k: int = 0
) -> Relaxation:
    """Run the solver, and certify what it returns. With a `reduction`, output k is solved in reduced rows."""
    began, instance = time.perf_counter(), scaled.instance
    if reduction is None:
        raw = _in_columns(backend.solve(instance, settings), instance)
        if backend.certified and raw.status == "time limit":
            raw = _without_zeros(raw, instance)
    else:
        reduced = reduction.reduced(instance, scaled.units, k)
        raw = _in_columns(backend.solve(reduced, settings), reduced)
        if raw.nu is not None and np.all(np.isfinite(raw.nu)):
            raw = replace(raw, nu=reduction.lift_dual(raw.nu, reduced, instance))
    relaxation = finish(scaled, raw, solver=backend.name, tol=settings.tol, certified=backend.certified)
    compiled = float(raw.timings.get("compile", 0.0))
    return replace(relaxation, compile_time=compiled, solve_time=time.perf_counter() - began - compiled)


def _in_columns(raw: RawSolution, instance: LinearInstance) -> RawSolution:
    """Reshape the dual vector to (n, C), since some back ends return (n,) for one output."""
    shape = instance.target.shape
    if raw.nu is None or np.shape(raw.nu) == shape or np.size(raw.nu) != instance.target.size:
        return raw
    return replace(raw, nu=np.reshape(raw.nu, shape))


def _without_zeros(raw: RawSolution, instance: Instance) -> RawSolution:
    """Replace outputs that the solver left at zero by the best points along the gradient."""
    assert raw.Z is not None
    assert raw.V is not None
    parts = instance.parts
    outputs = instance.outputs_of
    each = [instance.matrices_of(outputs(k)) for k in range(len(parts))]
    weights = instance.no_weights if raw.weights is None else raw.weights.copy()
    missing = [k for k, stack in enumerate(each) if not np.any(raw.Z[stack]) and not np.any(weights[outputs(k)])]
    if not missing:
        return raw
    Z, V = raw.Z.copy(), raw.V.copy()
    for k in missing:
        point = along_gradient(parts[k])
        Z[each[k]], V[each[k]], weights[outputs(k)] = point.Z, point.V, point.weights
    return replace(raw, Z=Z, V=V, W=V, weights=weights)


# -- separate outputs, for solvers through CVXPY -------------------------------------------------------------


def _solve_apart(
    scaled: ScaledProblem, backend: Backend, settings: Settings, n_jobs: int | None, bar: ProgressBar
) -> Relaxation:
    """Solve outputs that do not interact separately, with one reduction of the data for all."""
    reduction = None
    if Reduction.applies(scaled.instance):
        try:
            reduction = Reduction(scaled.parts[0].instance, scaled.problem.targets, settings.gram, settings.device)
        except deadline.TimeOver:
            return finish(scaled, RawSolution(status="time limit"), solver=backend.name, tol=settings.tol)
    # Do not send the Gram matrix to other processes: the reduction holds what they need.
    settings = replace(settings, gram=None)
    if scaled.parts == [scaled]:
        return _solve_once(scaled, backend, settings, reduction)
    # Once, since joblib draws later tasks in a thread of its own.
    solve = deadline.carried(_solve_output)
    solved = CountedParallel(n_jobs, bar, len(scaled.parts))(
        delayed(solve)(part, backend.name, settings, reduction, k) for k, part in enumerate(scaled.parts)
    )
    return join_outputs(scaled.problem, list(solved))


def _solve_output(
    part: ScaledProblem, solver: str, settings: Settings, reduction: Reduction | None, k: int
) -> Relaxation:
    """Solve one output; pass the solver by name, since functions changed at run time cannot cross processes."""
    return _zero_if_optimal(part, settings.tol) or _solve_once(part, BACKENDS[solver], settings, reduction, k)


# -- the zero point ----------------------------------------------------------------------------------------


def _zero_if_optimal(scaled: ScaledProblem, tol: float) -> Relaxation | None:
    """Return the zero point as the relaxation if its gradient proves it optimal; otherwise None."""
    start = time.perf_counter()
    # Usually the first signs tried make a neuron worth its price, so that the gradient does not prove zero optimal.
    limit = (1.0 + ROUNDING) * scaled.instance.dual_radius
    if scaled.instance.price_at_zero(above=limit) > limit:
        return None
    zero = finish(scaled, RawSolution(status="not needed"), solver="none", tol=tol)
    return replace(zero, solve_time=time.perf_counter() - start) if zero.relative_gap <= ROUNDING else None


def warn_of_zero(problem: TrainingProblem) -> None:
    """Warn that the zero network is optimal, with the reason and the remedy."""
    columns = np.any(problem.map.active_coordinates()[: problem.n_features]) or problem.map.layout.weights
    zero = {"X": not columns, "y": not np.any(problem.y)}
    empty = [name for name, holds in zero.items() if holds]
    why = {
        "X": "X is all zeros (did centring remove constant columns?)",
        "y": "y is all zeros (are all targets equal, and centred?)",
    }
    remedy = why[empty[0]] if empty else "choose a smaller beta, below qsdp.beta_max(problem), to get a nonzero network"
    warn(f"with beta={problem.beta:g} the zero network is globally optimal; {remedy}")


# -- arguments ---------------------------------------------------------------------------------------------


def _callback_in_units(
    callback: Callable[[Progress], object] | None, units: Units, bar: ProgressBar
) -> Callable[[Progress], object] | None:
    """Wrap a callback so that it receives values in the problem's units and updates the progress bar."""
    if callback is None and not bar.shown:
        return None

    def report(progress: Progress) -> object:
        rescaled = replace(
            progress, objective=units.value * progress.objective, lower_bound=units.value * progress.lower_bound
        )
        bar.gap(rescaled)
        return callback(rescaled) if callback is not None else None

    return report


def check_callback(callback: object) -> Callable[[Progress], object] | None:
    """Check that the callback is callable or None, and return it."""
    if callback is not None and not callable(callback):
        raise InvalidTypeError(f"callback must be callable or None; got {type(callback).__name__}")
    return callback


def _check_start(start: object, problem: TrainingProblem) -> None:
    if start is None:
        return
    if not isinstance(start, Relaxation):
        raise InvalidTypeError(f"start must be a Relaxation or None; got {type(start).__name__}")
    expected, other = (problem.size, problem.y.shape), (start.problem.size, start.problem.y.shape)
    if expected != other:
        raise InvalidInputError(f"start must be of size and targets {expected}, those of the problem; got {other}")
    if problem.blocks != start.problem.blocks:
        raise InvalidInputError("start must be of the blocks of the problem, with the same sizes, kinds and omega")


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
