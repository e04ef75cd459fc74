"""Time and memory of the whole theory at once: many samples, levels, a lift and several outputs.

Planted quadratic targets with a tenth of noise; squared loss, beta = 10, activation (0.0937, 0.5, 0.4688), M = 4 (five
levels), ten outputs, d = 50 inputs, 10000 neurons; one thread, one process. The squared loss is reduced to N(N + 1)/2
rows once for all outputs, so that an iteration of the solver should not depend on the number of samples: fewer samples
are measured beside the 20000. Seconds are the processor's, after a small run that loads the libraries; those of an
iteration are between the solver's first report and its last, over all outputs. Memory is the largest size of the
process, libraries and data included.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.experiments import show
from benchmarks.experiments._common import TARGET, Records, by, experiment_in, grid, grouped, medians, values, where
from benchmarks.experiments._process import in_own_process, peak
from benchmarks.experiments.product._stages import STAGES, limit_claim, staged
from qsdp.bench import Claim, Table, exact

ACTIVATION = (0.0937, 0.5, 0.4688)
SAMPLES = (5000, 10_000, 20_000)
SIZE = {"features": 50, "levels": 5, "outputs": 10, "neurons": 10_000}
QUICK = {"features": 10, "levels": 5, "outputs": 3, "neurons": 300}
SEEDS = 3
BETA = 10.0
#: Limits: MiB, processor seconds, relative gap.
MEMORY, SECONDS, GAP = 2048.0, 60.0, 1e-6

WHAT = "n = 20000, d = 50, M = 4, ten outputs, activation (0.0937, 0.5, 0.4688)"
SMALL = (TARGET, f"{WHAT}: below 2 GiB.")
SHORT = (TARGET, "... from data to a certified network in less than a minute of one thread.")
CERTIFIED = (TARGET, f"... with a certified relative gap of the relaxation of at most {GAP:g}.")
ITERATIONS = (TARGET, "... an iteration of the solver takes as long as with a quarter of the samples, but for a fifth.")


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(samples=(1000, 4000), **QUICK, seed=0)
    return grid(seed=range(SEEDS), samples=SAMPLES, **SIZE)


def planted(n: int, d: int, outputs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return data and targets of random quadratic functions with a tenth of noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    S = rng.standard_normal((outputs, d, d)) / d
    Y = np.stack([np.einsum("ij,ij->i", X @ A, X) for A in S], axis=1) + X @ rng.standard_normal((d, outputs))
    return X, Y + 0.1 * Y.std(axis=0) * rng.standard_normal(Y.shape)


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Measure in another process, whose largest size nothing else has raised."""
    return in_own_process(measure, case)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    clock = _Clock()
    common: dict[str, Any] = {"activation": ACTIVATION, "levels": case["levels"], "beta": BETA}
    with threadpool_limits(limits=1):
        staged(*planted(100, 3, 2, 0), 100, 0, **common)
        X, Y = planted(case["samples"], case["features"], case["outputs"], case["seed"])
        found = staged(X, Y, case["neurons"], case["seed"], clock, **common)
    return {
        "seconds": found.seconds,
        "whole_seconds": sum(found.seconds.values()),
        "iterations": clock.iterations,
        "iteration_seconds": clock.seconds / clock.iterations if clock.iterations else None,
        "solver": found.relaxation.solver,
        "peak_mib": peak() / 2**20,
        "relaxation_gap": found.relaxation.relative_gap,
        "network_gap": found.certificate.relative_gap,
        "bits": found.network.n_bits,
    }


class _Clock:
    """A callback: processor seconds from every report of a solve to its next, those before the first left out."""

    def __init__(self) -> None:
        self.seconds, self.iterations = 0.0, 0
        self._last: tuple[float, int] | None = None

    def __call__(self, progress: Any) -> bool:
        now = time.process_time()
        if self._last is not None and progress.iteration > self._last[1]:
            self.seconds += now - self._last[0]
            self.iterations += progress.iteration - self._last[1]
        self._last = (now, progress.iteration)
        return False


def tables(records: Records) -> list[Table]:
    def name(group: Records) -> str:
        case = group[0].case
        return f"{case['samples']} x {case['features']}, M = {case['levels'] - 1}, {case['outputs']} outputs"

    columns = [
        ("problem", name),
        *((f"{stage}, s", show.median(f"seconds/{stage}", ".3g")) for stage in STAGES),
        ("in all, s", show.medians("whole_seconds")),
        ("iterations", show.median("iterations", ".0f")),
        ("ms an iteration", show.median("iteration_seconds", ".3g", 1e3, "")),
        ("MiB", show.medians("peak_mib")),
        ("relaxation's gap", show.most("relaxation_gap", ".1e")),
        ("network's gap, %", show.median("network_gap", ".1f", 100.0)),
        ("bits", show.first("bits", ",")),
        ("data sets", show.count),
    ]
    note = (
        "Processor seconds of one thread; medians over data sets, and ranges. MiB: the largest size of the process, "
        "libraries and data included. Gaps are certified: the relaxation's largest, the network's median."
    )
    groups = grouped(records, "samples", "features", "levels", "outputs")
    return [show.table("The whole theory at once", dict(sorted(groups.items())), columns, note)]


def claims(records: Records) -> list[Claim]:
    full = where(records, samples=SAMPLES[-1], outputs=SIZE["outputs"])
    limits = (
        (SMALL, "peak_mib", MEMORY, "MiB"),
        (SHORT, "whole_seconds", SECONDS, "seconds"),
        (CERTIFIED, "relaxation_gap", GAP, "gaps"),
    )
    found = [
        limit_claim(*claim, values(full, name), limit, needed=SEEDS, what=what) for claim, name, limit, what in limits
    ]
    return [*found, _iteration_claim(records)]


def _iteration_claim(records: Records) -> Claim:
    """Compare an iteration of all samples with one of a quarter of them, on data of the same seed."""
    few, many = (
        by(where(records, samples=n, outputs=SIZE["outputs"]), "iteration_seconds", "seed")
        for n in (SAMPLES[0], SAMPLES[-1])
    )
    few, many = ({seed: value for seed, value in one.items() if value} for one in (few, many))
    pairs = sorted(set(few) & set(many))
    ratios = np.array([many[seed] / few[seed] for seed in pairs])
    figures = f"{medians(ratios)} times the seconds for {SAMPLES[-1] // SAMPLES[0]} times the samples"
    return exact(*ITERATIONS, ratios <= 1.2, figures, needed=SEEDS)


EXPERIMENT = experiment_in(
    __name__,
    "Many samples, levels, a lift and several outputs at once",
    "Targets of the package; Bartan, Pilanci, Theorem 1 and section 4",
)
