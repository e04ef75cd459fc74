"""What trained networks, their trainings and their data show of themselves in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsdp._html._page import duration, number, panel, size
from qsdp._html._parts import Rows, levels_picture, sizes, spectrum, values_picture
from qsdp._html._picture import bars, curves

if TYPE_CHECKING:
    from qsdp.baselines._history import History
    from qsdp.baselines._layers import QuantizedChain
    from qsdp.baselines.backprop import FloatNetwork, Rounding
    from qsdp.baselines.bpls import BPLSReport
    from qsdp.baselines.quadratic import MultiStart, StartStatistics
    from qsdp.baselines.search import ValidationSearch
    from qsdp.datasets import Dataset
    from qsdp.networks import QuadraticForm
    from qsdp.problem import TrainingProblem

__all__ = [
    "bpls_html",
    "chain_html",
    "dataset_html",
    "float_network_html",
    "form_html",
    "history_html",
    "problem_html",
    "relu_html",
    "rounding_html",
    "search_html",
    "starts_html",
    "statistics_html",
]

#: Layers and classes that are listed at most, and terms of a formula that is written out.
_LISTED, _TERMS = 8, 6


def chain_html(chain: QuantizedChain) -> str:
    """Return storage, and the error and the gap of every layer."""
    rows: Rows = [("layers", str(len(chain.matches))), ("storage", size(chain.n_bits))]
    names = [f"layer {k + 1}" for k in range(len(chain.matches))]
    for name, match in list(zip(names, chain.matches, strict=True))[:_LISTED]:
        gap = number(match.certificate.relative_gap, 3)
        error = number(match.relative_error, 3)
        rows.append((name, f"{sizes(match.network, match.network.n_outputs)}; relative error {error}, gap {gap}"))
    errors = {name: match.relative_error for name, match in zip(names, chain.matches, strict=True)}
    drawn = bars(dict(list(errors.items())[:_LISTED]), lambda error: number(error, 3))
    return panel("QuantizedChain", rows, [drawn])


def history_html(history: History) -> str:
    """Return how long it took, how it ended, and the courses of loss and score."""
    rows: Rows = [("epochs", f"{history.n_epochs} in {duration(float(sum(history.seconds)))}")]
    where = "" if history.diverged is None else f" in epoch {history.diverged}"
    rows.append(("stopped", f"{history.stopped}{where}"))
    measures = {"loss": history.loss, {"r2": "R²"}.get(history.measure, history.measure): history.score}
    pictures = []
    for name, values in {**measures, **history.extra}.items():
        if not values:
            continue
        best = min(values) if name == "loss" else max(values)
        extreme = f", {'smallest' if name == 'loss' else 'largest'} {number(best)}"
        rows.append((name, f"{number(values[-1])} in the end{extreme}"))
        if name in measures:
            pictures.append(curves([np.asarray(values)], f"{name}, epoch by epoch", ("1", str(history.n_epochs))))
    return panel("History", rows, pictures)


def bpls_html(report: BPLSReport) -> str:
    """Return passes and what they came to, the layers' solves of the best one, and simpler models beside it."""
    passes = report.passes
    rows: Rows = [("passes", f"{len(passes)} in {duration(sum(each.seconds for each in passes))}")]
    pictures = [curves([np.array([each.loss for each in passes])], "loss, pass by pass", ("1", str(len(passes))))]
    if passes:
        shown = max(report.best, 1)
        best = passes[shown - 1]
        rows.append(("best", f"pass {shown}" if report.best else "the random weights, before any pass"))
        rows += [("loss", f"{number(best.loss)} after pass {shown}"), ("score", number(best.score))]
        if best.misses is not None:
            rows.append(("misses", f"{best.misses:,} of the training samples"))
        layers = best.layers[:_LISTED]
        for layer in layers:
            ranks = [f"rank {one.rank} of {one.n_columns}, condition {one.condition:.1e}" for one in layer.designs]
            rows.append((f"layer {layer.number}", "; ".join(ranks)))
        rows.append(
            ("cut", f"{_percent(report.clipped_targets)} of the targets, {_percent(best.clipped)} of the hidden values")
        )
        pictures.append(bars({f"solve of layer {layer.number}": layer.seconds for layer in layers}, duration))
    rows += [
        (name, f"loss {number(one.loss)}, score {number(one.score)}, {duration(one.seconds)}")
        for name, one in report.references.items()
    ]
    return panel("BPLSReport", rows, pictures)


