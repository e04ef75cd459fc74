"""Shared steps of the built-in solvers: drop inactive coordinates, and solve the outputs one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from qsdp._utils import deadline
from qsdp.data_map import DataMap
from qsdp.relaxation.incumbent import FINAL, STOPS, zero_solution
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import Progress, RawSolution, Settings

__all__ = ["SolvePart", "solve_parts"]

#: Function that solves one output, given its index, instance and settings. Coupled outputs form one part, index 0.
SolvePart = Callable[[int, Instance, Settings], RawSolution]


def solve_parts(instance: Instance, settings: Settings, prepare: Callable[[Instance], SolvePart]) -> RawSolution:
    """Solve every output of an instance in the coordinates that enter its predictions, and join the solutions.

    Parameters
    ----------
    instance : Instance
        Normalised instance.
    settings : Settings
        Settings of all outputs together; `max_iter` applies to each output.
    prepare : callable
        Do the work that all outputs share, for the instance in the active coordinates, and return a `SolvePart`.
    """
    active = _active_coordinates(instance.map)
    whole = bool(active.all())
    small = instance if whole else replace(instance, map=instance.map.restricted(active))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        try:
            solve = prepare(small)
        except tuple(STOPS) as error:
            return zero_solution(instance, STOPS[type(error)])

        def solve_output(k: int, part: Instance, part_settings: Settings) -> RawSolution:
            return solve(k, part, replace(part_settings, start=_restrict_start(settings.start, instance, active, k)))

        raw = _solve_outputs(small, settings, solve_output)
    return raw if whole else _expand(raw, active)


# -- outputs that do not interact --------------------------------------------------------------------------


def _solve_outputs(instance: Instance, settings: Settings, solve: SolvePart) -> RawSolution:
    start, parts = time.perf_counter(), instance.parts
    at_zero = [part.fit.value_at_zero for part in parts]
    solutions: list[RawSolution] = []
    #: Last report of every output that has reported.
    reports: dict[int, Progress] = {}

    def report_of(k: int) -> Callable[[Progress], object] | None:
        """Return the callback of output k, which reports on all outputs."""
        callback = settings.callback
        if callback is None:
            return None

        def report(latest: Progress) -> object:
            reports[k] = latest
            known = reports.values()
            objective = sum(progress.objective for progress in known) + sum(at_zero[len(reports) :])
            bound = sum(progress.lower_bound for progress in known)
            return callback(
                Progress(sum(progress.iteration for progress in known), objective, bound, time.perf_counter() - start)
            )

        return report

    reason = None
    for k, part in enumerate(parts):
        if deadline.over():
            reason = reason or "time limit"
            solutions.append(zero_solution(part, reason))
            continue
        part_settings = replace(settings, callback=report_of(k))
        if reason is not None:
            # The remaining outputs keep the zero point and its bound.
            part_settings = replace(part_settings, max_iter=0, callback=None)
        # Allow twice an equal part of the remaining time: easy outputs leave their time to later ones.
        with deadline.fraction(min(1.0, 2.0 / (len(parts) - k))):
            solutions.append(solve(k, part, part_settings))
        if reason is None and solutions[-1].status in FINAL:
            reason = solutions[-1].status
    statuses = {solution.status for solution in solutions} - {"optimal"}
    if reason is None and statuses:
        reason = "time limit" if "time limit" in statuses else min(statuses)
    return _joined(solutions, reason or "optimal")


def _joined(solutions: list[RawSolution], status: str) -> RawSolution:
    if len(solutions) == 1:
        return solutions[0]
    Z, V, z = (np.concatenate([getattr(s, name) for s in solutions]) for name in ("Z", "V", "z"))
    zero = next((np.zeros_like(s.nu) for s in solutions if s.nu is not None), None)
    nu = None if zero is None else np.concatenate([zero if s.nu is None else s.nu for s in solutions], axis=1)
    iterations = sum(s.iterations or 0 for s in solutions)
    timings = {"solve": sum(s.timings.get("solve", 0.0) for s in solutions)}
    weights = np.concatenate([s.weights for s in solutions]) if all(s.weights is not None for s in solutions) else None
    return RawSolution(Z, V, V, nu, z, status=status, iterations=iterations, timings=timings, weights=weights)


# -- coordinates -------------------------------------------------------------------------------------------


def _active_coordinates(data: DataMap) -> np.ndarray:
    """Return a mask of shape (N,) of the rows and columns of the matrices on which predictions depend."""
    if data.n_blocks != 1 or data.layout.weights:
        # Blocks have rows of zeros beyond their sides.
        return np.ones(data.size, dtype=bool)
    active = data.active_coordinates()
    if not np.any(active):
        # A matrix without rows would be a special case everywhere.
        active[0] = True
    return active


def _restrict_start(start: RawSolution | None, instance: Instance, active: np.ndarray, k: int) -> RawSolution | None:
    """Extract the warm start of output k, in the active coordinates; None if it cannot be used."""
    if start is None or start.Z is None or start.V is None or start.nu is None or start.z is None:
        return None
    shape = (instance.n_matrices, instance.size, instance.size)
    fits = start.Z.shape == start.V.shape == shape and start.z.shape == shape[:2]
    if not (fits and start.nu.shape == instance.target.shape):
        return None
    if not all(np.all(np.isfinite(array)) for array in (start.Z, start.V, start.nu, start.z)):
        return None
    outputs = instance.outputs_of(k)
    matrices = instance.matrices_of(outputs)
    Z, V = (M[matrices][:, active][:, :, active] for M in (start.Z, start.V))
    weights = instance.no_weights if start.weights is None else start.weights
    return RawSolution(Z, V, V, start.nu[:, outputs], start.z[matrices][:, active], weights=weights[outputs])


def _expand(raw: RawSolution, active: np.ndarray) -> RawSolution:
    """Extend a solution to all coordinates: the dropped ones get the common diagonal and zeros elsewhere."""
    assert raw.Z is not None
    assert raw.V is not None
    assert raw.z is not None
    shape = (len(raw.Z), len(active), len(active))
    Z, V, z = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])
    inner = np.ix_(np.arange(len(raw.Z)), active, active)
    Z[inner], V[inner], z[:, active] = raw.Z, raw.V, raw.z
    outer = np.flatnonzero(~active)
    V[:, outer, outer] = np.diagonal(raw.V, axis1=1, axis2=2).max(axis=1, keepdims=True)
    return replace(raw, Z=Z, V=V, W=V, z=z)
