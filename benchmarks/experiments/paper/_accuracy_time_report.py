"""Figures 2 to 6 of the paper: accuracy against wall-clock time, tables, claims and pictures of the measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments._common import PAPER, percent, save, seconds, subplots
from benchmarks.experiments.paper._accuracy_time import CONVEX, cases_of, run
from qsdp.bench import Claim, Experiment, Record, Table, paired_claim

#: Of each network, in the order of legends.
STYLES = {
    "paper": ("tab:red", "X"),
    "qsdp": ("tab:orange", "o"),
    "refitted": ("tab:olive", "v"),
    "polished": ("tab:green", "D"),
    "column generation": ("black", "*"),
    "backprop": ("tab:blue", "s"),
    "backprop, signs": ("tab:cyan", "X"),
    "backprop, SDP": ("darkblue", "P"),
    "straight-through": ("tab:purple", "^"),
    "ReLU": ("tab:brown", "s"),
    "ReLU, signs": ("tab:pink", "X"),
}

By = dict[Any, dict[str, Any]]


def experiment(
    number: int,
    dataset: str,
    sizes: Sequence[int],
    *,
    epochs: int,
    decays: Sequence[float],
    rivals: Mapping[str, int] | None = None,
    statements: Callable[[str, Sequence[Record]], list[Claim]] | None = None,
) -> Experiment:
    """Return the experiment of a figure: a set, numbers of neurons, and rivals with the figures that print them."""

    def claims(records: Sequence[Record]) -> list[Claim]:
        found = [
            claim
            for rival, figure in (rivals or {"backprop, signs": number}).items()
            for m in sizes
            for claim in better_claims(f"{PAPER}, Figure {figure}", records, rival, m)
        ]
        found += statements(f"{PAPER}, Figure {number}", records) if statements else []
        return [*found, *beyond(records, number, sizes[-1])]

    printed = sorted({number, *(rivals or {}).values()})
    place = f"Figure{'s' * (len(printed) > 1)} {' and '.join(map(str, printed))}"
    return Experiment(
        name=f"fig{number}",
        title=f"{place}: accuracy against time, {dataset}",
        source=f"{PAPER}, {place}",
        version=2,
        cases=lambda quick: cases_of(dataset, sizes, epochs=epochs, decays=decays, quick=quick),
        run=run,
        tables=lambda records: [table(records)],
        claims=claims,
        plot=plot,
    )


def variants(records: Sequence[Record]) -> dict[tuple[int | None, str], By]:
    """Return what was measured of each network by (m, name), by split, with its search's seconds."""
    found: dict[tuple[int | None, str], By] = {}
    for record in records:
        shared = {name: record.measured.get(name) for name in ("search_seconds", "gap", "course")}
        for name, measured in record.measured.get("variants", {}).items():
            found.setdefault((record.case["m"], name), {})[record.case["split"]] = {**shared, **measured}
    return found


def by_split(records: Sequence[Record], m: int | None, name: str, part: str) -> dict[int, float]:
    """Return one figure of a network by split; "in all" is the seconds of fit and search."""
    group = variants(records).get((m, name), {})
    if part == "in all":
        return {split: one["seconds"] + one["search_seconds"] for split, one in group.items()}
    return {split: one[part] for split, one in group.items()}


def of(group: By, name: str) -> np.ndarray:
    """Return one figure over splits."""
    return np.array([entry[name] for entry in group.values() if entry[name] is not None], dtype=float)


def table(records: Sequence[Record]) -> Table:
    """Return accuracy, bits, gap and seconds of every network."""
    rows = []
    for (_, name), group in sorted(variants(records).items(), key=lambda item: (item[0][0] or 0, _place(item[0][1]))):
        bits, gaps = of(group, "bits"), of(group, "gap")
        proven = sum(entry.get("proven", False) for entry in group.values())
        rows.append(
            [
                name,
                f"{of(group, 'neurons').mean():,.0f}",
                f"{bits.mean():,.0f}" if len(bits) else "32-bit floats",
                percent(of(group, "train")),
                percent(of(group, "test")),
                f"{100 * np.median(gaps):.3g} %" if name in CONVEX else "",
                f"{proven} of {len(group)}" if name in CONVEX else "",
                f"{np.median(of(group, 'seconds')):.3g}",
                f"{np.median(of(group, 'search_seconds')):.3g}",
                str(len(group)),
            ]
        )
    accuracies = ["train %", "test %", "certified gap", "proven optimal"]
    headings = ["network", "neurons", "bits", *accuracies, "fit s", "search s", "splits"]
    note = (
        "Accuracies: mean and deviation over splits; neurons and bits: means; gap and seconds: medians. Gaps are to a "
        "bound on all networks at the chosen beta."
    )
    return Table("accuracy and time", headings, rows, note)


def _place(name: str) -> int:
    return list(STYLES).index(name)


# -- claims ----------------------------------------------------------------------------------------------


