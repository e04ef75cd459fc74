"""Figures 2 to 5 of recursive least squares, first column: the paper's fully connected network on MNIST itself.

784-512-10 with ReLU, pixels in [0, 1], minibatches of 128, clip 5, lambda 1, k 0.1, eta 1, alpha 0.5, gamma 1e-5;
60,000 training and 10,000 test images. The paper has 100 epochs and five repetitions; here all methods run for 5
epochs, twice, and two of them for 20 epochs, once; k and eta are swept over 3 epochs, once. The paper's curves have
no numbers, so the tables have none of it: the claims are compared.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments._common import experiment_in
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Record, Table, judged

#: Label: method, loss and options.
METHODS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Adam": ("adam", "squared", {}),
    "SGD 0.1": ("sgd", "squared", {"lr": 0.1}),
    "RLS": ("rls", "squared", {}),
    "RLS+M": ("rls+m", "squared", {}),
    "RLS+R": ("rls+r", "squared", {}),
    "RLS+M+R": ("rls+m+r", "squared", {}),
    "Adam, entropy": ("adam", "cross_entropy", {}),
    "HRLS": ("hrls", "cross_entropy", {}),
    "HRLS+M": ("hrls+m", "cross_entropy", {}),
    "HRLS+R": ("hrls+r", "cross_entropy", {}),
    "HRLS+M+R": ("hrls+m+r", "cross_entropy", {}),
}
LONG = ("Adam", "RLS")
GRID = (0.01, 0.1, 1.0, 10.0)
SEEDS, N_EPOCHS, LONG_EPOCHS, SWEEP_EPOCHS = 2, 5, 20, 3


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each method and seed, for longer runs, and for the sweeps."""
    if quick:
        return [
            {"kind": "methods", "method": label, "seed": 0, "epochs": 1, "samples": 640} for label in ("Adam", "RLS")
        ]

    def case(kind: str, label: str, seed: int, epochs: int, **more: float) -> dict[str, Any]:
        return {"kind": kind, "method": label, "seed": seed, "epochs": epochs, **more}

    methods = [case("methods", label, seed, N_EPOCHS) for seed in range(SEEDS) for label in METHODS]
    swept = [case(kind, "RLS", 0, SWEEP_EPOCHS, value=value) for kind in ("k", "eta") for value in GRID]
    return methods + swept + [case("long", label, 0, LONG_EPOCHS) for label in LONG]


