"""Train by any system, quantize by the semidefinite program: what is lost, and what it costs.

Each classifier of `qsdp.baselines` at its own defaults, but for one hidden layer of 20 units where it has any; then
`quantize`, which matches every layer by a network of binary weights on the training rows. Beside them logistic
regression, whose linear scores are matched the same way, and the relaxation's own network (`QuantizedNetworkClassifier`
at the same number of neurons, beta chosen by cross-validation). Five stratified splits of 25 %, standardised.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import qsdp
import qsdp.baselines as baselines
from benchmarks.experiments._common import grouped, percent, values
from qsdp.bench import Experiment, Record, Table
from qsdp.datasets import load_bundled

SETS = ("iris", "wine", "breast-cancer-wisconsin")
HIDDEN = 20
SYSTEMS = {
    "backpropagation": ("BackpropClassifier", {"n_neurons": HIDDEN}),
    "ReLU": ("ReLUNetworkClassifier", {"n_neurons": HIDDEN}),
    "quadratic logistic regression": ("QuadraticLogisticRegression", {}),
    "quadratic network": ("QuadraticNetworkClassifier", {"hidden_layers": (("linear", HIDDEN),)}),
    "ReLinear": ("ReLinearClassifier", {"hidden_widths": (HIDDEN,)}),
    "BPLS": ("BPLSClassifier", {"hidden": HIDDEN}),
    "RLS": ("RLSNetworkClassifier", {"hidden": HIDDEN}),
}
OTHERS = ("logistic regression", "straight-through", "relaxation")
VARIANTS = {"sampled 500": (500, "none"), "sampled 5000": (5000, "none"), "polished 500": (500, "polish")}


def cases(quick: bool) -> list[dict[str, Any]]:
    """Return a case for each system, set and split."""
    names = ("BPLS", "backpropagation") if quick else (*SYSTEMS, *OTHERS)
    sets, splits = (SETS[:1], 1) if quick else (SETS, 5)
    return [{"system": name, "set": one, "split": split} for name in names for one in sets for split in range(splits)]


def model_of(name: str, seed: int) -> Any:
    """Return an untrained classifier."""
    if name == "logistic regression":
        return LogisticRegression(max_iter=1000)
    if name == "straight-through":
        return baselines.StraightThroughClassifier(500, random_state=seed)
    if name == "relaxation":
        return qsdp.QuantizedNetworkClassifierCV(500, refine="polish", random_state=seed)
    system, options = SYSTEMS[name]
    return getattr(baselines, system)(random_state=seed, **options)


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Train, quantize, and count what is right on the test rows."""
    X, y = load_bundled(case["set"])
    y = np.unique(y, return_inverse=True)[1]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=case["split"])
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    start = time.perf_counter()
    model = model_of(case["system"], case["split"]).fit(X, y)
    found: dict[str, Any] = {"fit_seconds": time.perf_counter() - start, "test": float(model.score(X_test, y_test))}
    if case["system"] in {"straight-through", "relaxation"}:
        found["bits"] = model.network_.n_bits
        return found
    for name, (m, refine) in VARIANTS.items():
        start = time.perf_counter()
        if case["system"] == "logistic regression":
            chain = qsdp.quantize(model, X, m, tol=1e-4, refine=refine, random_state=0)
            matches, bits = (chain,), chain.network.n_bits
        else:
            chain = model.quantize(X, m, tol=1e-4, refine=refine, random_state=0)
            matches, bits = chain.matches, chain.n_bits
        found[name] = {
            "seconds": time.perf_counter() - start,
            "bits": bits,
            "test": right(chain.predict(X_test), y_test),
            "errors": [match.relative_error for match in matches],
            "relaxed_errors": [match.relaxed_error for match in matches],
        }
    return found


def right(outputs: np.ndarray, y: np.ndarray) -> float:
    """Return the share of right classes."""
    several = outputs.ndim == 2 and outputs.shape[1] > 1
    decided = outputs.argmax(axis=1) if several else np.ravel(outputs) > 0.0
    return float(np.mean(decided == y))


def tables(records: Sequence[Record]) -> list[Table]:
    """Return accuracies before and after, for every set."""
    found = []
    for (name,), of_set in grouped(records, "set").items():
        rows = []
        for (system,), group in grouped(of_set, "system").items():
            row = [system, percent(values(group, "test")), f"{np.median(values(group, 'fit_seconds')):.2g}"]
            for m in VARIANTS:
                quantized = [record.measured[m] for record in group if m in record.measured]
                if quantized:
                    row += [
                        percent([entry["test"] for entry in quantized]),
                        f"{np.mean([entry['bits'] for entry in quantized]):,.0f}",
                        f"{np.median([max(entry['errors']) for entry in quantized]):.2g}",
                        f"{np.median([entry['seconds'] for entry in quantized]):.2g}",
                    ]
                else:
                    bits = values(group, "bits")
                    row += ["", f"{bits.mean():,.0f}" if len(bits) and m == "polished 500" else "", "", ""]
            rows.append(row)
        headings = ["system", "test %", "fit s"]
        for m in VARIANTS:
            headings += [f"{m}, test %", "bits", "error", "s"]
        note = (
            "Means and deviations over splits; neurons are counted a layer; 'error' is the largest relative error of a "
            "layer's match on the training rows. The last rows have binary weights from the start."
        )
        found.append(Table(f"train by a system, quantize by the relaxation: {name}", headings, rows, note))
    return found


def plot(records: Sequence[Record], path: Path) -> None:
    """Draw test accuracies before and after."""
    import matplotlib.pyplot as plt

    sets = list(dict.fromkeys(record.case["set"] for record in records))
    figure, axes = plt.subplots(1, len(sets), figsize=(3.6 * len(sets), 3.8), sharey=True, layout="constrained")
    for ax, one in zip(np.atleast_1d(axes), sets, strict=True):
        groups = grouped([record for record in records if record.case["set"] == one], "system")
        for row, group in enumerate(groups.values()):
            ax.plot(100 * values(group, "test").mean(), row, "ko", mfc="white", label="trained" if row == 0 else None)
            for m, colour in zip(VARIANTS, ("tab:orange", "tab:blue", "tab:purple"), strict=True):
                after = [record.measured[m]["test"] for record in group if m in record.measured]
                if after:
                    label = f"quantized, {m}" if row == 0 else None
                    ax.plot(100 * np.mean(after), row, "o", ms=5, color=colour, label=label)
        ax.set(
            yticks=range(len(groups)), yticklabels=[name for (name,) in groups], title=one, xlabel="test accuracy, %"
        )
        ax.grid(alpha=0.3)
    np.atleast_1d(axes)[0].invert_yaxis()
    figure.legend(
        *np.atleast_1d(axes)[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small"
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    name="train_then_quantize",
    title="Train by any system, quantize by the relaxation",
    source="beyond the papers; the open end of section 6 of Bartan and Pilanci",
    cases=cases,
    run=run,
    tables=tables,
    plot=plot,
)
