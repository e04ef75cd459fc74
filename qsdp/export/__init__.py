"""Trained models outside of Python: as C99 of integers."""

from qsdp.export._c import CSource, to_c
from qsdp.export._c_compiled import CompiledModel
from qsdp.export._formats import FORMATS, ExportedFiles, ExportFormat
from qsdp.export._integer_model import IntegerModel
from qsdp.export._model import ModelDescription, describe, load_exportable

__all__ = [
    "FORMATS",
    "CSource",
    "CompiledModel",
    "ExportFormat",
    "ExportedFiles",
    "IntegerModel",
    "ModelDescription",
    "describe",
    "load_exportable",
    "to_c",
]
