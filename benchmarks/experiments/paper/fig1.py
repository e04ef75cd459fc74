"""Figure 1 of the paper: objective against the number of neurons, planted data, the bound beside it.

n = 100 samples of 20 standard Gaussian columns, targets of ten planted neurons with binary weights, beta = 1e-4,
another 100 samples to test on; ten draws of the data. "paper" is the program (25) as printed, one block of twice the
size, solved by SCS, and the covariance (27): one solve, from which every size is sampled. "qsdp" is the tight program
by our own solver, the closed form and the adaptive constant; "polished" and "refitted" start from "qsdp". "exact" is
column generation over all sizes, for at most 20 seconds, with its own bound. "backprop" is stochastic gradient descent
with momentum, second layer fixed at 1/m, then signs with the scale of section 5.1 (corrected); "straight-through"
trains the signs themselves; "ReLU" is a real network of 2 m neurons, "ReLU, signs" the same with the first layer
rounded, a scale a neuron. Every network's learning rate is that of its own least squared error on a quarter of the
samples held out, of three a decade apart; that search is timed. Gradients are 32-bit, 200 epochs, batches of 32.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import qsdp
from benchmarks.experiments._common import (
    PAPER,
    approach_claim,
    experiment_in,
    medians,
    per_cent,
    save,
    subplots,
    values,
)
from qsdp.bench import Claim, Record, Table, paired_claim

SIZES = (10, 30, 100, 300, 1000, 3000)
SAMPLED = ("paper", "qsdp", "refitted", "polished")
TRAINED = ("backprop", "straight-through", "ReLU")
NAMES = (*SAMPLED, "exact", "backprop", "straight-through", "ReLU", "ReLU, signs")
BETA, N, D = 1e-4, 100, 20
RATES, RELU_RATES = (1e-1, 1e-2, 1e-3), (0.5, 0.05, 0.005)
EPOCHS, LIMIT = 200, 20.0

#: Name, number of neurons, network, figures.
Made = tuple[str, int | None, Any, dict[str, Any]]


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each draw of the data and method; of trained ones for each size."""
    found: list[dict[str, Any]] = []
    sizes = (10, 100) if quick else SIZES
    for seed in range(1 if quick else 10):
        found += [{"method": method, "sizes": list(sizes), "seed": seed} for method in SAMPLED]
        found += [] if quick else [{"method": "exact", "sizes": [], "seed": seed}]
        found += [
            {"method": method, "sizes": [m], "seed": seed, "epochs": 10 if quick else EPOCHS}
            for method in (TRAINED[:1] if quick else TRAINED)
            for m in sizes
        ]
    return found


def data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training and test samples of one planted network."""
    X, y = qsdp.datasets.make_planted(2 * N, D, n_neurons=10, random_state=seed)
    return X[:N], X[N:], y[:N], y[N:]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Return objectives and losses of a method's networks, with the bound."""
    X, X_test, y, y_test = data(case["seed"])
    problem = qsdp.TrainingProblem(X, y, beta=BETA)
    measure = trained if case["method"] in TRAINED else exact if case["method"] == "exact" else sampled
    networks = [
        {
            "name": name,
            "m": m,
            # Weights of a ReLU network have another price, of real numbers.
            "objective": None if name.startswith("ReLU") else problem.objective(network),
            "test_loss": float(np.sum((network.predict(X_test) - y_test) ** 2)) / float(y_test @ y_test),
            "bits": getattr(network, "n_bits", None),
            "neurons": network.n_neurons,
            **figures,
        }
        for name, m, network, figures in measure(case, problem)
    ]
    return {"networks": networks, "lower_bound": qsdp.solve_relaxation(problem).lower_bound, "zero": float(y @ y)}


def exact(case: dict[str, Any], problem: qsdp.TrainingProblem) -> Iterator[Made]:
    """Yield a network of any size, by column generation."""
    start = time.perf_counter()
    found = qsdp.column_generation(problem, time_limit=LIMIT, random_state=case["seed"])
    figures = {"seconds": time.perf_counter() - start, "proven": found.status == "optimal"}
    yield "exact", None, found.network, {**figures, "proven_bound": found.lower_bound}


def sampled(case: dict[str, Any], problem: qsdp.TrainingProblem) -> Iterator[Made]:
    """Yield networks by way of the relaxation, which is solved once for all numbers of neurons."""
    method, seed = case["method"], case["seed"]
    # CVXPY and its solver are loaded with the first problem.
    relaxed(method, qsdp.TrainingProblem(np.eye(3), [1.0, -1.0, 1.0], beta=0.1))
    start = time.perf_counter()
    relaxation, covariance = relaxed(method, problem)
    solving = time.perf_counter() - start
    for m in case["sizes"]:
        start = time.perf_counter()
        network = qsdp.sample_network(covariance, m, random_state=seed)
        if method == "polished":
            network = qsdp.polish(network, problem, random_state=seed)
        if method == "refitted":
            network = qsdp.refit(network, problem)
        seconds = solving + time.perf_counter() - start
        yield method, m, network, {"seconds": seconds, "relaxation_gap": relaxation.relative_gap}


