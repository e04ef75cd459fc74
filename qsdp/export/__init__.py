"""Export of trained models: integer C99, JavaScript, ONNX, QONNX and Verilog, and evaluation on encrypted inputs."""

from qsdp.export._bit_model import BitModel
from qsdp.export._c import CSource, to_c
from qsdp.export._c_compiled import CompiledModel
from qsdp.export._encrypted import EncryptedClient, EncryptedNetwork, EncryptionParameters, encrypted
from qsdp.export._formats import FORMATS, ExportedFiles, ExportFormat
from qsdp.export._integer_model import IntegerModel
from qsdp.export._javascript import JavaScriptModule, to_js
from qsdp.export._model import ModelDescription, describe, load_exportable
from qsdp.export._onnx import onnx_inputs, to_onnx
from qsdp.export._qonnx import to_qonnx
from qsdp.export._skl2onnx import register_skl2onnx
from qsdp.export._verilog import VerilogSource, to_verilog
from qsdp.export._words import Comparison, Word, Words

__all__ = [
    "FORMATS",
    "BitModel",
    "CSource",
    "Comparison",
    "CompiledModel",
    "EncryptedClient",
    "EncryptedNetwork",
    "EncryptionParameters",
    "ExportFormat",
    "ExportedFiles",
    "IntegerModel",
    "JavaScriptModule",
    "ModelDescription",
    "VerilogSource",
    "Word",
    "Words",
    "describe",
    "encrypted",
    "load_exportable",
    "onnx_inputs",
    "register_skl2onnx",
    "to_c",
    "to_js",
    "to_onnx",
    "to_qonnx",
    "to_verilog",
]
