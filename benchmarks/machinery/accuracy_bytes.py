"""Accuracy against bytes: one picture for tables and one for images, from the records of several experiments.

Series are labelled at their points. Those of this package are blue or green, those of other methods that we measured
are grey, brown or purple, and results printed by others, which we did not run, are red crosses. The thin black steps
are the front: the models for which no model shown is both as small and more accurate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.experiments.accuracy import bthowen, few_shot, small_models
from benchmarks.experiments.product.convolutions import GAP
from benchmarks.machinery.common import Records, geometric, unfolded, where
from benchmarks.machinery.quotes import wrapped
from benchmarks.methods.equal_bits import DEFAULT, TRAINED, rounded
from benchmarks.methods.models import LEAVES
from benchmarks.runner import Record
from benchmarks.runner._report import markdown_table
from benchmarks.uci.report import means, shared_splits

NAME = "accuracy_bytes"
#: Experiments whose records are drawn.
SOURCES = ("small_models", "uci", "bthowen", "convolutions", "many_inputs", "few_shot")
TITLE = "Accuracy against bytes"
OURS, MEASURED, PRINTED = "this package", "measured here", "printed"
#: Colours and markers, one after the other; markers tell series apart on prints without colour.
LOOKS = {
    OURS: (("tab:blue", "o"), ("teal", "D"), ("navy", "^"), ("mediumseagreen", "v")),
    MEASURED: (("dimgrey", "s"), ("saddlebrown", "P"), ("black", "X"), ("darkgoldenrod", "*"), ("rebeccapurple", "v")),
    PRINTED: (("tab:red", "x"), ("darkred", "+")),
}

#: Test accuracy in percent and bytes printed for MNIST: BitNetMCU (docs/documentation_cnn.md of its repository; sizes
#: printed in bits where they are) and BTHOWeN (README of its repository, KiB).
BITNET_DENSE = ((1100, 94.22), (100_864 // 8, 99.02))
BITNET_CNN = ((3200, 98.92), (5360, 99.06), (7328, 99.28), (9296, 99.44), (11_264, 99.55), (13_357, 99.58))
BTHOWEN = tuple((kib * 1024, accuracy) for kib, accuracy in ((70, 93.4), (210, 94.3), (960, 95.2)))
#: Bytes of BeMi's 45 networks: 142,020 weights of three values.
BEMI = round(142_020 * np.log2(3) / 8)

#: Headings of the tables of fronts.
HEADINGS = ("bytes", "test accuracy, %", "model on the front", "this package at no more bytes, %", "points behind")

#: Methods of the suite with two splits of 15 sets, and their names in the picture.
SUITE = {
    "qsdp-250": (OURS, "sampled", (-46, -3)),
    "qsdp-polish": (OURS, "polished", (-46, -2)),
    "relaxation": (OURS, "form of the relaxation", (4, 7)),
    "backprop-rounded": (MEASURED, "rounded backpropagation", (-30, -13)),
    "relu-rounded": (MEASURED, "rounded ReLU network", (-60, 7)),
    "straight-through": (MEASURED, "straight-through", (6, -4)),
    "straight-through-refitted": (MEASURED, "straight-through, refitted", (-60, -13)),
    "backprop": (MEASURED, "float network", (-46, 7)),
    "logistic-rounded": (MEASURED, "logistic regression, 8 bits", (0, 6)),
    "tree": (MEASURED, "decision tree", (0, 6)),
    "boosting": (MEASURED, "boosting", (-24, -14)),
}
#: Places of the names of printed models that the common one would hide.
PLACES = {"iris": (-60, 8), "wine": (8, -4), "vehicle": (-30, -14)}


class Point(NamedTuple):
    """Model of a size in bytes, and its test accuracy in percent."""

    size: float
    accuracy: float


class Series(NamedTuple):
    """Models of one method on some data; its name is written at one of its points, moved by an offset in points."""

    origin: str
    name: str
    points: Sequence[Point]
    at: int = -1
    offset: tuple[float, float] = (0.0, 6.0)
    #: Data, where those of a panel differ; there is a front for each.
    data: str = ""


@dataclass(frozen=True)
class Panel:
    """Series of models; printed ones were measured by their authors."""

    title: str
    #: What the accuracies are means of, and what the bytes count.
    setting: str
    series: Sequence[Series]
    #: Smallest accuracy in the picture; tables have all.
    lowest: float | None = None

    def fronts(self) -> list[list[tuple[Point, Series]]]:
        """Return, for each data, the models that no other as small equals in accuracy, from small to large."""
        made = []
        for data in dict.fromkeys(series.data for series in self.series):
            models = [(point, series) for series in self.series if series.data == data for point in series.points]
            best: list[tuple[Point, Series]] = []
            for point, series in sorted(models, key=lambda one: (one[0].size, -one[0].accuracy)):
                if not best or point.accuracy > best[-1][0].accuracy:
                    best.append((point, series))
            made.append(best)
        return made

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Return a row for each model of a front: by how much this package is behind in no more bytes."""
        made = []
        for point, series in (one for front in self.fronts() for one in front):
            own = [one for one in self.series if one.origin == OURS and one.data == series.data]
            fits = [other.accuracy for one in own for other in one.points if other.size <= point.size]
            best = f"{max(fits):.1f}" if fits else "none"
            behind = "" if not fits or series.origin == OURS else f"{point.accuracy - max(fits):.1f}"
            made.append(
                (f"{point.size:,.0f}", f"{point.accuracy:.1f}", f"{series.name} ({series.origin})", best, behind)
            )
        return made


