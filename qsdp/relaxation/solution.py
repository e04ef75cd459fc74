"""The solved relaxation: a feasible point and a lower bound, both recomputed from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qsdp._validation import FloatArray, check_matrix, read_only
from qsdp.problem import TrainingProblem, quadratic_values
from qsdp.relaxation.bounds import DualBound, best_dual_bound
from qsdp.relaxation.repair import repair

__all__ = ["RawSolution", "Relaxation", "finish", "relative"]


@dataclass(frozen=True)
class RawSolution:
    """What a back end returns: candidates, none of which has to be right.

    Attributes
    ----------
    Z, V, W : ndarray of shape (D, D) or None
    nu : ndarray of shape (n,) or None
        Multiplier of ``yhat = 2 x' Z x``.
    z : ndarray of shape (D,) or None
        Multiplier of the diagonal.
    status : str
        The solver's own word.
    iterations : int or None
    timings : mapping of str to float
        Seconds of the stages "compile" and "solve".
    """

    Z: FloatArray | None = None
    V: FloatArray | None = None
    W: FloatArray | None = None
    nu: FloatArray | None = None
    z: FloatArray | None = None
    status: str = "failed"
    iterations: int | None = None
    timings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Relaxation:
    r"""A feasible point of the semidefinite relaxation and a lower bound that holds for every network.

    ``lower_bound <= p_b*`` whatever the solver did; ``objective`` is that of the point held here, which is
    exactly feasible. The true value of the relaxation lies between the two.

    Attributes
    ----------
    problem : TrainingProblem
    Z, V, W : ndarray of shape (D, D)
        ``[[V, Z], [Z', W]]`` is positive semidefinite with constant diagonal `rho`. The data matrices are
        symmetric, so Z is symmetric and W equals V.
    rho : float
    objective : float
        Loss of the predictions :math:`2 x_i^T Z x_i` plus :math:`2 \beta D \rho` ("paper": half the latter).
    lower_bound : float
        Bound on the global optimum :math:`p_b^*` over all networks of any width.
    dual : DualBound
        What proves the bound.
    status : {"optimal", "inaccurate", "failed"}
        Judged by `relative_gap`, not by the solver: at most ``100 tol`` is optimal, and failed means that
        the solver left no usable point.
    solver, solver_status : str
        Back end and its own word.
    residuals : dict of str to float
        By how much the solver's point missed: "asymmetry" and "negative_eigenvalue" (relative to the
        largest entry) and "diagonal" (its spread, relative). Empty when it left no point. The two-block
        form bounds V only, so there the diagonal of the literal form may show a spread.
    compile_time, solve_time : float
        Seconds.
    regularization : {"tight", "paper"}
    tol : float
        Accuracy that was asked for.
    """

    problem: TrainingProblem
    Z: FloatArray
    V: FloatArray
    rho: float
    objective: float
    lower_bound: float
    dual: DualBound
    status: str
    solver: str
    solver_status: str
    iterations: int | None
    residuals: dict[str, float]
    compile_time: float
    solve_time: float
    regularization: str
    tol: float

    @property
    def W(self) -> FloatArray:  # noqa: N802 (the paper's name of the block)
        """Lower diagonal block, equal to `V`."""
        return self.V

    @property
    def gap(self) -> float:
        """Absolute duality gap, ``objective - lower_bound``."""
        return self.objective - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """Gap as a share of the objective, between 0 and 1."""
        return relative(self.gap, self.objective)

    def predict(self, X: Any) -> FloatArray:
        """Return the relaxation's predictions :math:`2 x_i^T Z x_i`, shape (n,), for data of shape (n, D)."""
        return quadratic_values(check_matrix("X", X, n_columns=self.problem.dimension), 2.0 * self.Z)

    def __repr__(self) -> str:
        return (
            f"Relaxation(objective={self.objective:.6g}, lower_bound={self.lower_bound:.6g}, "
            f"relative_gap={self.relative_gap:.2g}, rho={self.rho:.6g}, status={self.status!r}, "
            f"solver={self.solver!r}, solve_time={self.solve_time:.3g})"
        )


def relative(gap: float, objective: float) -> float:
    """Return ``gap / objective``, and 0 where both vanish."""
    return gap / abs(objective) if objective else 0.0


def finish(
    problem: TrainingProblem, raw: RawSolution, *, solver: str, tol: float, regularization: str = "tight"
) -> Relaxation:
    """Repair the solver's point for ``problem.normalised()`` and recompute everything from the data.

    Parameters
    ----------
    problem : TrainingProblem
        The problem in its own units.
    raw : RawSolution
        Candidates in the units of ``problem.normalised()``.
    """
    normal, units = problem.normalised()
    Z, V, rho = repair(normal, raw.Z, raw.V, raw.W, regularization=regularization)
    minus_gradient = -normal.loss.gradient(2.0 * normal.forward(Z), normal.y)
    dual = best_dual_bound(normal, [raw.nu, minus_gradient], [raw.z], regularization=regularization)
    objective = normal.relaxed_objective(Z, rho, regularization=regularization)
    relative_gap = relative(objective - dual.value, objective)
    usable = _is_usable(raw)
    status = "optimal" if relative_gap <= 100 * tol else "inaccurate" if usable else "failed"
    return Relaxation(
        problem=problem,
        Z=read_only(units.weight * Z),
        V=read_only(units.weight * V),
        rho=units.weight * rho,
        objective=units.value * objective,
        lower_bound=units.value * dual.value,
        dual=DualBound(
            units.value * dual.value,
            dual.nu * (units.value / units.prediction),
            dual.z * (units.value / units.weight),
        ),
        status=status,
        solver=solver,
        solver_status=raw.status,
        iterations=raw.iterations,
        residuals=_residuals(raw) if usable else {},
        compile_time=float(raw.timings.get("compile", 0.0)),
        solve_time=float(raw.timings.get("solve", 0.0)),
        regularization=regularization,
        tol=tol,
    )


def _is_usable(raw: RawSolution) -> bool:
    blocks = (raw.Z, raw.V, raw.W)
    return all(block is not None and bool(np.all(np.isfinite(block))) for block in blocks)


def _residuals(raw: RawSolution) -> dict[str, float]:
    assert raw.Z is not None
    K = np.block([[raw.V, raw.Z], [raw.Z.T, raw.W]])
    largest = float(np.abs(K).max()) or 1.0
    lowest = float(np.linalg.eigvalsh(0.5 * (K + K.T))[0])
    diagonal = K.diagonal()
    return {
        "asymmetry": float(np.abs(K - K.T).max()) / largest,
        "negative_eigenvalue": max(0.0, -lowest) / largest,
        "diagonal": float(diagonal.max() - diagonal.min()) / largest,
    }
