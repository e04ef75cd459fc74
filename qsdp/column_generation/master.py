"""Master problem of column generation: the best second layer for the current neurons."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.gap import relative
from qsdp._utils.numeric import ROUNDING
from qsdp._utils.parallel import main_memory
from qsdp._utils.tuning import MAX_SIDE, NEGLIGIBLE, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.column_generation._packed_program import PackedProgram, suits_packed
from qsdp.column_generation._row_program import ATOMS, FeasibleDual, RowProgram, SharedSums
from qsdp.column_generation.restricted import sparsify
from qsdp.pricing.atoms import Atoms
from qsdp.relaxation.instance import Instance

__all__ = ["Master", "SharedSums"]


class Master:
    r"""Master problem: minimise :math:`\ell + w \sum_j a_j` over the non-negative weights of the current atoms.

    Its program is on the samples or, for many samples in blocks, in packed entries: on the samples, 20,000 samples in
    six blocks of side 6 take 1.4 times as long with the squared loss and 16 times with the logistic loss, but 3,000 in
    four blocks of side 5 a third of the time with the squared loss.

    Parameters
    ----------
    instance : Instance
        Instance of one output, or of all outputs that a loss couples, in its own units. Its dual radius w is the
        penalty of a weight of one.
    shared : SharedSums, optional
        Sums of all outputs of the problem; None if there is only this instance.
    output : int, default=0
        Index of the instance's output among them.
    packed : bool, default=True
        Whether packed entries may replace the values of atoms on the samples.

    Attributes
    ----------
    atoms : Atoms
    weights : ndarray of shape (k,)
    objective : float
        Objective of the last solution, in units of the instance.
    """

    def __init__(
        self, instance: Instance, shared: SharedSums | None = None, output: int = 0, *, packed: bool = True
    ) -> None:
        self.instance = instance
        normal, self.units = instance.normalised()
        self._penalty = normal.dual_radius
        kind = PackedProgram if packed and suits_packed(instance) else RowProgram
        shared = shared or SharedSums(instance.target)
        self.program: RowProgram | PackedProgram = kind(instance, normal, self.units, shared, output)
        empty = np.zeros((0, instance.size), dtype=np.int8)
        self.atoms, self.weights = Atoms.from_signs(empty, empty), np.zeros(0)
        self.objective = instance.fit.value_at_zero
        self._known: set[bytes] = set()
        #: The dual vector of the last solution or of `smooth_dual`, and the centre of `smooth_dual`.
        self._dual: Any = self.program.zero_dual
        self._centre: Any = self._dual

    @property
    def small(self) -> bool:
        """Whether all products are too small to benefit from several threads."""
        return self.program.small

    @property
    def n_neurons(self) -> int:
        """Approximate number of atoms with positive weights, apart from tiny ones due to a barrier."""
        used = self.weights > SMALL * self.weights.max(initial=0.0)
        return int((used & (self.atoms.block < self.instance.map.n_blocks)).sum())

    def pull(self) -> tuple[FloatArray, FloatArray]:
        """Return the matrices (K, N, N) of the dual vector and its sums over columns with real weights (C, p).

        They are in units of the instance.
        """
        return self.program.pull(self._dual)

    def add(self, atoms: Atoms) -> int:
        """Add the atoms that are not present yet, and return their number."""
        atoms = atoms.drop_duplicates(self._known)
        self.program.add(atoms)
        self.atoms = self.atoms + atoms
        self.weights = np.concatenate([self.weights, np.zeros(len(atoms))])
        return len(atoms)

    def solve(self, tol: float) -> None:
        """Solve to a relative duality gap `tol`, or until a time limit passes."""
        solved = self.program.solve(self.atoms, self.weights, self.objective / self.units.value, tol)
        if solved is not None:
            self.weights, self._dual, objective = solved
            self.objective = objective * self.units.value

    def select(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep only the atoms with the given indices."""
        self.atoms, self.weights = self.atoms[rows], self.weights[rows]
        self.program.select(rows)
        self._known = set(self.atoms.keys())

    def prune(self) -> None:
        """Drop the atoms of smallest weight if there are too many for the limit or for memory."""
        columns, weights = self.program.columns, self.weights
        dimension = len(self.instance.target.T) * self.instance.map.layout.n_entries
        # Half or twice as many take as long. Columns and copies of them may take half of the memory.
        limit = min(MAX_SIDE, 3 * max(ATOMS, 2 * dimension))
        limit = max(2, int(min(limit, 0.5 * main_memory() / (4 * columns.itemsize * max(columns.shape[1], 1)))))
        if len(weights) > limit:
            # Weights of an interior point are all positive, and inversely proportional to reduced costs; those of other
            # methods are zero unless they are needed. Of equal weights, the latest stay.
            used = np.count_nonzero(weights)
            count = max(limit // 2, used if used < len(weights) else 0)
            self.select(np.sort(np.lexsort((-np.arange(len(weights)), -weights))[:count]))
            self.objective = self.program.objective(self.atoms, self.weights) * self.units.value

    def gap(self, upper: float) -> float:
        """Compute the relative gap to the bound that the dual vector proves if no pricing value exceeds `upper`."""
        return relative(self.objective - self.feasible_dual(upper).value, self.objective)

    def feasible_dual(self, upper: float) -> FeasibleDual:
        """Derive the feasible dual vector of the best bound from the fact that no pricing value exceeds `upper`."""
        return self.program.feasible_dual(self._dual, upper)

    def set_centre(self, best: FeasibleDual) -> None:
        """Set the stability centre of `smooth_dual` to the dual vector of the best bound."""
        self._centre = best.nu

    def smooth_dual(self) -> Any:
        """Stabilise: move the dual vector halfway towards the centre; return the old one for `undo_smoothing`."""
        before = self._dual
        self._dual = self.program.mean(self._dual, self._centre)
        return before

    def undo_smoothing(self, before: Any) -> None:
        """Undo `smooth_dual`."""
        self._dual = before

    def support(self, tol: float = NEGLIGIBLE) -> tuple[Atoms, FloatArray]:
        """Solve with few atoms, linearly independent for each output; return them and their weights.

        The weights are in units of the instance. After a time limit, they are the last ones, and atoms may be more.
        """
        self.solve(tol)
        program, atoms = self.program, self.atoms
        many = np.where(self.weights > ROUNDING * self.weights.max(initial=0.0), self.weights, 0.0)
        few = self._sparse(many)
        reached = program.objective(atoms, many)
        if np.any(few):
            # The remaining weights compensate for those left out and for rounding.
            few = program.refit(atoms, few, tol)
        # Fewer neurons must not cost accuracy.
        if program.objective(atoms, few) > (1.0 + ROUNDING) * reached:
            few = many
        used = np.flatnonzero(few)
        return atoms[used], few[used] * self.units.weight

    def _sparse(self, weights: FloatArray) -> FloatArray:
        """Return weights of linearly independent columns, for each output, with the same sums of columns."""
        weights, columns = weights.copy(), self.program.columns.T
        for output in np.unique(self.atoms.outputs):
            used = np.flatnonzero((self.atoms.outputs == output) & (weights > 0.0))
            weights[used] = sparsify(columns[:, used], weights[used], np.full(len(used), self._penalty))
        return weights
