"""MNIST through a small hidden layer into linear, quadratic and reduced quadratic neurons: the 60 settings of Table 4.

One case trains 25 starts of one network (five on all images) as one batched computation, to the largest number of
epochs; fewer epochs are read off on the way, so that the cells of 5, 10 and 20 epochs share their runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import draw
from benchmarks.experiments._common import Records, experiment_in, grid, over_sets
from benchmarks.experiments._data import images
from benchmarks.experiments.quadratic._starts import HEADS, NAMES, train_starts
from qsdp.baselines.quadratic import QuadraticNetworkClassifier
from qsdp.bench import REPETITIONS, Claim, Evidence, Record, compare, judged, within

SOURCE = "Noel, Muthiah-Nakarajan, Oswal, Table 4"
SIZES = (600, 1200, 6000, 60000)
WIDTHS = (10, 15, 20, 25, 30)
EPOCHS = (5, 10, 20)

#: Mean, deviation, best and worst in percent as printed, by images, epochs, hidden neurons and output layer.
TABLE_4: dict[tuple[int, int, int, str], list[float]] = {
    (int(row[0]), int(row[1]), int(row[2]), head): row[3 + 4 * k : 7 + 4 * k].tolist()
    for row in np.loadtxt(Path(__file__).with_name("table4.txt"))
    for k, head in enumerate(HEADS)
}
#: The same, and the starting weights.
Key = tuple[int, int, int, str, str]

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
    return train_starts(model, case, rng, (X[chosen], X_test, y[chosen], y_test))[1]


def scores(records: Records, readout: str = "argmax") -> dict[Key, dict[int, float]]:
    """Return shares of right classes by start, for each cell; nan where a start diverged."""
    return {
        (case["images"], int(epochs), case["hidden"], case["head"], case["start"]): {
            start: np.nan if value is None else value for start, value in enumerate(found)
        }
        for case, measured in ((record.case, record.measured) for record in records)
        for epochs, found in measured[readout].items()
    }


def settings(found: dict[Key, Any], start: str) -> list[tuple[int, int, int, str]]:
    """Return the settings with some starting weights of which all three networks are measured."""
    first = dict.fromkeys(key[:3] for key in found)
    return [(*setting, start) for setting in first if all((*setting, head, start) in found for head in HEADS)]


def shown(records: Records) -> list[Record]:
    """Return a record for each start, shares of right classes beside means and deviations as printed, in percent."""
    found = []
    for case, measured in ((record.case, record.measured) for record in records):
        setting = {name: case[name] for name in ("start", "images", "hidden", "head")}
        for start in range(case["n_starts"]):
            row: dict[str, Any] = {}
            for epochs in case["epochs"]:
                printed = TABLE_4[case["images"], epochs, case["hidden"], case["head"]]
                row[f"{epochs} epochs"] = measured["argmax"][str(epochs)][start]
                row[f"{epochs} epochs, printed %"] = "{:.2f} ± {:.2f}".format(*printed)
                row[f"{epochs} epochs, sign code"] = measured["code"][str(epochs)][start]
            found.append(Record({**setting, "repeat": start}, row, 0.0))
    return found


def claims(records: Sequence[Record]) -> list[Claim]:
    """Judge what is said of all settings, in those of at least ten starts, from both deviations of starting weights."""
    found = {key: own for key, own in scores(records).items() if len(own) >= REPETITIONS}
    measured = [place for start in STARTS for place in settings(found, start)]

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
        judged(SOURCE, PLATEAU, plateau),
    ]


def _falls(found: dict[Key, dict[int, float]], start: str) -> dict[str, Evidence]:
    """Return the evidence that the gain, averaged over the rest, falls along each of images, epochs and neurons."""
    gains = {}
    for place in settings(found, start):
        quadratic, linear = (found[(*place[:3], head, start)] for head in ("qnn", "linear"))
        gains |= {(place, k): score - linear[k] for k, score in quadratic.items()}

    def mean(axis: int, level: int) -> dict[int, float]:
        return over_sets(gains, [place for place in settings(found, start) if place[axis] == level])

    return {
        f"start {start}, {name} {before} to {after}": compare(
            mean(axis, after), mean(axis, before), less=True, unit=100.0
        )
        for axis, name in enumerate(("images", "epochs", "neurons"))
        for before, after in itertools.pairwise(sorted({place[axis] for place, _ in gains}))
    }


def plot(records: Records) -> Any:
    panels: dict[str, Any] = {}
    for (n, epochs, width, head, start), own in scores(records).items():
        if n in (600, 60_000):
            lines = panels.setdefault(f"{n} images, {epochs} epochs", {})
            lines.setdefault(f"{NAMES[head]}, start {start}", {})[width] = 100 * np.array(list(own.values()))
            lines.setdefault(f"{NAMES[head]}, printed", {})[width] = TABLE_4[n, epochs, width, head][0]
    return draw.curves(panels, "hidden neurons", "test accuracy [%]") if panels else None


EXPERIMENT = experiment_in(__name__, "MNIST: linear, quadratic and reduced quadratic output neurons", SOURCE)
