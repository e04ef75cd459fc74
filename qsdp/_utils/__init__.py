"""Validation, files, threads and progress: what every package uses and no user imports."""
