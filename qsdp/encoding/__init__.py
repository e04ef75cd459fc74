"""Encodings of the columns of a table as inputs of a network: numbers, thresholds, categories and scales."""

from typing import TYPE_CHECKING, Any

from qsdp.encoding.encoding import Encoding
from qsdp.encoding.expressions import Expression, InputColumn
from qsdp.encoding.fitting import EncodingRule
from qsdp.encoding.scales import row_scale

if TYPE_CHECKING:
    from qsdp.encoding.transformers import TableEncoder, ThresholdEncoder

__all__ = [
    "Encoding",
    "EncodingRule",
    "Expression",
    "InputColumn",
    "TableEncoder",
    "ThresholdEncoder",
    "row_scale",
]


def __getattr__(name: str) -> Any:
    # Transformers need scikit-learn, encodings do not.
    if name in __all__:
        from qsdp.encoding import transformers

        return getattr(transformers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
