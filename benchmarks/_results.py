"""Where `solvers.py` leaves what it measured."""

from __future__ import annotations

import json
import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"


def save(report, path):
    """Write all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    # NumPy's numbers as Python's.
    part.write_text(json.dumps(report, indent=1, default=lambda number: number.item()) + "\n", encoding="utf-8")
    os.replace(part, path)
