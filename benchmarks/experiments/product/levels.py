"""Accuracy and bits of networks with M + 1 levels, for several M from one solve of each split.

The relaxation is solved for binary weights (M = 1); networks with M = 2, 4, 8 are sampled from the same solution
(`result.resample(m, levels=M + 1)`), which takes no solve. Squared loss, bilinear with a constant column, beta = 10,
2500 neurons, standardised by training rows, the paper's shares. A case is a split; its accuracy for an M is the mean of
networks drawn with different seeds, the same seeds for every M, so that M and 1 are compared in pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import qsdp
from benchmarks.experiments import draw
from benchmarks.experiments._common import accuracy, experiment_in, grouped, percent
from benchmarks.experiments._data import standardised, with_constant
from benchmarks.experiments.product._stages import TARGET
from qsdp.bench import Claim, Record, Table, exact, judged, paired_claim, with_unmeasured, within

SETS = ("breast-cancer", "ionosphere", "credit-approval", "vehicle")
FACTORS = (1, 2, 4, 8)
BINARY = 1
BETA = 10.0
SPLITS = 20


def higher(name: str) -> tuple[str, str]:
    """Return source and statement of the claim of a set."""
    return TARGET, f"{name}: networks with M = {FACTORS[-1]} have a higher test accuracy than binary ones (one solve)."


#: What an earlier run on one split has found.
FINDING = "Earlier finding of the package"
NOISE = (
    FINDING,
    f"What M = {FACTORS[-1]} changes in test accuracy is less than networks of one solution differ among themselves.",
)
OUTERMOST = (FINDING, f"Nine of ten weights are at +-M in every network, also with M = {FACTORS[-1]}.")


def cases(quick: bool) -> list[dict[str, Any]]:
    sets, splits, networks, neurons = (SETS[:2], 2, 2, 500) if quick else (SETS, SPLITS, 5, 2500)
    return [
        {"data": name, "split": split, "networks": networks, "neurons": neurons}
        for split in range(splits)
        for name in sets
    ]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Solve once, and sample networks of every number of levels."""
    X, X_test, y, y_test = standardised(case["data"], case["split"])
    X, X_test = with_constant(X, X_test)
    classes = int(y.max()) + 1
    target = np.eye(classes)[y] if classes > 2 else y
    measured: dict[str, Any] = {}
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # Bounds carried over to other levels are loose, and said to be.
        warnings.simplefilter("ignore")
        result = qsdp.solve_and_sample(X, target, n_neurons=case["neurons"], beta=BETA, random_state=0)
        for M in FACTORS:
            drawn = [result.resample(case["neurons"], seed, levels=M + 1) for seed in range(case["networks"])]
            weights = [np.concatenate([one.network.U.ravel(), one.network.V.ravel()]) for one in drawn]
            measured[str(M)] = {
                "test": [accuracy(one.network.predict(X_test), y_test) for one in drawn],
                "gaps": [one.certificate.relative_gap for one in drawn],
                "outermost": [float(np.mean(np.abs(values) == M)) for values in weights],
                "bits": drawn[0].network.n_bits,
            }
    return measured | {"solves_gap": result.relaxation.relative_gap}


def of(records: Sequence[Record], M: int, name: str) -> np.ndarray:
    """Return a measurement of every network with M + 1 levels, shape (splits, networks)."""
    return np.array([record.measured[str(M)][name] for record in records])


def by_set(records: Sequence[Record]) -> dict[str, list[Record]]:
    return {name: group for (name,), group in grouped(records, "data").items()}


def change(records: Sequence[Record], M: int) -> np.ndarray:
    """Return accuracy with M + 1 levels minus that with two, for every split."""
    difference: np.ndarray = np.mean(of(records, M, "test") - of(records, BINARY, "test"), axis=1)
    return difference


def standard_error(numbers: np.ndarray) -> float:
    return float(np.std(numbers, ddof=1) / len(numbers) ** 0.5) if len(numbers) > 1 else float("nan")


def of_sampling(records: Sequence[Record], M: int) -> float:
    """Return the deviation between networks of one solution, the root of its mean square over splits."""
    return float(np.sqrt(np.mean(np.var(of(records, M, "test"), axis=1, ddof=1))))