def chosen(entries: Iterable[Mapping[str, Any]]) -> list[Point]:
    """Return the entries that a user would choose for some size: no smaller one is as good on the images for it."""
    best: list[Mapping[str, Any]] = []
    for entry in sorted(entries, key=lambda one: (one["bytes"], -one["choice_accuracy"])):
        if not best or entry["choice_accuracy"] > best[-1]["choice_accuracy"]:
            best.append(entry)
    return [Point(one["bytes"], 100.0 * one["test_accuracy"]) for one in best]


# -- tables ----------------------------------------------------------------------------------------------


def tables(records: Mapping[str, Records]) -> list[Panel]:
    panels = [
        _small_models(records.get("small_models", ())),
        _suite(records.get("uci", ())),
        _bthowen(records.get("bthowen", ())),
    ]
    return [panel for panel in panels if panel is not None]


def _small_models(records: Records) -> Panel | None:
    grid = small_models.grid_of(records)
    found = {name: Point(bits / 8, 100.0 * share) for name, (bits, share) in small_models.points_of(grid).items()}
    if not found:
        return None

    def some(*names: str) -> list[Point]:
        return sorted(found[name] for name in names)

    def rounding(name: str) -> list[Point]:
        return some(name, *rounded(name))

    sampled = [f"standard {size}" for size in small_models.SIZES]
    boosted = [name for name in found if name.startswith("boosting")]
    cut = some(*(f"tree, {leaves} leaves" for leaves in LEAVES))
    series = [
        Series(OURS, "weights and binary neurons", some("default"), 0, (-50, 9)),
        Series(OURS, "binary neurons alone", some("standard", *sampled), 5, (10, 12)),
        Series(OURS, "form of the relaxation", rounding("standard relaxed"), 0, (-4, -14)),
        Series(MEASURED, "logistic regression", rounding("logistic"), 0, (-10, -14)),
        Series(MEASURED, "logistic regression on our inputs", rounding("default logistic"), 2, (-130, 14)),
        Series(MEASURED, "decision tree", some("tree"), 0, (-24, 8)),
        Series(MEASURED, "trees of fixed numbers of leaves", cut, 2, (10, -6)),
        Series(MEASURED, "boosting", some(*boosted), -1, (-24, 8)),
        Series(MEASURED, "quadratic ridge regression", some("quadratic ridge"), 0, (8, -4)),
    ]  # fmt: skip
    setting = (
        "Mean test accuracy and geometric mean of bytes, positions of columns included. Splits: three of each set "
    )
    setting += "(one of the largest four)."
    return Panel(f"Means over {len(grid)} classification sets, nothing tuned by hand", setting, series, 78.5)


