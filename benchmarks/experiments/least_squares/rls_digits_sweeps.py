"""Figures 4 and 5 of recursive least squares, first column, in kind, and its traps: sweeps on digits.

The network, data and settings of `rls_digits` with the squared loss and plain RLS, one thing changed at a time: k, eta
of all layers and of the hidden one, gamma, the forgetting factor with and without trace guard, the normalisation of the
loss, the scale of the inputs with and without clipping.
"""

from __future__ import annotations

from typing import Any

from benchmarks.experiments import show
from benchmarks.experiments._common import Records, experiment_in
from benchmarks.experiments._data import digits
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Evidence, Table, compare, exact, judged

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
SEEDS, N_EPOCHS = 10, 100


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
    data = _rls.data_of(*digits(scale))
    options = options_of(case["sweep"], case["value"])
    method = "sgd" if case["sweep"] == "gradient descent" else "rls"
    return _rls.measure(
        _rls.perceptron(64, 128, 10), data, method, n_epochs=case["epochs"], seed=case["seed"], **options
    )


def tables(records: Records) -> list[Table]:
    def specified(group: Records) -> tuple[float | None, float | None]:
        sweep, value = group[0].case["sweep"], group[0].case["value"]
        return SWEEPS[sweep][value], LOSSES.get((sweep, value))

    def value(group: Records) -> str:
        found = group[0].case["value"]
        return f"{found:g}" if isinstance(found, float) else str(found)

    columns = [
        ("swept", lambda group: SYMBOLS.get(group[0].case["sweep"], group[0].case["sweep"])),
        ("value", value),
        ("test @5", _rls.curve_cell(("test", 5))),
        ("@20", _rls.curve_cell(("test", 20))),
        *_rls.compared({"@100": ("test", 100), "loss @100": ("loss", 100)}, specified, {"loss @100": 4}),
        ("repet.", show.count),
    ]
    note = (
        f"RLS, squared loss, 64-128-10, minibatches of 128. Means over seeds; (spec): the {_rls.SPECIFICATION}. The "
        "loss of a mean over elements is a fifth of the others."
    )
    return [show.table("Digits: sweeps", _rls.by(records, "sweep", "value"), columns, note)]


def plot(records: Records) -> Any:
    """Draw curves for k and eta, in the layout of figures 4 and 5."""
    panels: dict[str, dict[str, Records]] = {}
    for (sweep, value), group in _rls.by(records, "sweep", "value").items():
        if sweep in {"ratio", "learning rate", "learning rate, hidden"}:
            panels.setdefault(sweep, {})[f"{value:g}"] = group
    return _rls.draw_curves(panels, SYMBOLS)


def claims(records: Records) -> list[Claim]:
    """Return the claims about hyper-parameters, in kind, and those of the traps."""
    groups = _rls.by(records, "sweep", "value")

    def scores(sweep: str, value: Any, name: str = "test") -> dict[int, float]:
        return _rls.by_seed(groups[(sweep, value)], name, N_EPOCHS)

    def shown(*sweeps: str) -> str:
        return "; ".join(
            f"{sweep} {_rls.listed({value: groups[(sweep, value)] for value in SWEEPS[sweep]}, 'test', N_EPOCHS, 3)}"
            for sweep in sweeps
        )

    def above(sweep: str, value: Any, limit: float) -> Evidence:
        return compare(scores(sweep, value), limit, unit=100.0)

    def below(sweep: str, value: Any, limit: float) -> Evidence:
        return compare(scores(sweep, value), limit, less=True, unit=100.0)

    grid = (0.01, 0.1, 1.0, 10.0)
    k, eta = ({f"{sweep} {v:g}": groups[(sweep, v)] for v in grid} for sweep in ("ratio", "learning rate"))
    parts = _rls.best_values(k, eta, ("ratio 0.1", "learning rate 1"), N_EPOCHS)
    sensitive = parts.pop("the range over eta exceeds that over k")
    losses = {
        f"the training loss is below that of {v:g}": compare(
            scores("ratio", 0.1, "loss"), scores("ratio", v, "loss"), less=True, log=True
        )
        for v in grid
        if v != 0.1
    }
    made = [
        judged(
            f"{_rls.SOURCE}, Fig. 4a",
            "The ratio factor k should be 0.1; larger or smaller values are worse, here on digits.",
            {**{name: part for name, part in parts.items() if name.startswith("ratio")}, **losses},
            shown("ratio"),
        ),
        descent_claim(groups[("ratio", 0.0)], groups[("gradient descent", 1.0)]),
        judged(
            f"{_rls.SOURCE}, Fig. 5a",
            "The scaling factor eta should be 1; too large a value explodes, too small a one is slow, here on digits.",
            {
                **{name: part for name, part in parts.items() if name.startswith("learning")},
                "10 for all layers explodes": below("learning rate", 10.0, 0.6),
                "0.01 is slow": below("learning rate", 0.01, 0.93),
                "10 for the hidden layer alone is worse than 1": compare(
                    scores("learning rate, hidden", 10.0), scores("learning rate, hidden", 1.0), less=True, unit=100.0
                ),
            },
            shown("learning rate"),
        ),
        judged(
            f"{_rls.SOURCE}, section VI-B",
            "Training is more sensitive to eta than to k, here on digits.",
            sensitive,
            "range of accuracies over values",
        ),
        judged(
            "specification, B.12",
            "A forgetting factor below 1 winds P up; the trace guard prevents it.",
            {
                **{f"{value} collapses without guard": below("forgetting", value, 0.6) for value in (0.9, 0.99)},
                **{
                    f"{value} reaches 97 % with guard": above("forgetting, guarded", value, 0.97)
                    for value in SWEEPS["forgetting, guarded"]
                },
            },
            shown("forgetting", "forgetting, guarded"),
        ),
        judged(
            "specification, B.12",
            "Inputs that are not in [0, 1] diverge without clipping, and train with it.",
            {
                "standardised inputs diverge without clipping": below("inputs, no clip", "standardised", 0.6),
                "inputs from 0 to 16 diverge without clipping": below("inputs, no clip", "0 to 16", 0.6),
                "standardised inputs train with clipping": above("inputs, clip 5", "standardised", 0.97),
                "inputs from 0 to 16 train with clipping": above("inputs, clip 5", "0 to 16", 0.95),
            },
            shown("inputs, clip 5", "inputs, no clip"),
        ),
    ]
    return _rls.in_one(made, "digits")


def descent_claim(ours: Records, theirs: Records) -> Claim:
    """Return the claim that k = 0 is gradient descent, seed by seed, to the digits that the tables print."""
    holds = {
        f"seed {a.case['seed']}, {name} @{epoch}": f"{a.measured[name][epoch]:.{places}f}"
        == f"{b.measured[name][epoch]:.{places}f}"
        for a in ours
        for b in theirs
        if a.case["seed"] == b.case["seed"]
        for name, places in (("test", 3), ("loss", 4))
        for epoch in ("5", "20", "100")
        if epoch in a.measured[name] and epoch in b.measured[name]
    }
    statement = "k = 0 is gradient descent of rate 1, to all printed digits."
    return exact("specification, B.13", statement, holds, "test accuracies and training losses after 5, 20, 100 epochs")


EXPERIMENT = experiment_in(
    __name__,
    "Recursive least squares: hyper-parameters and traps on digits",
    f"{_rls.SOURCE}, Figures 4 and 5, in kind",
    version=2,
)
