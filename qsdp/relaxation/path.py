"""Regularisation path: the relaxation for many betas, with warm starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, overload

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.arrays import check_device
from qsdp._utils.progress import NO_BAR, ProgressBar, progress
from qsdp._utils.summary import Summarized, Summary, format_number, format_seconds
from qsdp._utils.validation import (
    FloatArray,
    ReadOnlyArrays,
    check_integer,
    check_jobs,
    check_numbers,
    check_real,
    check_verbose,
    read_only,
    warn,
)
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.gram import SharedGram
from qsdp.problem import TrainingProblem, check_problem
from qsdp.relaxation.backends import BACKENDS, check_solver
from qsdp.relaxation.incumbent import FINAL
from qsdp.relaxation.largest_beta import proven_beta_max
from qsdp.relaxation.scaled import RawSolution, ScaledProblem
from qsdp.relaxation.settings import Progress, Settings
from qsdp.relaxation.shortfall import warn_of_gaps
from qsdp.relaxation.solution import Relaxation, finish
from qsdp.relaxation.solve import check_callback, solve_with

__all__ = ["RelaxationPath", "check_betas", "relaxation_path"]

#: Ratio of the smallest to the largest beta of a grid.
FRACTION = 1e-3

#: Statuses of built-in solvers that end the path.
_STOPPED = frozenset({"time limit", *FINAL})


@dataclass(frozen=True, eq=False, repr=False)
class RelaxationPath(Summarized, ReadOnlyArrays, Sequence[Relaxation]):
    """Relaxations of problems that differ in beta: a sequence of `Relaxation`.

    Attributes
    ----------
    betas : ndarray of shape (K,)
        In the order of the argument; a grid is descending. Fewer than requested if the path was stopped.
    relaxations : tuple of K Relaxation
    """

    betas: FloatArray
    relaxations: tuple[Relaxation, ...]

    @property
    def objective(self) -> FloatArray:
        """Objectives of the relaxed points, shape (K,)."""
        return np.array([relaxation.objective for relaxation in self.relaxations])

    @property
    def lower_bound(self) -> FloatArray:
        """Lower bounds on the objective of every network, shape (K,)."""
        return np.array([relaxation.lower_bound for relaxation in self.relaxations])

    @property
    def relative_gap(self) -> FloatArray:
        """Gaps between objective and bound relative to the objective, shape (K,)."""
        return np.array([relaxation.relative_gap for relaxation in self.relaxations])

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions of all relaxations, shape (K, n) or (K, n, C), for data (n, d)."""
        return np.stack([relaxation.predict(X) for relaxation in self.relaxations])

    def __len__(self) -> int:
        return len(self.relaxations)

    def __iter__(self) -> Iterator[Relaxation]:
        return iter(self.relaxations)

    @overload
    def __getitem__(self, index: int) -> Relaxation: ...
    @overload
    def __getitem__(self, index: slice) -> RelaxationPath: ...
    def __getitem__(self, index: int | slice) -> Relaxation | RelaxationPath:
        if isinstance(index, slice):
            return RelaxationPath(read_only(self.betas[index].copy()), self.relaxations[index])
        return self.relaxations[index]

    def __repr__(self) -> str:
        if not len(self):
            return "RelaxationPath(0 betas)"
        ends = f"{self.betas[0]:g}" if len(self) == 1 else f"{self.betas[0]:g} .. {self.betas[-1]:g}"
        return f"RelaxationPath({len(self)} betas, {ends}; largest relative gap {self.relative_gap.max():.2g})"

    def _summary(self) -> Summary:
        if not len(self):
            return Summary("RelaxationPath", [("betas", "none")])
        low, high = (format_number(float(beta), 4) for beta in (self.betas.min(), self.betas.max()))
        statuses = [relaxation.status for relaxation in self]
        rows = [
            ("betas", f"{len(self)}, {low} to {high}"),
            ("largest relative gap", format_number(float(self.relative_gap.max()), 2)),
            ("status", ", ".join(f"{statuses.count(status)} {status}" for status in sorted(set(statuses)))),
            ("time", format_seconds(sum(relaxation.solve_time for relaxation in self))),
        ]
        return Summary("RelaxationPath", rows)


