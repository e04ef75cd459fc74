"""Measurements of speed, size and proofs that are not taken from the papers."""
