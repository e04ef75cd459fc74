"""The registry of back ends, one file each."""

from __future__ import annotations

import importlib.util

from qsdp._validation import check_choice
from qsdp.exceptions import SolverError, UnavailableSolverError
from qsdp.losses import Loss
from qsdp.relaxation.backends import clarabel, cvxopt, mosek, scs
from qsdp.relaxation.backends.base import Backend, Settings

__all__ = ["BACKENDS", "Backend", "Settings", "available_solvers", "choose_backend"]

#: In the order in which "auto" tries them.
BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (scs.BACKEND, clarabel.BACKEND, mosek.BACKEND, cvxopt.BACKEND)
}


def missing(backend: Backend) -> str | None:
    """Return None where `backend` can be used here, else one line that says what to install or set."""
    if importlib.util.find_spec(backend.package) is None:
        return f"solver {backend.name!r} needs the package {backend.package!r}: {backend.install}"
    return backend.licence() if backend.licence else None


def available_solvers() -> dict[str, str | None]:
    """Return every solver's name with None where it can be used here, else what to install or set.

    Examples
    --------
    >>> import qsdp
    >>> qsdp.available_solvers()["scs"] is None
    True
    """
    return {name: missing(backend) for name, backend in BACKENDS.items()}


def choose_backend(solver: str, loss: Loss, *, max_iter: int | None = None, time_limit: float | None = None) -> Backend:
    """Return the back end of that name, or the first that can do it for "auto".

    Raises
    ------
    InvalidInputError
        There is no such solver.
    UnavailableSolverError
        Its package or licence is missing.
    SolverError
        It cannot express the loss or does not take the limit.
    """
    name = check_choice("solver", solver, [*BACKENDS, "auto"])
    if name != "auto":
        backend = BACKENDS[name]
        if (refusal := _refusal(backend, loss, max_iter, time_limit)) is not None:
            raise SolverError(refusal)
        if (reason := missing(backend)) is not None:
            raise UnavailableSolverError(reason)
        return backend
    reasons = []
    for backend in BACKENDS.values():
        reason = _refusal(backend, loss, max_iter, time_limit) or missing(backend)
        if reason is None:
            return backend
        reasons.append(reason)
    raise UnavailableSolverError("no solver can be used: " + "; ".join(reasons))


def _refusal(backend: Backend, loss: Loss, max_iter: int | None, time_limit: float | None) -> str | None:
    if lacking := sorted(loss.cones - backend.cones):
        able = ", ".join(repr(name) for name, other in BACKENDS.items() if loss.cones <= other.cones)
        return f"solver {backend.name!r} has no {lacking[0]} cone, which loss {loss.name!r} needs; use {able}"
    if max_iter is not None and not backend.iteration_limit:
        return f"solver {backend.name!r} takes no max_iter"
    if time_limit is not None and not backend.time_limit:
        return f"solver {backend.name!r} takes no time_limit; use max_iter"
    return None
