"""Experiments on quadratic neurons."""
