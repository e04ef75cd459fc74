"""The dual programs of the relaxations as CVXPY problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._utils.validation import check_choice
from qsdp.exceptions import InvalidInputError
from qsdp.problem import REGULARIZATIONS, TrainingProblem, check_problem
from qsdp.relaxation.formulations import Formulation
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.polynomial import binary_coordinates, polynomial_instance

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["build_dual", "build_dual_polynomial"]


def build_dual(problem: TrainingProblem, *, regularization: str = "tight") -> Formulation:
    r"""Build the dual of the bilinear relaxation `build_full`, with the same optimal value.

    .. math::

        \max_{\nu, z_1, z_2}\; -\ell^*(-\nu) \quad\text{s.t.}\quad
        \begin{bmatrix} \mathrm{diag}(z_1) & M_\nu \\ M_\nu & \mathrm{diag}(z_2) \end{bmatrix}
        \preceq \frac{c \beta D}{2 N} I,\; 1^T z_1 + 1^T z_2 = 0

    where :math:`M_\nu = \sum_i \nu_i \mathcal{X}_i`, for every output.

    Parameters
    ----------
    problem : TrainingProblem
        Problem with data of columns.
    regularization : {"tight", "paper"}, default="tight"
        "tight" is c = 2; "paper" is c = 1, as printed.

    Returns
    -------
    Formulation
        Program with variables ``nu``, ``z1`` and ``z2``, which are numbered if there are several outputs.

    Raises
    ------
    InvalidInputError
        The problem has blocks or statistics in place of rows, or its loss defines no `conjugate_expression`.

    Notes
    -----
    These are equations (52) and (64) of Bartan and Pilanci, in which N = D because they have two levels; their factor
    beta / 2 is beta in the tight form.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> problem = qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.1)
    >>> primal, dual = qsdp.build_full(problem).problem, qsdp.build_dual(problem).problem
    >>> values = [program.solve(solver="SCS", eps=1e-9) for program in (primal, dual)]
    >>> bool(np.isclose(*values, atol=1e-5))
    True
    """
    check_choice("regularization", regularization, REGULARIZATIONS)
    _check(problem)
    import cvxpy as cp

    instance = Instance.of(problem, regularization)
    N = instance.size

    def cones(M: cp.Expression, z1: cp.Variable, z2: cp.Variable) -> list[cp.Constraint]:
        limit = instance.penalty / (2.0 * N) * np.eye(2 * N)
        return [cp.bmat([[cp.diag(z1), M], [M, cp.diag(z2)]]) << limit, cp.sum(z1) + cp.sum(z2) == 0]

    return _dual(instance, "dual", cones)


def build_dual_polynomial(problem: TrainingProblem) -> Formulation:
    r"""Build the dual of the polynomial relaxation `build_polynomial`, with the same optimal value.

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
    Formulation
        Program with variables ``nu``, ``z1`` and ``z2``, which are numbered if there are several outputs.

    Raises
    ------
    InvalidInputError
        The problem has blocks or statistics in place of rows, or its loss defines no `conjugate_expression`.

    Notes
    -----
    This is equation (20) of Bartan and Pilanci, in which N = d, since there are two levels and no lift.
    """
    _check(problem)
    import cvxpy as cp

    instance, several = polynomial_instance(problem), ~binary_coordinates(problem)
    N = instance.size
    limit = instance.penalty / N

    def cones(M: cp.Expression, z1: cp.Variable, z2: cp.Variable) -> list[cp.Constraint]:
        found = []
        for z, sign in ((z1, 1.0), (z2, -1.0)):
            found += [sign * M + cp.diag(z) << limit * np.eye(N), cp.sum(z) == 0]
            found += [z[several] <= limit] if several.any() else []
        return found

    return _dual(instance, "dual of polynomial", cones)


def _dual(instance: Instance, form: str, cones: Any) -> Formulation:
    """Build the CVXPY problem that maximises the dual value under the constraints of every output."""
    import cvxpy as cp

    n, C = instance.target.shape
    nu = cp.Variable((n, C) if C > 1 else n, name="nu")
    variables = {"nu": nu}
    conjugate, constraints = instance.fit.conjugate_expression(-cp.reshape(nu, (n, C), order="C"))
    for k in range(C):
        M = instance.map.adjoint_expression(nu[:, k] if C > 1 else nu)  # type: ignore[union-attr]
        z1, z2 = (cp.Variable(instance.size, name=name if C == 1 else f"{name}_{k}") for name in ("z1", "z2"))
        variables |= {z.name(): z for z in (z1, z2)}
        constraints += cones(M, z1, z2)
    return Formulation(cp.Problem(cp.Maximize(-conjugate), constraints), variables, form)


def _check(problem: TrainingProblem) -> None:
    check_problem(problem)
    if problem.blocks is not None or not problem.map.has_rows:
        raise InvalidInputError("problem must have rows of columns for a dual program; got blocks or statistics")
