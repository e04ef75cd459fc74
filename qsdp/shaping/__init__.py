"""Covariance shaping: a Gaussian whose signs have the correlations that the relaxation asks for."""

from qsdp.shaping.covariance import GAMMA, SHAPINGS, SignCovariance, shape_block, shape_covariance, smallest_diagonal

__all__ = ["GAMMA", "SHAPINGS", "SignCovariance", "shape_block", "shape_covariance", "smallest_diagonal"]
