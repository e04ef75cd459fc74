"""The semidefinite programs of the paper as CVXPY problems, ready to print and to hand to any solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from qsdp._validation import FloatArray, check_choice
from qsdp.problem import REGULARIZATIONS, TrainingProblem

__all__ = ["FORMS", "Formulation", "build_literal", "build_polynomial", "build_relaxation", "build_two_block"]


@dataclass(frozen=True, eq=False)
class Formulation:
    """A relaxation as a CVXPY problem.

    Attributes
    ----------
    problem : cvxpy.Problem
        Objective and constraints; ``print(problem)`` shows them, ``problem.solve(solver=...)`` solves them.
    variables : dict of str to cvxpy.Variable
        The variables by name.
    fit : cvxpy.Constraint
        ``yhat == 2 x_i' Z x_i``, all samples in one; its multiplier is the dual vector `nu`, shape (n,).
    diagonal : cvxpy.Constraint
        The equation of the diagonal with ``rho``; its multiplier is `z` (``[z, z']`` in the literal form).
    """

    problem: cp.Problem
    variables: dict[str, cp.Variable]
    fit: cp.Constraint
    diagonal: cp.Constraint

    def blocks(self) -> tuple[FloatArray | None, FloatArray | None, FloatArray | None]:
        """Return the values of Z, V and W, as the solver left them; None where it left none."""
        if "Q" in self.variables:
            Q, d = self.variables["Q"].value, self.variables["Q"].shape[0] // 2
            return (None, None, None) if Q is None else (Q[:d, d:], Q[:d, :d], Q[d:, d:])
        Z, V = self.variables["Z"].value, self.variables["V"].value
        return Z, V, V

    def duals(self) -> tuple[FloatArray | None, FloatArray | None]:
        """Return the multipliers nu of the fit and z of the diagonal, as the solver left them."""
        # CVXPY returns numbers and columns where a constraint has one row.
        nu, z = (
            None if value is None else np.ravel(value)
            for value in (self.fit.dual_value, self.diagonal.dual_value)
        )
        if z is not None and "Q" in self.variables:
            z = z.reshape(2, -1).mean(axis=0)
        return nu, z

    def __str__(self) -> str:
        return str(self.problem)


def build_literal(problem: TrainingProblem, *, regularization: str = "tight") -> Formulation:
    r"""Build the bilinear relaxation as printed, with one block of size 2D x 2D.

    .. math::

        \min_{Q, \rho}\; \ell(\hat y, y) + c \beta D \rho \quad\text{s.t.}\quad
        \hat y_i = 2 x_i^T Z x_i,\; Q_{jj} = \rho,\;
        Q = \begin{bmatrix} V & Z \\ Z^T & W \end{bmatrix} \succeq 0

    Parameters
    ----------
    problem : TrainingProblem
    regularization : {"tight", "paper"}, default="tight"
        c = 2, the factor for which the optimum is the best lower bound, or c = 1 as printed.

    Returns
    -------
    Formulation
        Variables ``Q``, ``rho``, ``yhat``.

    Notes
    -----
    Equation (25) of Bartan and Pilanci; the factor 2 corrects the slip in (51).
    """
    d = problem.dimension
    Q = cp.Variable((2 * d, 2 * d), PSD=True, name="Q")
    rho = cp.Variable(name="rho")
    diagonal = cp.diag(Q) == rho
    return _assemble(problem, regularization, 2 * Q[:d, d:], rho, {"Q": Q}, diagonal)


def build_two_block(problem: TrainingProblem, *, regularization: str = "tight") -> Formulation:
    r"""Build the bilinear relaxation with two blocks of half the size.

    .. math::

        \min_{V, Z, \rho}\; \ell(\hat y, y) + c \beta D \rho \quad\text{s.t.}\quad
        \hat y_i = 2 x_i^T Z x_i,\; V_{jj} = \rho,\; V + Z \succeq 0,\; V - Z \succeq 0

    The data matrices :math:`x x^T` are symmetric, so (25) has an optimum with Z = Z' and V = W, for which
    its block is positive semidefinite exactly when V + Z and V - Z are. Same optimal value as
    `build_literal`, about a quarter of the work.

    Parameters
    ----------
    problem : TrainingProblem
    regularization : {"tight", "paper"}, default="tight"
        As in `build_literal`.

    Returns
    -------
    Formulation
        Variables ``V``, ``Z`` (symmetric), ``rho``, ``yhat``.
    """
    d = problem.dimension
    # Matrix variables of their own, not blocks A and B with 2 Z = A - B: that would double the dense rows.
    V = cp.Variable((d, d), symmetric=True, name="V")
    Z = cp.Variable((d, d), symmetric=True, name="Z")
    rho = cp.Variable(name="rho")
    blocks = [V + Z >> 0, V - Z >> 0]
    return _assemble(problem, regularization, 2 * Z, rho, {"V": V, "Z": Z}, cp.diag(V) == rho, blocks)


def build_polynomial(problem: TrainingProblem) -> cp.Problem:
    r"""Build the relaxation for the quadratic activation :math:`\sigma(t) = t^2` on the data of `problem`.

    .. math::

        \min_{Z_1, Z_2 \succeq 0,\, \rho_1, \rho_2}\; \ell(\hat y, y) + \beta D (\rho_1 + \rho_2)
        \quad\text{s.t.}\quad \hat y_i = x_i^T (Z_1 - Z_2) x_i,\; Z_{1,jj} = \rho_1,\; Z_{2,jj} = \rho_2

    Its optimal value bounds the optimum of (12), networks :math:`\sum_j \alpha_j (x^T u_j)^2`, from below.

    Returns
    -------
    cvxpy.Problem
        Variables ``Z1``, ``Z2``, ``rho1``, ``rho2``, ``yhat`` (see its ``var_dict``).

    Notes
    -----
    Equation (23) of Bartan and Pilanci, right as printed. Here equality on the diagonals matters.
    """
    d = problem.dimension
    Z1 = cp.Variable((d, d), PSD=True, name="Z1")
    Z2 = cp.Variable((d, d), PSD=True, name="Z2")
    rho1, rho2 = cp.Variable(name="rho1"), cp.Variable(name="rho2")
    yhat = cp.Variable(problem.n_samples, name="yhat")
    objective = problem.loss.expression(yhat, problem.y) + problem.beta * d * (rho1 + rho2)
    constraints = [
        yhat == _quadratic_expression(problem.X, Z1 - Z2),
        cp.diag(Z1) == rho1,
        cp.diag(Z2) == rho2,
    ]
    return cp.Problem(cp.Minimize(objective), constraints)


FORMS = {"literal": build_literal, "two-block": build_two_block}


def build_relaxation(
    problem: TrainingProblem, *, form: str = "two-block", regularization: str = "tight"
) -> Formulation:
    """Build the bilinear relaxation in one of its equivalent forms.

    Parameters
    ----------
    problem : TrainingProblem
    form : {"two-block", "literal"}, default="two-block"
        `build_two_block` or `build_literal`.
    regularization : {"tight", "paper"}, default="tight"
        As in `build_literal`.

    Examples
    --------
    >>> import numpy as np, qsdp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((20, 3))
    >>> formulation = qsdp.build_relaxation(qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.1))
    >>> sorted(formulation.variables)
    ['V', 'Z', 'rho', 'yhat']
    >>> value = formulation.problem.solve(solver="SCS")
    """
    build = FORMS[check_choice("form", form, FORMS)]
    return build(problem, regularization=check_choice("regularization", regularization, REGULARIZATIONS))


def _assemble(
    problem: TrainingProblem,
    regularization: str,
    S: cp.Expression,
    rho: cp.Variable,
    matrices: dict[str, cp.Variable],
    diagonal: cp.Constraint,
    blocks: Sequence[cp.Constraint] = (),
) -> Formulation:
    yhat = cp.Variable(problem.n_samples, name="yhat")
    weight = problem.regularization_weight(regularization)
    fit = yhat == _quadratic_expression(problem.X, S)
    objective = cp.Minimize(problem.loss.expression(yhat, problem.y) + weight * rho)
    variables = {**matrices, "rho": rho, "yhat": yhat}
    return Formulation(cp.Problem(objective, [fit, diagonal, *blocks]), variables, fit, diagonal)


def _quadratic_expression(X: FloatArray, S: cp.Expression) -> cp.Expression:
    # One affine expression: n scalar constraints x_i' S x_i would make compilation explode.
    return cp.sum(cp.multiply(X @ S, np.asarray(X)), axis=1)
