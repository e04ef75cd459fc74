"""Choice of beta on held-out samples, from a few coarse solves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from qsdp._utils import deadline
from qsdp._utils.progress import NO_BAR, ProgressBar
from qsdp._utils.validation import FloatArray
from qsdp.gram import SharedGram
from qsdp.problem import TrainingProblem
from qsdp.relaxation.largest_beta import useful_beta_max
from qsdp.relaxation.rows import Cells, DistinctRows
from qsdp.relaxation.settings import Settings
from qsdp.relaxation.solution import Relaxation
from qsdp.relaxation.solve import solve_with

__all__ = ["MOST_SAMPLES", "BetaChoice", "beta_choice"]

#: Candidates for beta as fractions ("shares") of `beta_max`, from large to small.
SHARES = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)

#: First share that the search tries.
START = 0.02

#: Share used if the time limit leaves no time to search.
FALLBACK = 0.01

#: Relative gap of the solves; the held-out losses of neighbouring shares differ by more.
_TOL = 1e-2

#: Number of folds. Up to this many distinct samples, all folds are held out in turn; with more, only the first is.
_FOLDS, _MANY = 4, 1000

#: Largest number of distinct samples used: with thousands, the choice does not depend on a few.
MOST_SAMPLES = 5000

#: After two folds, a share is rejected if its loss is worse by this fraction.
_WORSE = 0.05


@dataclass(frozen=True)
class BetaChoice:
    """A beta and the expected loss of its relaxation.

    Attributes
    ----------
    beta : float
    expected_loss : float
        Loss on as many new rows as the problem has, estimated from held-out rows; zero if there are none.
    """

    beta: float
    expected_loss: float = 0.0


def beta_choice(problem: TrainingProblem, bar: ProgressBar = NO_BAR) -> BetaChoice:
    """Choose beta, as a fraction ("share") of `beta_max`, by the loss of the relaxation on held-out samples.

    The search goes downhill along a grid of shares, starting in the middle. For each share, the relaxation is solved
    coarsely on the rows outside a fold. Unless the loss takes labels, predictions are clipped to the targets' range.
    Beta of a training set is smaller by its share of the weight, since the loss is a sum. For classes, a smaller share
    that misclassifies clearly fewer held-out rows is preferred. Rows, also equal ones, are dealt to the folds one by
    one: if rows repeat, new rows will have been seen before. Folds depend neither on the order of the samples nor on
    whether a row is repeated or has an integer weight; see `Cells`. Any beta will do if zero is always optimal. After a
    time limit, the best share so far is used, but at most 0.01 if the loss was still falling.

    Parameters
    ----------
    problem : TrainingProblem
        Training problem; its beta is ignored.
    bar : ProgressBar
        Bar that shows how many shares are done.
    """
    with deadline.fraction(0.3):
        largest = useful_beta_max(problem)
    if largest == 0.0:
        return BetaChoice(1.0)
    search = _ShareSearch(_folds(problem), largest, _Codes.of(problem))
    for share in search.downhill() if search.folds else ():
        bar.count(len(search.losses), len(SHARES), f"share {share:g} of beta_max")
        search.measure(share)
        if deadline.over():
            break
    if not search.losses:
        return BetaChoice(FALLBACK * largest)
    share = search.best
    if deadline.over() and share == min(search.losses):
        # The search ran out of time while the loss was falling.
        return BetaChoice(min(share, FALLBACK) * largest)
    share = search.clearly_fewer_wrong(share)
    held_out = sum(fold.held_out.data_fit.total_weight for fold in search.folds)
    return BetaChoice(share * largest, search.losses[share] * problem.data_fit.total_weight / held_out)


@dataclass
class _ShareSearch:
    """Search over shares of `beta_max`: held-out losses, and the held-out rows that each share misclassifies."""

    folds: list[_Fold]
    largest: float
    codes: _Codes | None
    losses: dict[float, float] = field(default_factory=dict)
    _of_folds: dict[float, list[float]] = field(default_factory=dict)
    _wrong: dict[float, list[FloatArray]] = field(default_factory=dict)

    @property
    def best(self) -> float:
        """Share with the smallest loss."""
        return min(self.losses, key=self.losses.__getitem__)

    def downhill(self) -> Iterator[float]:
        """Yield shares by local search, starting in the middle, until neither neighbour is better.

        Each share must be measured before the next one is requested.
        """
        start = SHARES.index(START)
        yield SHARES[start]
        for step in (1, -1):
            place = start
            while 0 <= place + step < len(SHARES) and self.best == SHARES[place]:
                place += step
                yield SHARES[place]
            if self.best != SHARES[start]:
                return

    def measure(self, share: float, *, whole: bool = False) -> None:
        """Compute the loss of a share on all folds; stop early if it is clearly worse than the best share.

        A loss that is not known for all folds is not used: it is infinite, or missing if time has run out.
        """
        losses, wrong = self._of_folds.setdefault(share, []), self._wrong.setdefault(share, [])
        best = self._of_folds[self.best] if self.losses and not whole else []
        for fold in self.folds[len(losses) :]:
            outputs = fold.predict(share * self.largest)
            losses.append(fold.held_out.data_fit.value(outputs))
            if self.codes is not None:
                wrong.append(self.codes.wrong(fold.held_out, outputs))
            if deadline.over():
                return
            done = len(losses)
            if best and 2 <= done < len(self.folds) and sum(losses) > (1.0 + _WORSE) * sum(best[:done]):
                break
        self.losses[share] = sum(losses) if len(losses) == len(self.folds) else np.inf

    def clearly_fewer_wrong(self, share: float) -> float:
        """Return a smaller share that misclassifies significantly fewer rows, or `share` if there is none."""
        if self.codes is None or deadline.over():
            return share
        best = share
        for smaller in SHARES[SHARES.index(share) + 1 :]:
            self.measure(smaller, whole=True)
            if deadline.over() or self._gains(best, smaller).sum() <= 0.0:
                break
            best = smaller
        gains, rows = self._gains(share, best), np.concatenate([fold.held_out_rows for fold in self.folds])
        # A smaller share must gain more than a standard error (Breiman's rule), or the simpler model is taken.
        # The gain of a sample is the total gain of its rows, each of which is a draw of its own.
        return best if gains.sum() > np.sqrt((np.square(gains) / rows).sum()) else share

    def _gains(self, share: float, other: float) -> FloatArray:
        """Return the misclassified weight of every sample at one share, minus that at another."""
        one, two = (np.concatenate(self._wrong[name]) for name in (share, other))
        return one - two


@dataclass(frozen=True, eq=False)
class _Codes:
    """Class codes: targets whose columns have two values each.

    Attributes
    ----------
    low, high : ndarray of shape (C,)
    one_each : bool
        Whether every column stands for one class and every sample has exactly one class.
    """

    low: FloatArray
    high: FloatArray
    one_each: bool

    @classmethod
    def of(cls, problem: TrainingProblem) -> _Codes | None:
        """Detect class codes in the targets of a problem; None if the targets are real numbers."""
        y = problem.targets
        low, high = y.min(axis=0), y.max(axis=0)
        if np.any((y != low) & (y != high)):
            return None
        return cls(low, high, bool(np.all((y == high).sum(axis=1) == 1)))

    def wrong(self, samples: TrainingProblem, outputs: FloatArray) -> FloatArray:
        """Return the misclassified weight of every sample, zero for correctly classified ones."""
        is_class = samples.targets == self.high
        scores = (outputs - self.low) / np.where(self.high > self.low, self.high - self.low, 1.0)
        if self.one_each:
            wrong = (scores.argmax(axis=1) != is_class.argmax(axis=1)).astype(float)
        else:
            wrong = ((scores > 0.5) != is_class).mean(axis=1)
        return samples.data_fit.weighted(wrong)


def held_out_predictions(problem: TrainingProblem) -> Iterator[tuple[TrainingProblem, FloatArray]]:
    """Yield the held-out samples of every fold and the outputs (n, C) of a coarse relaxation of the other samples.

    The folds are those of `beta_choice`. If there are too few distinct samples for folds, one fold trains and predicts
    on all samples. After a time limit, no fold but the first is started.
    """
    for k, fold in enumerate(_folds(problem) or [_Fold(problem, problem, np.ones(problem.n_samples), 1.0)]):
        if k == 0 or not deadline.over():
            yield fold.held_out, fold.predict(problem.beta)


@dataclass
class _Fold:
    """Fold: a training set with its fraction of the weight, the held-out samples, and the number of rows of each.

    It also stores warm starts and shared matrices for later solves.
    """

    training: TrainingProblem
    held_out: TrainingProblem
    held_out_rows: FloatArray
    share: float
    #: Relaxations for the smallest and the largest beta so far; never the zero point, which has no scale to start from.
    solved: list[Relaxation] = field(default_factory=list)
    gram: SharedGram = field(default_factory=SharedGram)

    def predict(self, beta: float) -> FloatArray:
        """Return the relaxation's outputs for the held-out samples, with `beta` scaled to the training set."""
        problem = self.training.with_beta(self.share * beta)
        settings = Settings(_TOL, gram=self.gram)
        nearest = min(self.solved, key=lambda one: abs(np.log(one.problem.beta / problem.beta)), default=None)
        relaxation = solve_with(problem, "auto", settings, "tight", start=nearest, quiet=True)
        if np.any(relaxation.rho_stack > 0.0):
            solved = sorted([*self.solved, relaxation], key=lambda one: one.problem.beta)
            self.solved = [*solved[:1], *solved[1:][-1:]]
        prediction = relaxation.outputs(self.held_out.X)
        if not problem.loss.for_classes:
            # Far from the data, a quadratic function can take any value; no target is beyond those seen.
            prediction = np.clip(prediction, problem.targets.min(axis=0), problem.targets.max(axis=0))
        return prediction


