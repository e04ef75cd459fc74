"""MOSEK, a commercial interior-point method; free licences exist for academia."""

from __future__ import annotations

from typing import Any

from qsdp.relaxation.backends._cvxpy import solve_with_cvxpy
from qsdp.relaxation.backends.base import Backend, Settings
from qsdp.relaxation.instance import LinearInstance
from qsdp.relaxation.scaled import RawSolution


def _solve(instance: LinearInstance, settings: Settings) -> RawSolution:
    return solve_with_cvxpy(instance, settings, solver="MOSEK", options=_options)


def _options(settings: Settings) -> dict[str, Any]:
    return {"mosek_params": mosek_parameters(settings)}


def mosek_parameters(settings: Settings) -> dict[str, Any]:
    """Return MOSEK's own parameters for `settings`."""
    parameters: dict[str, Any] = {
        "MSK_DPAR_INTPNT_CO_TOL_REL_GAP": settings.tol,
        "MSK_DPAR_INTPNT_CO_TOL_PFEAS": settings.tol,
        "MSK_DPAR_INTPNT_CO_TOL_DFEAS": settings.tol,
    }
    if settings.max_iter is not None:
        parameters["MSK_IPAR_INTPNT_MAX_ITERATIONS"] = settings.max_iter
    if (seconds := settings.deadline.time_limit) is not None:
        parameters["MSK_DPAR_OPTIMIZER_MAX_TIME"] = seconds
    return parameters


def missing_licence() -> str | None:
    """Return None where MOSEK has a licence, else what to set."""
    import mosek

    try:
        with mosek.Env() as environment:
            environment.checkoutlicense(mosek.feature.pton)
    except mosek.Error as error:
        return (
            "MOSEK is installed but has no valid licence: put mosek.lic in ~/mosek or set "
            "MOSEKLM_LICENSE_FILE (academic licences are free, see mosek.com); "
            f"MOSEK says: {str(error).splitlines()[0]}"
        )
    return None


BACKEND = Backend(
    name="mosek",
    package="mosek",
    install="pip install 'qsdp[mosek]'",
    cones=frozenset({"quadratic", "exponential"}),
    iteration_limit=True,
    time_limit=True,
    solve=_solve,
    licence=missing_licence,
)
