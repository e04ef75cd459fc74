"""The gap between an objective and a lower bound, for all classes that have both."""

from __future__ import annotations

__all__ = ["Gap", "relative"]


class Gap:
    """Mixin that adds the gap to a class with an objective and a lower bound."""

    objective: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """Objective minus lower bound: the objective exceeds the global optimum by at most this."""
        return self.objective - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective, between 0 (optimal) and 1 (the bound is zero)."""
        return relative(self.gap, self.objective)


def relative(gap: float, objective: float) -> float:
    """Return ``gap / abs(objective)``, or 0 for an objective of zero."""
    return gap / abs(objective) if objective else 0.0