def _suite(records: Records) -> Panel | None:
    methods, splits = shared_splits(records)
    series = []
    for method in (name for name in SUITE if name in methods):
        sizes, shares = (means(splits, method, lambda one, what=what: float(one[what])) for what in ("bits", "test"))
        point = Point(geometric(list(sizes.values())) / 8, 100.0 * float(np.mean(list(shares.values()))))
        origin, words, offset = SUITE[method]
        series.append(Series(origin, words, [point], 0, offset))
    sets = {name for name, _ in splits}
    setting = f"The same for {len(splits)} splits of {len(sets)} sets on which networks were trained by gradients. "
    setting += "Networks have 250 neurons and a constant column; positions of columns, the same for all, are left out."
    return Panel(f"{len(sets)} sets, with networks trained by gradients", setting, series) if series else None


def _bthowen(records: Records) -> Panel | None:
    series = []
    for name, (accuracy, kib) in bthowen.PRINTED.items():
        found = where(records, set=name, encoding=bthowen.JUDGED)
        if found:
            size, share = (float(np.mean([one.measured[what] for one in found])) for what in ("bits", "test"))
            printed = Point(1024 * kib, 100.0 * accuracy)
            series.append(Series(PRINTED, f"{name}, BTHOWeN", [printed], 0, PLACES.get(name, (-60, 7)), name))
            series.append(Series(OURS, name, [Point(size / 8, 100.0 * share)], 0, (-10, -14), name))
    setting = "Means over ten splits (three of letter); those of BTHOWeN are printed for one. Encodings are left out."
    return Panel("At most the sizes printed for BTHOWeN", setting, series) if series else None


# -- images ----------------------------------------------------------------------------------------------


def images(records: Mapping[str, Records]) -> list[Panel]:
    panels = [_convolutions(records, data) for data in ("mnist", "fashion_mnist")]
    panels += [_few_shot(records.get("few_shot", ()), data) for data in ("mnist", "fashion_mnist")]
    return [panel for panel in panels if panel is not None]


def _convolutions(records: Mapping[str, Records], data: str) -> Panel | None:
    own = where(records.get("convolutions", ()), data=data)

    def entries(*kinds: str, gap: float = math.inf, convolutions: int | None = None) -> list[Point]:
        """Return what a user would choose of some kinds with gaps of at most `gap`; no gap is infinite."""
        found = where(own, kind=kinds)
        if convolutions is not None:
            found = [record for record in found if record.case["channels"].count("-") == convolutions - 1]
        models = (entry for record in found for entry in record.measured["entries"])
        return chosen(entry for entry in models if entry.get("gap", math.inf) <= gap)

    # Offsets of the names of the binary CNNs, the relaxation and the logistic regression.
    one, two, form, linear = (
        ((8, 2), (-45, 12), (10, -6), (8, -4)) if data == "mnist" else ((-60, -18), (-75, 10), (-60, 8), (-114, 14))
    )
    series = [
        Series(OURS, "convolutions, gap below 1 %", entries("certified", gap=GAP), 0, (0, -24)),
        Series(OURS, "convolutions", entries("certified", "refit"), -1, (8, -14)),
        Series(OURS, "rounded form of the relaxation", entries("relaxation"), 1 if data == "mnist" else -1, form),
        Series(
            MEASURED,
            "logistic regression on the same moments",
            entries("logistic"),
            -5 if data == "mnist" else -1,
            linear,
        ),
        Series(MEASURED, "decision forests", entries("forest"), -1, (-100, -14)),
        Series(MEASURED, "binary CNN, one convolution", entries("binary_cnn", convolutions=1), -1, one),
        Series(MEASURED, "binary CNN, two convolutions", entries("binary_cnn", convolutions=2), 1, two),
    ]
    if data == "mnist":
        series += [
            Series(OURS, "neurons on all pixels", _polished(records.get("many_inputs", ())), 1, (-30, -16)),
            Series(PRINTED, "BitNetMCU, dense", [Point(*one) for one in BITNET_DENSE], 0, (-20, -14)),
            Series(PRINTED, "BitNetMCU, convolutional", [Point(*one) for one in BITNET_CNN], 2, (-95, 10)),
            Series(PRINTED, "BTHOWeN", [Point(*one) for one in BTHOWEN], 1, (-10, -14)),
        ]
    series = [one for one in series if one.points]
    setting = "50,000 images train, 10,000 choose, bytes of the file on disk. BitNetMCU trains on shifted and rotated "
    setting += "images, too. Neurons on all pixels train on 60,000."
    known = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
    return (
        Panel(f"{known[data]}, all images", setting, series, {"mnist": 93.0, "fashion_mnist": 82.0}[data])
        if own
        else None
    )


