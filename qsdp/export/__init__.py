"""Export of trained models to integer C99, ONNX, JavaScript and Verilog.

`describe` states any model independently of formats, and `_exact` its scores as products of linear functions and the
quadratic forms that they add up to. JavaScript, Verilog and ONNX of tables are written from these forms. `_integers`
gives them integer inputs and weights of proven widths, for C and for ONNX of networks and images.
"""

from qsdp.export._c.c_export import CSource, to_c
from qsdp.export._c.compiled import CompiledModel
from qsdp.export._description import ModelDescription, describe
from qsdp.export._formats import FORMATS, ExportedFiles, ExportFormat
from qsdp.export._graphs.onnx_export import onnx_inputs, to_onnx
from qsdp.export._integers.model import IntegerModel
from qsdp.export._javascript.javascript_export import JavaScriptModule, to_js
from qsdp.export._verilog.bits import BitModel
from qsdp.export._verilog.verilog_export import VerilogSource, to_verilog
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
