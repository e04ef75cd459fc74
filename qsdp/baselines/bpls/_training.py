"""Algorithms 1 and 2: passes of least squares, the refit after them, and what is kept of them."""

from __future__ import annotations

import dataclasses
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from qsdp._utils.validation import FloatArray
from qsdp.baselines.bpls._network import Network
from qsdp.baselines.bpls._passes import LayerSolve, backward_pass, blend, fit_readout
from qsdp.baselines.bpls._report import BPLSReport, PassReport, Reference
from qsdp.estimators.classes import choose_classes

__all__ = ["BPLSTraining", "Classification", "Regression", "references"]


class BPLSTraining(ABC):
    """State of a training; networks are replaced, never written to, so a reference to one is a copy of it.

    Parameters
    ----------
    network : Network
        With the random weights.
    X : ndarray of shape (S, d)
    Y : ndarray of shape (S, J)
        Targets.
    score : callable
        Score of the pre-activations of the outputs.
    keep_best : bool
        Keep the network of the best pass, not that of the last.

    Attributes
    ----------
    network : Network
        After the last pass.
    report : BPLSReport
    linear_ridge : float
        Of the reference without hidden layers.
    """

    def __init__(
        self, network: Network, X: FloatArray, Y: FloatArray, score: Callable[[FloatArray], float], keep_best: bool
    ) -> None:
        self.network, self.linear_ridge = network, network.settings.ridge
        self.inputs, self.Y = network.inputs(X), Y
        output, eps = network.settings.output, network.settings.eps_target
        self.T = output.inverse(Y, eps)
        self.report = BPLSReport(clipped_targets=output.outside(Y, eps))
        self._score, self._keep_best = score, keep_best
        self._kept, self._kept_value = network, math.inf
        self._outputs: FloatArray = np.empty((0, self.T.shape[1]))

    def train(self, epoch: int) -> str | None:
        """Make one pass; return why there is nothing left to do, or None."""
        start = time.perf_counter()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            n_samples, share, layers, reason = self._pass(epoch)
        self._current = n_samples, share, tuple(layers), time.perf_counter() - start
        return reason

    def measure(self) -> Mapping[str, float]:
        """Return what the history records of the pass, and report it."""
        n_samples, share, layers, seconds = self._current
        loss = self.loss(self._outputs)
        score = self.score(self._outputs) if math.isfinite(loss) else math.nan
        reports = tuple(layer.report() for layer in layers)
        made = PassReport(n_samples, share, loss, score, self._misses(), seconds, reports)
        self.report.passes.append(made)
        value = self._value(made)
        if math.isfinite(loss) and (not self._keep_best or value < self._kept_value):
            self._kept, self._kept_value = self.network, value
            self.report.best = len(self.report.passes)
        measured = {"loss": loss, "score": score, "clipped": made.clipped}
        return measured if made.misses is None else {**measured, "misses": float(made.misses)}

    @property
    def kept(self) -> Network:
        """The network to keep: of the pass `report.best`."""
        return self._kept

    @abstractmethod
    def _pass(self, epoch: int) -> tuple[int, float, list[LayerSolve], str | None]:
        """Replace `network` and its outputs; return samples, share, reports, and why it was the last if it was."""

    @abstractmethod
    def _value(self, made: PassReport) -> float:
        """Return what the best pass has least of."""

    def _misses(self) -> int | None:
        return None

    def score(self, preactivations: FloatArray) -> float:
        """Return the score of finite pre-activations of the outputs, nan for others."""
        return self._score(preactivations) if np.isfinite(preactivations).all() else math.nan

    def preactivations(self, network: Network) -> FloatArray:
        """Return those of the outputs, on the training data."""
        with np.errstate(over="ignore", invalid="ignore"):
            values: FloatArray = network.designs(self.inputs)[-1] @ network.weights[-1]
        return values

    def loss(self, preactivations: FloatArray) -> float:
        """Return the mean squared error of the outputs, after their activation."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.mean((self.network.settings.output(preactivations) - self.Y) ** 2))


class Regression(BPLSTraining):
    """Algorithm 1, with the repairs `refit` and `keep_best` unless they are off.

    Parameters
    ----------
    refit : bool
        Solve the last layer once more, on the new hidden outputs (which the lower solves have changed).
    keep_best : bool
        Of every pass keep the better network of two: the new one, and the one with the old hidden layers and the
        last layer solved for them. And of all passes the best.
    """

    def __init__(
        self,
        network: Network,
        X: FloatArray,
        Y: FloatArray,
        score: Callable[[FloatArray], float],
        *,
        refit: bool,
        keep_best: bool,
    ) -> None:
        super().__init__(network, X, Y, score, keep_best)
        self.linear_ridge = 0.0
        self._refit = refit and len(network.weights) > 1

    def _pass(self, epoch: int) -> tuple[int, float, list[LayerSolve], str | None]:
        old, designs = self.network, self.network.designs(self.inputs)
        weights, layers = backward_pass(old, designs, self.T, second_solve=False)
        new = Network(weights, old.settings)
        reached = new.designs(self.inputs)[-1]
        if self._refit:
            new, refitted = fit_readout(new, reached, self.T)
            layers[-1] = layers[-1].joined(refitted)
        self.network, self._outputs = new, reached @ new.weights[-1]
        reason = None
        if self._keep_best:
            outputs = designs[-1] @ weights[-1]
            if not self.loss(self._outputs) <= self.loss(outputs):
                self.network, self._outputs = Network([*old.weights[:-1], weights[-1]], old.settings), outputs
                # From the same hidden layers, the next pass would be this one again.
                reason = "no improvement"
        return len(self.Y), 1.0, layers, reason

    def _value(self, made: PassReport) -> float:
        return made.loss


class Classification(BPLSTraining):
    """Algorithm 2: a pass over all samples, then passes over those that are misclassified, blended in by their share.

    Parameters
    ----------
    codes : ndarray of shape (S,)
        Class numbers.
    stop : {"no_improvement", "none"}
        Whether to stop when the number of misses does not fall.
    miss_forward : {"current", "random"}
        The network whose hidden outputs the passes over the misses start from.
    """

    def __init__(
        self,
        network: Network,
        X: FloatArray,
        Y: FloatArray,
        score: Callable[[FloatArray], float],
        *,
        codes: npt.NDArray[np.intp],
        keep_best: bool,
        stop: str,
        miss_forward: str,
    ) -> None:
        super().__init__(network, X, Y, score, keep_best)
        self._codes, self._stop = codes, stop
        self._start = network if miss_forward == "random" else None
        self._missed: npt.NDArray[np.intp] = np.empty(0, dtype=np.intp)

    def _pass(self, epoch: int) -> tuple[int, float, list[LayerSolve], str | None]:
        current, before = self.network, len(self._missed)
        if epoch == 0:
            n_samples, share = len(self._codes), 1.0
            weights, layers = backward_pass(current, current.designs(self.inputs), self.T, second_solve=True)
        else:
            rows, start = self._missed, self._start or current
            n_samples, share = len(rows), len(rows) / len(self._codes)
            found, layers = backward_pass(start, start.designs(self.inputs[rows]), self.T[rows], second_solve=True)
            weights = blend(current.weights, found, share)
        self.network = Network(weights, current.settings)
        self._outputs = self.preactivations(self.network)
        self._missed = np.flatnonzero(choose_classes(self._outputs) != self._codes)
        reason = None
        if len(self._missed) == 0:
            reason = "no misses"
        elif self._stop == "no_improvement" and epoch > 0 and len(self._missed) >= before:
            reason = "no improvement"
        return n_samples, share, layers, reason

    def _misses(self) -> int:
        return len(self._missed)

    def _value(self, made: PassReport) -> float:
        assert made.misses is not None
        return float(made.misses)


def references(training: BPLSTraining) -> dict[str, Reference]:
    """Return the simpler models of a report, of a `training` that has not begun.

    "linear least squares" has no hidden layer, and no ridge in regression; "random hidden layers" keeps those of the
    start and solves the last, with the training's ridge.
    """
    network, found = training.network, {}
    without_hidden = dataclasses.replace(network.settings, activations=(), eps_hidden=(), ridge=training.linear_ridge)
    linear = Network([np.empty((training.inputs.shape[1], training.T.shape[1]))], without_hidden)
    for name, model in (("linear least squares", linear), ("random hidden layers", network)):
        start = time.perf_counter()
        with np.errstate(over="ignore", invalid="ignore"):
            fitted, _ = fit_readout(model, model.designs(training.inputs)[-1], training.T)
        seconds = time.perf_counter() - start
        outputs = training.preactivations(fitted)
        found[name] = Reference(fitted, training.loss(outputs), training.score(outputs), seconds)
    return found
