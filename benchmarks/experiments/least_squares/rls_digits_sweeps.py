"""Figures 4 and 5 of recursive least squares, first column, in kind: sweeps on digits.

The network, data and settings of `rls_digits` with the squared loss and plain RLS, one thing changed at a time: k, eta
of all layers, and eta of the hidden one.
"""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.experiments._common import Records, experiment_in, grid
from benchmarks.experiments._data import digits
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Table, compare, judged

VALUES = (0.01, 0.1, 1.0, 10.0)
SWEEPS = {"ratio": (0.0, *VALUES), "learning rate": VALUES, "learning rate, hidden": VALUES}
SYMBOLS = {"ratio": "k", "learning rate": "eta, all layers", "learning rate, hidden": "eta, hidden layer"}
SEEDS, N_EPOCHS = 10, 100


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(sweep="ratio", value=(0.0, 0.1, 10.0), seed=0, epochs=5)
    made = [grid(sweep=name, value=each, seed=range(SEEDS), epochs=N_EPOCHS) for name, each in SWEEPS.items()]
    return list(itertools.chain(*made))


def run(case: dict[str, Any]) -> dict[str, Any]:
    value = case["value"]
    rate = {"0": value} if case["sweep"].endswith("hidden") else value
    options = {"ratio": value} if case["sweep"] == "ratio" else {"lr": rate}
    data, make = _rls.data_of(*digits()), _rls.perceptron(64, 128, 10)
    return _rls.measure(make, data, "rls", n_epochs=case["epochs"], seed=case["seed"], **options)


def name_of(group: Records) -> str:
    """Return what was swept, and the value."""
    return f"{SYMBOLS[group[0].case['sweep']]} = {group[0].case['value']:g}"


def tables(records: Records) -> list[Table]:
    columns = [*_rls.curves("test", 5, 20, 100, digits=3), *_rls.curves("loss", 100)]
    return [_rls.table("Digits: sweeps of RLS", _rls.by(records, "sweep", "value"), columns, name=name_of)]


def plot(records: Records) -> Any:
    panels = {SYMBOLS[name]: [(name, value) for value in each] for name, each in SWEEPS.items()}
    return _rls.draw_panels(_rls.by(records, "sweep", "value"), panels, lambda key: f"{key[1]:g}")


def claims(records: Records) -> list[Claim]:
    groups = _rls.by(records, "sweep", "value")

    def scores(sweep: str, value: float, name: str = "test") -> dict[int, float]:
        return _rls.by_seed(groups[(sweep, value)], name, N_EPOCHS)

    def shown(sweep: str) -> str:
        means = _rls.listed({value: groups[(sweep, value)] for value in SWEEPS[sweep]}, "test", N_EPOCHS, 3)
        return f"{sweep} {means}"

    k, eta = ({f"{sweep} {v:g}": groups[(sweep, v)] for v in VALUES} for sweep in ("ratio", "learning rate"))
    parts = _rls.best_values(k, eta, ("ratio 0.1", "learning rate 1"), N_EPOCHS)
    sensitive = parts.pop("the range over eta exceeds that over k")
    losses = {
        f"the training loss is below that of {v:g}": compare(
            scores("ratio", 0.1, "loss"), scores("ratio", v, "loss"), less=True, log=True
        )
        for v in VALUES
        if v != 0.1
    }
    hidden = (scores("learning rate, hidden", v) for v in (10.0, 1.0))
    made = [
        judged(
            f"{_rls.SOURCE}, Fig. 4a",
            "The ratio factor k should be 0.1; larger or smaller values are worse, here on digits.",
            {**{name: part for name, part in parts.items() if name.startswith("ratio")}, **losses},
            shown("ratio"),
        ),
        judged(
            f"{_rls.SOURCE}, Fig. 5a",
            "The scaling factor eta should be 1; too large a value explodes, too small a one is slow, here on digits.",
            {
                **{name: part for name, part in parts.items() if name.startswith("learning")},
                "10 for all layers explodes": compare(scores("learning rate", 10.0), 0.6, less=True, unit=100.0),
                "0.01 is slow": compare(scores("learning rate", 0.01), 0.93, less=True, unit=100.0),
                "10 for the hidden layer alone is worse than 1": compare(*hidden, less=True, unit=100.0),
            },
            shown("learning rate"),
        ),
        judged(
            f"{_rls.SOURCE}, section VI-B",
            "Training is more sensitive to eta than to k, here on digits.",
            sensitive,
            "range of accuracies over values",
        ),
    ]
    return _rls.in_one(made, "digits")


EXPERIMENT = experiment_in(
    __name__,
    "Recursive least squares: hyper-parameters on digits",
    f"{_rls.SOURCE}, Figures 4 and 5, in kind",
    version=2,
)
