"""Covariance shaping: a Gaussian whose signs have the correlations of the relaxation's solution."""

from qsdp.shaping.blocks import BlockCovariances, LinearNeurons, shape_block
from qsdp.shaping.covariance import SignCovariance, measured_covariance, shape_matrix
from qsdp.shaping.methods import GAMMA, SHAPINGS, Shaped, scaled_block, smallest_diagonal
from qsdp.shaping.shape import shape_covariance

__all__ = [
    "GAMMA",
    "SHAPINGS",
    "BlockCovariances",
    "LinearNeurons",
    "Shaped",
    "SignCovariance",
    "measured_covariance",
    "scaled_block",
    "shape_block",
    "shape_covariance",
    "shape_matrix",
    "smallest_diagonal",
]
