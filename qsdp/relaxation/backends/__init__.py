"""Registry of solver back ends, and automatic selection of one."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace

from qsdp._utils import deadline
from qsdp._utils.tuning import INNER, SECOND, SMALL
from qsdp._utils.validation import check_choice
from qsdp.data_map import COLUMNS, SAMPLES, lacking
from qsdp.exceptions import SolverError, UnavailableSolverError
from qsdp.losses import Loss
from qsdp.relaxation.backends.backend import Backend
from qsdp.relaxation.backends.conic import CONIC_BACKENDS, run_conic
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import Settings
from qsdp.relaxation.solvers import interior, lowrank, splitting

__all__ = [
    "BACKENDS",
    "CONIC_BACKENDS",
    "Backend",
    "Settings",
    "available_solvers",
    "check_solver",
    "choose_backend",
    "low_rank_first",
    "run_conic",
]

# Built-in methods support every limit, need no other package and certify their results.
#: A method with few iterations, for moderate sizes.
INTERIOR = Backend(
    "interior",
    interior.solve_interior,
    operations=interior.operations,
    unsuited=interior.unsuited,
    unfit=interior.unfit,
)

#: A first-order method for many samples and columns.
SPLITTING = Backend("splitting", splitting.solve_splitting, operations=splitting.operations)

#: A second-order method in factors, for hundreds of columns.
LOW_RANK = Backend(
    "low-rank",
    lowrank.solve_low_rank,
    needs=frozenset({SAMPLES}),
    operations=lowrank.operations,
    real_weights=False,
    unfit=lowrank.unfit,
)

#: Back ends by name. "auto" tries back ends of other packages in this order.
BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (INTERIOR, SPLITTING, LOW_RANK, *CONIC_BACKENDS)}

#: Parts of refusals.
_REAL_WEIGHTS = "additive models and other blocks of real weights"
_OTHERS = "use solver='splitting' or 'auto'"

#: Safety factor on the cost of methods with unpredictable iteration counts.
_UNCERTAINTY = 16.0


def missing(backend: Backend) -> str | None:
    """Explain in one line what to install or set before `backend` can be used; None if it is available."""
    if importlib.util.find_spec(backend.package) is None:
        return f"solver {backend.name!r} needs the package {backend.package!r}: {backend.install}"
    return backend.licence() if backend.licence else None


def available_solvers() -> dict[str, str | None]:
    """List all solvers: each name maps to None if it is available, otherwise to what to install or set.

    Examples
    --------
    >>> import qsdp
    >>> qsdp.available_solvers()["scs"] is None
    True
    """
    return {name: missing(backend) for name, backend in BACKENDS.items()}


def check_solver(solver: str, loss: Loss, *, real_weights: bool = False) -> None:
    """Check that the solver exists, is installed, and supports the loss, before any problem is built.

    `real_weights` tells whether the problem will have blocks of real weights.

    Raises
    ------
    InvalidInputError
        There is no such solver.
    UnavailableSolverError
        Its package or licence is missing.
    SolverError
        It cannot express the loss, or does not support blocks of real weights.
    """
    if check_choice("solver", solver, [*BACKENDS, "auto"]) == "auto":
        return
    if (refusal := _cannot(BACKENDS[solver], loss, real_weights)) is not None:
        raise SolverError(refusal)
    if (reason := missing(BACKENDS[solver])) is not None:
        raise UnavailableSolverError(reason)


def choose_backend(solver: str, instance: Instance, settings: Settings) -> Backend:
    """Select the back end by name; "auto" selects the built-in method with the lowest estimated operation count.

    If no built-in method supports the request, "auto" takes the first external solver that does.

    Raises
    ------
    InvalidInputError, UnavailableSolverError
        As `check_solver` does.
    SolverError
        The solver cannot express the loss, or does not support a limit.
    """
    check_solver(solver, instance.loss)
    if solver != "auto":
        if (refusal := _refusal(BACKENDS[solver], instance, settings)) is not None:
            raise SolverError(refusal)
        return BACKENDS[solver]
    candidates = (
        backend
        for backend in BACKENDS.values()
        if backend.operations is not None and _refusal(backend, instance, settings) is None
    )
    first = next(candidates, None)
    # No other back end then counts as cheaper, and predicting their operations takes part of the time of a small solve.
    if first is not None and first.name == INTERIOR.name and _operations(first, instance, settings) <= SECOND:
        return first
    if first is not None:
        return min((first, *candidates), key=lambda backend: _expected(backend, instance, settings))
    # Looking for packages and licences takes longer than a small solve.
    reasons = {name: _refusal(other, instance, settings) or missing(other) for name, other in BACKENDS.items()}
    able = [BACKENDS[name] for name, reason in reasons.items() if reason is None]
    if able:
        return able[0]
    raise UnavailableSolverError("no solver can be used: " + "; ".join(str(reason) for reason in reasons.values()))


def low_rank_first(chosen: Backend, instance: Instance, settings: Settings) -> Settings | None:
    """Return settings for a first attempt with the low-rank method if the chosen method is expensive, else None.

    If columns are correlated, as in real data, and beta is not tiny, solutions have low rank, and the low-rank method
    is many times as fast as the others. On columns of noise, it hardly converges. So it may use only a fraction of the
    operations that the chosen method is expected to take, and is skipped if beta is tiny. The caller limits its time.
    On correlated columns, solves take 0.6 s with this attempt and 3.5 s without it.
    """
    cost = _operations(chosen, instance, settings)
    shared = settings.gram is not None and instance.fit.quadratic
    if chosen is LOW_RANK or cost < SECOND or shared or settings.max_iter is not None:
        return None
    if COLUMNS not in instance.map.offers or _refusal(LOW_RANK, instance, settings) is not None:
        return None
    # It failed up to a thousandth of the largest useful beta.
    if instance.dual_radius < SMALL * instance.price_at_zero():
        return None
    return replace(settings, effort=INNER * cost)


def _expected(backend: Backend, instance: Instance, settings: Settings) -> float:
    """Estimate the cost that "auto" compares: operations of a typical solve, times a factor for their uncertainty."""
    # Four samples per matrix entry, or a coarse tolerance, make the numbers of iterations predictable.
    easy = instance.map.n_samples >= 4 * instance.map.layout.n_entries or settings.tol >= SMALL
    factor = 1.0 if easy or backend is INTERIOR else _UNCERTAINTY
    return max(factor * _operations(backend, instance, settings), SECOND)


def _operations(backend: Backend, instance: Instance, settings: Settings) -> float:
    assert backend.operations is not None
    return backend.operations(instance, settings.tol)


def _cannot(backend: Backend, loss: Loss, real_weights: bool) -> str | None:
    """Return the reason why the back end cannot handle the loss or blocks of real weights, or None if it can."""
    if (needed := backend.unfit(loss) if backend.unfit else None) is not None:
        return f"solver {backend.name!r} does not support loss {loss.name!r}: it requires {needed}"
    if real_weights and not backend.real_weights:
        return f"solver {backend.name!r} does not support {_REAL_WEIGHTS}; {_OTHERS}"
    return None


def _refusal(backend: Backend, instance: Instance, settings: Settings) -> str | None:
    if (reason := _cannot(backend, instance.loss, bool(instance.map.layout.weights))) is not None:
        return reason
    if (reason := lacking(instance.map, f"solver {backend.name!r}", *backend.needs)) is not None:
        return reason
    if (reason := backend.unsuited(instance) if backend.unsuited else None) is not None:
        return f"solver {backend.name!r} does not support {reason}; {_OTHERS}"
    requested = {
        "time_limit": deadline.left() < math.inf and not backend.time_limit,
        "callback": settings.callback is not None and not backend.certified,
        "start": settings.start is not None and not backend.certified,
    }
    for name, refused in requested.items():
        if refused:
            return f"solver {backend.name!r} does not support {name}" + (
                "; use max_iter" if name == "time_limit" else ""
            )
    return None
