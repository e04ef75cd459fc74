"""Tables I and II of recursive least squares, and its running time against Adam's: the paper's networks on random data.

The networks are 784-512-10; a mini-VGG (64, 64, pool, 128, 128, pool, 256, pool, then 1024 and 10) on 32 x 32 colour
images; and two LSTM layers of 512 units on sequences of 50 steps of 200 numbers. A step is a forward pass, a backward
pass and an update. Its time is CPU time of one thread, the fastest of several, as the machine is shared. Each case runs
in a separate process. The paper uses a 1080Ti.

The series are the methods "rls" and "adam". No column is appended beyond the biases, and there is no beta. Each method
is measured twice.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from benchmarks.machinery.common import Records, experiment_in, grid, timed, values, where
from benchmarks.machinery.process import in_own_process
from benchmarks.machinery.verdicts import Claim, exact
from benchmarks.papers.zhang.experiments.rls_curves import SOURCE, perceptron, recurrent

#: For each network, with batches of 128: timed steps, and the printed ratio of the running time to Adam's.
NETWORKS = {"784-512-10": (40, 1.1), "mini-VGG": (3, 1.4), "LSTM 2 x 512": (3, 1.1)}
CHANNELS = (3, 64, 64, 128, 128, 256)
POOLED = (2, 4, 5)
M = 128


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(round=0, network="784-512-10", method=("adam", "rls"), steps=2)
    return grid(round=range(2), network=NETWORKS, method=("adam", "rls"))


def build(network: str) -> tuple[Any, Any, Any]:
    """Return a model, random inputs and one-hot targets."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    if network.startswith("LSTM"):
        return recurrent("LSTM", 200, 512, 2), torch.randn(M, 50, 200), torch.eye(2)[torch.randint(2, (M,))]
    targets = torch.eye(10)[torch.randint(10, (M,))]
    if network.startswith("784"):
        return perceptron(784, 512, 10), torch.rand(M, 784), targets
    parts: list[Any] = []
    for number, (a, b) in enumerate(itertools.pairwise(CHANNELS), start=1):
        parts += [nn.Conv2d(a, b, 3, padding=1), nn.ReLU()]
        parts += [nn.MaxPool2d(2)] if number in POOLED else []
    model = nn.Sequential(*parts, nn.Flatten(), nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return model, torch.rand(M, 3, 32, 32), targets


def run(case: dict[str, Any]) -> dict[str, Any]:
    return in_own_process(measure, case, threads=1)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of the fastest step, and how many numbers network and optimiser store between steps."""
    from torch import Tensor, nn

    from benchmarks.papers.zhang import METHODS, squared_loss

    method, clip = METHODS[case["method"]], 1.0 if case["network"].startswith("LSTM") else 5.0
    model, X, targets = build(case["network"])
    optimizer = method.make(model, **({"clip": clip} if method.clips else {}))

    def step() -> None:
        optimizer.zero_grad()
        squared_loss(model(X), targets).backward()
        if not method.clips:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    # The first step allocates memory and is not timed.
    step()
    spent = [timed(step)[1] for _ in range(case.get("steps", NETWORKS[case["network"]][0]))]
    kept = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    return {
        "step": min(spent),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "state": sum(value.numel() for value in kept),
    }


def claims(records: Records) -> list[Claim]:
    """Return the claims on running times, each based on the fastest step of both methods."""
    made = []
    for network, (_, printed) in NETWORKS.items():
        ours, theirs = (values(where(records, network=network, method=name), "step") for name in ("rls", "adam"))
        ratio = float(ours.min() / theirs.min()) if len(ours) and len(theirs) else None
        claim = exact(
            f"{SOURCE}, section VI-B",
            f"The running time of {network} is about {printed:g} times Adam's (one 1080Ti), within 20 %.",
            [abs(ratio / printed - 1.0) <= 0.2] if ratio else [],
            f"{ratio:.2f} on one thread" if ratio else "",
        )
        made.append(replace(claim, group="Running times over Adam's as printed, within 20 %", case=network))
    return made


#: The answer on top of the page.
ANSWER = """\
The paper prints running times of recursive least squares of 1.1, 1.4 and 1.1 times those of Adam on a GPU, for a fully
connected network, a mini-VGG and an LSTM. On a processor, they are within 20 % of that for the
[mini-VGG]{rls_costs: mini-VGG = 1 supported} ({rls_costs: mini-VGG}) and the
[LSTM]{rls_costs: LSTM = 1 supported} ({rls_costs: LSTM}), but
[not for the fully connected network]{rls_costs: 784-512-10 = 1 contradicted} ({rls_costs: 784-512-10}).
"""

#: Methods whose versions are stored with the records.
MEASURED = ("rls",)
EXPERIMENT = experiment_in(
    __name__, "Recursive least squares: time and memory", f"{SOURCE}, Tables I and II and section VI-B", version=2
)
