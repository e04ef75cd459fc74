"""The loop of column generation: solve the restricted problem, price, add columns, until the gap is closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.gap import relative
from qsdp.column_generation.master import Atoms, DualProof, Master

if TYPE_CHECKING:
    from qsdp.pricing import BoundTree

__all__ = ["Outcome", "PricingResult", "Round", "generate"]

#: Accuracy of the restricted problem as a share of the gap: its dual vector stays well inside, where few atoms
#: have negative reduced costs, and those are the right ones.
_ACCURACY = 0.1
_COARSEST, _FINEST = 1e-2, 1e-12

#: Rounds without a smaller gap after which rounding has taken over.
_PATIENCE = 40


@dataclass(frozen=True, eq=False)
class PricingResult:
    r"""Atoms of negative reduced cost, and bounds of the largest pricing value :math:`|u^T M_\nu v|`.

    Attributes
    ----------
    atoms : Atoms
    value : float
        The largest that was found.
    upper : float
        No atom has a larger one; infinite where that was not proven.
    uppers : tuple of float
        The same for each output.
    trees : tuple of BoundTree
        Proofs of `uppers`, one per output; empty without a proof, or where it needs no tree.
    exact : bool
        Whether `upper` is the largest value up to rounding.
    """

    atoms: Atoms
    value: float
    upper: float = np.inf
    uppers: tuple[float, ...] = ()
    trees: tuple[BoundTree, ...] = ()
    exact: bool = False


@dataclass(frozen=True)
class Round:
    """Progress after a round; objective and bound are those of one output where outputs are trained apart."""

    number: int
    objective: float
    lower_bound: float
    relative_gap: float
    n_columns: int
    n_neurons: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """How the loop ended, the best it proved, and the pricing of the master's dual vector behind that proof."""

    status: str
    proof: DualProof | None
    priced: PricingResult | None
    gap: float


def generate(
    master: Master,
    pricing: Callable[[Master, float], PricingResult],
    *,
    tol: float,
    deadline: Deadline = NEVER,
    floor: float = 0.0,
    report: Callable[[Round], None] | None = None,
) -> Outcome:
    """Generate columns until the relative gap is at most `tol`, time is over, or rounds no longer improve.

    Parameters
    ----------
    master : Master
        Changed in place: on return it holds the last atoms.
    pricing : callable
        Of the master and the relative gap reached; returns a `PricingResult`.
    tol : float
    deadline : Deadline
    floor : float
        A lower bound that is known already, in the units of the master's instance.
    report : callable, optional
        Called after every round.

    Returns
    -------
    Outcome
        With the status "optimal", "time limit", "stalled" or "interrupted".
    """
    proof: DualProof | None = None
    priced: PricingResult | None = None
    number, gap, accuracy = 0, 1.0, _COARSEST
    least, since = np.inf, 0
    try:
        while since < _PATIENCE:
            number += 1
            master.solve(accuracy, deadline)
            found = pricing(master, gap)
            if np.isfinite(found.upper):
                candidate = master.proof(found.upper)
                if proof is None or candidate.value > proof.value:
                    proof, priced = candidate, found
            bound = max(floor, proof.value if proof else floor)
            gap = relative(master.objective - bound, master.objective)
            # What the gap would be if no pricing value exceeded those found: a search alone proves nothing.
            promised = relative(master.objective - master.bound(found.value), master.objective)
            promised = min(gap, max(promised, 0.0))
            least, since = (promised, 0) if promised < 0.99 * least else (least, since + 1)
            if report is not None:
                report(
                    Round(number, master.objective, bound, gap, len(master.atoms), master.n_neurons, deadline.elapsed)
                )
            if gap <= tol:
                return Outcome("optimal", proof, priced, gap)
            if deadline.over:
                return Outcome("time limit", proof, priced, gap)
            master.prune()
            if master.add(found.atoms):
                # Where nothing improves, the dual vector is too far from the optimal one to tell what is missing.
                accuracy = min(_COARSEST, max(_ACCURACY * promised * 0.5**since, _FINEST))
            elif accuracy <= _FINEST:
                break
            else:
                accuracy = max(0.01 * accuracy, _FINEST)
    except KeyboardInterrupt:
        return Outcome("interrupted", proof, priced, gap)
    return Outcome("stalled", proof, priced, gap)
