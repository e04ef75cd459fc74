"""The command `qsdp`: demo, fit, predict, resample, datasets."""

from qsdp.cli._app import app

__all__ = ["app"]
