"""Devices of arrays that are here: NumPy's, and the processor of torch where that is installed."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from qsdp.statistics.moments import PackedSums

DEVICES = (None, "cpu") if importlib.util.find_spec("torch") else (None,)
needs_torch = pytest.mark.skipif(len(DEVICES) == 1, reason="torch is not installed")


def devices_of_products(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Return a list that gets the device of every product of rows that statistics add up."""
    devices, add = [], PackedSums.add

    def noted(sums: PackedSums, F: Any) -> None:
        devices.append(sums.device)
        add(sums, F)

    monkeypatch.setattr(PackedSums, "add", noted)
    return devices
