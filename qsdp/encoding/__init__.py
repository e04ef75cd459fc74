"""Encodings of the columns of a table as inputs of a network: numbers, thresholds, categories and scales."""

from typing import TYPE_CHECKING, Any

from qsdp.encoding.encoding import Encoding
from qsdp.encoding.expressions import Expression, InputColumn
from qsdp.encoding.fitting import EncodingRule
from qsdp.encoding.scales import fit_scales, row_scale, supervised_scales

if TYPE_CHECKING:
    from qsdp.encoding.scaler import SupervisedScaler
    from qsdp.encoding.transformers import TableEncoder, ThresholdEncoder

__all__ = [
    "Encoding",
    "EncodingRule",
    "Expression",
    "InputColumn",
    "SupervisedScaler",
    "TableEncoder",
    "ThresholdEncoder",
    "fit_scales",
    "row_scale",
    "supervised_scales",
]


def __getattr__(name: str) -> Any:
    # Transformers need scikit-learn, encodings do not.
    if name in __all__:
        from qsdp.encoding import scaler, transformers

        return getattr(scaler if name == "SupervisedScaler" else transformers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
