"""Accuracy against bits: networks of this package and the usual alternatives, rounded and cut to size.

The sets, splits, validation folds and standardised columns are those of the UCI suite. Our models are
`QuantizedNetworkClassifier()`, an additive model with neurons, the same with `encoding="standard"` (other parameters
are defaults), and networks of other sizes drawn from the solution of the latter. The rivals are in `methods/models.py`.
Bits follow [one rule](../guide/networks.md#how-bits-are-counted), with the Golomb-Rice codes of integers where they are
shorter. Standardised columns cost float models nothing, since coefficients absorb means and deviations; they cost
rounded linear models the deviations, and rounded quadratic ones, including networks, both.

The series are "default" and "standard". A number in a name is the number of neurons per output; "relaxed" is the
quadratic form of the relaxation; "i bits" is a model rounded to i bits. No constant column is appended to the inputs of
our classifiers, since the default has one, and the activation of the other a constant part. Betas are "auto", chosen
inside the training part; the hyper-parameters of all rivals are chosen on the validation folds. Splits are stratified
(80/20): ten of most sets, and one of the largest five. Seconds are CPU time of one thread for the fit, including the
choice of hyper-parameters.

Optimal decision trees ("STreeD", "ConTree") and sparse scores ("FasterRisk", for two classes) have separate tables,
since they are measured on one split of each set, and not on the four sets of more than 2,000 training rows. They run in
environments of their own (`methods/proven_rivals.py`) with their own thresholds, and choose their sizes on the same
folds. Each has 10 s of CPU time for the choice and the last fit; the means have the seconds of the default network,
too. FasterRisk has no time limit and ends with the fit during which the time is up. Trees have at most depth 4. At
equal bits, each is compared with the largest of several additive models that is no larger: "default, beta = 10%" is the
default network with a penalty of this share of `beta_max`, of which larger ones leave fewer weights and neurons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import eq, gt, lt
from typing import Any

import numpy as np

from benchmarks.machinery.common import (
    TARGET,
    Records,
    experiment_in,
    geometric,
    grouped,
    kilobits,
    medians,
    table_row,
    where,
)
from benchmarks.machinery.verdicts import REPETITIONS, Claim, exact, paired_claim
from benchmarks.methods import proven_rivals
from benchmarks.methods.equal_bits import rounded
from benchmarks.methods.models import FAMILIES, SIZES, Sample, few_bits
from benchmarks.runner import Record, Table
from benchmarks.uci.data import LARGE, SETS, prepare, split_cases
from benchmarks.versions import ESTIMATORS

STANDARD, DEFAULT = "standard", "default"
#: Splits of each set: the first of those of the suite.
SPLITS = dict.fromkeys(SETS, 10) | dict.fromkeys(("wine-quality-white", *LARGE), 1)
#: Sets of two classes.
BINARY = ("heart", "breast-cancer", "banknote", "pima", "ionosphere", "breast-cancer-wisconsin", "credit-approval")
#: The rival that shares the inputs of the default network, in few bits.
SAME_INPUTS = f"{DEFAULT} logistic, 8 bits"
#: Targets against boosting: points of accuracy below it, sets won, and the factor in bits.
WITHIN, WON, FEWER = 0.5, 7, 30
#: Family of additive models with fewer bits than the default network.
FEW = "few bits"
#: Splits of each set on which the rivals in environments of their own are measured.
PROVEN_SPLITS = {name: 1 for name in SETS if name not in {"wine-quality-white", "spambase", "letter", "adult"}}


def equal_bits(prefix: str) -> dict[str, tuple[str, ...]]:
    """Return the rivals of the networks at equal bits; the first version that is no larger is compared."""
    logistic = "logistic" if prefix == STANDARD else f"{prefix} logistic"
    form = {"the rounded form of their relaxation": rounded(f"{STANDARD} relaxed")}
    return {
        "rounded logistic regression on the same inputs": rounded(logistic),
        **(form if prefix == STANDARD else {}),
        "a decision tree": ("tree",),
        "boosting": (f"boosting, bits of {prefix}",),
    }


def cases(quick: bool) -> list[dict[str, Any]]:
    splits, few = ({"heart": 1}, {"heart": 1}) if quick else (SPLITS, PROVEN_SPLITS)
    proved = split_cases(few, "family", (*proven_rivals.PACKAGES, FEW))
    # Scores are for two classes.
    proved = [case for case in proved if case["family"] != proven_rivals.SCORES or case["set"] in BINARY]
    return [*split_cases(splits, "family", FAMILIES), *proved]


def run(case: dict[str, Any]) -> dict[str, Any]:
    split = prepare(case["set"], case["seed"])
    families = FAMILIES | {FEW: few_bits} | {name: proven_rivals.rival(name) for name in proven_rivals.PACKAGES}
    models = Sample.from_split(split, case["seed"]).models_of(families[case["family"]])
    return {"n": len(split.y), "d": split.X.shape[1], "n_classes": split.n_classes, "models": models}


# -- measurements by set and model -----------------------------------------------------------------------

#: Measurements of every split, by set and model.
Grid = dict[str, dict[str, list[dict[str, Any]]]]


def grid_of(records: Iterable[Record]) -> Grid:
    """Return the measurements of the splits for which all of `FAMILIES` are measured."""
    grid: Grid = {}
    for (name, _), group in grouped(where(records, family=tuple(FAMILIES)), "set", "seed").items():
        for record in group if len(group) == len(FAMILIES) else ():
            for model, measured in record.measured["models"].items():
                grid.setdefault(name, {}).setdefault(model, []).append(measured)
    return {name: grid[name] for name in SETS if name in grid}


def beside(records: Iterable[Record], rival: str) -> Grid:
    """Return the measurements of the default network and of a rival, on the splits that both have."""
    grid: Grid = {}
    for (name, _), group in grouped(records, "set", "seed").items():
        models = {model: one for record in group for model, one in record.measured["models"].items()}
        if DEFAULT in models and rival in models:
            for model in (DEFAULT, rival):
                grid.setdefault(name, {}).setdefault(model, []).append(models[model])
    return {name: grid[name] for name in SETS if name in grid}


def mean(grid: Grid, model: str, what: str = "test") -> dict[str, float]:
    """Return the mean of a measurement over splits, by set."""
    return {name: float(np.mean([one[what] for one in models[model]])) for name, models in grid.items()}


def points_of(grid: Grid) -> dict[str, tuple[float, float]]:
    """Return the bits (geometric mean over sets) and the mean accuracy of every model."""
    models = next(iter(grid.values()), {})
    return {
        model: (geometric(list(mean(grid, model, "bits").values())), float(np.mean(list(mean(grid, model).values()))))
        for model in models
    }


def points_behind(grid: Grid) -> float:
    """Return by how many points the rival of a grid is less accurate than the default network, median over sets."""
    [rival] = {model for models in grid.values() for model in models} - {DEFAULT}
    ours, theirs = (mean(grid, model) for model in (DEFAULT, rival))
    return float(np.median([100.0 * (ours[name] - theirs[name]) for name in grid]))


def front_of(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the models of the Pareto front, from few bits to many."""
    front: list[str] = []
    # Models of equal size are sorted by accuracy, best first.
    for name in sorted(points, key=lambda name: (points[name][0], -points[name][1])):
        if not front or points[name][1] > points[front[-1]][1]:
            front.append(name)
    return front


