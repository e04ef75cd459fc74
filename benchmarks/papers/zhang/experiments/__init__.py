"""Experiments on recursive least squares."""
