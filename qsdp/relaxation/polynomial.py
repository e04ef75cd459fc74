"""The direct relaxation of polynomial-activation networks, (23), with its own feasible point and bound."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from qsdp._utils.gap import Gap
from qsdp._utils.numeric import EPS, ROUNDING
from qsdp._utils.progress import progress
from qsdp._utils.summary import Summarized, Summary, format_numbers, format_seconds, gap_rows
from qsdp._utils.validation import FloatArray, check_choice, check_matrix, check_real, check_verbose, read_only
from qsdp.exceptions import InvalidInputError
from qsdp.forms import FormMap
from qsdp.problem import TrainingProblem, check_problem, quadratic_map
from qsdp.relaxation.formulations import Formulation
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.repair import project_psd

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = [
    "PolynomialRelaxation",
    "binary_coordinates",
    "build_polynomial",
    "polynomial_instance",
    "solve_polynomial_relaxation",
]

_SOLVERS = ("scs", "clarabel")


@dataclass(frozen=True, eq=False, repr=False)
class PolynomialRelaxation(Summarized, Gap):
    r"""A feasible point of (23) and a lower bound that holds for every polynomial network.

    Attributes
    ----------
    problem : TrainingProblem
    Z1, Z2 : ndarray of shape (N, N)
        Positive semidefinite matrices with diagonals `rho1` and `rho2`. In coordinates with several levels, the
        diagonals are at most these.
    rho1, rho2 : float
    objective : float
        Loss of the predictions :math:`\langle \mathcal{X}_i, Z_1 - Z_2 \rangle` plus
        :math:`\beta d M (\rho_1 + \rho_2)`.
    lower_bound : float
        Lower bound on the optimum of (12) over networks :math:`\sum_j \alpha_j \sigma(x^T q_j)` of any width.
    nu : ndarray of shape (n,)
        Dual vector that proves the bound.
    solver, solver_status : str
    solve_time : float
        Solve time in seconds, including compilation.
    """

    problem: TrainingProblem
    Z1: FloatArray
    Z2: FloatArray
    rho1: float
    rho2: float
    objective: float
    lower_bound: float
    nu: FloatArray
    solver: str
    solver_status: str
    solve_time: float

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions of shape (n,) for data of shape (n, d)."""
        X = check_matrix("X", X, n_columns=self.problem.n_features)
        scaled = quadratic_map((self.problem.levels - 1.0) * X, self.problem.activation)
        return scaled.forward(self.Z1 - self.Z2)

    def __repr__(self) -> str:
        return (
            f"PolynomialRelaxation(objective={self.objective:.6g}, lower_bound={self.lower_bound:.6g}, "
            f"relative_gap={self.relative_gap:.2g}, rho1={self.rho1:.6g}, rho2={self.rho2:.6g}, "
            f"solver={self.solver!r}, solve_time={self.solve_time:.3g})"
        )

    def _summary(self) -> Summary:
        rows = [
            *gap_rows(self, "of the relaxed point"),
            ("solver", f"{self.solver} ({self.solver_status}), {format_seconds(self.solve_time)}"),
            ("rho", format_numbers([self.rho1, self.rho2])),
        ]
        return Summary("PolynomialRelaxation", rows)


def build_polynomial(problem: TrainingProblem) -> Formulation:
    r"""Build the relaxation (23) for the activation of `problem`, or for :math:`\sigma(t) = t^2` if it is None.

    .. math::

        \min_{Z_1, Z_2 \succeq 0,\, \rho_1, \rho_2}\; \ell(\hat y, y) + \beta d M (\rho_1 + \rho_2)
        \quad\text{s.t.}\quad \hat y_i = \langle \mathcal{X}_i, Z_1 - Z_2 \rangle,\;
        Z_{1,jj} = \rho_1,\; Z_{2,jj} = \rho_2

    Its optimal value is a lower bound on the optimum of (12) over networks :math:`\sum_j \alpha_j \sigma(x^T q_j)`.
    For M + 1 > 2 levels (on columns scaled by M), the diagonals are at most rho, except in the last coordinate of a
    lift, because replicas of a coordinate that disagree lower its entry.

    Parameters
    ----------
    problem : TrainingProblem
        Problem with a scalar target.

    Returns
    -------
    Formulation
        Relaxation with variables ``Z1``, ``Z2``, ``rho1``, ``rho2`` and ``yhat``.

    Notes
    -----
    This is equation (23) of Bartan and Pilanci, which is correct as printed. Here, equality on the diagonals matters.
    """
    _check_scalar(problem)
    program = _build(polynomial_instance(problem), binary_coordinates(problem))
    return Formulation(program, dict(program.var_dict), "polynomial")


