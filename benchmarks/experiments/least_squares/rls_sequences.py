"""Figures 2 to 5 of recursive least squares, third column, in kind: recurrent networks on digits as sequences.

Digits as 8 steps of 8 pixels, two stacked layers of 64 units and a linear output of the last step, minibatches of 128,
clip 1. gamma is 1e-6, as for the paper's LSTMs on IMDB. k is that of all layers; eta that of the recurrent ones, the
output layer having 1.
"""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.experiments._common import Records, experiment_in, grid
from benchmarks.experiments._data import digits
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Table, judged, not_measured

CELLS = ("LSTM", "RNN")
#: What the additions are, and parameters of the sweeps.
OPTIONS: dict[str, dict[str, Any]] = {
    "+M": {"momentum": 0.5},
    "+R": {"l1": 1e-6},
    "+M+R": {"momentum": 0.5, "l1": 1e-6},
    ", k for k T": {"scale_ratio_by_time": False},
    **{f", eta {value:g}": {"lr": {"below": value, "above": value}} for value in (10.0, 0.1, 0.01)},
    **{f", k {value:g}": {"ratio": value} for value in (0.01, 1.0, 10.0)},
}
#: Methods of both cells, and those of LSTMs alone.
BOTH = (*itertools.chain(*_rls.PANELS.values()), "RLS, eta 10", "RLS, k for k T")
FURTHER = tuple(label for labels in _rls.GRIDS.values() for label in labels if label not in BOTH)
#: LSTMs that are trained for longer.
LONG = ("Adam", "RLS", "RLS+M+R")
SEEDS, N_EPOCHS, LONG_EPOCHS = 10, 40, 150


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(task="digits", cell="LSTM", method=("Adam", "RLS"), seed=0, epochs=2)
    return [
        {"task": "digits", "cell": cell, **case}
        for cell in CELLS
        for label in (*BOTH, *(FURTHER if cell == "LSTM" else ()))
        for case in _rls.cases_of([label], SEEDS, LONG_EPOCHS if cell == "LSTM" and label in LONG else N_EPOCHS)
    ]


def network(cell: str) -> Any:
    """Return two stacked recurrent layers and a linear output of the last step."""
    from torch import nn

    kind = {"LSTM": nn.LSTM, "RNN": nn.RNN}[cell]

    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below, self.above = kind(8, 64, batch_first=True), kind(64, 64, batch_first=True)
            self.output = nn.Linear(64, 10)

        def forward(self, X: Any) -> Any:
            return self.output(self.above(self.below(X)[0])[0][:, -1])

    return Sequences()


def run(case: dict[str, Any]) -> dict[str, Any]:
    label = case["method"]
    base = next(name for name in ("Adam, entropy", "HRLS", "RLS", "Adam") if label.startswith(name))
    method, loss, _ = _rls.METHODS[base]
    return _rls.measure(
        lambda: network(case["cell"]),
        _rls.data_of(*digits(), shape=(8, 8)),
        method,
        loss=loss,
        n_epochs=case["epochs"],
        clip=1.0,
        seed=case["seed"],
        **OPTIONS.get(label.removeprefix(base), {}),
    )


def tables(records: Records) -> list[Table]:
    groups = _rls.by(records, "cell", "method")
    long = {key: group for key, group in groups.items() if key[0] == "LSTM" and key[1] in LONG}

    def name(group: Records) -> str:
        return f"{group[0].case['cell']} {group[0].case['method']}"

    return [
        _rls.table("Digits as sequences", groups, _rls.curves("test", 5, 10, 20, 40, digits=3), name=name),
        _rls.table("The same, longer", long, _rls.curves("test", 20, 40, 80, 150, digits=3), name=name),
    ]


def plot(records: Records) -> Any:
    panels = {
        f"{cell}, {name}": [(cell, label) for label in _rls.PANELS[name]] for cell in CELLS for name in _rls.PANELS
    }
    panels |= {f"LSTM, {name}": [("LSTM", label) for label in labels] for name, labels in _rls.GRIDS.items()}
    return _rls.draw_panels(_rls.by(records, "cell", "method"), panels, lambda key: str(key[1]))


def claims(records: Records) -> list[Claim]:
    groups = _rls.by(records, "cell", "method")
    made = []
    for ours, theirs, figure in (("RLS", "Adam", "2c"), ("HRLS", "Adam, entropy", "3c")):
        source = f"{_rls.SOURCE}, Fig. {figure}"
        parts, texts = {}, []
        for cell in CELLS:
            both = {label: groups[cell, label] for label in (ours, theirs)}
            parts |= _rls.leads(both, [("test", epoch, 0.0) for epoch in (5, 40)], f"{cell}: ")
            texts += [f"{cell} {_rls.listed(both, 'test', epoch, 3)}" for epoch in (5, 40)]
        statement = f"{ours} converges faster and better than Adam for recurrent networks, here small ones on digits."
        made.append(judged(source, statement, parts, "; ".join(texts)))
        for cell in CELLS:
            own = _rls.Groups({label: group for (other, label), group in groups.items() if other == cell})
            made += _rls.improvement_claims(source, own, ours, (("loss", 40), ("test", 40)), f"{cell} on digits")
    lstm = _rls.Groups({label: group for (cell, label), group in groups.items() if cell == "LSTM"})
    best = _rls.best_claim("Figs. 4c, 5c", "a small LSTM (40 epochs)", lstm, 40, 3)
    return [
        *_rls.in_one([*made, best], "recurrent"),
        not_measured(
            f"{_rls.SOURCE}, Figs. 2c to 5c",
            "RLS and HRLS converge faster and better than Adam for two LSTM layers of 512 units on IMDB; k = 0.1 and "
            "eta = 1 are best.",
            "IMDB's reviews are not here; vocabulary, embedding and length are not stated, and 100 epochs, five times "
            "over for each curve, ask for an accelerator; `rls_costs` times a step of the network on noise",
        ),
    ]


EXPERIMENT = experiment_in(
    __name__,
    "Recursive least squares: recurrent networks on digits as sequences",
    f"{_rls.SOURCE}, Figures 2 to 5, in kind",
    version=2,
)
