"""The restricted problem of column generation: the neurons in hand, and their best second layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._validation import FloatArray
from qsdp.refinement.restricted import GrowingColumns, RestrictedSolution, solve_restricted, sparsify
from qsdp.relaxation.bounds import best_scale, dual_value
from qsdp.relaxation.instance import GramReduction, Instance

__all__ = ["Atoms", "Master"]

#: Sides of the Gram matrix up to which its eigendecomposition is cheap beside the rounds it saves.
_LARGEST_GRAM = 2500

#: Rows, and entries of the data, up to which one thread is as fast as several, and undisturbed by others' work.
_FEW_ROWS, _SMALL_DATA = 600, 2**20

#: Rows from which columns of the squared loss are kept in a basis that grows with them, too; columns are fewer.
_MANY_ROWS = 5000

#: Weights below this share of the largest one are left of the barrier, no neurons.
_NEGLIGIBLE = 1e-9

#: Accuracy beyond which a solution is none.
_COARSEST = 0.05

#: Relative difference of objectives that counts as none.
_EQUAL = 1e-10

#: Columns kept: a multiple of the dimension of the data's quadratic forms, at least and at most.
_MULTIPLE, _FEW, _MAX_COLUMNS = 6, 600, 3000

_ALL = slice(None)

Weights = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Atoms:
    r"""Neurons with a sign each: atom j is :math:`\pm \langle \mathcal{X}_i, u_j v_j^T \rangle`.

    Attributes
    ----------
    U, V : ndarray of shape (k, N), int8
    signs : ndarray of shape (k,), int8
    outputs : ndarray of shape (k,)
        Which output each one feeds.
    """

    U: Weights
    V: Weights
    signs: Weights
    outputs: npt.NDArray[np.intp]

    @classmethod
    def of(cls, U: npt.NDArray[Any], V: npt.NDArray[Any], signs: Any = None, output: int = 0) -> Atoms:
        """Return atoms of one output."""
        signs = np.ones(len(U)) if signs is None else signs
        outputs = np.full(len(U), output)
        return cls(U.astype(np.int8), V.astype(np.int8), np.asarray(signs).astype(np.int8), outputs)

    def __len__(self) -> int:
        return len(self.U)

    def __getitem__(self, rows: Any) -> Atoms:
        return Atoms(self.U[rows], self.V[rows], self.signs[rows], self.outputs[rows])

    def __add__(self, other: Atoms) -> Atoms:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Atoms(*(np.concatenate(pair) for pair in pairs))

    def keys(self) -> list[bytes]:
        """Return what tells atoms apart: (u, v), (v, u) and (-u, -v) are the same, (u, -v) has the other sign."""
        oriented, signs = [], self.signs.copy()
        for side in (self.U, self.V):
            first = side[np.arange(len(side)), np.argmax(side != 0, axis=1)]
            orientation = np.where(first < 0, np.int8(-1), np.int8(1))
            signs *= orientation
            oriented.append([row.tobytes() for row in side * orientation[:, None]])
        rest = [row.tobytes() for row in np.stack([self.outputs, signs > 0], axis=1).astype(np.int64)]
        return [min(u, v) + max(u, v) + last for u, v, last in zip(*oriented, rest, strict=True)]


class Master:
    r"""Minimise :math:`\ell + w \sum_j a_j` over the non-negative weights of the atoms in hand.

    Parameters
    ----------
    instance : Instance
        Of a scalar problem, or of all outputs of a coupled one, in its own units; its capacity w is the price of
        an atom.

    Attributes
    ----------
    atoms : Atoms
    weights : ndarray of shape (k,)
    nu : ndarray in the shape of the target
        Dual vector of the last solution, feasible for the atoms in hand.
    objective : float
        Of the last solution. `objective` and `nu` are in the units of the instance.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.normal, self.units = instance.normalised()
        self._working, self._reduction, self._constant = self.normal, None, 0.0
        n, p = len(instance.target), instance.size * (instance.size + 1) // 2
        squared = instance.loss.name == "squared" and instance.target.ndim == 1
        if squared and n > p and p <= _LARGEST_GRAM:
            reduction = GramReduction(self.normal, instance.target[:, None])
            self._reduction = reduction
            self._working = reduction.reduced(self.normal, self.units, 0)
            sizes = [float(one.target @ one.target) for one in (self.normal, self._working)]
            self._constant = max(0.0, sizes[0] - sizes[1])
        empty = np.zeros((0, instance.size), dtype=np.int8)
        self.atoms = Atoms.of(empty, empty)
        self.weights = np.zeros(0)
        self._columns = np.zeros((len(self._working.target), 0))
        many = len(self._working.target) > _MANY_ROWS
        self._growing = GrowingColumns(self._working.target) if squared and many else None
        self._known: set[bytes] = set()
        self.objective = instance.loss.value(np.zeros_like(instance.target), instance.target)
        working = self._working
        self._dual = -working.loss.gradient(np.zeros_like(working.target), working.target)
        self.nu = self._lifted(self._dual)

    @property
    def small(self) -> bool:
        """Whether all products are too small for several threads."""
        n_entries = len(self.instance.target) * self.instance.size
        return len(self._working.target) <= _FEW_ROWS and n_entries <= _SMALL_DATA

    @property
    def n_neurons(self) -> int:
        """Number of atoms whose weight is more than what a barrier leaves, about."""
        return int((self.weights > 1e-3 * self.weights.max(initial=0.0)).sum())

    def add(self, atoms: Atoms) -> int:
        """Take in the atoms that are new and return their number."""
        keys = atoms.keys()
        fresh = []
        for j, key in enumerate(keys):
            if key not in self._known:
                self._known.add(key)
                fresh.append(j)
        atoms = atoms[fresh]
        columns = self._working.map.products(atoms.U, atoms.V) * atoms.signs
        self.atoms = self.atoms + atoms
        self._columns = np.hstack([self._columns, columns])
        if self._growing is not None:
            self._growing.add(columns)
        self.weights = np.concatenate([self.weights, np.zeros(len(atoms))])
        return len(atoms)

    def solve(self, tol: float) -> None:
        """Solve to a relative duality gap `tol`."""
        if len(self.atoms):
            self._keep(self._solve(tol))

    def _solve(self, tol: float, chosen: npt.NDArray[np.intp] | slice = _ALL) -> RestrictedSolution:
        working = self._working
        share = 1.0
        if self._constant:
            # The gap is relative to the objective as a whole, which may be mostly the constant.
            share = max(1.0, (self.objective / self.units.value) / max(self._inner_objective(), 1e-300))
        tol = max(tol, min(tol * share, _COARSEST))
        atoms = self.atoms[chosen]
        prices = np.full(len(atoms), working.capacity)
        if self._growing is not None:
            return self._growing.solve(chosen, working.loss, prices, tol)
        outputs = atoms.outputs if working.target.ndim == 2 else None
        return solve_restricted(
            self._columns[:, chosen], working.loss, working.target, prices, outputs=outputs, tol=tol
        )

    def _inner_objective(self) -> float:
        return self.objective / self.units.value - self._constant

    def _keep(self, solution: RestrictedSolution) -> None:
        self.weights = solution.weights
        self.objective = (solution.objective + self._constant) * self.units.value
        self._dual = solution.nu
        self.nu = self._lifted(self._dual)

    def _lifted(self, dual: FloatArray) -> FloatArray:
        if self._reduction is not None:
            dual = self._reduction.lift_dual(dual, self._working, self.normal)
        return dual * (self.units.value / self.units.prediction)

    def bound(self, price: float) -> float:
        """Return the lower bound that `nu` proves if no atom is worth more than `price`."""
        return self._bound(self._scale(price))

    def proof(self, price: float) -> tuple[float, FloatArray, float]:
        """Return the bound, its dual vector, and the scale s by which the matrices of `nu` become those of it.

        What of `nu` no atom sees, the residual outside the range of a reduction, is not scaled.
        """
        scale = self._scale(price)
        return self._bound(scale), self._lifted(scale * self._dual), scale

    def _scale(self, price: float) -> float:
        largest = self.instance.capacity / price if price > 0.0 else math.inf
        return best_scale(self._working, self._dual, largest)

    def _bound(self, scale: float) -> float:
        value = dual_value(self._working, scale * self._dual) + self._constant
        return max(0.0, value * self.units.value)

    def prune(self) -> None:
        """Give up the atoms of least weight once they are too many."""
        N = self.instance.size
        most = min(_MAX_COLUMNS, max(_FEW, _MULTIPLE * self.instance.n_blocks * N * (N + 1) // 2))
        if len(self.atoms) > most:
            # All weights are positive until the end, and inversely as what an atom lacks of its price.
            self._select(np.sort(np.argsort(-self.weights)[: most // 2]))

    def _select(self, rows: npt.NDArray[np.intp]) -> None:
        self.atoms, self.weights = self.atoms[rows], self.weights[rows]
        self._columns = np.ascontiguousarray(self._columns[:, rows])
        if self._growing is not None:
            self._growing.select(rows)
        self._known = set(self.atoms.keys())

    def support(self, tol: float = 1e-12) -> tuple[Atoms, FloatArray]:
        """Return few atoms with weights that solve the restricted problem: at most n of one output.

        Their weights are in the units of the instance.
        """
        self.solve(tol)
        used = np.flatnonzero(self.weights > _NEGLIGIBLE * self.weights.max(initial=0.0))
        weights = self.weights[used].copy()
        capacity = self._working.capacity
        # What depends on what is the same in any basis.
        columns = self._columns if self._growing is None else self._growing.rows
        for output in np.unique(self.atoms.outputs[used]):
            mine = self.atoms.outputs[used] == output
            weights[mine] = sparsify(columns[:, used[mine]], weights[mine], np.full(int(mine.sum()), capacity))
        few, few_weights = used[weights > 0.0], weights[weights > 0.0]
        if len(few):
            # What was left out, and moved, is made good for by the rest.
            again = self._solve(tol, few)
            if again.objective < self._evaluate(few, few_weights):
                few_weights = again.weights
        # Fewer neurons must not cost accuracy.
        many, many_weights = used, self.weights[used]
        best = self._evaluate(many, many_weights)
        if self._evaluate(few, few_weights) <= best + _EQUAL * (best + self._constant):
            many, many_weights = few, few_weights
        return self.atoms[many], many_weights * self.units.weight

    def _evaluate(self, used: npt.NDArray[np.intp], weights: FloatArray) -> float:
        working = self._working
        if working.target.ndim == 1:
            prediction = self._columns[:, used] @ weights
        else:
            prediction = np.zeros_like(working.target)
            for output in np.unique(self.atoms.outputs[used]):
                mine = self.atoms.outputs[used] == output
                prediction[:, output] = self._columns[:, used[mine]] @ weights[mine]
        return working.loss.value(prediction, working.target) + working.capacity * float(weights.sum())