def won(grid: Grid) -> list[str]:
    """Return the sets on which the default classifier is more accurate than boosting."""
    default, boosting = (mean(grid, model) for model in (DEFAULT, "boosting"))
    return [name for name in grid if default[name] > boosting[name]]


def tables(records: Records) -> list[Table]:
    """Return the means of all models over the sets, from few bits to many, and how often each is on a front."""
    grid = grid_of(records)
    points = points_of(grid)
    mean_front = front_of(points)
    fronts = [front_of(points_of({name: models})) for name, models in grid.items()]
    rows = [
        [
            model,
            f"{100.0 * test:.1f}",
            f"{bits:,.0f}",
            "yes" if model in mean_front else "no",
            str(sum(model in front for front in fronts)),
        ]
        for model, (bits, test) in sorted(points.items(), key=lambda item: item[1])
    ]
    headings = ["model", "test accuracy, %", "bits, geometric", "on the front of the means", "on the fronts of sets"]
    note = f"A model is on a front if none is as accurate in fewer bits; there are {len(grid)} sets."
    return [*([Table("all models", headings, rows, note)] if rows else []), *proven_tables(records)]


def proven_tables(records: Records) -> list[Table]:
    """Return optimal trees and sparse scores beside the default network: means over sets, and each set."""
    grids = {rival: grid for rival in proven_rivals.PACKAGES if (grid := beside(records, rival))}
    if not grids:
        return []
    means = []
    for rival, grid in grids.items():
        points = points_of(grid)
        every = [one for models in grid.values() for one in models[rival]]
        means.append(
            [
                f"{rival} {every[0]['version']}",
                f"{len(grid)}, {len(every)}",
                *(f"{100 * points[model][1]:.1f}" for model in (rival, DEFAULT)),
                f"{points_behind(grid):.1f}",
                *(f"{points[model][0]:,.0f}" for model in (rival, DEFAULT)),
                medians([one["seconds"] for one in every]),
                medians([one["seconds"] for models in grid.values() for one in models[DEFAULT]]),
                _proven_of(every),
                f"{sum(one['last'] for one in every)} of {len(every)}",
            ]
        )
    rows = []
    for name in (name for name in SETS if any(name in grid for grid in grids.values())):
        ours = next(grid[name][DEFAULT] for grid in grids.values() if name in grid)
        cells = [_cell(grid[name][rival]) if name in grid else "" for rival, grid in grids.items()]
        rows.append([name, _cell(ours), *cells])
    headings = ["rival", "sets, splits", "test accuracy, %", "of the default", "points behind, median"]
    headings += ["bits, geometric", "of the default", "seconds", "of the default"]
    headings += ["proven optimal for its size", "last setting chosen"]
    return [
        Table("Optimal trees, sparse scores and the default network, on the same splits", headings, means, PROVEN_NOTE),
        Table(
            "Optimal trees and sparse scores, by set",
            ["set", DEFAULT, *grids],
            rows,
            "Test accuracy and bits; an asterisk marks trees that are proven optimal for their size on all splits.",
        ),
        *equal_bits_tables(records),
    ]


