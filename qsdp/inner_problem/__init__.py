"""Upper bounds on quadratic forms over sign vectors (MaxCut, Grothendieck) by their semidefinite programs."""

from __future__ import annotations

from qsdp.inner_problem.sign_bounds import (
    InnerBound,
    dominating_weights,
    grothendieck_bound,
    maxcut_bound,
    uninterrupted,
)

__all__ = ["InnerBound", "dominating_weights", "grothendieck_bound", "maxcut_bound", "uninterrupted"]
