"""Restricted master problem of column generation: the best second layer for the current neurons."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.deadline import TimeOver
from qsdp._utils.gap import relative
from qsdp._utils.memory import main_memory
from qsdp._utils.numeric import EPS, HALF_DIGITS, ROUNDING
from qsdp._utils.parallel import WORK_FLOATS
from qsdp._utils.tuning import INNER, MOST_SIDE, NEGLIGIBLE, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.column_generation.atoms import Atoms
from qsdp.column_generation.restricted import (
    RestrictedSolution,
    predict,
    solve_restricted,
    sparsify,
)
from qsdp.gram import Gram, SharedGram
from qsdp.relaxation.bounds import best_scale, best_step, entry_rounding, entry_size
from qsdp.relaxation.instance import Instance, LinearInstance, Reduction

__all__ = ["ATOMS", "DualProof", "Master", "Restricted", "SharedSums"]

#: Atoms added in a round, random starts of a search, and neurons to start near; a third or thrice take as long.
ATOMS = 200

_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class DualProof:
    """Feasible dual vector derived from that of a master problem, and the bound that it proves.

    Attributes
    ----------
    value : float
        The bound.
    nu : ndarray of shape (n, C)
    scale : float
        Factor by which the trees of the master's dual vector must be scaled to bound the pricing values of `nu`.
    excess : float
        Largest excess of the pricing values of `nu` over `scale` times those of the master's dual vector.
    """

    value: float
    nu: FloatArray
    scale: float
    excess: float

    def largest(self, upper: float) -> float:
        """Bound the pricing values of `nu` by `upper`, the bound on those of the master's dual vector."""
        return self.scale * upper + self.excess


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
        return self._gram.of(normal.map, self._targets, normal.fit.weights, np.float64, None)

    def reduction(self, normal: Instance) -> Reduction:
        """Return the reduction of all outputs; it belongs to the normalised instance of the first that needs it."""
        if self._reduction is None:
            self._reduction = Reduction(normal, self._targets)
        return self._reduction


