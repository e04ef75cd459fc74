"""The choices before and after the relaxation: beta, and the number of neurons."""
