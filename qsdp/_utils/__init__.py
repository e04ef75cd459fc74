"""Validation, files, threads and progress: helpers that every package uses and no user imports."""
