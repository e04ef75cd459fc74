"""The semidefinite programs of the paper as CVXPY problems, which can be printed and passed to any solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsdp._utils.summary import Summarized, Summary, first_few
from qsdp._utils.validation import FloatArray, check_choice
from qsdp.problem import REGULARIZATIONS, TrainingProblem
from qsdp.relaxation.instance import Instance, LinearInstance

if TYPE_CHECKING:
    import cvxpy as cp

    Block = tuple[dict[str, cp.Variable], cp.Expression, cp.Constraint, list[cp.Constraint]]

__all__ = [
    "FORMS",
    "Formulation",
    "build_full",
    "build_relaxation",
    "build_two_block",
    "formulate",
]


@dataclass(frozen=True, eq=False, repr=False)
class Formulation(Summarized):
    """A relaxation as a CVXPY problem.

    Attributes
    ----------
    problem : cvxpy.Problem
        Objective and constraints; ``problem.solve(solver=...)`` solves the problem. Constants print as their names.
    variables : dict of str to cvxpy.Variable
        Variables by name. With several outputs, their matrices are numbered: ``Z0``, ``Z1``, ...
    fits : list of cvxpy.Constraint
        For each output, one constraint ``yhat == 2 <X_i, Z>`` for all samples. Its multiplier is the dual vector `nu`.
    diagonals : list of cvxpy.Constraint
        For each output, the constraint that the diagonal equals ``rho``. Its multiplier is `z` (``[z, z']`` in the
        full form).
    """

    problem: cp.Problem
    variables: dict[str, cp.Variable]
    fits: list[cp.Constraint]
    diagonals: list[cp.Constraint]
    full: bool

    def blocks(self) -> tuple[FloatArray | None, FloatArray | None, FloatArray | None]:
        """Return the solver's values of Z, V and W, each of shape (C, N, N), or None if it left none."""
        names = [str(k) for k in range(len(self.fits))] if len(self.fits) > 1 else [""]
        if not self.full:
            Z, V = (_stacked([self.variables[M + k].value for k in names]) for M in "ZV")
            return Z, V, V
        Q = _stacked([self.variables["Q" + k].value for k in names])
        if Q is None:
            return None, None, None
        N = Q.shape[1] // 2
        return Q[:, :N, N:], Q[:, :N, :N], Q[:, N:, N:]

    def duals(self) -> tuple[FloatArray | None, FloatArray | None]:
        """Return the solver's multipliers nu of shape (n, C) and z of shape (C, N)."""
        nu = _stacked([constraint.dual_value for constraint in self.fits])
        z = _stacked([constraint.dual_value for constraint in self.diagonals])
        # CVXPY returns numbers and columns if a constraint has one row.
        if nu is not None:
            nu = nu.reshape(len(self.fits), -1).T
        if z is not None:
            z = z.reshape(len(self.fits), 2, -1).mean(axis=1) if self.full else z.reshape(len(self.fits), -1)
        return nu, z

    def __repr__(self) -> str:
        form = "full" if self.full else "two-block"
        return f"Formulation(form={form!r}, variables={', '.join(self.variables)})"

    def __str__(self) -> str:
        return self._summary().text()

    def _summary(self) -> Summary:
        matrices = [one for name, one in self.variables.items() if name[0] in "QV"]
        sizes = {name: " x ".join(map(str, one.shape)) or "1" for name, one in self.variables.items()}
        metrics, n_cones, side = self.problem.size_metrics, len(matrices) * (2 - self.full), matrices[0].shape[0]
        cones = f"{n_cones} matrices {side} x {side}" if n_cones > 1 else f"a matrix {side} x {side}"
        rows = [
            ("form", "full: Q per output" if self.full else "two blocks: V + Z and V - Z per output"),
            ("variables", f"{first_few([f'{name} ({size})' for name, size in sizes.items()])}"),
            ("constraints", f"{metrics.num_scalar_eq_constr:,} equations; {cones} positive semidefinite"),
            ("solve", 'problem.solve(solver="SCS"), or another solver of semidefinite programs'),
            ("write out", "print(formulation.problem)"),
        ]
        return Summary("Formulation", rows)


def build_full(problem: TrainingProblem, *, regularization: str = "tight") -> Formulation:
    r"""Build the bilinear relaxation as printed, with one block of size 2N x 2N for each output.

    .. math::

        \min_{Q, \rho}\; \ell(\hat y, y) + c \beta D \rho \quad\text{s.t.}\quad
        \hat y_i = 2 \langle \mathcal{X}_i, Z \rangle,\; Q_{jj} = \rho,\;
        Q = \begin{bmatrix} V & Z \\ Z^T & W \end{bmatrix} \succeq 0

    Parameters
    ----------
    problem : TrainingProblem
    regularization : {"tight", "paper"}, default="tight"
        "tight" is c = 2, for which the optimum is the best lower bound; "paper" is c = 1, as printed.

    Returns
    -------
    Formulation
        Relaxation with variables ``Q``, ``rho`` and ``yhat``.

    Notes
    -----
    These are equations (25) and (67) of Bartan and Pilanci; the factor 2 corrects an error in (51).
    """
    return formulate(Instance.of(problem, regularization), form="full")


def build_two_block(problem: TrainingProblem, *, regularization: str = "tight") -> Formulation:
    r"""Build the bilinear relaxation with two blocks of half the size for each output.

    .. math::

        \min_{V, Z, \rho}\; \ell(\hat y, y) + c \beta D \rho \quad\text{s.t.}\quad
        \hat y_i = 2 \langle \mathcal{X}_i, Z \rangle,\; V_{jj} = \rho,\; V + Z \succeq 0,\; V - Z \succeq 0

    The data matrices are symmetric, so (25) has an optimum with Z = Z' and V = W. The block of (25) is then
    positive semidefinite exactly when V + Z and V - Z are. The optimal value is the same as for `build_full`,
    at about a quarter of the work.

    Parameters
    ----------
    problem : TrainingProblem
    regularization : {"tight", "paper"}, default="tight"
        As in `build_full`.

    Returns
    -------
    Formulation
        Relaxation with variables ``V``, ``Z`` (symmetric), ``rho`` and ``yhat``.
    """
    return formulate(Instance.of(problem, regularization), form="two-block")


def formulate(instance: LinearInstance, *, form: str) -> Formulation:
    """Build the relaxation of an instance, in the units of the instance."""
    import cvxpy as cp

    blocks = _full_block if form == "full" else _two_block
    (n, C), N = instance.target.shape, instance.size
    yhat = cp.Variable((n, C) if C > 1 else n, name="yhat")
    rho = cp.Variable(C if C > 1 else (), name="rho")
    variables = {"rho": rho, "yhat": yhat}
    fits, diagonals, cones = [], [], []
    for k in range(C):
        suffix = str(k) if C > 1 else ""
        matrices, Z, diagonal, cone = blocks(N, suffix, rho[k] if C > 1 else rho)
        variables.update(matrices)
        fits.append((yhat[:, k] if C > 1 else yhat) == 2 * instance.map.expression(Z))
        diagonals.append(diagonal)
        cones += cone
    outputs = yhat if C > 1 else cp.reshape(yhat, (n, 1), order="C")
    objective = instance.fit.expression(outputs) + instance.penalty * cp.sum(rho)
    program = cp.Problem(cp.Minimize(objective), [*fits, *diagonals, *cones])
    return Formulation(program, variables, fits, diagonals, form == "full")


def _full_block(N: int, suffix: str, rho: cp.Expression) -> Block:
    import cvxpy as cp

    Q = cp.Variable((2 * N, 2 * N), PSD=True, name=f"Q{suffix}")
    return {f"Q{suffix}": Q}, Q[:N, N:], cp.diag(Q) == rho, []


def _two_block(N: int, suffix: str, rho: cp.Expression) -> Block:
    import cvxpy as cp

    # V and Z are variables themselves: blocks A and B with 2 Z = A - B would double the dense rows.
    V = cp.Variable((N, N), symmetric=True, name=f"V{suffix}")
    Z = cp.Variable((N, N), symmetric=True, name=f"Z{suffix}")
    return {f"V{suffix}": V, f"Z{suffix}": Z}, Z, cp.diag(V) == rho, [V + Z >> 0, V - Z >> 0]


def _stacked(values: list[FloatArray | None]) -> FloatArray | None:
    return None if any(value is None for value in values) else np.stack(values)  # type: ignore[arg-type]


FORMS = {"full": build_full, "two-block": build_two_block}


def build_relaxation(
    problem: TrainingProblem, *, form: str = "two-block", regularization: str = "tight"
) -> Formulation:
    """Build the bilinear relaxation in one of its equivalent forms.

    Parameters
    ----------
    problem : TrainingProblem
    form : {"two-block", "full"}, default="two-block"
        `build_two_block` or `build_full`.
    regularization : {"tight", "paper"}, default="tight"
        As in `build_full`.

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
