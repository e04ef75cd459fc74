"""Hundreds of inputs, several outputs: certified gaps against time between small problems and tall ones.

Squared loss of targets of -1 and 1, one output a class; `solver="auto"`, relative gap 1e-2 of every output. MNIST is
pooled to 14 x 14 pixels of 0 to 1, with a column of ones; the first beta includes the Gram matrix, the others follow
on a path. Wines are eleven columns cut at ten thresholds each, with a column of ones, and their six classes; the few
rows are the first 100 images of MNIST, all pixels. Betas are shares of `beta_max`, which is computed before.

Seconds are the processor's on one thread, on a machine that others used: seconds of the wall are beside them, and of
no use for a comparison. Memory is the largest size of the process, libraries and data included.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments._common import accuracy, experiment_in, percent
from benchmarks.experiments._data import with_constant
from benchmarks.experiments._process import in_own_process, peak
from benchmarks.experiments.product._stages import TARGET
from qsdp.bench import Claim, Record, Table, exact, with_unmeasured
from qsdp.encoding import ThresholdEncoder
from qsdp.relaxation.backends import Settings
from qsdp.relaxation.reductions import Reductions
from qsdp.relaxation.solution import Relaxation
from qsdp.relaxation.solve import solve_with

TOL = 1e-2
POOLED, WINES, FEW = "MNIST 14 x 14", "wines", "100 images"
#: Of the table: seconds to the first beta and from one beta to the next, MiB.
LIMITS = {POOLED: 600.0, WINES: 30.0, FEW: 20.0}
NEXT, MEMORY = 180.0, 8192.0

SECONDS = {
    POOLED: (TARGET, "MNIST 14 x 14, 60000 images, ten classes, 0.001 beta_max: every class to 1e-2 in 10 minutes."),
    WINES: (TARGET, "4800 x 109 thresholds, six outputs, 0.01 beta_max: 1e-2 in 30 s."),
    FEW: (TARGET, "100 rows, 784 inputs, ten classes, 0.01 beta_max: 1e-2 in 20 s."),
}
FURTHER = (TARGET, "... MNIST 14 x 14: 3 minutes more for a further beta.")
SMALL = (TARGET, "... MNIST 14 x 14: below 8 GiB.")


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return [
            {"data": POOLED, "samples": 300, "shares": [0.02, 0.01]},
            {"data": FEW, "samples": 20, "shares": [0.1]},
        ]
    return [
        {"data": POOLED, "samples": 60_000, "shares": [0.001, 0.0005]},
        {"data": WINES, "samples": 4800, "shares": [0.01]},
        {"data": FEW, "samples": 100, "shares": [0.01]},
        {"data": FEW, "samples": 100, "shares": [0.001]},
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Measure in another process, whose largest size nothing else has raised."""
    return in_own_process(measure, case)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    (X, y), (X_test, y_test) = data(case["data"], case["samples"])
    problem = qsdp.TrainingProblem(X, 2.0 * np.eye(int(y.max()) + 1)[y] - 1.0, beta=1.0)
    with threadpool_limits(limits=1):
        largest = qsdp.beta_max(problem)
        clock, ends = _Clock(), []
        path: list[Relaxation] = []
        # As `relaxation_path` does, whose callback does not know the beta.
        settings = Settings(TOL, "two-block", None, callback=clock, reductions=Reductions())
        for share in case["shares"]:
            start = path[-1] if path else None
            path.append(solve_with(problem.with_beta(share * largest), "auto", settings, "tight", start=start))
            ends.append(clock.now())
            clock.curve.append((*ends[-1], path[-1].iterations or 0, path[-1].relative_gap))
    return {
        "curve": clock.curve,
        "seconds": [end[0] for end in ends],
        "wall_seconds": [end[1] for end in ends],
        "solvers": [relaxation.solver for relaxation in path],
        "iterations": [relaxation.iterations for relaxation in path],
        "class_gaps": [class_gaps(relaxation) for relaxation in path],
        "relative_gaps": [relaxation.relative_gap for relaxation in path],
        "train_accuracy": [accuracy(relaxation.predict(X), y) for relaxation in path],
        "test_accuracy": [accuracy(relaxation.predict(X_test), y_test) for relaxation in path] if len(y_test) else [],
        "peak_mib": peak() / 2**20,
    }


def class_gaps(relaxation: Relaxation) -> list[float]:
    """Return the relative gap of every output."""
    gaps = []
    for k in range(relaxation.problem.n_outputs):
        part = relaxation.problem.output(k)
        objective = part.relaxed_objective(relaxation.Z_stack[k], relaxation.rho_stack[k])
        bound = max(0.0, part.data_fit.guarded_dual_value(relaxation.dual.nu[:, k]))
        gaps.append((objective - bound) / objective)
    return gaps


