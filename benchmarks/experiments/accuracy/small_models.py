"""Accuracy against bits: networks of this package beside what a user would pick instead, rounded and cut to size.

The sets, splits, validation folds and standardised columns of the UCI suite. Ours are
`QuantizedNetworkClassifier()`, whose encoding is "auto", and the same with `encoding="standard"`, nothing else set, and
networks of other sizes drawn from their solutions; the rivals are in `_models.py`, and what counts as a bit in
`_bits.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.experiments import draw
from benchmarks.experiments._common import TARGET, experiment_in, geometric, grouped, kilobits, medians, table_row
from benchmarks.experiments._summary import summary
from benchmarks.experiments.accuracy import _bits
from benchmarks.experiments.accuracy._equal_bits import rounded
from benchmarks.experiments.accuracy._models import FAMILIES, LEAVES, PREFIXES, SIZES, Sample
from qsdp.bench import REPETITIONS, Claim, Record, Table, exact, paired_claim
from qsdp.bench.uci.data import SETS, prepare, split_cases
from qsdp.bench.uci.suite import N_SEEDS

STANDARD, DEFAULT = PREFIXES.values()
#: What "within" is, in points; sets to be won; times fewer bits than boosting.
WITHIN, WON, FEWER = 0.5, 7, 30


def sized(prefix: str) -> tuple[str, ...]:
    """Return the names of the networks of all sizes, the default among them."""
    return (prefix, *(f"{prefix} {size}" for size in SIZES))


#: What the picture joins by lines, from few bits to many.
CURVES: dict[str, tuple[str, ...]] = {
    "binary neurons, standard": sized(STANDARD),
    "binary neurons, default": sized(DEFAULT),
    "relaxed form, standard": (*rounded(f"{STANDARD} relaxed")[::-1], f"{STANDARD} relaxed"),
    "relaxed form, default": (*rounded(f"{DEFAULT} relaxed")[::-1], f"{DEFAULT} relaxed"),
    "logistic regression": (*rounded("logistic")[::-1], "logistic"),
    "logistic regression on the default's inputs": (*rounded(f"{DEFAULT} logistic")[::-1], f"{DEFAULT} logistic"),
    "decision tree": tuple(f"tree, {leaves} leaves" for leaves in LEAVES),
    "boosting": (f"boosting, bits of {STANDARD}", f"boosting, bits of {DEFAULT}", "boosting"),
    "quadratic ridge regression": ("quadratic ridge",),
}
#: Models in the order of tables.
NAMES = tuple(dict.fromkeys([DEFAULT, STANDARD, *(name for names in CURVES.values() for name in names), "tree"]))


def equal_bits(prefix: str) -> dict[str, tuple[str, ...]]:
    """Return what is compared with networks at their bits: the first of its versions that is no larger."""
    logistic = "logistic" if prefix == STANDARD else f"{prefix} logistic"
    return {
        "rounded logistic regression on the same inputs": rounded(logistic),
        "the rounded form of their relaxation": rounded(f"{prefix} relaxed"),
        "a decision tree": ("tree",),
        "boosting": (f"boosting, bits of {prefix}",),
    }


LEVEL = (TARGET, "The default classifier is at least as accurate as logistic regression, in the mean over sets.")
CLOSE = (TARGET, f"The default classifier is within {WITHIN} points of gradient boosting, in the mean over sets.")
WINS = (TARGET, f"The default classifier is more accurate than gradient boosting on at least {WON} sets.")
SMALL = (TARGET, f"The default classifier takes at most 1/{FEWER} of the bits of gradient boosting.")


def on_front(prefix: str) -> tuple[str, str]:
    """Return the claim that no other model is as accurate with as few bits."""
    return TARGET, f"Binary neurons ({prefix}) are on the Pareto front of mean accuracy and bits, at all sizes."


def better(prefix: str, rival: str) -> tuple[str, str]:
    """Return the claim of networks beside a rival of no more bits."""
    return TARGET, f"Networks ({prefix}) are more accurate than {rival} of no more bits."


def cases(quick: bool) -> list[dict[str, Any]]:
    return split_cases({"heart": 1} if quick else N_SEEDS, "family", FAMILIES)


def run(case: dict[str, Any]) -> dict[str, Any]:
    split = prepare(case["set"], case["seed"])
    models = Sample.of(split, case["seed"]).models_of(FAMILIES[case["family"]])
    return {"n": len(split.y), "d": split.X.shape[1], "n_classes": split.n_classes, "models": models}


# -- measurements by set and model -----------------------------------------------------------------------

#: By set and model, what was measured on every split.
Grid = dict[str, dict[str, list[dict[str, Any]]]]


def grid_of(records: Iterable[Record]) -> Grid:
    """Return measurements of the splits of which all models are measured."""
    grid: Grid = {}
    for (name, _), group in grouped(records, "set", "seed").items():
        if set(NAMES) <= {model for record in group for model in record.measured["models"]}:
            for record in group:
                for model, measured in record.measured["models"].items():
                    grid.setdefault(name, {}).setdefault(model, []).append(measured)
    return {name: grid[name] for name in SETS if name in grid}


def mean(grid: Grid, model: str, what: str = "test") -> dict[str, float]:
    """Return the mean over splits of a measurement, by set."""
    return {name: float(np.mean([one[what] for one in models[model]])) for name, models in grid.items()}


def wins(grid: Grid) -> list[str]:
    """Return the sets on which the default classifier is more accurate than boosting."""
    default, boosting = (mean(grid, model) for model in (DEFAULT, "boosting"))
    return [name for name in grid if default[name] > boosting[name]]


def points_of(grid: Grid, *, encoded: bool = True) -> dict[str, tuple[float, float]]:
    """Return bits, in the geometric mean over sets and with the encoding or not, and mean accuracy of every model."""
    found = {}
    for model in NAMES:
        bits, encoding = (np.array(list(mean(grid, model, what).values())) for what in ("bits", "encoding_bits"))
        accuracy = float(np.mean(list(mean(grid, model).values())))
        # Without the encoding some models have no bits.
        found[model] = geometric(np.maximum(bits if encoded else bits - encoding, 1e-9)), accuracy
    return found


def front_of(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the models of which no other has as few bits and is as accurate, from few bits to many."""
    front: list[str] = []
    # Of equally small ones the most accurate first.
    for name in sorted(points, key=lambda name: (points[name][0], -points[name][1])):
        if not front or points[name][1] > points[front[-1]][1]:
            front.append(name)
    return front


