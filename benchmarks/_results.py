"""What programs have measured, as files."""

from __future__ import annotations

import json
from pathlib import Path

from qsdp._utils.files import write_whole

FOLDER = Path(__file__).resolve().parent / "results"


def save(report, path):
    """Write all or nothing, NumPy's numbers as Python's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(report, indent=1, default=lambda number: number.item()) + "\n").encode())
