"""The command `qsdp`: demo, fit, predict, resample, certify, datasets."""

from qsdp.cli._app import app

__all__ = ["app"]
