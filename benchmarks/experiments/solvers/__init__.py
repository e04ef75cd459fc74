"""Solvers of the relaxation and of the inner problem beside others, at equal certified gaps."""
