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
from dataclasses import replace
from typing import Any

from benchmarks.experiments._common import Records, experiment_in, grid, values, where
from benchmarks.experiments._process import begin_peak, in_own_process, peak
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, exact, not_measured

METHODS = ("sgd", "adam", "rls", "rls+m+r")
#: Network: minibatch, timed steps, steps of an epoch of the paper's data, its ratio to Adam.
NETWORKS: dict[str, tuple[int, int, int | None, float | None]] = {
    "784-512-10, 128": (128, 40, 469, 1.1),
    "mini-VGG, 128": (128, 3, 391, 1.4),
    "mini-VGG, 32": (32, 6, None, None),
    "LSTM 2 x 512, 128": (128, 3, 196, 1.1),
}
CHANNELS = (3, 64, 64, 128, 128, 256)
POOLED = (2, 4, 5)
T, WORDS = 50, 200
ROUNDS = 2


def cases(quick: bool) -> list[dict[str, Any]]:
    networks, methods, rounds = (("784-512-10, 128",), ("adam", "rls"), 1) if quick else (NETWORKS, METHODS, ROUNDS)
    return grid(round=range(rounds), network=networks, method=methods)


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


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case)


def measure(case: dict[str, Any]) -> dict[str, Any]:
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


def claims(records: Records) -> list[Claim]:
    """Return the claims on running times, each of the fastest step of both methods."""
    made = []
    for network, (_, _, _, paper) in NETWORKS.items():
        if paper is None:
            continue
        steps = [values(where(records, network=network, method=method), "step") for method in ("rls", "adam")]
        statement = f"The running time of {network} is about {paper:g} times Adam's (one 1080Ti), within 20 %."
        if not all(map(len, steps)):
            made.append(not_measured(f"{_rls.SOURCE}, section VI-B", statement))
            continue
        ours, theirs = (one.min() for one in steps)
        figures = f"{1e3 * ours:.3g} ms against {1e3 * theirs:.3g} ms: {ours / theirs:.2f} on one thread"
        holds = [bool(abs(ours / theirs / paper - 1.0) <= 0.2)]
        claim = exact(f"{_rls.SOURCE}, section VI-B", statement, holds, figures)
        made.append(replace(claim, group="Running times over Adam's as printed, within 20 %", case=network))
    return made


EXPERIMENT = experiment_in(
    __name__, "Recursive least squares: time and memory", f"{_rls.SOURCE}, Tables I and II and section VI-B", version=2
)
