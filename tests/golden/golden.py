"""Golden numbers: bounds, objectives and chosen bits, recorded once and compared after every change that may move none.

    python tests/golden/golden.py record [FILE] [--only PREFIX]
    python tests/golden/golden.py compare [FILE] [--only PREFIX]

FILE is `golden.json` beside this program unless given. It holds for every entry its value, by what share of its
largest magnitude it may differ, and why: deterministic results move by rounding alone, 1e-9; what an iteration stops at
is known to its gap; choices (bits, verdicts) are equal or not. BLAS has one thread. Exit status 1: something differs,
is missing or was not computed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import scipy
from _golden_cases import CASES
from threadpoolctl import threadpool_info, threadpool_limits


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", nargs="?", type=Path, default=Path(__file__).with_name("golden.json"))
    parser.add_argument("--only", default="", metavar="PREFIX", help="of the names of cases")
    options = parser.parse_args()
    entries, failed = computed(options.only)
    if options.action == "record":
        write(entries, options.file)
        print(f"{len(entries)} entries in {options.file}")
    else:
        recorded = json.loads(options.file.read_text(encoding="utf-8"))["entries"]
        recorded = {name: entry for name, entry in recorded.items() if name.startswith(options.only)}
        failed = report(recorded, entries) or failed
    sys.exit(int(failed))


def computed(prefix=""):
    """Return the entries of all cases as they are written, and whether a case failed."""
    entries, failed = {}, False
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, case in CASES.items():
            if not name.startswith(prefix):
                continue
            start = time.perf_counter()
            try:
                found = case()
            except Exception:
                traceback.print_exc()
                print(f"FAILED   {name}", file=sys.stderr)
                failed = True
                continue
            for part, entry in found.items():
                # NumPy's arrays and numbers as Python's.
                value = entry.value.tolist() if isinstance(entry.value, (np.ndarray, np.generic)) else entry.value
                entries[f"{name}: {part}"] = {**entry._asdict(), "value": value}
            print(f"{time.perf_counter() - start:6.2f} s  {name}", file=sys.stderr)
    return entries, failed


def write(entries, path):
    """Write an entry a line."""
    blas = sorted({f"{pool['internal_api']} {pool.get('architecture', '')}".strip() for pool in threadpool_info()})
    versions = {"numpy": np.__version__, "scipy": scipy.__version__, "threads": blas}
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    path.write_text(f'{{"versions": {json.dumps(versions)},\n"entries": {{\n{lines}\n}}}}\n', encoding="utf-8")


def report(recorded, found):
    """Print what differs and how near the rest is; return whether anything differs."""
    counts, wrong = Counter(), 0
    for name in {**recorded, **found}:
        if name not in recorded or name not in found:
            print(f"{'NEW' if name in found else 'MISSING':8} {name}")
            wrong += 1
            continue
        old, allowed, why = (recorded[name][key] for key in ("value", "tolerance", "why"))
        now = found[name]["value"]
        off = difference(old, now)
        steps = {0.0: "equal", 1e-12: "within 1e-12", 1e-9: "within 1e-09", np.inf: "farther"}
        counts[next((how for step, how in steps.items() if off <= step), "farther")] += 1
        if not off <= allowed:
            wrong += 1
            print(f"DIFFERS  {name}: off by {off:.1e}, {allowed:.0e} allowed ({why})")
            print(f"  was {old!s:.160}\n  now {now!s:.160}")
    print(f"{len(recorded)} entries: " + ", ".join(f"{count} {how}" for how, count in counts.items()), end="; ")
    print(f"{wrong} differ by more than they may" if wrong else "all as recorded, to their tolerances")
    return wrong > 0


def difference(old, now):
    """Return the largest difference as a share of the largest magnitude recorded; of words, the share that differs."""
    if isinstance(old, str) or isinstance(now, str):
        pairs = list(zip(str(old), str(now), strict=False))
        return 0.0 if old == now else max(sum(a != b for a, b in pairs) / max(len(pairs), 1), 1e-6)
    if np.shape(old) != np.shape(now):
        return float("inf")
    size = float(np.max(np.abs(old), initial=0.0)) or 1.0
    return float(np.max(np.abs(np.subtract(old, now)), initial=0.0)) / size


if __name__ == "__main__":
    main()