def _polished(records: Records) -> list[Point]:
    networks = [one for record in where(records, kind="polished") for one in record.measured["network"].values()]
    return sorted(Point(one["bits"] / 8, 100.0 * one["test_accuracy"]) for one in networks)


def _few_shot(records: Records, data: str) -> Panel | None:
    count = max(few_shot.COUNTS)
    models = where(unfolded(records, "models", "model"), set=data, images=count)
    names = (DEFAULT, TRAINED, "logistic", *rounded("logistic"))

    def some(*wanted: str) -> list[Point]:
        return [_mean(where(models, model=name, side=side)) for name in wanted for side in few_shot.SIDES]

    if not {(one.case["model"], one.case["side"]) for one in models} >= set(itertools.product(names, few_shot.SIDES)):
        return None

    def linear(side: int) -> list[Point]:
        return sorted(_mean(where(models, model=name, side=side)) for name in names[2:])

    series = [
        Series(OURS, "binary neurons", some(DEFAULT), 1, (-66, 4)),
        Series(MEASURED, "straight-through", some(TRAINED), 1, (-66, -14)),
        *(Series(MEASURED, f"logistic, {side} x {side}", linear(side), 0, (0, -14)) for side in few_shot.SIDES),
        Series(PRINTED, "BeMi", [Point(BEMI, 100.0 * few_shot.PRINTED[data, count])], 0, (6, -10)),
    ]  # fmt: skip
    setting = "Means over ten draws, tested on 8,000 images, of 7 x 7 and 14 x 14 means of pixels. BeMi's "
    setting += "networks are trained by mixed-integer programs on all 28 x 28."
    return Panel(f"{few_shot.SETS[data]}, {count} images of each class", setting, series)


def _mean(models: Sequence[Record]) -> Point:
    bits, test = (float(np.mean([one.measured[what] for one in models])) for what in ("bits", "test"))
    return Point(bits / 8, 100.0 * test)


# -- pictures and page -----------------------------------------------------------------------------------

