"""Outputs that do not interact, solved one after the other under common limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from qsdp.relaxation.incumbent import Limits, Progress, zero_solution
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution

__all__ = ["solve_outputs"]

#: Reasons that end the whole solve, not only that of one output.
_FINAL = ("stopped by the callback", "interrupted")


def solve_outputs(
    instance: Instance, limits: Limits, solve: Callable[[int, Instance, Limits], RawSolution]
) -> RawSolution:
    """Solve every output and join the solutions.

    Parameters
    ----------
    instance : Instance
        Its outputs do not interact.
    limits : Limits
        Of all outputs together; `max_iter` is that of each.
    solve : callable
        Takes the number of an output, its instance and its limits.
    """
    if not instance.separable:
        return solve(0, instance, limits)
    start, deadline, parts = time.perf_counter(), limits.deadline, instance.parts
    at_zero = [part.fit.value_at_zero for part in parts]
    solutions: list[RawSolution] = []
    #: The last report of every output, as far as there is one.
    reports: dict[int, Progress] = {}

    def total(k: int, own: Progress) -> Progress:
        reports[k] = own
        known = reports.values()
        objective = sum(report.objective for report in known) + sum(at_zero[len(reports) :])
        return Progress(
            sum(report.iteration for report in known),
            objective,
            sum(report.lower_bound for report in known),
            time.perf_counter() - start,
        )

    reason = None
    for k, part in enumerate(parts):
        # Two shares of what is left: easy outputs leave theirs to those that come after them.
        own = replace(limits, deadline=deadline.share(min(1.0, 2.0 / (len(parts) - k))))
        if limits.callback is not None:
            own = replace(own, callback=_reporting(k, total, limits.callback))
        if reason is not None:
            # The remaining outputs keep their zero point and its bound.
            own = replace(own, max_iter=0, callback=None)
        if deadline.over:
            reason = reason or "time limit"
            solutions.append(zero_solution(part, reason))
            continue
        solution = solve(k, part, own)
        solutions.append(solution)
        if reason is None and solution.status in _FINAL:
            reason = solution.status
    statuses = {solution.status for solution in solutions} - {"optimal"}
    if reason is None and statuses:
        reason = "time limit" if "time limit" in statuses else min(statuses)
    return _joined(solutions, reason or "optimal")


def _reporting(
    k: int, total: Callable[[int, Progress], Progress], callback: Callable[[Progress], object]
) -> Callable[[Progress], object]:
    return lambda own: callback(total(k, own))


def _joined(solutions: list[RawSolution], status: str) -> RawSolution:
    Z, V, z = (np.concatenate([getattr(s, name) for s in solutions]) for name in ("Z", "V", "z"))
    zero = next((np.zeros_like(s.nu) for s in solutions if s.nu is not None), None)
    nu = None if zero is None else np.stack([zero if s.nu is None else s.nu for s in solutions], axis=1)
    return RawSolution(
        Z=Z, V=V, W=V, nu=nu, z=z, status=status,
        iterations=sum(s.iterations or 0 for s in solutions),
        timings={"solve": sum(s.timings.get("solve", 0.0) for s in solutions)},
    )  # fmt: skip
