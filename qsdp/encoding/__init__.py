"""From the columns of a table to the inputs of a network: standardised, thresholds, categories, scales."""

from typing import TYPE_CHECKING, Any

from qsdp.encoding.expressions import Encoding, Expression, InputColumn
from qsdp.encoding.fitting import EncodingRule

if TYPE_CHECKING:
    from qsdp.encoding.transformers import TableEncoder, ThresholdEncoder

__all__ = [
    "Encoding",
    "EncodingRule",
    "Expression",
    "InputColumn",
    "TableEncoder",
    "ThresholdEncoder",
]


def __getattr__(name: str) -> Any:
    # Transformers bring scikit-learn; encodings do without.
    if name in __all__:
        from qsdp.encoding import transformers

        return getattr(transformers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
