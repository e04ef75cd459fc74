"""The device of torch on which tests run products: a GPU where there is one, else the processor."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from qsdp.statistics.moments import PackedSums

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")


def _device() -> str:
    if not HAS_TORCH:
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


DEVICE = _device()
#: Parameters of a test that runs in NumPy, too.
DEVICES = [None, pytest.param(DEVICE, marks=needs_torch)]


def devices_of_products(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Return a list that gets the device of every product of rows that statistics add up."""
    devices, add = [], PackedSums.add

    def noted(sums: PackedSums, F: Any) -> None:
        devices.append(sums.device)
        add(sums, F)

    monkeypatch.setattr(PackedSums, "add", noted)
    return devices
