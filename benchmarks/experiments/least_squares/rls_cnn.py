"""Figures 2 to 5 of recursive least squares, second column, in kind: a small convolutional network on digits.

1-16-16-pool-32-pool, kernels 3 x 3 with padding 1, then 128-64-10, ReLU; minibatches of 128, clip 5, 30 epochs. The
paper has a mini-VGG on CIFAR-10.
"""

from __future__ import annotations

from typing import Any

from benchmarks.experiments._common import Records, experiment_in
from benchmarks.experiments._data import digits
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Table, not_measured

METHODS: dict[str, _rls.Method] = {
    **_rls.METHODS,
    "SGD 1.0": ("sgd", "squared", {"lr": 1.0}),
    **{f"RLS, eta {value:g}": ("rls", "squared", {"lr": value}) for value in (10.0, 0.1, 0.01)},
    **{f"RLS, k {value:g}": ("rls", "squared", {"ratio": value}) for value in (0.01, 1.0, 10.0)},
}
SEEDS, N_EPOCHS = 10, 30


def cases(quick: bool) -> list[dict[str, Any]]:
    return _rls.cases_of(("Adam", "RLS"), 1, 1) if quick else _rls.cases_of(METHODS, SEEDS, N_EPOCHS)


def network() -> Any:
    """Return the network."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def run(case: dict[str, Any]) -> dict[str, Any]:
    method, loss, options = METHODS[case["method"]]
    data = _rls.data_of(*digits(), shape=(1, 8, 8))
    return _rls.measure(network, data, method, loss=loss, n_epochs=case["epochs"], seed=case["seed"], **options)


def tables(records: Records) -> list[Table]:
    columns = [
        *_rls.curves("test", 3, 10, 30, digits=3),
        ("best", _rls.curve_cell(None)),
        *_rls.curves("loss", 30),
    ]
    return [_rls.table("Digits, small convolutional network", _rls.by(records, "method"), columns)]


def plot(records: Records) -> Any:
    return _rls.draw_panels(_rls.by(records, "method"), {**_rls.PANELS, **_rls.GRIDS})


def claims(records: Records) -> list[Claim]:
    groups = _rls.by(records, "method")
    points = [("test", 3, 0.0), ("test", 10, 0.0), ("test", 30, -0.005), ("loss", 30, 0.0)]
    ends = [("test", epoch) for epoch in (3, 10, 30)]
    statement = "{ours} converges faster and better than Adam for convolutional networks, here a small one on digits."
    curves = (("loss", 10), ("test", 10))
    made = _rls.method_claims(groups, "b", statement, points, curves, "convolutional on digits", ends=ends)
    best = _rls.best_claim("Figs. 4b, 5b", "a small convolutional network", groups, 30)
    return [
        *_rls.in_one([*made, best], "convolutional"),
        not_measured(
            f"{_rls.SOURCE}, Figs. 2b to 5b",
            "RLS and HRLS converge faster and better than Adam for a mini-VGG on CIFAR-10; best are k = 0.1, eta = 1.",
            "CIFAR-10 is not here, and 100 epochs of its network, five times over for each curve, ask for an "
            "accelerator; `rls_costs` times a step of the network on noise, and digits stand in for the images",
        ),
    ]


EXPERIMENT = experiment_in(
    __name__,
    "Recursive least squares: small convolutional network on digits",
    f"{_rls.SOURCE}, Figures 2 to 5, in kind",
    version=2,
)
