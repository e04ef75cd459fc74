"""Figures 2 to 5 of recursive least squares, third column, in kind: recurrent networks on small sequences.

Digits as 8 steps of 8 pixels, two stacked layers of 64 units and a linear output of the last step, minibatches of 128,
clip 1; and the next value of a sine of random frequency (0.2 to 1 a step) and phase, length 20, two layers of 32, an
output at every step, a new minibatch of 64 at every step. gamma is 1e-6, as for the paper's LSTMs on IMDB. k is that of
all layers; eta that of the recurrent ones, the output layer having 1. The specification does not say from which sines
its prototype learned: those figures compare in kind only.
"""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.experiments import show
from benchmarks.experiments._common import Records, experiment_in, grid, values, where
from benchmarks.experiments._data import digits
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Table, judged, not_measured

#: Cell, label: method, loss, options, epochs, and the specification's test scores at 5, 10, 20, 40.
Row = tuple[str, str, dict[str, Any], int, tuple[float | None, ...]]
MOMENTUM, L1 = {"momentum": 0.5}, {"l1": 1e-6}
IMPROVED = {**MOMENTUM, **L1}
UNSCALED = {"scale_ratio_by_time": False}


def recurrent_rate(value: float) -> dict[str, Any]:
    """Return the learning rates of the recurrent layers."""
    return {"lr": {"below": value, "above": value}}


METHODS: dict[tuple[str, str], Row] = {
    ("LSTM", "Adam"): ("adam", "squared", {}, 150, (0.456, 0.779, 0.915, 0.956)),
    ("LSTM", "RLS"): ("rls", "squared", {}, 150, (0.325, 0.386, 0.603, 0.817)),
    ("LSTM", "RLS+M"): ("rls", "squared", MOMENTUM, 40, (None,) * 4),
    ("LSTM", "RLS+R"): ("rls", "squared", L1, 40, (None,) * 4),
    ("LSTM", "RLS+M+R"): ("rls", "squared", IMPROVED, 150, (0.368, 0.596, 0.829, 0.931)),
    ("LSTM", "RLS, eta 10"): ("rls", "squared", recurrent_rate(10.0), 40, (0.682, 0.872, 0.958, 0.976)),
    ("LSTM", "RLS, eta 0.1"): ("rls", "squared", recurrent_rate(0.1), 40, (None,) * 4),
    ("LSTM", "RLS, eta 0.01"): ("rls", "squared", recurrent_rate(0.01), 40, (None,) * 4),
    ("LSTM", "RLS, k 0.01"): ("rls", "squared", {"ratio": 0.01}, 40, (None,) * 4),
    ("LSTM", "RLS, k 1"): ("rls", "squared", {"ratio": 1.0}, 40, (None,) * 4),
    ("LSTM", "RLS, k 10"): ("rls", "squared", {"ratio": 10.0}, 40, (None,) * 4),
    ("LSTM", "RLS, k for k T"): ("rls", "squared", UNSCALED, 40, (None, None, None, 0.822)),
    ("LSTM", "Adam, entropy"): ("adam", "cross_entropy", {}, 40, (0.457, 0.733, 0.849, 0.915)),
    ("LSTM", "HRLS"): ("hrls", "cross_entropy", {}, 40, (0.188, 0.260, 0.631, 0.892)),
    ("LSTM", "HRLS+M"): ("hrls", "cross_entropy", MOMENTUM, 40, (None,) * 4),
    ("LSTM", "HRLS+R"): ("hrls", "cross_entropy", L1, 40, (None,) * 4),
    ("LSTM", "HRLS+M+R"): ("hrls", "cross_entropy", IMPROVED, 40, (None,) * 4),
    ("RNN", "Adam"): ("adam", "squared", {}, 40, (0.867, 0.915, 0.942, 0.961)),
    ("RNN", "RLS"): ("rls", "squared", {}, 40, (0.885, 0.892, 0.889, 0.928)),
    ("RNN", "RLS+M"): ("rls", "squared", MOMENTUM, 40, (None,) * 4),
    ("RNN", "RLS+R"): ("rls", "squared", L1, 40, (None,) * 4),
    ("RNN", "RLS+M+R"): ("rls", "squared", IMPROVED, 40, (0.890, 0.908, 0.911, 0.964)),
    ("RNN", "RLS, eta 10"): ("rls", "squared", recurrent_rate(10.0), 40, (0.599, 0.839, 0.978, 0.982)),
    ("RNN", "RLS, k for k T"): ("rls", "squared", UNSCALED, 40, (None, None, None, 0.953)),
    ("RNN", "Adam, entropy"): ("adam", "cross_entropy", {}, 40, (0.742, 0.853, 0.938, 0.965)),
    ("RNN", "HRLS"): ("hrls", "cross_entropy", {}, 40, (0.861, 0.887, 0.978, 0.975)),
    ("RNN", "HRLS+M"): ("hrls", "cross_entropy", MOMENTUM, 40, (None,) * 4),
    ("RNN", "HRLS+R"): ("hrls", "cross_entropy", L1, 40, (None,) * 4),
    ("RNN", "HRLS+M+R"): ("hrls", "cross_entropy", IMPROVED, 40, (None,) * 4),
}
#: Lines of figures 4 and 5.
GRIDS = {
    "k": ("RLS, k 0.01", "RLS", "RLS, k 1", "RLS, k 10"),
    "eta": ("RLS, eta 0.01", "RLS, eta 0.1", "RLS", "RLS, eta 10"),
}
#: Test scores of the longer run of the LSTM at 20, 40, 80 and 150 epochs.
LONG = {
    "Adam": (0.915, 0.956, 0.978, 0.982),
    "RLS": (0.603, 0.817, 0.924, 0.972),
    "RLS+M+R": (0.829, 0.931, 0.978, 0.985),
}
#: Mean squared errors of the prediction after 50, 100, 200, 400 and 600 steps.
SINES = {
    ("LSTM", "Adam"): ("adam", (0.417, 0.110, 0.0134, 0.0080, 0.0072)),
    ("LSTM", "RLS"): ("rls", (0.068, 0.045, 0.021, 0.0093, 0.0083)),
    ("RNN", "Adam"): ("adam", (0.135, 0.032, 0.027, 0.018, 0.011)),
    ("RNN", "RLS"): ("rls", (0.231, 0.166, 0.114, 0.079, 0.060)),
}
STEPS = (50, 100, 200, 400, 600)
SEEDS = 10


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each cell, method and seed, then for each prediction of sines."""
    if quick:
        found = grid(task="digits", cell="LSTM", method=("Adam", "RLS"), seed=0, epochs=2)
        return found + grid(task="sine", cell="RNN", method="RLS", seed=0, steps=50)
    rows, seeds = METHODS.items(), range(SEEDS)
    found = [grid(task="digits", cell=cell, method=label, seed=seeds, epochs=row[3]) for (cell, label), row in rows]
    found += [grid(task="sine", cell=cell, method=label, seed=seeds, steps=STEPS[-1]) for cell, label in SINES]
    return list(itertools.chain(*found))


def network(cell: str, n_in: int, width: int, n_out: int, last: bool) -> Any:
    """Return two stacked recurrent layers and a linear output, of the last step or of every one."""
    from torch import nn

    kind = {"LSTM": nn.LSTM, "RNN": nn.RNN}[cell]

    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.below, self.above = kind(n_in, width, batch_first=True), kind(width, width, batch_first=True)
            self.output = nn.Linear(width, n_out)

        def forward(self, X: Any) -> Any:
            Y = self.above(self.below(X)[0])[0]
            return self.output(Y[:, -1] if last else Y)

    return Sequences()


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Train once."""
    if case["task"] == "sine":
        return predict_sines(case)
    method, loss, options, _, _ = METHODS[(case["cell"], case["method"])]
    data = _rls.data_of(*digits(), shape=(8, 8))
    return _rls.measure(
        lambda: network(case["cell"], 8, 64, 10, last=True),
        data,
        method,
        loss=loss,
        n_epochs=case["epochs"],
        clip=1.0,
        seed=case["seed"],
        **options,
    )


