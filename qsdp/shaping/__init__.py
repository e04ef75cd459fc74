"""Covariance shaping: a Gaussian whose signs have the correlations of the relaxation's solution."""

from qsdp.shaping.blocks import BlockCovariances, LinearNeurons, shape_block
from qsdp.shaping.covariance import SignCovariance, shape_matrix
from qsdp.shaping.methods import GAMMA, SHAPINGS, smallest_diagonal
from qsdp.shaping.needed import neurons_needed
from qsdp.shaping.shape import build_shaping, shape_covariance

__all__ = [
    "GAMMA",
    "SHAPINGS",
    "BlockCovariances",
    "LinearNeurons",
    "SignCovariance",
    "build_shaping",
    "neurons_needed",
    "shape_block",
    "shape_covariance",
    "shape_matrix",
    "smallest_diagonal",
]
