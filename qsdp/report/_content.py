"""Variables of the report templates for a model: texts and numbers by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from qsdp._utils.gap import relative
from qsdp._utils.summary import first_few, format_bits, format_count, format_number, format_share
from qsdp._utils.validation import FloatArray
from qsdp.activations import activation_name
from qsdp.encoding import Encoding, Expression
from qsdp.estimators.source import TableSource
from qsdp.losses import get_loss
from qsdp.networks import BilinearNetwork, BlockNetwork, Effects
from qsdp.report._charts import curve, scatter
from qsdp.report._filters import filters_of
from qsdp.report._model import (
    Judged,
    options_of,
)
from qsdp.report.figures import WITHOUT_PERCENT, show_measure, stored_sizes
from qsdp.sampling import sample_network
from qsdp.tables.scored import ScoredRows, class_names

__all__ = ["facts_of_model", "leading", "measured", "measures", "sizes_of"]

#: Largest number of classes in a confusion matrix, of columns in the grid of interactions, and of scatter points.
_CLASSES, _COLUMNS, _POINTS = 12, 10, 1000

#: Largest number of lines of a list, and of listed thresholds or categories of a column.
_LINES, _LISTED = 12, 6

#: Classes are uneven if the largest has this many times the rows of the smallest; two, because chance makes less.
_UNEVEN = 2.0

#: Numbers of neurons of the sampled networks.
_SIZES = (10, 30, 100, 300, 1000, 3000)


def facts_of_model(model: Any, judged: Judged | None, n_draws: int) -> dict[str, Any]:
    """Return the template variables of a model, with scores and effects if it was evaluated on a table."""
    # Imported here because it loads scikit-learn, which the options of commands do not need.
    from qsdp.estimators.inputs import makes_blocks

    network, certificate, classes, encoder = (
        model.network_,
        model.certificate_,
        class_names(model),
        model.encoder_,
    )
    source, blocks = getattr(model, "table_", None), makes_blocks(encoder)
    kind = ("any of {} labels" if getattr(model, "_several", False) else "one of {} classes").format(len(classes or ()))
    kind = kind if classes else "a number" if network.n_outputs == 1 else f"{network.n_outputs} numbers"
    # Columns without an input are those not used, with their reasons.
    encoding = encoder.encoding_.trimmed() if hasattr(encoder, "encoding_") else None
    columns = [] if encoding is None else _columns(encoding)
    inputs = f"{network.n_inputs}, made of {len(columns)} columns" if columns else str(network.n_inputs)
    facts = {
        "neurons": f"{network.n_neurons:,}",
        "inputs": inputs,
        "outputs": f"{network.n_outputs}, for {kind}" + (f": {first_few(classes)}" if classes else ""),
        **(dict(network._summary().rows[1:2]) if blocks else _facts_of_weights(network)),
        "loss": f"{get_loss(model.loss).name}, beta {model._trained_beta:g}",
    }
    importances = None if judged else getattr(model, "feature_importances_", None)
    return {
        "network": network,
        "levels": getattr(network, "levels", 2),
        "certificate": certificate,
        "known": not math.isnan(certificate.objective),
        "classes": classes,
        "target": None if source is None else source.target,
        "predicts": kind,
        "size": format_count(network.n_neurons, network.n_inputs, network.n_outputs),
        "network_facts": list(facts.items()),
        "stored_sizes": sizes_of(network),
        "refined": model.refined_,
        "filters": filters_of(model) if blocks else [],
        "columns": columns,
        "width": None if encoding is None else encoding.width,
        "dropped": list(getattr(encoder, "dropped_", {}).items()),
        "options": options_of(model),
        "trained_with": getattr(model, "provenance_", {}),
        "judged": _judged_facts(judged, n_draws) if judged else None,
        "effects": _effects(judged.effects, judged.parts[0].name) if judged and judged.effects else None,
        "importances": [] if importances is None else _bars(model._names(None), importances),
    }


def _facts_of_weights(network: BilinearNetwork) -> dict[str, str]:
    activation = network.activation
    return {
        "first-layer weights": "binary" if network.levels == 2 else f"{network.levels} levels",
        "second-layer weights": "one magnitude for each output" if network.shared_alpha else "free",
        "activation": activation_name(activation) + ("" if activation is None else f": {activation}"),
    }


def sizes_of(network: BilinearNetwork | BlockNetwork) -> list[tuple[str, str]]:
    """Return the bits of a network and of equivalent forms."""
    return [(what, format_bits(bits)) for what, bits in stored_sizes(network)]


# -- accuracy ----------------------------------------------------------------------------------------------


def measures(judged: Judged) -> tuple[str, ...]:
    """Return the names of the scores, the most informative first: not accuracy if classes are uneven."""
    classes = class_names(judged.model)
    if classes is None:
        return ("R²",)
    by_class = ("AUC", "balanced accuracy") if len(classes) == 2 else ("balanced accuracy",)
    return (*by_class, "accuracy") if _is_uneven(judged) else ("accuracy", *by_class)


def leading(names: Sequence[str]) -> Sequence[str]:
    """Return the names of the scores in a summary: all if the classes are imbalanced, else the first."""
    return names[:1] if names[0] in {"R²", "accuracy"} else names


def measured(rows: ScoredRows, measure: str, network: Any = None) -> float:
    """Return a score of the model on rows, with its network or another one; nan if undefined."""
    if measure in {"R²", "accuracy"}:
        return float(rows.score(network))
    if measure == "balanced accuracy":
        return float(np.mean([*rows.recalls(network).values()]))
    return float(rows.area(network))


def _is_uneven(judged: Judged) -> bool:
    truth = np.concatenate([rows.truth for rows in judged.parts]).astype(np.intp)
    counts = np.bincount(truth[truth >= 0], minlength=len(class_names(judged.model) or ()))
    return bool(counts.max(initial=0) >= _UNEVEN * counts.min(initial=len(truth)))


def _judged_facts(judged: Judged, n_draws: int) -> dict[str, Any]:
    model, rows, names = judged.model, judged.parts[-1], measures(judged)
    classes, source = class_names(model), getattr(model, "table_", TableSource("y"))
    scores = [[show_measure(name, measured(part, name)) for name in names] for part in judged.parts]
    table = [[part.name, str(len(part.truth)), *row] for part, row in zip(judged.parts, scores, strict=True)]
    facts = {
        "rows": rows.name,
        # Where classes are even, the other measures add nothing to the accuracy.
        "scores": ", ".join(f"{name} {text}" for name, text in zip(leading(names), scores[-1], strict=False)),
        "uneven": len(leading(names)) > 1,
        "table": table,
        "header": ["rows", "number", *names],
        "weighted_by": None if rows.weights is None else source.weights or "sample_weight",
        **_sizes(judged, names[0], n_draws, source.seed),
    }
    if classes is None:
        return facts | _residuals(rows, source.target)
    facts["header"].append("most frequent class alone")
    shares = [part.common_class() for part in judged.parts]
    for line, (_, share) in zip(table, shares, strict=True):
        line.append(format_share(share))
    largest, common = shares[-1]
    return facts | {"largest": classes[largest], "common": common} | _confusion(rows, classes)


def _confusion(rows: Any, classes: Sequence[str]) -> dict[str, Any]:
    """Return recalls, precisions and confusions of classes: a matrix for few classes, the largest entries for many."""
    counts, weights = rows.confusion(), rows.confusion(weighted=True)
    hits, true, predicted = np.diagonal(weights), weights.sum(axis=1), weights.sum(axis=0)
    each = zip(classes, counts.sum(axis=1).tolist(), true.tolist(), predicted.tolist(), hits.tolist(), strict=True)
    pairs = sorted(np.argwhere(counts).tolist(), key=lambda pair: -int(counts[pair[0], pair[1]]))
    wrong = [(classes[i], classes[j], str(counts[i, j])) for i, j in pairs if i != j]
    few = len(classes) <= _CLASSES
    return {
        "by_class": [(name, str(n), _share(hit, t), _share(hit, p)) for name, n, t, p, hit in each],
        "confusion": _shaded(counts.astype(np.float64), "{:.0f}".format) if few else [],
        "confused": wrong[:_LINES],
    }


def _share(part: float, whole: float) -> str:
    return format_share(part / whole) if whole else "-"


def _residuals(rows: Any, name: str) -> dict[str, Any]:
    predicted, true = rows.values(), rows.model.target_scaling_.targets(rows.truth)
    errors = np.abs(predicted - true)
    shown = np.linspace(0, len(true) - 1, min(len(true), _POINTS)).astype(np.intp)
    some = f", {len(shown)} of {len(true)}" if len(shown) < len(true) else ""
    quantiles = np.quantile(errors, [0.5, 0.9, 0.99]).tolist()
    return {
        "errors": [
            ("root mean square error", format_number(float(np.sqrt(np.average(errors**2, weights=rows.weights))), 4)),
            ("mean absolute error", format_number(float(np.average(errors, weights=rows.weights)), 4)),
            ("half, 90 %, 99 % of errors are below", ", ".join(format_number(value, 4) for value in quantiles)),
        ],
        "scatter": scatter(
            true[shown],
            predicted[shown],
            x_label=f"true {name}",
            y_label=f"predicted {name}",
            caption=f"{rows.name}{some}; on the line: exact.",
        ),
    }


# -- other sizes -------------------------------------------------------------------------------------------


def _sizes(judged: Judged, measure: str, n_draws: int, seed: int) -> dict[str, Any]:
    """Return gaps and a score of networks of other sizes, sampled from the same solution.

    Gaps need the problem of the training.
    """
    model, rows, network = judged.model, judged.parts[-1], judged.model.network_
    rng, bound, solution = np.random.default_rng(seed), model.certificate_.lower_bound, model._solution_of_relaxation()
    if solution is None:
        return {"sizes": []}
    covariance = solution.covariance(getattr(network, "levels", 2), network.output_shape)
    sizes = [size for size in _SIZES if size >= network.n_outputs]
    drawn = [
        [sample_network(covariance, size, rng, allocation=model.allocation) for _ in range(n_draws)] for size in sizes
    ]
    refined, here = model.refined_, float(network.n_neurons)
    texts = {
        "x_label": "number of neurons",
        "caption": f"mean and range of {n_draws} sampled networks",
        "star_name": "this network" if refined == "none" else f"this network, refined by {refined}",
    }
    table = {"neurons": [f"{size:,}" for size in sizes], "bits": [f"{networks[0].n_bits:,}" for networks in drawn]}
    curves = []
    if judged.problem is not None:
        objectives = np.array([[judged.problem.objective(one) for one in networks] for networks in drawn])
        gaps = np.vectorize(relative)(objectives - bound, objectives)
        point = here, model.certificate_.relative_gap
        curves.append(curve(sizes, gaps, point, percent=True, y_label="relative gap", **texts))
        table["relative gap"] = [format_share(float(value)) for value in gaps.mean(axis=1)]
    scores = np.array([[measured(rows, measure, one) for one in networks] for networks in drawn])
    table[measure] = [show_measure(measure, float(value)) for value in scores.mean(axis=1)]
    if np.all(np.isfinite(scores)):
        label = f"{measure} of {rows.name}" + (", shown as 0 where it is negative" if scores.min() < 0.0 else "")
        point = here, measured(rows, measure)
        percent = measure not in WITHOUT_PERCENT
        curves.append(curve(sizes, np.maximum(scores, 0.0), point, percent=percent, y_label=label, **texts))
    return {"curves": curves, "sizes": list(zip(*table.values(), strict=True)), "sizes_header": list(table)}


# -- effects -----------------------------------------------------------------------------------------------


def _effects(effects: Effects, rows: str) -> dict[str, Any]:
    """Return importances of columns, and sizes of main effects and interactions."""
    G = len(effects.columns)
    main = np.sqrt((effects.main.reshape(-1, G) ** 2).sum(axis=0))
    pairs = np.sqrt((effects.interactions.reshape(-1, G, G) ** 2).sum(axis=0))
    shown = np.argsort(-effects.importances, kind="stable")[
        : min(_COLUMNS, max(1, np.count_nonzero(effects.importances)))
    ]
    sizes = np.where(np.tri(len(shown), k=-1, dtype=bool), np.nan, pairs[np.ix_(shown, shown)] + np.diag(main[shown]))
    bars = _bars(effects.columns, effects.importances)
    return {
        "several": len(effects.outputs) > 1,
        "rows": rows,
        "bars": bars,
        "left": f", the first {len(bars)} of {G}" if len(bars) < G else "",
        "names": [effects.columns[j] for j in shown.tolist()],
        "cells": _shaded(sizes, _short),
        "largest": _largest_effects(effects.columns, main, pairs),
    }


def _bars(names: Sequence[str], importances: FloatArray) -> list[tuple[str, float, str]]:
    """Return the columns with the largest importances, each with its importance as number and text."""
    order = np.argsort(-importances, kind="stable")[:_LINES].tolist()
    values = [(names[j], float(importances[j])) for j in order if importances[j] > 0.0]
    return [(name, value, format_share(value)) for name, value in values]


def _largest_effects(columns: Sequence[str], main: FloatArray, pairs: FloatArray) -> list[tuple[str, str, str]]:
    places = [*((j, j) for j in range(len(columns))), *combinations(range(len(columns)), 2)]
    sizes = np.array([main[i] if i == j else pairs[i, j] for i, j in places])
    shares = sizes**2 / (float((sizes**2).sum()) or 1.0)
    largest = [(*places[k], float(sizes[k]), float(shares[k])) for k in np.argsort(-sizes, kind="stable")[:_LINES]]
    return [
        (columns[i] if i == j else f"{columns[i]} * {columns[j]}", _short(size), format_share(share))
        for i, j, size, share in largest
        if size > 0.0
    ]


def _shaded(values: FloatArray, show: Callable[[float], str]) -> list[list[tuple[float, str]]]:
    """Return the cells of a heat map: each value divided by the largest, and its text, which is empty for nan."""
    largest = float(np.nanmax(values, initial=0.0)) or 1.0
    return [[(value / largest, "" if math.isnan(value) else show(value)) for value in row] for row in values.tolist()]


def _short(size: float) -> str:
    return f"{size:,.0f}" if abs(size) >= 1000.0 else f"{size:.3g}"


# -- encoding ----------------------------------------------------------------------------------------------


def _columns(encoding: Encoding) -> list[tuple[str, str, str, str]]:
    """Return rows of the table of columns: name, type, inputs computed from it, treatment of missing entries."""
    return [
        (
            column.name,
            "number" if column.categories is None else "text",
            _inputs(encoding, position),
            _missing(encoding, position),
        )
        for position, column in enumerate(encoding.columns)
    ]


def _inputs(encoding: Encoding, position: int) -> str:
    own = [one for one in encoding.expressions if one.position == position]
    parts = [_scaled(one) for one in own if one.kind == "value"]
    for kind, sign in (("above", ">"), ("equals", "==")):
        some = [one.name.removeprefix(f"{one.column} ").removeprefix(f"{sign} ") for one in own if one.kind == kind]
        if some:
            listed = ", ".join(some[:_LISTED]) + (f", … ({len(some)} in all)" if len(some) > _LISTED else "")
            parts.append(f"{'bits' if len(some) > 1 else 'bit'} {sign} {listed}")
    return "; ".join(parts) or "-"


def _scaled(one: Expression) -> str:
    """Return the formula of a standardised numeric input, with its clipping limits."""
    text = f"({one.column} {'-' if one.center >= 0.0 else '+'} {_short(abs(one.center))}) / {_short(one.scale)}"
    return text if one.low is None or one.high is None else f"{text}, cut at {_short(one.low)} and {_short(one.high)}"


def _missing(encoding: Encoding, position: int) -> str:
    column = encoding.columns[position]
    marked = any(one.kind == "missing" and one.position == position for one in encoding.expressions)
    parts = ["a bit"] if marked else []
    if column.fill is not None:
        parts.append(f"{_short(column.fill)}, the median")
    return ", and ".join(parts) or "no category"