def sines(n: int, generator: Any) -> tuple[Any, Any]:
    """Return inputs and next values of shape (n, 20, 1)."""
    import torch

    frequency, phase = (
        0.2 + 0.8 * torch.rand(n, 1, generator=generator),
        2 * torch.pi * torch.rand(n, 1, generator=generator),
    )
    values = torch.sin(frequency * torch.arange(21.0) + phase)[..., None]
    return values[:, :-1], values[:, 1:]


def predict_sines(case: dict[str, Any]) -> dict[str, Any]:
    """Train on new sines at every step; return mean squared errors per element on 1000 others."""
    import torch
    from torch import nn

    from qsdp.baselines.rls import METHODS as OPTIMIZERS
    from qsdp.baselines.rls import squared_loss

    torch.set_num_threads(1)
    torch.manual_seed(case["seed"])
    model = network(case["cell"], 1, 32, 1, last=False)
    method = OPTIMIZERS[SINES[(case["cell"], case["method"])][0]]
    optimizer = method.make(model, **({"clip": 1.0} if method.clips else {}))
    generator = torch.Generator().manual_seed(case["seed"])
    X_test, Y_test = sines(1000, torch.Generator().manual_seed(10_000))
    errors = {}
    for step in range(1, case["steps"] + 1):
        X, Y = sines(64, generator)
        optimizer.zero_grad()
        squared_loss(model(X), Y).backward()
        if not method.clips:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step in STEPS:
            with torch.no_grad():
                errors[str(step)] = float(torch.mean((model(X_test) - Y_test) ** 2))
    return {"error": errors}