class _Clock:
    """A callback: seconds of processor and wall, iteration and gap of every report."""

    def __init__(self) -> None:
        self._start = (time.process_time(), time.perf_counter())
        self.curve: list[tuple[float, float, int, float]] = []

    def now(self) -> tuple[float, float]:
        return time.process_time() - self._start[0], time.perf_counter() - self._start[1]

    def __call__(self, progress: Any) -> bool:
        self.curve.append((*self.now(), progress.iteration, progress.relative_gap))
        return False


def data(name: str, samples: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return inputs and class numbers, for training and for the test."""
    if name == WINES:
        X, X_test, y, y_test = qsdp.datasets.load_uci("wine-quality").split(random_state=0)
        encoder = ThresholdEncoder(n_thresholds=10).fit(X[:samples])
        X, X_test = with_constant(encoder.transform(X[:samples]), encoder.transform(X_test))
        # Of the best wines there are three.
        return (X, np.minimum(y[:samples], 5)), (X_test, np.minimum(y_test, 5))
    (images, y), (test_images, y_test) = (qsdp.datasets.load_mnist(part) for part in ("train", "test"))
    X, X_test = images[:samples] / 255.0, test_images / 255.0
    if name == POOLED:
        X, X_test = with_constant(
            *(images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196) for images in (X, X_test))
        )
    return (X, y[:samples]), (X_test, y_test)


def tables(records: Sequence[Record]) -> list[Table]:
    rows = []
    for record in records:
        found, before = record.measured, (0.0, 0.0)
        for k, share in enumerate(record.case["shares"][: len(found["seconds"])]):
            seconds, wall = found["seconds"][k], found["wall_seconds"][k]
            rows.append(
                [
                    f"{record.case['data']}, {record.case['samples']} rows",
                    f"{share:g}",
                    found["solvers"][k],
                    f"{found['iterations'][k]}",
                    f"{seconds - before[0]:.0f}",
                    f"{wall - before[1]:.0f}",
                    f"{max(found['class_gaps'][k]):.2g}",
                    f"{found['relative_gaps'][k]:.2g}",
                    percent([found["train_accuracy"][k]]),
                    percent([found["test_accuracy"][k]]),
                    f"{found['peak_mib']:.0f}",
                ]
            )
            before = (seconds, wall)
    headings = ["problem", "beta, share", "solver", "iterations", "processor s", "wall s", "largest gap of an output"]
    headings += ["gap", "training, %", "test, %", "MiB"]
    note = (
        "One thread, on a shared machine. A further row of the same problem is the next beta of its path. Accuracies "
        "are those of the relaxation itself."
    )
    return [Table("Between small and tall", headings, rows, note), _curves(records)]


def _curves(records: Sequence[Record]) -> Table:
    """Return the seconds at which gaps were certified, of the first beta."""
    levels = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
    rows = []
    for record in records:
        end = record.measured["seconds"][0]
        first = [(seconds, gap) for seconds, _, _, gap in record.measured["curve"] if seconds <= end]
        reached = [next((f"{seconds:.0f}" for seconds, gap in first if gap <= level), "-") for level in levels]
        case = record.case
        rows.append([f"{case['data']}, {case['samples']} rows, {case['shares'][0]:g}", *reached])
    note = "Processor seconds until the gap of all outputs together was certified, the first beta of each path."
    return Table("Gap against time", ["problem", *(f"{level:g}" for level in levels)], rows, note)


def claims(records: Sequence[Record]) -> list[Claim]:
    full = [record for record in records if record.case in cases(quick=False)]
    found = []
    for record in full:
        name, measured = record.case["data"], record.measured
        first = measured["seconds"][0]
        if record.case["shares"][0] in (0.001 if name == POOLED else 0.01,):
            gap = max(measured["class_gaps"][0])
            wall = measured["wall_seconds"][0]
            figures = f"{first:.0f} processor seconds of one thread, {wall:.0f} of the wall beside other work"
            figures += f"; largest gap {gap:.2g}"
            found.append(exact(*SECONDS[name], [first <= LIMITS[name] and gap <= TOL], figures))
        if name == POOLED:
            further = np.diff(measured["seconds"])
            gap = max(max(gaps) for gaps in measured["class_gaps"][1:])
            figures = f"{further.max():.0f} processor seconds of one thread; largest gap {gap:.2g}"
            found.append(exact(*FURTHER, [further.max() <= NEXT and gap <= TOL], figures))
            found.append(exact(*SMALL, [measured["peak_mib"] <= MEMORY], f"{measured['peak_mib']:.0f} MiB"))
    return with_unmeasured(found, [*SECONDS.values(), FURTHER, SMALL])


EXPERIMENT = experiment_in(__name__, "Hundreds of inputs and several outputs", "Targets of the package")
