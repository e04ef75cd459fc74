"""Encodings of the columns of a table as inputs of a network, and of images and series as blocks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qsdp.encoding.encoding import Encoding
from qsdp.encoding.expressions import Expression, InputColumn
from qsdp.encoding.fitting import EncodingRule
from qsdp.encoding.scales import row_scale

if TYPE_CHECKING:
    from qsdp.encoding.patches import Patches
    from qsdp.encoding.transformers import TableEncoder, ThresholdEncoder
    from qsdp.encoding.union import Union
    from qsdp.encoding.windows import Windows

#: Modules of the transformers, which need scikit-learn; encodings do not.
_TRANSFORMERS = {
    "Patches": "patches",
    "TableEncoder": "transformers",
    "ThresholdEncoder": "transformers",
    "Union": "union",
    "Windows": "windows",
}

__all__ = [
    "Encoding",
    "EncodingRule",
    "Expression",
    "InputColumn",
    "Patches",
    "TableEncoder",
    "ThresholdEncoder",
    "Union",
    "Windows",
    "row_scale",
]


def __getattr__(name: str) -> Any:
    if name in _TRANSFORMERS:
        return getattr(import_module(f"qsdp.encoding.{_TRANSFORMERS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
