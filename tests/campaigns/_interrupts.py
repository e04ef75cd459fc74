"""Interrupts of long functions at random moments."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from campaigns._processes import END, child, ended, group_lives, in_turn
from campaigns._record import Outcome

__all__ = ["CALLS", "interrupted"]

#: Seconds in which an interrupted function should end, and in which it has to on a busy machine.
_SOON, _LAST = END, 6 * END

#: Long functions, as a process runs them.
CALLS = {
    **{
        f"solve_relaxation, {solver}": f"qsdp.solve_relaxation({problem}, tol=1e-14, solver={solver!r}, max_iter=10**7)"
        for solver, problem in {
            "splitting": "problem",
            "interior": "squared",
            "low-rank": "wide",
            "auto": "hinge",
            "scs": "problem",
            "clarabel": "problem",
        }.items()
    },
    "relaxation_path": "qsdp.relaxation_path(problem, 10**4, tol=1e-10)",
    "solve_polynomial_relaxation": "qsdp.solve_polynomial_relaxation(lifted, tol=1e-9)",
    "column_generation": "qsdp.column_generation(problem, tol=1e-14, time_limit=None)",
    "column_generation, polynomial": (
        "qsdp.column_generation(lifted, neurons='polynomial', tol=1e-14, time_limit=None)"
    ),
    "polish": "qsdp.polish(network, problem, restarts=10**7)",
    "refit": "[qsdp.refit(network, problem, tol=1e-14) for _ in range(10**6)]",
    "train_fixed_width": "qsdp.train_fixed_width(problem, 8, restarts=10**7)",
    "maxcut_bound": "qsdp.maxcut_bound(rng.standard_normal((1500, 1500)), tol=1e-14, max_iter=10**6)",
    "grothendieck_bound": "qsdp.grothendieck_bound(rng.standard_normal((900, 900)), tol=1e-14, max_iter=10**6)",
    "certify": "qsdp.certify(network, problem, bound_type='exact')",
    "certify, verified": "qsdp.certify(network, problem, bound_type='exact', arithmetic='verified')",
    "certify, batches": (
        "qsdp.certify(network, [(X, y)] * 10**5, qsdp.solve_relaxation(problem, tol=0.1), beta=1.0, passes=10**5)"
    ),
    "statistics": "[statistics.partial_fit(X, y) for _ in range(10**7)]",
    "solve_and_sample, exact": "qsdp.solve_and_sample(X, y, 30, 0.01, 'huber', refine='exact', time_limit=10**6)",
    "solve_and_sample, polish": "qsdp.solve_and_sample(X, y, 3000, 0.01, 'huber', refine='polish')",
    "shape_covariance": "qsdp.shape_covariance(qsdp.solve_relaxation(problem, tol=0.1), method='sdp')",
    "distill": "qsdp.distill(network, X, 3000, refine='polish', tol=1e-12)",
    "QuantizedNetworkRegressor": "qsdp.QuantizedNetworkRegressor(n_neurons=2000, tol=1e-12).fit(X, y)",
    "QuantizedNetworkClassifier": "qsdp.QuantizedNetworkClassifier(n_neurons=2000, loss='logistic').fit(X, labels)",
    "QuantizedNetworkRegressorCV": "qsdp.QuantizedNetworkRegressorCV(betas=50, cv=10).fit(X, y)",
    "QuantizedNetworkClassifierCV": "qsdp.QuantizedNetworkClassifierCV(betas=50, cv=10).fit(X, labels)",
    **{
        f"baselines.{name}": f"baselines.{name}(random_state=0, {epochs}).fit(X, {target})"
        for name, epochs, target in (
            ("BackpropRegressor", "n_epochs=10**6", "y"),
            ("StraightThroughRegressor", "n_epochs=10**6", "y"),
            ("ReLUNetworkClassifier", "n_epochs=10**6", "labels"),
            ("BPLSRegressor", "passes=10**6", "y"),
            ("QuadraticNetworkClassifier", "n_epochs=10**6", "labels"),
            ("ReLinearRegressor", "n_epochs=10**6", "y"),
            ("RLSNetworkRegressor", "n_epochs=10**6", "y"),
        )
    },
    "bench": (
        "import tempfile; from pathlib import Path; from qsdp.bench import run_experiment;"
        "from qsdp.bench.uci import uci_experiment; folder = tempfile.TemporaryDirectory();"
        "run_experiment(uci_experiment(['breast-cancer'], None, 50), Path(folder.name) / 'r.json', verbose=False)"
    ),
}

#: Runs a call: says how it ended, and which threads it has left.
_CALLING = """
import threading, time, warnings
import numpy as np
import qsdp
from qsdp import baselines
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
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
    call = in_turn(CALLS, turn)
    outcome.count("interrupt", call)
    process = child(_CALLING.format(call=CALLS[call]))
    time.sleep(float(rng.uniform(0.0, 3.0)))
    os.killpg(process.pid, signal.SIGINT)
    start = time.monotonic()
    if (answer := ended(process, _LAST)) is None:
        outcome.wrong("not interrupted", of=call, seconds=_LAST)
        return
    said, errors = answer
    # Solvers print lines of their own before.
    lines = said.splitlines()[-2:]
    outcome.count("interrupted", f"{call}: {lines[0] if len(lines) == 2 else 'nothing said'}")
    outcome.distances.append((f"seconds after an interrupt / {_SOON:g}", (time.monotonic() - start) / _SOON))
    # After its last word Python ends by the signal if that came then, or in code of `exec`, as that of data classes is.
    if process.returncode != 0 and not (process.returncode == -signal.SIGINT and lines[1:] == ["threads"]):
        outcome.wrong("interrupted with an error", of=call, code=process.returncode, errors=errors[-300:])
    elif lines[1:] != ["threads"]:
        outcome.wrong("a thread was left", of=call, said=said[-300:])
    if group_lives(process.pid):
        outcome.wrong("a process was left", of=call)
        os.killpg(process.pid, signal.SIGKILL)
