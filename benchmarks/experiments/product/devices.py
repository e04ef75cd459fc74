"""A GPU beside the processor of the same machine: statistics and Gram matrices.

Every work runs twice, each time in a process of its own: in NumPy on all cores of the machine, and in torch on a GPU.
Where torch finds no GPU, these cases are skipped. Before its measurement, torch computes one small product, so that no
figure includes the start of the device.

    statistics   `SufficientStatistics` of 5e7 rows of 30 columns: ten batches of 10^6 planted rows, each read five
                 times; seconds without generating them
    gram         the Gram matrix of 60000 images of MNIST pooled to 14 x 14 pixels, with a constant, double precision
    blocks       the Gram matrix of the moments of 5 x 5 patches in 4 x 4 regions of all pixels; 5616 of them an image

Seconds are wall-clock time, with the copies to and from the device. Sums are compared by what is computed from them: of
statistics the relaxation's bound, solved on the processor to a gap of 1e-6 with a beta of 0.05 `beta_max`; of a Gram
matrix its trace and its quadratic form at a random vector. Pooled images have a constant column.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

import qsdp
from benchmarks.data.sets import images, planted_batches, pooled, signs_of, with_constant
from benchmarks.machinery.common import TARGET, Records, experiment_in, timed
from benchmarks.machinery.process import in_own_process, peak
from benchmarks.machinery.verdicts import Claim, exact
from qsdp._utils.arrays import library_of
from qsdp.gram import Gram

Measured = dict[str, Any]

PROCESSOR, GPU = "processor", "cuda"
COLUMNS, BATCHES, READ, BATCH = 30, 10, 5, 10**6
#: Fraction of `beta_max` for the relaxation of statistics.
SHARE = 0.05
EQUAL, SOLVED = 1e-9, 1e-6


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return every work on two devices; quick runs compare NumPy and torch on the processor."""
    devices = (PROCESSOR, "cpu") if quick else (GPU, PROCESSOR)
    return [
        {"work": work, "device": device, "part": part if quick else 1}
        for work, (_, part) in WORKS.items()
        for device in devices
    ]


def run(case: dict[str, Any]) -> Measured:
    return in_own_process(measure, case)


def measure(case: dict[str, Any]) -> Measured:
    device = None if case["device"] == PROCESSOR else case["device"]
    library = library_of(device)
    library.to_numpy(library.to_device(np.ones((64, 64))) @ library.to_device(np.ones((64, 64))))
    work, _ = WORKS[case["work"]]
    return {"name": name_of(device), **work(device, case["part"]), "peak_mib": peak() / 2**20}


def name_of(device: str | None) -> str:
    """Return the name of a GPU, or the number of cores that NumPy or torch uses."""
    if device == GPU:
        import torch

        return str(torch.cuda.get_device_name())
    return f"{max(pool['num_threads'] for pool in threadpool_info())} threads"


def wall(work: Callable[[], Any]) -> tuple[Any, float]:
    return timed(work, time.perf_counter)


