"""Measurements of this package: scripts, and the experiments that `python -m benchmarks` runs."""