def shown(records: Sequence[Record]) -> list[Record]:
    """Return all models over the sets, and the usual ones on every set."""
    grid = grid_of(records)
    if not grid:
        return []
    points, bare = points_of(grid), points_of(grid, encoded=False)
    fronts, boosting = (front_of(points), front_of(bare)), mean(grid, "boosting")
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for model in sorted(NAMES, key=lambda model: points[model][0]):
        own = mean(grid, model)
        row: dict[str, Any] = {"test": points[model][1], "bits": points[model][0], "on the front": model in fronts[0]}
        row |= {"bits without the encoding": bare[model][0], "on the front without it": model in fronts[1]}
        row["sets above boosting"] = sum(own[name] > boosting[name] for name in grid)
        row["median seconds"] = float(np.median(list(mean(grid, model, "seconds").values())))
        rows.append(({"kind": "means over sets, bits geometric", "model": model}, row))
    for name, models in grid.items():
        for model in (DEFAULT, STANDARD, "logistic", "tree", "boosting"):
            for split, one in enumerate(models[model]):
                case = {"kind": "on every set", "set": name, "model": model, "split": split}
                rows.append((case, {"test": one["test"], "bits": one["bits"]}))
    return [Record(case, row, 0.0) for case, row in rows]


def tables(records: Sequence[Record]) -> list[Table]:
    fronts = []
    for name, models in grid_of(records).items():
        points = points_of({name: models})
        best = [f"{model} ({points[model][0]:,.0f}: {100 * points[model][1]:.1f})" for model in front_of(points)]
        fronts.append([name, "; ".join(best)])
    headings = ["set", "Pareto front (bits: test accuracy, %)"]
    return [*summary(shown(records)), Table("Where which model is the best compressor", headings, fronts)]


def claims(records: Sequence[Record]) -> list[Claim]:
    grid = grid_of(records)
    default, logistic, boosting = (mean(grid, model) for model in (DEFAULT, "logistic", "boosting"))
    won, enough = wins(grid), len(grid) >= REPETITIONS
    bits = [mean(grid, model, "bits") for model in (DEFAULT, "boosting")]
    return [
        paired_claim(*LEVEL, default, logistic, names=(DEFAULT, "logistic")),
        paired_claim(*CLOSE, default, boosting, names=(DEFAULT, "boosting"), margin=-WITHIN / 100.0),
        exact(*WINS, [len(won) >= WON] if enough else [], f"{len(won)} of {len(grid)}: {', '.join(won) or 'none'}"),
        paired_claim(
            *SMALL, *bits, names=(DEFAULT, "boosting"), show=medians, less=True, log=True, margin=np.log(FEWER)
        ),
        *(_front_claim(prefix, grid if enough else {}) for prefix in PREFIXES.values()),
        *(_better_claim(prefix, rival, grid) for prefix in PREFIXES.values() for rival in equal_bits(prefix)),
    ]


