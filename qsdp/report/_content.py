"""Variables of the template of a report: texts and numbers by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.summary import first_few, format_count, format_percent
from qsdp._utils.validation import FloatArray
from qsdp.activations import activation_name
from qsdp.encoding.reading_rule import DATE
from qsdp.losses import get_loss
from qsdp.report._scatter import CURVE_SIZE, curve, scatter
from qsdp.report.figures import show_measure, stored_sizes
from qsdp.report.rivals import mean_and_error, rivals_of
from qsdp.report.sizes import encoding_bits
from qsdp.tables.scored import ScoredRows, class_names

if TYPE_CHECKING:
    from qsdp.estimators.explanation import ExplainedColumn, Explanation

__all__ = ["facts_of_model", "facts_of_rows", "measures", "scores_of"]

#: Largest number of classes that are shown in detail, of columns with curves, and of points in a plot.
_CLASSES, _COLUMNS, _POINTS = 12, 10, 1000

#: Largest number of bars, of categories of a column, and of interactions.
_BARS = 12

#: Classes are uneven if the largest has this many times the rows of the smallest; two, because chance makes less.
_UNEVEN = 2.0

#: Parameters that do not concern the model.
_OF_THE_RUN = frozenset({"n_jobs", "verbose", "warm_start"})


#: A line of the comparison with other models.
_Line = tuple[str, str, str, str]


def facts_of_model(model: Any) -> dict[str, Any]:
    """Return what is known without rows: network, size, certificate, effects, columns and parameters."""
    network, certificate, encoder = model.network_, model.certificate_, model._columns_encoder
    source, classes = getattr(model, "table_", None), class_names(model)
    encoding = getattr(encoder, "encoding_", None)
    sizes, additive = stored_sizes(network), network.blocks is not None
    width = encoder.encoding_.width if additive else network.n_inputs
    first_layer = f"{'binary' if network.levels == 2 else f'{network.levels}-level'} first-layer weights"
    inputs = 0 if encoding is None else encoding_bits(encoding)
    return {
        "target": None if source is None else source.target,
        "predicts": _kind_of_target(network, classes),
        "classes": classes,
        "network": format_count(network.n_neurons, width, network.n_outputs),
        "weights": first_layer + (" beside real weights of the inputs" if additive else ""),
        "activation": activation_name(network.activation),
        "loss": f"{get_loss(model._loss).name}, beta {model._trained_beta:g}",
        "bytes": _bytes(min(bits for _, bits in sizes) + inputs),
        "sizes": [(f"network, stored as {what}", _bytes(bits)) for what, bits in sizes]
        + [("means, deviations and thresholds of columns", _bytes(inputs))],
        "certificate": certificate,
        "importances": _bars(model._names(None), getattr(model, "feature_importances_", np.zeros(0))),
        "dropped": list(getattr(encoder, "dropped_", {}).items()),
        "options": _options(model, source),
    }


def _kind_of_target(network: Any, classes: Sequence[str] | None) -> str:
    if classes is not None:
        return f"one of {len(classes)} classes: {first_few(classes)}"
    return "a number" if network.n_outputs == 1 else f"{network.n_outputs} numbers"


def _options(model: Any, source: Any) -> list[tuple[str, str]]:
    """Return the options of training as texts by name."""
    facts = {}
    if source is not None:
        facts["held out"] = f"{100 * source.test_size:g} % of the rows, chosen by seed {source.seed}"
        facts["weights of rows"] = source.weights or "none"
    options = {name: value for name, value in model.get_params(deep=False).items() if name not in _OF_THE_RUN}
    return [(name.replace("_", " "), str(value)) for name, value in (facts | options).items()]


def _bytes(bits: int) -> str:
    return f"{-(-bits // 8):,}"


# -- scores ------------------------------------------------------------------------------------------------


def measures(parts: Sequence[ScoredRows]) -> tuple[str, ...]:
    """Return the names of the scores; accuracy leads unless classes are uneven."""
    classes = class_names(parts[0].model)
    if classes is None:
        return ("R²",)
    truth = np.concatenate([rows.truth for rows in parts]).astype(np.intp)
    counts = np.bincount(truth[truth >= 0], minlength=len(classes))
    uneven = counts.max() >= _UNEVEN * counts.min()
    area = ("AUC",) if len(classes) == 2 else ()
    return ("balanced accuracy", "accuracy", *area) if uneven else ("accuracy", "balanced accuracy", *area)


def scores_of(rows: ScoredRows, names: Sequence[str]) -> dict[str, float]:
    """Return the scores of the model on rows, by the name of the measure; NaN where one is undefined."""
    how: dict[str, Callable[[], float]] = {
        "R²": rows.score,
        "accuracy": rows.score,
        "balanced accuracy": lambda: float(np.mean([*rows.recalls().values()])),
        "AUC": rows.area,
    }
    return {name: how[name]() for name in names}


def facts_of_rows(parts: list[ScoredRows], problem: Any, size: str) -> dict[str, Any]:
    """Return scores of rows, beside those of rivals if the problem is that of the training."""
    names, last, classes = measures(parts), parts[-1], class_names(parts[0].model)
    table = [(part.name, f"{len(part.truth):,}", *(show_measure(*score) for score in scores_of(part, names).items()))
             for part in parts]  # fmt: skip
    facts = {
        "rows": last.name,
        "effects": _effects(parts[0]),
        "measure": names[0],
        "uneven": names[0] == "balanced accuracy",
        "scores": table,
        "header": ("rows", "number", *names),
        "rivals": [] if problem is None else _beside_rivals(parts, problem.sample_weight, names[0], size),
    }
    if classes is None:
        return {**facts, "confusion": [], **_errors(last)}
    counts = last.confusion().astype(np.float64)
    return {**facts, "confusion": _shaded(counts, "{:.0f}".format) if len(classes) <= _CLASSES else [], "errors": []}


def _beside_rivals(parts: list[ScoredRows], weights: FloatArray | None, measure: str, size: str) -> list[_Line]:
    """Return a line for the network, each rival and the most frequent class: name, score, bytes, difference.

    The difference is that to the network on the same rows, with its standard error.
    """
    rows, fitted, classes = parts[-1], parts[0], class_names(parts[0].model)
    ours, counting = _hits(rows, _predicted(rows)), _weights_of(rows, measure)

    def line(name: str, predicted: npt.NDArray[Any], size: str) -> _Line:
        hits = _hits(rows, predicted)
        score, _ = mean_and_error(hits, counting)
        gain, error = mean_and_error(hits - ours, counting)
        points = f"{100.0 * gain:+.1f} ± {100.0 * error:.1f}"
        difference = f"{gain:+.3f} ± {error:.3f}" if classes is None else points
        return name, show_measure(measure, score), size, difference.replace("-", "\u2212")

    # The network has no difference to itself.
    lines = [(*line("this network", _predicted(rows), size)[:3], "")]
    lines += [line(rival.name, rival.predictions[-1], _bytes(rival.bits)) for rival in rivals_of(parts, weights)]
    if classes is not None:
        code, _ = fitted.common_class()
        lines.append(line(f"always {classes[code]!r}", np.full(len(rows.truth), code), ""))
    return lines


def _predicted(rows: ScoredRows) -> npt.NDArray[Any]:
    """Return the classes, or the numbers in the units of outputs, that the network predicts."""
    # Imported here because it loads scikit-learn, which the options of commands do not need.
    from qsdp.estimators.classes import choose_classes

    return choose_classes(rows.values()) if hasattr(rows.model, "classes_") else rows.outputs


def _hits(rows: ScoredRows, predicted: npt.NDArray[Any]) -> FloatArray:
    """Return values of rows whose weighted mean is the score: one for a correct class, terms of R² for numbers."""
    if hasattr(rows.model, "classes_"):
        correct: npt.NDArray[np.bool_] = predicted == rows.truth
        return correct.astype(np.float64)
    truth = rows.truth
    spread = float(np.average((truth - np.average(truth, weights=rows.weights)) ** 2, weights=rows.weights))
    terms: FloatArray = 1.0 - (predicted - truth) ** 2 / (spread or np.nan)
    return terms


def _weights_of(rows: ScoredRows, measure: str) -> FloatArray:
    """Return weights of rows with which the mean of `_hits` is the measure."""
    weights = np.ones(len(rows.truth)) if rows.weights is None else rows.weights
    if measure != "balanced accuracy":
        return weights
    codes = rows.truth.astype(np.intp)
    known = codes >= 0
    totals = np.bincount(codes[known], weights[known])
    # Labels that training did not have belong to no recall.
    return np.where(known, weights / totals[np.maximum(codes, 0)], 0.0)


def _errors(rows: ScoredRows) -> dict[str, Any]:
    name = getattr(getattr(rows.model, "table_", None), "target", "y")
    predicted, true = rows.values(), rows.model.target_scaling_.targets(rows.truth)
    errors = np.abs(predicted - true)
    shown = np.linspace(0, len(true) - 1, min(len(true), _POINTS)).astype(np.intp)
    some = f", {len(shown)} of {len(true)}" if len(shown) < len(true) else ""
    root = float(np.sqrt(np.average(errors**2, weights=rows.weights)))
    texts = {"x_label": f"true {name}", "y_label": f"predicted {name}"}
    return {
        "errors": [
            ("root mean square error", _short(root)),
            ("mean absolute error", _short(float(np.average(errors, weights=rows.weights)))),
        ],
        "scatter": scatter(true[shown], predicted[shown], caption=f"{rows.name}{some}; on the line: exact.", **texts),
    }


# -- effects -----------------------------------------------------------------------------------------------


def _effects(rows: ScoredRows) -> dict[str, Any]:
    """Return importances of columns on rows, and the explanations of outputs."""
    effects, columns = rows.model.effects(rows.table, sample_weight=rows.weights), rows.model._columns_encoder
    dates = {column.name for column in columns.encoding_.columns if column.kind == DATE}
    outputs = [rows.model._explanation(effects, k) for k in range(min(len(effects.outputs), _CLASSES))]
    return {
        "rows": rows.name,
        "bars": _bars(effects.columns, effects.importances),
        "outputs": [_explained(explanation, dates) for explanation in outputs],
        "number": len(effects.outputs),
        "picture": CURVE_SIZE,
    }


def _explained(explanation: Explanation, dates: Container[str]) -> dict[str, Any]:
    """Return the columns of largest main effects with weights and curves, and the largest interactions."""
    columns = [column for column in explanation.columns[:_COLUMNS] if column.size > 0.0]
    values = [effect for column in columns for _, effect in column.curve]
    low, high = min(values, default=0.0), max(values, default=0.0)
    return {
        "name": explanation.output,
        "constant": explanation.constant,
        "low": low,
        "high": high,
        "columns": [_drawn(column, low, high, column.name in dates) for column in columns],
        "interactions": [
            (pair.name, _short(pair.size), format_percent(pair.fraction))
            for pair in explanation.interactions[:_BARS]
            if pair.size > 0.0
        ],
    }


def _drawn(column: ExplainedColumn, low: float, high: float, is_date: bool) -> dict[str, Any]:
    """Return what the page shows of a column: weights of numbers, and a curve or effects of categories."""
    numbers = [point for point in column.curve if type(point[0]) is float]
    others = sorted((point for point in column.curve if type(point[0]) is not float), key=lambda point: -abs(point[1]))
    slope = [f"weight {_short(weight)}" for term, weight in column.weights if term == column.name and numbers]
    steps = sum(term.startswith(f"{column.name} > ") for term, _ in column.weights)
    drawn: dict[str, Any] = {
        "name": column.name,
        "size": _short(column.size),
        "weights": ", ".join([*slope, *([f"{steps} step{'s' * (steps > 1)}"] if steps else [])]),
        "others": [("missing" if value is None else str(value), _short(effect)) for value, effect in others[:_BARS]],
        "points": "",
    }
    if numbers:
        x, y = np.array(numbers).T
        ends = [str(np.datetime64(round(end), "D")) if is_date else _short(end) for end in (x[0], x[-1])]
        drawn["ends"], (drawn["points"], drawn["zero"]) = ends, curve(x, y, low, high)
    return drawn


def _bars(names: Sequence[str], importances: FloatArray) -> list[tuple[str, float, str]]:
    """Return the columns with the largest importances, each with its importance as number and text."""
    order = np.argsort(-importances, kind="stable")[:_BARS].tolist()
    largest = [(names[j], float(importances[j])) for j in order if importances[j] > 0.0]
    return [(name, value, format_percent(value)) for name, value in largest]


def _shaded(values: FloatArray, show: Callable[[float], str]) -> list[list[tuple[float, str]]]:
    """Return the cells of a heat map: each value divided by the largest, and its text, which is empty for NaN."""
    largest = float(np.nanmax(values, initial=0.0)) or 1.0
    return [[(value / largest, "" if math.isnan(value) else show(value)) for value in row] for row in values.tolist()]


def _short(size: float) -> str:
    return f"{size:,.0f}" if 1000.0 <= abs(size) < 1e9 else f"{size:.4g}"
