"""Export of trained models to integer C99, ONNX, JavaScript and Verilog."""

from qsdp.export._c.compiled import CompiledModel
from qsdp.export._c.export import CSource, to_c
from qsdp.export._description import ModelDescription, describe
from qsdp.export._formats import FORMATS, ExportedFiles, ExportFormat
from qsdp.export._graphs.onnx import onnx_inputs, to_onnx
from qsdp.export._integers.model import IntegerModel
from qsdp.export._javascript.export import JavaScriptModule, to_js
from qsdp.export._verilog.bits import BitModel
from qsdp.export._verilog.export import VerilogSource, to_verilog
from qsdp.export._verilog.words import Comparison, Word, Words

__all__ = [
    "FORMATS",
    "BitModel",
    "CSource",
    "Comparison",
    "CompiledModel",
    "ExportFormat",
    "ExportedFiles",
    "IntegerModel",
    "JavaScriptModule",
    "ModelDescription",
    "VerilogSource",
    "Word",
    "Words",
    "describe",
    "onnx_inputs",
    "to_c",
    "to_js",
    "to_onnx",
    "to_verilog",
]
