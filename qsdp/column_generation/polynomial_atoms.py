"""Sizes of searches, and atoms of their results, for both kinds of neurons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qsdp.column_generation.loop import Outcome
from qsdp.column_generation.master import Atoms
from qsdp.pricing import OracleResult

__all__ = ["ATOMS", "CLOSING", "NEIGHBOURS", "STARTS", "accuracy_of", "atoms_of"]

#: Atoms taken in a round, and random starts of a search.
ATOMS, STARTS = 200, 300

#: Most used neurons from whose neighbourhood a search starts.
NEIGHBOURS = 100

#: Relative gap from which on the last weights are computed as accurately as they can be.
_CLOSED = 1e-5

#: Share of the time that is kept for the last weights and their sparsification, as much as a limit may be passed by.
CLOSING = 0.1


def accuracy_of(outcome: Outcome) -> float:
    """Return the accuracy of the last weights: the finest, where few neurons remain, unless much was left open."""
    return 1e-12 if outcome.gap <= _CLOSED else min(1e-6, 0.01 * outcome.gap)


def atoms_of(results: Sequence[OracleResult], size: int) -> Atoms:
    """Return the atoms that an oracle found for each output."""
    empty = np.zeros((0, size), dtype=np.int8)
    atoms = Atoms.of(empty, empty)
    for k, result in enumerate(results):
        atoms = atoms + Atoms.of(result.U, result.V, result.sign, k)
    return atoms
