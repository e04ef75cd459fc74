"""The picture of the README: accuracy against size, and networks that approach the bound, from existing records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.experiments.accuracy import small_models
from benchmarks.experiments.paper import fig1
from benchmarks.machinery.common import Records, grouped, values
from benchmarks.methods.equal_bits import rounded
from benchmarks.methods.models import LEAVES, PREFIXES

DEFAULT = small_models.DEFAULT


class Look(NamedTuple):
    """How a curve is drawn: its name at the place, in points, from its right end."""

    name: str
    marker: str
    # Colours differ in brightness and markers in shape, for prints without colour.
    colour: str
    place: tuple[int, int] = (7, 0)


#: Curves of `small_models`, with the models that they join.
SIZES = {
    Look("qsdp", "o", "#0b3c8c", (7, 2)): tuple(f"{DEFAULT} {size}" for size in small_models.SIZES),
    Look("logistic regression\non qsdp's inputs", "^", "#4c9a2a", (-105, 6)): (
        "default logistic",
        *rounded("default logistic"),
    ),
    Look("logistic\nregression", "s", "#e07b00", (-92, 6)): ("logistic", *rounded("logistic")),
    Look("decision tree, size fixed", "D", "#888888"): tuple(f"tree, {leaves} leaves" for leaves in LEAVES),
    Look("boosted trees", "v", "#a02020", (-72, -44)): (
        *(f"boosting, bits of {prefix}" for prefix in PREFIXES.values()),
        "boosting",
    ),
}
#: Single models of `small_models`.
CHOSEN = {
    Look("qsdp by default", "*", "#0b3c8c", (-45, 12)): DEFAULT,
    Look("decision tree,\nsize chosen", "X", "#888888", (-74, -18)): "tree",
}
#: Curves of `fig1`, with their networks.
OBJECTIVES = {
    Look("qsdp", "o", "#0b3c8c"): "polished",
    Look("straight-through\ntraining", "s", "#e07b00"): "straight-through",
    Look("backpropagation,\nrounded", "v", "#888888"): "backprop",
}


def plot(models: Records, planted: Records) -> Any:
    """Draw the picture from the records of `small_models` and of `fig1`; None if there are too few."""
    points, networks = small_models.points_of(small_models.grid_of(models)), fig1.networks(planted)
    curves = {
        look: grouped([one for one in networks if one.case["name"] == key], "m") for look, key in OBJECTIVES.items()
    }
    if not points or not all(curves.values()):
        return None
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained", dpi=120)
    for look, names in SIZES.items():
        _curve(left, look, {points[name][0] / 8.0: 100.0 * points[name][1] for name in names})
    for look, name in CHOSEN.items():
        _curve(left, look, {points[name][0] / 8.0: 100.0 * points[name][1]}, size=11)
    left.set(title="17 data sets", xlabel="bytes of the model, geometric mean", ylabel="mean test accuracy, %")
    left.set_ylim(77.0, 87.0)
    for look, sizes in curves.items():
        _curve(right, look, {m: float(np.median(values(group, "objective"))) for (m,), group in sizes.items()})
    bound = float(np.median(values(planted, "lower_bound")))
    right.set(title="planted data", xlabel="neurons of ±1 weights", yscale="log", ylim=(bound / 10.0, None))
    right.set_ylabel("objective, relative to that of zero")
    right.axhspan(bound / 10.0, bound, color="0.85")
    right.annotate("proven: no network reaches this region", (fig1.SIZES[0], bound / 3.0), va="center")
    return figure


def _curve(axis: Any, look: Look, curve: Mapping[float, float], size: int = 5) -> None:
    places = sorted(curve)
    axis.plot(places, [curve[place] for place in places], marker=look.marker, color=look.colour, ms=size)
    end = (places[-1], curve[places[-1]])
    axis.annotate(look.name, end, look.place, textcoords="offset points", color=look.colour, va="center")
    axis.set_xscale("log")
    axis.grid(alpha=0.3)
