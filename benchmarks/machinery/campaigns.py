"""Quotes from the records of the campaigns, for `tests/campaigns/README.md`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).resolve().parents[2] / "tests" / "campaigns" / "records"


def quotes() -> dict[str, str]:
    """Return the quote of each campaign, by name."""
    return {path.stem: "\n".join(_figures(json.loads(path.read_bytes()))) for path in sorted(RECORDS.glob("*.json"))}


def _figures(record: Mapping[str, Any]) -> Iterator[str]:
    violations = f"**{record['n_violations']} violations**" if record["n_violations"] else "no violation"
    yield f"**{record['cases']:,} cases** (seed {record['seed']}, {record['seconds'] / 60:.0f} minutes): {violations}."
    if mended := record.get("mended"):
        steps = [one.get("step") or one.get("of") or one.get("bound") for one in mended]
        causes = Counter(f"{step}, {one.get('error', one['what'])}" for step, one in zip(steps, mended, strict=True))
        yield "Fixed during the campaign, in the library or the campaign itself: "
        yield "; ".join(f"{cause} ({count})" for cause, count in causes.items()) + "."
