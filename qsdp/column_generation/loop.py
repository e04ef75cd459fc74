"""The loop of column generation: solve the restricted problem, price, add columns, until the gap is closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.gap import relative
from qsdp.column_generation.master import Atoms, DualProof, Master
from qsdp.pricing import BoundTree, OracleResult

__all__ = ["ATOMS", "CLOSING", "NEIGHBOURS", "STARTS", "Outcome", "PricingResult", "Round", "generate"]

#: Atoms added in a round, random starts of a search, and most used neurons near which it also starts. Four proofs, and
#: six seconds of a fifth that is not proven, take 12.1 s of CPU time. It is 10.9 and 12.0 s with 100 and 400 atoms,
#: 11.9 and 12.2 with 100 and 1000 starts, 12.9 and 11.5 with 30 and 300 neurons. The gap of the fifth does not change.
ATOMS, STARTS, NEIGHBOURS = 200, 300, 100

#: Share of the time reserved for the last weights and their sparsification; a limit may be exceeded by as much.
CLOSING = 0.1

#: Relative gap up to which the last weights are computed as accurately as possible.
_CLOSED = 1e-5

#: Accuracy of the restricted problem as a share of the gap. Its dual vector then stays well inside, where few atoms,
#: and the right ones, have negative reduced costs. Six proofs (see `PricingRule`) take 0.97 of the time with 0.03, 1.15
#: with 0.3, and 1.1 with a coarsest of 1e-3 or 5e-2. Other gaps and patience change nothing.
_ACCURACY = 0.1
_COARSEST, _FINEST = 1e-2, 1e-12

#: Number of rounds without a smaller gap after which rounding dominates.
_PATIENCE = 40

#: Share of the way that the master's dual vector moves to that of the best bound after a proven round that did not
#: help. With it, 8 of 8 proofs of vehicle finish (19 inputs, beta 0.1 and 0.2, four seeds), without it 1; of six sets,
#: 36 and 34 of 36 in 13 and 19 s. Rounds without a proof tell nothing: with the same move after those, 34 inputs take
#: 1.17 of the time.
_PULL = 0.5


@dataclass(frozen=True, eq=False)
class PricingResult:
    r"""Atoms of negative reduced cost, and bounds on the largest pricing value :math:`|u^T M_\nu v|`.

    Attributes
    ----------
    atoms : Atoms
    value : float
        Largest pricing value found.
    upper : float
        Upper bound on the pricing values of all atoms; infinite if none was proven.
    uppers : tuple of float
        Upper bound for each output.
    trees : tuple of BoundTree
        Proofs of `uppers`, one per output; empty if nothing was proven or the proof needs no tree.
    exact : bool
        Whether `upper` is the largest value up to rounding.
    """

    atoms: Atoms
    value: float
    upper: float = np.inf
    uppers: tuple[float, ...] = ()
    trees: tuple[BoundTree, ...] = ()
    exact: bool = False

    @classmethod
    def of(cls, results: Sequence[OracleResult]) -> PricingResult:
        """Combine what an oracle found or proved for each output."""
        return cls(
            Atoms.of_outputs([Atoms.of(result.U, result.V, result.sign) for result in results]),
            max(result.value for result in results),
            max(result.upper for result in results),
            tuple(result.upper for result in results),
            tuple(tree for result in results for tree in result.trees),
            all(result.exact for result in results),
        )


@dataclass(frozen=True)
class Round:
    """Progress after a round; objective and bound are those of one `output` if outputs are trained separately."""

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
    """Outcome of the loop: its status, its best proof, and the pricing of the dual vector behind that proof."""

    status: str
    proof: DualProof | None
    priced: PricingResult | None
    gap: float

    @property
    def accuracy(self) -> float:
        """Accuracy of the last weights: the finest, at which few neurons remain, unless a large gap is left."""
        return _FINEST if self.gap <= _CLOSED else min(1e-6, 0.01 * self.gap)


def generate(
    master: Master,
    pricing: Callable[[Master, float], PricingResult],
    *,
    tol: float,
    deadline: Deadline = NEVER,
    floor: Callable[[], float] = lambda: 0.0,
    raise_floor: Callable[[], bool] = lambda: False,
    report: Callable[[Round], None] | None = None,
) -> Outcome:
    """Generate columns until the relative gap is at most `tol`, time is over, or rounds no longer improve.

    The master is changed in place and holds the last atoms on return. `pricing` takes the master and the relative gap
    reached. `floor` returns a lower bound known from elsewhere, in units of the master's instance, which may grow with
    the rounds. Once columns no longer help, `raise_floor` is called until it returns false or time is over. The status
    is "optimal", "time limit", "stalled" or "interrupted".
    """
    proof: DualProof | None = None
    priced: PricingResult | None = None
    number, gap, accuracy = 0, 1.0, _COARSEST
    least, since, in_time, proven = np.inf, 0, True, False

    def price() -> PricingResult:
        """Price the master's dual vector, update the best proof, and end the round."""
        nonlocal proof, priced, gap, number
        number += 1
        found = pricing(master, gap)
        if np.isfinite(found.upper):
            candidate = master.proof(found.upper)
            if proof is None or candidate.value > proof.value:
                proof, priced = candidate, found
                master.centre_on(candidate)
        gap = relative_gap()
        return found

    def relative_gap() -> float:
        """Report the end of a round, and return the gap reached."""
        bound = max(floor(), proof.value if proof else 0.0)
        reached = relative(master.objective - bound, master.objective)
        if report is not None:
            sizes = len(master.atoms), master.n_neurons
            report(Round(number, master.objective, bound, reached, *sizes, deadline.elapsed))
        return reached

    try:
        while since < _PATIENCE:
            in_time = master.solve(accuracy, deadline)
            own = master.pull(_PULL) if since and proven else None
            found = price()
            proven = bool(np.isfinite(found.upper))
            # This would be the gap if no pricing value exceeded those found; a search alone proves nothing.
            promised = min(gap, max(master.gap(found.value), 0.0))
            least, since = (promised, 0) if promised < 0.99 * least else (least, since + 1)
            if gap <= tol:
                return Outcome("optimal", proof, priced, gap)
            if deadline.over:
                return Outcome("time limit", proof, priced, gap)
            if not in_time:
                break
            master.prune()
            added = master.add(found.atoms, deadline)
            if not added and own is not None:
                # The pulled vector lacks no atom and gives a better bound; the master's own shows which are missing.
                master.release(own)
                added = master.add(price().atoms, deadline)
                if gap <= tol:
                    return Outcome("optimal", proof, priced, gap)
            if added:
                # If nothing improves, the dual vector is too far from the optimal one to show which are missing.
                accuracy = min(_COARSEST, max(_ACCURACY * promised * 0.5**since, _FINEST))
            elif accuracy <= _FINEST:
                break
            else:
                accuracy = max(0.01 * accuracy, _FINEST)
        # The time left may suffice for a round of the floor even if not for columns.
        while not deadline.over and raise_floor():
            number += 1
            gap = relative_gap()
            if gap <= tol:
                return Outcome("optimal", proof, priced, gap)
    except KeyboardInterrupt:
        return Outcome("interrupted", proof, priced, gap)
    return Outcome("time limit" if deadline.over or not in_time else "stalled", proof, priced, gap)
