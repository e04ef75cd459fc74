"""Master problem with the values of atoms on the samples, or on the rows of a reduction."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.deadline import TimeOver
from qsdp._utils.numeric import EPS, HALF_DIGITS
from qsdp._utils.parallel import WORK_FLOATS
from qsdp._utils.tuning import INNER, MAX_SIDE
from qsdp._utils.validation import FloatArray
from qsdp.column_generation.restricted import Columns, RestrictedSolution, solve_restricted
from qsdp.gram import Gram, SharedGram
from qsdp.pricing.atoms import Atoms
from qsdp.relaxation.bounds import best_scale, best_step, entry_rounding, entry_size
from qsdp.relaxation.instance import Instance, LinearInstance, Reduction, Units

__all__ = ["ATOMS", "FeasibleDual", "RowProgram", "SharedSums"]

#: Atoms added in a round, random starts of a search, and neurons to start near; a third or thrice take as long.
ATOMS = 200


@dataclass(frozen=True, eq=False)
class FeasibleDual:
    """Dual vector derived from that of a master, feasible if a bound on pricing values holds, and its dual value.

    Attributes
    ----------
    value : float
    nu : object
        The vector, in the form of the program.
    scale : float
        Factor by which the trees of the master's dual vector must be scaled to bound the pricing values of the feasible
        one.
    excess : float
        Largest excess of these pricing values over `scale` times those of the master's dual vector.
    """

    value: float
    nu: Any
    scale: float
    excess: float


class SharedSums:
    """Sums over the samples shared by the restricted problems of all outputs, computed on first use.

    Parameters
    ----------
    targets : ndarray of shape (n, C)
        Targets of all outputs.
    """

    def __init__(self, targets: FloatArray) -> None:
        self._targets, self._gram = targets, SharedGram()
        self._reduction: Reduction | None = None

    def gram(self, normal: Instance) -> Gram:
        """Return the Gram matrix and the products with all targets in the units of a normalised instance's map."""
        return self._gram.from_map(normal.map, self._targets, normal.fit.weights, np.float64, None)

    def reduction(self, normal: Instance) -> Reduction:
        """Return the reduction of all outputs; it belongs to the normalised instance of the first that needs it."""
        if self._reduction is None:
            self._reduction = Reduction(normal, self._targets)
        return self._reduction


@dataclass(frozen=True, eq=False)
class _Residual:
    r"""Dual vector :math:`\nu_0` of the residual that a reduction omits, in units of the normalised instance.

    In exact arithmetic, all its pricing values are zero. In floating point, `upper` bounds them, and `spare` bounds the
    rounding of sums with it; both are in units of the instance.
    """

    nu: FloatArray
    upper: float
    spare: float

    def largest(self, dual_radius: float, upper: float) -> float:
        """Compute the largest s with ``s upper + |1 - s| self.upper + self.spare`` at most the dual radius."""
        radius = dual_radius - self.spare
        if upper > radius:
            return (radius - self.upper) / (upper - self.upper) if radius > self.upper else -math.inf
        total = upper + self.upper
        return (radius + self.upper) / total if total > 0.0 else math.inf


