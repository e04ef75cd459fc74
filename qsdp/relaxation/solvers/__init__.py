"""Solvers of this package for the relaxation, one subpackage each; they take an instance and stop at a gap."""
