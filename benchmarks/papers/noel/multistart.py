"""Many random starts of one estimator, trained as one computation, and statistics of their scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.papers.noel.estimators import DescentClassifier, codes_of, sign_code
from qsdp._utils.summary import Rows, Summarized, Summary, format_number, format_percent, format_seconds
from qsdp._utils.validation import FloatArray, RandomState, check_choice, check_integer
from qsdp.baselines._estimator import checked
from qsdp.baselines._history import History
from qsdp.estimators.classes import choose_classes
from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["MultiStart", "StartStatistics"]


@dataclass(frozen=True)
class StartStatistics(Summarized):
    """Statistics of the scores of several starts; diverged starts are counted, but excluded from the statistics.

    Attributes
    ----------
    mean, sd, best, worst : float
        `sd` is the standard deviation of the sample, with n - 1; values are nan if there are too few starts.
    n_starts, n_diverged : int
    """

    mean: float
    sd: float
    best: float
    worst: float
    n_starts: int
    n_diverged: int

    @classmethod
    def from_scores(cls, scores: Any) -> StartStatistics:
        """Return the statistics of scores (S,), where nan means that the start diverged."""
        values = np.asarray(scores, dtype=np.float64)
        kept = values[np.isfinite(values)]
        if not kept.size:
            nan = float("nan")
            return cls(nan, nan, nan, nan, len(values), len(values))
        sd = float(kept.std(ddof=1)) if len(kept) > 1 else float("nan")
        return cls(float(kept.mean()), sd, float(kept.max()), float(kept.min()), len(values), len(values) - len(kept))

    def _summary(self) -> Summary:
        kept = self.n_starts - self.n_diverged
        rows = [("starts", f"{self.n_starts}, of which {self.n_diverged or 'none'} diverged")]
        if not kept:
            return Summary("StartStatistics", [*rows, ("mean", "none of them")])
        deviation = f" ± {format_percent(self.sd)}" if kept > 1 else ""
        rows.append(("mean", f"{format_percent(self.mean)}{deviation}"))
        rows.append(("range", f"{format_percent(self.worst)} to {format_percent(self.best)}"))
        return Summary("StartStatistics", rows)

    def __str__(self) -> str:
        percent = [f"{100.0 * value:.2f}" for value in (self.mean, self.sd, self.best, self.worst)]
        diverged = f", {self.n_diverged} diverged" if self.n_diverged else ""
        return (
            f"{percent[0]} ± {percent[1]} % (best {percent[2]}, worst {percent[3]}; {self.n_starts} starts{diverged})"
        )


@dataclass(eq=False, repr=False)
class MultiStart(Summarized):
    """Training of an estimator from many random starts at once, with the weights of all starts in one array per layer.

    Parameters
    ----------
    estimator : QuadraticLogisticRegression or QuadraticNetworkClassifier
        Estimator with the parameters of the training; it is not changed.
    n_starts : int, default=25
    shared_order : bool, default=False
        Show samples to all starts in the same order, so that they differ only in their initial weights.
    random_state : int, Generator, RandomState or None
        Used in place of the estimator's.
    verbose : bool or int, default=False
        Show a progress bar of the epochs, as the estimator's own `verbose` does.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
    network_ : QuadraticNetwork
        Network with an axis of starts.
    history_ : History
        Loss and accuracy of every sample just before its step, averaged over samples and starts.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.papers.noel import MultiStart, QuadraticLogisticRegression
    >>> X, y = np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]]), [0, 1, 1, 0]
    >>> starts = MultiStart(QuadraticLogisticRegression(), n_starts=25, random_state=0).fit(X, y)
    >>> print(starts.statistics(X, y))
    100.00 ± 0.00 % (best 100.00, worst 100.00; 25 starts)
    """

    estimator: DescentClassifier
    n_starts: int = 25
    shared_order: bool = field(default=False, kw_only=True)
    random_state: RandomState = field(default=None, kw_only=True)
    verbose: bool | int = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.estimator, DescentClassifier):
            raise InvalidTypeError(
                "estimator must be a QuadraticLogisticRegression or a QuadraticNetworkClassifier; "
                f"got {type(self.estimator).__name__}"
            )
        self.n_starts = check_integer("n_starts", self.n_starts, minimum=2)
        checked(self, "shared_order", "verbose")

    def fit(self, X: Any, y: Any) -> MultiStart:
        """Train all starts for the estimator's number of epochs."""
        model: DescentClassifier = clone(self.estimator)
        model._n_starts, model._shared_order = self.n_starts, self.shared_order
        model.random_state = self.random_state
        model.verbose = self.verbose or model.verbose
        self._model = model.fit(X, y)
        self.classes_ = model.classes_
        self.network_ = model._descent.network
        self.history_: History = model.history_
        return self

    def train(self, n_epochs: int) -> MultiStart:
        """Train all starts for more epochs."""
        self._check_fitted()._run(check_integer("n_epochs", n_epochs, minimum=1), self.history_)
        return self

    @property
    def diverged_(self) -> dict[int, int]:
        """Numbers of the diverged starts, each with its epoch."""
        return dict(self._check_fitted()._diverged)

    def _check_fitted(self) -> DescentClassifier:
        if not hasattr(self, "_model"):
            raise InvalidInputError("these starts are not trained; call fit first")
        return self._model

    def _summary(self) -> Summary:
        rows: Rows = [("estimator", " ".join(repr(self.estimator).split())), ("starts", str(self.n_starts))]
        if not hasattr(self, "history_"):
            return Summary("MultiStart", [*rows, ("trained", "not yet")])
        history, diverged = self.history_, self.diverged_
        rows.append(("epochs", f"{history.n_epochs} in {format_seconds(float(sum(history.seconds)))}"))
        rows.append(("diverged", f"{len(diverged)} of the starts" if diverged else "none"))
        for name, values in (("loss", history.loss), ("accuracy", history.score)):
            if values:
                rows.append((f"mean {name}", f"{format_number(values[-1])} in the end"))
        return Summary("MultiStart", rows)

    # -- read-outs -------------------------------------------------------------------------------------

    def decision(self, X: Any) -> FloatArray:
        """Return the decisions of all starts, (S, n, C); C is one for two classes and sigmoid outputs."""
        model = self._check_fitted()
        with np.errstate(all="ignore"):
            return self.network_.decision(model._checked(X))

    def scores(self, X: Any, y: Any, readout: str = "argmax") -> FloatArray:
        """Return the accuracy of every start, (S,), with nan for diverged starts.

        Parameters
        ----------
        X, y : array-like
        readout : {"argmax", "code"}, default="argmax"
            Score the largest decision, or the correct sign of every neuron.
        """
        check_choice("readout", readout, ["argmax", "code"])
        decisions = self.decision(X)
        expected = codes_of(self.classes_, y)
        chosen = sign_code(decisions) if readout == "code" else np.stack([choose_classes(z) for z in decisions])
        accuracy: FloatArray = (chosen == expected).mean(axis=1)
        accuracy[list(self.diverged_)] = np.nan
        return accuracy

    def statistics(self, X: Any, y: Any, readout: str = "argmax") -> StartStatistics:
        """Return mean, deviation, best and worst accuracy over the starts."""
        return StartStatistics.from_scores(self.scores(X, y, readout))

    def start(self, number: int) -> Any:
        """Return one start as a fitted estimator."""
        source = self._check_fitted()
        number = check_integer("number", number, minimum=0, maximum=self.n_starts - 1)
        model = clone(self.estimator)
        for name in ("classes_", "n_features_in_", "feature_names_in_", "history_"):
            if hasattr(source, name):
                setattr(model, name, getattr(source, name))
        model.network_ = self.network_.start(number)
        return model
