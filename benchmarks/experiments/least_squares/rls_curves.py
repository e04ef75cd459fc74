"""Figures 2 to 5 of recursive least squares: the paper's fully connected network, and one for each column on digits.

MNIST: 784-512-10, ReLU, as in the paper, which has 100 epochs and five repetitions; here all methods run for 5 epochs,
and two of them for 20, once; k and eta are swept over 3 epochs. On digits: fully connected,
64-128-10, ReLU, 100 epochs; convolutional, 1-16-16-pool-32-pool, kernels 3 x 3 with padding 1, then 128-64-10, ReLU,
30 epochs, where the paper has a mini-VGG on CIFAR-10; recurrent, 8 steps of 8 pixels, two stacked layers of 64 LSTM or
RNN units and a linear output of the last step, 40 epochs or 150, where the paper has LSTMs on IMDB, and so gamma is
1e-6. Pixels in [0, 1], minibatches of 128, gradients clipped to a norm of 5 (1 if recurrent); the same first parameters
and minibatches for all methods of a seed. "squared" is 1/(2M) times the sum over outputs, of linear outputs and one-hot
targets. Of k and eta one is changed at a time from 0.1 and 1, for all layers (eta of recurrent networks for the
recurrent ones), or eta for the hidden layer. The paper's curves have no numbers, so the tables have none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from benchmarks.experiments._common import Records, experiment_in, where
from benchmarks.experiments._data import digits, images
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Record, compare, judged, not_measured

#: What is changed of RLS, and its options.
CHANGES: dict[str, dict[str, Any]] = {
    "512 wide": {},
    **{f"k {value:g}": {"ratio": value} for value in (0.0, 0.01, 1.0, 10.0)},
    **{f"eta {value:g}": {"lr": value} for value in (0.01, 0.1, 10.0)},
    **{f"hidden eta {value:g}": {"lr": {"0": value}} for value in (0.01, 0.1, 10.0)},
    "k for k T": {"scale_ratio_by_time": False},
}
METHODS: dict[str, _rls.Method] = {
    **_rls.METHODS,
    "SGD 1.0": ("sgd", "squared", {"lr": 1.0}),
    "SGD 0.1": ("sgd", "squared", {"lr": 0.1}),
    "NAG 0.1": ("nag", "squared", {"lr": 0.1}),
    "AdaGrad 0.01": ("adagrad", "squared", {}),
    "Adam, 512 wide": ("adam", "squared", {}),
    **{f"RLS, {change}": ("rls", "squared", options) for change, options in CHANGES.items()},
}
SWEPT = tuple(dict.fromkeys(label for labels in _rls.GRIDS.values() for label in labels))
RECURRENT = (*_rls.METHODS, "RLS, eta 10", "RLS, k for k T")
#: LSTMs that are trained for longer.
LONG = ("Adam", "RLS", "RLS+M+R")
#: Networks, methods, epochs and seeds.
PLAN: tuple[tuple[str, Iterable[str], int, int], ...] = (
    ("MNIST", (*_rls.METHODS, "SGD 0.1"), 5, 10),
    ("MNIST", SWEPT, 3, 10),
    ("MNIST", ("Adam", "RLS"), 20, 1),
    ("dense", [label for label in METHODS if label != "RLS, k for k T"], 100, 10),
    ("convolutional", dict.fromkeys((*_rls.METHODS, "SGD 1.0", *SWEPT)), 30, 10),
    ("LSTM", LONG, 150, 10),
    ("LSTM", [label for label in dict.fromkeys((*RECURRENT, *SWEPT)) if label not in LONG], 40, 10),
    ("RNN", RECURRENT, 40, 10),
)
QUICK = tuple((network, LONG[:2], epochs, 1) for network, epochs in (("dense", 5), ("convolutional", 1), ("LSTM", 2)))
#: Epochs of the tables, beside the last.
SHOWN = (1, 5, 20)
NETWORKS = tuple(dict.fromkeys(network for network, *_ in PLAN))


def cases(quick: bool) -> list[dict[str, Any]]:
    return [
        {"network": network, **case}
        for network, labels, epochs, seeds in (QUICK if quick else PLAN)
        for case in _rls.cases_of(labels, seeds, epochs)
    ]


def convolutional() -> Any:
    from torch import nn

    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def recurrent(cell: str) -> Callable[[], Any]:
    """Return what makes two stacked recurrent layers and a linear output of the last step."""
    from torch import nn

    kind = {"LSTM": nn.LSTM, "RNN": nn.RNN}[cell]

    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below, self.above = kind(8, 64, batch_first=True), kind(64, 64, batch_first=True)
            self.output = nn.Linear(64, 10)

        def forward(self, X: Any) -> Any:
            return self.output(self.above(self.below(X)[0])[0][:, -1])

    return Sequences


def run(case: dict[str, Any]) -> dict[str, Any]:
    network, label = case["network"], case["method"]
    method, loss, options = METHODS[label]
    given = {"loss": loss, "n_epochs": case["epochs"], "seed": case["seed"]}
    if network == "MNIST":
        return _rls.measure(_rls.perceptron(784, 512, 10), _rls.data_of(*images()), method, **given, **options)
    if network == "dense":
        make = _rls.perceptron(64, 512 if "wide" in label else 128, 10)
        return _rls.measure(make, _rls.data_of(*digits()), method, **given, **options)
    if network == "convolutional":
        data = _rls.data_of(*digits(), shape=(1, 8, 8))
        return _rls.measure(convolutional, data, method, **given, **options)
    options = options | ({"l1": 1e-6} if "+R" in label else {})
    if "lr" in options:
        options = {"lr": dict.fromkeys(("below", "above"), options["lr"])}
    return _rls.measure(recurrent(network), _rls.data_of(*digits(), shape=(8, 8)), method, clip=1.0, **given, **options)


def shown(records: Records) -> list[Record]:
    """Return what tables show: curves at a few epochs, and the costs of an epoch and of the optimiser."""
    found = []
    for record in records:
        case, measured = record.case, record.measured
        epochs = [*(epoch for epoch in SHOWN if epoch < case["epochs"]), case["epochs"]]
        row = {f"{name} @{k}": measured[name].get(str(k)) for name in ("test", "train", "loss") for k in epochs}
        row |= {"best test": measured["best"], "diverged": measured["diverged"] is not None}
        row |= {name: measured[name] for name in ("cpu_seconds_per_epoch", "parameters", "state")}
        place = {"kind": f"{case['network']}, {case['epochs']} epochs", "method": case["method"], "seed": case["seed"]}
        found.append(replace(record, case=place, measured=row))
    return found


def plot(records: Records) -> Any:
    panels = {}
    for network in NETWORKS:
        for panel, labels in (*_rls.PANELS.items(), *_rls.GRIDS.items()):
            short = {"epochs": 3 if panel in _rls.GRIDS else 5} if network == "MNIST" else {}
            groups = _rls.by(where(records, network=network, **short), "method")
            if network != "RNN" or panel in _rls.PANELS:
                panels[f"{network}, {panel}"] = {label: groups[label] for label in labels}
    return _rls.draw_panels(panels)


def claims(records: Records) -> list[Claim]:
    groups = {network: _rls.by(where(records, network=network), "method") for network in NETWORKS}
    faster = "{ours} converges faster and better than Adam"
    mnist = "MNIST (5 of 100 epochs)"
    return [
        *_rls.method_claims(
            {mnist: _rls.by(where(records, network="MNIST", epochs=5), "method")},
            f"{faster} on {mnist}.",
            "a",
            "MNIST",
            points=[(name, epoch, 0.0) for name in ("test", "loss") for epoch in (1, 5)],
            curves=(("loss", 5), ("test", 5)),
        ),
        *_swept_claims(records),
        *_rls.method_claims(
            {"digits": groups["dense"]},
            f"{faster} ({{loss}} loss), here on digits.",
            "a",
            "digits",
            points=[("test", 5, 0.0), ("loss", 5, 0.0), ("loss", 100, 0.0), ("test", 100, -0.005)],
            curves=(("loss", 5), ("test", 100)),
            signs=("+M", "+R"),
        ),
        *_sweep_claims(groups["dense"]),
        *_rls.method_claims(
            {"convolutional on digits": groups["convolutional"]},
            f"{faster} for convolutional networks, here a small one on digits.",
            "b",
            "convolutional",
            points=[("test", 3, 0.0), ("test", 10, 0.0), ("test", 30, -0.005), ("loss", 30, 0.0)],
            curves=(("loss", 10), ("test", 10)),
        ),
        _best_claim("Figs. 4b, 5b", "a small convolutional network", groups["convolutional"], 30, "convolutional"),
        *_rls.method_claims(
            {f"{cell} on digits": groups[cell] for cell in ("LSTM", "RNN")},
            f"{faster} for recurrent networks, here small ones on digits.",
            "c",
            "recurrent",
            points=[("test", 5, 0.0), ("test", 40, 0.0)],
            curves=(("loss", 40), ("test", 40)),
        ),
        _best_claim("Figs. 4c, 5c", "a small LSTM (40 epochs)", groups["LSTM"], 40, "recurrent"),
        not_measured(
            f"{_rls.SOURCE}, Figs. 2b to 5b",
            "RLS and HRLS converge faster and better than Adam for a mini-VGG on CIFAR-10; best are k = 0.1, eta = 1.",
            "CIFAR-10 is not here, and 100 epochs of its network, five times over for each curve, ask for an "
            "accelerator; `rls_costs` times a step of the network on noise, and digits stand in for the images",
        ),
        not_measured(
            f"{_rls.SOURCE}, Figs. 2c to 5c",
            "RLS and HRLS converge faster and better than Adam for two LSTM layers of 512 units on IMDB; k = 0.1 and "
            "eta = 1 are best.",
            "IMDB's reviews are not here; vocabulary, embedding and length are not stated, and 100 epochs, five times "
            "over for each curve, ask for an accelerator; `rls_costs` times a step of the network on noise",
        ),
    ]


def _swept_claims(records: Records) -> list[Claim]:
    """Return what is said of k and of eta, on MNIST."""
    parts = _rls.best_values(_rls.by(where(records, network="MNIST", epochs=3), "method"), 3)
    said = {"k": ("k should be 0.1", "Fig. 4a"), "eta": ("eta should be 1", "Fig. 5a")}
    return [
        _rls.of_best(f"{_rls.SOURCE}, {figure}", f"{words} on MNIST (3 of 100 epochs).", parts[what], "MNIST")
        for what, (words, figure) in said.items()
    ]


def _best_claim(figures: str, here: str, groups: _rls.Groups, epoch: int, case: str) -> Claim:
    """Return whether k is best at 0.1 and eta at 1, which the method "RLS" has, on other data than the paper's."""
    statement = f"k should be 0.1 and eta 1; eta matters more than k, here for {here}."
    parts = {name: one for own in _rls.best_values(groups, epoch).values() for name, one in own.items()}
    return _rls.of_best(f"{_rls.SOURCE}, {figures}", statement, parts, case)