def statistics_html(statistics: StartStatistics) -> str:
    """Return mean, deviation and range over the starts."""
    kept = statistics.n_starts - statistics.n_diverged
    deviation = f" ± {_percent(statistics.sd)}" if kept > 1 else ""
    rows = [
        ("starts", f"{statistics.n_starts}, of which {statistics.n_diverged or 'none'} diverged"),
        ("mean", f"{_percent(statistics.mean)}{deviation}" if kept else "none of them"),
    ]
    ends = {"worst": statistics.worst, "mean": statistics.mean, "best": statistics.best}
    return panel("StartStatistics", rows, [bars(ends, _percent)])


def starts_html(starts: MultiStart) -> str:
    """Return what is trained, and where loss and accuracy of all starts together are."""
    rows: Rows = [("estimator", " ".join(repr(starts.estimator).split())), ("starts", str(starts.n_starts))]
    if not hasattr(starts, "history_"):
        return panel("MultiStart", [*rows, ("trained", "not yet")])
    history, diverged = starts.history_, starts.diverged_
    rows.append(("epochs", f"{history.n_epochs} in {duration(float(sum(history.seconds)))}"))
    rows.append(("diverged", f"{len(diverged)} of the starts" if diverged else "none"))
    pictures = []
    for name, values in (("loss", history.loss), ("accuracy", history.score)):
        if values:
            rows.append((f"mean {name}", f"{number(values[-1])} in the end"))
            ends = "1", str(history.n_epochs)
            pictures.append(curves([np.asarray(values)], f"mean {name}, epoch by epoch", ends))
    return panel("MultiStart", rows, pictures)


def relu_html(network: Any) -> str:
    """Return sizes, storage and the first layer of a `ReLUNetwork` or a `QuantizedReLUNetwork`."""
    n_outputs = network.alpha.shape[1] if network.alpha.ndim == 2 else 1
    rows: Rows = [("network", sizes(network, n_outputs)), ("activation", "ReLU")]
    levels = getattr(network, "levels", None)
    if levels is None:
        rows += [("first layer", "real numbers"), ("parameters", f"{network.n_parameters:,}")]
        drawn = values_picture(network.W, "first-layer weights")
    else:
        rows += [("first layer", f"{levels} levels"), ("storage", size(network.n_bits))]
        drawn = levels_picture([network.Q], np.arange(1 - levels, levels, 2))
    return panel(type(network).__name__, rows, [drawn])


def float_network_html(network: FloatNetwork) -> str:
    """Return sizes and the distribution of the first layer."""
    n_outputs = network.alpha.shape[1] if network.alpha.ndim == 2 else 1
    kind = "bilinear" if network.activation is None else f"polynomial {network.activation.coefficients}"
    rows = [
        ("network", sizes(network, n_outputs)),
        ("activation", kind),
        ("first layer", "real numbers"),
        ("parameters", f"{network.n_parameters:,}"),
    ]
    return panel("FloatNetwork", rows, [values_picture(network.factors, "first-layer weights")])


def rounding_html(rounding: Rounding) -> str:
    """Return what was lost, the scales and the levels."""
    m, d = rounding.weights.shape
    M = int(np.abs(rounding.weights).max())
    low, high = float(rounding.scales.min()), float(rounding.scales.max())
    rows = [
        ("weights", f"{m:,} neurons, {d} inputs"),
        ("relative error", number(rounding.relative_error, 4)),
        ("scales", number(low) if low == high else f"{number(low, 4)} to {number(high, 4)}"),
    ]
    # Of how many levels they were asked to be is not known: those up to the largest of the same parity, or all.
    step = 2 if M and np.all((rounding.weights - M) % 2 == 0) else 1
    return panel("Rounding", rows, [levels_picture([rounding.weights], np.arange(-M, M + 1, step))])