PICTURES: dict[str, Callable[[Mapping[str, Records]], list[Panel]]] = {"tables": tables, "images": images}


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Draw panels in rows of two, an odd first one in a row of its own; without panels, remove an old picture."""
    path.unlink(missing_ok=True)
    if not panels:
        return
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    places = [0] * (len(panels) % 2) + list(range(len(panels)))
    layout = [places[k : k + 2] for k in range(0, len(places), 2)]
    size = {"figsize": (10.0, 4.6 * len(layout)), "height_ratios": [5, 4, 4, 4][: len(layout)], "dpi": 120}
    figure, axes = plt.subplot_mosaic(layout, layout="constrained", **size)
    for number, panel in enumerate(panels):
        _draw(axes[number], panel, 10 if layout[0] == [0, 0] and number == 0 else 8.5)
    figure.savefig(path)
    plt.close(figure)


def _draw(axis: Any, panel: Panel, height: float) -> None:
    """Draw a panel with names of a height in points."""
    for front in panel.fronts():
        axis.step(*zip(*(point for point, _ in front), strict=True), where="post", color="black", lw=0.8, zorder=1)
    draw_series(axis, panel.series, height)
    axis.set_title(panel.title, fontsize=1.15 * height)
    axis.set(xlabel="bytes", ylabel="test accuracy, %")
    axis.margins(x=0.1, y=0.1)
    axis.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
    if panel.lowest is not None:
        sizes, shares = zip(*(p for s in panel.series for p in s.points if p.accuracy >= panel.lowest), strict=True)
        axis.set(xlim=(0.6 * min(sizes), 1.7 * max(sizes)), ylim=(panel.lowest, 1.1 * max(shares) - 0.1 * panel.lowest))


def draw_series(axis: Any, series: Sequence[Series], height: float) -> None:
    """Draw the models of series, each with its name, in letters of a height in points, at one of its points."""
    import matplotlib.patheffects as effects

    halo = [effects.withStroke(linewidth=3, foreground="white")]
    left = {origin: itertools.cycle(looks) for origin, looks in LOOKS.items()}
    for one in series:
        colour, marker = next(left[one.origin])
        line = ":" if one.origin == PRINTED else "-"
        axis.plot(*zip(*one.points, strict=True), color=colour, marker=marker, ls=line, ms=5, lw=1.2)
        # Of few samples, there are fewer points.
        at = min(max(one.at, -len(one.points)), len(one.points) - 1)
        axis.annotate(
            one.name, one.points[at], one.offset, textcoords="offset points", color=colour,
            fontsize=height, path_effects=halo, annotation_clip=True,
        ).set_in_layout(False)  # fmt: skip
    axis.set_xscale("log")
    axis.grid(alpha=0.3)


def picture(folder: Path, which: str) -> Path:
    return folder / f"{NAME}_{which}.png"


def page(records: Mapping[str, Records], link: Callable[[str], str], page_of: Callable[[str], str]) -> str:
    """Return the page with the answer, both pictures and the fronts, "" without records.

    `link` takes the name of a picture, `page_of` that of an experiment.
    """
    panels = {which: panels_of(records) for which, panels_of in PICTURES.items()}
    if not any(panels.values()):
        return ""
    first, legend = (" ".join(part.split()) for part in (__doc__ or "").split("\n\n"))
    parts = [f"# {TITLE}", wrapped(first), wrapped(answer(panels))]
    for which, some in panels.items():
        for number, panel in enumerate(some):
            parts += [f"## {which.capitalize()}", f"![{TITLE}: {which}]({link(which)})"] if number == 0 else []
            parts += [f"**{panel.title}.** {panel.setting}", markdown_table(HEADINGS, panel.rows())]
    sources = ", ".join(f"[{name}]({page_of(name)})" for name in SOURCES if records.get(name))
    machines = f"<small>Records of {sources}. Their pages name machines, dates and commits.</small>"
    return "\n\n".join([*parts, "## Setting", wrapped(legend), machines]) + "\n"


def answer(panels: Mapping[str, Sequence[Panel]]) -> str:
    """Return on how many fronts there is a model of this package, and where there is none; and the largest fronts."""
    every = [panel for some in panels.values() for panel in some]
    without = [panel.title for panel in every if all(s.origin != OURS for front in panel.fronts() for _, s in front)]
    said = f"In {len(every) - len(without)} of {len(every)} comparisons, a model of this package is on the front: no "
    said += "model shown is both as small and as accurate."
    said += f" There is none for {'; '.join(without)}." if without else ""
    return " ".join([said, *(_sentence(some[0]) for some in panels.values() if some)])


def quotes(records: Mapping[str, Records]) -> dict[str, str]:
    """Return a sentence on the front of the first panel of each picture."""
    return {which: _sentence(panels[0]) for which, of in PICTURES.items() if (panels := of(records))}


def _sentence(panel: Panel) -> str:
    front = panel.fronts()[0]
    ours = [point for point, series in front if series.origin == OURS]
    if not ours:
        return f"{panel.title}: no model of this package is on the front of accuracy against bytes."
    span = " to ".join(dict.fromkeys(_text(one) for one in (ours[0], ours[-1])))
    said = [f"{panel.title}: this package is on the front of accuracy against bytes from {span}"]
    smaller = [one for one in front if one[0].size < ours[0].size]
    larger = [one for one in front if one[0].size > ours[-1].size]
    for words, others in (("smaller", smaller), ("larger", larger)):
        said += [f"the best {words} model is {others[-1][1].name}, {_text(others[-1][0])}"] if others else []
    return "; ".join(said) + "."


def _text(point: Point) -> str:
    return f"{point.accuracy:.1f} % in {_bytes(point.size)}"


def _bytes(size: float) -> str:
    return f"{size:.0f} bytes" if size < 1000 else f"{size / 1000:.1f} kB"
