"""Figure 1 of the paper: objective against the number of neurons, planted data, the bound beside it.

n = 100 samples of 20 standard Gaussian columns, targets of ten planted neurons with binary weights, beta = 1e-4,
another 100 samples to test on; ten draws of the data. "paper" is the program (25) as printed and the covariance (27);
"qsdp" the tight program, the closed form and the adaptive constant; "polished" and "refitted" start from "qsdp",
"exact" is the proven optimum over all sizes. "backprop" is stochastic gradient descent with momentum, second layer
fixed at 1/m, then signs with the scale of section 5.1 (corrected), "straight-through" trains the signs themselves.
Learning rates are those with the least loss on a fifth of the samples held out, of five a decade apart; that search is
timed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import qsdp
from benchmarks.experiments._common import PAPER, grouped, values
from qsdp.bench import Claim, Experiment, Record, Table

SIZES = (10, 30, 100, 300, 1000, 3000)
SAMPLED = ("paper", "qsdp", "refitted", "polished")
TRAINED = ("backprop", "straight-through")
BETA, N, D = 1e-4, 100, 20
RATES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
EPOCHS = 300


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each method, size and draw."""
    sizes, seeds = ((10, 100), range(1)) if quick else (SIZES, range(10))
    methods = ("paper", "qsdp", "polished", "backprop") if quick else (*SAMPLED, *TRAINED)
    found = [{"method": method, "m": m, "seed": seed} for method in methods for m in sizes for seed in seeds]
    return found + [{"method": "exact", "m": None, "seed": seed} for seed in seeds]


def data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training and test samples of one planted network."""
    X, y = qsdp.datasets.make_planted(2 * N, D, n_neurons=10, random_state=seed)
    return X[:N], X[N:], y[:N], y[N:]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Return objective and losses of one network, with the bound."""
    X, X_test, y, y_test = data(case["seed"])
    problem = qsdp.TrainingProblem(X, y, beta=BETA)
    start = time.perf_counter()
    if case["method"] in TRAINED:
        network, extra = trained(case, X, y)
    else:
        network, extra = solved(case, problem)
    seconds = time.perf_counter() - start
    loss = float(np.sum((network.predict(X_test) - y_test) ** 2))
    bound = qsdp.solve_relaxation(problem).lower_bound
    return {
        "objective": problem.objective(network),
        "lower_bound": bound,
        "zero": float(y @ y),
        "test_loss": loss / float(y_test @ y_test),
        "bits": network.n_bits,
        "neurons": network.n_neurons,
        "seconds_in_all": seconds,
        **extra,
    }


def solved(case: dict[str, Any], problem: qsdp.TrainingProblem) -> tuple[Any, dict[str, Any]]:
    """Return a network by way of the relaxation."""
    method, m, seed = case["method"], case["m"], case["seed"]
    relaxation = qsdp.solve_relaxation(problem, regularization="paper" if method == "paper" else "tight")
    if method == "exact":
        found = qsdp.column_generation(problem, relaxation=relaxation, time_limit=120.0, random_state=seed)
        return found.network, {"proven_bound": found.lower_bound}
    covariance = qsdp.shape_covariance(relaxation, method="sdp" if method == "paper" else "adaptive")
    network = qsdp.sample_network(covariance, m, random_state=seed)
    if method == "polished":
        network = qsdp.polish(network, problem, random_state=seed)
    if method == "refitted":
        network = qsdp.refit(network, problem)
    return network, {}


