"""The largest proven global optimum by rows, by inputs and by classes, and what mixed-integer programs train.

Column generation with default settings and the squared loss runs to a relative gap of 1e-6, at most for a minute of one
thread. Beta is a share of `beta_max`, the smallest beta at which the zero network is optimal.

- rows: planted data of 16 Gaussian columns and ten binary neurons, with noise of deviation 0.1 times that of the
  targets, from 10^4 to 10^7 rows, at 0.01 beta_max; all rows enter the sufficient statistics, and the proof is about
  all of them. Nothing is split.
- inputs: the first 20, 25, 30, 35, 40 and all 57 columns of spambase (4601 rows, standardised, with a constant column),
  at 0.1 beta_max.
- classes: the first 2, 5, 10 and all 26 letters of letter (up to 20 000 rows, 16 inputs, standardised, with a constant
  column), a one-hot output each, at 0.01 beta_max.

"proven" means a gap of 1e-6 with an exact bound; the largest of a series that is proven is in the claims and in
the figure. Seconds are CPU time of one thread, without that of the statistics, which has a column of its own. The limit
is a minute of wall-clock time, of which a busy machine gives less than half, so that more may be provable than is here.

The last table lists what programs of mixed-integer training are given, according to the published programs of two
papers. They solve another problem, and usually a harder one: their networks have one or two hidden layers of sign
activations and of fixed width, and every row of the data adds binary variables. This package's networks have one hidden
layer of quadratic neurons and a penalty in place of a width, so that the optimum is a convex problem over all of them,
and for the squared loss rows only enter sums. Neither optimum says anything about the other. Accuracies are compared on
the pages of `mixed_integer` and `few_shot`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.data.sets import planted_batches, scaled, with_constant
from benchmarks.data.uci_sets import load_uci
from benchmarks.machinery import draw
from benchmarks.machinery.common import TARGET, Records, experiment_in, timed, where
from benchmarks.machinery.summary import summary
from benchmarks.machinery.verdicts import Claim, exact
from benchmarks.runner import Record, Table

#: Series: their sizes, and the share of `beta_max`.
SERIES: dict[str, tuple[tuple[int, ...], float]] = {
    "rows": ((10**4, 10**5, 10**6, 10**7), 0.01),
    "inputs": ((20, 25, 30, 35, 40, 57), 0.1),
    "classes": ((2, 5, 10, 26), 0.01),
}
PROVEN, LIMIT = 1e-6, 60.0
#: Smallest sizes that must be proven.
TARGETS = {"rows": 10**6, "inputs": 30, "classes": 10}
#: Rows that enter the statistics at a time.
CHUNK = 10**5
#: What one program of two papers is given, and what it optimises over.
PROGRAMS = (
    ("Thorbjarnarson, Yorke-Smith 2023, on adult", "up to 280", "108", "2", "one, of 16",
     "integers of 2 to 5 bits, biases too", "signs", "ten minutes"),
    ("Bernardelli et al., BeMi, on MNIST", "up to 80", "784", "2 (of 10, in 45 programs)",
     "two, of 4 and 4 or 10 and 3", "-1, 0, 1", "signs", "not in our sources"),
)  # fmt: skip
#: What this package optimises over, after its largest proven sizes.
OURS = ("one, of any width (a penalty chooses it)", "-1, 1; alpha real", "quadratic", "a minute")
HEADINGS = ("program", "rows", "inputs", "classes", "hidden layers", "weights", "activations", "time limit")


def cases(quick: bool) -> list[dict[str, Any]]:
    return [
        {"series": series, "size": size, "share": share}
        for series, (sizes, share) in SERIES.items()
        for size in (sizes[:1] if quick else sizes)
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    with threadpool_limits(limits=1):
        problem, preparing = timed(lambda: MAKERS[case["series"]](case["size"]))
        problem = problem.with_beta(case["share"] * qsdp.beta_max(problem))
        result, seconds = timed(lambda: qsdp.column_generation(problem, tol=PROVEN, time_limit=LIMIT))
    return {
        "n": problem.n_samples,
        "D": problem.dimension,
        "outputs": problem.n_outputs,
        "gap": result.relative_gap,
        "kind": result.certificate.bound_type,
        "neurons": result.network.n_neurons,
        "seconds": seconds,
        "statistics_seconds": preparing if case["series"] == "rows" else None,
    }


def planted(n: int) -> qsdp.TrainingProblem:
    """Return the problem of rows that are generated in parts, and never held together."""
    sizes = (min(CHUNK, n - start) for start in range(0, n, CHUNK))
    return qsdp.TrainingProblem.from_statistics(
        qsdp.SufficientStatistics.from_batches(planted_batches(sizes, 16)), beta=1.0
    )


def spambase(columns: int) -> qsdp.TrainingProblem:
    data = load_uci("spambase")
    X, _ = scaled(data.X[:, :columns], data.X[:, :columns])
    return qsdp.TrainingProblem(with_constant(X)[0], data.y, beta=1.0)


def letters(count: int) -> qsdp.TrainingProblem:
    data = load_uci("letter")
    classes = np.unique(data.y)[:count]
    rows = np.isin(data.y, classes)
    X, _ = scaled(data.X[rows], data.X[rows])
    return qsdp.TrainingProblem(with_constant(X)[0], (data.y[rows, None] == classes).astype(float), beta=1.0)


MAKERS = {"rows": planted, "inputs": spambase, "classes": letters}


def is_proven(record: Record) -> bool:
    return bool(record.measured["gap"] <= PROVEN and record.measured["kind"] == "exact")


def largest(records: Records, series: str) -> Record | None:
    """Return the record of the largest size of a series that is proven, with all smaller ones."""
    found = None
    for record in sorted(where(records, series=series), key=lambda record: record.case["size"]):
        if not is_proven(record):
            break
        found = record
    return found


def claims(records: Records) -> list[Claim]:
    made = []
    for series, size in TARGETS.items():
        top, known = largest(records, series), where(records, series=series)
        figures = f"proven up to {top.case['size']:,}, {top.measured['seconds']:.1f} s" if top else ""
        holds = [top is not None and top.case["size"] >= size] if known else []
        made.append(exact(TARGET, f"The optimum of {size:,} {series} is proven within a minute.", holds, figures))
    return made


def quotes(records: Records) -> dict[str, str]:
    """Return the largest proven sizes."""
    tops = {series: largest(records, series) for series in SERIES}
    if not all(tops.values()):
        return {}
    *first, last = (f"{top.case['size']:,} {series}" for series, top in tops.items() if top)
    return {"proven": f"{', '.join(first)} or {last}"}


#: The answer on top of the page.
ANSWER = """\
Within a minute, one at a time, the largest problems with a proven global optimum have {largest.proven}. The targets, a
million rows, 30 inputs and ten classes, [are met]{largest: is proven within a minute = 3 supported}. With more inputs,
a gap is left after a minute.
"""


def tables(records: Records) -> Sequence[Table]:
    shown = [replace(one, measured={**one.measured, "proven": is_proven(one)}) for one in records]
    tops = [largest(records, series) for series in SERIES]
    proven = [f"up to {top.case['size']:,} (proven)" if top else "-" for top in tops]
    rows = [*PROGRAMS, ("this package, each by itself", *proven, *OURS)]
    return [*summary(shown), Table("what mixed-integer programs are given", HEADINGS, rows)] if records else []


def plot(records: Records) -> Any:
    """Draw the gap that is left of every problem against its size."""
    panels = {}
    for series, (_, share) in SERIES.items():
        own = sorted(where(records, series=series), key=lambda record: record.case["size"])
        # A gap of zero has no place on the axis.
        lines = {"relative gap": {r.case["size"]: max(r.measured["gap"], 1e-12) for r in own}}
        lines["counts as proven"] = {r.case["size"]: PROVEN for r in own}
        panels[f"{series}, beta = {share:g} beta_max"] = lines
    return draw.curves(panels, "size", "relative gap after at most a minute", "xy")


#: Methods whose versions are stored with the records.
MEASURED = ("relaxation", "column_generation", "statistics")
EXPERIMENT = experiment_in(__name__, "The largest proven optimum", "Targets of the package: proven optima")
