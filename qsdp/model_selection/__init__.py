"""Hyperparameters of any estimator, convex or not, chosen on held-out data by the same rules.

`search_on_validation` tries a grid on one validation split, and says how long that took; `choose` extends a grid until
what it chooses is an interior value of it.
"""

from __future__ import annotations

from qsdp.model_selection._choice import Choice, choose
from qsdp.model_selection._search import ValidationSearch, search_on_validation

__all__ = ["Choice", "ValidationSearch", "choose", "search_on_validation"]