def solve_polynomial_relaxation(
    problem: TrainingProblem, solver: str = "scs", tol: float = 1e-6, *, verbose: bool | int = False
) -> PolynomialRelaxation:
    r"""Solve (23), repair the solution, and recompute objective and lower bound from the data.

    Parameters
    ----------
    problem : TrainingProblem
        Problem with a scalar target.
    solver : {"scs", "clarabel"}, default="scs"
    tol : float, default=1e-6
        Accuracy of the solver.
    verbose : bool or int, default=False
        Show that it is running, and the elapsed time, on standard error or in the notebook.

    Returns
    -------
    PolynomialRelaxation

    Notes
    -----
    For any :math:`\nu`, vectors z with :math:`\pm M_\nu \preceq \mathrm{Diag}(z^\pm)` imply
    :math:`\max_q |\sum_i \nu_i \sigma(x_i^T q)| \le \max_\pm \sum_j z_j^\pm` (for several levels with z >= 0).
    For the bound, :math:`\nu` is scaled until that is at most :math:`\beta d M`; see sections 3 and A.1 of Bartan and
    Pilanci. The bound does not rely on the solver.
    """
    _check_scalar(problem)
    check_choice("solver", solver, _SOLVERS)
    tol = check_real("tol", tol, strict=True)
    with progress(check_verbose(verbose)) as stages, stages.stage("solve"):
        return _solved(problem, solver, tol)


def _solved(problem: TrainingProblem, solver: str, tol: float) -> PolynomialRelaxation:
    """Solve like `solve_polynomial_relaxation`, for checked arguments."""
    start = time.perf_counter()
    instance, units = polynomial_instance(problem).normalised()
    binary = binary_coordinates(problem)
    program = _build(instance, binary)
    if _bound(instance, binary, [instance.zero_dual], [])[0] >= (1.0 - ROUNDING) * instance.fit.value_at_zero:
        solver, status = "none", "not needed"
    else:
        status = _run(program, solver, tol)
    values = {name: variable.value for name, variable in program.var_dict.items()}
    (Z1, rho1), (Z2, rho2) = (_repair(values[name], instance.size, binary) for name in ("Z1", "Z2"))
    prediction = instance.map.forward(Z1 - Z2)[:, None]
    objective = instance.fit.value(prediction) + instance.penalty * (rho1 + rho2)
    gradient = instance.fit.gradient(prediction)
    shifts = [shift for shift in _multipliers(program, binary) if np.all(np.isfinite(shift))]
    bound, nu = _bound(instance, binary, [_column(program.constraints[0].dual_value), -gradient], shifts)
    return PolynomialRelaxation(
        problem=problem,
        Z1=read_only(units.weight * Z1),
        Z2=read_only(units.weight * Z2),
        rho1=units.weight * rho1,
        rho2=units.weight * rho2,
        objective=units.value * objective,
        lower_bound=units.value * bound,
        nu=read_only(nu[:, 0] * (units.value / units.prediction)),
        solver=solver,
        solver_status=status,
        solve_time=time.perf_counter() - start,
    )


def _run(program: cp.Problem, solver: str, tol: float) -> str:
    """Solve the program and return the solver's status."""
    import cvxpy as cp

    options = {"eps_abs": tol, "eps_rel": tol, "max_iters": 20_000} if solver == "scs" else {"tol_gap_rel": tol}
    try:
        with warnings.catch_warnings():
            # The caller measures the accuracy.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            program.solve(solver=solver.upper(), **options)
    except cp.SolverError as error:
        return f"failed: {str(error).splitlines()[0]}"
    return str(program.status)


def _check_scalar(problem: TrainingProblem) -> None:
    check_problem(problem)
    if problem.blocks is not None:
        raise InvalidInputError("problem must have data of columns for the polynomial relaxation; got blocks")
    if not problem.scalar:
        raise InvalidInputError(
            f"problem must have a scalar target for the polynomial relaxation; got {problem.n_outputs} outputs, "
            "take them one by one with problem.output(k)"
        )


def polynomial_instance(problem: TrainingProblem) -> Instance:
    """Return the map, the loss and the penalty of each rho of (23)."""
    weight = problem.beta * (problem.n_features * (problem.levels - 1))
    return Instance(problem.map, problem.data_fit, weight)


def binary_coordinates(problem: TrainingProblem) -> npt.NDArray[np.bool_]:
    """Return which coordinates have exactly rho on the diagonal: all with two levels, and the last one of a lift."""
    binary = np.full(problem.size, problem.levels == 2)
    binary[problem.n_features :] = True
    return binary