def form_html(form: QuadraticForm) -> str:
    """Return inputs, outputs, a short formula and the spectrum."""
    rows: Rows = [("inputs", str(form.n_inputs))]
    if form.vector:
        rows.append(("outputs", str(len(form.S))))
    S, s = (form.S[0], form.s[0]) if form.vector else (form.S, form.s)
    which = " of output 0" if form.vector else ""
    terms = np.count_nonzero(np.triu(S)) + np.count_nonzero(s) + 1
    if terms <= _TERMS:
        formula = form.to_expression()
        rows.append((f"formula{which}", formula[0] if form.vector else formula))
    rows.append((f"norm of S{which}", number(float(np.linalg.norm(S)))))
    rows.append((f"norm of s{which}", number(float(np.linalg.norm(s)))))
    drawn = spectrum([S], f"absolute eigenvalues of S{which}", absolute=True)
    return panel("QuadraticForm", rows, [drawn])


def problem_html(problem: TrainingProblem) -> str:
    """Return data, loss and what kind of network is sought."""
    outputs = f", {problem.n_outputs} outputs" if problem.vector else ""
    kind = "bilinear" if problem.activation is None else f"polynomial {problem.activation.coefficients}"
    at_zero = problem.loss.value(np.zeros_like(problem.y), problem.y)
    rows = [
        ("data", f"{problem.n_samples:,} samples, {problem.n_features} columns{outputs}"),
        ("loss", repr(problem.loss)),
        ("beta", number(problem.beta)),
        ("network", f"{kind}, {problem.levels} levels, D = {problem.dimension}"),
        ("zero network", f"objective {number(at_zero)}"),
    ]
    return panel("TrainingProblem", rows, [values_picture(problem.y, "targets")])


def dataset_html(dataset: Dataset) -> str:
    """Return sizes, columns, targets and where they are from."""
    n, d = dataset.X.shape
    rows: Rows = [
        ("name", dataset.name),
        ("data", f"{n:,} samples, {d} columns"),
        ("task", dataset.task),
        ("columns", _first(dataset.feature_names)),
    ]
    if dataset.n_train is not None:
        rows.append(("usual split", f"the first {dataset.n_train:,} for training"))
    if dataset.description:
        rows.append(("about", dataset.description.splitlines()[0]))
    if dataset.task == "regression":
        return panel("Dataset", rows, [values_picture(dataset.y, dataset.target_names[0])])
    codes = (dataset.y > 0).astype(int) if dataset.task == "binary" else dataset.y.astype(int)
    counts = np.bincount(codes, minlength=len(dataset.target_names)).tolist()
    rows.append(("classes", _first(dataset.target_names)))
    names = [name if len(name) <= 20 else name[:19] + "…" for name in dataset.target_names]
    shares = {f"{k}: {name}" if names.count(name) > 1 else name: counts[k] for k, name in enumerate(names)}
    return panel("Dataset", rows, [bars(dict(list(shares.items())[:_LISTED]), lambda count: f"{count:g}")])


def search_html(search: ValidationSearch) -> str:
    """Return the candidates, the best one and the time."""
    rows: Rows = [("candidates", str(search.n_candidates_))]
    if hasattr(search, "best_params_"):
        rows.append(("best", _first([f"{name} = {value!r}" for name, value in search.best_params_.items()])))
    if hasattr(search, "best_score_"):
        rows.append(("its score", number(search.best_score_)))
    rows.append(("search", duration(search.search_seconds_)))
    rows.append(("fit to all data", duration(search.refit_seconds_)))
    return panel("ValidationSearch", rows)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


def _first(names: Any) -> str:
    """Return the first few of many names."""
    shown = ", ".join(names[:_LISTED])
    shown = " ".join(shown.split())
    return f"{shown}, … ({len(names)} in all)" if len(names) > _LISTED else shown
