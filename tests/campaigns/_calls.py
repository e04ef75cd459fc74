"""Long functions that are interrupted, and calls in threads beside the same ones alone."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import qsdp
from campaigns._processes import SOON, ended, group_lives, in_turn, scripted
from campaigns._record import Outcome
from qsdp import baselines

_SOLVERS = {
    "splitting": "problem",
    "interior": "squared",
    "low-rank": "wide",
    "auto": "hinge",
    "scs": "problem",
    "clarabel": "problem",
}
_TRAINED = ("BackpropRegressor", "StraightThroughRegressor", "ReLUNetworkClassifier")
_EXACT = "qsdp.certify(network, problem, bound_type='exact'"
_GENERATION = "tol=1e-14)"

#: Long functions, as a process runs them.
LONG = {
    **{
        f"solve_relaxation, {solver}": f"qsdp.solve_relaxation({problem}, tol=1e-14, solver={solver!r}, max_iter=10**7)"
        for solver, problem in _SOLVERS.items()
    },
    "column_generation": f"qsdp.column_generation(problem, {_GENERATION}",
    "polish": "qsdp.polish(network, problem, restarts=10**7)",
    "refit": "[qsdp.refit(network, problem, tol=1e-14) for _ in range(10**6)]",
    "maxcut_bound": "qsdp.maxcut_bound(rng.standard_normal((1500, 1500)), tol=1e-14, max_iter=10**6)",
    "grothendieck_bound": "qsdp.grothendieck_bound(rng.standard_normal((900, 900)), tol=1e-14, max_iter=10**6)",
    "certify": f"{_EXACT})",
    "certify_stream": (
        "qsdp.certify_stream(network, [(X, y)] * 10**5, qsdp.solve_relaxation(problem, tol=0.1), passes=10**5)"
    ),
    "statistics": "[statistics.partial_fit(X, y) for _ in range(10**7)]",
    "solve_and_sample, exact": "qsdp.solve_and_sample(X, y, 30, 0.01, 'huber', refine='exact', time_limit=10**6)",
    "solve_and_sample, polish": "qsdp.solve_and_sample(X, y, 3000, 0.01, 'huber', refine='polish')",
    "shape_covariance": "qsdp.shape_covariance(qsdp.solve_relaxation(problem, tol=0.1), method='adaptive')",
    "distill": "qsdp.distill(network, X, 3000, refine='polish', tol=1e-12)",
    "QuantizedNetworkRegressor": "qsdp.QuantizedNetworkRegressor(n_neurons=2000, tol=1e-12).fit(X, y)",
    "QuantizedNetworkClassifier": "qsdp.QuantizedNetworkClassifier(n_neurons=2000, loss='logistic').fit(X, labels)",
    **{
        f"baselines.{name}": f"baselines.{name}(random_state=0, n_epochs=10**6)"
        f".fit(X, {'labels' if 'Classifier' in name else 'y'})"
        for name in _TRAINED
    },
}

#: Runs a call: says how it ended, and which threads it has left.
_CALLING = """
X = rng.standard_normal((300, 44))
y = X[:, 0] * X[:, 1] + rng.standard_normal(300)
labels = np.sign(y)
problem = qsdp.TrainingProblem(X, y, beta=1.0, loss="huber")
squared = qsdp.TrainingProblem(np.tile(X, (5, 2)), np.tile(y, 5), beta=1.0)
wide = qsdp.TrainingProblem(np.tile(X, (1, 8)), y, beta=0.01)
hinge = qsdp.TrainingProblem(X, labels, beta=0.01, loss="hinge")
lifted = qsdp.TrainingProblem(X[:, :20], y, beta=1.0, activation="relu_like")
statistics = qsdp.SufficientStatistics()
network = qsdp.BilinearNetwork(rng.choice([-1, 1], (30, 44)), rng.choice([-1, 1], (30, 44)), rng.random(30))
before = set(threading.enumerate())
print("ready", flush=True)
try:
    {call}
    print("finished")
except KeyboardInterrupt:
    print("KeyboardInterrupt")
end = time.monotonic() + 5.0
while (left := set(threading.enumerate()) - before) and time.monotonic() < end:
    time.sleep(0.01)
