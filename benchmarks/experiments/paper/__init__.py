"""Figures and theorems of the paper."""