class RowProgram:
    """Master problem on the samples or, for a squared loss and many samples, on the rows of a reduction.

    All is in units of the normalised instance, but matrices, bounds and the result of `lifted`. Dual vectors are arrays
    of shape (n, C).

    Parameters
    ----------
    instance, normal : Instance
        Instance of one output or of all that a loss couples, and its normalised form.
    units : Units
        Units of the normalised instance.
    shared : SharedSums
        Sums of all outputs of the problem.
    output : int
        Index of the instance's output among them.

    Attributes
    ----------
    columns : ndarray of shape (k, r)
        The atoms in r coordinates.
    zero_dual : ndarray of shape (n, C)
        Dual vector of the network of zero.
    """

    def __init__(self, instance: Instance, normal: Instance, units: Units, shared: SharedSums, output: int) -> None:
        self._instance, self._normal, self._units = instance, normal, units
        self._working: LinearInstance = normal
        self._constant = 0.0
        self._reduction: tuple[Reduction, LinearInstance] | None = None
        self._residual: _Residual | None = None
        if Reduction.applies(instance) and instance.map.layout.n_entries <= MAX_SIDE:
            with suppress(TimeOver):
                self._reduce(shared, output)
        self.columns = np.zeros((0, len(self._working.target)))
        self.zero_dual = self._lifted(self._working.fit.zero_dual)

    def _reduce(self, shared: SharedSums, output: int) -> None:
        reduction = shared.reduction(self._normal)
        self._working = reduced = reduction.reduced(self._normal, self._units, output)
        self._reduction = reduction, reduced
        self._constant = max(0.0, self._normal.fit.value_at_zero - self._working.fit.value_at_zero)
        self._residual = self._left_out()

    @property
    def small(self) -> bool:
        """Whether all products are too small to benefit from several threads."""
        n_entries = len(self._instance.target) * self._instance.size
        return max(n_entries, len(self._working.target) ** 2) <= WORK_FLOATS

    def add(self, atoms: Atoms) -> None:
        """Add the columns of atoms."""
        self.columns = np.vstack([self.columns, self._values(atoms)])

    def _values(self, atoms: Atoms) -> FloatArray:
        return atoms.values(self._working.map).T

    def select(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep only the columns with the given indices."""
        self.columns = self.columns[rows]

    def solve(
        self, atoms: Atoms, weights: FloatArray, objective: float, tol: float
    ) -> tuple[FloatArray, FloatArray, float] | None:
        """Solve to a relative duality gap `tol`, from weights of a known objective; return weights, dual, objective.

        Return None if a time limit passed before there was anything better.
        """
        if not len(atoms):
            return None
        solution = self._solve(self.columns, atoms, weights, objective, tol)
        if self._reduction is not None:
            true = self._true_objective(atoms, solution.weights)
            if abs(solution.objective + self._constant - true) > HALF_DIGITS * true:
                self._restore(atoms)
                solution = self._solve(self.columns, atoms, weights, objective, tol)
        reached = solution.objective + self._constant
        if deadline.over() and not reached < objective:
            return None
        return solution.weights, self._lifted(solution.nu), reached

    def _solve(
        self, columns: FloatArray, atoms: Atoms, weights: FloatArray, objective: float, tol: float
    ) -> RestrictedSolution:
        working, growth = self._working, 1.0
        if self._constant:
            # The gap is relative to the whole objective, most of which may be the constant.
            growth = max(1.0, objective / max(objective - self._constant, 1e-300))
        tol = max(tol, min(tol * growth, INNER))
        penalties = np.full(len(atoms), working.dual_radius)
        outputs = working.fit.coupled_outputs(atoms.outputs)
        return solve_restricted(columns.T, working.fit, penalties, outputs=outputs, tol=tol, start=weights)

    def refit(self, atoms: Atoms, weights: FloatArray, tol: float) -> FloatArray:
        """Improve the positive weights, without other atoms; return weights of all."""
        used, again = np.flatnonzero(weights), np.zeros_like(weights)
        objective = self.objective(atoms, weights)
        solution = self._solve(self.columns[used], atoms[used], weights[used], objective, tol)
        again[used] = solution.weights
        return again if solution.objective + self._constant < objective else weights

    def objective(self, atoms: Atoms, weights: FloatArray) -> float:
        """Evaluate the objective of weights."""
        working = self._working
        prediction = Columns(self.columns, atoms.outputs, working.target.shape[1]).combined(weights).T
        return working.fit.value(prediction) + working.dual_radius * float(weights.sum()) + self._constant

    def _true_objective(self, atoms: Atoms, weights: FloatArray) -> float:
        """Evaluate the objective of one output's weights on all samples."""
        normal = self._normal
        used = np.flatnonzero(weights)
        atoms, layout = atoms[used], normal.map.layout
        owners = np.arange(normal.map.n_blocks)[:, None] == atoms.block
        S = ((atoms.U.T * (weights[used] * atoms.signs)) * owners[:, None]) @ atoms.V.astype(np.float64)
        prediction = normal.map.values(0.5 * (S + S.swapaxes(1, 2)), atoms.real_weights(weights[used], layout, 1))
        return normal.fit.value(prediction) + normal.dual_radius * float(weights.sum())

    def _restore(self, atoms: Atoms) -> None:
        """Undo the reduction and use all rows, if the reduction is too inaccurate (it squares the data)."""
        self._working, self._constant, self._reduction, self._residual = self._normal, 0.0, None, None
        self.columns = self._values(atoms)

    def pull(self, dual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the matrices (K, N, N) of a dual vector, and its sums over columns with real weights (C, p)."""
        return self._instance.map.pull(self.lifted(dual))

    def lifted(self, dual: FloatArray) -> FloatArray:
        """Compute the dual vector (n, C) in units of the instance."""
        return dual * (self._units.value / self._units.prediction)

    def mean(self, dual: FloatArray, other: FloatArray) -> FloatArray:
        """Compute the mean of two dual vectors."""
        return 0.5 * (other + dual)

    def _lifted(self, nu: FloatArray) -> FloatArray:
        """Return the dual vector of all samples for that of the rows."""
        if self._reduction is None:
            return nu
        reduction, reduced = self._reduction
        return reduction.lift_dual(nu, reduced, self._normal)

    def _left_out(self) -> _Residual:
        nu = self._lifted(np.zeros_like(self._working.target))
        data, lifted = self._instance.map, self.lifted(nu)
        matrices, real = data.pull(lifted)
        entries = self._instance.constraints(np.abs(matrices).sum(axis=(1, 2)), real)
        # If a matrix changes by these entries, a tree's bound grows by at most its side times half of their sum.
        upper = float(((data.size + 1) * entries + 2.0 * entry_rounding(data, lifted)).max())
        return _Residual(nu, upper, 4.0 * EPS * float(entry_size(data, lifted).max()))

    def feasible_dual(self, dual: FloatArray, upper: float) -> FeasibleDual:
        r"""Compute the best bound that :math:`\nu` proves if no pricing value exceeds `upper`, and its dual vector.

        This vector is :math:`s \nu` or, with the residual of a reduction, :math:`\nu_0 + s (\nu - \nu_0)`, as the
        residual need not shrink with the rest. Value and feasibility refer to all rows of the data.
        """
        fit, dual_radius, residual = self._normal.fit, self._instance.dual_radius, self._residual
        scale = best_scale(fit, dual, dual_radius / upper if upper > 0.0 else math.inf)
        best = FeasibleDual(self._value(scale * dual), scale * dual, scale, 0.0)
        if residual is not None and (largest := residual.largest(dual_radius, upper)) > 0.0:
            direction = dual - residual.nu
            step = best_step(fit, residual.nu, direction, largest)
            moved = residual.nu + step * direction
            if (value := self._value(moved)) > best.value:
                best = FeasibleDual(value, moved, step, abs(1.0 - step) * residual.upper + residual.spare)
        return best

    def _value(self, nu: FloatArray) -> float:
        return max(0.0, self._normal.safe_dual_value(nu) * self._units.value)
