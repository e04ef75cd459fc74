"""The semidefinite programs of the paper as CVXPY problems, which can be printed and passed to any solver."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from qsdp._utils.summary import Summarized, Summary, first_few
from qsdp._utils.validation import FloatArray, check_choice, check_real
from qsdp.exceptions import InvalidInputError
from qsdp.problem import REGULARIZATIONS, TrainingProblem
from qsdp.relaxation.instance import Instance, LinearInstance
from qsdp.relaxation.scaled import ScaledProblem
from qsdp.relaxation.solution import CHANGED, Relaxation, finish

if TYPE_CHECKING:
    import cvxpy as cp

    #: Variables, expressions of Z, V and W, the constraint whose multiplier is z, and the cones.
    Part = tuple[list[cp.Variable], tuple[cp.Expression, ...], cp.Constraint, list[cp.Constraint]]

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
    """Semidefinite relaxation as a CVXPY problem.

    Attributes
    ----------
    problem : cvxpy.Problem
        Objective and constraints; ``problem.solve(solver=...)`` solves the problem. Constants print as their names.
    variables : dict of str to cvxpy.Variable
        Variables by name. With several outputs, their matrices are numbered: ``Z0``, ``Z1``, ...; with blocks, ``Z_0``,
        ``Z_1``, ..., or ``Z0_0``, ``Z0_1``, ... for blocks of several outputs.
    form : {"full", "two-block", "polynomial", "dual", "dual of polynomial", "shaping"}
    fits : list of cvxpy.Constraint
        For each output of a relaxation, one constraint ``yhat == 2 <X_i, Z>`` for all samples. Its multiplier is the
        dual vector `nu`.
    parts : list of tuple of cvxpy.Expression
        Z, V and W of every output and block. In a linear block, Z is diagonal. Z1 and Z2 of every output in the
        polynomial form.
    diagonals : list of cvxpy.Constraint
        For each of these matrices, the constraint that the diagonal equals ``rho``. Its multiplier is `z` (``[z, z']``
        in the full form). In a linear block, the constraint that ``rho`` bounds the entries of Z.
    source : tuple of TrainingProblem and str, or None
        The problem and the regularization of the full and the two-block form, for `relaxation`.
    """

    problem: cp.Problem
    variables: dict[str, cp.Variable]
    form: str
    fits: list[cp.Constraint] = field(default_factory=list)
    parts: list[tuple[cp.Expression, ...]] = field(default_factory=list)
    diagonals: list[cp.Constraint] = field(default_factory=list)
    source: tuple[TrainingProblem, str] | None = None

    @property
    def full(self) -> bool:
        """Whether there is one matrix of side 2N for each output."""
        return self.form == "full"

    def matrices(self) -> tuple[FloatArray | None, FloatArray | None, FloatArray | None]:
        """Return the solver's values of Z, V and W, each of shape (K, N, N), or None if they have no values."""
        Z, V = (_stacked([part[i].value for part in self.parts]) for i in range(2))
        return Z, V, _stacked([part[2].value for part in self.parts]) if self.full else V

    def duals(self) -> tuple[FloatArray | None, FloatArray | None]:
        """Return the solver's multipliers nu of shape (n, C) and z of shape (K, N)."""
        nu = _stacked([constraint.dual_value for constraint in self.fits])
        # CVXPY returns numbers and columns if a constraint has one row.
        if nu is not None:
            nu = nu.reshape(len(self.fits), -1).T
        sides = [Z.shape[0] for Z, _, _ in self.parts]
        multipliers = [constraint.dual_value for constraint in self.diagonals]
        means = [z if z is None else z.reshape(-1, N).mean(axis=0) for z, N in zip(multipliers, sides, strict=True)]
        return nu, _stacked(means)

    def relaxation(self, tol: float = 1e-6) -> Relaxation:
        """Repair the variables' values to a feasible point of the relaxation, and bound the training problem.

        The variables may have been solved for in another CVXPY problem, with other constraints or another objective:
        the point is their solution, up to a repair of any infeasibility that the solver left. Z is averaged with its
        transpose and V with W, which changes no prediction. Objective and bound are recomputed from the data. They are
        those of the training problem, not of a changed program, so the gap shows how far the change moved the point
        from the optimum. The point can be shaped, sampled and certified.

        Parameters
        ----------
        tol : float, default=1e-6
            Relative gap up to which the status is "optimal". For a changed program, the gap says nothing about the
            solver's accuracy, and the status is "optimal" if the point violates the constraints of `problem` by at most
            100 times this, relative to its largest entry; ask the changed program for the status of its solver.

        Returns
        -------
        Relaxation
            Its `solver_status` and `repr` say whether the program was changed, that is, whether the values of the
            variables are not those of the last solve of `problem`.

        Raises
        ------
        InvalidInputError
            The variables have no values yet, or this is not the full or the two-block form.
        """
        if self.source is None:
            raise InvalidInputError(f"form must be 'full' or 'two-block' for a relaxation; got {self.form!r}")
        problem, regularization = self.source
        (Z, V, W), (nu, z) = self.matrices(), self.duals()
        if Z is None or V is None or W is None:
            raise InvalidInputError("the variables have no values: solve a CVXPY problem that has them first")
        scaled = ScaledProblem.of(problem, regularization)
        nu = np.zeros((problem.n_samples, problem.n_outputs)) if nu is None else nu
        z = np.ones(Z.shape[:2]) if z is None else z
        raw = scaled.inside(0.5 * (Z + Z.transpose(0, 2, 1)), 0.5 * (V + W), nu, z)
        tol, changed = check_real("tol", tol, strict=True), self._changed()
        raw = replace(raw, status=CHANGED if changed else "point of a CVXPY problem")
        relaxation = finish(scaled, raw, solver="cvxpy", tol=tol, stretch=False)
        if not changed or relaxation.status == "failed":
            return relaxation
        accurate = max(relaxation.residuals.values(), default=0.0) <= 100.0 * tol
        return replace(relaxation, status="optimal" if accurate else "inaccurate")

    def _changed(self) -> bool:
        """Return whether the variables were last solved for in another program."""
        before, now = self.problem.value, self.problem.objective.value
        return before is None or not np.isclose(before, now, rtol=_SAME_VALUE, atol=0.0)

    def __repr__(self) -> str:
        return f"Formulation(form={self.form!r}, variables={', '.join(self.variables)})"

    def __str__(self) -> str:
        return self._summary().text()

    def _summary(self) -> Summary:
        sizes = {name: " x ".join(map(str, one.shape)) or "1" for name, one in self.variables.items()}
        metrics, cones = self.problem.size_metrics, self._cones()
        rows = [
            ("form", _DESCRIPTIONS[self.form] + " and block" * (len(self.parts) > len(self.fits))),
            ("variables", f"{first_few([f'{name} ({size})' for name, size in sizes.items()])}"),
            ("constraints", f"{metrics.num_scalar_eq_constr:,} equations; {cones} positive semidefinite"),
            ("solve", 'problem.solve(solver="SCS"), or another solver of semidefinite programs'),
            ("write out", "print(formulation.problem)"),
        ]
        return Summary("Formulation", rows)

    def _cones(self) -> str:
        """Return the number and the sides of the semidefinite matrices as text."""
        import cvxpy as cp

        variables = [one for one in self.variables.values() if one.attributes["PSD"]]
        sides = [one.shape[0] for one in [*variables, *(c for c in self.problem.constraints if isinstance(c, cp.PSD))]]
        shown = " or ".join(f"{side} x {side}" for side in sorted(set(sides)))
        return f"{len(sides)} matrices {shown}" if len(sides) != 1 else f"a matrix {shown}"


#: Relative difference up to which CVXPY's value of an objective is the one that its solver returned.
_SAME_VALUE = 1e-6

#: Forms in words.
_DESCRIPTIONS = {
    "full": "full: Q per output",
    "two-block": "two cones: V + Z and V - Z per output",
    "polynomial": "Z1 and Z2 per output",
    "dual": "dual of the full form",
    "dual of polynomial": "dual of the polynomial form",
    "shaping": "covariance shaping: Q",
}


def build_full(problem: TrainingProblem, *, regularization: str = "tight") -> Formulation:
    r"""Build the bilinear relaxation as printed, with one matrix of side 2N for each output.

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
    These are equations (25) and (67) of Bartan and Pilanci; the factor 2 corrects an error in (51). With blocks, there
    are a matrix and a rho for each output and block; those of block r are times :math:`\omega_r D_r`, and D is one.
    """
    return replace(formulate(Instance.of(problem, regularization), form="full"), source=(problem, regularization))


def build_two_block(problem: TrainingProblem, *, regularization: str = "tight") -> Formulation:
    r"""Build the bilinear relaxation with two matrices of half the size for each output.

    .. math::

        \min_{V, Z, \rho}\; \ell(\hat y, y) + c \beta D \rho \quad\text{s.t.}\quad
        \hat y_i = 2 \langle \mathcal{X}_i, Z \rangle,\; V_{jj} = \rho,\; V + Z \succeq 0,\; V - Z \succeq 0

    The data matrices are symmetric, so (25) has an optimum with Z = Z' and V = W. The matrix of (25) is then
    positive semidefinite exactly when V + Z and V - Z are. The optimal value is the same as for `build_full`,
    at about a quarter of the work. Blocks are treated as in `build_full`.

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
    built = formulate(Instance.of(problem, regularization), form="two-block")
    return replace(built, source=(problem, regularization))


def formulate(instance: LinearInstance, *, form: str) -> Formulation:
    """Build the relaxation of an instance, in the units of the instance."""
    import cvxpy as cp

    layout, (n, C) = instance.map.layout, instance.target.shape
    R = layout.n_blocks
    yhat = cp.Variable((n, C) if C > 1 else n, name="yhat")
    rho = cp.Variable(tuple(count for count in (C, R) if count > 1), name="rho")
    variables = {"rho": rho, "yhat": yhat}
    fits, parts, diagonals, cones = [], [], [], []
    for k in range(C):
        for r, (size, linear) in enumerate(zip(layout.sizes, layout.linear, strict=True)):
            suffix = f"{k}" * (C > 1) + f"_{r}" * (R > 1)
            build = _diagonal_part if linear else _full_part if form == "full" else _two_cone_part
            radius = rho[(k,) * (C > 1) + (r,) * (R > 1)] if C * R > 1 else rho
            own, matrices, diagonal, more = build(size, suffix, radius)
            variables.update({variable.name(): variable for variable in own})
            parts.append(matrices)
            diagonals.append(diagonal)
            cones += more
        mine = [matrices[0] for matrices in parts[-R:]]
        fits.append((yhat[:, k] if C > 1 else yhat) == 2 * instance.map.expression(mine if R > 1 else mine[0]))
    outputs = yhat if C > 1 else cp.reshape(yhat, (n, 1), order="C")
    objective = instance.fit.expression(outputs) + instance.penalty * cp.sum(rho)
    program = cp.Problem(cp.Minimize(objective), [*fits, *diagonals, *cones])
    return Formulation(program, variables, form, fits, parts, diagonals)


def _full_part(N: int, suffix: str, rho: cp.Expression) -> Part:
    import cvxpy as cp

    Q = cp.Variable((2 * N, 2 * N), PSD=True, name=f"Q{suffix}")
    return [Q], (Q[:N, N:], Q[:N, :N], Q[N:, N:]), cp.diag(Q) == rho, []


def _two_cone_part(N: int, suffix: str, rho: cp.Expression) -> Part:
    import cvxpy as cp

    # V and Z are variables themselves: A and B with 2 Z = A - B would double the dense rows.
    V = cp.Variable((N, N), symmetric=True, name=f"V{suffix}")
    Z = cp.Variable((N, N), symmetric=True, name=f"Z{suffix}")
    return [V, Z], (Z, V, V), cp.diag(V) == rho, [V + Z >> 0, V - Z >> 0]


def _diagonal_part(N: int, suffix: str, rho: cp.Expression) -> Part:
    """Return the variables of a linear block, whose matrices are diagonal and need no semidefinite cone."""
    import cvxpy as cp

    z = cp.Variable(N, name=f"Z{suffix}")
    V = rho * np.eye(N)
    return [z], (cp.diag(z), V, V), cp.abs(z) <= rho, []


def _stacked(values: list[FloatArray | None]) -> FloatArray | None:
    """Stack arrays of different sizes, padded with zeros; None if one is missing."""
    present: list[FloatArray] = [np.asarray(value) for value in values if value is not None]
    if len(present) < len(values):
        return None
    ends = [max(lengths) for lengths in zip(*(value.shape for value in present), strict=True)]
    stack = np.zeros((len(present), *ends))
    for part, value in zip(stack, present, strict=True):
        part[tuple(slice(end) for end in value.shape)] = value
    return stack


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