def paired(source: str, statement: str, records: Sequence[Record], names: tuple[str, str], m: int, part: str) -> Claim:
    """Return whether the first of two networks has the higher accuracy, or the fewer seconds, by split."""
    # Column generation chooses its own number of neurons.
    measured = (by_split(records, None if name == "column generation" else m, name, part) for name in names)
    if part in {"train", "test"}:
        return paired_claim(source, statement, *measured, names=names)
    return paired_claim(source, statement, *measured, names=names, show=seconds, less=True, log=True)


def better_claims(source: str, records: Sequence[Record], theirs: str, m: int) -> list[Claim]:
    """Return the claims that the paper's network is more accurate, and sooner done, than another one."""
    questions = {
        "train": f"The SDP based network has the higher training accuracy than '{theirs}'",
        "test": f"The SDP based network has the higher test accuracy than '{theirs}'",
        "seconds": f"The SDP based network takes less time (the fit) than '{theirs}'",
        "in all": f"The SDP based network takes less time (fit and search of its parameters) than '{theirs}'",
    }
    case = f"{source.removeprefix(f'{PAPER}, ')}, m = {m}"
    return [
        replace(paired(source, f"{question}, m = {m}.", records, ("paper", theirs), m, part), group=question, case=case)
        for part, question in questions.items()
    ]


def beyond(records: Sequence[Record], number: int, m: int) -> list[Claim]:
    """Return what the paper does not ask: today's practice, a fairer ReLU network, what rounding costs."""
    questions = (
        ("polished", "straight-through", "The polished network has the higher test accuracy than 'straight-through'"),
        ("polished", "ReLU, signs", "The polished network has the higher test accuracy than 'ReLU, signs'"),
        ("polished", "paper", "The polished network has the higher test accuracy than the paper's"),
        ("backprop", "backprop, signs", "Rounding costs a network trained by backpropagation test accuracy"),
        ("backprop, SDP", "backprop, signs", "The relaxation rounds a trained network better than signs, in test"),
    )
    source = f"Beyond {PAPER}, Figure {number}"
    return [
        paired(source, f"{statement}, m = {m}.", records, (ours, theirs), m, "test")
        for ours, theirs, statement in questions
    ]


# -- picture ---------------------------------------------------------------------------------------------


def plot(records: Sequence[Record], path: Path) -> None:
    """Draw every network's accuracy against its seconds, with and without the search, a row a number of neurons."""
    sizes = sorted({m for m, _ in variants(records) if m is not None}) or [None]
    layout = {"figsize": (11, 0.6 + 4.2 * len(sizes))}
    figure, axes = subplots(len(sizes), 2, sharex=True, sharey="row", squeeze=False, **layout)
    for row, m in zip(axes, sizes, strict=True):
        draw_row(row, records, m)
    legend(figure, axes.flat)
    save(figure, path, dpi=110)


def legend(figure: Any, axes: Sequence[Any]) -> None:
    """Name every network once, in the order of `STYLES`."""
    handles: dict[str, Any] = {}
    for ax in axes:
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    names = [name for name in STYLES if name in handles]
    title = "filled: fit\nhollow: fit + search\nlines: training"
    place = {"loc": "outside right upper", "fontsize": "small", "title": title}
    figure.legend([handles[name] for name in names], names, **place)


def draw_row(row: Sequence[Any], records: Sequence[Record], m: int | None) -> None:
    """Draw training accuracy on the left, test accuracy on the right."""
    for ax, part in zip(row, ("train", "test"), strict=True):
        for (size, name), group in variants(records).items():
            if size not in (m, None):
                continue
            colour, marker = STYLES[name]
            height = 100.0 * of(group, part).mean()
            error = 100.0 * of(group, part).std(ddof=1) / len(group) ** 0.5 if len(group) > 1 else 0.0
            fit = float(np.median(of(group, "seconds")))
            whole = float(np.median(of(group, "seconds") + of(group, "search_seconds")))
            look = {"marker": marker, "color": colour, "ms": 13 if marker == "*" else 8, "zorder": 3}
            ax.plot([fit, whole], [height, height], color=colour, lw=0.8, alpha=0.6)
            ax.plot(whole, height, mfc="white", ls="none", **look)
            ax.errorbar(
                fit, height, error, capsize=2, elinewidth=0.8, mec="white", mew=0.6, ls="none", label=name, **look
            )
            courses = [entry["course"] for entry in group.values() if entry["course"]]
            # The course is that of the float network, not of its roundings.
            if courses and name in {"backprop", "straight-through", "ReLU"}:
                points = np.array([[[one["seconds"], one[part]] for one in course] for course in courses])
                ax.plot(np.median(points[:, :, 0], axis=0), 100.0 * points[:, :, 1].mean(axis=0), color=colour, lw=1)
        neurons = f", m = {m}" if m is not None else ""
        ax.set(xscale="log", xlabel="seconds", title=("training" if part == "train" else "test") + neurons)
        ax.grid(alpha=0.3)
    row[0].set_ylabel("accuracy (%), mean and standard error")
