"""Measurements of this package: scripts, and experiments run by `python -m benchmarks`."""
