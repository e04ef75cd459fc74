"""Experiments on back-propagating least squares."""
