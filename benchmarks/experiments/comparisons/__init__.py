"""Comparisons of the package with the baselines."""
