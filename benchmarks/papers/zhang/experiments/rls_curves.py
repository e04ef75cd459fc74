"""Figures 2 to 5 of recursive least squares: the paper's fully connected network, and one for each column on digits.

MNIST: 784-512-10, ReLU, as in the paper, which has 100 epochs and five repetitions; here 5 epochs, and 3 for the sweeps
of k and eta. On digits: a fully connected network, 64-128-10, ReLU, 100 epochs; a convolutional one,
1-16-16-pool-32-pool, kernels 3 x 3 with padding 1, then 128-64-10, ReLU, 30 epochs, where the paper has a mini-VGG on
CIFAR-10; a recurrent one, 8 steps of 8 pixels, two stacked layers of 64 LSTM or RNN units and a linear output of the
last step, 40 epochs or 150, where the paper has LSTMs on IMDB, and therefore gamma is 1e-6. Pixels are in [0, 1],
batches have 128 samples, gradients are clipped to a norm of 5 (1 if recurrent). All methods of a seed have the same
initial parameters and batches. "squared" is 1/(2M) times the sum over linear outputs and one-hot targets. Sweeps change
k or eta alone, from 0.1 and 1, for all layers (eta of recurrent networks only in the recurrent layers). The paper's
curves have no numbers, so the tables do not quote them.

The series "Adam" and "RLS" use the squared loss, "Adam, entropy" and "HRLS" the cross-entropy; "+M" adds momentum, "+R"
the L1 penalty, and "k" or "eta" with a number is a sweep. The forgetting factor is 1, so that `trace_guard` (erratum
E18) changes nothing. There are ten seeds. No column is appended beyond the biases, there is no beta, and times are
not shown.
"""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data.sets import digits, images
from benchmarks.machinery import draw
from benchmarks.machinery.common import Records, experiment_in, grouped, where
from benchmarks.machinery.verdicts import Claim, Evidence, compare, either, judged, not_measured
from benchmarks.runner import Record

SOURCE = "Zhang et al. 2021"

#: Epochs, counted from 1, whose values are recorded.
EPOCHS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 60, 80, 100, 120, 150)

#: The paper's additions, and the beginnings of its claims about them.
ADDITIONS = {"+M": "Momentum improves", "+R": "An L1 term improves", "+M+R": "Both together improve"}
#: Figures 2 and 3: the loss and the curves of each panel.
PANELS = {
    "squared": ("Adam", "RLS", *(f"RLS{sign}" for sign in ADDITIONS)),
    "cross_entropy": ("Adam, entropy", "HRLS", *(f"HRLS{sign}" for sign in ADDITIONS)),
}
#: Figures 4 and 5: the curves for k and for eta.
GRIDS = {
    "k": ("RLS, k 0.01", "RLS", "RLS, k 1", "RLS, k 10"),
    "eta": ("RLS, eta 0.01", "RLS, eta 0.1", "RLS", "RLS, eta 10"),
}
#: Method of `train_network`, loss and options of each label.
METHODS: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{
        label: (label.removesuffix(", entropy").lower(), loss, {})
        for loss, labels in PANELS.items()
        for label in labels
    },
    **{f"RLS, k {value:g}": ("rls", "squared", {"ratio": value}) for value in (0.01, 1.0, 10.0)},
    **{f"RLS, eta {value:g}": ("rls", "squared", {"lr": value}) for value in (0.01, 0.1, 10.0)},
}
COMPARED = tuple(itertools.chain(*PANELS.values()))
SWEPT = tuple(dict.fromkeys(itertools.chain(*GRIDS.values())))
#: Methods whose LSTMs are trained for longer.
LONG = ("Adam", "RLS", "RLS+M+R")
#: Networks, methods, epochs and seeds.
PLAN: tuple[tuple[str, Iterable[str], int, int], ...] = (
    ("MNIST", COMPARED, 5, 10),
    ("MNIST", SWEPT, 3, 10),
    ("dense", METHODS, 100, 10),
    ("convolutional", METHODS, 30, 10),
    ("LSTM", LONG, 150, 10),
    ("LSTM", [label for label in METHODS if label not in LONG], 40, 10),
    ("RNN", COMPARED, 40, 10),
)
QUICK = tuple((network, LONG[:2], epochs, 1) for network, epochs in (("dense", 5), ("convolutional", 1), ("LSTM", 2)))


