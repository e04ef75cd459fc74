"""Main loop of column generation: solve the restricted problem, price, add columns, until the gap is closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.gap import relative
from qsdp._utils.numeric import EPS
from qsdp._utils.tuning import GAIN, HALVINGS, INNER, NEGLIGIBLE, PROGRESS, ROUGH
from qsdp.block_layout import Layout
from qsdp.column_generation._row_program import ATOMS, FeasibleDual
from qsdp.column_generation.master import Master
from qsdp.pricing import OracleResult
from qsdp.pricing.atoms import Atoms

__all__ = ["ATOMS", "Outcome", "PricingResult", "Round", "generate"]


@dataclass(frozen=True, eq=False)
class PricingResult:
    r"""Atoms of negative reduced cost, and bounds on the largest pricing value :math:`|u^T M_\nu v|`.

    Columns with real weights have a value, too, the magnitude of their sum, which is exact.

    Attributes
    ----------
    atoms : Atoms
    value : float
        Largest pricing value found.
    upper : float
        Upper bound on the pricing values of all atoms; infinite if none was proven.
    results : tuple of OracleResult
        Result of the oracle for each matrix, with the trees that prove its bound; empty if the bound needs no tree.
    """

    atoms: Atoms
    value: float
    upper: float = np.inf
    results: tuple[OracleResult, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the bound of each matrix is its largest pricing value up to rounding."""
        return all(result.exact for result in self.results)

    @classmethod
    def combine(
        cls,
        results: Sequence[OracleResult],
        layout: Layout | None = None,
        real: Atoms | None = None,
        largest: float = 0.0,
    ) -> PricingResult:
        """Combine the results of an oracle for all outputs and blocks with atoms of real weights and their value."""
        atoms = real
        if results:
            atoms = Atoms.of_outputs([Atoms.from_signs(result.U, result.V) for result in results])
            atoms = atoms if layout is None else atoms.in_blocks(layout)
            atoms = atoms if real is None else atoms + real
        assert atoms is not None
        return cls(
            atoms,
            max([largest, *(result.value for result in results)]),
            max([largest, *(result.upper for result in results)]),
            tuple(results),
        )


@dataclass(frozen=True)
class Round:
    """Progress after a round; objective and bound refer to one `output` if outputs are trained separately."""

    number: int
    objective: float
    lower_bound: float
    relative_gap: float
    n_columns: int
    n_neurons: int
    seconds: float
    output: int = 0


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of the loop: its status, the dual vector of the best bound, and the pricing result that proves it."""

    status: str
    dual: FeasibleDual | None
    priced: PricingResult | None
    gap: float

    @property
    def accuracy(self) -> float:
        """Accuracy of the final weights: high, which leaves few neurons, unless the gap is large."""
        return 64.0 * EPS if self.gap <= GAIN else GAIN * self.gap


def generate(
    master: Master,
    pricing: Callable[[Any, float], PricingResult],
    *,
    tol: float,
    other_bound: Callable[[], float] = lambda: 0.0,
    improve: Callable[[], bool] = lambda: False,
    report: Callable[[Round], None] = lambda state: None,
) -> Outcome:
    """Generate columns until the relative gap is at most `tol`, a time limit passes, or progress stalls.

    The master is changed in place and contains the final atoms on return. `pricing` is called with the master and the
    current relative gap. `other_bound` returns a lower bound from another source, in units of the master's
    instance, which may grow with the rounds. Once columns no longer help, `improve`, which raises that bound, is called
    until it returns False or the time limit passes. The status is "optimal", "time limit", "stalled" or "interrupted".
    """
    rounds = _Rounds(master, pricing, tol, other_bound, report)
    try:
        status = rounds.add_columns() or rounds.improve_bound(improve)
    except KeyboardInterrupt:
        status = "interrupted"
    return Outcome(status, rounds.dual, rounds.priced, rounds.gap)


class _Rounds:
    """State of `generate`: the dual vector of the best bound so far and the current gap."""

    def __init__(
        self,
        master: Master,
        pricing: Callable[[Any, float], PricingResult],
        tol: float,
        other_bound: Callable[[], float],
        report: Callable[[Round], None],
    ) -> None:
        self.master, self._pricing, self._tol = master, pricing, tol
        self._other_bound, self._report = other_bound, report
        self.dual: FeasibleDual | None = None
        self.priced: PricingResult | None = None
        self._number, self.gap = 0, 1.0

    def add_columns(self) -> str | None:
        """Solve, price and add columns; return the status, or None once columns no longer help."""
        master, accuracy = self.master, ROUGH
        smallest, since, proven = np.inf, 0, False
        while since < HALVINGS:
            master.solve(accuracy)
            unsmoothed: Any = master.smooth_dual() if since and proven else None
            priced = self._price()
            proven = bool(np.isfinite(priced.upper))
            # This would be the gap if no pricing value exceeded those found; a heuristic search alone proves nothing.
            promised = min(self.gap, max(master.gap(priced.value), 0.0))
            smallest, since = (promised, 0) if promised < PROGRESS * smallest else (smallest, since + 1)
            if self.gap <= self._tol:
                return "optimal"
            if deadline.over():
                return "time limit"
            master.prune()
            added = master.add(priced.atoms)
            if not added and unsmoothed is not None:
                # The stabilised vector violates no constraint and gives a better bound; the original may violate some.
                master.undo_smoothing(unsmoothed)
                added = master.add(self._price().atoms)
                if self.gap <= self._tol:
                    return "optimal"
            if added:
                # If nothing improves, the dual vector is too far from the optimal one to show which are missing.
                accuracy = min(ROUGH, max(INNER * promised * 0.5**since, NEGLIGIBLE))
            elif accuracy <= NEGLIGIBLE:
                return None
            else:
                accuracy = max(ROUGH * accuracy, NEGLIGIBLE)
        return None

    def improve_bound(self, improve: Callable[[], bool]) -> str:
        """Improve the lower bound of the other source until that no longer helps; return the status."""
        while not deadline.over() and improve():
            self._end_round()
            if self.gap <= self._tol:
                return "optimal"
        return "time limit" if deadline.over() else "stalled"

    def _price(self) -> PricingResult:
        """Price the master's dual vector, update the best bound, and end the round."""
        priced = self._pricing(self.master, self.gap)
        if np.isfinite(priced.upper):
            candidate = self.master.feasible_dual(priced.upper)
            if self.dual is None or candidate.value > self.dual.value:
                self.dual, self.priced = candidate, priced
                self.master.set_centre(candidate)
        self._end_round()
        return priced

    def _end_round(self) -> None:
        """Update the gap, and report the round."""
        self._number += 1
        master = self.master
        bound = max(self._other_bound(), self.dual.value if self.dual else 0.0)
        self.gap = relative(master.objective - bound, master.objective)
        sizes = len(master.atoms), master.n_neurons
        self._report(Round(self._number, master.objective, bound, self.gap, *sizes, deadline.elapsed()))
