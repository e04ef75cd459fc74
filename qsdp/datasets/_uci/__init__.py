"""Sets of the UCI Machine Learning Repository: one declaration per set, one parser for all."""

from qsdp.datasets._uci.load import SPECS, load_uci
from qsdp.datasets._uci.spec import UCISpec

__all__ = ["SPECS", "UCISpec", "load_uci"]
