"""Where the scripts leave what they measured."""

from __future__ import annotations

import json
import os
from pathlib import Path

from qsdp.bench import describe_machine

FOLDER = Path(__file__).resolve().parent / "results"


def add_out(parser):
    """Give a script the option --out."""
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the JSON file; default benchmarks/results")


def write(folder, name, report):
    """Write a report and the machine to NAME.json in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save({"machine": describe_machine(), **report}, folder / f"{name}.json")


def save(report, path):
    """Write all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    # NumPy's numbers as Python's.
    part.write_text(json.dumps(report, indent=1, default=lambda number: number.item()) + "\n", encoding="utf-8")
    os.replace(part, path)
