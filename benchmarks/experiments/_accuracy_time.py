"""Figures 2, 3, 5 and 6 of the paper: accuracy against wall-clock time on a UCI set, one experiment each.

Ten splits of the paper's shares, standardised, with a constant column. Every method chooses its beta, and gradient
methods their learning rate, on a fourth of the training part that it is not fitted to, then fits anew to the whole;
test rows are only predicted. Seconds are those of the fit at the chosen parameters; the search is timed apart.

"paper" is the program (25) as printed, solved by SCS, the covariance by (27), m sampled neurons. "qsdp" is the tight
program by our own solver with the covariance in closed form; "refitted", "polished" and "exact" follow it, the last
for at most 20 seconds, 3 for each beta tried. "backprop" trains real weights with the second layer fixed; "backprop,
signs" rounds them with one scale (section 5.1); "backprop, SDP" matches the trained network by one from the relaxation
(`qsdp.quantize`); "straight-through" trains signs.
"ReLU" is a two-layer network of real weights, "ReLU, signs" the same with its first layer rounded, a scale a neuron.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import qsdp
from benchmarks.experiments._common import PAPER, accuracy, percent, standardised, values, with_constant
from qsdp.bench import Claim, Experiment, Record, Table

BETAS = (0.01, 0.1, 1.0, 10.0, 100.0)
WEIGHT_DECAYS = (1e-4, 1e-2, 1.0)
RATES = (1e-3, 1e-2, 1e-1)
EPOCHS = 200
#: Seconds of "exact" for each beta that is tried.
SEARCH_LIMIT = 3.0
CONVEX = ("paper", "qsdp", "refitted", "polished", "exact")
METHODS = (*CONVEX, "backprop", "straight-through")
QUICK = ("paper", "polished", "backprop")


def experiment(
    number: int,
    dataset: str,
    sizes: Sequence[int],
    *,
    methods: Sequence[str] = METHODS,
    relu: int | None = None,
    statements: Callable[..., list[Claim]],
) -> Experiment:
    """Return the experiment of a figure: a set, numbers of neurons, and those of a ReLU network."""

    def cases(quick: bool) -> list[dict[str, Any]]:
        found = [
            {"set": dataset, "method": method, "m": m, "split": split, **({"epochs": 5} if quick else {})}
            for m in (sizes[:1] if quick else sizes)
            for method in methods
            if not quick or method in QUICK
            for split in range(1 if quick else 10)
        ]
        if relu is not None:
            found += [
                {"set": dataset, "method": "ReLU", "m": relu, "split": split, **({"epochs": 2} if quick else {})}
                for split in range(1 if quick else 10)
            ]
        return found

    def claims(records: Sequence[Record]) -> list[Claim]:
        return statements(f"{PAPER}, Figure {number}", records)

    return Experiment(
        name=f"fig{number}",
        title=f"Figure {number}: accuracy against time, {dataset}",
        source=f"{PAPER}, Figure {number}",
        cases=cases,
        run=run,
        tables=tables,
        claims=claims,
        plot=plot,
    )


# -- one case --------------------------------------------------------------------------------------------


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Return accuracies and seconds of a method, and of what is made of its network."""
    X, X_test, y, y_test = standardised(case["set"], case["split"])
    measure = convex if case["method"] in CONVEX else trained
    found = measure(case, X, y)
    return {
        **found.pop("figures"),
        "variants": {
            name: {
                "train": accuracy(predict(X), y),
                "test": accuracy(predict(X_test), y_test),
                "bits": bits,
                "seconds": seconds,
            }
            for name, (predict, bits, seconds) in found.items()
        },
    }


