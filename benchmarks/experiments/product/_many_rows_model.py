"""What statistics of any number of rows cost: a model of measured parts, and what pages quote of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.experiments._common import duration, table_row

#: The network that predictions assume, 1 Gbit a second in bytes; how many triangles one task of Dask merges.
BANDWIDTH, FAN = 125e6, 8
#: The job that is predicted: rows, machines, rows of a block, and blocks from one checkpoint to the next.
FAR, MACHINES, BLOCK, EVERY = 10**10, 100, 10**5, 6400
FAR_COLUMNS = (10, 30, 50, 100)


def side(d: float) -> float:
    """Return the side of the triangle of d columns and a target."""
    return (d + 1) * (d + 2) / 2 + 1


class Model:
    """Seconds and bytes of statistics, from the measurements by job.

    A row takes ``a q^2 + b q`` seconds, for the products and for the monomials; a merge of two triangles and the
    factor of one are proportional to its entries and to q^3. Reading takes a time for each number of a file.
    """

    def __init__(self, report: Mapping[str, Any]) -> None:
        rows = report["costs"]["against_columns"]
        q = np.array([side(row["columns"]) for row in rows])
        seconds = np.array([row["seconds"] / row["rows"] for row in rows])
        self.row, _ = nnls(np.column_stack([q**2, q]) / seconds[:, None], np.ones(len(q)))
        triangles = q * (q + 1.0) / 2.0
        self.merge = float(np.median([row["merge_seconds"] for row in rows] / triangles))
        self.sent = float(np.median([row["bytes_sent"] for row in rows] / triangles))
        self.reduce = float(np.median([row["reduce_seconds"] for row in rows[-3:]] / q[-3:] ** 3))
        parquet = report["parquet"]
        self.number = parquet["reading_seconds"] / parquet["rows"] / parquet["columns"]

    def triangle(self, d: int) -> float:
        """Return the bytes of a triangle as it is sent."""
        return self.sent * side(d) * (side(d) + 1) / 2

    def seconds(self, rows: int, d: int, machines: int = 1) -> dict[str, float]:
        """Return the parts of the time of a job, in seconds; one block a task, `EVERY` of them between checkpoints."""
        blocks, q = -(-rows // BLOCK), side(d)
        group = min(EVERY, blocks)
        waves = -(-group // machines) * machines / group
        levels = int(np.ceil(np.log(group) / np.log(FAN)))
        # Every block's triangle is merged once, on some machine; the last levels of the tree wait for one another.
        sent = 0.0 if machines == 1 else blocks / machines + -(-blocks // group) * levels * FAN
        return {
            "products": waves * rows / machines * float(self.row @ [q**2, q]),
            "reading": rows * d * self.number / machines,
            "merges": sent * self.merge * q * (q + 1) / 2,
            "network": sent * self.triangle(d) / BANDWIDTH,
            "factor": self.reduce * q**3,
        }


def quoted(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the constants of the model, what it makes of the measured jobs, and of the one that is predicted."""
    model, made = Model(report), report["generated"]
    a, b = model.row
    beside = []
    for name, one in report.items():
        if "share_of_peak" in one:
            parts = model.seconds(one["rows"], one["columns"], one.get("workers", 1))
            read = parts["reading"] if "workers" in one else 0.0
            beside.append(f"`{name}` {parts['products'] + read + parts['merges']:.0f} s ({one['seconds']:.0f} s)")
    after = made["solve_seconds"] + made["refit_seconds"]
    return {
        "row": "From these, a row of d columns takes $a q^2 + b q$ seconds, with $q = (d + 1)(d + 2)/2 + 1$, "
        f"$a$ = {a:.3g} (the products of monomials) and $b$ = {b:.3g} (the monomials). That makes, beside what was "
        f"measured: {', '.join(beside)}.",
        "far": "\n".join(_far(model, d) for d in FAR_COLUMNS),
        "generated": table_row(
            f"{made['rows'] / 1e6:.0f} million rows of {made['columns']} columns, squared loss, read once",
            f"{made['seconds']:.0f} s of one core, {made['resident_mib']:.0f} MiB; relaxation, second layer and "
            f"certificate of a network then {after:.1g} s, gap {100 * made['relative_gap']:.1f} %",
        ),
    }


def _far(model: Model, d: int) -> str:
    parts, q = model.seconds(FAR, d, MACHINES), side(d)
    memory = 12 * q * (q + 1) + 8 * BLOCK * d
    times = [duration(spent) for spent in (*parts.values(), sum(parts.values()))]
    return table_row(str(d), *times, *(f"{size / 1e6:.3g} MB" for size in (model.triangle(d), memory)))
