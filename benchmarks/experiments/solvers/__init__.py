"""Comparisons with other solvers of the relaxation and of the inner problem, at equal certified gaps."""
