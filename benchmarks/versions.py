"""Versions of the methods that experiments measure.

Every record names those of its methods, and is stale when one of them is raised. Raise a number together with a change
after which the method can return results that differ by more than rounding, or needs clearly more or less time or
memory. A change of one experiment alone raises its own `version` instead.
"""

from __future__ import annotations

METHODS = {
    "relaxation": 1,  # solve_relaxation with all solvers, bounds and the inner problem
    "sampling": 1,  # from a covariance, and its closed form
    "adaptive": 1,  # the constant of the covariance
    "algorithm_1": 1,  # of qsdp.paper
    "refinement": 2,  # refit, polish
    "moments": 1,  # polish by second moments: squared losses of few inputs
    "column_generation": 1,  # with pricing
    "smooth_losses": 1,  # column generation on columns for smooth losses but the squared one
    "certificates": 1,
    "root_leaves": 1,  # of proofs, of which hundreds of inputs take the time and memory
    "statistics": 1,  # one pass over the rows, in parts or by Dask
    "encoding": 1,
    "additive": 2,  # models with weights on inputs beside neurons: thresholds, beta and fits
    "estimators": 5,  # what they choose by default
    "offsets": 1,  # of the scores of several classes, by default fits
    "splits": 2,  # as thresholds of default fits to more than 4000 rows
    "wrong_rows": 1,  # of several classes, which rule out thresholds
    "many_rows": 1,  # inputs, neurons and precision of default fits to more than a thousand rows
    "distillation": 2,
    "time_limits": 1,  # what calls return when their limit ends them
    "low_rank_first": 1,  # the attempt of "auto" before another solver, and its share of a time limit
    "export": 2,
    "proven_rivals": 1,  # pinned versions, settings and limits of optimal trees and sparse scores
    "backprop": 1,  # of qsdp.baselines, with straight-through and ReLU networks; those below are of benchmarks.papers
    "bpls": 1,
    "quadratic": 1,
    "relinear": 1,
    "rls": 1,
}

#: Methods that the estimators run by default.
ESTIMATORS = ("relaxation", "sampling", "adaptive", "refinement", "moments", "encoding", "estimators")

#: Sets whose default fits have more than a thousand rows.
_MANY_ROWS = frozenset({"wine-quality-red", "wine-quality-white", "digits", "spambase", "letter", "adult"})

#: Sets of more than two classes.
CLASSES = frozenset({"iris", "wine", "glass", "vehicle", "wine-quality-red", "wine-quality-white", "digits", "letter"})


def estimators_of(name: str) -> tuple[str, ...]:
    """Return the methods that default fits to a data set depend on."""
    # Of the ten splits of every set, only some of these two have other inputs since wrong rows rule out thresholds.
    kinds = {"offsets": CLASSES, "splits": {"adult"}, "many_rows": _MANY_ROWS, "wrong_rows": {"iris", "wine"}}
    return (*ESTIMATORS, *(method for method, sets in kinds.items() if name in sets))


def versions_of(*names: str) -> dict[str, int]:
    """Return the current versions of methods by name."""
    return {name: METHODS[name] for name in names}