def relaxation_path(
    problem: TrainingProblem,
    betas: Any = 20,
    *,
    fraction: float = FRACTION,
    solver: str = "auto",
    tol: float = 1e-6,
    time_limit: float | None = None,
    callback: Callable[[Progress], object] | None = None,
    verbose: bool | int = False,
    n_jobs: int | None = None,
    device: str | None = None,
) -> RelaxationPath:
    r"""Solve the relaxation for many betas, from large to small, with warm starts between neighbouring values.

    The optimal value :math:`d(\beta)` is nondecreasing and concave. Quantities that depend on the data alone, such as
    the Gram matrix of a squared loss with many samples, are computed once.

    Parameters
    ----------
    problem : TrainingProblem
        Training problem; its beta is ignored.
    betas : int or array-like of shape (K,), default=20
        Positive, finite and distinct values in any order, or the number of values, at least 2, of a geometric grid
        from `beta_max` down. Zero is not allowed, since bounds are not continuous there.
    fraction : float, default=1e-3
        Smallest beta of a grid as a fraction of the largest; above 0 and below 1.
    solver : str, default="auto"
        See `solve_relaxation`. Only built-in solvers start from the last solution, and only if its beta is at
        most four times the next one; from further away, a cold start needs no more iterations.
    tol : float, default=1e-6
    time_limit : float, optional
        Seconds, > 0, for all betas together, checked between iterations and betas; the current step is finished.
    callback : callable, optional
        As in `solve_relaxation`; called in every solve. Returning True ends the path.
    verbose : bool or int, default=False
        Show a progress bar of the solved betas, on standard error or in the notebook.
    n_jobs : int, optional
        Processes; see `solve_relaxation`.
    device : str, optional
        Torch device for the large matrix products; see `solve_relaxation`.

    Returns
    -------
    RelaxationPath

    Raises
    ------
    InvalidInputError, InvalidTypeError
        An argument is not allowed; the message names it, its value and what is allowed.

    Warns
    -----
    QSDPWarning
        The time limit, the callback or the keyboard stopped the path: it holds the betas solved before, and at least
        the first, whatever its gap. Or some certified gaps are larger than requested.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X, y = qsdp.datasets.make_planted(n=60, d=5, n_neurons=3, random_state=0)
    >>> path = qsdp.relaxation_path(qsdp.TrainingProblem(X, y, beta=1.0), 10)
    >>> len(path), bool(np.all(np.diff(path.objective) < 0)), bool(np.any(path[0].Z)), bool(np.any(path[1].Z))
    (10, True, False, True)
    >>> path.predict(X).shape
    (10, 60)
    """
    check_problem(problem)
    given = check_betas(betas)
    share = check_fraction(fraction)
    check_solver(solver, problem.loss, device)
    settings = Settings(
        tol=check_real("tol", tol, strict=True),
        callback=check_callback(callback),
        device=check_device(device),
    )
    check_jobs(n_jobs)
    with deadline.after(time_limit), progress(check_verbose(verbose)) as stages, stages.stage("path") as bar:
        path, stopped = path_with(problem, given, share, solver, settings, n_jobs=n_jobs, bar=bar)
    if stopped is not None and stopped != "stopped by the callback":
        wanted = given if isinstance(given, int) else len(given)
        solved = f"{len(path)} of {wanted} betas, at beta={path.betas.min():g}"
        remedy = "; allow more time with time_limit" if stopped == "time limit" else ""
        warn(f"the path was stopped ({stopped}) after {solved}{remedy}")
    warn_of_gaps(path, settings.tol, solver)
    return path


