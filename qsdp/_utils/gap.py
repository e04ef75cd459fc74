"""The gap between an objective and a lower bound, the same wherever the two stand together."""

from __future__ import annotations

__all__ = ["Gap", "relative"]


class Gap:
    """What has an objective and a lower bound has a gap."""

    objective: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """How far above the global optimum the objective can be, at most: objective less lower bound."""
        return self.objective - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective, between 0 (optimal) and 1 (nothing is known)."""
        return relative(self.gap, self.objective)


def relative(gap: float, objective: float) -> float:
    """Return ``gap / objective``, and 0 where both vanish."""
    return gap / abs(objective) if objective else 0.0
