"""The direct relaxation (23) of polynomial-activation networks, with a feasible point and a lower bound."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from qsdp._utils.gap import Gap
from qsdp._utils.numeric import EPS, ROUNDING
from qsdp._utils.outputs import squeezed
from qsdp._utils.progress import progress
from qsdp._utils.summary import Summarized, Summary, first_few, format_numbers, format_seconds, gap_rows
from qsdp._utils.tuning import MANY_STEPS, SMALL
from qsdp._utils.validation import FloatArray, check_choice, check_matrix, check_real, check_verbose, read_only
from qsdp.exceptions import InvalidInputError
from qsdp.problem import TrainingProblem, check_problem
from qsdp.relaxation.conic_program import ConicProgram
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.repair import project_psd
from qsdp.training_data import quadratic_map

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = [
    "PolynomialRelaxation",
    "binary_coordinates",
    "conic_program_of_polynomials",
    "polynomial_instance",
    "solve_polynomial_relaxation",
]

_SOLVERS = ("scs", "clarabel")

#: Status of a problem that is solved by zero.
_NEEDLESS = "not needed"


@dataclass(frozen=True, eq=False, repr=False)
class PolynomialRelaxation(Summarized, Gap):
    r"""A feasible point of (23) and a lower bound that holds for every polynomial network.

    Attributes
    ----------
    problem : TrainingProblem
    Z1, Z2 : ndarray of shape (N, N), or (C, N, N) for vector outputs
        Positive semidefinite matrices with diagonals `rho1` and `rho2`. In coordinates with several levels, the
        diagonals are at most these.
    rho1, rho2 : float, or ndarray of shape (C,)
    objective : float
        Loss of the predictions :math:`\langle \mathcal{X}_i, Z_1 - Z_2 \rangle` plus
        :math:`\beta d M (\rho_1 + \rho_2)`, summed over outputs.
    lower_bound : float
        Lower bound on the optimum of (12) over networks :math:`\sum_j \alpha_j \sigma(x^T q_j)` of any width.
    nu : ndarray of shape (n,) or (n, C)
        Dual vector that proves the bound.
    solver, solver_status : str
    solve_time : float
        Solve time in seconds, including compilation.
    """

    problem: TrainingProblem
    Z1: FloatArray
    Z2: FloatArray
    rho1: Any
    rho2: Any
    objective: float
    lower_bound: float
    nu: FloatArray
    solver: str
    solver_status: str
    solve_time: float

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions of shape (n,) or (n, C) for data of shape (n, d)."""
        X = check_matrix("X", X, n_columns=self.problem.n_features)
        scaled = quadratic_map((self.problem.levels - 1.0) * X, self.problem.activation)
        N = self.problem.size
        return self.problem.squeezed(scaled.forwards((self.Z1 - self.Z2).reshape(-1, N, N)))

    def __repr__(self) -> str:
        return (
            f"PolynomialRelaxation(objective={self.objective:.6g}, lower_bound={self.lower_bound:.6g}, "
            f"relative_gap={self.relative_gap:.2g}, rho1={self._text(self.rho1)}, rho2={self._text(self.rho2)}, "
            f"solver={self.solver!r}, solve_time={self.solve_time:.3g})"
        )

    def _text(self, rho: Any) -> str:
        return f"{rho:.6g}" if self.problem.scalar else f"[{first_few([f'{one:.3g}' for one in rho])}]"

    def _summary(self) -> Summary:
        rows = [
            *gap_rows(self, "of the relaxed point"),
            ("solver", f"{self.solver} ({self.solver_status}), {format_seconds(self.solve_time)}"),
            ("rho", format_numbers([*np.ravel(self.rho1).tolist(), *np.ravel(self.rho2).tolist()])),
        ]
        return Summary("PolynomialRelaxation", rows)


