"""Trained models outside of Python."""

from qsdp.export._model import ModelDescription, describe, load_exportable

__all__ = ["ModelDescription", "describe", "load_exportable"]
