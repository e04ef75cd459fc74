"""Networks that are proven to be globally optimal, and the solver inside: times, gaps, checks.

Column generation on standardised UCI data (the paper's first split; a constant column except for ionosphere), with the
bound of the semidefinite relaxation beside what it proves. Every result is certified again: by `certify`, which knows
network and data only; by its own proof with guarded rounding; and by `qsdp_check`, which uses NumPy alone. The
restricted convex problem of the last round: the dense interior-point method of the library beside CVXPY and Clarabel at
the same tolerance, alternately in one process. Times are CPU seconds of one thread, medians over repetitions.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
import qsdp_check
from benchmarks.experiments import draw, show
from benchmarks.experiments._common import TARGET, duration, experiment_in, medians, small, where
from benchmarks.experiments._data import standardised, with_constant
from benchmarks.experiments.product._restricted import TOLERANCE, compared, solved
from qsdp.bench import Claim, Record, Table, compare, exact, judged
from qsdp.certificates.verification import verified_bound
from qsdp.column_generation import ColumnGenerationResult

#: Data, loss, beta, class against the rest.
PROBLEMS: tuple[tuple[str, str, float, int | None], ...] = (
    ("breast-cancer", "squared", 0.1, None),
    ("breast-cancer", "squared", 10.0, None),
    ("credit-approval", "squared", 1.0, None),
    ("credit-approval", "squared", 10.0, None),
    *(("vehicle", "squared", 1.0, k) for k in range(4)),
    ("ionosphere", "squared", 10.0, None),
    *(("breast-cancer", loss, 1.0, None) for loss in ("absolute", "huber", "logistic", "hinge", "squared_hinge")),
    *(("credit-approval", loss, 1.0, None) for loss in ("absolute", "huber", "logistic", "hinge", "squared_hinge")),
)
SMOOTH = ("squared", "huber", "logistic", "squared_hinge")
#: A gap that counts as proven, seconds that count as little, and those after which it is given up.
PROVEN, MINUTE, TIME_LIMIT = 1e-6, 60.0, 300.0
#: Repetitions, and CPU seconds of column generation after which there are no more.
REPEATS, BUDGET = 5, 35.0
#: Share of the distance from the relaxation's bound that has to be the relaxation's own.
SHARE = 0.99

#: Source and statement of every claim.
STATEMENTS = {
    "proven": (
        TARGET,
        f"Column generation proves a global optimum (relative gap at most {PROVEN:g}, kind exact) of each of "
        f"{len(PROBLEMS)} problems, in less than a minute of one thread.",
    ),
    "relaxation": (
        TARGET,
        f"What is between these networks and the bound of the relaxation is the relaxation's own gap ({SHARE:.0%} of "
        "it at least), and no fault of the networks.",
    ),
    "accepted": (
        TARGET,
        f"Every proof is accepted: with guarded rounding, to a relative gap of {PROVEN:g}, and by the stand-alone "
        "qsdp_check.",
    ),
    "certify": (
        TARGET,
        f"From network and data alone, certify proves the optimum again (to {PROVEN:g}) where the loss is smooth.",
    ),
    "restricted": (
        TARGET,
        "The library's solver of the restricted problem is faster than CVXPY with Clarabel at the same tolerance "
        f"({TOLERANCE:g}).",
    ),
}


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each problem."""
    chosen = [("breast-cancer", "squared", 10.0, None), ("breast-cancer", "logistic", 1.0, None)] if quick else PROBLEMS
    return [
        {"data": data, "loss": loss, "beta": beta, "class": one, "split": 0, "repeats": 1 if quick else REPEATS}
        for data, loss, beta, one in chosen
    ]


