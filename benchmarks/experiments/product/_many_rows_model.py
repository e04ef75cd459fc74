"""What statistics of any number of rows cost: a model of measured parts, and what pages quote of it."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from benchmarks.experiments import draw
from benchmarks.experiments._common import table_row

#: The network that predictions assume, 1 Gbit a second in bytes; how many triangles one task of Dask merges.
BANDWIDTH, FAN = 125e6, 8
#: The job that is predicted: rows, machines, rows of a block, and blocks from one checkpoint to the next.
FAR, MACHINES, BLOCK, EVERY = 10**10, 100, 10**5, 6400
FAR_COLUMNS = (10, 30, 50, 100)


class Model:
    """Seconds and bytes of statistics, from what `many_rows.py` measured.

    A row takes ``a q^2 + b q`` seconds, for the products and for the monomials; a merge of two triangles and the
    factor of one are proportional to its entries and to q^3. Reading takes a time for each number of a file.
    """

    def __init__(self, report):
        rows = report["costs"]["against_columns"]
        q = np.array([side(row["columns"]) for row in rows], dtype=float)
        seconds = np.array([row["seconds"] / row["rows"] for row in rows])
        self.row, _ = nnls(np.column_stack([q**2, q]) / seconds[:, None], np.ones(len(q)))
        triangles = q * (q + 1.0) / 2.0
        self.merge = float(np.median([row["merge_seconds"] for row in rows] / triangles))
        self.sent = float(np.median([row["bytes_sent"] for row in rows] / triangles))
        self.reduce = float(np.median([row["reduce_seconds"] for row in rows[-3:]] / q[-3:] ** 3))
        parquet = report.get("parquet")
        self.number = 0.0 if parquet is None else parquet["reading_seconds"] / parquet["rows"] / parquet["columns"]

    def row_seconds(self, d):
        """Return the seconds of a row of d columns."""
        q = side(np.asarray(d, dtype=float))
        return self.row @ np.stack([q**2, q])

    def triangle(self, d):
        """Return the bytes of a triangle as it is sent."""
        q = side(d)
        return self.sent * q * (q + 1) / 2

    def seconds(self, rows, d, machines=1, *, read=False):
        """Return the parts of the time of a job, in seconds; one block a task, `EVERY` of them between checkpoints."""
        blocks = -(-rows // BLOCK)
        group = min(EVERY, blocks)
        waves = -(-group // machines) * machines / group if machines > 1 else 1.0
        levels = int(np.ceil(np.log(max(group, 1)) / np.log(FAN))) if machines > 1 else 0
        q, groups = side(d), -(-blocks // group)
        # Every block's triangle is merged once, on some machine; the last levels of the tree wait for one another.
        sent = 0.0 if machines == 1 else blocks / machines + groups * levels * FAN
        return {
            "products": waves * rows / machines * float(self.row_seconds(d)),
            "reading": rows * d * self.number / machines if read else 0.0,
            "merges": sent * self.merge * q * (q + 1) / 2,
            "network": sent * self.triangle(d) / BANDWIDTH,
            "factor": self.reduce * q**3,
        }


def side(d):
    """Return the side of the triangle of d columns and a target."""
    return (d + 1) * (d + 2) / 2 + 1


def quoted(report):
    model = Model(report)
    peak, (a, b) = report["costs"]["peak_gigaflops"], model.row
    both = [report.get(f"parquet-dask-{workers}") for workers in (1, 2)]
    return {
        "peak": "Everything is of one thread, whose products of square matrices reach "
        f"{peak:.3g} Gflop a second (the peak below).",
        "costs": _rows(_costs(report["costs"])),
        "row": "From these, a row of d columns takes $a q^2 + b q$ seconds, with $q = (d + 1)(d + 2)/2 + 1$, "
        f"$a$ = {a:.3g} (the products of monomials; {1e-9 / a / peak:.0%} of the peak if they were all) and "
        f"$b$ = {b:.3g} (the monomials).",
        "measured": _rows(_measured(model, report)),
        "workers": f"Two workers take {both[0]['seconds'] / both[1]['seconds']:.2f} times less time than one."
        if all(both)
        else "",
        "far": _rows(_far(model)),
        "losses": _rows(_losses(report)),
        "whole": _rows(_whole(report)),
        "generated": _generated(report["generated"]),
    }


def _rows(rows):
    return "\n".join(table_row(*map(str, row)) for row in rows)


def _generated(made):
    """Return the statistics of rows made as they are read, for README."""
    after = made["solve_seconds"] + made["refit_seconds"]
    return table_row(
        f"{made['rows'] / 1e6:.0f} million rows of {made['columns']} columns, squared loss, read once",
        f"{made['seconds']:.0f} s of one core, {made['resident_mib']:.0f} MiB; relaxation, second layer and "
        f"certificate of a network then {after:.1g} s, gap {100 * made['relative_gap']:.1f} %",
    )


def _costs(costs):
    for row in costs["against_columns"]:
        yield [
            row["columns"],
            int(side(row["columns"])),
            f"{1e6 * row['seconds'] / row['rows']:.3g}",
            f"{row['rows'] * side(row['columns']) ** 2 / row['seconds'] / costs['peak_gigaflops'] / 1e9:.0%}",
            *(_bytes(row[name]) for name in ("bytes", "bytes_sent")),
            *(_seconds(row[name]) for name in ("merge_seconds", "reduce_seconds")),
            _seconds(row["solve_seconds"]) if "solve_seconds" in row else "",
        ]


def _measured(model, report):
    for name, row in report.items():
        if "share_of_peak" in row:
            workers = row.get("workers", 1)
            parts = model.seconds(row["rows"], row["columns"], workers, read="parquet" in name and "workers" in row)
            yield [
                f"`{name}`",
                f"{row['rows']:.0e} x {row['columns']}",
                workers,
                _seconds(row["seconds"]),
                _seconds(parts["products"] + parts["reading"] + parts["merges"]),
                f"{row['share_of_peak']:.0%}",
                f"{row['resident_mib']:.0f} MiB",
                f"{row['relative_gap']:.2%}",
                f"{row['objective_of_50_polished_on_rows_kept'] / row['objective_of_50_sampled']:.3f}",
            ]


def _far(model):
    for d in FAR_COLUMNS:
        parts, q = model.seconds(FAR, d, MACHINES, read=True), side(d)
        yield [
            d,
            *(_seconds(parts[name]) for name in ("products", "reading", "merges", "network", "factor")),
            f"**{_seconds(sum(parts.values()))}**",
            _bytes(model.triangle(d)),
            _bytes(FAR // BLOCK / MACHINES * model.triangle(d)),
            _bytes(12 * q * (q + 1) + 8 * BLOCK * d),
        ]


def _losses(report):
    for loss in ("logistic", "hinge"):
        own = report.get(loss, {})
        for row in own.get("certificates", []):
            yield [
                loss,
                f"{own['fitted_rows']:.0e} of {own['rows']:.0e}",
                f"{row['passes']}, {row['arithmetic']}",
                *(f"{gap:.2%}" for gap in (own["gap_on_fitted_rows"], row["relative_gap"], row["relaxed_gap"])),
                _seconds(row["seconds"]),
                f"{own['resident_mib']:.0f} MiB",
            ]


def _whole(report):
    for loss in ("logistic", "hinge"):
        if (row := report.get(f"{loss}-all")) is None:
            continue
        (few,) = row["certificates"]
        part = row["solve_seconds"] + row["refit_seconds"] + few["seconds"]
        whole = row["solve_seconds_of_all"] + row["refit_seconds_of_all"]
        for n, one, seconds, of in ((row["fitted_rows"], few, part, ""), (row["rows"], row, whole, "_of_all")):
            objective, bound = one["objective"], one["lower_bound"]
            ends = f"{objective:.6g}", f"{bound:.6g}", f"{1.0 - bound / objective:.2%}"
            yield [loss, f"{n:.0e}", *ends, _seconds(seconds), f"{row[f'resident_mib{of}']:.0f} MiB"]


def drawn(report):
    model = Model(report)
    figure, (left, right) = draw.subplots(1, 2, figsize=(9, 3.6), dpi=110)
    lengths = np.geomspace(1e3, FAR, 50)
    for d, color in ((10, "C0"), (30, "C1")):
        points = [row for row in report["costs"]["against_rows"] if row["columns"] == d]
        points += [row for name, row in report.items() if row.get("columns") == d and name in ("generated", "parquet")]
        left.loglog([p["rows"] for p in points], [p["seconds"] for p in points], "o", color=color)
        seconds = lengths * float(model.row_seconds(d))
        left.loglog(lengths, seconds, color=color, label=f"{d} columns, one thread")
        left.loglog(lengths, seconds / MACHINES, "--", color=color, label=f"{d} columns, {MACHINES} machines")
    left.set(xlabel="rows", ylabel="seconds")
    measured = report["costs"]["against_columns"]
    at, columns = [row["columns"] for row in measured], np.geomspace(4, 120, 50)
    right.loglog(columns, 1e6 * model.row_seconds(columns), color="C0", label="microseconds a row")
    right.loglog(at, [1e6 * row["seconds"] / row["rows"] for row in measured], "o", color="C0")
    right.loglog(columns, 12 * side(columns) * (side(columns) + 1) / 1e6, color="C1", label="memory, MB")
    right.loglog(at, [row["bytes_sent"] / 1e6 for row in measured], "s", color="C2", label="sent, MB")
    right.set(xlabel="columns")
    for axis in (left, right):
        axis.legend(fontsize="small")
    return figure


def _seconds(value):
    for unit, scale, limit in (("us", 1e-6, 1e-3), ("ms", 1e-3, 1.0), ("s", 1.0, 600.0), ("min", 60.0, 36000.0)):
        if value < limit:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 3600.0:.3g} h"


def _bytes(value):
    power = min(int(np.log10(max(value, 1.0)) // 3), 4)
    return f"{value / 1000.0**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"
