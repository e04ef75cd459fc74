"""Experiments on the figures and the theory of the paper."""