print("threads", *[thread.name for thread in left])
"""


def interrupted(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Interrupt a call, and look at what it says and leaves."""
    call = in_turn(LONG, turn)
    outcome.count("interrupt", call)
    process = scripted(_CALLING.format(call=LONG[call]))
    time.sleep(float(rng.uniform(0.0, 3.0)))
    os.killpg(process.pid, signal.SIGINT)
    start = time.monotonic()
    if (answer := ended(process, outcome, of=call)) is None:
        return
    said, errors = answer
    # Solvers print lines of their own before.
    lines = said.splitlines()[-2:]
    outcome.count("interrupted", f"{call}: {lines[0] if len(lines) == 2 else 'nothing said'}")
    outcome.distances.append((f"seconds after an interrupt / {SOON:g}", (time.monotonic() - start) / SOON))
    # After its last word Python ends by the signal if that came then, or in code of `exec`, as that of data classes is.
    if process.returncode != 0 and not (process.returncode == -signal.SIGINT and lines[1:] == ["threads"]):
        outcome.wrong("interrupted with an error", of=call, code=process.returncode, errors=errors[-300:])
    elif lines[1:] != ["threads"]:
        outcome.wrong("a thread was left", of=call, said=said[-300:])
    if group_lives(process.pid):
        outcome.wrong("a process was left", of=call)
        os.killpg(process.pid, signal.SIGKILL)


# -- threads --------------------------------------------------------------------------------------------------------

Call = Callable[[qsdp.TrainingProblem, int], Any]


def _certified(problem: qsdp.TrainingProblem, seed: int) -> qsdp.Certificate:
    U, V = np.random.default_rng(seed).choice([-1, 1], size=(2, 3, problem.size))
    network = qsdp.BilinearNetwork(U, V, np.ones(3))
    return qsdp.certify(network, problem, bound_type="exact")


def _fitted(estimator: Any, **options: Any) -> Call:
    return lambda problem, seed: estimator(random_state=seed, **options).fit(problem.X, problem.y)


_BASELINES = ("Backprop", "StraightThrough", "ReLUNetwork")
SHORT: dict[str, Call] = {
    "solve_and_sample": lambda problem, seed: qsdp.solve_and_sample(
        problem.X, problem.y, 12, problem.beta, problem.loss, refine="polish", random_state=seed
    ),
    "column_generation": lambda problem, seed: qsdp.column_generation(problem, random_state=seed),
    "certify": _certified,
    "QuantizedNetworkRegressor": _fitted(qsdp.QuantizedNetworkRegressor, n_neurons=10, tol=1e-2),
    **{f"baselines.{name}Regressor": _fitted(getattr(baselines, f"{name}Regressor")) for name in _BASELINES},
}


def threads(rng: np.random.Generator, outcome: Outcome, turn: int) -> None:
    """Compare calls in threads, of different problems at once, with the same ones alone."""
    name, seed = in_turn(SHORT, turn), int(rng.integers(1000))
    outcome.count("together", name)
    X = np.random.default_rng(0).standard_normal((40, 6))
    targets = {"squared": X[:, 0] * X[:, 1], "logistic": np.sign(X[:, 0] * X[:, 1] + 0.1), "absolute": X[:, 2]}
    problems = [qsdp.TrainingProblem(X, y, beta=0.5, loss=loss) for loss, y in targets.items()]

    def run(problem: qsdp.TrainingProblem) -> list[bytes]:
        found = SHORT[name](problem, seed)
        holders = [found, getattr(found, "network", None), getattr(found, "certificate_", None)]
        fields = ("objective", "lower_bound", "U", "V", "alpha")
        values = [getattr(holder, field, None) for holder in holders for field in fields]
        values += [found.predict(X)] if hasattr(found, "predict") else []
        numbers = [np.asarray(value).tobytes() for value in values if value is not None and not callable(value)]
        assert numbers, name
        return numbers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = [run(problem) for problem in problems]
        with ThreadPoolExecutor(len(problems)) as pool:
            if list(pool.map(run, problems)) != alone:
                outcome.wrong("threads differ", of=name, seed_of_calls=seed)