def solve_polynomial_relaxation(
    problem: TrainingProblem, solver: str = "scs", tol: float = 1e-6, *, verbose: bool | int = False
) -> PolynomialRelaxation:
    r"""Solve (23), repair the solution, and recompute objective and lower bound from the data.

    Parameters
    ----------
    problem : TrainingProblem
        Problem with data of columns. Outputs that the loss does not couple are solved one by one.
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
    _check(problem)
    check_choice("solver", solver, _SOLVERS)
    tol = check_real("tol", tol, strict=True)
    with progress(check_verbose(verbose)) as stages, stages.stage("solve"):
        return _solved(problem, solver, tol)


class _PartSolution(NamedTuple):
    """Feasible point and bound of one instance, in its units: stacks over its outputs."""

    matrices: FloatArray
    rhos: FloatArray
    objective: float
    bound: float
    nu: FloatArray
    status: str


def _solved(problem: TrainingProblem, solver: str, tol: float) -> PolynomialRelaxation:
    """Solve like `solve_polynomial_relaxation`, for checked arguments."""
    start = time.perf_counter()
    instance, units = polynomial_instance(problem).normalised()
    points = [_solved_part(part, binary_coordinates(problem), solver, tol) for part in instance.parts]
    matrices = units.weight * np.concatenate([point.matrices for point in points], axis=1)
    rhos = units.weight * np.concatenate([point.rhos for point in points], axis=1)
    nu = np.concatenate([point.nu for point in points], axis=1) * (units.value / units.prediction)
    statuses = sorted({point.status for point in points})
    Z1, Z2, rho1, rho2 = (squeezed(one, problem.output_shape) for one in (*matrices, *rhos))
    return PolynomialRelaxation(
        problem=problem,
        Z1=read_only(Z1),
        Z2=read_only(Z2),
        rho1=read_only(rho1) if problem.output_shape else float(rho1),
        rho2=read_only(rho2) if problem.output_shape else float(rho2),
        objective=units.value * sum(point.objective for point in points),
        lower_bound=units.value * sum(point.bound for point in points),
        nu=read_only(problem.squeezed(nu)),
        solver="none" if statuses == [_NEEDLESS] else solver,
        solver_status=", ".join(statuses),
        solve_time=time.perf_counter() - start,
    )


def _solved_part(instance: Instance, binary: npt.NDArray[np.bool_], solver: str, tol: float) -> _PartSolution:
    """Solve, repair and bound an instance whose outputs do not fall apart."""
    built = conic_program_of_polynomials(instance, binary)
    if _bound(instance, binary, [instance.zero_dual], [])[0] >= (1.0 - ROUNDING) * instance.fit.value_at_zero:
        status = _NEEDLESS
    else:
        status = _run(built.problem, solver, tol)
    C, N = instance.n_matrices, instance.size
    matrices, rhos = np.zeros((2, C, N, N)), np.zeros((2, C))
    for k, part in enumerate(built.parts):
        for side, Z in enumerate(part):
            matrices[side, k], rhos[side, k] = _repair(Z.value, N, binary)
    prediction = instance.map.forwards(matrices[0] - matrices[1])
    objective = instance.fit.value(prediction) + instance.penalty * float(rhos.sum())
    gradient = instance.fit.gradient(prediction)
    multipliers = [constraint.dual_value for constraint in built.fits]
    missing = any(column is None for column in multipliers)
    nu = None if missing else np.stack([np.ravel(column) for column in multipliers], axis=1)
    shifts = [shift for shift in _multipliers(built, binary) if np.all(np.isfinite(shift))]
    bound, proof = _bound(instance, binary, [nu, -gradient], shifts)
    return _PartSolution(matrices, rhos, objective, bound, proof, status)


def _run(program: cp.Problem, solver: str, tol: float) -> str:
    """Solve the CVXPY problem in place and return the solver's status."""
    import cvxpy as cp

    options = {"eps_abs": tol, "eps_rel": tol, "max_iters": MANY_STEPS} if solver == "scs" else {"tol_gap_rel": tol}
    try:
        with warnings.catch_warnings():
            # The caller measures the accuracy.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            program.solve(solver=solver.upper(), **options)
    except cp.SolverError as error:
        return f"failed: {str(error).splitlines()[0]}"
    return str(program.status)


def _check(problem: TrainingProblem) -> None:
    check_problem(problem)
    if problem.blocks is not None:
        raise InvalidInputError("problem must have data of columns for the polynomial relaxation; got blocks")


def polynomial_instance(problem: TrainingProblem) -> Instance:
    """Build the instance of (23): the data map, the loss and the penalty on each rho."""
    weight = problem.beta * (problem.n_features * (problem.levels - 1))
    return Instance(problem.map, problem.data_fit, weight)


def binary_coordinates(problem: TrainingProblem) -> npt.NDArray[np.bool_]:
    """Return a mask of the coordinates whose diagonal equals rho: all with two levels, and the last one of a lift."""
    binary = np.full(problem.size, problem.levels == 2)
    binary[problem.n_features :] = True
    return binary


