"""Solve one output after the other, on a subset of the samples first where there are many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qsdp.lifting import QuadraticMap
from qsdp.losses import Loss
from qsdp.relaxation.incumbent import Incumbent, Limits, zero_solution
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.outputs import solve_outputs
from qsdp.relaxation.scaled import RawSolution
from qsdp.relaxation.solvers.lowrank.factors import Factors, cold_factors, factors_of
from qsdp.relaxation.solvers.lowrank.method import follow
from qsdp.relaxation.solvers.lowrank.objective import Data, Objective
from qsdp.relaxation.solvers.lowrank.proof import CachedEvaluation
from qsdp.relaxation.support import active_coordinates, expand, restrict, restrict_start

__all__ = ["solve_low_rank", "unfit"]

#: Samples of the first solve, per column of the data and at least; there is one where all are several times as many.
_SAMPLES_PER_COLUMN, _LEAST_SAMPLES, _WORTHWHILE = 8, 1000, 3.0
#: Its relative gap: the samples left out change the solution by more.
_SAMPLE_GAP = 0.1


def unfit(loss: Loss) -> str | None:
    """Return what a loss lacks for this method, or None.

    At an optimum of a loss with kinks many predictions lie on these, where no second derivative helps.
    """
    return None if loss.has_curvature else "to have a curvature"


def solve_low_rank(
    instance: Instance, limits: Limits, start: RawSolution | None = None, device: str | None = None
) -> RawSolution:
    """Solve the relaxation in factors of low rank.

    Parameters
    ----------
    instance : Instance
        Normalised.
    limits : Limits
        Iterations are Newton steps, of every output.
    start : RawSolution, optional
        A solution of a similar instance, in this one's units.
    device : str, optional
        Device of torch for the products with the data, such as "cuda"; NumPy without one.

    Returns
    -------
    RawSolution
        The best certified pair whatever stopped the iteration. Its status is "optimal", "iteration limit", "time
        limit", "stopped by the callback", "stalled" (nothing more is gained), or "interrupted": a keyboard interrupt
        ends the iteration and is not raised again.
    """
    kept = active_coordinates(instance.map)
    small = instance if np.all(kept) else replace(instance, map=restrict(instance.map, kept))
    try:
        subsets = _subsets(small.map)
        levels = [
            Data(small.map, small.fit.weights, device)
            if rows is None
            else Data(replace(small.map, X=small.map.X[rows]), small.fit.rows(rows).weights, device)
            for rows in subsets
        ]
    except KeyboardInterrupt:
        return zero_solution(instance, "interrupted")

    def solve(k: int, part: Instance, own: Limits) -> RawSolution:
        return _solve_part(levels, subsets, part, own, restrict_start(start, instance, kept, k))

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        raw = solve_outputs(small, limits, solve)
    return raw if np.all(kept) else expand(raw, kept)


def _subsets(data: QuadraticMap) -> list[np.ndarray | None]:
    """Return the rows of each level: a random subset where there are many, then None for all of them."""
    first = max(_LEAST_SAMPLES, _SAMPLES_PER_COLUMN * data.size)
    if data.n_rows < _WORTHWHILE * first:
        return [None]
    rows = np.sort(np.random.default_rng(0).permutation(data.n_rows)[:first])
    return [rows, None]


def _solve_part(
    levels: list[Data], subsets: list[np.ndarray | None], instance: Instance, limits: Limits, start: RawSolution | None
) -> RawSolution:
    evaluation = CachedEvaluation(instance, levels[-1])
    incumbent = Incumbent(evaluation, limits)
    status = incumbent.stop(0)
    if status is not None:
        return incumbent.solution(status)
    try:
        if start is not None and start.Z is not None and start.V is not None:
            factors = factors_of(start.V + start.Z, start.V - start.Z)
        else:
            factors = initial_factors(levels, subsets, instance, limits)
    except KeyboardInterrupt:
        return incumbent.solution("interrupted")
    except np.linalg.LinAlgError:
        return incumbent.solution("stalled")
    status, _ = follow(_objective(levels[-1], instance), factors, incumbent, evaluation, limits.tol)
    return incumbent.solution(status)


def initial_factors(
    levels: list[Data], subsets: list[np.ndarray | None], instance: Instance, limits: Limits
) -> Factors:
    """Return the solution on the first level's samples, or factors along the gradient at zero where these are all."""
    data, rows = levels[0], subsets[0]
    if rows is not None:
        fit = instance.fit.rows(rows)
        share = fit.total_weight / instance.fit.total_weight
        instance = replace(instance, map=data.map, fit=fit, penalty=share * instance.penalty)
    evaluation = CachedEvaluation(instance, data)
    factors = cold_factors(evaluation.adjoints(evaluation.nu(instance.zero_dual)), np.random.default_rng(0))
    if rows is None:
        return factors
    tol = max(limits.tol, _SAMPLE_GAP)
    left = replace(limits, tol=tol, callback=None)
    incumbent = Incumbent(evaluation, left)
    status, factors = follow(_objective(data, instance), factors, incumbent, evaluation, tol)
    if status == "interrupted":
        raise KeyboardInterrupt
    return factors


def _objective(data: Data, instance: Instance) -> Objective:
    target = instance.target.reshape(len(instance.target), -1)
    return Objective(data, replace(instance.fit, target=target), instance.dual_radius)
