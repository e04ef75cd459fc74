"""Encodings of the columns of a table as inputs of a network, and of images and series as blocks."""

from typing import TYPE_CHECKING

from qsdp._utils.lazy import lazy_names
from qsdp.encoding.expressions import Expression, InputColumn
from qsdp.encoding.fitting import EncodingRule
from qsdp.encoding.scales import row_scale
from qsdp.encoding.table_encoding import Encoding

if TYPE_CHECKING:
    from qsdp.encoding.additive_blocks import AdditiveBlocks
    from qsdp.encoding.patches import Patches
    from qsdp.encoding.transformers import TableEncoder
    from qsdp.encoding.windows import Windows

#: Modules of the transformers, which need scikit-learn; encodings do not.
_TRANSFORMERS = {
    "AdditiveBlocks": "additive_blocks",
    "Patches": "patches",
    "TableEncoder": "transformers",
    "Windows": "windows",
}

__all__ = [
    "AdditiveBlocks",
    "Encoding",
    "EncodingRule",
    "Expression",
    "InputColumn",
    "Patches",
    "TableEncoder",
    "Windows",
    "row_scale",
]

__getattr__, __dir__ = lazy_names(globals(), _TRANSFORMERS)