@functools.lru_cache(maxsize=1)
def images() -> Any:
    """Return MNIST for `train_network`."""
    import qsdp

    (X, y), (X_test, y_test) = (qsdp.datasets.load_mnist(part) for part in ("train", "test"))
    flat = [np.reshape(part, (len(part), -1)).astype(np.float32) / 255.0 for part in (X, X_test)]
    return _rls.data_of(*flat, y, y_test)


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Train once."""
    from qsdp.baselines.rls.harness import Data

    method, loss, options = METHODS[case["method"]]
    more = {"k": {"ratio": case.get("value")}, "eta": {"lr": case.get("value")}}.get(case["kind"], {})
    data, size = images(), case.get("samples")
    if size is not None:
        data = Data(data.X[:size], data.targets[:size], data.X_test, data.targets_test)
    return _rls.measure(
        _rls.perceptron(784, 512, 10),
        data,
        method,
        loss=loss,
        n_epochs=case["epochs"],
        seed=case["seed"],
        **options,
        **more,
    )


def of_kind(records: Sequence[Record], kind: str, *names: str) -> dict[tuple[Any, ...], list[Record]]:
    """Return the records of a kind by parameters."""
    return _rls.by([record for record in records if record.case["kind"] == kind], *names)


def tables(records: Sequence[Record]) -> list[Table]:
    """Return accuracy, loss, time and memory."""
    rows = []
    for (label,), group in of_kind(records, "methods", "method").items():
        rows.append(
            [
                label,
                *(_rls.shown(_rls.at(group, "test", epoch), 4) for epoch in (1, 3, 5)),
                _rls.shown(_rls.at(group, "train", 5), 4),
                *(_rls.shown(_rls.at(group, "loss", epoch), 4) for epoch in (1, 5)),
                f"{_rls.epoch_seconds(group):.2f}",
                *(f"{group[0].measured[name]:,}" for name in ("parameters", "state")),
                _rls.repetitions(group),
            ]
        )
    headings = ["method", "test @1", "@3", "@5", "train @5", "loss @1", "loss @5", "s an epoch", "parameters", "kept"]
    long = [
        [
            label,
            *(_rls.shown(_rls.at(group, "test", epoch), 4) for epoch in (5, 10, 20)),
            *(_rls.shown(_rls.at(group, "loss", epoch), 4) for epoch in (5, 10, 20)),
            _rls.repetitions(group),
        ]
        for (label,), group in of_kind(records, "long", "method").items()
    ]
    swept = [
        [
            f"{kind} = {value:g}",
            *(_rls.shown(_rls.at(group, "test", epoch), 4) for epoch in (1, SWEEP_EPOCHS)),
            _rls.shown(_rls.at(group, "loss", SWEEP_EPOCHS), 4),
            _rls.repetitions(group),
        ]
        for kind in ("k", "eta")
        for (value,), group in of_kind(records, kind, "value").items()
    ]
    note = "Means over seeds; minibatches of 128; processor time of one thread. The paper's curves have no numbers."
    return [
        Table("MNIST, 784-512-10: accuracy, loss, time and memory", [*headings, "repet."], rows, note),
        Table(
            "The same, longer",
            ["method", "test @5", "@10", "@20", "loss @5", "@10", "@20", "repet."],
            long,
        ),
        Table("MNIST: sweeps of RLS", ["value", "test @1", "@3", "loss @3", "repet."], swept),
    ]


def plot(records: Sequence[Record], path: Path) -> None:
    """Draw curves in the layout of figures 2 to 5."""
    groups = of_kind(records, "methods", "method")
    panels: dict[str, dict[str, list[Record]]] = {
        "squared loss": {label: groups[(label,)] for label, row in METHODS.items() if row[1] == "squared"},
        "cross-entropy": {label: groups[(label,)] for label, row in METHODS.items() if row[1] != "squared"},
    }
    for kind in ("k", "eta"):
        swept = of_kind(records, kind, "value")
        panels[kind] = {f"{value:g}": swept[(value,)] for value in GRID}
    _rls.draw_curves(panels, path, {})


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the claims of section VI-B for MNIST."""
    found = of_kind(records, "methods", "method")
    groups = {label: found[(label,)] for label in METHODS}
    made = []
    for ours, theirs, figure in (("RLS", "Adam", 2), ("HRLS", "Adam, entropy", 3)):
        source, pair = f"{_rls.SOURCE}, Fig. {figure}a", (groups[ours], groups[theirs])
        parts = {
            f"{text} after epoch {epoch}": _rls.ahead(*pair, name, epoch)
            for name, text in (("test", "test accuracy is higher"), ("loss", "training loss is lower"))
            for epoch in (1, N_EPOCHS)
        }
        both = {ours: pair[0], theirs: pair[1]}
        figures = "; ".join(_rls.listed(both, name, epoch) for name in ("test", "loss") for epoch in (1, N_EPOCHS))
        statement = f"{ours} converges faster and better than Adam on MNIST (5 of 100 epochs)."
        made.append(judged(source, statement, parts, figures))
        curves = (("loss", N_EPOCHS), ("test", N_EPOCHS))
        made += _rls.improvement_claims(source, groups, ours, curves, "MNIST (5 of 100 epochs)")
    k, eta = ({f"{kind} {v:g}": of_kind(records, kind, "value")[(v,)] for v in GRID} for kind in ("k", "eta"))
    parts = _rls.best_values(k, eta, ("k 0.1", "eta 1"), SWEEP_EPOCHS)
    for kind, swept, value, figure in (("k", k, 0.1, 4), ("eta", eta, 1.0, 5)):
        own_parts = {name: part for name, part in parts.items() if name.startswith(f"{kind} ")}
        statement = f"{kind} should be {value:g} on MNIST (3 of 100 epochs)."
        figures = _rls.listed(swept, "test", SWEEP_EPOCHS)
        made.append(judged(f"{_rls.SOURCE}, Fig. {figure}a", statement, own_parts, figures))
    return _rls.in_one(made, "MNIST")


EXPERIMENT = experiment_in(__name__, "Recursive least squares: MNIST", f"{_rls.SOURCE}, Figures 2 to 5", version=2)
