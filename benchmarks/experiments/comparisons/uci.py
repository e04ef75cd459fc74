"""The UCI suite of the package, `qsdp bench --suite uci`: its results are kept here."""

from qsdp.bench.uci import EXPERIMENT

__all__ = ["EXPERIMENT"]
