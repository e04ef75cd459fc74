"""The package and the baselines beside one another."""
