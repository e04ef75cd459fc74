"""What comes after the relaxation: sampling, prediction and two sweeps of polishing, against n, m and threads.

50 inputs; polishing has two outputs, which threads can share. Every case has a process of its own, one thread of BLAS;
cases of two threads run with one thread in turn, so that what else the machine does is the same for both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments import show
from benchmarks.experiments._common import TARGET, Records, experiment_in, seconds, timed, where
from benchmarks.experiments._process import begin_peak, in_own_process, peak
from qsdp.bench import Claim, Table, paired_claim

#: Inputs of all networks, seconds that repetitions of one measurement may take, and pairs of runs by one and by two
#: threads.
INPUTS, PATIENCE, PAIRS = 50, 3.0, 20
STAGES: dict[str, list[dict[str, int]]] = {
    "sampling": [{"m": m, "jobs": jobs} for m, jobs in ((1000, 1), (10_000, 1), (100_000, 1), (100_000, 2))],
    "prediction": [
        {"n": 20_000, "m": 1000, "jobs": 1},
        *({"n": 200_000, "m": m, "jobs": jobs} for m, jobs in ((1000, 1), (100_000, 1), (1000, 2), (10, 1))),
    ],
    "polishing": [
        *({"n": 1000, "m": m, "jobs": 1} for m in (100, 1000)),
        *({"n": 10_000, "m": 100, "jobs": jobs} for jobs in (1, 2)),
    ],
}


def cases(quick: bool) -> list[dict[str, Any]]:
    return [
        {"stage": stage, **sizes, "repeats": 1 if quick else 3 if sizes["jobs"] == 1 else PAIRS}
        for stage, listed in STAGES.items()
        for sizes in (listed[:1] if quick else listed)
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case, threads=1)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Return seconds, those by one thread in turn with them, peak memory, and how much of that the call itself took."""
    sizes = {name: case[name] for name in ("n", "m") if name in case}
    call = CALLS[case["stage"]](**sizes, jobs=case["jobs"])
    single = CALLS[case["stage"]](**sizes, jobs=1) if case["jobs"] > 1 else None
    before = begin_peak()
    runs: list[float] = []
    single_runs: list[float] = []
    while len(runs) < case["repeats"] and (single is not None or sum(runs) < PATIENCE):
        if single is not None:
            single_runs.append(timed(single, time.perf_counter)[1])
        runs.append(timed(call, time.perf_counter)[1])
    largest = peak()
    sizes_mib = {"peak_mib": largest / 2**20, "call_mib": (largest - before) / 2**20}
    return {"seconds": statistics.median(runs), "runs": runs, "single_runs": single_runs, **sizes_mib}


def _sampling(m: int, jobs: int) -> Callable[[], Any]:
    data = qsdp.datasets.make_planted(500, INPUTS, random_state=0)
    relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(data.X, data.y, beta=1.0), tol=1e-2)
    covariance = qsdp.shape_covariance(relaxation)
    return lambda: qsdp.sample_network(covariance, m, random_state=0, n_jobs=jobs)


def _prediction(n: int, m: int, jobs: int) -> Callable[[], Any]:
    X, network = np.random.default_rng(1).standard_normal((n, INPUTS)), _network(m, 1)
    return lambda: network.predict(X, n_jobs=jobs)


def _polishing(n: int, m: int, jobs: int) -> Callable[[], Any]:
    rng = np.random.default_rng(1)
    X, network = rng.standard_normal((n, INPUTS)), _network(m, 2)
    y = _network(m, 2, seed=2).predict(X) + rng.standard_normal((n, 2))
    problem = qsdp.TrainingProblem(X, y, beta=1.0)
    return lambda: qsdp.polish(network, problem, max_sweeps=2, random_state=0, n_jobs=jobs)


def _network(m: int, outputs: int, seed: int = 0) -> qsdp.BilinearNetwork:
    """Return a network whose neurons serve the outputs in turn, with one magnitude."""
    U, V = np.random.default_rng(seed).choice(np.array([-1, 1], dtype=np.int8), size=(2, m, INPUTS))
    alpha = np.eye(outputs)[np.arange(m) % outputs] / m
    return qsdp.BilinearNetwork(U, V, alpha[:, 0] if outputs == 1 else alpha)


CALLS = {"sampling": _sampling, "prediction": _prediction, "polishing": _polishing}


def tables(records: Records) -> list[Table]:
    columns = [
        "stage",
        *((name, show.param(name, "", "")) for name in ("n", "m")),
        "threads = jobs | seconds:.4g",
        ("runs", lambda group: str(len(group[0].measured["runs"]))),
        "MiB = peak_mib:.0f",
        ("MiB of the call", show.first("call_mib", ".0f", "")),
    ]
    return [show.table(f"What comes after the relaxation, {INPUTS} inputs", records, columns)]


def claims(records: Records) -> list[Claim]:
    """Compare two threads with one, run by run."""
    made = []
    for stage in STAGES:
        statement, paired = f"Two threads take less time than one, for {stage}.", where(records, stage=stage, jobs=2)
        two, one = (
            dict(enumerate(run for record in paired for run in record.measured[name]))
            for name in ("runs", "single_runs")
        )
        names = ("by two", "by one")
        made.append(paired_claim(TARGET, statement, two, one, names=names, show=seconds, less=True, log=True))
    return made


EXPERIMENT = experiment_in(__name__, "What comes after the relaxation", "Time and memory of the package")
