r"""Every program of the paper as a CVXPY problem, as printed, and what the paper makes of their solutions.

Numbers in parentheses are those of equations in M. Bartan and M. Pilanci, "Training Quantized Neural Networks to Global
Optimality via Semidefinite Programming" (2021). Programs are stated for data of columns in the notation of
`qsdp.TrainingProblem`: :math:`\mathcal{X}_i` is the data matrix of sample i (:math:`x_i x_i^T` without an activation),
N its side, and D the number of binary weights on one side of a neuron; :math:`N = D = d` for two levels and no
activation. Constants are the printed ones. Three of them are half of what they could be; where that matters, the
docstring says so, and :func:`qsdp.solve_relaxation` has the corrected constant.

=============================== =======================================================
:func:`full_program`            (25), the relaxation of networks with one output
:func:`vector_output_program`   (67), the relaxation of networks with several outputs
:func:`two_block_program`       the same with the corrected constant, in half the size
:func:`polynomial_program`      (23), the relaxation of networks :math:`\sigma(x^T q)`
:func:`dual_program`            (52) and (64), the duals of (25) and (67)
:func:`polynomial_dual_program` (20), the dual of (23)
:func:`shaping_program`         (27) and (68), covariance shaping
:func:`solve_shaping`           its solution by a solver
:func:`shape`                   Theorem 2 in closed form, for any Z, V and W
:func:`algorithm_1`             Algorithm 1, and B.1 for several outputs
:func:`neurons_needed`          Theorem 3 with its constants
=============================== =======================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import ROUNDING
from qsdp._utils.outputs import squeezed
from qsdp._utils.summary import Summarized, Summary, first_few
from qsdp._utils.symmetric import positive_part, symmetric_part
from qsdp._utils.validation import FloatArray, RandomState, check_choice, check_matrix, check_real
from qsdp.activations import PolynomialActivation
from qsdp.data_map import COLUMNS, SAMPLES, require
from qsdp.exceptions import InvalidInputError, InvalidTypeError, SolverError
from qsdp.lifting import QuadraticMap
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem, check_problem
from qsdp.relaxation import Relaxation
from qsdp.relaxation.backends import CONIC_BACKENDS, Settings, check_solver, run_conic
from qsdp.relaxation.backends.conic import ConicProgram, two_block
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import ScaledProblem
from qsdp.relaxation.solution import CHANGED, PRINTED, finish
from qsdp.sampling import sample_network
from qsdp.shaping import GAMMA, SignCovariance, measured_covariance, scaled_block, shape_covariance

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = [
    "Algorithm1",
    "Program",
    "algorithm_1",
    "dual_program",
    "full_program",
    "neurons_needed",
    "polynomial_dual_program",
    "polynomial_program",
    "shape",
    "shaping_program",
    "solve_shaping",
    "two_block_program",
    "vector_output_program",
]

#: Relative difference up to which CVXPY's value of an objective is the one that its solver returned.
_SAME_VALUE = 1e-6

#: Error of a solver that is allowed in the matrices of a user, relative to their largest entry.
_ACCURACY = 1e-5

#: Accuracy to which Algorithm 1 solves (25), as `qsdp.solve_relaxation` does by default.
_TOLERANCE = 1e-6

_SOLVERS = [backend.name for backend in CONIC_BACKENDS]


@dataclass(frozen=True, eq=False, repr=False)
class Program(ConicProgram, Summarized):
    """Program of the paper as a CVXPY problem, which can be printed, changed and passed to any solver.

    Attributes
    ----------
    problem : cvxpy.Problem
        Objective and constraints; ``problem.solve(solver=...)`` solves it. Constants print as their names.
    variables : dict of str to cvxpy.Variable
        Variables by name. With several outputs, their matrices are numbered.
    fits, parts, diagonals : list
        Of a relaxation of bilinear networks, for every output: the constraint on its predictions, the expressions Z, V
        and W, and the constraint on their diagonals.
    name : str
        What the program is, with the number of its equation.
    training_problem : TrainingProblem or None
        The problem of which the program is a relaxation with variables Z, V and W, for `relaxation`.
    """

    name: str = ""
    training_problem: TrainingProblem | None = None

    def relaxation(self, tol: float = 1e-6) -> Relaxation:
        """Repair the variables' values to a feasible point of the relaxation, and bound the training problem.

        The variables may have been solved for in another CVXPY problem, with other constraints or another objective:
        the point is their solution, up to a repair of any infeasibility that the solver left. Z is averaged with its
        transpose and V with W, which changes no prediction. Objective and bound are recomputed from the data. They are
        those of the training problem with the corrected constant, not of a changed program or of one with a smaller
        constant, so the gap shows how far the point is from the optimum. The point can be shaped, sampled and
        certified.

        Parameters
        ----------
        tol : float, default=1e-6
            Relative gap up to which the status is "optimal". For a changed program and for (25) and (67), the gap says
            nothing about the solver's accuracy, and the status is "optimal" if the point violates the constraints by
            at most 100 times this, relative to its largest entry; ask the program for the status of its solver.

        Returns
        -------
        Relaxation
            Its `solver_status` and `repr` say whether the program was changed, that is, whether the values of the
            variables are not those of the last solve of `problem`.

        Raises
        ------
        InvalidInputError
            The variables have no values yet, or the program has no matrices Z, V and W.
        """
        if self.training_problem is None:
            raise InvalidInputError(
                "relaxation() needs the matrices Z, V and W of full_program, vector_output_program or "
                f"two_block_program; this program is the {self.name}"
            )
        (Z, V, W), (nu, z) = self.matrices(), self.duals()
        if Z is None or V is None or W is None:
            raise InvalidInputError("the variables have no values: solve a CVXPY problem that has them first")
        scaled = ScaledProblem.from_problem(self.training_problem)
        nu = np.zeros((self.training_problem.n_samples, self.training_problem.n_outputs)) if nu is None else nu
        z = np.ones(Z.shape[:2]) if z is None else z
        raw = scaled.inside(0.5 * (Z + Z.transpose(0, 2, 1)), 0.5 * (V + W), nu, z, self.weights())
        tol, corrected = check_real("tol", tol, strict=True), self.name == _CORRECTED
        status = CHANGED if self._changed() else "point of a CVXPY problem" if corrected else PRINTED
        relaxation = finish(scaled, replace(raw, status=status), solver="cvxpy", tol=tol, stretch=False)
        if status not in {CHANGED, PRINTED} or relaxation.status == "failed":
            return relaxation
        accurate = max(relaxation.residuals.values(), default=0.0) <= 100.0 * tol
        return replace(relaxation, status="optimal" if accurate else "inaccurate")

    def _changed(self) -> bool:
        """Return whether the variables were last solved for in another program."""
        before, now = self.problem.value, self.problem.objective.value
        return before is None or not np.isclose(before, now, rtol=_SAME_VALUE, atol=0.0)

    def __repr__(self) -> str:
        return f"Program({self.name}; variables {', '.join(self.variables)})"

    def __str__(self) -> str:
        return self._summary().text()

    def _summary(self) -> Summary:
        sizes = {name: " x ".join(map(str, variable.shape)) or "1" for name, variable in self.variables.items()}
        rows = [
            ("program", self.name),
            ("variables", f"{first_few([f'{name} ({size})' for name, size in sizes.items()])}"),
            ("constraints", f"{self.problem.size_metrics.num_scalar_eq_constr:,} equations; {self._cones()}"),
            ("solve", 'problem.solve(solver="SCS"), or another solver of semidefinite programs'),
            ("write out", "print(program.problem)"),
        ]
        return Summary("Program", rows)

    def _cones(self) -> str:
        """Describe the number and the sides of the semidefinite matrices."""
        import cvxpy as cp

        variables = [variable for variable in self.variables.values() if variable.attributes["PSD"]]
        cones = [constraint for constraint in self.problem.constraints if isinstance(constraint, cp.PSD)]
        sides = [matrix.shape[0] for matrix in [*variables, *cones]]
        shown = " or ".join(f"{side} x {side}" for side in sorted(set(sides)))
        return f"{len(sides)} positive semidefinite {'matrix' if len(sides) == 1 else 'matrices'} {shown}"


#: Name of the program with the corrected constant.
_CORRECTED = "relaxation with two cones, V + Z and V - Z"


# -- relaxations of bilinear networks ------------------------------------------------------------------------


def full_program(problem: TrainingProblem) -> Program:
    r"""Build (25), the relaxation of networks with one output, as printed.

    .. math::

        \min_{Q, \rho}\; \ell(\hat y, y) + \beta D \rho \quad\text{s.t.}\quad
        \hat y_i = 2 \langle \mathcal{X}_i, Z \rangle,\; Q_{jj} = \rho,\;
        Q = \begin{bmatrix} V & Z \\ Z^T & W \end{bmatrix} \succeq 0

    Parameters
    ----------
    problem : TrainingProblem
        Problem with targets of shape (n,) and data of columns.

    Returns
    -------
    Program
        Variables ``Q`` of shape (2N, 2N), ``rho`` and ``yhat`` of shape (n,).

    Raises
    ------
    InvalidInputError
        The problem has several outputs or blocks.

    Notes
    -----
    A slip in (51) halves the regulariser, which is :math:`2 \beta D \rho` in the best lower bound: the optimal value
    printed for beta is that of :func:`qsdp.solve_relaxation` for ``beta / 2``. For M + 1 > 2 levels, the columns are
    multiplied by M in place of being repeated M times (Theorem 1), which has the same optimum.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> problem = qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.1)
    >>> program = qsdp.paper.full_program(problem)
    >>> sorted(program.variables)
    ['Q', 'rho', 'yhat']
    >>> value = program.problem.solve(solver="CLARABEL")
    >>> half = qsdp.solve_relaxation(problem.with_beta(0.05))
    >>> bool(np.isclose(value, half.objective, rtol=1e-5))
    True
    """
    check_problem(problem)
    if not problem.scalar:
        raise InvalidInputError(f"y must have shape (n,) for (25); got {problem.y.shape}: use vector_output_program")
    return _printed(problem, "relaxation (25) with one cone")


def vector_output_program(problem: TrainingProblem) -> Program:
    r"""Build (67), the relaxation of networks (57) with C outputs, as printed.

    .. math::

        \min_{Q_k, \rho_k}\; \ell(\hat Y, Y) + \beta D \sum_k \rho_k \quad\text{s.t.}\quad
        \hat Y_{ik} = 2 \langle \mathcal{X}_i, Z_k \rangle,\; Q_{k,jj} = \rho_k,\;
        Q_k = \begin{bmatrix} V_k & Z_k \\ Z_k^T & W_k \end{bmatrix} \succeq 0

    Networks (57) have second-layer weights :math:`\alpha_j` in :math:`\mathbb{R}^C` and the regulariser
    :math:`\beta D \sum_j \|\alpha_j\|_1`.

    Parameters
    ----------
    problem : TrainingProblem
        Problem with targets of shape (n, C), or classes, and data of columns.

    Returns
    -------
    Program
        Variables ``Q0``, ``Q1``, ... of shape (2N, 2N), ``rho`` of shape (C,) and ``yhat`` of shape (n, C).

    Raises
    ------
    InvalidInputError
        The problem has targets of shape (n,) or blocks.

    Notes
    -----
    The regulariser is half of the best, as in :func:`full_program`.
    """
    check_problem(problem)
    if problem.scalar:
        raise InvalidInputError(f"y must have shape (n, C) for (67); got {problem.y.shape}: use full_program")
    return _printed(problem, "relaxation (67) with one cone for each output")


def two_block_program(problem: TrainingProblem) -> Program:
    r"""Build the relaxation with the corrected regulariser and two matrices of half the size for each output.

    .. math::

        \min_{V, Z, \rho}\; \ell(\hat y, y) + 2 \beta D \rho \quad\text{s.t.}\quad
        \hat y_i = 2 \langle \mathcal{X}_i, Z \rangle,\; V_{jj} = \rho,\; V + Z \succeq 0,\; V - Z \succeq 0

    The data matrices are symmetric, so (25) has an optimum with Z = Z' and V = W. The matrix of (25) is then
    positive semidefinite exactly when V + Z and V - Z are, which takes about a quarter of the work. This is the program
    that the solvers "scs", "clarabel" and "mosek" of :func:`qsdp.solve_relaxation` solve.

    Parameters
    ----------
    problem : TrainingProblem
        With blocks, there are matrices and a rho for each output and block; those of block r are multiplied by
        :math:`\omega_r D_r`, and D is one.

    Returns
    -------
    Program
        Variables ``V``, ``Z`` (symmetric), ``rho`` and ``yhat``; with several outputs ``V0``, ``V1``, ..., with blocks
        ``V_0``, ``V_1``, ..., or ``V0_0``, ``V0_1``, ... for blocks of several outputs. The real weights of blocks,
        times their prices, are ``weights``, or ``weights0``, ``weights1``, ...

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> problem = qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.1)
    >>> program = qsdp.paper.two_block_program(problem)
    >>> value = program.problem.solve(solver="CLARABEL")
    >>> bool(np.isclose(value, qsdp.solve_relaxation(problem).objective, rtol=1e-5))
    True
    """
    check_problem(problem)
    built = two_block(Instance.from_problem(problem))
    parts = (built.fits, built.parts, built.diagonals)
    return Program(built.problem, built.variables, *parts, built.real, name=_CORRECTED, training_problem=problem)


def _printed(problem: TrainingProblem, name: str) -> Program:
    _check_columns(problem)
    import cvxpy as cp

    instance = Instance.from_problem(problem)
    (n, C), N = instance.target.shape, instance.size
    yhat, rho = cp.Variable((n, C) if C > 1 else n, name="yhat"), cp.Variable(C if C > 1 else (), name="rho")
    variables, fits, parts, diagonals = {"rho": rho, "yhat": yhat}, [], [], []
    for k in range(C):
        Q = cp.Variable((2 * N, 2 * N), PSD=True, name=f"Q{k}" if C > 1 else "Q")
        Z, V, W = Q[:N, N:], Q[:N, :N], Q[N:, N:]
        variables[Q.name()] = Q
        parts.append((Z, V, W))
        fits.append((yhat[:, k] if C > 1 else yhat) == 2 * instance.map.expression(Z))
        diagonals.append(cp.diag(Q) == (rho[k] if C > 1 else rho))
    loss = instance.fit.expression(cp.reshape(yhat, (n, C), order="C"))
    program = cp.Problem(cp.Minimize(loss + 0.5 * instance.penalty * cp.sum(rho)), [*fits, *diagonals])
    return Program(program, variables, fits, parts, diagonals, name=name, training_problem=problem)


# -- the relaxation of polynomial networks -------------------------------------------------------------------


def polynomial_program(problem: TrainingProblem) -> Program:
    r"""Build (23), the relaxation of networks :math:`\sum_j \alpha_j \sigma(x^T q_j)`, as printed.

    .. math::

        \min_{Z_1, Z_2 \succeq 0,\, \rho_1, \rho_2}\; \ell(\hat y, y) + \beta d M (\rho_1 + \rho_2)
        \quad\text{s.t.}\quad \hat y_i = \langle \mathcal{X}_i, Z_1 - Z_2 \rangle,\;
        Z_{1,jj} = \rho_1,\; Z_{2,jj} = \rho_2

    Its optimal value is a lower bound on the optimum of (12), whose activation :math:`\sigma` is that of `problem`, or
    :math:`t^2` if it is None.

    Parameters
    ----------
    problem : TrainingProblem
        Problem with data of columns.

    Returns
    -------
    Program
        Variables ``Z1``, ``Z2``, ``rho1``, ``rho2`` and ``yhat``; with several outputs ``Z1_0``, ``Z1_1``, ... and
        vectors of rho.

    Raises
    ------
    InvalidInputError
        The problem has blocks.

    Notes
    -----
    Here, equality on the diagonals matters. For M + 1 > 2 levels, the diagonals are at most rho, except in the last
    coordinate of a lift, because weights other than +-M lower the entry of a coordinate.
    """
    check_problem(problem)
    _check_columns(problem)
    import cvxpy as cp

    instance, binary = _polynomial_instance(problem), _binary_coordinates(problem)
    (n, C), N = instance.target.shape, instance.size
    yhat = cp.Variable((n, C) if C > 1 else n, name="yhat")
    rhos = [cp.Variable(C, name=name) if C > 1 else cp.Variable(name=name) for name in ("rho1", "rho2")]
    variables = {"yhat": yhat, **{rho.name(): rho for rho in rhos}}
    # Coordinates whose diagonal is at most rho come first, see `_binary_coordinates`.
    start = int(np.sum(~binary))
    fits, diagonals = [], []
    for k in range(C):
        suffix = f"_{k}" if C > 1 else ""
        matrices = tuple(cp.Variable((N, N), PSD=True, name=f"{name}{suffix}") for name in ("Z1", "Z2"))
        variables |= {Z.name(): Z for Z in matrices}
        fits.append((yhat[:, k] if C > 1 else yhat) == instance.map.expression(matrices[0] - matrices[1]))
        for Z, rho in zip(matrices, rhos, strict=True):
            radius = rho[k] if C > 1 else rho
            diagonals += [cp.diag(Z)[start:] == radius] if start < N else []
            diagonals += [cp.diag(Z)[:start] <= radius] if start else []
    loss = instance.fit.expression(cp.reshape(yhat, (n, C), order="C"))
    objective = loss + instance.penalty * (cp.sum(rhos[0]) + cp.sum(rhos[1]))
    program = cp.Problem(cp.Minimize(objective), [*fits, *diagonals])
    return Program(program, variables, name="relaxation (23) of polynomial networks")


def _polynomial_instance(problem: TrainingProblem) -> Instance:
    """Build the instance of (23): the data map, the loss and the penalty on each rho."""
    weight = problem.beta * (problem.n_features * (problem.levels - 1))
    return Instance(problem.map, problem.data_fit, weight)


def _binary_coordinates(problem: TrainingProblem) -> npt.NDArray[np.bool_]:
    """Return a mask of the coordinates whose diagonal equals rho: all with two levels, and the last one of a lift."""
    binary = np.full(problem.size, problem.levels == 2)
    binary[problem.n_features :] = True
    return binary


# -- duals ---------------------------------------------------------------------------------------------------


def dual_program(problem: TrainingProblem) -> Program:
    r"""Build the dual of (25) or (67), with the same optimal value: (52) for one output, (64) for several, as printed.

    .. math::

        \max_{\nu, z_1, z_2}\; -\ell^*(-\nu) \quad\text{s.t.}\quad
        \begin{bmatrix} \mathrm{diag}(z_1) & M_\nu \\ M_\nu & \mathrm{diag}(z_2) \end{bmatrix}
        \preceq \frac{\beta D}{2 N} I,\; 1^T z_1 + 1^T z_2 = 0

    where :math:`M_\nu = \sum_i \nu_i \mathcal{X}_i`, for every output.

    Parameters
    ----------
    problem : TrainingProblem
        Problem with data of columns.

    Returns
    -------
    Program
        Variables ``nu``, ``z1`` and ``z2``, which are numbered if there are several outputs.

    Raises
    ------
    InvalidInputError
        The problem has blocks or statistics in place of rows, or its loss defines no `conjugate_expression`.

    Notes
    -----
    In the paper N = D, because there are two levels. The factor 1/2 is the slip described in :func:`full_program`:
    without it, the optimal value is the best lower bound that a dual vector proves.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> problem = qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.1)
    >>> programs = qsdp.paper.full_program(problem), qsdp.paper.dual_program(problem)
    >>> values = [program.problem.solve(solver="CLARABEL") for program in programs]
    >>> bool(np.isclose(*values, atol=1e-5))
    True
    """
    _check_rows(problem)
    import cvxpy as cp

    instance = Instance.from_problem(problem)
    N = instance.size

    def cones(M: cp.Expression, z1: cp.Variable, z2: cp.Variable) -> list[cp.Constraint]:
        limit = instance.penalty / (4.0 * N) * np.eye(2 * N)
        return [cp.bmat([[cp.diag(z1), M], [M, cp.diag(z2)]]) << limit, cp.sum(z1) + cp.sum(z2) == 0]

    return _dual(instance, "dual (52) or (64)", cones)


def polynomial_dual_program(problem: TrainingProblem) -> Program:
    r"""Build (20), the dual of (23), with the same optimal value, as printed.

    .. math::

        \max_{\nu, z_1, z_2}\; -\ell^*(-\nu) \quad\text{s.t.}\quad
        M_\nu + \mathrm{diag}(z_1) \preceq \frac{\beta d M}{N} I,\;
        -M_\nu + \mathrm{diag}(z_2) \preceq \frac{\beta d M}{N} I,\; 1^T z_1 = 1^T z_2 = 0

    for every output. With more than two levels, entries of z in coordinates with several levels are at most
    :math:`\beta d M / N`.

    Parameters
    ----------
    problem : TrainingProblem
        Problem with data of columns.

    Returns
    -------
    Program
        Variables ``nu``, ``z1`` and ``z2``, which are numbered if there are several outputs.

    Raises
    ------
    InvalidInputError
        The problem has blocks or statistics in place of rows, or its loss defines no `conjugate_expression`.

    Notes
    -----
    In the paper N = d and M = 1, since there are two levels and no lift.
    """
    _check_rows(problem)
    import cvxpy as cp

    instance, several = _polynomial_instance(problem), ~_binary_coordinates(problem)
    N = instance.size
    limit = instance.penalty / N

    def cones(M: cp.Expression, z1: cp.Variable, z2: cp.Variable) -> list[cp.Constraint]:
        constraints = []
        for z, sign in ((z1, 1.0), (z2, -1.0)):
            constraints += [sign * M + cp.diag(z) << limit * np.eye(N), cp.sum(z) == 0]
            constraints += [z[several] <= limit] if several.any() else []
        return constraints

    return _dual(instance, "dual (20) of (23)", cones)


def _dual(instance: Instance, name: str, cones: Any) -> Program:
    """Build the CVXPY problem that maximises the dual value under the constraints of every output."""
    import cvxpy as cp

    n, C = instance.target.shape
    nu = cp.Variable((n, C) if C > 1 else n, name="nu")
    variables = {"nu": nu}
    conjugate, constraints = instance.fit.conjugate_expression(-cp.reshape(nu, (n, C), order="C"))
    for k in range(C):
        M = cast(QuadraticMap, instance.map).adjoint_expression(nu[:, k] if C > 1 else nu)
        z1, z2 = (cp.Variable(instance.size, name=name if C == 1 else f"{name}_{k}") for name in ("z1", "z2"))
        variables |= {z.name(): z for z in (z1, z2)}
        constraints += cones(M, z1, z2)
    return Program(cp.Problem(cp.Maximize(-conjugate), constraints), variables, name=name)


# -- Algorithm 1 ---------------------------------------------------------------------------------------------


def shaping_program(Z: Any, rho: float) -> Program:
    r"""Build (27), the program of covariance shaping; (68) is one for each output.

    .. math::

        \min_{Q \succeq 0}\; \|Q_{12} - \sin(\gamma Z / \rho)\|_F^2 \quad\text{s.t.}\quad Q_{jj} = 1,
        \qquad \gamma = \ln(1 + \sqrt 2)

    Its optimal value is zero for every solution Z, :math:`\rho` of (25) (Theorem 2).

    Parameters
    ----------
    Z : array-like of shape (N, N)
    rho : float
        >= 0. If it is 0, so is Z, and the target of :math:`Q_{12}` is zero.

    Returns
    -------
    Program
        Variable ``Q`` of shape (2N, 2N).

    Notes
    -----
    :func:`shape` has a solution of this program in closed form.
    """
    Z, rho = check_matrix("Z", Z), check_real("rho", rho)
    if Z.shape[0] != Z.shape[1]:
        raise InvalidInputError(f"Z must be square; got {Z.shape}")
    import cvxpy as cp

    N = len(Z)
    Q = cp.Variable((2 * N, 2 * N), PSD=True, name="Q")
    target = cp.Constant(np.sin(GAMMA * scaled_block(Z, rho)), name="sin(gamma Z)")
    program = cp.Problem(cp.Minimize(cp.sum_squares(Q[:N, N:] - target)), [cp.diag(Q) == 1])
    return Program(program, {"Q": Q}, name="program (27) of covariance shaping")


def shape(Z: Any, V: Any, W: Any = None) -> SignCovariance:
    r"""Compute the covariance of Theorem 2 in closed form, for the solution of any semidefinite program.

    .. math::

        Q = \begin{bmatrix} \sinh(\gamma V / \rho) & \sin(\gamma Z / \rho) \\
                            \sin(\gamma Z / \rho)^T & \sinh(\gamma W / \rho) \end{bmatrix},
        \qquad \gamma = \ln(1 + \sqrt 2) = \sinh^{-1}(1)

    elementwise. It is positive semidefinite because sinh and sin have the same Taylor coefficients up to sign, and its
    diagonal is one because :math:`\sinh(\gamma) = 1`.

    Parameters
    ----------
    Z, V, W : array-like of shape (N, N)
        Any matrices for which ``[[V, Z], [Z', W]]`` is positive semidefinite; Z need not be symmetric, and W is V by
        default. V and W are scaled against each other and their diagonals are raised to the smallest possible rho,
        which changes no prediction.

    Returns
    -------
    SignCovariance
        For neurons with N binary weights in u and in v; see :func:`qsdp.sample_network`. Its residual, diagonal error
        and smallest eigenvalue are recomputed from Q.

    Raises
    ------
    InvalidInputError
        The matrix of Z, V and W is indefinite by more than the rounding of a solver, 1e-5 of its largest entry, or V
        or W is not symmetric.

    Notes
    -----
    This is Krivine's argument (Alon and Naor, Lemma 4.2) written out. The mean of :math:`u v^T` is
    :math:`(2 \gamma / \pi) Z / \rho`; the text after Theorem 2 omits the factor :math:`2 / \pi`.

    Examples
    --------
    All neurons have u = v up to the sign, and Z is their mean outer product.

    >>> import numpy as np, qsdp
    >>> Z = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> covariance = qsdp.paper.shape(Z, V=Z)
    >>> covariance.rho, covariance.residual < 1e-12
    (1.0, True)
    """
    Z = check_matrix("Z", Z)
    N = len(Z)
    V, W = (check_matrix(name, M, n_columns=N) for name, M in (("V", V), ("W", V if W is None else W)))
    if not Z.shape == V.shape == W.shape == (N, N):
        raise InvalidInputError(f"Z, V and W must be square and of one size; got {Z.shape}, {V.shape}, {W.shape}")
    for name, block in (("V", V), ("W", W)):
        if np.abs(block - block.T).max() > _ACCURACY * np.abs(block).max():
            raise InvalidInputError(f"{name} must be symmetric; take ({name} + {name}.T) / 2")
    K = np.block([[0.5 * (V + V.T), Z], [Z.T, 0.5 * (W + W.T)]])
    lowest, largest = float(np.linalg.eigvalsh(K)[0]), float(np.abs(K).max())
    if lowest < -_ACCURACY * largest:
        raise InvalidInputError(
            f"[[V, Z], [Z', W]] must be positive semidefinite; its smallest eigenvalue is {lowest:.3g}: add at least "
            f"{-lowest:.3g} to the diagonals of V and W"
        )
    K[np.diag_indices(2 * N)] += max(0.0, -lowest)
    first, second = (float(diagonal.max()) for diagonal in (K.diagonal()[:N], K.diagonal()[N:]))
    rho = math.sqrt(first * second)
    if rho == 0.0:
        return measured_covariance(np.eye(2 * N), np.zeros((N, N)), 0.0, GAMMA, "krivine")
    # [s V, Z; Z', W / s] is semidefinite for every s > 0, and this s makes rho smallest.
    s = math.sqrt(second / first)
    P, R = (np.sinh(GAMMA * np.clip(block / rho, -1.0, 1.0)) for block in (s * K[:N, :N], K[N:, N:] / s))
    for block in (P, R):
        np.fill_diagonal(block, 1.0)
    S = np.sin(GAMMA * scaled_block(Z, rho))
    return measured_covariance(np.block([[P, S], [S.T, R]]), Z, rho, GAMMA, "krivine")


class Algorithm1(NamedTuple):
    """Result of `algorithm_1`.

    Attributes
    ----------
    network : BilinearNetwork
    relaxation : Relaxation
        Solution of (25) or (67). Its objective and bound are those with the corrected regulariser.
    covariance : SignCovariance, or a list of one for each output
        Solution of (27) or (68), from which :func:`qsdp.sample_network` samples further networks.
    """

    network: BilinearNetwork
    relaxation: Relaxation
    covariance: Any


def algorithm_1(
    problem: TrainingProblem, n_neurons: int = 250, random_state: RandomState = 0, *, solver: str = "scs"
) -> Algorithm1:
    r"""Run Algorithm 1 (B.1 for several outputs) as printed: two semidefinite programs and signs of a Gaussian.

    1. Solve (25) or (67) for Z and :math:`\rho`.
    2. Solve (27) or (68) for Q.
    3. Sample :math:`[u_j; v_j] = \mathrm{sign}(\mathcal N(0, Q))` and set
       :math:`\alpha_j = \rho \pi / (m \ln(1 + \sqrt 2))`.

    With C outputs, each has m / C neurons (one more for the first ones if C does not divide m).

    Parameters
    ----------
    problem : TrainingProblem
        Problem of two levels with data of columns.
    n_neurons : int, default=250
        Number of neurons m, at least the number of outputs.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sampling.
    solver : {"scs", "clarabel", "mosek"}, default="scs"

    Returns
    -------
    Algorithm1
        Network, relaxation and covariance.

    Raises
    ------
    InvalidInputError
        The problem has more than two levels or blocks.
    UnavailableSolverError, SolverError
        The solver is not installed, has no licence or fails.

    Notes
    -----
    An output for which zero is optimal to the accuracy of the solver gets no neurons. :func:`qsdp.solve_and_sample` is
    the same algorithm with the corrected regulariser, without the second program, and usually many times as fast.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.make_planted(n=40, d=4, n_neurons=3, random_state=0)
    >>> problem = qsdp.TrainingProblem(X, y, beta=0.5)
    >>> network, relaxation, covariance = qsdp.paper.algorithm_1(problem, 1000)
    >>> certificate = qsdp.certify(network, problem)
    >>> certificate.lower_bound <= certificate.objective
    True
    """
    check_problem(problem)
    check_choice("solver", solver, _SOLVERS)
    check_solver(solver, problem.loss)
    if problem.levels > 2:
        raise InvalidInputError(
            f"levels must be 2 for Algorithm 1; got {problem.levels}: repeat the columns (Theorem 1) or call "
            "qsdp.solve_and_sample"
        )
    program = full_program(problem) if problem.scalar else vector_output_program(problem)
    _solve(program, solver, Settings(tol=_TOLERANCE))
    relaxation = program.relaxation(_TOLERANCE)
    covariances = []
    for Z, rho in zip(relaxation.Z_stack, relaxation.rho_stack.tolist(), strict=True):
        if problem.relaxed_penalty * rho <= _TOLERANCE * problem.data_fit.value_at_zero:
            Z, rho = np.zeros_like(Z), 0.0
        covariances.append(solve_shaping(Z, rho, solver=solver, activation=problem.activation))
    covariance = squeezed(covariances, problem.output_shape)
    return Algorithm1(sample_network(covariance, n_neurons, random_state), relaxation, covariance)


def _solve(program: Program, solver: str, settings: Settings) -> None:
    status = run_conic(program.problem, solver, settings).status
    if any(variable.value is None for variable in program.variables.values()):
        raise SolverError(f"solver {solver!r} found no point of the {program.name}: {status}")


def solve_shaping(
    Z: Any, rho: float, *, solver: str = "scs", activation: PolynomialActivation | None = None
) -> SignCovariance:
    """Solve (27) and repair the solution to a covariance with unit diagonal.

    Parameters
    ----------
    Z, rho
        See :func:`shaping_program`.
    solver : {"scs", "clarabel", "mosek"}, default="scs"
    activation : PolynomialActivation, optional
        Activation of the networks to be sampled, of which Z has one more row and column for the constant.

    Returns
    -------
    SignCovariance
        Its residual, diagonal error and smallest eigenvalue are recomputed from Q.

    Raises
    ------
    SolverError
        The solver found no point.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> Z = np.array([[0.5, -0.2], [-0.2, 0.1]])
    >>> closed, solved = qsdp.paper.shape(Z, V=np.eye(2)), qsdp.paper.solve_shaping(Z, 1.0)
    >>> bool(np.allclose(closed.Q[:2, 2:], solved.Q[:2, 2:], atol=1e-6))
    True
    """
    program = shaping_program(Z, rho)
    _solve(program, solver, Settings(tol=ROUNDING))
    Q = program.variables["Q"].value
    repaired = positive_part(symmetric_part(Q))
    scale = np.sqrt(repaired.diagonal())
    repaired = repaired / np.outer(scale, scale)
    np.fill_diagonal(repaired, 1.0)
    Z = np.asarray(Z, dtype=np.float64)
    return measured_covariance(repaired, Z, rho, GAMMA, "(27)", activation=activation)


# -- Theorem 3 -----------------------------------------------------------------------------------------------


def neurons_needed(relaxation: Relaxation, epsilon: float, delta: float) -> int:
    r"""Compute a number of neurons for which Theorem 3 holds: their network nearly attains the relaxation's loss.

    With probability at least :math:`1 - \delta`, the loss of a network of that many neurons, sampled from the closed
    form of Theorem 2, differs from the loss at the relaxation's predictions by at most :math:`\epsilon`, without the
    penalties.

    Parameters
    ----------
    relaxation : Relaxation
        Relaxation for two levels, on columns.
    epsilon : float
        > 0, in units of the objective, which is a sum over samples.
    delta : float
        Probability, between 0 and 1.

    Returns
    -------
    int
        Number of neurons, the same for every output.

    Raises
    ------
    InvalidInputError
        An argument is not allowed, or the relaxation is for more than two levels, for blocks or for statistics.

    Notes
    -----
    The matrices :math:`S_j = u_j v_j^T - E[u v^T]` have norms of at most 2N, and
    :math:`E[S_j S_j^T] \preceq N E[u u^T] = (2 N / \pi) \arcsin(Q_{11})`, likewise for v. Let b be the larger norm of
    these. The matrix Bernstein inequality gives, for the mean of m of them,

    .. math::

        P\Big(\Big\|\frac1m \sum_j S_j\Big\|_2 \ge t\Big) \le 2 N \exp\Big(- \frac{m t^2 / 2}{b + 2 N t / 3}\Big).

    Predictions then deviate by at most :math:`(\rho \pi / \gamma)\, t\, \|\mathcal{X}_i\|_*`, with the nuclear norm,
    which is :math:`\|x_i\|^2` without a lift. The largest t for which no such deviations change the loss by more than
    :math:`\epsilon` is computed exactly, as the loss is convex: no Lipschitz constant is needed. Outputs share
    :math:`\delta` equally. This is (28) and Theorem 3 with two corrections: the exponent has a factor 1/2, which is
    missing in (28) and (38), and the subtracted term of (36) cannot raise the variance. The bound holds for every
    problem, so the number is usually far larger than necessary.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((30, 3))
    >>> relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=1.0))
    >>> few, many = (qsdp.paper.neurons_needed(relaxation, epsilon, 0.05) for epsilon in (1.0, 0.1))
    >>> 1000 < few < many
    True
    """
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(f"relaxation must be a Relaxation; got {type(relaxation).__name__}")
    epsilon, delta = check_real("epsilon", epsilon, strict=True), check_real("delta", delta, strict=True)
    if delta >= 1.0:
        raise InvalidInputError(f"delta must be below 1; got {delta:g}")
    problem = relaxation.problem
    require(problem.map, "the number of neurons", SAMPLES, COLUMNS)
    if problem.levels > 2:
        raise InvalidInputError(f"relaxation must be for two levels; got {problem.levels}")
    reach, N, C = _largest_reach(problem, relaxation.outputs(problem.X), epsilon), problem.size, problem.n_outputs
    numbers = [1]
    for covariance in np.atleast_1d(np.array(shape_covariance(relaxation, "krivine"), dtype=object)):
        if covariance.total_weight > 0.0:
            t = reach / covariance.total_weight
            halves = (np.arcsin(np.clip(Q, -1.0, 1.0)) for Q in (covariance.Q[:N, :N], covariance.Q[N:, N:]))
            variance = 2.0 * N / math.pi * max(float(np.linalg.eigvalsh(half)[-1]) for half in halves)
            numbers.append(math.ceil(2.0 * (variance + 2.0 * N * t / 3.0) / t**2 * math.log(2.0 * N * C / delta)))
    return C * max(numbers)


def _largest_reach(problem: TrainingProblem, predictions: FloatArray, epsilon: float) -> float:
    """Compute the largest s such that deviations of s times the nuclear norms change the loss by at most epsilon."""
    from scipy.optimize import brentq

    a, b, c = (1.0, 0.0, 0.0) if problem.activation is None else problem.activation.coefficients
    squares = np.square(problem.X).sum(axis=1)[:, None]
    # The two eigenvalues of the data matrix have this sum and this product.
    total, product = a * squares + c, (a * c - 0.25 * b**2) * squares
    norms = np.sqrt(np.maximum(total**2, total**2 - 4.0 * product))
    fit, before = problem.data_fit, problem.data_fit.value(predictions)

    def excess(s: float) -> float:
        if fit.loss.coupled:
            # The loss falls in the output of the true class and rises in the others.
            moved = predictions + s * np.where(fit.target == 1.0, -norms, norms)
            return fit.value(moved) - before - epsilon
        # A convex function on an interval is largest at an end; samples and outputs add up.
        ends = [fit.loss.values(predictions + sign * s * norms, fit.target) for sign in (-1.0, 1.0)]
        return float(fit.weighted(np.maximum(*ends)).sum()) - before - epsilon

    if not np.any(norms):
        return math.inf
    high = 1.0
    while excess(high) < 0.0:
        high *= 2.0
    return float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-12))


# -- checks --------------------------------------------------------------------------------------------------


def _check_columns(problem: TrainingProblem) -> None:
    if problem.blocks is not None:
        raise InvalidInputError("problem must have data of columns for a program of the paper; got blocks")


def _check_rows(problem: TrainingProblem) -> None:
    check_problem(problem)
    _check_columns(problem)
    require(problem.map, "a dual program", SAMPLES)