def conic_program_of_polynomials(instance: Instance, binary: npt.NDArray[np.bool_]) -> ConicProgram:
    """Build (23) for an instance of `polynomial_instance`."""
    import cvxpy as cp

    (n, C), N = instance.target.shape, instance.size
    yhat = cp.Variable((n, C) if C > 1 else n, name="yhat")
    rhos = [cp.Variable(C, name=name) if C > 1 else cp.Variable(name=name) for name in ("rho1", "rho2")]
    variables = {"yhat": yhat, **{rho.name(): rho for rho in rhos}}
    # Coordinates whose diagonal is at most rho come first, see `binary_coordinates`.
    start = int(np.sum(~binary))
    fits, parts, diagonals = [], [], []
    for k in range(C):
        suffix = f"_{k}" if C > 1 else ""
        matrices = tuple(cp.Variable((N, N), PSD=True, name=f"{name}{suffix}") for name in ("Z1", "Z2"))
        variables |= {Z.name(): Z for Z in matrices}
        parts.append(matrices)
        fits.append((yhat[:, k] if C > 1 else yhat) == instance.map.expression(matrices[0] - matrices[1]))
        for Z, rho in zip(matrices, rhos, strict=True):
            radius = rho[k] if C > 1 else rho
            diagonals += [cp.diag(Z)[start:] == radius] if start < N else []
            diagonals += [cp.diag(Z)[:start] <= radius] if start else []
    loss = instance.fit.expression(cp.reshape(yhat, (n, C), order="C"))
    objective = loss + instance.penalty * (cp.sum(rhos[0]) + cp.sum(rhos[1]))
    program = cp.Problem(cp.Minimize(objective), [*fits, *diagonals])
    return ConicProgram(program, variables, fits, parts, diagonals)


def _multipliers(built: ConicProgram, binary: npt.NDArray[np.bool_]) -> list[FloatArray]:
    """Extract candidates of shape (N,) for the shifts of the diagonals, from the solver's multipliers."""
    duals = [constraint.dual_value for constraint in built.diagonals]
    if any(dual is None for dual in duals):
        return []
    groups = [mask for mask in (binary, ~binary) if mask.any()]
    shifts = []
    for first in range(0, len(duals), len(groups)):
        # The solver's convention decides the sign of an equation's multiplier, but not of an inequality's.
        for sign in (1.0, -1.0):
            shift = np.zeros(len(binary))
            for mask, dual in zip(groups, duals[first : first + len(groups)], strict=True):
                shift[mask] = np.ravel(dual) * (sign if mask is binary else 1.0)
            shifts.append(shift)
    return shifts


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
    """Compute the best bound that the candidates prove, and its dual vector."""
    best, proof = 0.0, np.zeros_like(instance.target)
    rounding = EPS * (instance.target.size + 10.0 * instance.size)
    for candidate in duals:
        if candidate is None or np.shape(candidate) != instance.target.shape or not np.all(np.isfinite(candidate)):
            continue
        nu = instance.fit.project(candidate)
        sizes = np.abs(nu).T @ instance.map.row_bounds(np.ones(instance.size))
        slacks = rounding * sizes + instance.map.pricing_losses(nu)
        tau = max(
            _largest(sign * M, binary, shifts, float(slack))
            for M, slack in zip(instance.adjoints(nu), slacks, strict=True)
            for sign in (1.0, -1.0)
        )
        limit = instance.penalty / tau if tau > 0.0 else np.inf
        for scale in {min(1.0, limit), min(limit, 1.0) * (1.0 - SMALL)}:
            value = instance.guarded_dual_value(scale * nu)
            if value > best:
                best, proof = value, scale * nu
    return best, proof


def _largest(M: FloatArray, binary: npt.NDArray[np.bool_], shifts: list[FloatArray], slack: float) -> float:
    """Bound ``u' M u`` from above over all allowed u, by the best of the candidate diagonal shifts."""
    rows = np.abs(M).sum(axis=1)
    candidates = [np.zeros(len(M)), rows, *shifts]
    bounds = []
    for candidate in candidates:
        z = candidate if binary.all() else np.where(binary, candidate, np.maximum(candidate, 0.0))
        top = float(scipy.linalg.eigvalsh(M - np.diag(z), subset_by_index=[len(M) - 1] * 2)[0])
        # Large shifts cancel against the eigenvalue and leave their rounding behind.
        top += slack + 20.0 * len(M) * EPS * (float(np.abs(z).max()) + float(rows.max()))
        # A negative largest eigenvalue may be subtracted only if the whole diagonal is exact.
        z = z + (top if binary.all() else max(top, 0.0))
        bounds.append(float(z.sum()))
    return min(bounds)
