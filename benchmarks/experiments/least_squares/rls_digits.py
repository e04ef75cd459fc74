"""Figures 2 and 3 of recursive least squares, first column, in kind: a fully connected network on digits.

64-128-10 with ReLU, pixels in [0, 1], minibatches of 128, gradients clipped to a norm of 5, 100 epochs; the same first
parameters and minibatches for all methods of a seed. "squared" is 1/(2M) times the sum over outputs, of linear outputs
and one-hot targets. The paper has MNIST; its figures have no numbers.
"""

from __future__ import annotations

from typing import Any

from benchmarks.experiments._common import Records, experiment_in
from benchmarks.experiments._data import digits
from benchmarks.experiments.least_squares import _rls
from qsdp.bench import Claim, Table

METHODS: dict[str, _rls.Method] = {
    **_rls.METHODS,
    "SGD 1.0": ("sgd", "squared", {"lr": 1.0}),
    "SGD 0.1": ("sgd", "squared", {"lr": 0.1}),
    "NAG 0.1": ("nag", "squared", {"lr": 0.1}),
    "AdaGrad 0.01": ("adagrad", "squared", {}),
    "RLS, 512 wide": ("rls", "squared", {}),
    "Adam, 512 wide": ("adam", "squared", {}),
}
SEEDS, N_EPOCHS = 10, 100


def cases(quick: bool) -> list[dict[str, Any]]:
    return _rls.cases_of(("Adam", "RLS", "HRLS"), 1, 5) if quick else _rls.cases_of(METHODS, SEEDS, N_EPOCHS)


def run(case: dict[str, Any]) -> dict[str, Any]:
    method, loss, options = METHODS[case["method"]]
    make = _rls.perceptron(64, 512 if "wide" in case["method"] else 128, 10)
    data = _rls.data_of(*digits())
    return _rls.measure(make, data, method, loss=loss, n_epochs=case["epochs"], seed=case["seed"], **options)


def tables(records: Records) -> list[Table]:
    columns = [
        *_rls.curves("test", 1, 5, 20, 100, digits=3),
        ("best", _rls.curve_cell(None)),
        *_rls.curves("train", 100, digits=3),
        *_rls.curves("loss", 5, 100),
    ]
    return [_rls.table("Digits, 64-128-10: accuracy, loss, time and memory", _rls.by(records, "method"), columns)]


def plot(records: Records) -> Any:
    return _rls.draw_panels(_rls.by(records, "method"), _rls.PANELS)


def claims(records: Records) -> list[Claim]:
    points = [("test", 5, 0.0), ("loss", 5, 0.0), ("loss", 100, 0.0), ("test", 100, -0.005)]
    ends, curves = (("test", 5), ("test", 100), ("loss", 100)), (("loss", 5), ("test", 100))
    statement = "{ours} converges faster and better than Adam ({loss} loss), here on digits."
    groups, signs = _rls.by(records, "method"), ("+M", "+R")
    made = _rls.method_claims(groups, "a", statement, points, curves, "digits", signs, ends)
    return _rls.in_one(made, "digits")


EXPERIMENT = experiment_in(
    __name__,
    "Recursive least squares: fully connected network on digits",
    f"{_rls.SOURCE}, Figures 2 and 3, in kind",
    version=2,
)
