"""The command `qsdp`: demo, fit, predict, resample, certify, report, export, datasets, bench."""

from qsdp.cli._app import app

__all__ = ["app"]
