"""Tables and headers for the tests of this folder."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np

from qsdp.tabular import DataTable


def write(folder: Path, text: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def table(columns: dict[str, list[str | None]], path: str = "data.csv") -> DataTable:
    rows = list(zip(*columns.values(), strict=True))
    return DataTable.of_rows(path, tuple(columns), rows, range(2, len(rows) + 2))


def rows_csv(n: int = 60, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    lines = ["size,colour,smooth,label,price,grade"]
    for i in range(n):
        size, colour = rng.normal(3.0, 2.0), rng.choice(["red", "green", "blue"])
        value = (size - 3.0) + (colour == "red")
        grade = "low" if value < -1 else "mid" if value < 1 else "high"
        shown = "" if i == 7 else f"{size:.3f}"
        lines.append(f"{shown},{colour},{'yn'[i % 2]},{'big' if value > 0 else 'small'},{10 * value:.3f},{grade}")
    return "\n".join(lines) + "\n"


def replaced(header: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(header)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed
