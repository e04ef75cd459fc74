"""What comes after the relaxation: sampling, polishing and prediction, against n, m and threads."""

from __future__ import annotations

import statistics
import time

import numpy as np
from _memory import peak_mib, resident_mib

import qsdp

#: Inputs of all networks, and seconds that repetitions of one measurement may take.
INPUTS, _PATIENCE = 50, 3.0


def cases(quick):
    """Return pairs of stage and sizes."""
    sampling = [(1000, 1), (10_000, 1), (100_000, 1), (100_000, 2)]
    prediction = [
        (20_000, 1000, 1), (200_000, 1000, 1), (200_000, 100_000, 1), (200_000, 1000, 2), (200_000, 10, 1),
    ]  # fmt: skip
    polishing = [(1000, 100, 1), (1000, 1000, 1), (10_000, 100, 1), (10_000, 100, 2)]
    listed = [("sampling", {"m": m, "jobs": jobs}) for m, jobs in sampling]
    listed += [("prediction", {"n": n, "m": m, "jobs": jobs}) for n, m, jobs in prediction]
    listed += [("polishing", {"n": n, "m": m, "jobs": jobs}) for n, m, jobs in polishing]
    return [listed[0], listed[4], listed[9]] if quick else listed


def networks(stage, sizes, repeats):
    """Return the row of one stage: seconds, peak memory, and how much of that the call itself took."""
    call = CALLS[stage](**sizes)
    before, runs = resident_mib(), []
    while len(runs) < repeats and sum(runs) < _PATIENCE:
        start = time.perf_counter()
        call()
        runs.append(time.perf_counter() - start)
    peak = peak_mib()
    return [
        {
            "case": stage, "solver": "qsdp", "D": INPUTS, **sizes, "seconds": statistics.median(runs), "runs": runs,
            "peak_mib": peak, "call_mib": None if before is None else peak - before, "status": "ok",
        }
    ]  # fmt: skip


def _sampling(m, jobs):
    data = qsdp.datasets.make_planted(500, INPUTS, random_state=0)
    relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(data.X, data.y, beta=1.0), tol=1e-2)
    covariance = qsdp.shape_covariance(relaxation)
    return lambda: qsdp.sample_network(covariance, m, random_state=0, n_jobs=jobs)


def _prediction(n, m, jobs):
    X, network = np.random.default_rng(1).standard_normal((n, INPUTS)), _network(m, 1)
    return lambda: network.predict(X, n_jobs=jobs)


def _polishing(n, m, jobs):
    """Two sweeps of a network with two outputs, which threads can share."""
    rng = np.random.default_rng(1)
    X, network = rng.standard_normal((n, INPUTS)), _network(m, 2)
    y = _network(m, 2, seed=2).predict(X) + rng.standard_normal((n, 2))
    problem = qsdp.TrainingProblem(X, y, beta=1.0)
    return lambda: qsdp.polish(network, problem, max_sweeps=2, random_state=0, n_jobs=jobs)


def _network(m, outputs, seed=0):
    """Return a network whose neurons serve the outputs in turn, with one magnitude."""
    U, V = np.random.default_rng(seed).choice(np.array([-1, 1], dtype=np.int8), size=(2, m, INPUTS))
    alpha = np.eye(outputs)[np.arange(m) % outputs] / m
    return qsdp.BilinearNetwork(U, V, alpha[:, 0] if outputs == 1 else alpha)


CALLS = {"sampling": _sampling, "prediction": _prediction, "polishing": _polishing}
