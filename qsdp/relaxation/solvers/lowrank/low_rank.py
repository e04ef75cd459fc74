"""Solve one output after the other by the low-rank method."""

from __future__ import annotations

import math

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.tuning import EIGEN, FIRST_TRY, INNER, SMALL, TYPICAL_STEPS
from qsdp._utils.validation import FloatArray
from qsdp.data_map import COLUMNS
from qsdp.losses import Loss
from qsdp.relaxation.incumbent import STOPS, Incumbent
from qsdp.relaxation.instance import Instance, LinearInstance
from qsdp.relaxation.scaled import RawSolution, Settings
from qsdp.relaxation.solvers.lowrank.factor_objective import Objective, ObjectiveData
from qsdp.relaxation.solvers.lowrank.factors import Factors, cold_factors, factors_of
from qsdp.relaxation.solvers.lowrank.iteration import CachedEvaluation, follow
from qsdp.relaxation.solvers.parts import SolvePart, solve_parts
from qsdp.relaxation.spectra import decomposed

__all__ = ["operations", "solve_low_rank", "unfit", "unsuited"]

#: Default of `max_iter`; tens of iterations are usual.
_MAX_ITERATIONS = 500

#: Expected products of a solve with the data, and columns of the factors.
_PRODUCTS, _COLUMNS = 2000, 80

#: Samples per column up to which a coarse solve counts as having few samples, and its number of products.
_FEW_SAMPLES, _COARSE_PRODUCTS = 4, 150


def operations(instance: Instance, tol: float) -> float:
    """Estimate the floating-point operations of a solve; infinity if the method is unsuitable for the instance."""
    if COLUMNS not in instance.map.offers:
        return math.inf
    n, N, columns = instance.map.n_rows, instance.size, min(instance.size, _COLUMNS)
    products = _COARSE_PRODUCTS if tol >= SMALL and n <= _FEW_SAMPLES * N else _PRODUCTS
    each = TYPICAL_STEPS * EIGEN * N**3 + products * 4.0 * N * (2.0 * n + N) * columns
    return each * instance.n_matrices


def unsuited(instance: LinearInstance) -> str | None:
    """Return what of an instance the method does not support, or None."""
    return "blocks of real weights" if instance.map.layout.weights else None


def unfit(loss: Loss) -> str | None:
    """Return the property that a loss lacks for this method, or None.

    At an optimum of a loss with kinks, many predictions lie at kinks, where second derivatives do not help.
    """
    return None if loss.has_curvature else "second derivatives (`curvature`)"


def solve_low_rank(instance: Instance, settings: Settings) -> RawSolution:
    """Solve a normalised instance by the low-rank method; see `solve_parts` for the arguments.

    Iterations are Newton steps of one output. The solve ends after
    about `effort` floating-point operations, or half of them if a quarter of the time limit has passed; an output may
    use twice its equal part of the remaining operations. If one needs more, the others are not solved either.
    """
    effort = settings.effort

    def prepare(small: Instance) -> SolvePart:
        deadline.check()
        data = ObjectiveData(small.map, small.fit.weights)

        def solve(k: int, part: Instance, part_settings: Settings) -> RawSolution:
            nonlocal effort
            fraction = min(1.0, 2.0 / (len(small.parts) - k))
            end = data.operations + fraction * (effort - data.operations)

            def spent() -> bool:
                late = whole.elapsed > FIRST_TRY * whole.limit
                return data.operations >= (min(end, 0.5 * effort) if late else end)

            with deadline.after(None, interrupted=spent):
                raw = _solve_part(data, part, part_settings)
            if spent() and raw.status != "optimal":
                effort = data.operations
            return raw

        return solve

    with deadline.within(deadline.left()) as whole:
        return solve_parts(instance, settings.limited(_MAX_ITERATIONS), prepare)


def _solve_part(data: ObjectiveData, instance: Instance, settings: Settings) -> RawSolution:
    evaluation = CachedEvaluation(instance, data)
    incumbent = Incumbent(evaluation, settings)
    status, start = incumbent.stop(0), settings.start
    if status is None:
        try:
            if start is not None and start.Z is not None and start.V is not None:
                # Solutions of other methods have full rank, mostly because of their errors.
                fraction = min(INNER * settings.tol, INNER)
                factors = factors_of(start.V + start.Z, start.V - start.Z, fraction)
            else:
                factors = _along_gradient(evaluation, data)
            objective = Objective(data, instance.fit, instance.dual_radius)
            status = follow(objective, factors, incumbent, evaluation, settings.tol)
        except tuple(STOPS) as error:
            status = STOPS[type(error)]
    return incumbent.solution(status)


def _along_gradient(evaluation: CachedEvaluation, data: ObjectiveData) -> Factors:
    dual = evaluation.nu(evaluation.instance.zero_dual)
    M, columns = evaluation.adjoints(dual), evaluation.instance.duals_of_matrices(dual)

    def scaled(k: int, scales: FloatArray) -> tuple[FloatArray, FloatArray]:
        return decomposed(data.map, M[k], columns[k], scales)

    return cold_factors(M, scaled, np.random.default_rng(0))
