"""Figures 4 and 5 of recursive least squares, first column, in kind, and its traps: sweeps on digits.

The network, data and settings of `rls_digits` with the squared loss and plain RLS, one thing changed at a time: k, eta
of all layers and of the hidden one, gamma, the forgetting factor with and without trace guard, the normalisation of the
loss, the scale of the inputs with and without clipping.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Experiment, Record, Table

#: Sweep: values, and for each the specification's test accuracy at 100 epochs (None where it has none).
SWEEPS: dict[str, dict[Any, float | None]] = {
    "ratio": {0.0: 0.960, 0.01: 0.984, 0.1: 0.989, 1.0: 0.986, 10.0: 0.982},
    "gradient descent": {1.0: 0.960},
    "learning rate": {0.01: 0.877, 0.1: 0.973, 1.0: 0.989, 10.0: 0.201},
    "learning rate, hidden": {0.01: 0.963, 0.1: 0.982, 1.0: 0.989, 10.0: 0.980},
    "l1": {0.0: 0.989, 1e-5: 0.986, 1e-4: 0.983, 1e-3: 0.959},
    "forgetting": {0.999: None, 0.99: 0.13, 0.9: None},
    "forgetting, guarded": {0.999: 0.986, 0.99: 0.987, 0.9: 0.987},
    "loss": {"1/(2M) sum": 0.989, "mean over elements": 0.979},
    "inputs, clip 5": {"in [0, 1]": 0.989, "standardised": 0.982, "0 to 16": 0.981},
    "inputs, no clip": {"in [0, 1]": None, "standardised": None, "0 to 16": None},
}
#: Training losses at 100 epochs where the specification has them.
LOSSES = {("ratio", 0.0): 0.0533, ("ratio", 0.01): 0.0207, ("ratio", 0.1): 0.0183, ("ratio", 1.0): 0.0215}
LOSSES |= {("ratio", 10.0): 0.0320, ("gradient descent", 1.0): 0.0533}
SYMBOLS = {
    "ratio": "k",
    "gradient descent": "SGD, rate",
    "learning rate": "eta, all layers",
    "learning rate, hidden": "eta, hidden layer",
    "l1": "gamma",
    "forgetting": "lambda",
    "forgetting, guarded": "lambda, trace guard",
}
SCALES = {"in [0, 1]": "unit", "standardised": "standardised", "0 to 16": "raw"}
SEEDS, N_EPOCHS = 5, 100


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each value of each sweep and seed."""
    if quick:
        return [{"sweep": "ratio", "value": value, "seed": 0, "epochs": 5} for value in (0.0, 0.1, 10.0)]
    return [
        {"sweep": sweep, "value": value, "seed": seed, "epochs": N_EPOCHS}
        for sweep, values in SWEEPS.items()
        for value in values
        for seed in range(SEEDS)
    ]


