"""All methods by name, in the order of tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from qsdp.bench.uci.classical import CLASSICAL
from qsdp.bench.uci.convex import CONVEX
from qsdp.bench.uci.method import UCIMethod
from qsdp.bench.uci.trained import TRAINED

__all__ = ["METHODS"]

METHODS: Mapping[str, UCIMethod] = MappingProxyType({method.name: method for method in (*CONVEX, *TRAINED, *CLASSICAL)})