def relaxed(method: str, problem: qsdp.TrainingProblem) -> tuple[Any, Any]:
    """Return relaxation and covariance."""
    if method == "paper":
        relaxation = qsdp.solve_relaxation(problem, solver="scs", form="full", regularization="paper")
        return relaxation, qsdp.shape_covariance(relaxation, method="sdp")
    relaxation = qsdp.solve_relaxation(problem)
    return relaxation, qsdp.shape_covariance(relaxation, method="adaptive")


def trained(case: dict[str, Any], problem: qsdp.TrainingProblem) -> Iterator[Made]:
    """Yield networks by gradient descent, the learning rate chosen on held-out samples for each."""
    from qsdp.baselines import BackpropRegressor, ReLUNetworkRegressor, StraightThroughRegressor
    from qsdp.model_selection import search_on_validation

    X, y, method, (m,) = problem.X, problem.y, case["method"], case["sizes"]
    common = {"beta": BETA, "n_epochs": case["epochs"], "random_state": case["seed"], "dtype": "float32"}
    rates = RELU_RATES if method == "ReLU" else RATES
    makes: dict[str, Callable[[Any], Any]]
    if method == "backprop":
        model: Any = BackpropRegressor(m, second_layer="fixed", constant_column=False, **common)
        makes = {"backprop": lambda model: model.quantized(scale="shared")}
    elif method == "ReLU":
        model = ReLUNetworkRegressor(2 * m, **common)
        makes = {"ReLU": lambda model: model.float_network_, "ReLU, signs": lambda model: model.quantized()}
    else:
        model = StraightThroughRegressor(m, constant_column=False, **common)
        makes = {"straight-through": lambda model: model.network_}
    # PyTorch loads parts of itself with the first optimiser.
    type(model)(2, n_epochs=1).fit(X, y)

    def scorer(make: Callable[[Any], Any]) -> Callable[[Any, np.ndarray, np.ndarray], float]:
        return lambda model, rows, targets: -float(np.sum((make(model).predict(rows) - targets) ** 2))

    scoring = {name: scorer(make) for name, make in makes.items()}
    grid = {"learning_rate": list(rates)}
    search = search_on_validation(model, X, y, grid, scoring=scoring, refit=False, random_state=case["seed"])
    models: dict[float, tuple[Any, float]] = {}
    for name, make in makes.items():
        rate = search.best_for(name)["learning_rate"]
        if rate not in models:
            start = time.perf_counter()
            fitted = clone(model).set_params(learning_rate=rate).fit(X, y)
            models[rate] = fitted, time.perf_counter() - start
        fitted, seconds = models[rate]
        start = time.perf_counter()
        network = make(fitted)
        seconds += time.perf_counter() - start
        yield name, m, network, {
            "seconds": seconds, "search_seconds": search.search_seconds_, "learning_rate": rate,
            "diverged": fitted.history_.diverged is not None,
        }  # fmt: skip


# -- report ----------------------------------------------------------------------------------------------


def networks_of(records: Sequence[Record]) -> dict[tuple[str, int | None], dict[int, dict[str, Any]]]:
    """Return the figures of each network by (name, m), by draw, relative to the zero network's objective."""
    found: dict[tuple[str, int | None], dict[int, dict[str, Any]]] = {}
    for record in records:
        zero, bound = record.measured["zero"], record.measured["lower_bound"]
        for one in record.measured["networks"]:
            entry = {**one, "bound": bound / zero}
            if one["objective"] is not None:
                entry |= {"objective": one["objective"] / zero, "excess": (one["objective"] - bound) / zero}
            found.setdefault((one["name"], one["m"]), {})[record.case["seed"]] = entry
    return dict(sorted(found.items(), key=lambda item: (NAMES.index(item[0][0]), item[0][1] or 0)))


def by_seed(records: Sequence[Record], name: str, m: int | None, part: str) -> dict[int, float]:
    """Return one figure of a network by draw of the data."""
    return {seed: one[part] for seed, one in networks_of(records).get((name, m), {}).items()}


def numbers(group: dict[int, dict[str, Any]], name: str) -> np.ndarray:
    """Return one figure over draws."""
    return np.array([one[name] for one in group.values() if one.get(name) is not None], dtype=float)


def shown(found: np.ndarray, factor: float = 1.0) -> str:
    """Return a median, or nothing."""
    return f"{factor * np.median(found):.3g}" if len(found) else ""