def options_of(sweep: str, value: Any) -> dict[str, Any]:
    """Return what differs from plain RLS; of SGD, its rate."""
    return {
        "ratio": {"ratio": value},
        "gradient descent": {"lr": value},
        "learning rate": {"lr": value},
        "learning rate, hidden": {"lr": {"0": value}},
        "l1": {"l1": value},
        "forgetting": {"forgetting": value, "trace_guard": False},
        "forgetting, guarded": {"forgetting": value},
        "loss": {"loss": "squared" if value == "1/(2M) sum" else "mean_squared"},
        "inputs, clip 5": {},
        "inputs, no clip": {"clip": None},
    }[sweep]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Train once."""
    scale = SCALES.get(case["value"], "unit") if case["sweep"].startswith("inputs") else "unit"
    data = _rls.data_of(*_rls.digits_split(scale))
    options = options_of(case["sweep"], case["value"])
    method = "sgd" if case["sweep"] == "gradient descent" else "rls"
    return _rls.measure(
        _rls.perceptron(64, 128, 10), data, method, n_epochs=case["epochs"], seed=case["seed"], **options
    )


def tables(records: Sequence[Record]) -> list[Table]:
    """Return a table of numbers for all sweeps."""
    rows = []
    for (sweep, value), group in _rls.by(records, "sweep", "value").items():
        tests = [_rls.at(group, "test", epoch) for epoch in (5, 20, 100)]
        specified = [_rls.printed(SWEEPS[sweep][value]), _rls.printed(LOSSES.get((sweep, value)), 4)]
        rows.append(
            [
                SYMBOLS.get(sweep, sweep),
                f"{value:g}" if isinstance(value, float) else value,
                *(_rls.shown(numbers) for numbers in tests[:2]),
                specified[0],
                _rls.shown(tests[2]),
                specified[1],
                _rls.shown(_rls.at(group, "loss", 100), 4),
                _rls.repetitions(group),
            ]
        )
    headings = ["swept", "value", "test @5", "@20", "@100 (spec)", "@100", "loss @100 (spec)", "loss @100", "repet."]
    note = (
        f"RLS, squared loss, 64-128-10, minibatches of 128. Means over seeds; (spec): the {_rls.SPECIFICATION}. The "
        "loss of a mean over elements is a fifth of the others."
    )
    return [Table("Digits: sweeps", headings, rows, note)]


def plot(records: Sequence[Record], path: Path) -> None:
    """Draw curves for k and eta, in the layout of figures 4 and 5."""
    groups = _rls.by(records, "sweep", "value")
    panels: dict[str, dict[str, list[Record]]] = {}
    for (sweep, value), group in groups.items():
        if sweep in {"ratio", "learning rate", "learning rate, hidden"}:
            panels.setdefault(sweep, {})[f"{value:g}"] = group
    _rls.draw_curves(panels, path, SYMBOLS)


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the claims about hyper-parameters, in kind, and those of the traps."""
    groups = _rls.by(records, "sweep", "value")

    def final(sweep: str, value: Any) -> float:
        # Training that diverged is worth a guess.
        return _rls.mean_at(groups[(sweep, value)], "test", 100)

    full = all(groups[(sweep, value)] for sweep, values in SWEEPS.items() for value in values)
    k = {value: final("ratio", value) for value in SWEEPS["ratio"]} if full else {}
    eta = {value: final("learning rate", value) for value in SWEEPS["learning rate"]} if full else {}
    hidden = {value: final("learning rate, hidden", value) for value in SWEEPS["learning rate, hidden"]} if full else {}
    free, guarded = (
        {value: final(sweep, value) for value in SWEEPS["forgetting"]} if full else {}
        for sweep in ("forgetting", "forgetting, guarded")
    )
    grid = (0.01, 0.1, 1.0, 10.0)
    made = [
        _rls.judged(
            "The ratio factor k should be 0.1; larger or smaller values are worse, here on digits.",
            f"{_rls.SOURCE}, Fig. 4a",
            {
                "0.1 is within 0.005 of the best test accuracy": k[0.1] >= max(k.values()) - 0.005,
                "0.1 has the lowest training loss": min(grid, key=lambda v: _loss(groups, v)) == 0.1,
            }
            if full
            else None,
            ", ".join(f"k = {value:g}: {number:.3f}" for value, number in k.items()),
        ),
        descent_claim(groups[("ratio", 0.0)], groups[("gradient descent", 1.0)]),
        _rls.judged(
            "The scaling factor eta should be 1; too large a value explodes, too small a one is slow, here on digits.",
            f"{_rls.SOURCE}, Fig. 5a",
            {
                "1 is the best": max(eta, key=lambda value: eta[value]) == 1.0,
                "10 for all layers explodes": eta[10.0] < 0.6,
                "0.01 is slow": eta[0.01] < 0.93,
                "10 for the hidden layer alone is worse than 1": hidden[10.0] < hidden[1.0],
            }
            if full
            else None,
            ", ".join(f"eta = {value:g}: {number:.3f}" for value, number in eta.items()),
        ),
        _rls.judged(
            "Training is more sensitive to eta than to k, here on digits.",
            f"{_rls.SOURCE}, section VI-B",
            {"range over eta exceeds that over k": _range(eta, grid) > _range(k, grid)} if full else None,
            f"range of accuracies: eta {_range(eta, grid):.3f}, k {_range(k, grid):.3f}" if full else "",
        ),
        _rls.judged(
            "A forgetting factor below 1 winds P up; the trace guard prevents it.",
            "specification, B.12",
            {
                "0.9 collapses without guard": free[0.9] < 0.6,
                "0.99 collapses without guard": free[0.99] < 0.6,
                "all reach 0.97 with guard": min(guarded.values()) >= 0.97,
            }
            if full
            else None,
            f"without guard {_listed(free)}; with guard {_listed(guarded)}" if full else "",
        ),
        _rls.judged(
            "Inputs that are not in [0, 1] diverge without clipping, and train with it.",
            "specification, B.12",
            {
                "standardised inputs diverge without clipping": final("inputs, no clip", "standardised") < 0.6,
                "inputs from 0 to 16 diverge without clipping": final("inputs, no clip", "0 to 16") < 0.6,
                "standardised inputs train with clipping": final("inputs, clip 5", "standardised") > 0.97,
                "inputs from 0 to 16 train with clipping": final("inputs, clip 5", "0 to 16") > 0.95,
            }
            if full
            else None,
            "with clipping "
            + _listed({value: final("inputs, clip 5", value) for value in SCALES})
            + "; without "
            + _listed({value: final("inputs, no clip", value) for value in SCALES})
            if full
            else "",
        ),
    ]
    return made


def descent_claim(ours: Sequence[Record], theirs: Sequence[Record]) -> Claim:
    """Return the claim that k = 0 is gradient descent, seed by seed, to the digits that the tables print."""
    pairs = [(a, b) for a in ours for b in theirs if a.case["seed"] == b.case["seed"]]
    conditions, figures = None, ""
    if pairs:
        conditions = {
            f"{text} are the same after {epoch} epochs": all(
                f"{a.measured[name][str(epoch)]:.{places}f}" == f"{b.measured[name][str(epoch)]:.{places}f}"
                for a, b in pairs
            )
            for name, text, places in (("test", "test accuracies", 3), ("loss", "training losses", 4))
            for epoch in (5, 20, 100)
        }
        figures = "; ".join(
            f"seed {a.case['seed']}: {a.measured['test']['100']:.3f} and {b.measured['test']['100']:.3f}, loss "
            f"{a.measured['loss']['100']:.4f} and {b.measured['loss']['100']:.4f}"
            for a, b in pairs
        )
    statement = "k = 0 is gradient descent of rate 1, to all printed digits."
    return _rls.judged(statement, "specification, B.13", conditions, figures)


def _loss(groups: Any, value: float) -> float:
    return _rls.mean_at(groups[("ratio", value)], "loss", 100)


def _range(scores: dict[float, float], grid: Sequence[float]) -> float:
    numbers = [scores[value] for value in grid]
    return max(numbers) - min(numbers)


def _listed(scores: dict[Any, float]) -> str:
    return ", ".join(f"{value}: {number:.3f}" for value, number in scores.items())


EXPERIMENT = Experiment(
    name="rls_digits_sweeps",
    version=2,
    title="Recursive least squares: hyper-parameters and traps on digits",
    source=f"{_rls.SOURCE}, Figures 4 and 5, in kind",
    cases=cases,
    run=run,
    tables=tables,
    plot=plot,
    claims=claims,
)
