"""Experiments on ReLinear and the theory of quadratic networks."""