def cases(quick: bool) -> list[dict[str, Any]]:
    return [
        {"network": network, "method": label, "seed": seed, "epochs": epochs}
        for network, labels, epochs, seeds in (QUICK if quick else PLAN)
        for label in labels
        for seed in range(seeds)
    ]


def perceptron(*sizes: int) -> Any:
    """Return a fully connected ReLU network."""
    from torch import nn

    parts = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts[:-1])


def convolutional() -> Any:
    from torch import nn

    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def recurrent(cell: str, n_inputs: int, width: int, n_outputs: int) -> Any:
    """Return two stacked recurrent layers, "LSTM" or "RNN", with a linear output of the last step."""
    from torch import nn

    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            kind = getattr(nn, cell)
            self.below, self.above = kind(n_inputs, width, batch_first=True), kind(width, width, batch_first=True)
            self.output = nn.Linear(width, n_outputs)

        def forward(self, X: Any) -> Any:
            return self.output(self.above(self.below(X)[0])[0][:, -1])

    return Sequences()


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Train on one thread; return the curves at those `EPOCHS` that were reached."""
    import torch

    from benchmarks.papers.zhang import train_network
    from benchmarks.papers.zhang.harness import Data

    torch.set_num_threads(1)
    network, (method, loss, options) = case["network"], METHODS[case["method"]]
    makes: dict[str, tuple[Callable[[], Any], Sequence[int]]] = {
        "MNIST": (lambda: perceptron(784, 512, 10), (784,)),
        "dense": (lambda: perceptron(64, 128, 10), (64,)),
        "convolutional": (convolutional, (1, 8, 8)),
    }
    make, shape = makes.get(network, (lambda: recurrent(network, 8, 64, 10), (8, 8)))
    if network not in makes:
        options = {
            name: dict.fromkeys(("below", "above"), one) if name == "lr" else one for name, one in options.items()
        }
        options |= {"l1": 1e-6} if "+R" in case["method"] else {}
    X, X_test, y, y_test = images() if network == "MNIST" else digits()
    inputs = (torch.tensor(part, dtype=torch.float32).reshape(-1, *shape) for part in (X, X_test))
    codes = (torch.eye(10)[torch.as_tensor(part, dtype=torch.long)] for part in (y, y_test))
    data = Data(*itertools.chain(*zip(inputs, codes, strict=True)))
    clip = 5.0 if network in makes else 1.0
    with warnings.catch_warnings():
        # The record says whether training diverged.
        warnings.simplefilter("ignore")
        history = train_network(
            make, data, method, loss=loss, n_epochs=case["epochs"], seed=case["seed"], clip=clip, **options
        )
    reached = [epoch for epoch in EPOCHS if epoch <= history.n_epochs]
    curves = {"test": history.extra.get("test", []), "loss": history.loss}
    return {
        **{name: {str(k): float(f"{curve[k - 1]:.6g}") for k in reached} for name, curve in curves.items()},
        "diverged": history.diverged,
        "cpu_seconds_per_epoch": float(np.median(history.extra["cpu_seconds"])) if reached else None,
    }


def shown(records: Records) -> list[Record]:
    """Return the curves at a few epochs."""
    found = []
    for record in records:
        last, measured = record.case["epochs"], record.measured
        row = {
            f"{name} @{k}": measured[name].get(str(k))
            for name in ("test", "loss")
            for k in sorted({1, 5, 20, last})
            if k <= last
        }
        row |= {"diverged": measured["diverged"] is not None, "cpu_seconds": measured["cpu_seconds_per_epoch"]}
        case = {"kind": f"{record.case['network']}, {last} epochs", **record.case}
        found.append(replace(record, case=case, measured=row))
    return found


# -- what the curves say -----------------------------------------------------------------------------------


class Place(NamedTuple):
    """What the claims on one network compare.

    `letter` is the part of the paper's figures 2 to 5, and `words` describe the data here. A method is ahead of Adam if
    it leads at all `points` (epochs by curve); an addition improves a method if it leads in one of `curves`, at the
    epoch given there. Values of k and eta are compared at the epoch `swept`, if given.
    """

    letter: str
    words: str
    points: dict[str, tuple[int, ...]]
    curves: dict[str, int]
    swept: int | None = None


PLACES = {
    "MNIST": Place("a", "MNIST (the first of 100 epochs)", {"test": (1, 5), "loss": (1, 5)}, {"loss": 5, "test": 5}, 3),
    "dense": Place("a", "digits", {"test": (5, 100), "loss": (5, 100)}, {"loss": 5, "test": 100}, 100),
    "convolutional": Place(
        "b", "digits (convolutional)", {"test": (3, 10, 30), "loss": (30,)}, {"loss": 10, "test": 10}, 30
    ),
    "LSTM": Place("c", "digits (LSTM)", {"test": (5, 40)}, {"loss": 40, "test": 40}, 40),
    "RNN": Place("c", "digits (RNN)", {"test": (5, 40)}, {"loss": 40, "test": 40}),
}


def curve(records: Records, label: str, name: str, epoch: int) -> dict[int, float]:
    """Return a curve's value at an epoch by seed; a diverged run counts as chance accuracy and a loss of 1000."""
    worst = 1e3 if name == "loss" else 0.1
    group = [record for record in where(records, method=label) if record.case["epochs"] >= epoch]
    found = {record.case["seed"]: record.measured[name].get(str(epoch), worst) for record in group}
    return {seed: worst if np.isnan(value) else value for seed, value in found.items()}