def _sweep_claims(groups: _rls.Groups) -> list[Claim]:
    epoch = 100
    parts = _rls.best_values(groups, epoch)
    losses = {
        f"the training loss is below that of {label}": _rls.ahead(groups["RLS"], groups[label], "loss", epoch)
        for label in _rls.GRIDS["k"]
        if label != "RLS"
    }

    def scores(label: str) -> dict[int, float]:
        return _rls.by_seed(groups[label], "test", epoch)

    extremes = {
        "10 for all layers explodes": compare(scores("RLS, eta 10"), 0.6, less=True, unit=100.0),
        "0.01 is slow": compare(scores("RLS, eta 0.01"), 0.93, less=True, unit=100.0),
        "10 for the hidden layer alone is worse than 1": _rls.ahead(
            groups["RLS"], groups["RLS, hidden eta 10"], "test", epoch
        ),
    }
    return [
        _rls.of_best(
            f"{_rls.SOURCE}, Fig. 4a",
            "The ratio factor k should be 0.1; larger or smaller values are worse, here on digits.",
            parts["k"] | losses,
            "digits",
        ),
        _rls.of_best(
            f"{_rls.SOURCE}, Fig. 5a",
            "The scaling factor eta should be 1; too large a value explodes, too small a one is slow, here on digits.",
            parts["eta"] | extremes,
            "digits",
        ),
        judged(
            f"{_rls.SOURCE}, section VI-B",
            "Training is more sensitive to eta than to k, here on digits.",
            parts["range"],
        ),
    ]


EXPERIMENT = experiment_in(
    __name__, "Recursive least squares: MNIST, and networks on digits", f"{_rls.SOURCE}, Figures 2 to 5", version=2
)