def convex(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Choose beta on held-out rows, then solve on all."""
    (X,) = with_constant(X)
    start = time.perf_counter()
    part, held, y_part, y_held = train_test_split(X, y, test_size=0.25, stratify=y, random_state=case["split"])
    scores = [accuracy(network_of(case, part, y_part, beta, SEARCH_LIMIT)[0].predict(held), y_held) for beta in BETAS]
    # Of equal scores the larger beta, the simpler network.
    beta = max(zip(scores, BETAS, strict=True))[1]
    searching = time.perf_counter() - start
    network, certificate, seconds = network_of(case, X, y, beta)
    figures = {"search_seconds": searching, "candidates": len(BETAS), "beta": beta, "gap": certificate.relative_gap}
    return {
        case["method"]: (lambda rows: network.predict(with_constant(rows)[0] if rows.shape[1] < X.shape[1] else rows),
                         network.n_bits, seconds),
        "figures": figures,
    }  # fmt: skip


def network_of(
    case: dict[str, Any], X: np.ndarray, y: np.ndarray, beta: float, limit: float = 20.0
) -> tuple[Any, qsdp.Certificate, float]:
    """Return a network by way of the relaxation, its certificate and the seconds it took."""
    method, m, seed = case["method"], case["m"], case["split"]
    start = time.perf_counter()
    problem = qsdp.TrainingProblem(X, y, beta=beta)
    if method == "paper":
        relaxation = qsdp.solve_relaxation(problem, solver="scs", regularization="paper")
        covariance = qsdp.shape_covariance(relaxation, method="sdp")
    else:
        relaxation = qsdp.solve_relaxation(problem)
        covariance = qsdp.shape_covariance(relaxation)
    network = qsdp.sample_network(covariance, m, random_state=seed)
    if method == "refitted":
        network = qsdp.refit(network, problem)
    if method == "polished":
        network = qsdp.polish(network, problem, random_state=seed)
    if method == "exact":
        network = qsdp.column_generation(problem, relaxation=relaxation, time_limit=limit, random_state=seed).network
    seconds = time.perf_counter() - start
    return network, qsdp.certify(network, problem, relaxation), seconds


def trained(case: dict[str, Any], X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Choose learning rate and beta on held-out rows, then train on all; round what was trained."""
    from qsdp.baselines import (
        BackpropClassifier,
        ReLUNetworkClassifier,
        StraightThroughClassifier,
        search_on_validation,
    )

    method, m, seed = case["method"], case["m"], case["split"]
    common = {"n_epochs": case.get("epochs", EPOCHS), "random_state": seed}
    models = {
        "backprop": lambda: BackpropClassifier(m, second_layer="fixed", **common),
        "straight-through": lambda: StraightThroughClassifier(m, **common),
        "ReLU": lambda: ReLUNetworkClassifier(m, **common),
    }
    grid = {"learning_rate": list(RATES), "beta": list(WEIGHT_DECAYS)}
    search = search_on_validation(models[method](), X, y, grid, random_state=seed)
    model, fitting = search.best_estimator_, search.refit_seconds_
    history = model.history_
    clock = np.cumsum(history.seconds)
    some = np.unique(np.linspace(0, len(clock) - 1, 40).astype(int)) if len(clock) else []
    figures = {
        "search_seconds": search.search_seconds_,
        "candidates": len(RATES) * len(WEIGHT_DECAYS),
        "curve": [[float(clock[i]), history.score[i]] for i in some],
        "diverged": history.diverged is not None,
        **search.best_params_,
    }
    found: dict[str, Any] = {"figures": figures, method: (model.decision_function, None, fitting)}
    if method == "straight-through":
        found[method] = (model.decision_function, model.network_.n_bits, fitting)
        return found
    start = time.perf_counter()
    if method == "ReLU":
        signs = model.quantized()
        found["ReLU, signs"] = (signs.predict, signs.n_bits, fitting + time.perf_counter() - start)
        return found
    signs = model.quantized(scale="shared")
    found["backprop, signs"] = (
        lambda rows: signs.predict(model.network_inputs(rows)), signs.n_bits, fitting + time.perf_counter() - start,
    )  # fmt: skip
    start = time.perf_counter()
    match = qsdp.quantize(model, X, m, random_state=seed)
    found["backprop, SDP"] = (match.predict, match.network.n_bits, fitting + time.perf_counter() - start)
    return found


# -- report ----------------------------------------------------------------------------------------------


def variants(records: Sequence[Record]) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """Return what was measured of each network by (m, name), over splits."""
    found: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for record in records:
        for name, measured in record.measured["variants"].items():
            found.setdefault((record.case["m"], name), []).append({**measured, "record": record})
    return found


def of(group: Sequence[dict[str, Any]], name: str) -> np.ndarray:
    """Return one figure over splits."""
    return np.array([entry[name] for entry in group], dtype=float)


def tables(records: Sequence[Record]) -> list[Table]:
    """Return accuracy, bits, gap and seconds of every method."""
    rows = []
    for (m, name), group in variants(records).items():
        whole = [entry["record"] for entry in group]
        bits = [entry["bits"] for entry in group if entry["bits"] is not None]
        gaps = values(whole, "gap")
        rows.append(
            [
                name,
                str(m),
                f"{np.mean(bits):,.0f}" if bits else "64-bit floats",
                percent(of(group, "train")),
                percent(of(group, "test")),
                f"{100 * np.median(gaps):.3g} %" if len(gaps) and name in CONVEX else "",
                f"{np.median(of(group, 'seconds')):.3g}",
                f"{np.median(values(whole, 'search_seconds')):.3g}",
                str(len(group)),
            ]
        )
    headings = ["method", "m", "bits", "train %", "test %", "certified gap", "fit s", "search s", "splits"]
    note = (
        "Accuracies: mean and deviation over splits; gap and seconds: medians. The gap is to the bound on all networks."
    )
    return [Table("accuracy and time", headings, rows, note)]


def compared(records: Sequence[Record], ours: str, theirs: str, part: str) -> tuple[float, str]:
    """Return by how many of its standard errors the paired difference of two accuracies is above zero, and a text."""
    found = variants(records)
    keys = [max((key for key in found if key[1] == name), default=None) for name in (ours, theirs)]
    if None in keys:
        return float("nan"), "not measured"
    by_split = [{entry["record"].case["split"]: entry[part] for entry in found[key]} for key in keys]
    common = sorted(set(by_split[0]) & set(by_split[1]))
    first, second = (np.array([accuracies[split] for split in common]) for accuracies in by_split)
    if len(common) < 2:
        return float("nan"), "not measured"
    differences = first - second
    # One row decided otherwise in one split is the least that can be told from nothing.
    error = max(float(differences.std(ddof=1)), 1e-3) / np.sqrt(len(common))
    text = f"{part} {percent(first)} % against {percent(second)} %, paired difference {percent(differences)} points"
    return float(differences.mean() / error), text


def better_claims(source: str, records: Sequence[Record], theirs: str, *, ours: str = "paper") -> list[Claim]:
    """Return the claims that the SDP based network is more accurate, and sooner done, than a quantized one."""
    found = []
    for part, words in (("train", "training"), ("test", "test")):
        errors, text = compared(records, ours, theirs, part)
        if np.isnan(errors):
            return []
        verdict = "reproduced" if errors > 2.0 else "partly" if errors > -2.0 else "not"
        why = {
            "reproduced": "",
            "partly": f"{errors:.1f} standard errors: within the noise of the splits",
            "not": "the network trained by gradients is better",
        }
        found.append(
            Claim(source, f"The SDP based network has the higher {words} accuracy than '{theirs}'.", verdict,
                  f"{ours}: {text}", why[verdict])
        )  # fmt: skip
    times = {}
    for name in (ours, "qsdp", theirs):
        keys = [key for key in variants(records) if key[1] == name]
        if keys:
            group = variants(records)[max(keys)]
            searching = values([entry["record"] for entry in group], "search_seconds")
            times[name] = (float(np.median(of(group, "seconds"))), float(np.median(searching)))
    shown = "; ".join(f"{name} {fit:.3g} s and {search:.3g} s of search" for name, (fit, search) in times.items())
    sooner = times[ours][0] < times[theirs][0], times[ours][1] < times[theirs][1]
    verdict = "reproduced" if all(sooner) else "partly" if any(sooner) else "not"
    whys = {(True, True): "", (True, False): "the fit alone is", (False, True): "the search alone is"}
    why = whys.get(sooner, "it takes longer")
    found.append(Claim(source, f"The SDP based network takes less time than '{theirs}'.", verdict, shown, why))
    return found


def plot(records: Sequence[Record], path: Path) -> None:
    """Draw training curves of gradient descent, and every method's accuracy at its median time."""
    import matplotlib.pyplot as plt

    found = variants(records)
    names = list(dict.fromkeys(name for _, name in found))
    colours = dict(zip(names, plt.get_cmap("tab10").colors, strict=False))
    markers = dict(zip(names, "osDP*^v<>X8h", strict=False))
    sizes = sorted({m for m, _ in found})
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharex=True, sharey=True, layout="constrained")
    for ax, part in zip(axes, ("train", "test"), strict=True):
        for (m, name), group in found.items():
            filled = len(sizes) == 1 or m == sizes[-1] or name.startswith("ReLU")
            ax.errorbar(
                np.median(of(group, "seconds")), of(group, part).mean(), of(group, part).std(), marker=markers[name],
                ms=7, capsize=2, color=colours[name], mfc=colours[name] if filled else "white", ls="none",
                label=f"{name}, m = {m}",
            )  # fmt: skip
        ax.set(xscale="log", xlabel="seconds of the fit", title=part)
        ax.grid(alpha=0.3)
    for record in records:
        curve = record.measured.get("curve")
        if curve and record.case["split"] == 0:
            axes[0].plot(*np.array(curve).T, lw=1, alpha=0.7, color=colours[record.case["method"]])
    axes[0].set_ylabel("accuracy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize="x-small")
    figure.savefig(path, dpi=110)
    plt.close(figure)