def of_task(records: Records, task: str) -> _rls.Groups:
    """Return the records of a task by cell and method."""
    return _rls.by(where(records, task=task), "cell", "method")


def tables(records: Records) -> list[Table]:
    def key(group: Records) -> tuple[str, str]:
        return group[0].case["cell"], group[0].case["method"]

    def tests(*epochs: int) -> dict[str, tuple[str, int] | None]:
        return {f"{'test ' * (k == 0)}@{epoch}": ("test", epoch) for k, epoch in enumerate(epochs)}

    def error(step: int) -> show.Cell:
        return lambda group: _rls.shown(values(group, f"error/{step}"), 3 if step <= 100 else 4)

    def printed(k: int, step: int) -> show.Cell:
        return lambda group: _rls.printed(SINES[key(group)][1][k], 3 if step <= 100 else 4)

    name, repetitions = ("cell, method", lambda group: " ".join(key(group))), ("repet.", show.count)
    digits = [
        name,
        *_rls.compared(tests(5, 10, 20, 40), lambda group: METHODS[key(group)][4]),
        ("s an epoch", _rls.seconds_cell(".3g")),
        ("numbers kept", show.first("state", ",")),
        repetitions,
    ]
    longer = _rls.compared(tests(20, 40, 80, 150), lambda group: LONG[group[0].case["method"]])
    sines = [
        (f"@{step} steps{' (spec)' * given}", printed(k, step) if given else error(step))
        for k, step in enumerate(STEPS)
        for given in (True, False)
    ]
    groups = of_task(records, "digits")
    long = [group for (cell, label), group in groups.items() if cell == "LSTM" and label in LONG]
    note = f"Means over seeds; (spec): the {_rls.SPECIFICATION}, two seeds."
    return [
        show.table(
            "Digits as sequences: test accuracy",
            groups,
            digits,
            note + " Minibatches of 128; processor time of one thread.",
        ),
        show.table("The same, LSTM, longer", long, [("method", show.param("method")), *longer, repetitions], note),
        show.table(
            "Next value of a sine: mean squared error per element",
            of_task(records, "sine"),
            [name, *sines, repetitions],
            note + " Minibatches of 64; the prototype's distribution of sines is not known.",
        ),
    ]


def plot(records: Records) -> Any:
    """Draw loss and accuracy against epochs and seconds."""
    groups = of_task(records, "digits")
    sets = {
        "squared loss": ("Adam", "RLS", "RLS+M", "RLS+R", "RLS+M+R"),
        "cross-entropy": ("Adam, entropy", "HRLS", "HRLS+M", "HRLS+R", "HRLS+M+R"),
    }
    lines = {f"{cell}, {name}": (cell, labels) for cell in ("LSTM", "RNN") for name, labels in sets.items()}
    lines |= {f"LSTM, {name}": ("LSTM", labels) for name, labels in GRIDS.items()}
    panels = {name: {label: groups[cell, label] for label in labels} for name, (cell, labels) in lines.items()}
    return _rls.draw_curves(panels)


def claims(records: Records) -> list[Claim]:
    """Return the claims for recurrent networks, in kind."""
    groups = of_task(records, "digits")
    made = []
    for ours, theirs, figure in (("RLS", "Adam", "2c"), ("HRLS", "Adam, entropy", "3c")):
        source = f"{_rls.SOURCE}, Fig. {figure}"
        parts, texts = {}, []
        for cell in ("LSTM", "RNN"):
            both = {label: groups[cell, label] for label in (ours, theirs)}
            parts |= _rls.leads(both, [("test", epoch, 0.0) for epoch in (5, 40)], f"{cell}: ")
            texts += [f"{cell} {_rls.listed(both, 'test', epoch, 3)}" for epoch in (5, 40)]
        statement = f"{ours} converges faster and better than Adam for recurrent networks, here small ones on digits."
        made.append(judged(source, statement, parts, "; ".join(texts)))
        for cell in ("LSTM", "RNN"):
            own = _rls.Groups({label: group for (other, label), group in groups.items() if other == cell})
            made += _rls.improvement_claims(source, own, ours, (("loss", 40), ("test", 40)), f"{cell} on digits")
    k, eta = ({label: groups["LSTM", label] for label in labels} for labels in GRIDS.values())
    best = _rls.best_claim("Figs. 4c, 5c", "a small LSTM (40 epochs)", k, eta, 40, 3)
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
    "Recursive least squares: recurrent networks on small sequences",
    f"{_rls.SOURCE}, Figures 2 to 5, in kind",
    version=2,
)
