"""The path of a call through the modules of qsdp: `python -m benchmarks.machinery.walk [CALL ...]`, all by default.

Prints the modules in the order in which control first enters them, each with the number of its returns: how often
control enters it again from another module of the library. Only calls between functions of qsdp in this thread count,
on small fixed data; a resumed generator counts as a call. A call runs once before it is watched, so that imports and
caches do not count.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

import qsdp


def main() -> None:
    """Print the paths of the calls named on the command line."""
    wanted = sys.argv[1:] or list(CALLS)
    if unknown := set(wanted) - set(CALLS):
        raise SystemExit(f"unknown calls: {', '.join(sorted(unknown))}; choose from {', '.join(CALLS)}")
    for name in wanted:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            returns = walk(CALLS[name]())
        print(f"{name}: {len(returns)} modules, {sum(returns.values()):,} returns")
        print("\n".join(f"  {count:9,}  {module}" for module, count in returns.items()))


def walk(call: Callable[[], Any]) -> dict[str, int]:
    """Return the returns to each module of qsdp during a call, in the order of first entries."""
    returns: dict[str, int] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        module = _module(frame)
        if event != "call" or module is None:
            return
        caller = frame.f_back
        while caller is not None and _module(caller) is None:
            caller = caller.f_back
        if caller is None or _module(caller) != module:
            returns[module] = returns[module] + 1 if module in returns else 0

    call()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return returns


def _module(frame: FrameType) -> str | None:
    name = frame.f_globals.get("__name__", "")
    return name if name.partition(".")[0] == "qsdp" else None


def _problem() -> qsdp.TrainingProblem:
    X, y = qsdp.datasets.make_planted(100, 8, n_neurons=5, noise=0.5, random_state=0)
    return qsdp.TrainingProblem(X, y, beta=5.0)


def _solve_relaxation() -> Callable[[], Any]:
    problem = _problem()
    return lambda: qsdp.solve_relaxation(problem)


def _solve_and_sample() -> Callable[[], Any]:
    problem = _problem()
    return lambda: qsdp.solve_and_sample(problem.X, problem.y, n_neurons=50, beta=5.0, random_state=0)


def _fit() -> Callable[[], Any]:
    X, y = qsdp.datasets.load_bundled("iris")
    return lambda: qsdp.QuantizedNetworkClassifier(random_state=0).fit(X, y)


def _certify() -> Callable[[], Any]:
    problem = _problem()
    result = qsdp.solve_and_sample(problem.X, problem.y, n_neurons=50, beta=5.0, random_state=0)
    return lambda: qsdp.certify(result.network, problem, result.relaxation)


def _column_generation() -> Callable[[], Any]:
    problem = _problem()
    return lambda: qsdp.column_generation(problem, random_state=0, time_limit=60.0)


def _polish() -> Callable[[], Any]:
    problem = _problem()
    logistic = qsdp.TrainingProblem(problem.X, np.where(problem.y > 0.0, 1.0, -1.0), beta=0.5, loss="logistic")
    network = qsdp.solve_and_sample(problem.X, problem.y, n_neurons=50, beta=5.0, random_state=0).network
    return lambda: qsdp.polish(network, logistic, random_state=0)


CALLS: dict[str, Callable[[], Callable[[], Any]]] = {
    "solve_relaxation": _solve_relaxation,
    "solve_and_sample": _solve_and_sample,
    "fit": _fit,
    "certify": _certify,
    "column_generation": _column_generation,
    "polish": _polish,
}


if __name__ == "__main__":
    main()
