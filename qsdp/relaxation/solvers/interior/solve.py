"""Solve one output after the other by the interior-point method, from a cold or a warm start."""

from __future__ import annotations

import numpy as np

from qsdp.relaxation.incumbent import STOPS, Incumbent, Limits, zero_solution
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.reductions import Reductions
from qsdp.relaxation.repair import repair
from qsdp.relaxation.scaled import RawSolution
from qsdp.relaxation.solvers.interior.fits import as_rows, fit_of
from qsdp.relaxation.solvers.interior.method import State, follow
from qsdp.relaxation.solvers.interior.newton import Newton
from qsdp.relaxation.solvers.interior.setup import FactorCache, NewtonSetup
from qsdp.relaxation.solvers.interior.start import Start, cold_start, warm_start
from qsdp.relaxation.solvers.parts import SolvePart, solve_parts

__all__ = ["solve_interior"]

#: Dual radius in place of zero, as a share of what the dual vector at zero needs: for zero there is no central path.
_LEAST_DUAL_RADIUS = 1e-9


def solve_interior(
    instance: Instance, limits: Limits, start: RawSolution | None = None, reductions: Reductions | None = None
) -> RawSolution:
    """Return the best certified pair that the interior-point method meets, see `solve_parts` for the arguments.

    Gram matrices of `reductions`, from solves with the same data, are used.
    """

    def prepare(small: Instance) -> SolvePart:
        cache = FactorCache(small, reductions, limits.deadline)
        return lambda k, part, own, given: _solve_part(cache, k, part, own, given)

    return solve_parts(instance, limits, start, prepare)


def _solve_part(cache: FactorCache, k: int, part: Instance, limits: Limits, given: RawSolution | None) -> RawSolution:
    incumbent: Incumbent | None = None
    try:
        setup = cache.setup(k, part)
        incumbent = Incumbent(setup.evaluation, limits)
        status = _follow(part, setup, incumbent, given)
    except tuple(STOPS) as error:
        status = STOPS[type(error)]
    return zero_solution(part, status) if incumbent is None else incumbent.solution(status)


def _follow(part: Instance, setup: NewtonSetup, incumbent: Incumbent, given: RawSolution | None) -> str:
    """Follow the path from the zero point, unless that is optimal already, or from the given solution."""
    newton = setup.newton
    nu = as_rows(setup.fit.zero_dual)
    M = newton.adjoint(nu)
    largest = part.size * float(np.abs(np.linalg.eigvalsh(M)).max())
    if largest <= part.dual_radius:
        # The zero point is optimal, and its own dual vector proves it.
        incumbent.offer_dual(setup.candidate(nu), np.ones((part.n_blocks, part.size)))
        return incumbent.stop(0) or "stalled"
    dual_radius = part.dual_radius or _LEAST_DUAL_RADIUS * largest
    if not (dual_radius > 0.0 and np.isfinite(largest)):
        return "stalled"
    start = cold_start(setup.fit, newton, nu, M, dual_radius, float(incumbent.objectives.sum()))
    if given is not None and (warm := _warm(part, setup, incumbent, start, given)) is not None:
        fit = fit_of(setup.fit, warm.nu)
        fit.centre(newton.forward(warm.Y[:, 0] - warm.Y[:, 1]), _mean_product(newton, warm))
        reason = follow(newton, fit, State(warm.Y, warm.r, warm.z), dual_radius, incumbent, setup.candidate)
        if reason != "stalled":
            return reason
    fit = fit_of(setup.fit, start.nu)
    return follow(newton, fit, State(start.Y, start.r, start.z), dual_radius, incumbent, setup.candidate)


def _warm(part: Instance, setup: NewtonSetup, incumbent: Incumbent, cold: Start, given: RawSolution) -> Start | None:
    """Offer a given solution to the incumbent; return the start near it, or None if it is far off."""
    assert given.nu is not None
    assert given.z is not None
    Z, V, _ = repair(part, given.Z, given.V, given.V)
    nu = setup.multiplier(part.fit.project(given.nu))
    incumbent.offer_point(V + Z, V - Z)
    incumbent.offer_dual(setup.candidate(nu), given.z)
    return warm_start(cold, setup.newton, nu, np.stack([V + Z, V - Z], axis=1), given.z, float(incumbent.gaps.max()))


def _mean_product(newton: Newton, start: Start) -> float:
    M = newton.adjoint(start.nu)
    own = np.vdot(np.diagonal(start.Y[:, 0] + start.Y[:, 1], axis1=1, axis2=2), start.z)
    return float(own - np.vdot(start.Y[:, 0] - start.Y[:, 1], M)) / (2 * start.z.size)
