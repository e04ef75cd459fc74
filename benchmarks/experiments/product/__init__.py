"""Figures of speed, size and proof that are not the papers'."""
