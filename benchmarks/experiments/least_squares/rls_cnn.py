"""Figures 2 to 5 of recursive least squares, second column, in kind: a small convolutional network on digits.

1-16-16-pool-32-pool, kernels 3 x 3 with padding 1, then 128-64-10, ReLU; minibatches of 128, clip 5, 30 epochs. The
paper has a mini-VGG on CIFAR-10.
"""

from __future__ import annotations

from typing import Any

from benchmarks.experiments import show
from benchmarks.experiments._common import Records, experiment_in
from benchmarks.experiments._data import digits
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Table, not_measured

#: Label: method, loss, options, and the specification's test scores at 3, 10, 30, best, training loss at 30.
METHODS: dict[str, tuple[str, str, dict[str, Any], tuple[float | None, ...]]] = {
    "Adam": ("adam", "squared", {}, (0.587, 0.917, 0.981, 0.982, 0.0410)),
    "SGD 1.0": ("sgd", "squared", {"lr": 1.0}, (0.103, 0.710, 0.953, 0.974, 0.0551)),
    "RLS": ("rls", "squared", {}, (0.353, 0.976, 0.990, 0.994, 0.0174)),
    "RLS+M": ("rls+m", "squared", {}, (None,) * 5),
    "RLS+R": ("rls+r", "squared", {}, (None,) * 5),
    "RLS+M+R": ("rls+m+r", "squared", {}, (0.712, 0.983, 0.993, 0.994, 0.0095)),
    "Adam, entropy": ("adam", "cross_entropy", {}, (0.429, 0.910, 0.958, 0.965, 0.0652)),
    "HRLS": ("hrls", "cross_entropy", {}, (0.364, 0.964, 0.979, 0.981, 0.0015)),
    "HRLS+M": ("hrls+m", "cross_entropy", {}, (None,) * 5),
    "HRLS+R": ("hrls+r", "cross_entropy", {}, (None,) * 5),
    "HRLS+M+R": ("hrls+m+r", "cross_entropy", {}, (0.875, 0.975, 0.983, 0.985, 0.0006)),
    "RLS, eta 10": ("rls", "squared", {"lr": 10.0}, (0.103, 0.101, 0.101, 0.103, 0.451)),
    "RLS, eta 0.1": ("rls", "squared", {"lr": 0.1}, (None,) * 5),
    "RLS, eta 0.01": ("rls", "squared", {"lr": 0.01}, (None,) * 5),
    "RLS, k 0.01": ("rls", "squared", {"ratio": 0.01}, (None, None, 0.990, None, 0.0172)),
    "RLS, k 1": ("rls", "squared", {"ratio": 1.0}, (None, None, 0.989, None, 0.0212)),
    "RLS, k 10": ("rls", "squared", {"ratio": 10.0}, (None, None, 0.990, None, 0.0251)),
}
#: Lines of figures 4 and 5.
GRIDS = {
    "k": ("RLS, k 0.01", "RLS", "RLS, k 1", "RLS, k 10"),
    "eta": ("RLS, eta 0.01", "RLS, eta 0.1", "RLS", "RLS, eta 10"),
}
SEEDS, N_EPOCHS = 10, 30


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each method and seed."""
    labels = ("Adam", "RLS") if quick else METHODS
    seeds, epochs = (1, 1) if quick else (SEEDS, N_EPOCHS)
    return [{"method": label, "seed": seed, "epochs": epochs} for label in labels for seed in range(seeds)]


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
    """Train once."""
    method, loss, options, _ = METHODS[case["method"]]
    data = _rls.data_of(*digits(), shape=(1, 8, 8))
    return _rls.measure(network, data, method, loss=loss, n_epochs=case["epochs"], seed=case["seed"], **options)


def tables(records: Records) -> list[Table]:
    curves: dict[str, tuple[str, int] | None] = {"test @3": ("test", 3), "@10": ("test", 10), "@30": ("test", 30)}
    curves |= {"best": None, "loss @30": ("loss", 30)}
    columns = [
        ("method", show.param("method")),
        *_rls.compared(curves, lambda group: METHODS[group[0].case["method"]][3], {"loss @30": 4}),
        ("s an epoch", _rls.seconds_cell(".3g")),
        ("numbers kept", show.first("state", ",")),
        ("repet.", show.count),
    ]
    note = f"Means over seeds; (spec): the {_rls.SPECIFICATION}, two seeds. Minibatches of 128; processor, one thread."
    groups = _rls.by(records, "method")
    return [show.table("Digits, small convolutional network: accuracy and loss", groups, columns, note)]


def plot(records: Records) -> Any:
    """Draw loss and accuracy against epochs."""
    groups = _rls.by(records, "method")
    sets = {
        "squared loss": ("Adam", "SGD 1.0", "RLS", "RLS+M", "RLS+R", "RLS+M+R"),
        "cross-entropy": ("Adam, entropy", "HRLS", "HRLS+M", "HRLS+R", "HRLS+M+R"),
        **GRIDS,
    }
    return _rls.draw_curves({name: {label: groups[label] for label in labels} for name, labels in sets.items()})


def claims(records: Records) -> list[Claim]:
    """Return the claims for convolutional networks, in kind."""
    groups = _rls.by(records, "method")
    points = [("test", 3, 0.0), ("test", 10, 0.0), ("test", 30, -0.005), ("loss", 30, 0.0)]
    ends = [("test", epoch) for epoch in (3, 10, 30)]
    statement = "{ours} converges faster and better than Adam for convolutional networks, here a small one on digits."
    curves = (("loss", 10), ("test", 10))
    made = _rls.method_claims(groups, "b", statement, points, curves, "convolutional on digits", ends=ends)
    k, eta = ({label: groups[label] for label in labels} for labels in GRIDS.values())
    best = _rls.best_claim("Figs. 4b, 5b", "a small convolutional network", k, eta, 30)
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