def path_with(
    problem: TrainingProblem,
    betas: int | FloatArray,
    fraction: float,
    solver: str,
    settings: Settings,
    *,
    n_jobs: int | None = None,
    bar: ProgressBar = NO_BAR,
) -> tuple[RelaxationPath, str | None]:
    """Compute `relaxation_path` for checked arguments, without warnings; also return the reason for missing betas.

    A Gram matrix in the settings is reused.
    """
    settings = replace(settings, gram=settings.gram or SharedGram())
    largest, weights = proven_beta_max(problem)
    grid = geometric(largest, fraction, betas) if isinstance(betas, int) else betas
    warm = solver == "auto" or BACKENDS[solver].certified
    solved: dict[int, Relaxation] = {}
    last: Relaxation | None = None
    stopped: str | None = None
    for index in np.argsort(-grid, kind="stable").tolist():
        if deadline.over() and solved:
            stopped = "time limit"
            break
        own = problem.with_beta(float(grid[index]))
        bar.count(len(solved), len(grid), f"{len(solved)} of {len(grid)}, beta {own.beta:.4g}")
        try:
            # If zero is optimal, iterations would find that only slowly.
            relaxation = _zero_relaxation(own, weights, settings) if own.beta >= largest else None
            if relaxation is None:
                start = last if warm else None
                relaxation = solve_with(own, solver, settings, n_jobs=n_jobs, start=start, quiet=True)
        except KeyboardInterrupt:
            if not solved:
                raise
            stopped = "interrupted"
            break
        reason = _why_stopped(relaxation)
        if reason is None or relaxation.status == "optimal" or not solved:
            solved[index] = relaxation
        if reason is not None:
            stopped = reason
            break
        # The zero point cannot be a start because it has no scale.
        last = relaxation if np.any(relaxation.rho_stack > 0.0) else None
    bar.count(len(solved), len(grid), f"{len(solved)} of {len(grid)}")
    kept = sorted(solved)
    path = RelaxationPath(read_only(grid[kept]), tuple(solved[index] for index in kept))
    return path, stopped if len(path) < len(grid) else None


def geometric(largest: float, fraction: float, number: int) -> FloatArray:
    """Build a geometric grid from `largest` down to a fraction of it; from 1 if zero is optimal for every beta."""
    betas: FloatArray = (largest or 1.0) * fraction ** (np.arange(number) / (number - 1))
    return betas


def check_betas(betas: Any) -> int | FloatArray:
    """Check `betas`; return their number, or a copy of the array."""
    if isinstance(betas, Integral) and not isinstance(betas, bool):
        # A larger number is assumed to be a mistake.
        return check_integer("betas", betas, minimum=2, maximum=100_000)
    allowed = "an integer >= 2 or positive, finite and distinct numbers of shape (K,)"
    if betas is None or isinstance(betas, (bool, str)):
        raise InvalidTypeError(f"betas must be {allowed}; got {betas!r}")
    array = np.array(check_numbers("betas", betas, "(K,)"))
    if array.shape != (array.size,) or not array.size:
        raise InvalidInputError(f"betas must be {allowed}; got shape {array.shape}")
    if not np.all(array > 0.0):
        why = ", for which the bound says nothing" if array.min() == 0.0 else ""
        raise InvalidInputError(f"betas must be {allowed}; got {array.min():g}{why}")
    values, counts = np.unique(array, return_counts=True)
    if counts.max() > 1:
        raise InvalidInputError(f"betas must be {allowed}; got {values[counts.argmax()]:g} {counts.max()} times")
    return array


def check_fraction(fraction: Any) -> float:
    """Check that the fraction is above 0 and below 1, and return it."""
    share = check_real("fraction", fraction, strict=True)
    if share >= 1.0:
        raise InvalidInputError(f"fraction must be > 0 and < 1; got {fraction!r}")
    return share


def _zero_relaxation(problem: TrainingProblem, weights: FloatArray, settings: Settings) -> Relaxation | None:
    """Return the zero point as the relaxation if the dual weights prove it optimal, else None."""
    raw = RawSolution(z=weights, status="not needed")
    scaled = ScaledProblem.of(problem)
    zero = finish(scaled, raw, solver="none", tol=settings.tol)
    return zero if zero.relative_gap <= settings.tol else None


def _why_stopped(relaxation: Relaxation) -> str | None:
    if relaxation.solver_status in _STOPPED:
        return relaxation.solver_status
    return "time limit" if deadline.over() and relaxation.status != "optimal" else None
