"""Programs that are no experiments: their options, and what they have measured as files."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from qsdp._utils.files import write_whole

FOLDER = Path(__file__).resolve().parent / "results"


def save(report, path):
    """Write all or nothing, NumPy's numbers as Python's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(report, indent=1, default=lambda number: number.item()) + "\n").encode())


def options_of(about, **options):
    """Return the options of a program, described by keywords of argparse, and the file of --json."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, settings in {"json": {"type": Path, "metavar": "FILE"}, **options}.items():
        parser.add_argument(f"--{name}", **settings)
    return parser.parse_args()


def kept(rows, path, **more):
    """Print rows as they are measured, and keep those so far in a file, if there is one; return all."""
    found = []
    for row in rows:
        found.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        if path:
            save({**more, "rows": found}, path)
    return found
