"""Covariance shaping: a Gaussian whose signs have the correlations that the relaxation asks for."""

from qsdp.shaping.covariance import SignCovariance, shape_block, shape_covariance
from qsdp.shaping.methods import GAMMA, SHAPINGS, smallest_diagonal

__all__ = [
    "GAMMA",
    "SHAPINGS",
    "SignCovariance",
    "shape_block",
    "shape_covariance",
    "smallest_diagonal",
]
