"""The pictures of the README: accuracy against size, and objectives against the bound, from existing records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machinery.accuracy_bytes import MEASURED, OURS, Point, Series, draw_series, tables
from benchmarks.machinery.common import Records, grouped, values
from benchmarks.papers.bartan_pilanci.experiments import fig1

#: Series of the page on accuracy against bytes that are shown: their words here, and where these stand.
SIZES: dict[str, tuple[str, int, tuple[float, float]]] = {
    "weights and binary neurons": ("qsdp", -1, (-4, 8)),
    "logistic regression": ("logistic\nregression", -1, (-92, 6)),
    "logistic regression on our inputs": ("logistic regression\non qsdp's inputs", -1, (-105, 6)),
    "decision tree": ("decision tree,\nsize chosen", 0, (-72, -18)),
    "trees of fixed numbers of leaves": ("decision tree, size fixed", -1, (8, -4)),
    "boosting": ("boosted trees", -1, (-72, -44)),
}
#: Networks of `fig1`: their words here, and where these stand.
OBJECTIVES: dict[str, tuple[str, str, tuple[float, float]]] = {
    "polished": (OURS, "qsdp", (-26, -14)),
    "straight-through": (MEASURED, "straight-through\ntraining", (-84, 46)),
    "backprop": (MEASURED, "backpropagation,\nrounded", (-92, 16)),
}
SIZE: dict[str, Any] = {"figsize": (5.4, 4.2), "layout": "constrained", "dpi": 120}


def accuracy(records: Mapping[str, Records]) -> Any:
    """Draw mean test accuracy against bytes, from the records of `small_models`; None without them."""
    if not records.get("small_models"):
        return None
    import matplotlib.pyplot as plt

    known = {one.name: one for one in tables({"small_models": records["small_models"]})[0].series}
    figure, axis = plt.subplots(**SIZE)
    shown = [known[name]._replace(name=words, at=at, offset=offset) for name, (words, at, offset) in SIZES.items()]
    draw_series(axis, shown, 10)
    axis.set(title="17 data sets", xlabel="bytes of the model, geometric mean", ylabel="mean test accuracy, %")
    axis.set_ylim(77.0, 87.0)
    axis.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
    return figure


def objectives(records: Mapping[str, Records]) -> Any:
    """Draw training objectives against neurons, and the bound, from the records of `fig1`; None if some are missing."""
    planted = records.get("fig1", [])
    networks, shown = fig1.networks(planted), []
    for name, (origin, words, offset) in OBJECTIVES.items():
        sizes = grouped([one for one in networks if one.case["name"] == name], "m")
        points = [Point(m, float(np.median(values(group, "objective")))) for (m,), group in sorted(sizes.items())]
        if not points:
            return None
        shown.append(Series(origin, words, points, -1, offset))
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(**SIZE)
    draw_series(axis, shown, 10)
    bound = float(np.median(values(planted, "lower_bound")))
    axis.set(title="planted data", xlabel="neurons of ±1 weights", yscale="log", ylim=(bound / 10.0, None))
    axis.set_ylabel("objective, relative to the zero network")
    axis.axhspan(bound / 10.0, bound, color="0.85")
    axis.annotate("proven: no network reaches this region", (fig1.SIZES[0], bound / 3.0), va="center")
    return figure


#: Pictures by the ends of their files' names.
PICTURES = {"accuracy": accuracy, "bound": objectives}


def draw(records: Mapping[str, Records], folder: Path) -> None:
    """Draw both pictures into a folder, or remove those whose records are missing."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    for name, plot in PICTURES.items():
        path = folder / f"overview_{name}.png"
        path.unlink(missing_ok=True)
        if (figure := plot(records)) is not None:
            figure.savefig(path)
            plt.close(figure)
