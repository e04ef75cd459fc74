"""Devices of arrays that are here: NumPy's, and the processor of torch where that is installed."""

import importlib.util

import pytest

DEVICES = (None, "cpu") if importlib.util.find_spec("torch") else (None,)
needs_torch = pytest.mark.skipif(len(DEVICES) == 1, reason="torch is not installed")