def problem_of(case: dict[str, Any]) -> qsdp.TrainingProblem:
    """Return the training problem of a case."""
    X, _, y, _ = standardised(case["data"], case["split"])
    if case["class"] is not None:
        y = np.where(y == case["class"], 1.0, -1.0)
    if case["data"] != "ionosphere":
        (X,) = with_constant(X)
    return qsdp.TrainingProblem(X, y, beta=case["beta"], loss=case["loss"])


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Solve to a proven optimum, several times, check the proof, and solve the last restricted problem both ways."""
    with threadpool_limits(limits=1):
        problem = problem_of(case)
        start = time.process_time()
        relaxation = qsdp.solve_relaxation(problem)
        relaxing = time.process_time() - start
        seconds: list[float] = []
        while len(seconds) < case["repeats"] and sum(seconds) < BUDGET:
            start = time.process_time()
            result, restricted = solved(problem, TIME_LIMIT)
            seconds.append(time.process_time() - start)
        return {
            "n": problem.n_samples,
            "D": problem.dimension,
            "status": result.status,
            "rounds": result.rounds,
            "neurons": result.network.n_neurons,
            "objective": result.objective,
            "lower_bound": result.lower_bound,
            "relative_gap": result.relative_gap,
            "kind": result.certificate.bound_type,
            "seconds": statistics.median(seconds),
            "repeats": len(seconds),
            "relaxation": {
                "objective": relaxation.objective,
                "lower_bound": relaxation.lower_bound,
                "gap": 1.0 - relaxation.lower_bound / result.objective,
                "seconds": relaxing,
            },
            **checked(result, relaxation),
            # The others take Clarabel minutes.
            "restricted": compared(*restricted, case["repeats"])
            if case["loss"] == "squared" or case["data"] == "breast-cancer"
            else None,
        }


def checked(result: ColumnGenerationResult, relaxation: qsdp.Relaxation) -> dict[str, Any]:
    """Return gaps, verdicts and times of the three checks."""
    clock = [time.process_time()]
    certificate = qsdp.certify(
        result.network, result.problem, relaxation, bound_type="exact", arithmetic="verified", time_limit=60.0
    )
    clock.append(time.process_time())
    proof = result.certificate.proof
    assert proof is not None
    bound = verified_bound(proof.problem, proof.nu, proof.trees)
    clock.append(time.process_time())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.qsdp"
        result.certificate.save(path)
        size = path.stat().st_size
        output = io.StringIO()
        clock.append(time.process_time())
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = qsdp_check.main([str(path)])
        clock.append(time.process_time())
    steps = np.diff(clock)
    return {
        "certify": {"gap": certificate.relative_gap, "kind": certificate.bound_type, "seconds": steps[0]},
        "proof": {
            "lower_bound": bound,
            "gap": 1.0 - bound / result.objective,
            "leaves": sum(len(tree.leaves) for tree in proof.trees),
            "seconds": steps[1],
        },
        "check": {
            "code": code,
            "says": output.getvalue().strip().splitlines()[-1],
            "bytes": size,
            "seconds": steps[3],
        },
    }


# -- tables ----------------------------------------------------------------------------------------------


def label(case: dict[str, Any]) -> str:
    """Return the name of the data of a case."""
    return str(case["data"]) + ("" if case["class"] is None else f", class {case['class']}")


#: Headings and formats of the columns of the tables.
GENERATED = (
    ("n", "{n}"),
    ("D", "{D}"),
    ("rounds", "{rounds}"),
    ("neurons", "{neurons}"),
    ("objective", "{objective:.6f}"),
    ("lower bound", "{lower_bound:.6f}"),
    ("gap", "{relative_gap:.1e}"),
    ("kind", "{kind}"),
    ("seconds", "{seconds:.2f}"),
    ("runs", "{repeats}"),
    ("bound of the relaxation", "{relaxation[lower_bound]:.4f}"),
    ("its gap", "{relaxation[gap]:.3%}"),
)
CHECKED = (
    ("certify: gap", "{certify[gap]:.1e}"),
    ("kind", "{certify[kind]}"),
    ("s", "{certify[seconds]:.3f}"),
    ("own proof, guarded: gap", "{proof[gap]:.1e}"),
    ("leaves", "{proof[leaves]}"),
    ("s", "{proof[seconds]:.3f}"),
    ("qsdp_check", "exit code {check[code]}"),
    ("s", "{check[seconds]:.3f}"),
    ("bytes", "{check[bytes]:,}"),
)
RESTRICTED = (
    ("rows", "{restricted[rows]}"),
    ("columns", "{restricted[columns]}"),
    ("library, s", "{restricted[seconds]:.4f}"),
    ("CVXPY, s", "{restricted[cvxpy_seconds]:.3f}"),
    ("of it Clarabel", "{restricted[clarabel_seconds]:.3f}"),
    ("ratio", "{restricted[ratio]:.1f}"),
    ("to Clarabel", "{restricted[clarabel_ratio]:.1f}"),
    ("gap", "{restricted[gap]:.0e}"),
    ("Clarabel's", "{restricted[clarabel_gap]:.0e}"),
    ("runs", "{restricted[repeats]}"),
)


def tables(records: Sequence[Record]) -> list[Table]:
    """Return what was proven, what the checks say, and the times of the restricted problems."""
    place = [
        ("data", lambda group: label(group[0].case)),
        ("loss", show.param("loss")),
        ("beta", show.param("beta", "g")),
    ]

    def columns(formats: Iterable[tuple[str, str]]) -> list[tuple[str, show.Cell]]:
        return [*place, *((heading, lambda group, f=f: f.format(**group[0].measured)) for heading, f in formats)]

    return [
        show.table(
            "Column generation",
            records,
            columns(GENERATED),
            "Gaps are relative, that of the relaxation to the same network. Seconds: CPU, one thread, medians of the "
            f"runs; the same seed each time. No run is begun after {BUDGET:g} seconds.",
        ),
        show.table(
            "Certified again",
            records,
            columns(CHECKED),
            "One run each, CPU seconds. certify knows network and data only; for a loss without a gradient it has no "
            "good dual vector. Exit code 0: accepted.",
        ),
        show.table(
            f"Restricted problem of the last round, relative tolerance {TOLERANCE:g}",
            [record for record in records if record.measured["restricted"] is not None],
            columns(RESTRICTED),
            "CPU seconds of one thread, alternately in one process; medians, ratios of the same repetition. The other "
            "losses on credit-approval, which take Clarabel minutes, are left out.",
        ),
    ]


# -- claims ----------------------------------------------------------------------------------------------


def claims(records: Sequence[Record]) -> list[Claim]:
    """Judge proofs, checks and ratios, each of all problems."""

    def all_of(name: str, group: Sequence[Record], holds: Callable[[Record], bool], figures: Any) -> Claim:
        cases = {f"{label(r.case)}, {r.case['loss']}, beta {r.case['beta']:g}": holds(r) for r in group}
        needed = sum(name != "certify" or loss in SMOOTH for _, loss, _, _ in PROBLEMS)
        return exact(*STATEMENTS[name], cases, figures(group) if group else "", needed=needed)

    smooth = [record for record in records if record.case["loss"] in SMOOTH]
    return [
        all_of("proven", records, is_proven, _proven_figures),
        all_of("relaxation", records, lambda r: own_share(r) >= SHARE, _relaxation_figures),
        all_of("accepted", records, is_accepted, _accepted_figures),
        all_of("certify", smooth, lambda r: bool(r.measured["certify"]["gap"] <= PROVEN), _certify_figures),
        _restricted_claim(records),
    ]


def is_proven(record: Record) -> bool:
    """Return whether the optimum is proven, within a minute."""
    m = record.measured
    return bool(m["relative_gap"] <= PROVEN and m["kind"] == "exact" and m["seconds"] < MINUTE)


def own_share(record: Record) -> float:
    """Return how much of the distance between network and bound is between proven bound and relaxed optimum."""
    m, relaxation = record.measured, record.measured["relaxation"]
    # The relaxed optimum is nowhere above the relaxed objective.
    return float((m["lower_bound"] - relaxation["objective"]) / (m["objective"] - relaxation["lower_bound"]))


def is_accepted(record: Record) -> bool:
    """Return whether both checks of the proof accept it."""
    return bool(record.measured["proof"]["gap"] <= PROVEN and record.measured["check"]["code"] == 0)


def _proven_figures(records: Sequence[Record]) -> str:
    seconds = medians([r.measured["seconds"] for r in records])
    return f"{seconds} s, gaps up to {max(r.measured['relative_gap'] for r in records):.1e}"


def _relaxation_figures(records: Sequence[Record]) -> str:
    gaps = [r.measured["relaxation"]["gap"] for r in records]
    share = min(own_share(r) for r in records)
    return f"gaps of {min(gaps):.3%} to {max(gaps):.1%}, of which the relaxation's own at least {share:.2%}"


def _accepted_figures(records: Sequence[Record]) -> str:
    guarded = max(r.measured["proof"]["gap"] for r in records)
    slowest = max(max(r.measured[name]["seconds"] for name in ("proof", "check")) for r in records)
    return f"guarded gaps up to {guarded:.1e}; {slowest:.2g} s at most"


def _certify_figures(records: Sequence[Record]) -> str:
    return f"gaps up to {max(r.measured['certify']['gap'] for r in records):.1e}"


def _restricted_claim(records: Sequence[Record]) -> Claim:
    """Compare the medians of every problem, in pairs, and the gap with the tolerance."""
    found = {i: r.measured["restricted"] for i, r in enumerate(records) if r.measured["restricted"] is not None}
    ours, theirs = ({i: m[name] for i, m in found.items()} for name in ("seconds", "cvxpy_seconds"))
    if any(m["gap"] > TOLERANCE for m in found.values()):
        gap = max(m["gap"] for m in found.values())
        return exact(*STATEMENTS["restricted"], {f"to the tolerance: a gap of {gap:.0e}": False})
    figures = ""
    if found:
        gap, clarabel = (max(m[name] for m in found.values()) for name in ("gap", "clarabel_gap"))
        figures = f"ratio {medians([m['ratio'] for m in found.values()])}, to Clarabel alone "
        figures += f"{medians([m['clarabel_ratio'] for m in found.values()])}; gaps up to {gap:.0e} and {clarabel:.0e}"
    return judged(*STATEMENTS["restricted"], compare(ours, theirs, less=True, log=True), figures)


def plot(records: Sequence[Record]) -> Any:
    """Draw the gap of the relaxation and the one that is proven, with the seconds between them."""
    figure, axis = draw.subplots(figsize=(8.5, 0.7 + 0.27 * len(records)))
    for row, record in enumerate(records):
        m = record.measured
        gap, relaxed = max(m["relative_gap"], 1e-10), m["relaxation"]["gap"]
        axis.plot([gap, relaxed], [row, row], color="0.8", zorder=1)
        axis.scatter(relaxed, row, color="C1", zorder=2, label=None if row else "bound of the relaxation")
        axis.scatter(gap, row, color="C0", zorder=2, label=None if row else "column generation")
        seconds = f"{m['relaxation']['seconds']:.2g} s, {m['seconds']:.2g} s"
        axis.text(0.3, row, seconds, fontsize=8, va="center", ha="left")
    axis.axvline(PROVEN, color="0.5", linestyle=":", linewidth=1)
    axis.set_xscale("log")
    axis.set_xlim(right=8.0)
    axis.set_yticks(
        range(len(records)), [f"{label(r.case)}, {r.case['loss']}, {r.case['beta']:g}" for r in records], fontsize=8
    )
    axis.invert_yaxis()
    axis.set_xlabel("relative gap of the same network; at the right CPU seconds, of the relaxation first")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8, frameon=False)
    return figure


def quotes(records: Sequence[Record]) -> dict[str, str]:
    """Return a proven optimum for README."""
    found = {}
    for record in where(records, data="breast-cancer", loss="squared", beta=10.0):
        m = record.measured
        what = f"proven global optimum over all networks, breast-cancer ({m['n']} x {m['D']}, squared loss, beta = 10)"
        shown = f"{m['neurons']} neurons, relative gap {small(m['relative_gap'])}, {duration(m['seconds'])}"
        found["optimum"] = show.row(what, shown)
    return found


EXPERIMENT = experiment_in(
    __name__,
    "Proven global optima",
    "Targets of the package: column generation, its certificates, its restricted problem",
)