def statistics(device: str | None, part: int) -> Measured:
    batches = list(planted_batches([BATCH // part] * BATCHES, COLUMNS))
    stream: Iterator[Any] = itertools.chain.from_iterable(itertools.repeat(batches, READ))
    found, seconds = wall(lambda: qsdp.SufficientStatistics.from_batches(stream, device=device))
    rows = found.n_samples_seen_
    problem = qsdp.TrainingProblem.from_statistics(found, beta=1.0)
    return {"rows": rows, "seconds": seconds, "rows_a_second": rows / seconds, **solved(problem)}


def pixels(part: int, side: int = 28) -> tuple[np.ndarray, np.ndarray]:
    X, _, y, _ = images("mnist", 60_000 // part)
    return X if side == 28 else with_constant(pooled(X, side))[0], y


def gram(device: str | None, part: int) -> Measured:
    X, y = pixels(part, 14 if part == 1 else 4)
    return of_gram(qsdp.TrainingProblem(X, signs_of(y)[:, 0], beta=1.0), device)


def blocks(device: str | None, part: int) -> Measured:
    X, _, y, _ = images("mnist", 60_000 // part)
    bytes_ = np.rint(255.0 * X).astype(np.uint8).reshape(-1, 28, 28)
    encoder = qsdp.encoding.Patches(size=5 if part == 1 else 2, regions=4)
    moments, seconds = wall(lambda: encoder.fit(bytes_).transform(bytes_))
    problem = qsdp.TrainingProblem(moments, signs_of(y)[:, 0], beta=1.0)
    return {"encoding_seconds": seconds, **of_gram(problem, device)}


def of_gram(problem: qsdp.TrainingProblem, device: str | None) -> Measured:
    """Return the seconds of a Gram matrix, and two figures that must not depend on the device."""
    found, seconds = wall(lambda: Gram.from_map(problem.map, problem.targets, device=device))
    side = len(found.matrix)
    s = np.random.default_rng(0).standard_normal(side)
    sums = {"trace": float(np.trace(found.matrix)), "form": float(s @ found.matrix @ s)}
    return {"rows": problem.n_samples, "numbers": side, "seconds": seconds, **sums}


def solved(problem: qsdp.TrainingProblem) -> Measured:
    problem = problem.with_beta(SHARE * qsdp.beta_max(problem))
    return bounds(qsdp.solve_relaxation(problem))


def bounds(found: Any) -> Measured:
    return {"objective": float(found.objective), "lower_bound": float(found.lower_bound)}


#: Function that measures each work, and the divisor of its size in quick runs.
WORKS: dict[str, tuple[Callable[[str | None, int], Measured], int]] = {
    "statistics": (statistics, 20_000),
    "gram": (gram, 100),
    "blocks": (blocks, 100),
}


def pairs(records: Records) -> dict[str, tuple[Measured, Measured]]:
    """Return the measurements of every work on the processor and on the other device, where there are both."""
    found: dict[str, dict[str, Measured]] = {}
    for record in records:
        found.setdefault(record.case["work"], {})[record.case["device"]] = record.measured
    return {
        work: (both[PROCESSOR], next(both[name] for name in both if name != PROCESSOR))
        for work, both in found.items()
        if PROCESSOR in both and len(both) == 2
    }


def near(both: tuple[Measured, Measured], name: str, tolerance: float) -> bool:
    one, other = (measured[name] for measured in both)
    return bool(abs(one - other) <= tolerance * max(abs(one), abs(other)))


def meet(both: tuple[Measured, Measured]) -> bool:
    """Return whether the intervals between bound and objective meet."""
    return bool(max(m["lower_bound"] for m in both) <= min(m["objective"] for m in both))


def claims(records: Records) -> list[Claim]:
    known, made = pairs(records), []
    for works, statement, holds in (
        (
            ("statistics",),
            "Bounds from statistics are equal to 1e-6, the gap at which solves end.",
            lambda both: meet(both) and near(both, "lower_bound", SOLVED),
        ),
        (
            ("gram", "blocks"),
            "... the trace and a quadratic form of Gram matrices.",
            lambda both: near(both, "trace", EQUAL) and near(both, "form", EQUAL),
        ),
    ):
        made.append(exact(TARGET, f"GPU beside processor: {statement}", [holds(known[w]) for w in works if w in known]))
    for work, (processor, device) in known.items():
        figures = f"{device['seconds']:.3g} s beside {processor['seconds']:.3g} s"
        made.append(
            exact(
                TARGET, f"GPU faster than the processor: {work}.", [device["seconds"] < processor["seconds"]], figures
            )
        )
    return made


#: The answer on top of the page.
ANSWER = """\
A GPU [is faster than the processor of its machine]{devices: GPU faster = 3 supported} at all three works: statistics
take {devices: processor: statistics}, the Gram matrix of pooled images {devices: processor: gram}, and that of moments
of patches {devices: processor: blocks}. What is computed from them
[agrees]{devices: GPU beside processor = 2 supported}.
"""

#: Methods whose versions are stored with the records.
MEASURED = ("statistics", "relaxation", "encoding")
EXPERIMENT = experiment_in(__name__, "A GPU beside the processor", "Targets of the package: devices")
