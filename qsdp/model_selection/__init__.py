"""Choice of the hyperparameters of any estimator, convex or not, on held-out rows by the same rules.

`search_on_validation` tries a grid on one validation split and records how long that took. `choose` extends a grid
until the chosen value is in its interior.
"""

from __future__ import annotations

from qsdp.model_selection._choice import Choice, choose
from qsdp.model_selection._search import ValidationSearch, search_on_validation

__all__ = ["Choice", "ValidationSearch", "choose", "search_on_validation"]