def at_equal_bits(records: Records, rival: str) -> dict[str, tuple[float, float]]:
    """Return the mean accuracy of a rival and of the largest additive model that is no larger, by set."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for (name, _), group in grouped(where(records, family=(rival, FEW)), "set", "seed").items():
        models = {record.case["family"]: record.measured["models"] for record in group}
        if len(models) == 2:
            other = models[rival][rival]
            fits = [model for model in models[FEW].values() if model["bits"] <= other["bits"]]
            if fits:
                ours = max(fits, key=lambda model: model["bits"])
                pairs.setdefault(name, []).append((other["test"], ours["test"]))
    means = {name: np.mean(some, axis=0) for name, some in pairs.items()}
    return {name: (float(theirs), float(ours)) for name, (theirs, ours) in means.items()}


def equal_bits_tables(records: Records) -> list[Table]:
    """Return optimal trees and sparse scores beside additive models of no more bits."""
    rows = []
    for rival in proven_rivals.PACKAGES:
        measured = len(grouped(where(records, family=rival), "set"))
        means = at_equal_bits(records, rival)
        if means:
            theirs, ours = 100.0 * np.mean(list(means.values()), axis=0)
            counts = [sum(test(*pair) for pair in means.values()) for test in (lt, eq, gt)]
            rows.append([rival, f"{len(means)} of {measured}", f"{theirs:.1f}", f"{ours:.1f}", *map(str, counts)])
    headings = ["rival", "sets with a model as small", "test accuracy, %", "of the model", "won", "equal", "lost"]
    note = "The largest additive model of no more bits, at the betas above; on other sets, the smallest has more."
    return [Table("Additive models of no more bits", headings, rows, note)] if rows else []


#: Note of the table of means.
PROVEN_NOTE = (
    "Seconds are medians, with ranges. Where the choice is the last setting for which there was time, a larger model"
    " might be better."
)


def _proven_of(measured: list[dict[str, Any]]) -> str:
    """Return on how many splits a model is proven optimal, or nothing for rivals without proofs."""
    proofs = [one["proven"] for one in measured if "proven" in one]
    return f"{sum(proofs)} of {len(proofs)}" if proofs else ""


def _cell(measured: list[dict[str, Any]]) -> str:
    test, bits = (np.mean([entry[what] for entry in measured]) for what in ("test", "bits"))
    return f"{100 * test:.1f} %, {bits:,.0f}" + "\\*" * all(entry.get("proven", False) for entry in measured)


def claims(records: Records) -> list[Claim]:
    grid = grid_of(records)
    front, sets, enough = front_of(points_of(grid)), won(grid), len(grid) >= REPETITIONS

    def against(statement: str, other: str, what: str = "test", **how: Any) -> Claim:
        pair = (mean(grid, model, what) for model in (DEFAULT, other))
        return paired_claim(TARGET, f"The default classifier {statement}", *pair, names=(DEFAULT, other), **how)

    fewer = {"what": "bits", "show": medians, "less": True, "log": True, "margin": np.log(FEWER)}
    wins = f"The default classifier is more accurate than gradient boosting on at least {WON} sets."
    made = [
        against("is at least as accurate as logistic regression, in the mean over sets.", "logistic"),
        against(f"is within {WITHIN} points of gradient boosting, in the mean.", "boosting", margin=-WITHIN / 100.0),
        exact(TARGET, wins, [len(sets) >= WON] if enough else [], f"{len(sets)} of {len(grid)}: {', '.join(sets)}"),
        against(f"takes at most 1/{FEWER} of the bits of gradient boosting.", "boosting", **fewer),
        against('is more accurate than with `encoding="standard"`, in the mean.', STANDARD),
    ]
    for prefix, names in ((STANDARD, (STANDARD, *(f"{STANDARD} {size}" for size in SIZES))), (DEFAULT, (DEFAULT,))):
        holds = {name: name in front for name in names} if enough else {}
        said = f"Networks ({prefix}) are on the Pareto front of mean accuracy and bits, at all sizes."
        group = "Networks are on the Pareto front of mean accuracy and bits, at all sizes"
        made.append(replace(exact(TARGET, said, holds), group=group, case=prefix))
    prefixes = (STANDARD, DEFAULT)
    pairs = [(prefix, rival) for rival in equal_bits(STANDARD) for prefix in prefixes if rival in equal_bits(prefix)]
    return made + [better(prefix, rival, grid) for prefix, rival in pairs]


def better(prefix: str, rival: str, grid: Grid) -> Claim:
    """Compare over the sets where a version of the rival is no larger than the network."""
    bits, ours, theirs = mean(grid, prefix, "bits"), {}, {}
    for name in grid:
        fits = [one for one in equal_bits(prefix)[rival] if mean(grid, one, "bits")[name] <= bits[name]]
        if fits:
            ours[name], theirs[name] = (mean(grid, model)[name] for model in (prefix, fits[0]))
    statement = f"Networks ({prefix}) are more accurate than {rival} of no more bits."
    claim = paired_claim(TARGET, statement, ours, theirs, names=(prefix, rival))
    return replace(claim, group=f"Networks are more accurate than {rival} of no more bits", case=prefix)


def quotes(records: Records) -> dict[str, str]:
    grid = grid_of(records)
    if not grid:
        return {}
    points = points_of(grid)
    texts = {model: f"{100 * accuracy:.1f} %, {kilobits(bits)}" for model, (bits, accuracy) in points.items()}
    named = {
        DEFAULT: "`QuantizedNetworkClassifier()`",
        "boosting": f"boosted trees; less accurate than the network on {len(won(grid))} of {len(grid)} sets",
        "logistic": "logistic regression",
        f"{DEFAULT} logistic": "logistic regression on the inputs that the network chose",
    }
    readme = "\n".join(table_row(words, *texts[model].split(", ")) for model, words in named.items())
    mean_of = f"mean test accuracy over {len(grid)} data sets with the defaults, in {kilobits(points[DEFAULT][0])}"
    linear = f"logistic regression on the same inputs, rounded to 8 bits, {_in_words(texts[SAME_INPUTS])}"
    short = table_row(
        f"**{100 * points[DEFAULT][1]:.1f} %**",
        f"{mean_of}; boosted trees reach {_in_words(texts['boosting'])}, {linear} (bits: geometric means)",
    )
    means = (
        f"{_in_words(texts[DEFAULT])} (boosted trees: {_in_words(texts['boosting'])}), on average over {len(grid)} sets"
    )
    found = {"readme": readme, "short": short, "means": means}
    if (whole := "breast-cancer-wisconsin") in grid:
        found |= {"form": _form_rows(grid[whole]), "linear": _better_linear(grid[whole], texts)}
    grids = {rival: beside(records, rival) for rival in proven_rivals.PACKAGES}
    if not all(grids.values()):
        return found
    compared = [pair for rival in grids for pair in at_equal_bits(records, rival).values()]
    wins, losses = (sum(test(*pair) for pair in compared) for test in (lt, gt))
    few = f"in {wins} of {len(compared)} comparisons, and less accurate in {losses}"
    return found | {"few": few, "proven": f"{_better_proven(grids)} additive models as small are more accurate {few};"}


def _better_proven(grids: Mapping[str, Grid]) -> str:
    """Return bits of optimal trees, sparse scores and the default network, and the points between them."""

    def size(rival: str, model: str) -> str:
        bits, _ = points_of(grids[rival])[model]
        return f"{bits:.0f} bits" if bits < 1e3 else kilobits(bits)

    def behind(rival: str) -> str:
        points = points_behind(grids[rival])
        return f"{abs(points):.1f} points {'behind' if points >= 0.0 else 'ahead'}"

    (first, second), scores = proven_rivals.TREES, proven_rivals.SCORES
    return (
        f"- a few thresholds are accurate enough: optimal trees of up to depth 4 take {size(first, first)} ({first};"
        f" {behind(first)} in the median of {len(grids[first])} sets) or {size(second, second)} ({second};"
        f" {behind(second)}), the default network {size(first, DEFAULT)}. On the {len(grids[scores])} sets of two"
        f" classes, sparse scores take {size(scores, scores)} ({scores}; {behind(scores)}), the network"
        f" {size(scores, DEFAULT)};"
    )


def _better_linear(models: Mapping[str, list[dict[str, Any]]], means: Mapping[str, str]) -> str:
    """Return a set on which rounded logistic regression is the better choice, and its mean over all sets."""
    linear = "logistic, 8 bits"

    def shown(name: str) -> str:
        test, bits = (np.mean([one[what] for one in models[name]]) for what in ("test", "bits"))
        return f"{100 * test:.1f} % accuracy in {bits:,.0f} bits"

    one = f"logistic regression rounded to 8 bits reaches {shown(linear)}, the default network {shown(DEFAULT)}"
    every = f"rounded logistic regression reaches {_in_words(means[linear])}, on the network's inputs"
    every += f" {_in_words(means[SAME_INPUTS])}, and the network {_in_words(means[DEFAULT])}"
    return f"- a linear model is accurate enough: on breast-cancer-wisconsin, {one}. Averaged over all sets, {every};"


def _in_words(mean: str) -> str:
    """Return "85.6 %, 203 kbit" as part of a sentence."""
    return mean.replace(", ", " in ")


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


def methods_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the methods that a case depends on."""
    if case["family"] in proven_rivals.PACKAGES:
        return ("proven_rivals",)
    return () if case["family"] == "rivals" else ESTIMATORS


#: The answer on top of the page.
ANSWER = """\
The default classifier reaches {small_models.means}. It is more accurate than boosted trees
[on at least seven sets]{small_models: on at least 7 sets = 1 supported}, but not shown to be
[within half a point of them]{small_models: within 0.5 points = 1 inconclusive} on average, or to beat
[rounded logistic regression]{small_models: (default) are more accurate than rounded logistic = 1 inconclusive} on the
same inputs in equally many bits.
Among all models compared, it is [on the front]{small_models: (default) are on the Pareto front = 1 supported} of mean
accuracy and bits. Networks of binary weights alone are
[not at all sizes]{small_models: (standard) are on the Pareto front = 1 contradicted}: where a few hundred bits must be
enough, small trees and rounded linear models are better. So it is beside optimal trees and sparse scores: on most sets,
no additive model is as small; where one is, it is more accurate {small_models.few}.
"""

#: Methods whose versions are stored with the records.
MEASURED = (*ESTIMATORS, "proven_rivals")
EXPERIMENT = experiment_in(__name__, "Accuracy against bits", "Targets of the package; the sets of the UCI suite")
