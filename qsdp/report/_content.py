"""The sections of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from qsdp._utils.summary import format_bits, format_number, format_share
from qsdp._utils.validation import FloatArray
from qsdp.activations import activation_name
from qsdp.certificates import Certificate
from qsdp.encoding import Encoding, Expression
from qsdp.losses import get_loss
from qsdp.networks import BilinearNetwork, Effects
from qsdp.report._blocks import BarChart, Block, Curve, Grid, Interval, Paragraph, Scatter, Section, TextTable
from qsdp.report._measure import Sizes
from qsdp.report.figures import score_name, show_score, stored_sizes
from qsdp.tables.scored import ScoredRows, class_names
from qsdp.tables.training import beta_of

__all__ = [
    "accuracy_section",
    "bound_bar",
    "certificate_section",
    "encoding_section",
    "interaction_section",
    "network_section",
    "sizes_section",
    "sizes_table",
]

#: Largest number of classes in a confusion matrix, of columns in the grid of interactions, and of scatter points.
_CLASSES, _COLUMNS, _POINTS = 12, 10, 1000

#: Largest number of lines of a list, and of listed thresholds or categories of a column.
_LINES, _LISTED = 12, 6


def certificate_section(model: Any) -> Section:
    """Return lower bound, objective and gap, with their meaning."""
    kind = "binary first-layer weights" if model.network_.levels == 2 else f"{model.network_.levels} first-layer levels"
    meaning = (
        f"The lower bound holds for every network with {kind} and any number of neurons, however it is found, on these "
        "training rows with this encoding, loss and beta: none has a smaller training objective."
    )
    check = (
        "The certificate is about the training objective; it does not say how well rows are predicted that were not "
        "seen. `qsdp certify MODEL TRAIN.csv` recomputes bound and objective from the data and writes a file that "
        "`qsdp-check` verifies with NumPy alone."
    )
    proven = model.certificate_
    bound = format_number(proven.lower_bound)
    if math.isnan(proven.objective):
        unknown = "The objective of this network is not known: give the file it was trained on."
        facts = TextTable((), [("lower bound", bound, "of every network"), ("objective", "not known", "")])
        return Section("Certificate", [Paragraph(meaning), Paragraph(unknown), facts, Paragraph(check)])
    share = format_share(proven.relative_gap, ".3g")
    units = "" if class_names(model) else ", for the standardised target"
    rows = [
        ("lower bound", bound, "of every network"),
        ("objective", format_number(proven.objective), f"of this network{units}"),
        ("gap", format_number(proven.gap, 4), f"{share} of the objective"),
    ]
    return Section(
        "Certificate",
        [
            Paragraph(f"{meaning} No network of this kind improves on this objective by more than {share}."),
            bound_bar(proven),
            TextTable((), rows, numbers=frozenset({1})),
            Paragraph(check),
        ],
    )


def bound_bar(certificate: Certificate) -> Interval:
    """Return lower bound and objective on one scale."""
    share = format_share(certificate.relative_gap, ".3g")
    scale = "Solid: the lower bound for every network. Hatched: the largest possible improvement, "
    return Interval(certificate.lower_bound, certificate.objective, f"{scale}{share}.")


def network_section(model: Any) -> Section:
    """Return a description of the network, and its bits beside those of the equivalent quadratic form."""
    network = model.network_
    activation = network.activation
    polynomial = "" if activation is None else f": {activation}"
    facts = [
        ("neurons", f"{network.n_neurons:,}"),
        ("inputs", f"{network.n_inputs}, made of {len(model.encoder_.encoding_.used)} columns"),
        ("outputs", str(network.n_outputs)),
        ("first-layer weights", "binary" if network.levels == 2 else f"{network.levels} levels"),
        ("second-layer weights", "one magnitude for each output" if network.shared_alpha else "free"),
        ("activation", activation_name(activation) + polynomial),
        ("loss", f"{get_loss(model.loss).name}, beta {beta_of(model):g}"),
    ]
    return Section("Network and size", [TextTable((), facts), sizes_table(network)])


def sizes_table(network: BilinearNetwork) -> TextTable:
    """Return the bits of a network and of equivalent forms."""
    sizes = [(what, format_bits(bits)) for what, bits in stored_sizes(network)]
    return TextTable(("stored as", "size"), sizes)


def accuracy_section(model: Any, parts: Sequence[ScoredRows]) -> Section:
    """Return the score of each set of rows, with the confusion matrix or the residuals of the last set."""
    classes, judged = class_names(model), parts[-1]
    number = classes is None
    label = score_name(number=number)
    scores = [[one.name, str(len(one.truth)), show_score(one.score(), number=number)] for one in parts]
    header: tuple[str, ...] = ("rows", "number", label)
    if not number:
        header += ("most frequent class alone",)
        for row, one in zip(scores, parts, strict=True):
            row.append(show_score(one.common_share(), number=False))
    blocks: list[Block] = [TextTable(header, scores, numbers=frozenset(range(1, len(header))))]
    if judged.weights is not None:
        blocks.append(Paragraph(f"Rows are weighted by the column `{model.table_.weights}`."))
    blocks += _residuals(judged) if classes is None else _confusion(judged, classes)
    return Section("Accuracy", blocks)


def _confusion(rows: ScoredRows, classes: Sequence[str]) -> list[Block]:
    counts = rows.confusion()
    hits, true, predicted = np.diagonal(counts), counts.sum(axis=1), counts.sum(axis=0)
    each = [
        (name, str(n), _share(hit, n), _share(hit, m))
        for name, n, m, hit in zip(classes, true.tolist(), predicted.tolist(), hits.tolist(), strict=True)
    ]
    found = TextTable(
        ("class", rows.name, "recall", "precision"),
        each,
        numbers=frozenset({1, 2, 3}),
        caption="Recall: the share of a class that is predicted as such. "
        "Precision: the share of predictions of a class that are correct.",
        folded=len(classes) > _CLASSES,
    )
    if len(classes) <= _CLASSES:
        texts = [list(map(str, row)) for row in counts.tolist()]
        caption = f"Numbers of {rows.name}: true class by line, predicted class by column."
        return [Grid(classes, classes, counts.astype(np.float64), texts, "true \\ predicted", caption), found]
    wrong = [
        (classes[i], classes[j], str(counts[i, j]))
        for i, j in sorted(np.argwhere(counts).tolist(), key=lambda pair: -int(counts[pair[0], pair[1]]))
        if i != j
    ]
    caption = f"Most frequent confusions of {rows.name}."
    return [TextTable(("true", "predicted", "rows"), wrong[:_LINES], frozenset({2}), caption), found]


def _residuals(rows: ScoredRows) -> list[Block]:
    predicted, true = rows.values(), rows.true_values()
    errors = predicted - true
    quantiles = np.quantile(np.abs(errors), [0.5, 0.9, 0.99]).tolist()
    name = rows.model.table_.target
    facts = [
        ("root mean square error", format_number(float(np.sqrt(np.average(errors**2, weights=rows.weights))), 4)),
        ("mean absolute error", format_number(float(np.average(np.abs(errors), weights=rows.weights)), 4)),
        ("half, 90 %, 99 % of errors are below", ", ".join(format_number(value, 4) for value in quantiles)),
    ]
    shown = np.linspace(0, len(true) - 1, min(len(true), _POINTS)).astype(np.intp)
    caption = f"{rows.name}, {len(shown)} of {len(true)}; on the line: exact." if len(shown) < len(true) else ""
    caption = caption or f"{rows.name}; on the line: exact."
    scatter = Scatter(true[shown], predicted[shown], f"true {name}", f"predicted {name}", caption)
    return [TextTable((), facts, caption=f"Errors of {rows.name}."), scatter]


def _share(part: int, whole: int) -> str:
    return format_share(part / whole) if whole else "-"


def sizes_section(model: Any, sizes: Sizes, rows: ScoredRows) -> Section:
    """Return gap and score against the number of neurons."""
    network, number = model.network_, class_names(model) is None
    label = score_name(number=number)
    draws = sizes.scores.shape[1]
    refined = model.refined_
    star = "this network" if refined == "none" else f"this network, refined by {refined}"
    words = "Networks of other sizes are samples of the same solution of the relaxation, without another solve"
    words += "." if refined == "none" else f" and without the refinement ({refined}) that this network had."
    negative = ", shown as 0 where it is negative" if number and sizes.scores.min() < 0.0 else ""
    names = ("number of neurons", f"{label} of {rows.name}{negative}")
    line, charts = f"mean and range of {draws} sampled networks", list[Block]()
    header, cells = ["neurons", "bits"], [[f"{m:,.0f}" for m in sizes.neurons], [f"{bits:,}" for bits in sizes.bits]]
    if sizes.gaps is not None:
        point = (float(network.n_neurons), model.certificate_.relative_gap)
        charts.append(Curve(sizes.neurons, sizes.gaps, names[0], "relative gap", point, star, line, True))
        header.append("relative gap")
        cells.append([format_share(float(value)) for value in sizes.gaps.mean(axis=1)])
    point = (float(network.n_neurons), rows.score())
    shown = np.maximum(sizes.scores, 0.0) if number else sizes.scores
    charts.append(Curve(sizes.neurons, shown, *names, point, star, line, not number))
    header.append(label)
    cells.append([show_score(float(value), number=number) for value in sizes.scores.mean(axis=1)])
    table = TextTable(
        header, list(zip(*cells, strict=True)), frozenset(range(1, len(header))), "The means as a table", True
    )
    return Section("Other numbers of neurons", [Paragraph(words), *charts, table])


def interaction_section(effects: Effects, target: str, name: str, *, number: bool) -> Section:
    """Return importances of columns, and sizes of main effects and interactions."""
    several, G = len(effects.outputs) > 1, len(effects.columns)
    main = np.sqrt((effects.main.reshape(-1, G) ** 2).sum(axis=0))
    pairs = np.sqrt((effects.interactions.reshape(-1, G, G) ** 2).sum(axis=0))
    importances = effects.importances
    order = np.argsort(-importances, kind="stable")
    order = order[: max(1, np.count_nonzero(importances))]
    shown = order[:_COLUMNS]
    what = f"prediction of `{target}`" if number else f"score of `{target}`"
    words = (
        f"{'Every' if several else 'The'} {what} is a constant, plus a function of each column (its main effect), plus "
        "a function of each pair of columns (their interaction): exactly, with nothing left over. The size of an "
        f"effect is its standard deviation over the {name}, in the units of the {'prediction' if number else 'score'}"
    )
    words += "; those of all outputs are added as squares." if several else "."
    bars = [
        (effects.columns[j], float(importances[j]), format_share(float(importances[j])))
        for j in order[:_LINES].tolist()
    ]
    left = f", the first {len(bars)} of {len(order)}" if len(bars) < len(order) else ""
    return Section(
        "Effects and interactions",
        [
            Paragraph(words),
            BarChart(
                bars, f"Importance: share of a column in all effects, half of an interaction to each column{left}."
            ),
            _effect_grid([effects.columns[j] for j in shown.tolist()], main[shown], pairs[np.ix_(shown, shown)]),
            _largest_effects(effects.columns, main, pairs),
        ],
    )


def _effect_grid(names: Sequence[str], main: FloatArray, pairs: FloatArray) -> Grid:
    sizes = np.where(np.tri(len(main), k=-1, dtype=bool), np.nan, pairs + np.diag(main))
    texts = [["" if np.isnan(size) else _short(size) for size in row] for row in sizes.tolist()]
    caption = "Sizes of main effects, on the diagonal, and of interactions."
    return Grid(names, names, sizes, texts, caption=caption)


def _short(size: float) -> str:
    return f"{size:,.0f}" if abs(size) >= 1000.0 else f"{size:.3g}"


def _largest_effects(columns: Sequence[str], main: FloatArray, pairs: FloatArray) -> TextTable:
    places = [*((j, j) for j in range(len(columns))), *combinations(range(len(columns)), 2)]
    sizes = np.array([main[i] if i == j else pairs[i, j] for i, j in places])
    total = float((sizes**2).sum()) or 1.0
    rows = [
        (
            columns[i] if i == j else f"{columns[i]} * {columns[j]}",
            _short(float(sizes[place])),
            format_share(float(sizes[place] ** 2) / total),
        )
        for place in np.argsort(-sizes, kind="stable")[:_LINES].tolist()
        for i, j in [places[place]]
        if sizes[place] > 0.0
    ]
    return TextTable(("effect", "size", "share"), rows, frozenset({1, 2}), "The largest effects", folded=True)


def encoding_section(encoder: Any) -> Section:
    """Return the inputs of the network by column."""
    encoding = encoder.encoding_.trimmed()
    rows = [
        (
            column.name,
            "number" if column.categories is None else "text",
            _inputs(encoding, position),
            _missing(encoding, position),
        )
        for position, column in enumerate(encoding.columns)
    ]
    blocks: list[Block] = [
        Paragraph(
            f"{len(encoding.columns)} columns become {encoding.width} inputs. Entries of text that training did "
            "not have count as none of the categories."
        ),
        TextTable(("column", "read as", "inputs", "missing entries"), rows),
    ]
    if encoder.dropped_:
        blocks.append(TextTable(("column not used", "why"), list(encoder.dropped_.items())))
    return Section("Encoding of columns", blocks)


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
    """Return the formula of a numeric input, with its limits."""
    text = f"({one.column} {'-' if one.center >= 0.0 else '+'} {_short(abs(one.center))}) / {_short(one.scale)}"
    return text if one.low is None or one.high is None else f"{text}, cut at {_short(one.low)} and {_short(one.high)}"


def _missing(encoding: Encoding, position: int) -> str:
    column = encoding.columns[position]
    marked = any(one.kind == "missing" and one.position == position for one in encoding.expressions)
    parts = ["a bit"] if marked else []
    if column.fill is not None:
        parts.append(f"{_short(column.fill)}, the median")
    return ", and ".join(parts) or "no category"
