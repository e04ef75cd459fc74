"""The two toy problems of the paper on back-propagating least squares, and its competitors on them.

Inputs 1, 3, ..., 9 for training and 2, 4, ..., 10 for testing, a column of ones, three hidden neurons, two outputs.
Noise of deviation sigma on the training targets. Errors are root mean squares over runs of the norm over samples and
outputs: in training against the noisy targets, in test against the clean ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.experiments import draw
from qsdp.baselines.bpls import BPLSRegressor
from qsdp.baselines.bpls._network import random_weights
from qsdp.bench import Claim, Record, Table, compare, exact, judged

TRAIN = np.array([1.0, 3.0, 5.0, 7.0, 9.0])[:, None]
TEST = TRAIN + 1.0

#: Records by method and noise, and what the specification prints of some: training / test.
Found = Mapping[tuple[str, float], Record]
Printed = Mapping[str, Mapping[float, str]]

#: Largest relative difference from the specification's errors that is taken for none.
TOLERANCE = 0.1

#: Learning rates of the paper: 1e-3, for AdaGrad 0.1.
COMPETITORS = {"Adam": 1e-3, "NAG": 1e-3, "SGD": 1e-3, "AdaGrad": 0.1}


def linear(X: np.ndarray) -> np.ndarray:
    """Return ``2 - x / 3`` and ``2 x - 1``."""
    return np.column_stack([2.0 - X[:, 0] / 3.0, 2.0 * X[:, 0] - 1.0])


def nonlinear(X: np.ndarray) -> np.ndarray:
    """Return ``sigmoid(1.5 log10 x)`` and ``sigmoid(-x^(-1/4))``."""
    x = X[:, 0]
    return np.column_stack([1.0 / (1.0 + np.exp(np.log10(x**-1.5))), 1.0 / (1.0 + np.exp(x**-0.25))])


def noisy(targets: Callable[[np.ndarray], np.ndarray], sigma: float, run: int) -> np.ndarray:
    """Return the training targets of a run; the weights of its start come from another stream."""
    return targets(TRAIN) + sigma * np.random.default_rng([1, run]).standard_normal((5, 2))


def summary(squares: np.ndarray) -> dict[str, float]:
    """Return root mean squares of (runs, 2) squared norms."""
    train, test = np.sqrt(squares.mean(axis=0))
    return {"train": train, "test": test}


def least_squares_runs(
    targets: Callable[[np.ndarray], np.ndarray],
    sigma: float,
    runs: int,
    options: dict[str, Any],
    *,
    readout_only: bool = False,
) -> dict[str, Any]:
    """Fit `BPLSRegressor` once a run; `readout_only` takes random hidden layers with a fitted last one instead.

    "cpu_per_pass" are seconds of one thread, the checks before a training included.
    """
    squares, seconds, clipped, passes = np.zeros((runs, 2)), 0.0, 0.0, 0
    for run in range(runs):
        Y = noisy(targets, sigma, run)
        model = BPLSRegressor((3,), random_state=run, references=readout_only, **options)
        with threadpool_limits(limits=1):
            start = time.process_time()
            model.fit(TRAIN, Y)
            seconds += time.process_time() - start
        network = model.report_.references["random hidden layers"].network if readout_only else model.network_
        output = network.settings.output
        squares[run] = [
            np.sum((output(network.preactivations(X)) - wanted) ** 2)
            for X, wanted in ((TRAIN, Y), (TEST, targets(TEST)))
        ]
        clipped += model.report_.passes[0].clipped
        passes += model.history_.n_epochs
    return {
        **summary(squares),
        "cpu_per_pass": seconds / passes,
        "passes": passes / runs,
        "clipped": clipped / runs,
        "parameters": model.network_.n_parameters,
    }


def gradient_runs(
    targets: Callable[[np.ndarray], np.ndarray],
    sigma: float,
    runs: int,
    optimizer: str,
    *,
    activation: str,
    epochs: int,
) -> dict[str, Any]:
    """Train all runs at once by an optimiser of PyTorch, one sample a step, each run in orders of its own.

    Squared error averaged over the two outputs, U[-1, 1] start as `BPLSRegressor` has it. All optimisers work entry
    by entry, so batching the runs changes nothing.
    """
    import torch

    starts = [random_weights(1, (3, 2), "input", np.random.default_rng(run)) for run in range(runs)]
    weights = [torch.tensor(np.stack(each), requires_grad=True) for each in zip(*starts, strict=True)]
    Y = torch.tensor(np.stack([noisy(targets, sigma, run) for run in range(runs)]))
    X, X_test = (torch.tensor(np.column_stack([data, np.ones(5)])) for data in (TRAIN, TEST))
    a = torch.sigmoid if activation == "sigmoid" else lambda values: values
    method = optimizer_of(optimizer, weights, COMPETITORS[optimizer])
    order = torch.Generator().manual_seed(0)
    every = torch.arange(runs)

    def network(inputs: Any) -> Any:
        return a(a(inputs @ weights[0]) @ weights[1])

    for _ in range(epochs):
        for samples in torch.rand(runs, 5, generator=order).argsort(1).T:
            outputs = network(X[samples][:, None, :])[:, 0]
            loss = ((outputs - Y[every, samples]) ** 2).mean(1).sum()
            method.zero_grad()
            loss.backward()
            method.step()
    with torch.no_grad():
        squares = [
            ((network(X) - Y) ** 2).sum((1, 2)),
            ((network(X_test) - torch.tensor(targets(TEST))) ** 2).sum((1, 2)),
        ]
    stacked = torch.stack(squares, 1).numpy()
    finite = np.isfinite(stacked).all(axis=1)
    measured = summary(stacked[finite]) if finite.any() else {}
    return {**measured, "diverged": int(runs - finite.sum()), "parameters": 12}


def optimizer_of(name: str, parameters: list[Any], rate: float) -> Any:
    """Return an optimiser of PyTorch with its defaults: momentum 0.9, betas (0.9, 0.999)."""
    import torch

    if name == "Adam":
        return torch.optim.Adam(parameters, rate, fused=True)
    if name == "AdaGrad":
        return torch.optim.Adagrad(parameters, rate, fused=True)
    if name == "NAG":
        return torch.optim.SGD(parameters, rate, momentum=0.9, nesterov=True, fused=True)
    return torch.optim.SGD(parameters, rate, fused=True)


def pair(measured: dict[str, Any]) -> str:
    """Return both errors as text."""
    if "train" not in measured:
        return "diverged"
    return f"{measured['train']:.3f} / {measured['test']:.3f}"


def printed_key(what: str) -> tuple[str, str]:
    """Return source and statement of `printed_claim`."""
    return (
        "Specification of the least-squares baselines, A.12",
        f"{what}: errors within {100 * TOLERANCE:g} % of the specification's.",
    )


def by_noise(records: Iterable[Record]) -> Found:
    """Return records by method and noise."""
    return {(record.case["method"], record.case["sigma"]): record for record in records}


def beside_printed(found: Found, printed: Printed) -> dict[tuple[str, float], tuple[str, Record]]:
    """Return what the specification prints and what was measured, by method and noise."""
    return {
        (name, sigma): (text, found[name, sigma])
        for name, texts in printed.items()
        for sigma, text in texts.items()
        if (name, sigma) in found
    }


def error_tables(
    what: str,
    found: Found,
    printed: Printed,
    methods: Sequence[str],
    expected: Callable[[float], tuple[float, float]] | None = None,
) -> list[Table]:
    """Return errors beside those printed, and at all noises; beside those `expected` of least squares, if known."""
    rows = [
        [name, f"{sigma:g}", text, pair(record.measured), str(record.case["runs"])]
        for (name, sigma), (text, record) in beside_printed(found, printed).items()
    ]
    curve = []
    for sigma in sorted({sigma for name, sigma in found if name in methods}):
        known = [] if expected is None else [" / ".join(f"{value:.3f}" for value in expected(sigma))]
        shown = [pair(found[name, sigma].measured) if (name, sigma) in found else "-" for name in methods]
        curve.append([f"{sigma:g}", *known, *shown])
    epochs = max([record.case.get("epochs", 0) for record in found.values()], default=0)
    note = f"Competitors: {epochs} epochs of one sample a step. Training against noisy, test against clean targets."
    headings = ["sigma", *(["exact for least squares"] if expected else []), *methods]
    compared = ["method", "sigma", "printed train / test", "measured", "runs"]
    return [
        Table(f"{what}: RMSE where the specification prints it", compared, rows, note),
        Table(f"{what}: RMSE, training / test", headings, curve, note),
    ]


def printed_claim(what: str, found: Found, printed: Printed) -> Claim:
    """Compare errors with the specification's, printed as "training / test", a tenth up or down."""
    off = {}
    for (name, sigma), (text, record) in beside_printed(found, printed).items():
        for part, expected in zip(("train", "test"), text.split(" / "), strict=True):
            off[f"{name} at {sigma:g}, {part}"] = record.measured.get(part, np.inf) / float(expected) - 1.0
    holds = {f"{name} {100 * value:+.0f} %": abs(value) <= TOLERANCE for name, value in off.items()}
    figures = f"largest difference {100 * max(map(abs, off.values())):.1f} %" if off else ""
    return exact(*printed_key(what), holds, figures)