def ahead(records: Records, ours: str, theirs: str, name: str, epoch: int, margin: float = 0.0) -> Evidence:
    """Return the evidence that one method has the higher score, or the lower loss, at an epoch."""
    less = name == "loss"
    pair = curve(records, ours, name, epoch), curve(records, theirs, name, epoch)
    return compare(*pair, less=less, log=less, margin=margin, unit=1.0 if less else 100.0)


def claims(records: Records) -> list[Claim]:
    made = []
    for network, place in PLACES.items():
        own = where(records, network=network)
        for ours, theirs, figure in (("RLS", "Adam", 2), ("HRLS", "Adam, entropy", 3)):
            made += _method_claims(own, place, ours, theirs, f"{SOURCE}, Fig. {figure}{place.letter}")
        if place.swept:
            # The sweeps on MNIST have fewer epochs than the other runs.
            made += _sweep_claims(where(own, epochs=3) if network == "MNIST" else own, place, place.swept)
    return [
        *made,
        not_measured(
            f"{SOURCE}, Figs. 2b to 5b, 2c to 5c",
            "RLS and HRLS converge faster and better than Adam for a mini-VGG on CIFAR-10 and for two LSTM layers of "
            "512 units on IMDB; best are k = 0.1, eta = 1.",
            "neither set is here, embedding and length of IMDB's reviews are not stated, and 100 epochs ask for an "
            "accelerator; `rls_costs` times a step of both networks on noise",
        ),
    ]


def _method_claims(records: Records, place: Place, ours: str, theirs: str, source: str) -> list[Claim]:
    """Return the claims that a method is ahead of Adam and that each addition improves it."""
    parts = {}
    for name, epoch in ((name, epoch) for name, epochs in place.points.items() for epoch in epochs):
        # At the end of training, accuracies may differ by half a point.
        margin = -0.005 if (name, epoch) == ("test", place.swept) else 0.0
        parts[f"{name} after {epoch} epochs"] = ahead(records, ours, theirs, name, epoch, margin)
    group = f"{ours} converges faster and better than Adam"
    made = [replace(judged(source, f"{group} on {place.words}.", parts), group=group, case=place.words)]
    for sign, words in ADDITIONS.items():
        improved = either([ahead(records, f"{ours}{sign}", ours, *point) for point in place.curves.items()])
        claim = judged(source, f"{words} {ours} on {place.words}: in loss or accuracy.", improved)
        group = f"Momentum (+M) and L1 term (+R) improve {ours}"
        made.append(replace(claim, group=group, case=f"{place.words} {sign}"))
    return made