def trained(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> tuple[Any, dict[str, Any]]:
    """Return a network by gradient descent, the learning rate chosen on held-out samples."""
    from qsdp.baselines import BackpropRegressor, StraightThroughRegressor, search_on_validation

    common = {"beta": BETA, "constant_column": False, "n_epochs": EPOCHS, "random_state": case["seed"]}
    if case["method"] == "backprop":
        model = BackpropRegressor(case["m"], second_layer="fixed", **common)
    else:
        model = StraightThroughRegressor(case["m"], **common)
    search = search_on_validation(model, X, y, {"learning_rate": list(RATES)}, random_state=case["seed"])
    best = search.best_estimator_
    network = best.quantized(scale="shared") if case["method"] == "backprop" else best.network_
    extra = {
        "learning_rate": search.best_params_["learning_rate"],
        "search_seconds": search.search_seconds_,
        "fit_seconds": search.refit_seconds_,
        "diverged": best.history_.diverged is not None,
    }
    if case["method"] == "backprop":
        extra["float_loss"] = float(np.sum((best.predict(X) - y) ** 2))
    return network, extra


def tables(records: Sequence[Record]) -> list[Table]:
    """Return objectives by method and size, relative to the zero network's."""
    rows = []
    for (method, m), group in grouped(records, "method", "m").items():
        share = values(group, "objective") / values(group, "zero")
        gap = values(group, "objective") / values(group, "lower_bound")
        searched = values(group, "search_seconds")
        rows.append(
            [
                method,
                "any" if m is None else str(m),
                f"{values(group, 'bits').mean():,.0f}",
                short(values(group, "objective")),
                f"{100 * np.median(share):.3g} %",
                f"{np.median(gap):.3g}",
                f"{100 * np.median(values(group, 'test_loss')):.3g} %",
                f"{np.median(values(group, 'seconds_in_all')):.3g}",
                f"{np.median(searched):.3g}" if len(searched) else "",
                str(len(group)),
            ]
        )
    headings = [
        "method",
        "m",
        "bits",
        "objective",
        "of zero network",
        "over bound",
        "test loss",
        "s",
        "search s",
        "runs",
    ]
    note = (
        "Medians over draws of the data; objective (24) with beta = 1e-4; test loss relative to the targets' squares. "
        "Seconds include the search of the learning rate, which is also given by itself."
    )
    return [Table("planted data: objective against the number of neurons", headings, rows, note)]


def short(numbers: np.ndarray) -> str:
    """Return the median and the range."""
    return f"{np.median(numbers):.3g} ({numbers.min():.3g} to {numbers.max():.3g})"


def claims(records: Sequence[Record]) -> list[Claim]:
    """Compare the paper's method with backpropagation at every size, and with the bound."""
    groups = grouped(records, "method", "m")
    sizes = sorted(
        {m for method, m in groups if method == "paper"} & {m for method, m in groups if method == "backprop"}
    )
    if not sizes:
        return []
    found = []
    for name, part in (("objective", "training objective"), ("test_loss", "test loss")):
        ours, theirs = (
            [float(np.median(values(groups[method, m], name))) for m in sizes] for method in ("paper", "backprop")
        )
        better = [m for m, a, b in zip(sizes, ours, theirs, strict=True) if a < b]
        verdict = "reproduced" if better == sizes else "partly" if better else "not"
        pairs = ", ".join(f"m = {m}: {a:.3g} / {b:.3g}" for m, a, b in zip(sizes, ours, theirs, strict=True))
        found.append(
            Claim(
                f"{PAPER}, Figure 1",
                f"The {part} of the SDP based network is below that of quantized backpropagation.",
                verdict,
                f"{pairs} (SDP / backpropagation, medians of {len(groups['paper', sizes[0]])} draws)",
                "" if verdict == "reproduced" else f"true for m in {better}",
            )
        )
    curve = [float(np.median(values(groups["paper", m], "objective"))) for m in sizes]
    falling = all(after < before for before, after in itertools.pairwise(curve))
    share = curve[-1] / float(np.median(values(groups["paper", sizes[-1]], "zero")))
    verdict = "reproduced" if falling and share < 0.05 else "partly" if falling else "not"
    found.append(
        Claim(
            f"{PAPER}, Figure 1",
            "The cost of the sampled network approaches the lower bound as m grows.",
            verdict,
            f"at m = {sizes[-1]} it is {100 * share:.2g} % of the zero network's; the bound is "
            f"{np.median(values(groups['paper', sizes[-1]], 'lower_bound')):.2g}",
            "" if verdict == "reproduced" else "more than a twentieth of the zero network's cost is left",
        )
    )
    return found


def plot(records: Sequence[Record], path: Path) -> None:
    """Draw objective and test loss against the number of neurons."""
    import matplotlib.pyplot as plt

    colours = dict(
        zip(
            (*SAMPLED, *TRAINED),
            ("tab:orange", "tab:blue", "tab:green", "tab:purple", "tab:red", "tab:brown"),
            strict=True,
        )
    )
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.9), layout="constrained")
    groups = grouped(records, "method")
    for (method,), group in groups.items():
        if method == "exact":
            continue
        by_size = grouped(group, "m")
        sizes = [m for (m,) in by_size]
        for ax, name, divisor in ((axes[0], "objective", "zero"), (axes[1], "test_loss", None)):
            shares = [values(g, name) / (values(g, divisor) if divisor else 1.0) for g in by_size.values()]
            low, middle, high = (np.array([np.quantile(share, q) for share in shares]) for q in (0.1, 0.5, 0.9))
            ax.loglog(sizes, middle, marker="o", ms=4, color=colours[method], label=method)
            ax.fill_between(sizes, low, high, color=colours[method], alpha=0.12, lw=0)
    bound = np.median(values(records, "lower_bound") / values(records, "zero"))
    axes[0].axhline(bound, color="black", lw=1, ls="--", label="lower bound")
    if ("exact",) in groups:
        exact = groups["exact",]
        axes[0].axhline(
            np.median(values(exact, "objective") / values(exact, "zero")), color="black", lw=1, label="exact"
        )
        axes[1].axhline(np.median(values(exact, "test_loss")), color="black", lw=1, label="exact")
    axes[0].set(xlabel="neurons m", ylabel="objective, relative to the zero network", title="training")
    axes[1].set(xlabel="neurons m", ylabel="squared loss, relative", title="test")
    for ax in axes:
        ax.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    name="fig1",
    title="Figure 1: planted data, objective against the number of neurons",
    source=f"{PAPER}, Figure 1",
    cases=cases,
    run=run,
    tables=tables,
    claims=claims,
    plot=plot,
)
