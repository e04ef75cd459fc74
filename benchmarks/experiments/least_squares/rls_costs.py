"""Tables I and II of recursive least squares and its running time beside Adam's: the paper's networks on random data.

784-512-10; a mini-VGG (64, 64, pool, 128, 128, pool, 256, pool, then 1024 and 10) on 32 x 32 colour images; two LSTM
layers of 512 on sequences of 50 steps of 200 numbers. A step is forward pass, backward pass and update; its time is
the processor's, of one thread, and that of the fastest of several, as the machine is shared. Each case runs in a
process of its own, after a step of a small network that loads the libraries; memory is by how much the process's
resident size grew at most over that: network, minibatch, what the passes keep, and the optimiser. The paper has a
1080Ti.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.experiments._common import experiment_in
from benchmarks.experiments._process import begin_peak, in_own_process, peak
from benchmarks.experiments.least_squares import _rls
from qsdp.baselines.rls import LayerCost, convolutional_cost, dense_cost, recurrent_cost
from qsdp.bench import Claim, Record, Table, exact, not_measured

METHODS = ("sgd", "adam", "rls", "rls+m+r")
#: Network: minibatch, timed steps, steps of an epoch of the paper's data, its ratio to Adam, the specification's.
NETWORKS: dict[str, tuple[int, int, int | None, float | None, float | None]] = {
    "784-512-10, 128": (128, 40, 469, 1.1, 3.4),
    "mini-VGG, 128": (128, 3, 391, 1.4, 1.38),
    "mini-VGG, 32": (32, 6, None, None, 3.3),
    "LSTM 2 x 512, 128": (128, 3, 196, 1.1, 1.11),
}
#: The specification's milliseconds of a step by Adam and by RLS, on two cores.
MILLISECONDS = {
    "784-512-10, 128": (2.2, 7.6),
    "mini-VGG, 128": (1750.0, 2410.0),
    "mini-VGG, 32": (150.0, 510.0),
    "LSTM 2 x 512, 128": (1960.0, 2180.0),
}
CHANNELS = (3, 64, 64, 128, 128, 256)
POOLED = (2, 4, 5)
T, WORDS = 50, 200
ROUNDS = 2


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each network, method and repetition."""
    networks, methods, rounds = (("784-512-10, 128",), ("adam", "rls"), 1) if quick else (NETWORKS, METHODS, ROUNDS)
    return [
        {"network": network, "method": method, "round": number}
        for number in range(rounds)
        for network in networks
        for method in methods
    ]


def build(network: str) -> tuple[Any, Any, Any]:
    """Return a model, random inputs and one-hot targets."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    size = NETWORKS[network][0]
    if network.startswith("784"):
        model: Any = _rls.perceptron(784, 512, 10)()
        return model, torch.rand(size, 784), torch.eye(10)[torch.randint(10, (size,))]
    if network.startswith("mini"):
        parts: list[Any] = []
        for number, (a, b) in enumerate(itertools.pairwise(CHANNELS), start=1):
            parts += [nn.Conv2d(a, b, 3, padding=1), nn.ReLU()]
            parts += [nn.MaxPool2d(2)] if number in POOLED else []
        model = nn.Sequential(*parts, nn.Flatten(), nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, 10))
        return model, torch.rand(size, 3, 32, 32), torch.eye(10)[torch.randint(10, (size,))]

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below, self.above = nn.LSTM(WORDS, 512), nn.LSTM(512, 512)
            self.output = nn.Linear(512, 2)

        def forward(self, X: Any) -> Any:
            return self.output(self.above(self.below(X)[0])[0][-1])

    return Words(), torch.randn(T, size, WORDS), torch.eye(2)[torch.randint(2, (size,))]


def counted(network: str) -> list[LayerCost]:
    """Return the costs of all layers by the paper's tables."""
    size = NETWORKS[network][0]
    if network.startswith("784"):
        return [dense_cost(784, 512, size), dense_cost(512, 10, size)]
    if network.startswith("mini"):
        sides = (32, 32, 16, 16, 8)
        pairs = zip(itertools.pairwise(CHANNELS), sides, strict=True)
        layers = [convolutional_cost(a, b, (3, 3), side * side, size) for (a, b), side in pairs]
        return [*layers, dense_cost(4096, 1024, size), dense_cost(1024, 10, size)]
    recurrent = [recurrent_cost(n, 512, size, T, gates=4) for n in (WORDS, 512)]
    return [*recurrent, dense_cost(512, 2, size)]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Time steps, and measure memory, in another process."""
    return in_own_process(measure, case)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Time steps in this process, and measure by how much it grows."""
    import torch

    torch.set_num_threads(1)
    clip = 1.0 if case["network"].startswith("LSTM") else 5.0
    small = _rls.perceptron(8, 4, 2)()
    timed_steps(case["method"], small, torch.rand(4, 8), torch.rand(4, 2), clip, 2)
    before = begin_peak()
    model, X, targets = build(case["network"])
    steps = 1 + NETWORKS[case["network"]][1]
    optimizer, seconds, updates = timed_steps(case["method"], model, X, targets, clip, steps)
    # The first step allocates.
    return {
        "step": min(seconds[1:]),
        "update": min(updates[1:]),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "state": _rls.state_size(optimizer),
        "peak_bytes": peak() - before,
    }


