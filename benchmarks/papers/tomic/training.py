"""Algorithms 1 and 2: least-squares passes, the refit after them, the choice of the pass to keep, and reports."""

from __future__ import annotations

import dataclasses
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.papers.tomic.network import Network
from benchmarks.papers.tomic.passes import LayerReport, LayerSolve, backward_pass, blend, fit_readout
from qsdp._utils.summary import Rows, Summarized, Summary, format_number, format_percent, format_seconds
from qsdp._utils.validation import FloatArray
from qsdp.estimators.classes import choose_classes

__all__ = ["BPLSReport", "BPLSTraining", "Classification", "PassReport", "Reference", "Regression", "references"]

#: Maximum number of layers in a summary.
_LISTED = 8


@dataclass(frozen=True)
class PassReport:
    """Report on one pass over all samples, or over the misclassified ones.

    Attributes
    ----------
    n_samples : int
        Number of samples in the pass.
    share : float
        Share with which the new weights were blended into the old ones; 1 in a pass over all samples.
    loss, score : float
        Loss and score on all training data after the pass, as in the history.
    misses : int or None
        Number of misclassified samples after the pass; None for a regressor.
    seconds : float
    layers : tuple of LayerReport
    """

    n_samples: int
    share: float
    loss: float
    score: float
    misses: int | None
    seconds: float
    layers: tuple[LayerReport, ...]

    @property
    def n_solves(self) -> int:
        """Number of weight vectors solved for; it depends on the widths, not on the data."""
        return sum(layer.n_solves for layer in self.layers)

    @property
    def clipped(self) -> float:
        """Fraction of the desired hidden values that were clipped, averaged over hidden layers; 0 if there are none."""
        shares = [layer.clipped for layer in self.layers if layer.clipped is not None]
        return sum(shares) / len(shares) if shares else 0.0


@dataclass(frozen=True, eq=False)
class Reference:
    """A simpler reference model, trained by the same solves on the same data.

    Attributes
    ----------
    network : Network
    loss, score : float
        Loss and score on the training data, as in the history.
    seconds : float
    """

    network: Network
    loss: float
    score: float
    seconds: float


@dataclass(eq=False)
class BPLSReport(Summarized):
    """Report on a training run of back-propagating least squares.

    Attributes
    ----------
    passes : list of PassReport
        One per epoch of the history, and one more if the last pass diverged.
    clipped_targets : float
        Fraction of the targets that the output activation cannot reach and that were clipped.
    best : int
        Number, from 1, of the pass whose weights are those of the network; 0 for the random weights.
    references : dict of Reference
        "linear least squares" (in regression, without ridge) and "random hidden layers" with a last layer fitted with
        the training's ridge; empty unless requested.
    """

    passes: list[PassReport] = field(default_factory=list)
    clipped_targets: float = 0.0
    best: int = 0
    references: dict[str, Reference] = field(default_factory=dict)

    def _summary(self) -> Summary:
        rows: Rows = [("passes", f"{len(self.passes)} in {format_seconds(sum(each.seconds for each in self.passes))}")]
        if self.passes:
            rows += self._best_rows()
        for name, one in self.references.items():
            figures = f"loss {format_number(one.loss)}, score {format_number(one.score)}, {format_seconds(one.seconds)}"
            rows.append((name, figures))
        return Summary("BPLSReport", rows)

    def _best_rows(self) -> Rows:
        """Return summary rows for the best pass and the solves of its layers."""
        shown = max(self.best, 1)
        best = self.passes[shown - 1]
        rows: Rows = [
            ("best", f"pass {shown}" if self.best else "the random weights, before any pass"),
            ("loss", f"{format_number(best.loss)} after pass {shown}"),
            ("score", format_number(best.score)),
        ]
        if best.misses is not None:
            rows.append(("misses", f"{best.misses:,} of the training samples"))
        for layer in best.layers[:_LISTED]:
            ranks = [f"rank {one.rank} of {one.n_columns}, condition {one.condition:.1e}" for one in layer.designs]
            rows.append((f"layer {layer.number}", "; ".join([*ranks, format_seconds(layer.seconds)])))
        targets, hidden = format_percent(self.clipped_targets), format_percent(best.clipped)
        return [*rows, ("cut", f"{targets} of the targets, {hidden} of the hidden values")]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as numbers, lists and text, for JSON; references are without their weights."""
        return {
            "passes": [dataclasses.asdict(each) for each in self.passes],
            "clipped_targets": self.clipped_targets,
            "best": self.best,
            "references": {
                name: {"loss": each.loss, "score": each.score, "seconds": each.seconds}
                for name, each in self.references.items()
            },
        }


@dataclass(eq=False)
class BPLSTraining(ABC):
    """State of a training run; networks are replaced, never changed, so that a reference serves as a copy.

    `score_of` returns the score of the outputs' pre-activations. With `keep_best`, the network of the best pass is
    kept instead of the last one.
    """

    network: Network
    X: InitVar[FloatArray]
    Y: FloatArray
    score_of: Callable[[FloatArray], float]
    keep_best: bool

    def __post_init__(self, X: FloatArray) -> None:
        settings = self.network.settings
        self.inputs = self.network.inputs(X)
        self.T = settings.output.inverse(self.Y, settings.eps_target)
        self.report = BPLSReport(clipped_targets=settings.output.outside(self.Y, settings.eps_target))
        self._kept, self._kept_value = self.network, math.inf
        self._outputs: FloatArray = np.empty((0, self.T.shape[1]))

    def train(self, epoch: int) -> str | None:
        """Make one pass; return the reason to stop, or None."""
        start = time.perf_counter()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            n_samples, share, layers, reason = self._pass(epoch)
        self._current = n_samples, share, tuple(layers), time.perf_counter() - start
        return reason

    def measure(self) -> Mapping[str, float]:
        """Return the measurements of the pass for the history, and add the pass to the report."""
        n_samples, share, layers, seconds = self._current
        loss = self.loss(self._outputs)
        score = self.score(self._outputs) if math.isfinite(loss) else math.nan
        reports = tuple(layer.report() for layer in layers)
        made = PassReport(n_samples, share, loss, score, self._misses(), seconds, reports)
        self.report.passes.append(made)
        value = loss if made.misses is None else made.misses
        if math.isfinite(loss) and (not self.keep_best or value < self._kept_value):
            self._kept, self._kept_value = self.network, value
            self.report.best = len(self.report.passes)
        measured = {"loss": loss, "score": score, "clipped": made.clipped}
        return measured if made.misses is None else {**measured, "misses": float(made.misses)}

    @property
    def kept(self) -> Network:
        """The network of the best pass, `report.best`."""
        return self._kept

    @abstractmethod
    def _pass(self, epoch: int) -> tuple[int, float, list[LayerSolve], str | None]:
        """Make one pass; return number of samples, blending weight, solves, and the reason to stop or None."""

    def _misses(self) -> int | None:
        return None

    def score(self, preactivations: FloatArray) -> float:
        """Return the score from the pre-activations of the outputs, or nan if any of these is not finite."""
        return self.score_of(preactivations) if np.isfinite(preactivations).all() else math.nan

    def preactivations(self, network: Network) -> FloatArray:
        """Return the pre-activations of the outputs on the training data."""
        with np.errstate(over="ignore", invalid="ignore"):
            return network.designs(self.inputs)[-1] @ network.weights[-1]

    def loss(self, preactivations: FloatArray) -> float:
        """Return the mean squared error of the outputs, after their activation."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.mean((self.network.settings.output(preactivations) - self.Y) ** 2))