def tables(records: Sequence[Record]) -> list[Table]:
    rows = []
    for name, group in by_set(records).items():
        for M in FACTORS:
            paired = change(group, M)
            changed = f"{100.0 * paired.mean():+.2f} ± {100.0 * standard_error(paired):.2f}"
            rows.append(
                [
                    name if M == BINARY else "",
                    str(M),
                    f"{group[0].measured[str(M)]['bits']:,}",
                    percent(of(group, M, "test").mean(axis=1)),
                    "" if M == BINARY else changed,
                    f"{100.0 * of_sampling(group, M):.2f}",
                    f"{of(group, M, 'outermost').mean():.3f}",
                    f"{100.0 * np.median(of(group, M, 'gaps')):.1f}",
                    f"{len(group)} x {group[0].case['networks']}",
                ]
            )
    headings = ["data", "M", "bits", "test accuracy, %", "minus M = 1", "of sampling, %", "weights at +-M"]
    note = (
        "Mean and deviation over splits; the difference with its standard error, paired by split. Of sampling: "
        "deviation between networks of one solution. Gap: that of the network, median, certified by the bound that is "
        "carried over from the binary solve."
    )
    return [Table("Levels from one solve", [*headings, "certified gap, %", "splits x networks"], rows, note)]


def claims(records: Sequence[Record]) -> list[Claim]:
    found, groups = [], by_set(records)
    for name, group in groups.items():
        many, binary = (
            {r.case["split"]: float(np.mean(r.measured[str(M)]["test"])) for r in group} for M in (FACTORS[-1], BINARY)
        )
        found.append(paired_claim(*higher(name), many, binary, names=(f"M = {FACTORS[-1]}", "M = 1")))
    found.append(_noise_claim(groups))
    found.append(_outermost_claim(records))
    return with_unmeasured(found, [*map(higher, SETS), NOISE, OUTERMOST])


def _noise_claim(groups: dict[str, list[Record]]) -> Claim:
    """Compare the mean change of a set with the deviation of its networks."""
    changes = {name: dict(enumerate(change(group, FACTORS[-1]))) for name, group in groups.items()}
    noise = {name: of_sampling(group, BINARY) for name, group in groups.items()}
    parts = {name: within(changes[name], 0.0, noise[name], unit=100.0) for name in groups}
    figures = "; ".join(f"{name} {part.number}, networks {100 * noise[name]:.2f}" for name, part in parts.items())
    return judged(*NOISE, parts, figures)


def _outermost_claim(records: Sequence[Record]) -> Claim:
    shares = {M: of(records, M, "outermost") for M in FACTORS[1:]} if records else {}
    figures = ", ".join(f"M = {M}: {share.min():.2f} to {share.max():.2f}" for M, share in shares.items())
    holds = np.all([np.all(share >= 0.9, axis=1) for share in shares.values()], axis=0) if records else []
    return exact(*OUTERMOST, holds, figures, needed=len(SETS) * SPLITS)


def plot(records: Sequence[Record], path: Path) -> None:
    """Draw what every M changes in test accuracy, with two standard errors, beside the noise of sampling."""
    groups = by_set(records)
    figure, axis = draw.subplots(figsize=(6.4, 3.6))
    places = np.arange(len(groups))
    for number, M in enumerate(FACTORS[1:]):
        changes = [change(group, M) for group in groups.values()]
        axis.errorbar(
            places + 0.18 * (number - 1),
            [100.0 * paired.mean() for paired in changes],
            yerr=[200.0 * np.nan_to_num(standard_error(paired)) for paired in changes],
            fmt="o",
            capsize=3,
            color=f"C{number}",
            label=f"M = {M}",
        )
    for place, group in zip(places, groups.values(), strict=True):
        noise = 100.0 * of_sampling(group, BINARY)
        label = "deviation between networks of one solution" if place == 0 else None
        axis.fill_between([place - 0.4, place + 0.4], -noise, noise, color="0.9", zorder=0, label=label)
    axis.axhline(0.0, color="k", linewidth=0.8)
    axis.set_xticks(places, list(groups))
    axis.set(ylabel="test accuracy minus that of M = 1, points")
    axis.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=4)
    draw.save(figure, path)


EXPERIMENT = experiment_in(
    __name__,
    "More levels from the same solve",
    "Targets of the package; Bartan, Pilanci, Theorem 1, for what levels are",
)
