"""Optimality gap between an objective and a lower bound, for all classes that have both."""

from __future__ import annotations

__all__ = ["Gap", "relative"]


class Gap:
    """Mixin that adds the gap to a class with an objective and a lower bound."""

    objective: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """Objective minus lower bound, an upper bound on objective minus global optimum."""
        return self.objective - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """Gap relative to the objective, between 0 (optimal) and 1 (the bound is zero)."""
        return relative(self.gap, self.objective)


def relative(gap: float, objective: float) -> float:
    """Compute ``gap / abs(objective)``, or 0 for an objective of zero."""
    return gap / abs(objective) if objective else 0.0