def timed_steps(
    name: str, model: Any, X: Any, targets: Any, clip: float, steps: int
) -> tuple[Any, list[float], list[float]]:
    """Train, and return the optimiser and the processor's seconds of every step, and of its update."""
    from torch import nn

    from qsdp.baselines.rls import METHODS as OPTIMIZERS
    from qsdp.baselines.rls import squared_loss

    method = OPTIMIZERS[name]
    optimizer = method.make(model, **({"clip": clip} if method.clips else {}))
    seconds, updates = [], []
    for _ in range(steps):
        start = time.process_time()
        optimizer.zero_grad()
        squared_loss(model(X), targets).backward()
        middle = time.process_time()
        if not method.clips:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        end = time.process_time()
        seconds.append(end - start)
        updates.append(end - middle)
    return optimizer, seconds, updates


def fastest(records: Sequence[Record], name: str) -> float | None:
    """Return the fastest time over repetitions."""
    return min((record.measured[name] for record in records), default=None)


def tables(records: Sequence[Record]) -> list[Table]:
    """Return times, epochs, memory, and counts beside the formulas."""
    groups = _rls.by(records, "network", "method")
    times, sizes = [], []
    for network, (_, _, steps, paper, specified) in NETWORKS.items():
        adam = fastest(groups[(network, "adam")], "step")
        for method in METHODS:
            group = groups[(network, method)]
            step = fastest(group, "step")
            if step is None:
                continue
            of_spec = {"adam": MILLISECONDS[network][0], "rls": MILLISECONDS[network][1]}.get(method)
            plain = method == "rls"
            times.append(
                [
                    network,
                    method,
                    "-" if of_spec is None else f"{of_spec:g}",
                    f"{1e3 * step:.3g}",
                    f"{1e3 * (fastest(group, 'update') or 0.0):.3g}",
                    f"{paper:g}" if plain and paper else "-",
                    f"{specified:g}" if plain and specified else "-",
                    "-" if adam is None else f"{step / adam:.2f}",
                    f"{steps * step:,.0f}" if steps else "-",
                    _rls.repetitions(group),
                ]
            )
            kept = [f"{group[0].measured[name]:,}" for name in ("parameters", "state")]
            sizes.append([network, method, *kept, *peaks(group, groups[(network, "adam")]), _rls.repetitions(group)])
    formulas = []
    for network in NETWORKS:
        layers = counted(network)
        sums = [
            sum(getattr(layer, name) for layer in layers) for name in ("sgd_time", "rls_time", "sgd_space", "rls_space")
        ]
        ratios = [f"{sums[1] / sums[0]:.3f}", f"{sums[3] / sums[2]:.3f}"]
        group = groups[(network, "rls")]
        stored = f"{group[0].measured['state']:,}" if group else "-"
        formulas.append(
            [network, f"{sums[0]:,}", f"{sums[1]:,}", ratios[0], f"{sums[3] - sums[2]:,}", stored, ratios[1]]
        )
    return [
        Table(
            "Time of a step",
            [
                "network, minibatch",
                "method",
                "ms (spec)",
                "ms",
                "of it update",
                "to Adam (paper)",
                "to Adam (spec)",
                "to Adam",
                "s an epoch of the paper's data",
                "repet.",
            ],
            times,
            "Processor time of one thread, fastest of several steps over repetitions; (paper): one 1080Ti; (spec): two "
            "cores. An epoch is the time of a step times its number of them: MNIST 469, CIFAR-10 391, IMDB 196.",
        ),
        Table(
            "Memory",
            [
                "network, minibatch",
                "method",
                "parameters",
                "numbers kept by the optimiser",
                "MiB at most",
                "to Adam",
                "repet.",
            ],
            sizes,
            "Single precision. MiB: largest growth of the process, the median over repetitions.",
        ),
        Table(
            "Multiply-adds and numbers by Tables I and II",
            [
                "network, minibatch",
                "SGD",
                "RLS",
                "ratio",
                "numbers of P",
                "numbers of P, measured",
                "space, RLS to SGD",
            ],
            formulas,
            "Leading terms of one product with the minibatch, as printed; a step has three. Measured P have a row and "
            "column for the bias.",
        ),
    ]


def peaks(group: Sequence[Record], adam: Sequence[Record]) -> list[str]:
    """Return the largest size in MiB, and its ratio to Adam's, as text."""
    size, other = (
        float(np.median([record.measured["peak_bytes"] for record in one])) if one else None for one in (group, adam)
    )
    assert size is not None
    return [f"{size / 2**20:.4g}", f"{size / other:.2f}" if other else "-"]


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the claims on running times, each of the fastest step of both methods."""
    groups = _rls.by(records, "network", "method")
    made = []
    for network, (_, _, _, paper, _) in NETWORKS.items():
        if paper is None:
            continue
        ours, theirs = (fastest(groups[(network, method)], "step") for method in ("rls", "adam"))
        statement = f"The running time of {network} is about {paper:g} times Adam's (one 1080Ti), within 20 %."
        if ours is None or theirs is None:
            made.append(not_measured(f"{_rls.SOURCE}, section VI-B", statement))
            continue
        figures = f"{1e3 * ours:.3g} ms against {1e3 * theirs:.3g} ms: {ours / theirs:.2f} on one thread"
        holds = [abs(ours / theirs / paper - 1.0) <= 0.2]
        claim = exact(f"{_rls.SOURCE}, section VI-B", statement, holds, figures)
        made.append(replace(claim, group="Running times over Adam's as printed, within 20 %", case=network))
    return made


EXPERIMENT = experiment_in(
    __name__, "Recursive least squares: time and memory", f"{_rls.SOURCE}, Tables I and II and section VI-B", version=2
)
