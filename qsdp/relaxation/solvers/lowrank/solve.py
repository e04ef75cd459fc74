"""The entry of the method: samples in growing numbers, one output after the other."""

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
from qsdp.relaxation.solvers.lowrank.proof import KnownEvaluation
from qsdp.relaxation.support import expanded, reached, restrict_start, restricted

__all__ = ["solve_low_rank", "unfit"]

#: A first solve is on this many samples a column of the data, at least so many, where all are a few times as many.
_SAMPLES_A_COLUMN, _LEAST_SAMPLES, _WORTHWHILE = 8, 1000, 3.0
#: Its relative gap: the samples left out change the solution by more.
_SAMPLE_GAP = 0.1


def unfit(loss: Loss) -> str | None:
    """Return what a loss lacks for this method, or None: at an optimum predictions rest on kinks."""
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
    kept = reached(instance.map)
    small = instance if np.all(kept) else replace(instance, map=restricted(instance.map, kept))
    try:
        chosen = _levels(small.map)
        known = [
            Data(small.map, small.fit.weights, device)
            if rows is None
            else Data(replace(small.map, X=small.map.X[rows]), small.fit.rows(rows).weights, device)
            for rows in chosen
        ]
    except KeyboardInterrupt:
        return zero_solution(instance, "interrupted")

    def solve(k: int, part: Instance, own: Limits) -> RawSolution:
        return _solve_part(known, chosen, part, own, restrict_start(start, instance, kept, k))

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        raw = solve_outputs(small, limits, solve)
    return raw if np.all(kept) else expanded(raw, kept)


def _levels(data: QuadraticMap) -> list[np.ndarray | None]:
    """Return the samples to begin with, where there are many, and None for all of them."""
    first = max(_LEAST_SAMPLES, _SAMPLES_A_COLUMN * data.size)
    if data.n_rows < _WORTHWHILE * first:
        return [None]
    rows = np.sort(np.random.default_rng(0).permutation(data.n_rows)[:first])
    return [rows, None]


def _solve_part(
    known: list[Data], chosen: list[np.ndarray | None], instance: Instance, limits: Limits, start: RawSolution | None
) -> RawSolution:
    evaluation = KnownEvaluation(instance, known[-1])
    incumbent = Incumbent(evaluation, limits)
    status = incumbent.stop(0)
    if status is not None:
        return incumbent.solution(status)
    try:
        if start is not None and start.Z is not None and start.V is not None:
            factors = factors_of(start.V + start.Z, start.V - start.Z)
        else:
            factors = _begun(known, chosen, instance, limits)
    except KeyboardInterrupt:
        return incumbent.solution("interrupted")
    except np.linalg.LinAlgError:
        return incumbent.solution("stalled")
    status, _ = follow(_objective(known[-1], instance), factors, incumbent, evaluation, limits.tol)
    return incumbent.solution(status)


def _begun(known: list[Data], chosen: list[np.ndarray | None], instance: Instance, limits: Limits) -> Factors:
    """Return factors to start from: those of fewer samples, or where these are all the gradient at zero."""
    data, rows = known[0], chosen[0]
    if rows is not None:
        fit = instance.fit.rows(rows)
        share = fit.total_weight / instance.fit.total_weight
        instance = replace(instance, map=data.map, fit=fit, penalty=share * instance.penalty)
    evaluation = KnownEvaluation(instance, data)
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