def _front_claim(prefix: str, grid: Grid) -> Claim:
    if not grid:
        return exact(*on_front(prefix), {})
    points = points_of(grid)
    front, ours = front_of(points), sized(prefix)
    holds = {}
    for name in ours:
        bits, accuracy = points[name]
        above = next((one for one in front if points[one][0] <= bits and points[one][1] >= accuracy), name)
        holds[name if above == name else f"{name} (by {above})"] = name in front
    shown = "; ".join(f"{name} {points[name][0]:,.0f} bits {100 * points[name][1]:.1f} %" for name in front)
    bare = [name for name in front_of(points_of(grid, encoded=False)) if name in ours]
    where = [name for name in grid if set(ours) & set(front_of(points_of({name: grid[name]})))]
    figures = (
        f"the front: {shown}. On it without bits of the encoding: {', '.join(bare) or 'none'}. Some size is on the "
        f"front of {len(where)} of {len(grid)} sets: {', '.join(where) or 'none'}."
    )
    return exact(*on_front(prefix), holds, figures)


def _better_claim(prefix: str, rival: str, grid: Grid) -> Claim:
    """Compare over the sets where a version of the rival is no larger than the network."""
    bits, ours, theirs = mean(grid, prefix, "bits"), {}, {}
    for name in grid:
        for version in equal_bits(prefix)[rival]:
            if mean(grid, version, "bits")[name] <= bits[name]:
                ours[name], theirs[name] = (mean(grid, model)[name] for model in (prefix, version))
                break
    return paired_claim(*better(prefix, rival), ours, theirs, names=(prefix, rival))


def plot(records: Sequence[Record]) -> Any:
    grid = grid_of(records)
    panels = {}
    for title, encoded in (("bits with the encoding", True), ("bits without the encoding", False)):
        points = points_of(grid, encoded=encoded) if grid else {}
        lines = {"Pareto front": front_of(points), **CURVES, "tree of chosen size": ("tree",)}
        panels[title] = {
            label: {points[name][0]: 100 * points[name][1] for name in names} for label, names in lines.items()
        }
    axes = ("bits, geometric mean over sets", f"test accuracy, %, mean over {len(grid)} sets")
    return draw.curves(panels, *axes, "x", height=5.6) if grid else None


def quotes(records: Sequence[Record]) -> dict[str, str]:
    grid = grid_of(records)
    if not grid:
        return {}
    points, won = points_of(grid), wins(grid)

    def shown(model: str) -> str:
        bits, accuracy = points[model]
        return f"{100 * accuracy:.1f} %, {kilobits(bits)}"

    splits = "ten splits (of the large three)"
    what = f"{len(grid)} classification sets, nothing set, mean test accuracy over {splits} and bits"
    boosting = f"boosted trees {shown('boosting')}, less accurate on {len(won)} of the sets"
    chosen = f"on the inputs that the network chose {shown(f'{DEFAULT} logistic')}"
    logistic = f"logistic regression {shown('logistic')}, and {chosen}"
    readme = table_row(what, f"`QuantizedNetworkClassifier()` {shown(DEFAULT)}; {boosting}; {logistic}")
    found = {"readme": readme}
    return found | ({"form": _form_rows(grid["breast-cancer-wisconsin"])} if "breast-cancer-wisconsin" in grid else {})


def _form_rows(models: Mapping[str, list[dict[str, Any]]]) -> str:
    names = {
        **{f"{STANDARD} {size}": f"{size} polished neurons" for size in SIZES},
        f"{STANDARD} relaxed": "quadratic form of the relaxation, float",
        f"{STANDARD} relaxed, 4 bits": "... in 4 bits",
        "logistic": "logistic regression, float",
        "logistic, 8 bits": "... in 8 bits",
    }
    rows = []
    for name, words in names.items():
        test, bits = (np.mean([one[what] for one in models[name]]) for what in ("test", "bits"))
        gap = f"{100 * np.median([one['gap'] for one in models[name]]):.1f} %" if "gap" in models[name][0] else ""
        rows.append(table_row(words, gap, f"{100 * test:.1f} %", f"{bits:,.0f}"))
    return "\n".join(rows)


EXPERIMENT = experiment_in(
    __name__,
    "Accuracy against bits",
    "Targets of the package; the sets of the UCI suite",
    extra={"Bits": " ".join((_bits.__doc__ or "").split())},
)
