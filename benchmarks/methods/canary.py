"""One large case for each solver, run as a script by a Python whose folder is a checkout of the library.

    python - KIND FILE OPTIONS < canary.py

FILE holds the arrays of the data, OPTIONS is JSON. Prints the processor seconds of the call, and what it returned. It
imports nothing of the benchmarks, and uses only what the library's reference lists, so that an older checkout runs it.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import qsdp

#: A call shorter than this many seconds is repeated, and the shortest time counts.
SHORT, REPEATS = 2.0, 5


def relaxation(problem: qsdp.TrainingProblem, **options: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Solve the relaxation."""
    return lambda: qsdp.solve_relaxation(problem, **options), bounded


def proof(problem: qsdp.TrainingProblem, **options: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Prove a global optimum by column generation."""
    return lambda: qsdp.column_generation(problem, random_state=0, **{"time_limit": 60.0, **options}), bounded


def polish(
    problem: qsdp.TrainingProblem, n_neurons: int, **options: Any
) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Polish random signs."""
    rng = np.random.default_rng(0)
    U, V = rng.choice([-1.0, 1.0], size=(2, n_neurons, problem.dimension))
    start = qsdp.BilinearNetwork(U, V, np.zeros((n_neurons, problem.n_outputs) if problem.n_outputs > 1 else n_neurons))

    def described(network: Any) -> dict[str, Any]:
        signs = hashlib.sha256(np.concatenate([network.U, network.V]).astype(np.int8).tobytes()).hexdigest()[:8]
        return {"objective": problem.objective(network), "signs": signs}

    return lambda: qsdp.polish(start, problem, random_state=0, **options), described


def certificate(problem: qsdp.TrainingProblem) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Certify a refitted network of random signs."""
    solved, rng = qsdp.solve_relaxation(problem), np.random.default_rng(0)
    U, V = rng.choice([-1.0, 1.0], size=(2, 100, problem.dimension))
    network = qsdp.refit(qsdp.BilinearNetwork(U, V, np.ones(100)), problem)
    return lambda: qsdp.certify(network, problem, solved), bounded


def bounded(solved: Any) -> dict[str, Any]:
    """Return an objective, its bound and their relative gap."""
    return {name: float(getattr(solved, name)) for name in ("objective", "lower_bound", "relative_gap")}


KINDS = {one.__name__: one for one in (relaxation, proof, polish, certificate)}


def main() -> None:
    """Measure the call that the command line names."""
    kind, file, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    warnings.simplefilter("ignore")
    with np.load(file) as arrays:
        data = {name: arrays[name] for name in arrays.files}
    X = qsdp.Blocks(data["X"], sizes=data["sizes"].tolist()) if "sizes" in data else data["X"]
    problem = qsdp.TrainingProblem(X, data["y"], beta=1.0, loss=options.pop("loss", "squared"))
    share, beta = options.pop("share", None), options.pop("beta", None)
    problem = problem.with_beta(beta if share is None else share * qsdp.beta_max(problem))
    call, described = KINDS[kind](problem, **options)
    seconds: list[float] = []
    while not seconds or (sum(seconds) < SHORT and len(seconds) < REPEATS):
        start = time.process_time()
        returned = call()
        seconds.append(time.process_time() - start)
    print(json.dumps({"seconds": min(seconds), **described(returned)}))


if __name__ == "__main__":
    main()
