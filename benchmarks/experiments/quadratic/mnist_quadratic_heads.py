"""MNIST through a small hidden layer into linear, quadratic and reduced quadratic neurons: the 60 settings of Table 4.

One case trains 25 starts of one network (five on all images) as one batched computation, to the largest number of
epochs; fewer epochs are read off on the way, so that the cells of 5, 10 and 20 epochs share their runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.experiments import draw
from benchmarks.experiments._common import experiment_in, grid
from benchmarks.experiments._data import images
from benchmarks.experiments.quadratic._quadratic_table4 import TABLE_4
from benchmarks.experiments.quadratic._starts import HEADS, NAMES, Key, scores, statistics_of, train_starts
from qsdp.baselines.quadratic import QuadraticNetworkClassifier, StartStatistics
from qsdp.bench import REPETITIONS, Claim, Evidence, Record, Table, compare, judged, within

SOURCE = "Noel, Muthiah-Nakarajan, Oswal, Table 4"
SIZES = (600, 1200, 6000, 60000)
WIDTHS = (10, 15, 20, 25, 30)
EPOCHS = (5, 10, 20)

#: Runs of a cell as printed, and here, where those on all images take hours.
RUNS = 25
STARTED = dict.fromkeys(SIZES, RUNS) | {60000: 5}

AHEAD = "QNN has the highest mean in every setting (of up to 6000 images; both starts)."
REDUCED = (
    "RPQNN beats the ANN in all settings but eight: 1200 images and 20 epochs from 15 neurons on, 6000 images and 20 "
    "epochs up to 25 (both starts)."
)
SHRINKS = "The advantage of the QNN over the ANN shrinks with images, epochs and neurons (both starts)."
MEANS = "The means are within a point of the printed ones (both starts)."
PLATEAU = "At 600 images, 5 epochs, 10 neurons the ANN still predicts one class (10.08 ± 0.35): below 12 % right."

#: Standard deviation of starting weights: by fan-in, this package's default, and a small one.
STARTS: dict[str, float | None] = {"fan-in": None, "0.01": 0.01}


def cases(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return grid(images=600, hidden=10, start=STARTS, head=HEADS, n_starts=5, epochs=[[5]], seed=0)
    made = [
        grid(images=n, start=start, hidden=WIDTHS, head=HEADS, n_starts=STARTED[n], epochs=[list(EPOCHS)], seed=0)
        for n in SIZES
        for start in STARTS
        if start == "fan-in" or n <= 6000
    ]
    return list(itertools.chain(*made))


def run(case: dict[str, Any]) -> dict[str, Any]:
    X, X_test, y, y_test = images("mnist")
    # Heads of one width see the same images in the same order.
    rng = np.random.default_rng([case["seed"], case["images"], case["hidden"]])
    chosen = rng.permutation(len(X))[: case["images"]]
    model = QuadraticNetworkClassifier(
        (("linear", case["hidden"], "sigmoid"),), case["head"], learning_rate=0.01, init_scale=STARTS[case["start"]]
    )
    starts, measured = train_starts(model, case, rng, (X[chosen], X_test, y[chosen], y_test))
    return {**measured, "n_parameters": starts.start(0).network_.n_parameters}


def settings(found: Mapping[Key, object], start: str) -> list[tuple[int, int, int]]:
    """Return the settings of which all three networks are measured."""
    first = dict.fromkeys(key[:3] for key in found)
    return [setting for setting in first if all((*setting, head, start) in found for head in HEADS)]


def shown(statistics: StartStatistics) -> str:
    return f"{100 * statistics.mean:.2f} ± {100 * statistics.sd:.2f}"


def tables(records: Sequence[Record]) -> list[Table]:
    found, code = statistics_of(records, "start"), statistics_of(records, "start", readout="code")
    made = []
    for start in STARTS:
        rows, extremes = [], []
        for setting in settings(found, start):
            row, extreme = [" / ".join(map(str, setting))], [" / ".join(map(str, setting))]
            for head in HEADS:
                mean, deviation, best, worst = TABLE_4[(*setting, head)]
                statistics = found[(*setting, head, start)]
                row += [f"{mean:.2f} ± {deviation:.2f}", shown(statistics)]
                extreme += [
                    "impossible" if np.isnan(best) else f"{best:.2f} / {worst:.2f}",
                    f"{100 * statistics.best:.2f} / {100 * statistics.worst:.2f}",
                ]
            row.append(f"{100 * code[(*setting, 'qnn', start)].mean:.2f}")
            row.append(str(found[(*setting, "qnn", start)].n_starts))
            rows.append(row)
            extremes.append(extreme)
        headings = ["images / epochs / hidden"]
        headings += [f"{NAMES[head]} {kind}" for head in HEADS for kind in ("printed", "measured")]
        weights = "of deviation fan-in to the power -1/2" if start == "fan-in" else f"of deviation {start}"
        note = (
            "Test accuracy in percent, mean and deviation over starts. Batches of one, rate 0.01, pixels 0 to 1; "
            "all starts of a width train on the same images, each in an order of its own. QNN sign code: every output "
            "neuron on its side of 1/2."
        )
        made.append(Table(f"Starting weights {weights}", [*headings, "QNN sign code", "starts"], rows, note))
        made.append(Table(f"Best / worst, starting weights {weights}", headings, extremes))
    return [table for table in made if table.rows]


def claims(records: Sequence[Record]) -> list[Claim]:
    """Judge what is said of all settings, in those of at least ten starts, from both deviations of starting weights."""
    found = {key: own for key, own in scores(records, "start").items() if len(own) >= REPETITIONS}
    measured = [(*setting, start) for start in STARTS for setting in settings(found, start)]

    def cell(place: tuple[int, int, int, str], head: str) -> dict[int, float]:
        return found[(*place[:3], head, place[3])]

    ahead = {
        f"before {NAMES[head]} at {place}": compare(cell(place, "qnn"), cell(place, head), unit=100.0)
        for place in measured
        for head in ("linear", "rpqnn")
    }
    reduced = {
        f"{place}": compare(
            cell(place, "rpqnn"),
            cell(place, "linear"),
            less=TABLE_4[(*place[:3], "rpqnn")][0] < TABLE_4[(*place[:3], "linear")][0],
            unit=100.0,
        )
        for place in measured
    }
    means = {
        f"{NAMES[head]} at {place}": within(cell(place, head), TABLE_4[(*place[:3], head)][0] / 100.0, 0.01, unit=100.0)
        for place in measured
        for head in HEADS
    }
    plateau = {
        f"start {start}": compare(found.get((600, 5, 10, "linear", start), {}), 0.12, less=True, unit=100.0)
        for start in STARTS
    }
    return [
        judged(SOURCE, AHEAD, ahead),
        judged(SOURCE, REDUCED, reduced),
        judged(SOURCE, SHRINKS, {name: gain for start in STARTS for name, gain in _falls(found, start).items()}),
        judged(SOURCE, MEANS, means),
        judged(SOURCE, PLATEAU, plateau, "; ".join(f"{name}: {part.number}" for name, part in plateau.items())),
    ]


def _falls(found: dict[Key, dict[int, float]], start: str) -> dict[str, Evidence]:
    """Return the evidence that the gain, averaged over the rest, falls along each of images, epochs and neurons."""
    gains = {
        setting: {k: quadratic - found[(*setting, "linear", start)][k] for k, quadratic in own.items()}
        for setting in settings(found, start)
        for own in (found[(*setting, "qnn", start)],)
    }

    def mean(axis: int, level: int) -> dict[int, float]:
        group = [gain for setting, gain in gains.items() if setting[axis] == level]
        return {k: float(np.mean([gain[k] for gain in group])) for k in group[0]}

    return {
        f"start {start}, {name} {before} to {after}": compare(
            mean(axis, after), mean(axis, before), less=True, unit=100.0
        )
        for axis, name in enumerate(("images", "epochs", "neurons"))
        for before, after in itertools.pairwise(sorted({setting[axis] for setting in gains}))
    }


def plot(records: Sequence[Record]) -> Any:
    found = statistics_of(records, "start")
    figure, axes = draw.subplots(2, len(EPOCHS), figsize=(11, 6.6), sharex=True, sharey="row", squeeze=False)
    sizes = [600, max(key[0] for key in found)]
    for row, size in zip(axes, sizes, strict=True):
        for axis, epochs in zip(row, EPOCHS, strict=True):
            for colour, head in zip(("C0", "C1", "C2"), HEADS, strict=True):
                for start, style in zip(STARTS, ("-", "--"), strict=True):
                    keys = [key for key in found if key[:2] == (size, epochs) and key[3:] == (head, start)]
                    widths = [key[2] for key in keys]
                    means = [100 * found[key].mean for key in keys]
                    spread = [100 * found[key].sd for key in keys]
                    label = f"{NAMES[head]}, start {start}"
                    axis.errorbar(widths, means, spread, fmt="o" + style, color=colour, ms=3, capsize=2, label=label)
                printed = [TABLE_4[size, epochs, width, head][0] for width in WIDTHS]
                axis.plot(WIDTHS, printed, "x:", color=colour, alpha=0.6, label=f"{NAMES[head]}, printed")
            axis.set_title(f"{size} images, {epochs} epochs", fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel("hidden neurons")
    for axis in axes[:, 0]:
        axis.set_ylabel("test accuracy [%]")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8, handlelength=4
    )
    return figure


EXPERIMENT = experiment_in(__name__, "MNIST: linear, quadratic and reduced quadratic output neurons", SOURCE)