def tables(records: Sequence[Record]) -> list[Table]:
    """Return objectives by method and size, relative to the zero network's."""
    rows = []
    for (name, m), group in networks_of(records).items():
        bits, proven = numbers(group, "bits"), numbers(group, "proven")
        rows.append(
            [
                f"{name} (proven in {proven.sum():.0f} of {len(proven)})" if len(proven) else name,
                "any" if m is None else str(m),
                f"{numbers(group, 'neurons').mean():,.0f}",
                f"{bits.mean():,.0f}" if len(bits) else "32-bit floats",
                medians(100.0 * numbers(group, "objective")),
                shown(numbers(group, "bound"), 100.0),
                shown(numbers(group, "test_loss"), 100.0),
                shown(numbers(group, "seconds")),
                shown(numbers(group, "search_seconds")),
                str(len(group)),
            ]
        )
    headings = ["method", "m", "neurons", "bits", "objective %", "bound %", "test loss %", "fit s", "search s", "runs"]
    note = (
        "Medians over draws of the data; objective (24) with beta = 1e-4 and its lower bound, relative to the zero "
        "network's objective; test loss relative to the targets' squares. Seconds of a sampled network include the "
        "solve, which all sizes share."
    )
    return [Table("planted data: objective against the number of neurons", headings, rows, note)]


def claims(records: Sequence[Record]) -> list[Claim]:
    """Compare the paper's method with backpropagation at every size, and with the bound."""
    source = f"{PAPER}, Figure 1"
    found = []
    for part, words in (("objective", "training objective"), ("test_loss", "test loss")):
        for m in SIZES:
            measured = (by_seed(records, name, m, part) for name in ("paper", "backprop"))
            group = f"The {words} of the SDP based network is below that of quantized backpropagation"
            case, names = f"m = {m}", ("SDP", "backpropagation")
            claim = paired_claim(
                source, f"{group}, {case}.", *measured, names=names, show=per_cent, less=True, log=True
            )
            found.append(replace(claim, group=group, case=case))
    groups = networks_of(records)
    statement = "The cost of the sampled network approaches the lower bound rapidly: a tenth is left of its distance."
    first, last = (
        {seed: one["excess"] for seed, one in groups.get(("paper", m), {}).items()} for m in (SIZES[0], SIZES[-1])
    )
    distances = {seed: (first[seed], last[seed]) for seed in first if seed in last}
    names = (f"above the bound at m = {SIZES[0]}:", f"at m = {SIZES[-1]}:")
    found.append(approach_claim(source, statement, distances, names=names))
    m = SIZES[-1]
    for ours, theirs in (("polished", "straight-through"), ("polished", "ReLU, signs"), ("polished", "paper")):
        measured = (by_seed(records, name, m, "test_loss") for name in (ours, theirs))
        statement = f"'{ours}' has a lower test loss than '{theirs}', m = {m}."
        claim = paired_claim(
            f"Beyond {source}", statement, *measured, names=(ours, theirs), show=per_cent, less=True, log=True
        )
        found.append(claim)
    return found


def plot(records: Sequence[Record], path: Path) -> None:
    """Draw objective and test loss against the number of neurons."""
    import matplotlib.pyplot as plt

    colours = dict(zip(NAMES, plt.get_cmap("tab10").colors, strict=False))
    figure, axes = subplots(1, 2, figsize=(10, 4.2))
    groups = networks_of(records)
    for name in dict.fromkeys(name for name, _ in groups):
        sizes = [m for other, m in groups if other == name]
        for ax, part in zip(axes, ("objective", "test_loss"), strict=True):
            found = [numbers(groups[name, m], part) for m in sizes]
            if not all(len(one) for one in found):
                continue
            low, middle, high = (np.array([np.quantile(one, q) for one in found]) for q in (0.1, 0.5, 0.9))
            if sizes == [None]:
                ax.axhline(middle[0], color="black", lw=1, label="column generation, any m")
                continue
            ax.plot(sizes, middle, marker="o", ms=4, color=colours[name], label=name)
            ax.fill_between(sizes, low, high, color=colours[name], alpha=0.12, lw=0)
    bound = np.median(values(records, "lower_bound") / values(records, "zero"))
    axes[0].axhline(bound, color="black", lw=1, ls="--", label="lower bound")
    axes[0].set(yscale="log", xlabel="neurons m", ylabel="objective, relative to the zero network", title="training")
    # As many neurons as samples can interpolate, and then predict anything.
    axes[1].set(yscale="log", xlabel="neurons m", ylabel="squared loss, relative to the zero network", title="test")
    handles: dict[str, Any] = {}
    for ax in axes:
        ax.set_xscale("log")
        ax.grid(alpha=0.3)
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize="small")
    save(figure, path, dpi=110)


EXPERIMENT = experiment_in(
    __name__, "Figure 1: planted data, objective against the number of neurons", f"{PAPER}, Figure 1", version=2
)