@dataclass(eq=False)
class Regression(BPLSTraining):
    """Algorithm 1, with the repairs `refit` and `keep_best` of `BPLSRegressor` unless they are off."""

    refit: bool

    def _pass(self, epoch: int) -> tuple[int, float, list[LayerSolve], str | None]:
        old, designs = self.network, self.network.designs(self.inputs)
        weights, layers = backward_pass(old, designs, self.T, second_solve=False)
        new = Network(weights, old.settings)
        reached = new.designs(self.inputs)[-1]
        if self.refit and len(weights) > 1:
            new, refitted = fit_readout(new, reached, self.T)
            layers[-1] = layers[-1].joined(refitted)
        self.network, self._outputs = new, reached @ new.weights[-1]
        reason = None
        if self.keep_best:
            outputs = designs[-1] @ weights[-1]
            if not self.loss(self._outputs) <= self.loss(outputs):
                self.network, self._outputs = Network([*old.weights[:-1], weights[-1]], old.settings), outputs
                # With the same hidden layers, the next pass would repeat this one.
                reason = "no improvement"
        return len(self.Y), 1.0, layers, reason


@dataclass(eq=False)
class Classification(BPLSTraining):
    """Algorithm 2: a pass over all samples, then passes over the misclassified ones.

    The network of a later pass is blended in with the misclassified fraction as its weight.
    `codes` are class numbers; `stop` and `miss_forward` are as in `BPLSClassifier`.
    """

    codes: npt.NDArray[np.intp]
    stop: str
    miss_forward: str

    def __post_init__(self, X: FloatArray) -> None:
        super().__post_init__(X)
        self._start = self.network if self.miss_forward == "random" else None
        self._missed: npt.NDArray[np.intp] = np.empty(0, dtype=np.intp)

    def _pass(self, epoch: int) -> tuple[int, float, list[LayerSolve], str | None]:
        current, before = self.network, len(self._missed)
        if epoch == 0:
            n_samples, share = len(self.codes), 1.0
            weights, layers = backward_pass(current, current.designs(self.inputs), self.T, second_solve=True)
        else:
            rows, start = self._missed, self._start or current
            n_samples, share = len(rows), len(rows) / len(self.codes)
            found, layers = backward_pass(start, start.designs(self.inputs[rows]), self.T[rows], second_solve=True)
            weights = blend(current.weights, found, share)
        self.network = Network(weights, current.settings)
        self._outputs = self.preactivations(self.network)
        self._missed = np.flatnonzero(choose_classes(self._outputs) != self.codes)
        reason = None
        if len(self._missed) == 0:
            reason = "no misses"
        elif self.stop == "no_improvement" and epoch > 0 and len(self._missed) >= before:
            reason = "no improvement"
        return n_samples, share, layers, reason

    def _misses(self) -> int:
        return len(self._missed)


def references(training: BPLSTraining) -> dict[str, Reference]:
    """Return the reference models of a `training` that has not started.

    "linear least squares" has no hidden layer, and no ridge in regression. "random hidden layers" keeps the initial
    hidden layers and solves the last layer with the training's ridge.
    """
    network, found = training.network, {}
    ridge = 0.0 if isinstance(training, Regression) else network.settings.ridge
    without_hidden = dataclasses.replace(network.settings, activations=(), eps_hidden=(), ridge=ridge)
    linear = Network([np.empty((training.inputs.shape[1], training.T.shape[1]))], without_hidden)
    for name, model in (("linear least squares", linear), ("random hidden layers", network)):
        start = time.perf_counter()
        with np.errstate(over="ignore", invalid="ignore"):
            fitted, _ = fit_readout(model, model.designs(training.inputs)[-1], training.T)
        seconds = time.perf_counter() - start
        outputs = training.preactivations(fitted)
        found[name] = Reference(fitted, training.loss(outputs), training.score(outputs), seconds)
    return found
