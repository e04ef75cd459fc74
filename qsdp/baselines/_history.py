"""Training history, and the loop over epochs that the training systems share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qsdp._utils.progress import progress
from qsdp._utils.summary import Rows, Summarized, Summary, format_number, format_seconds
from qsdp._utils.validation import warn
from qsdp.exceptions import InvalidTypeError, QSDPError

__all__ = ["Callback", "DivergedError", "History", "train_epochs"]


class DivergedError(QSDPError, ArithmeticError):
    """Error: a step would have produced non-finite numbers; parameters and state are those before the step."""


@dataclass
class History(Summarized):
    """History of a training run; every list has one entry per epoch.

    Attributes
    ----------
    loss : list of float
        Training loss, as the system defines it.
    score : list of float
        Score on the training data: accuracy of a classifier, R² of a regressor.
    seconds : list of float
        Wall-clock seconds of the epoch's training; measuring loss and score is not counted.
    extra : dict of list of float
        Other values that a system records, by name.
    measure : {"accuracy", "r2"}
        Measure that `score` contains.
    stopped : str
        Why training ended: "finished", "callback", "interrupted", "diverged", or a reason given by the system, such as
        "no improvement".
    diverged : int or None
        Number, from 1, of the epoch whose loss was not finite. This epoch has no entry.
    best_epoch : int or None
        Number, from 1, of the epoch whose parameters were kept; 0 for the initial parameters. None if the last epoch is
        kept, whichever was best.
    """

    loss: list[float] = field(default_factory=list)
    score: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    extra: dict[str, list[float]] = field(default_factory=dict)
    measure: str = "accuracy"
    stopped: str = "finished"
    diverged: int | None = None
    best_epoch: int | None = None

    @property
    def n_epochs(self) -> int:
        """Number of epochs recorded."""
        return len(self.loss)

    @property
    def accuracy(self) -> list[float]:
        """Scores of a classifier."""
        if self.measure != "accuracy":
            raise AttributeError("a regressor has no accuracy; score is its R²")
        return self.score

    def add(self, seconds: float, measured: Mapping[str, float]) -> None:
        """Append an epoch; `measured` has "loss", "score" and any other names."""
        self.seconds.append(float(seconds))
        for name, value in measured.items():
            values = getattr(self, name) if name in {"loss", "score"} else self.extra.setdefault(name, [])
            values.append(float(value))

    def _summary(self) -> Summary:
        where = "" if self.diverged is None else f" in epoch {self.diverged}"
        rows: Rows = [
            ("epochs", f"{self.n_epochs} in {format_seconds(float(sum(self.seconds)))}"),
            ("stopped", f"{self.stopped}{where}"),
        ]
        if self.best_epoch is not None:
            rows.append(("kept", f"epoch {self.best_epoch}"))
        measure = {"r2": "R²"}.get(self.measure, self.measure)
        for name, values in {"loss": self.loss, measure: self.score, **self.extra}.items():
            if values:
                which, best = ("smallest", min(values)) if name == "loss" else ("largest", max(values))
                rows.append((name, f"{format_number(values[-1])} in the end, {which} {format_number(best)}"))
        return Summary("History", rows)


#: Function called after every recorded epoch, including the last; training stops when it returns True.
Callback = Callable[[History], object]


def train_epochs(
    train: Callable[[int], object],
    measure: Callable[[], Mapping[str, float]],
    n_epochs: int,
    *,
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    history: History,
    suggestion: str = "a smaller learning_rate",
    callback: Callback | None = None,
    verbose: bool | int = False,
    name: str = "training",
    best: str | None = None,
    patience: int | None = None,
) -> History:
    """Train epoch by epoch and record the history; the final parameters are always those of a complete, finite epoch.

    `train` trains the epoch with a given number, from 0; if it returns text, training stops for that reason. `measure`
    returns "loss", "score" and any other values to record. `get_state` copies the parameters, and `set_state` restores
    a copy. `history` is filled in place and returned. Training stops when `callback`, called with the history after
    every epoch, returns True. `name` is the title of the progress bar.

    With `best`, the parameters of the best epoch by this measurement are kept (losses are best small, all others
    large). Training stops after `patience` epochs without a better one.

    A `DivergedError` or a loss that is not finite ends training with a `QSDPWarning` that names the epoch and the
    `suggestion`. A keyboard interrupt also ends training with a warning.
    """
    if callback is not None and not callable(callback):
        raise InvalidTypeError(f"callback must be callable or None; got {callback!r}")
    last = get_state()
    before = history.n_epochs
    # The best epoch so far, its parameters, and its value.
    record, state, highest = before, last, -math.inf
    if best is not None:
        earlier = history.loss if best == "loss" else history.extra.get(best, [])
        highest = max((_worth(best, value) for value in earlier), default=highest)
    with progress(verbose) as stages, stages.stage(name) as bar:
        try:
            for epoch in range(n_epochs):
                start = time.perf_counter()
                try:
                    reason = train(epoch)
                    seconds = time.perf_counter() - start
                    measured = measure()
                except DivergedError:
                    measured = {"loss": math.nan}
                if not math.isfinite(measured["loss"]):
                    history.stopped, history.diverged = "diverged", epoch + 1
                    set_state(last)
                    warn(
                        f"training diverged in epoch {epoch + 1} (loss {measured['loss']}): the parameters are those "
                        f"after {epoch} epochs; try {suggestion}"
                    )
                    break
                last = get_state()
                history.add(seconds, measured)
                if best is not None and _worth(best, measured[best]) > highest:
                    record, state, highest = history.n_epochs, last, _worth(best, measured[best])
                bar.count(epoch + 1, n_epochs, _figures(history, before + n_epochs))
                stopped = callback is not None and callback(history) is True
                if best is not None and patience is not None and history.n_epochs - record >= patience:
                    reason = "no improvement"
                if stopped or isinstance(reason, str):
                    history.stopped = reason if isinstance(reason, str) else "callback"
                    break
        except KeyboardInterrupt:
            set_state(last)
            history.stopped = "interrupted"
            warn(f"training was interrupted: the parameters are those after {history.n_epochs} of {n_epochs} epochs")
    if best is not None:
        history.best_epoch = record
        set_state(state)
    return history


def _worth(measure: str, value: float) -> float:
    return -value if measure.endswith("loss") else value


def _figures(history: History, n_epochs: int) -> str:
    score = f", score {history.score[-1]:.4g}" if history.score else ""
    return f"{history.n_epochs} of {n_epochs}, loss {history.loss[-1]:.4g}{score}"
