"""Plots of results in the style of scikit-learn's displays: ``from_...`` computes, draws and returns a display.

Drawing needs matplotlib, ``pip install matplotlib``; importing this package does not. A display draws on the axes given
as `ax`, or on those of a new figure, and keeps them as `ax_`.
"""

from qsdp.plotting._filters import FiltersDisplay
from qsdp.plotting._interactions import InteractionDisplay
from qsdp.plotting._objective import ObjectiveDisplay

__all__ = [
    "FiltersDisplay",
    "InteractionDisplay",
    "ObjectiveDisplay",
]