def _folds(problem: TrainingProblem) -> list[_Fold]:
    """Build the folds to be held out; none if there are too few distinct samples."""
    rows = DistinctRows.of(problem.X)
    n = rows.count
    if n < 2 * _FOLDS:
        return []
    cells = Cells.of(problem, rows)
    rank = np.random.default_rng(0).permutation(n)[cells.group]
    used = rank < MOST_SAMPLES
    order = np.argsort(rank, kind="stable")
    ends = np.empty(len(order), dtype=np.int64)
    ends[order] = np.cumsum(cells.counts[order])
    folds = []
    for k in range(_FOLDS if n <= _MANY else 1):
        # Number of rows of the cell among every fourth row, counted from row k on.
        held_out = (ends + _FOLDS - 1 - k) // _FOLDS - (ends - cells.counts + _FOLDS - 1 - k) // _FOLDS
        share = np.where(used, held_out / cells.counts, 0.0)[cells.cell]
        rest = np.where(used, 1.0 - held_out / cells.counts, 0.0)[cells.cell]
        training, weight = _part(problem, rest)
        held_out_rows = (share * cells.rows)[share > 0.0]
        folds.append(_Fold(training, _part(problem, share)[0], held_out_rows, weight))
    return folds


def _part(problem: TrainingProblem, shares: FloatArray) -> tuple[TrainingProblem, float]:
    """Build a problem that contains a fraction of every sample; also return its fraction of the weight."""
    weights = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
    some = shares > 0.0
    part = problem.take(some)
    if np.any(shares[some] < 1.0):
        part = part.reweighted((shares * weights)[some])
    return part, float(shares @ weights / weights.sum())
