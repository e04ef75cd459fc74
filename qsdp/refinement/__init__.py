"""Refinement of networks: refit the second layer, and polish first-layer weights."""

from qsdp.refinement._alpha_bits import in_bits
from qsdp.refinement._choice import AnyData, check_memory_of_polish, descent_data, suits_statistics
from qsdp.refinement.polishing import Interrupted, Trial, best_at_interrupt, improve, polish
from qsdp.refinement.refitting import refit

__all__ = [
    "AnyData",
    "Interrupted",
    "Trial",
    "best_at_interrupt",
    "check_memory_of_polish",
    "descent_data",
    "improve",
    "in_bits",
    "polish",
    "refit",
    "suits_statistics",
]