def _sweep_claims(records: Records, place: Place, epoch: int) -> list[Claim]:
    """Return the claims that k = 0.1 is within half a point of the best, eta = 1 is best, and eta matters more."""
    k, eta = ({label: curve(records, label, "test", epoch) for label in labels} for labels in GRIDS.values())
    ranges = [
        {seed: float(np.ptp([own[seed] for own in one.values()])) for seed in set.intersection(*map(set, one.values()))}
        for one in (k, eta)
    ]
    said = {
        (f"Fig. 4{place.letter}", "k should be 0.1 (within half a point of the best)"): {
            f"not below {label}": compare(k["RLS"], own, margin=-0.005, unit=100.0)
            for label, own in k.items()
            if label != "RLS"
        },
        (f"Fig. 5{place.letter}", "eta should be 1; larger and smaller values are worse"): {
            f"above {label}": compare(eta["RLS"], own, unit=100.0) for label, own in eta.items() if label != "RLS"
        },
        ("section VI-B", "Training is more sensitive to eta than to k"): {
            "the range over eta exceeds that over k": compare(ranges[1], ranges[0], unit=100.0)
        },
    }
    return [
        replace(judged(f"{SOURCE}, {figure}", f"{words}, on {place.words}.", parts), group=words, case=place.words)
        for (figure, words), parts in said.items()
    ]


def plot(records: Records) -> Any:
    """Draw training loss and test error against epochs, where there are methods to compare."""
    panels: dict[str, dict[str, dict[int, list[float]]]] = {}
    for (network, label), group in grouped(records, "network", "method").items():
        for title, labels in {**PANELS, **GRIDS}.items():
            for name in ("loss", "test") if label in labels else ():
                points: dict[int, list[float]] = defaultdict(list)
                for epoch, value in ((int(k), v) for record in group for k, v in record.measured[name].items()):
                    points[epoch].append(value if name == "loss" else 1.0 - value)
                panels.setdefault(f"{network}, {title}: {name}", {})[label] = points
    panels = {title: lines for title, lines in panels.items() if len(lines) > 1}
    words = {label: worded(label) for lines in panels.values() for label in lines}
    return draw.curves(panels, "epochs", "training loss or test error", "xy", words=words) if panels else None


def worded(label: str) -> str:
    """Return the name of a series in the legend: the method, its additions, and its changed parameter."""
    method, _, changed = label.partition(", ")
    name, *additions = method.split("+")
    more = " and ".join({"M": "momentum", "R": "an L1 term"}[addition] for addition in additions)
    parameter = {"": "", "entropy": ", cross-entropy"}.get(changed, f", {changed.replace(' ', ' = ')}")
    return f"{name}{' with ' * bool(more)}{more}{parameter}"


#: The answer on top of the page.
ANSWER = """\
The paper claims that recursive least squares converge faster and better than Adam, and that momentum and an L1 term
improve them. On MNIST and digits, momentum [improves loss or accuracy]{rls_curves: Momentum improves = 10 supported} of
all networks, but the L1 term is [nowhere shown to]{rls_curves: An L1 term improves = 10 inconclusive}. They are
shown to be faster and better than Adam
[in one of ten comparisons, and shown not to be in four]{rls_curves:
than Adam on = 1 supported, 5 inconclusive, 4 contradicted}.
The advised step eta = 1 is
[the best in three of four networks]{rls_curves: eta should be 1 = 3 supported, 1 contradicted}; the advised k = 0.1 is
[shown to be near the best on MNIST alone]{rls_curves: k should be 0.1 = 1 supported, 3 inconclusive}. Networks for
CIFAR-10 and IMDB are [not measured]{rls_curves: mini-VGG on CIFAR-10 = 1 not measured}.
"""

#: Methods whose versions are stored with the records.
MEASURED = ("rls",)
EXPERIMENT = experiment_in(
    __name__, "Recursive least squares: MNIST, and networks on digits", f"{SOURCE}, Figures 2 to 5", version=2
)
