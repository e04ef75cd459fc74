"""Refinement of networks, up to a proven global optimum."""
