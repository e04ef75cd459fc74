"""Figures 2 to 5 of recursive least squares, first column: the paper's fully connected network on MNIST itself.

784-512-10 with ReLU, pixels in [0, 1], minibatches of 128, clip 5, lambda 1, k 0.1, eta 1, alpha 0.5, gamma 1e-5;
60,000 training and 10,000 test images. The paper has 100 epochs and five repetitions; here all methods run for 5
epochs, twice, and two of them for 20 epochs, once; k and eta are swept over 3 epochs, once. The paper's curves have
no numbers, so the tables have none of it: the claims are compared.
"""

from __future__ import annotations

from typing import Any

from benchmarks.experiments._common import Records, experiment_in, where
from benchmarks.experiments._data import images
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Table

METHODS: dict[str, _rls.Method] = {
    **_rls.METHODS,
    "SGD 0.1": ("sgd", "squared", {"lr": 0.1}),
}
LONG = ("Adam", "RLS")
GRID = (0.01, 0.1, 1.0, 10.0)
SEEDS, N_EPOCHS, LONG_EPOCHS, SWEEP_EPOCHS = 2, 5, 20, 3


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return [
            {"kind": "methods", "method": label, "seed": 0, "epochs": 1, "samples": 640} for label in ("Adam", "RLS")
        ]

    def case(kind: str, label: str, seed: int, epochs: int, **more: float) -> dict[str, Any]:
        return {"kind": kind, "method": label, "seed": seed, "epochs": epochs, **more}

    methods = [case("methods", label, seed, N_EPOCHS) for seed in range(SEEDS) for label in METHODS]
    swept = [case(kind, "RLS", 0, SWEEP_EPOCHS, value=value) for kind in ("k", "eta") for value in GRID]
    return methods + swept + [case("long", label, 0, LONG_EPOCHS) for label in LONG]


def run(case: dict[str, Any]) -> dict[str, Any]:
    from qsdp.baselines.rls.harness import Data

    method, loss, options = METHODS[case["method"]]
    more = {"k": {"ratio": case.get("value")}, "eta": {"lr": case.get("value")}}.get(case["kind"], {})
    data, size = _rls.data_of(*images()), case.get("samples")
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


def of_kind(records: Records, kind: str, name: str) -> _rls.Groups:
    """Return the records of a kind by a parameter."""
    return _rls.by(where(records, kind=kind), name)


def tables(records: Records) -> list[Table]:
    methods = [*_rls.curves("test", 1, 3, 5), *_rls.curves("train", 5), *_rls.curves("loss", 1, 5)]
    long = [*_rls.curves("test", 5, 10, 20), *_rls.curves("loss", 5, 10, 20)]
    swept = [*_rls.curves("test", 1, SWEEP_EPOCHS), *_rls.curves("loss", SWEEP_EPOCHS)]
    sweeps = _rls.by(where(records, kind=("k", "eta")), "kind", "value")

    def name(group: Records) -> str:
        return f"{group[0].case['kind']} = {group[0].case['value']:g}"

    return [
        _rls.table("MNIST, 784-512-10", of_kind(records, "methods", "method"), methods),
        _rls.table("The same, longer", of_kind(records, "long", "method"), long),
        _rls.table("MNIST: sweeps of RLS", sweeps, swept, name=name),
    ]


def plot(records: Records) -> Any:
    methods, swept = of_kind(records, "methods", "method"), _rls.by(records, "kind", "value")
    panels = {title: {label: methods[label] for label in labels} for title, labels in _rls.PANELS.items()}
    sweeps = {kind: {f"{kind} {value:g}": swept[kind, value] for value in GRID} for kind in ("k", "eta")}
    return _rls.draw_panels({**panels, **sweeps})


def claims(records: Records) -> list[Claim]:
    made = _rls.method_claims(
        {"MNIST (5 of 100 epochs)": of_kind(records, "methods", "method")},
        "{ours} converges faster and better than Adam on MNIST (5 of 100 epochs).",
        "a",
        "MNIST",
        points=[(name, epoch, 0.0) for name in ("test", "loss") for epoch in (1, N_EPOCHS)],
        curves=(("loss", N_EPOCHS), ("test", N_EPOCHS)),
    )
    k, eta = ({f"{kind} {v:g}": of_kind(records, kind, "value")[v] for v in GRID} for kind in ("k", "eta"))
    parts = _rls.best_values(k, eta, ("k 0.1", "eta 1"), SWEEP_EPOCHS)
    for kind, swept, value, figure in (("k", k, 0.1, 4), ("eta", eta, 1.0, 5)):
        own = {name: part for name, part in parts.items() if name.startswith(f"{kind} ")}
        statement = f"{kind} should be {value:g} on MNIST (3 of 100 epochs)."
        figures = _rls.listed(swept, "test", SWEEP_EPOCHS)
        made.append(_rls.of_best(f"{_rls.SOURCE}, Fig. {figure}a", statement, own, figures, "MNIST"))
    return made


EXPERIMENT = experiment_in(__name__, "Recursive least squares: MNIST", f"{_rls.SOURCE}, Figures 2 to 5", version=2)
