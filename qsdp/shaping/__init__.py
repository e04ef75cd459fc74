"""Covariance shaping: a Gaussian whose signs have the correlations of the relaxation's solution."""

from qsdp.shaping.covariance import BlockCovariances, LinearNeurons, SignCovariance, measured_covariance, scaled_block
from qsdp.shaping.shape import GAMMA, SHAPINGS, shape_covariance, shape_matrix

__all__ = [
    "GAMMA",
    "SHAPINGS",
    "BlockCovariances",
    "LinearNeurons",
    "SignCovariance",
    "measured_covariance",
    "scaled_block",
    "shape_covariance",
    "shape_matrix",
]
