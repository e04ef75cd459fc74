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
    "additive": 5,  # models with weights on inputs beside neurons: thresholds, beta and fits
    "estimators": 6,  # what they choose by default
    "distillation": 2,
    "time_limits": 1,  # what calls return when their limit ends them
    "low_rank_first": 1,  # the attempt of "auto" before another solver, and its share of a time limit
    "export": 3,
    "proven_rivals": 1,  # pinned versions, settings and limits of optimal trees and sparse scores
    "backprop": 1,  # of qsdp.baselines, with straight-through and ReLU networks; those below are of benchmarks.papers
    "bpls": 1,
    "quadratic": 1,
    "relinear": 1,
    "rls": 1,
}

#: Methods that the estimators run by default.
ESTIMATORS = ("relaxation", "sampling", "adaptive", "refinement", "moments", "encoding", "additive", "estimators")


def versions_of(*names: str) -> dict[str, int]:
    """Return the current versions of methods by name."""
    return {name: METHODS[name] for name in names}