def ratios_to_best(found: Found, name: str, competitors: Sequence[str], sigmas: Iterable[float]) -> list[list[float]]:
    """Return a method's training and test error over the least of the competitors, at noises with all of them."""
    by = {key: record.measured for key, record in found.items() if "train" in record.measured}
    ratios = []
    for sigma in sorted(set(sigmas)):
        others = [by[other, sigma] for other in competitors if (other, sigma) in by]
        if (name, sigma) in by and len(others) == len(competitors):
            ratios.append([by[name, sigma][part] / min(other[part] for other in others) for part in ("train", "test")])
    return ratios


def match_claim(key: tuple[str, str], ratios: Sequence[Sequence[float]]) -> Claim:
    """Judge whether a method is as good as the best competitor in training, to a hundredth, and better in test."""
    train, test = (dict(enumerate(column)) for column in zip(*ratios, strict=True)) if ratios else ({}, {})
    parts = {
        "training, at most 1.01 times the error": compare(train, 1.01, less=True, log=True),
        "test, below": compare(test, 1.0, less=True, log=True),
    }
    figures = "; ".join(f"{name}: {part.number}" for name, part in parts.items())
    claim = judged(*key, parts, f"errors relative to the best competitor's over {len(ratios)} noises: {figures}")
    return replace(
        claim, group="BPLS matches the best competitor in training and is slightly better in test", case=key[1]
    )


def draw_errors(found: Found, names: Sequence[str]) -> Any:
    """Draw the errors of methods against the noise."""
    panels = {
        title: {
            name: {sigma: one.measured.get(part, np.nan) for (own, sigma), one in found.items() if own == name}
            for name in names
        }
        for title, part in (("training, noisy targets", "train"), ("test, clean targets", "test"))
    }
    return draw.curves(panels, "sigma", "RMSE")