class Restricted(ABC):
    """Restricted problem of column generation: the atoms found so far, their weights, and a dual vector.

    Parameters
    ----------
    instance : Instance
        Instance of one output, or of all outputs that a loss couples, in its own units. Its dual radius w is the
        penalty of a weight of one.

    Attributes
    ----------
    atoms : Atoms
    weights : ndarray of shape (k,)
    objective : float
        Objective of the last solution, in units of the instance.
    """

    objective: float

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.normal, self.units = instance.normalised()
        empty = np.zeros((0, instance.size), dtype=np.int8)
        self.atoms, self.weights = Atoms.of(empty, empty), np.zeros(0)
        self._known: set[bytes] = set()
        #: The dual vector of the last solution or of `pull`, and the centre of `pull`.
        self._dual: Any = None
        self._centre: Any = None

    @property
    @abstractmethod
    def small(self) -> bool:
        """Whether all products are too small to benefit from several threads."""

    @property
    def n_neurons(self) -> int:
        """Approximate number of atoms with positive weights, apart from tiny ones due to a barrier."""
        return int((self.weights > SMALL * self.weights.max(initial=0.0)).sum())

    @abstractmethod
    def matrices(self) -> FloatArray:
        """Return the matrices (K, N, N) of the dual vector, in units of the instance."""

    def add(self, atoms: Atoms) -> int:
        """Add the atoms that are not present yet, and return their number."""
        atoms = atoms.unknown(self._known)
        self._append(atoms)
        self.atoms = self.atoms + atoms
        self.weights = np.concatenate([self.weights, np.zeros(len(atoms))])
        return len(atoms)

    @abstractmethod
    def _append(self, atoms: Atoms) -> None:
        """Store what is needed of new atoms."""

    @abstractmethod
    def solve(self, tol: float) -> None:
        """Solve to a relative duality gap `tol`."""

    def select(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep only the atoms with the given indices."""
        self.atoms, self.weights = self.atoms[rows], self.weights[rows]
        self._known = set(self.atoms.keys())

    def gap(self, upper: float) -> float:
        """Compute the relative gap to the bound that the dual vector proves if no pricing value exceeds `upper`."""
        return relative(self.objective - self.proof(upper).value, self.objective)

    @abstractmethod
    def proof(self, upper: float) -> DualProof:
        """Compute the best bound that the dual vector proves if no pricing value exceeds `upper`."""

    @abstractmethod
    def centre_on(self, best: DualProof) -> None:
        """Set the stability centre of `pull` to the dual vector of a proof."""

    def pull(self) -> Any:
        """Stabilise: move the dual vector halfway towards the centre; return the old one for `release`."""
        own = self._dual
        self._dual = self._halfway()
        return own

    @abstractmethod
    def _halfway(self) -> Any:
        """Return the mean of the dual vector and the centre."""

    def release(self, own: Any) -> None:
        """Undo `pull`."""
        self._dual = own

    @abstractmethod
    def prune(self) -> None:
        """Drop atoms if there are too many."""

    @abstractmethod
    def support(self, tol: float = NEGLIGIBLE) -> tuple[Atoms, FloatArray]:
        """Solve with few atoms; return them and their weights, in units of the instance."""

    def _sparse(self, columns: FloatArray) -> tuple[npt.NDArray[np.intp], FloatArray]:
        """Return the used atoms, and weights of linearly independent ones of them, for columns (r, k) of all atoms."""
        used = np.flatnonzero(self.weights > ROUNDING * self.weights.max(initial=0.0))
        weights = self.weights[used].copy()
        for output in np.unique(self.atoms.outputs[used]):
            mine = self.atoms.outputs[used] == output
            penalties = np.full(int(mine.sum()), self.normal.dual_radius)
            weights[mine] = sparsify(columns[:, used[mine]], weights[mine], penalties)
        return used, weights


class Master(Restricted):
    r"""Master problem: minimise :math:`\ell + w \sum_j a_j` over the non-negative weights of the current atoms.

    Parameters
    ----------
    instance : Instance
    shared : SharedSums, optional
        Sums of all outputs of the problem; None if there is only this instance.
    output : int, default=0
        Index of the instance's output among them.
    """

    def __init__(self, instance: Instance, shared: SharedSums | None = None, output: int = 0) -> None:
        super().__init__(instance)
        self._working: LinearInstance = self.normal
        self._constant = 0.0
        self._reduction: tuple[Reduction, LinearInstance] | None = None
        self._residual: _Residual | None = None
        p = instance.map.layout.n_entries
        if Reduction.applies(instance) and p <= MOST_SIDE:
            with suppress(TimeOver):
                self._reduce(shared or SharedSums(instance.target), output)
        self._columns = np.zeros((len(self._working.target), 0))
        self.objective = instance.fit.value_at_zero
        self._dual = self._lifted(self._working.fit.zero_dual)
        self._centre = self._dual

    def _reduce(self, shared: SharedSums, output: int) -> None:
        reduction = shared.reduction(self.normal)
        self._working = reduced = reduction.reduced(self.normal, self.units, output)
        self._reduction = reduction, reduced
        self._constant = max(0.0, self.normal.fit.value_at_zero - self._working.fit.value_at_zero)
        self._residual = self._left_out()

    @property
    def nu(self) -> FloatArray:
        """Dual vector of the last solution, feasible for the current atoms."""
        nu: FloatArray = self._dual * (self.units.value / self.units.prediction)
        return nu

    def matrices(self) -> FloatArray:
        """Return the matrices of the dual vector."""
        return self.instance.adjoints(self.nu)

    @property
    def small(self) -> bool:
        """Whether all products are too small to benefit from several threads."""
        n_entries = len(self.instance.target) * self.instance.size
        return max(n_entries, len(self._working.target) ** 2) <= WORK_FLOATS

    def _append(self, atoms: Atoms) -> None:
        self._columns = np.hstack([self._columns, self._products(self._working, atoms)])

    @staticmethod
    def _products(instance: LinearInstance, atoms: Atoms) -> FloatArray:
        return instance.map.products(atoms.U, atoms.V, atoms.block) * atoms.signs

    def solve(self, tol: float) -> None:
        """Solve to a relative duality gap `tol`; a solution stopped by a time limit only counts if it is better."""
        if not len(self.atoms):
            return
        solution = self._solve(tol)
        if self._reduction is not None:
            true = self._objective(solution.weights)
            if abs(solution.objective + self._constant - true) > HALF_DIGITS * true:
                self._restore()
                solution = self._solve(tol)
        if not deadline.over() or solution.objective < self._inner_objective():
            self.weights = solution.weights
            self.objective = (solution.objective + self._constant) * self.units.value
            self._dual = self._lifted(solution.nu)

    def _objective(self, weights: FloatArray) -> float:
        """Evaluate the objective of one output's weights on all rows, in units of the normalised instance."""
        normal = self.normal
        used = np.flatnonzero(weights)
        atoms = self.atoms[used]
        owners = np.arange(normal.map.n_blocks)[:, None] == atoms.block
        S = ((atoms.U.T * (weights[used] * atoms.signs)) * owners[:, None]) @ atoms.V.astype(np.float64)
        prediction = normal.map.forwards(0.5 * (S + S.swapaxes(1, 2)))
        return normal.fit.value(prediction) + normal.dual_radius * float(weights.sum())

    def _restore(self) -> None:
        """Undo the reduction and use all rows, if the reduction is too inaccurate (it squares the data)."""
        self._working, self._constant, self._reduction, self._residual = self.normal, 0.0, None, None
        self._columns = self._products(self.normal, self.atoms)

    def _solve(self, tol: float, chosen: npt.NDArray[np.intp] | slice = _ALL) -> RestrictedSolution:
        working = self._working
        share = 1.0
        if self._constant:
            # The gap is relative to the whole objective, most of which may be the constant.
            share = max(1.0, (self.objective / self.units.value) / max(self._inner_objective(), 1e-300))
        tol = max(tol, min(tol * share, INNER))
        atoms = self.atoms[chosen]
        penalties = np.full(len(atoms), working.dual_radius)
        outputs = working.fit.coupled_outputs(atoms.outputs)
        columns = self._columns[:, chosen]
        start = self.weights[chosen]
        return solve_restricted(columns, working.fit, penalties, outputs=outputs, tol=tol, start=start)

    def _inner_objective(self) -> float:
        return self.objective / self.units.value - self._constant

    def _lifted(self, dual: FloatArray) -> FloatArray:
        if self._reduction is None:
            return dual
        reduction, reduced = self._reduction
        return reduction.lift_dual(dual, reduced, self.normal)

    def _left_out(self) -> _Residual:
        nu = self._lifted(np.zeros_like(self._working.target))
        units = self.units.value / self.units.prediction
        data, own = self.instance.map, nu * units
        entries = np.abs(data.adjoints(own)).sum(axis=(1, 2))
        # If a matrix changes by these entries, a tree's bound grows by at most its side times half of their sum.
        upper = float(((data.size + 1) * entries + 2.0 * entry_rounding(data, own)).max())
        return _Residual(nu, upper, 4.0 * EPS * float(entry_size(data, own).max()))

    def centre_on(self, best: DualProof) -> None:
        """Set the stability centre of `pull` to the dual vector of a proof."""
        self._centre = best.nu * (self.units.prediction / self.units.value)

    def _halfway(self) -> FloatArray:
        return np.asarray(0.5 * (self._centre + self._dual))

    def proof(self, upper: float) -> DualProof:
        r"""Compute the best bound that `nu` proves if no pricing value exceeds `upper`, and its dual vector.

        This vector is :math:`s \nu` or, with the residual of a reduction, :math:`\nu_0 + s (\nu - \nu_0)`, as the
        residual need not shrink with the rest. Value and feasibility refer to all rows of the data.
        """
        units, dual_radius = self.units.value / self.units.prediction, self.instance.dual_radius
        scale = best_scale(self.normal.fit, self._dual, dual_radius / upper if upper > 0.0 else math.inf)
        best = DualProof(self._value(scale * self._dual), units * (scale * self._dual), scale, 0.0)
        residual = self._residual
        if residual is not None and (largest := residual.largest(dual_radius, upper)) > 0.0:
            direction = self._dual - residual.nu
            step = best_step(self.normal.fit, residual.nu, direction, largest)
            moved = residual.nu + step * direction
            if (value := self._value(moved)) > best.value:
                best = DualProof(value, units * moved, step, abs(1.0 - step) * residual.upper + residual.spare)
        return best

    def _value(self, nu: FloatArray) -> float:
        return max(0.0, self.normal.guarded_dual_value(nu) * self.units.value)

    def prune(self) -> None:
        """Drop the atoms of smallest weight if there are too many for the limit or for memory."""
        dimension = len(self.instance.target.T) * self.instance.map.layout.n_entries
        # Half or twice as many take as long. Columns and copies of them may take half of the memory.
        most = min(MOST_SIDE, 3 * max(ATOMS, 2 * dimension))
        column = 4 * self._columns.itemsize * max(len(self._columns), 1)
        most = max(2, int(min(most, 0.5 * main_memory() / column)))
        if len(self.atoms) > most:
            # Positive weights of an interior point are inversely proportional to reduced costs. Of equal weights, the
            # latest stay.
            self.select(np.sort(np.lexsort((-np.arange(len(self.weights)), -self.weights))[: most // 2]))
            value = self._evaluate(np.arange(len(self.atoms)), self.weights)
            self.objective = (value + self._constant) * self.units.value

    def select(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep only the atoms with the given indices."""
        super().select(rows)
        self._columns = np.ascontiguousarray(self._columns[:, rows])

    def support(self, tol: float = NEGLIGIBLE) -> tuple[Atoms, FloatArray]:
        """Solve the restricted problem with few atoms, at most n per output; return them and their weights.

        The weights are in units of the instance. After a time limit, they are the last ones, and atoms may be more.
        """
        self.solve(tol)
        used, weights = self._sparse(self._columns)
        few, few_weights = used[weights > 0.0], weights[weights > 0.0]
        if len(few):
            # The remaining weights compensate for those left out and for rounding.
            again = self._solve(tol, few)
            if again.objective < self._evaluate(few, few_weights):
                few_weights = again.weights
        # Fewer neurons must not cost accuracy.
        many, many_weights = used, self.weights[used]
        best = self._evaluate(many, many_weights)
        if self._evaluate(few, few_weights) <= best + ROUNDING * (best + self._constant):
            many, many_weights = few, few_weights
        return self.atoms[many], many_weights * self.units.weight

    def _evaluate(self, used: npt.NDArray[np.intp], weights: FloatArray) -> float:
        working = self._working
        outputs = working.fit.coupled_outputs(self.atoms.outputs[used])
        prediction = predict(self._columns[:, used], weights, working.target, outputs)
        return working.fit.value(prediction) + working.dual_radius * float(weights.sum())
