"""Refinement of networks: better second layers, better bits, the best network of a width."""

from qsdp.refinement.fixed_width import FixedSizeResult, best_of_size
from qsdp.refinement.polishing import polish
from qsdp.refinement.refitting import refit

__all__ = ["FixedSizeResult", "best_of_size", "polish", "refit"]
