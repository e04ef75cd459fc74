"""One file an experiment: see `python -m benchmarks list`."""