def _build(instance: Instance, binary: npt.NDArray[np.bool_]) -> cp.Problem:
    import cvxpy as cp

    N = instance.size
    Z1, Z2 = (cp.Variable((N, N), PSD=True, name=name) for name in ("Z1", "Z2"))
    rho1, rho2 = cp.Variable(name="rho1"), cp.Variable(name="rho2")
    yhat = cp.Variable(len(instance.target), name="yhat")
    objective = instance.fit.expression(cp.reshape(yhat, instance.target.shape, order="C")) + instance.penalty * (
        rho1 + rho2
    )
    constraints = [yhat == instance.map.expression(Z1 - Z2)]
    # Coordinates whose diagonal is at most rho come first, see `binary_coordinates`.
    start = int(np.sum(~binary))
    for Z, rho in ((Z1, rho1), (Z2, rho2)):
        constraints += [cp.diag(Z)[start:] == rho] if start < N else []
        constraints += [cp.diag(Z)[:start] <= rho] if start else []
    return cp.Problem(cp.Minimize(objective), constraints)


def _multipliers(program: cp.Problem, binary: npt.NDArray[np.bool_]) -> list[FloatArray]:
    """Return candidates of shape (N,) for the shifts of both diagonals, from the solver's multipliers."""
    duals = [constraint.dual_value for constraint in program.constraints[1:]]
    if any(dual is None for dual in duals):
        return []
    groups = [mask for mask in (binary, ~binary) if mask.any()]
    shifts = []
    for half in (duals[: len(groups)], duals[len(groups) :]):
        # The solver's convention decides the sign of an equation's multiplier, but not of an inequality's.
        for sign in (1.0, -1.0):
            shift = np.zeros(len(binary))
            for mask, dual in zip(groups, half, strict=True):
                shift[mask] = np.ravel(dual) * (sign if mask is binary else 1.0)
            shifts.append(shift)
    return shifts


def _column(values: FloatArray | None) -> FloatArray | None:
    # CVXPY returns a number if a constraint has one row.
    return None if values is None else np.reshape(values, (-1, 1))


def _repair(Z: FloatArray | None, size: int, binary: npt.NDArray[np.bool_]) -> tuple[FloatArray, float]:
    if Z is None or np.shape(Z) != (size, size) or not np.all(np.isfinite(Z)):
        return np.zeros((size, size)), 0.0
    repaired = project_psd(0.5 * (Z + Z.T)).copy()
    diagonal = repaired.diagonal().copy()
    rho = float(diagonal.max())
    np.fill_diagonal(repaired, np.where(binary, rho, diagonal))
    return repaired, rho


def _bound(
    instance: Instance,
    binary: npt.NDArray[np.bool_],
    duals: list[FloatArray | None],
    shifts: list[FloatArray],
) -> tuple[float, FloatArray]:
    """Return the best bound that the candidates prove, and its dual vector."""
    best, proof = 0.0, np.zeros_like(instance.target)
    rounding = EPS * (instance.target.size + 10.0 * instance.size)
    for candidate in duals:
        if candidate is None or np.shape(candidate) != instance.target.shape or not np.all(np.isfinite(candidate)):
            continue
        nu = instance.fit.project(candidate)
        M = instance.map.adjoint(nu[:, 0])
        slack = rounding * float(np.abs(nu[:, 0]) @ instance.map.row_bounds(np.ones(instance.size)))
        if isinstance(instance.map, FormMap):
            slack += float(instance.map.pricing_losses(nu)[0])
        tau = max(_largest(sign * M, binary, shifts, slack) for sign in (1.0, -1.0))
        limit = instance.penalty / tau if tau > 0.0 else np.inf
        for scale in {min(1.0, limit), min(limit, 1.0) * 0.999}:
            value = instance.guarded_dual_value(scale * nu)
            if value > best:
                best, proof = value, scale * nu
    return best, proof


def _largest(M: FloatArray, binary: npt.NDArray[np.bool_], shifts: list[FloatArray], slack: float) -> float:
    """Return the best upper bound on ``u' M u`` over the coordinates' values that the candidate shifts give."""
    rows = np.abs(M).sum(axis=1)
    candidates = [np.zeros(len(M)), rows, *shifts]
    bounds = []
    for candidate in candidates:
        z = candidate if binary.all() else np.where(binary, candidate, np.maximum(candidate, 0.0))
        top = float(scipy.linalg.eigvalsh(M - np.diag(z), subset_by_index=[len(M) - 1] * 2)[0])
        # Large shifts cancel against the eigenvalue and leave their rounding behind.
        top += slack + 20.0 * len(M) * EPS * (float(np.abs(z).max()) + float(rows.max()))
        # A negative top may be subtracted only if the whole diagonal is exact.
        z = z + (top if binary.all() else max(top, 0.0))
        bounds.append(float(z.sum()))
    return min(bounds)
