"""Time and memory of an epoch of every training system, with the relaxation's whole solve beside them.

Gaussian data, planted targets (their sign for classifiers), minibatches of 32 where a system has them, one thread,
double precision. Each case runs in a process of its own, after a small training that loads the libraries: seconds are
the processor's, the median over epochs; memory is by how much the process's largest size grew over that. The evaluation
of all samples after every epoch is in the time. An epoch of BPLS is a pass over all samples. Operations are counted
where products of samples and weights are all there is: 6 k n m D, forward and backward, for k = 2 first-layer factors,
one for ReLU and quadratic neurons.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments._common import PAPER, Records, experiment_in, grid, timed, values, where
from benchmarks.experiments._process import begin_peak, in_own_process, peak
from qsdp.bench import Claim, exact

#: n, d, m: the paper's ionosphere at both sizes, then tenfold n, d.
SIZES = ((280, 33, 250), (280, 33, 2500), (2800, 33, 250), (2800, 330, 250))
GRADIENTS = ("bilinear, fixed", "bilinear, free", "quadratic", "straight-through", "straight-through, scales", "ReLU")
#: A full form a neuron, of d (d + 1) / 2 entries, is left out at d = 330.
FULL = "quadratic forms"
OTHERS = (FULL, "quadratic forms, reduced", "ReLinear", "RLS, NumPy", "BPLS", "BPLS, classifier")
SYSTEMS = (*GRADIENTS, *OTHERS, "relaxation")
ROUNDS, EPOCHS = 2, 5


def cases(quick: bool) -> list[dict[str, Any]]:
    systems, sizes, rounds = (("bilinear, fixed", "BPLS"), SIZES[:1], 1) if quick else (SYSTEMS, SIZES, ROUNDS)
    found = grid(round=range(rounds), size=[list(size) for size in sizes], system=systems)
    return [case for case in found if case["system"] != FULL or case["size"][1] < 100]


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    n, d, m = case["size"]
    small = qsdp.datasets.make_planted(64, 3, n_neurons=2, random_state=0)
    data = qsdp.datasets.make_planted(n, d, n_neurons=10, random_state=0)
    with threadpool_limits(limits=1):
        if case["system"] == "relaxation":
            return relaxation_costs(small, data)
        return training_costs(case["system"], small, data, m)


def training_costs(system: str, small: Any, data: Any, m: int) -> dict[str, Any]:
    model_of(system, 4, 2).fit(small.X, targets_of(system, small.y))
    y = targets_of(system, data.y)
    clock: list[float] = []
    model = model_of(system, m, EPOCHS, lambda history: clock.append(time.process_time()))
    before, start = begin_peak(), time.process_time()
    _, whole = timed(lambda: model.fit(data.X, y))
    n, d = data.X.shape
    return {
        "epoch_seconds": float(np.median(np.diff([start, *clock]))),
        "whole_seconds": whole,
        "memory": (peak() - before) / 2**20,
        "weights": weights_of(model),
        "operations": 6.0 * factors_of(system) * n * m * (d + 1) if system in GRADIENTS else None,
    }


def relaxation_costs(small: Any, data: Any) -> dict[str, Any]:
    """Return seconds and memory of a solve of the relaxation, certified to 1e-4."""
    qsdp.solve_relaxation(qsdp.TrainingProblem(small.X, small.y, beta=1.0))
    problem = qsdp.TrainingProblem(data.X, data.y, beta=1.0)
    before = begin_peak()
    _, whole = timed(lambda: qsdp.solve_relaxation(problem, tol=1e-4))
    memory, d = (peak() - before) / 2**20, data.X.shape[1]
    return {"epoch_seconds": None, "whole_seconds": whole, "memory": memory, "weights": d * (d + 1), "operations": None}


def is_classifier(system: str) -> bool:
    """Return whether a system is one of those that have classes for targets."""
    return system.startswith("quadratic forms") or system.endswith("classifier")


def targets_of(system: str, y: np.ndarray) -> np.ndarray:
    """Return targets of a regression, or two classes of equal size."""
    return (y > np.median(y)).astype(int) if is_classifier(system) else y


def model_of(system: str, m: int, epochs: int, callback: Any = None) -> Any:
    import qsdp.baselines as baselines

    own = {"random_state": 0, "callback": callback}
    common = {**own, "n_epochs": epochs}
    batches = {**common, "batch_size": 32}
    return {
        "bilinear, fixed": lambda: baselines.BackpropRegressor(m, second_layer="fixed", **common),
        "bilinear, free": lambda: baselines.BackpropRegressor(m, **common),
        "quadratic": lambda: baselines.BackpropRegressor(m, activation="quadratic", **common),
        "straight-through": lambda: baselines.StraightThroughRegressor(m, **common),
        "straight-through, scales": lambda: baselines.StraightThroughRegressor(m, second_layer="analytic", **common),
        "ReLU": lambda: baselines.ReLUNetworkRegressor(m, **common),
        FULL: lambda: baselines.QuadraticNetworkClassifier((("qnn", m),), "linear", learning_rate=1e-3, **batches),
        "quadratic forms, reduced": lambda: baselines.QuadraticNetworkClassifier(
            (("rpqnn", m),), "linear", learning_rate=1e-3, **batches
        ),
        "ReLinear": lambda: baselines.ReLinearRegressor((m,), **batches),
        "RLS, NumPy": lambda: baselines.RLSNetworkRegressor(m, **batches),
        # All passes, whether the loss falls or not.
        "BPLS": lambda: baselines.BPLSRegressor(m, passes=epochs, keep_best=False, **own),
        # Its other passes are over the misclassified samples only.
        "BPLS, classifier": lambda: baselines.BPLSClassifier(m, tau_max=0, **own),
    }[system]()


def factors_of(system: str) -> int:
    """Return how many first-layer weight vectors a neuron has."""
    return 1 if system in {"quadratic", "ReLU"} else 2


def weights_of(model: Any) -> int:
    network = model.network_
    if hasattr(network, "n_parameters"):
        return int(network.n_parameters)
    if hasattr(network, "parameters"):
        return sum(parameter.numel() for parameter in network.parameters())
    return int(network.U.size + network.V.size + network.alpha.size)


def claims(records: Records) -> list[Claim]:
    statement = (
        "Convex optimization solvers are faster than backpropagation in small to medium scale problems (a solve to "
        "1e-4 against 100 epochs at one learning rate)."
    )
    sooner, texts = {}, []
    for n, d, m in SIZES:
        here, name = where(records, size=[n, d, m]), f"{n} x {d}, m = {m}"
        solves = values(where(here, system="relaxation"), "whole_seconds")
        epochs = values(where(here, system="bilinear, fixed"), "epoch_seconds")
        if len(solves) and len(epochs):
            sooner[name] = bool(solves.min() < 100 * epochs.min())
            texts.append(f"{name}: {solves.min():.2g} s against {100 * epochs.min():.2g} s")
    return [exact(f"{PAPER}, section 6", statement, sooner, "; ".join(texts), needed=len(SIZES))]


EXPERIMENT = experiment_in(
    __name__,
    "Time and memory of an epoch, every system",
    f"{PAPER}, sections 5.2 and 6",
    version=2,
)
