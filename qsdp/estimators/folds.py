"""Regularisation paths of cross-validation folds, which share Gram matrices where possible."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.progress import NO_BAR, ProgressBar
from qsdp._utils.tuning import FIRST_TRY
from qsdp._utils.validation import FloatArray
from qsdp.gram import Gram, SharedGram
from qsdp.problem import TrainingProblem
from qsdp.relaxation.backends import Settings
from qsdp.relaxation.instance import Instance, Reduction
from qsdp.relaxation.largest_beta import useful_beta_max
from qsdp.relaxation.path import (
    FRACTION,
    RelaxationPath,
    geometric,
    path_with,
)
from qsdp.relaxation.shortfall import warn_of_gaps

__all__ = ["PathPlan", "Split", "plan_paths"]

#: Training rows and held-out rows.
Split = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]

#: Bytes that the Gram matrices of all folds may take together.
_MEMORY = 2**30


@dataclass(frozen=True, eq=False)
class PathPlan:
    """A regularisation path to be solved, possibly in another process.

    Attributes
    ----------
    problem : TrainingProblem
        Its own beta does not matter.
    betas : ndarray of shape (K,)
    solver : str
    settings : Settings
        Tolerance, device and shared Gram matrix.
    """

    problem: TrainingProblem
    betas: FloatArray
    solver: str
    settings: Settings

    def solve(self, n_jobs: int | None = None, bar: ProgressBar = NO_BAR, *, quiet: bool = False) -> RelaxationPath:
        """Return the relaxations for the betas solved in time, from the largest down, and at least one.

        After a keyboard interrupt, raise `KeyboardInterrupt` and return none.

        Parameters
        ----------
        n_jobs : int, optional
            Processes; see `solve_relaxation`.
        bar : ProgressBar, optional
            Bar that shows how many betas are solved.
        quiet : bool, default=False
            Do not warn of certified gaps that are larger than requested.
        """
        path, stopped = path_with(
            self.problem, self.betas, FRACTION, self.solver, self.settings, "tight", n_jobs=n_jobs, bar=bar
        )
        if stopped == "interrupted":
            raise KeyboardInterrupt
        if not quiet:
            warn_of_gaps(path, self.settings.tol, self.solver)
        return path


def plan_paths(
    problem: TrainingProblem,
    splits: Sequence[Split],
    betas: int | FloatArray = 20,
    *,
    solver: str = "auto",
    settings: Settings,
) -> tuple[PathPlan, list[PathPlan]]:
    """Plan the path of all data and the paths of the training sets of all folds, for the same betas.

    For a squared loss of many samples, the Gram matrices of all paths take one pass over the data if the held-out rows
    of the splits partition the data.

    Parameters
    ----------
    problem : TrainingProblem
        Problem of all data.
    splits : sequence of (training rows, held-out rows)
    betas : int or ndarray of shape (K,), default=20
        See `relaxation_path`; a grid is computed for all data.
    solver : str, default="auto"
        See `relaxation_path`.
    settings : Settings
        Tolerance and device.

    Returns
    -------
    PathPlan
        Plan for all data.
    list of PathPlan
        One plan for every split.
    """
    with deadline.fraction(FIRST_TRY):
        grid = geometric(useful_beta_max(problem), FRACTION, betas) if isinstance(betas, int) else betas
    training = [problem.take(train) for train, _ in splits]
    of_folds: list[SharedGram | None] = [None] * len(splits)
    of_all: SharedGram | None = None
    # Once a limit has passed, every path ends at its first beta, and the Gram matrices are not needed.
    with suppress(deadline.TimeOver):
        of_folds, of_all = _shared_grams(problem, training, splits, settings.device)
    whole, *folds = (
        PathPlan(part, grid, solver, replace(settings, gram=gram))
        for part, gram in zip([problem, *training], [of_all, *of_folds], strict=True)
    )
    return whole, folds


def _shared_grams(
    problem: TrainingProblem, training: Sequence[TrainingProblem], splits: Sequence[Split], device: str | None
) -> tuple[list[SharedGram | None], SharedGram | None]:
    """Compute the Gram matrices of all training sets and of all data in one pass, or return None for each.

    The Gram matrix of a training set is the sum of the Gram matrices of the other folds' held-out rows. Nothing
    cancels, because all terms are positive semidefinite.
    """
    p = problem.size * (problem.size + 1) // 2
    smallest = min(len(train) for train, _ in splits)
    pays = (
        problem.data_fit.quadratic
        and smallest > p
        and np.dtype(np.float64).itemsize * p * p * (2 * len(splits) + 1) <= _MEMORY
    )
    if not (pays and Reduction.applies(Instance.of(problem)) and _divide(splits, problem.n_samples)):
        return [None] * len(splits), None
    instance, units = Instance.of(problem).normalised()

    def gram(rows: npt.NDArray[np.intp]) -> Gram:
        part = replace(instance, map=instance.map.samples.take(rows), fit=instance.fit.rows(rows))
        return Gram.of(part.map, part.target, part.fit.weights, device=device)

    def in_units_of(part: TrainingProblem, total: Gram) -> SharedGram:
        """Rescale a Gram matrix, by powers of two, to the normalisation of the instance of a training set."""
        own, its = Instance.of(part).normalised()
        target = units.prediction / its.prediction
        weight = (units.value / its.value) / target**2
        size = target * its.weight / units.weight
        changed = total.in_units(size * total.scale, target=target, weight=weight)
        # The rows of the two maps may be in different units as well.
        return SharedGram(replace(changed, scale=own.map.scale))

    held_out = [gram(test) for _, test in splits]
    others = [reduce(Gram.__add__, held_out[:k] + held_out[k + 1 :]) for k in range(len(splits))]
    of_folds: list[SharedGram | None] = [in_units_of(part, total) for part, total in zip(training, others, strict=True)]
    return of_folds, SharedGram(reduce(Gram.__add__, held_out))


def _divide(splits: Sequence[Split], n: int) -> bool:
    """Return whether the splits are a partition: each row is held out once and a training row in all other splits."""
    held_out = np.sort(np.concatenate([test for _, test in splits]))
    return np.array_equal(held_out, np.arange(n)) and all(
        np.array_equal(np.sort(np.concatenate([train, test])), np.arange(n)) for train, test in splits
    )
