"""Choice of beta on held-out samples, from a few coarse solves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.progress import NO_BAR, ProgressBar
from qsdp._utils.validation import FloatArray
from qsdp.problem import TrainingProblem
from qsdp.relaxation.backends import Settings
from qsdp.relaxation.largest_beta import useful_beta_max
from qsdp.relaxation.reductions import Reductions
from qsdp.relaxation.rows import Cells, DistinctRows
from qsdp.relaxation.solution import Relaxation
from qsdp.relaxation.solve import solve_with

__all__ = ["MOST_SAMPLES", "BetaChoice", "beta_choice", "choose_beta"]

#: Shares of `beta_max`, from large to small. On fourteen data sets the best one for held-out samples was an inner one.
SHARES = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)

#: The share to begin with, in the middle of those that were best.
START = 0.02

#: The share where no time is left to choose: of fixed ones the best on average over those sets.
FALLBACK = 0.01

#: Relative gap of the solves: the held-out loss of neighbours differs by more.
_TOL = 1e-2

#: Folds; all are held out in turn up to so many distinct samples, of more only the first.
_FOLDS, _MANY = 4, 1000

#: Distinct samples used at most: among thousands the choice does not depend on a few.
MOST_SAMPLES = 5000

#: Folds after which a share that is worse by so much is given up. On eleven data sets and four encodings of each, the
#: held-out loss fell and rose once along the shares, and this cost at most 1.5 % of it.
_LEAST_FOLDS, _WORSE = 2, 0.05

#: Standard errors by which fewer rows must be in the wrong class for a smaller share than that of the smallest loss: as
#: Breiman has it, of models within one of them the simplest is taken.
_CLEARLY = 1.0


@dataclass(frozen=True)
class BetaChoice:
    """A beta, and the loss to be expected of its relaxation.

    Attributes
    ----------
    beta : float
    expected_loss : float
        Of as many new rows as those of the problem, estimated from held-out ones; zero where there are none.
    """

    beta: float
    expected_loss: float = 0.0


def choose_beta(problem: TrainingProblem, *, deadline: Deadline = NEVER, bar: ProgressBar = NO_BAR) -> float:
    r"""Return the beta, a share of `beta_max`, whose relaxation has the smallest loss on held-out samples.

    The search goes downhill along the grid of shares, from the middle on. For each the relaxation is solved coarsely on
    the rows outside a fold. Predictions are cut to the range of the targets. Beta of a training part is smaller by its
    share of the weight, since the loss is a sum. Where targets are classes, a smaller share at which clearly fewer
    held-out rows are in the wrong one is preferred. Rows are dealt to the folds one by one, equal ones, too: where rows
    repeat, new ones will have been seen before. Folds depend neither on the order of the samples nor on whether a row
    is repeated or has a whole weight; see `Cells`. Where zero is optimal for every beta, any will do.

    Parameters
    ----------
    problem : TrainingProblem
        Its own beta does not matter.
    deadline : Deadline
        When it has passed, the best share so far is returned.
    bar : ProgressBar
        Shows how many shares are done.
    """
    return beta_choice(problem, deadline, bar).beta


def beta_choice(problem: TrainingProblem, deadline: Deadline = NEVER, bar: ProgressBar = NO_BAR) -> BetaChoice:
    """Return what `choose_beta` does, with the loss to be expected."""
    largest = useful_beta_max(problem, deadline.share(0.3))
    if largest == 0.0:
        return BetaChoice(1.0)
    search = _ShareSearch(_folds(problem), largest, _Codes.of(problem), deadline)
    for share in search.downhill() if search.folds else ():
        bar.count(len(search.losses), len(SHARES), f"share {share:g} of beta_max")
        search.measure(share)
        if deadline.over:
            break
    if not search.losses:
        return BetaChoice(FALLBACK * largest)
    share = search.best
    if deadline.over and share == min(search.losses):
        # Time ended the search while the loss was falling.
        return BetaChoice(min(share, FALLBACK) * largest)
    share = search.clearly_fewer_wrong(share)
    held_out = sum(fold.held_out.data_fit.total_weight for fold in search.folds)
    return BetaChoice(share * largest, search.losses[share] * problem.data_fit.total_weight / held_out)


@dataclass
class _ShareSearch:
    """Losses of shares of `beta_max` on held-out folds, and which rows are in the wrong class there."""

    folds: list[_Fold]
    largest: float
    codes: _Codes | None
    deadline: Deadline
    losses: dict[float, float] = field(default_factory=dict)
    _of_folds: dict[float, list[float]] = field(default_factory=dict)
    _wrong: dict[float, list[FloatArray]] = field(default_factory=dict)

    @property
    def best(self) -> float:
        """The share of the smallest loss."""
        return min(self.losses, key=self.losses.__getitem__)

    def downhill(self) -> Iterator[float]:
        """Yield shares from the first on, until the next smaller and the next larger one are no better.

        Each must be measured before the next is asked for.
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
        """Measure a share on all folds, or the first of them where those are clearly worse than of the best share.

        What is not known of all folds is not used: the loss is infinite, or missing where the time is over.
        """
        losses, wrong = self._of_folds.setdefault(share, []), self._wrong.setdefault(share, [])
        best = self._of_folds[self.best] if self.losses and not whole else []
        for fold in self.folds[len(losses) :]:
            outputs = fold.predict(share * self.largest, self.deadline)
            losses.append(fold.held_out.data_fit.value(outputs))
            if self.codes is not None:
                wrong.append(self.codes.wrong(fold.held_out, outputs))
            if self.deadline.over:
                return
            done = len(losses)
            if best and _LEAST_FOLDS <= done < len(self.folds) and sum(losses) > (1.0 + _WORSE) * sum(best[:done]):
                break
        self.losses[share] = sum(losses) if len(losses) == len(self.folds) else np.inf

    def clearly_fewer_wrong(self, share: float) -> float:
        """Return a smaller share at which clearly fewer rows are in the wrong class, or the share itself."""
        if self.codes is None or self.deadline.over:
            return share
        best = share
        for smaller in SHARES[SHARES.index(share) + 1 :]:
            self.measure(smaller, whole=True)
            if self.deadline.over or self._gains(best, smaller).sum() <= 0.0:
                break
            best = smaller
        gains, rows = self._gains(share, best), np.concatenate([fold.held_out_rows for fold in self.folds])
        # A sample of several rows gains as much as these do, each of them a draw of its own.
        return best if gains.sum() > _CLEARLY * np.sqrt((np.square(gains) / rows).sum()) else share

    def _gains(self, share: float, other: float) -> FloatArray:
        """Return the weights of rows wrong at one share less those of rows wrong at another."""
        one, two = (np.concatenate(self._wrong[name]) for name in (share, other))
        return one - two


@dataclass(frozen=True, eq=False)
class _Codes:
    """Targets that are codes of classes: every column has two values.

    Attributes
    ----------
    low, high : ndarray of shape (C,)
    one_each : bool
        Whether the outputs are those of more than two classes, of which every sample has one.
    """

    low: FloatArray
    high: FloatArray
    one_each: bool

    @classmethod
    def of(cls, problem: TrainingProblem) -> _Codes | None:
        """Return those of a problem, None if its targets are numbers."""
        y = _columns(problem.y)
        low, high = y.min(axis=0), y.max(axis=0)
        if np.any((y != low) & (y != high)):
            return None
        return cls(low, high, y.shape[1] > 1 and bool(np.all((y == high).sum(axis=1) == 1)))

    def wrong(self, samples: TrainingProblem, outputs: FloatArray) -> FloatArray:
        """Return the weight of every sample whose class is not that of the outputs, zero if it is."""
        is_class = _columns(samples.y) == self.high
        scores = (_columns(outputs) - self.low) / np.where(self.high > self.low, self.high - self.low, 1.0)
        if self.one_each:
            wrong = (scores.argmax(axis=1) != is_class.argmax(axis=1)).astype(float)
        else:
            wrong = ((scores > 0.5) != is_class).mean(axis=1)
        return samples.data_fit.weighted(wrong)


def _columns(values: FloatArray) -> FloatArray:
    return values.reshape(len(values), -1)


def held_out_predictions(
    problem: TrainingProblem, deadline: Deadline = NEVER
) -> Iterator[tuple[TrainingProblem, FloatArray]]:
    """Return samples held out and the outputs there of a coarse relaxation of the others, for every fold.

    The folds are those of `choose_beta`; where there are too few distinct samples for any, one of all samples at
    themselves. No fold but the first begins after the deadline.
    """
    for k, fold in enumerate(_folds(problem) or [_Fold(problem, problem, np.ones(problem.n_samples), 1.0)]):
        if k == 0 or not deadline.over:
            yield fold.held_out, fold.predict(problem.beta, deadline)


@dataclass
class _Fold:
    """A training part and its share of the weight, the samples held out and how many rows each of them is.

    And what a solve leaves for the next.
    """

    training: TrainingProblem
    held_out: TrainingProblem
    held_out_rows: FloatArray
    share: float
    #: For the smallest and the largest beta so far; never the zero point, which is no start: it has no scale.
    solved: list[Relaxation] = field(default_factory=list)
    reductions: Reductions = field(default_factory=Reductions)

    def predict(self, beta: float, deadline: Deadline) -> FloatArray:
        """Return the outputs of the relaxation for `beta` of all samples, at the samples held out."""
        problem = self.training.with_beta(self.share * beta)
        settings = Settings(_TOL, "two-block", None, deadline=deadline, reductions=self.reductions)
        nearest = min(self.solved, key=lambda one: abs(np.log(one.problem.beta / problem.beta)), default=None)
        relaxation = solve_with(problem, "auto", settings, "tight", start=nearest, quiet=True)
        if np.any(relaxation.rho_stack > 0.0):
            solved = sorted([*self.solved, relaxation], key=lambda one: one.problem.beta)
            self.solved = [*solved[:1], *solved[1:][-1:]]
        prediction = relaxation.predict(self.held_out.X)
        loss = problem.loss
        if not (loss.labels or loss.coupled):
            # A quadratic function of a far-off row can be anything; no target is beyond those seen.
            prediction = np.clip(prediction, problem.y.min(axis=0), problem.y.max(axis=0))
        return prediction


def _folds(problem: TrainingProblem) -> list[_Fold]:
    """Return the folds to be held out, none where there are too few distinct samples."""
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
        # Every fourth row, from number k on, of those of the cell.
        held_out = (ends + _FOLDS - 1 - k) // _FOLDS - (ends - cells.counts + _FOLDS - 1 - k) // _FOLDS
        share = np.where(used, held_out / cells.counts, 0.0)[cells.cell]
        rest = np.where(used, 1.0 - held_out / cells.counts, 0.0)[cells.cell]
        training, weight = _part(problem, rest)
        held_out_rows = (share * cells.rows)[share > 0.0]
        folds.append(_Fold(training, _part(problem, share)[0], held_out_rows, weight))
    return folds


def _part(problem: TrainingProblem, shares: FloatArray) -> tuple[TrainingProblem, float]:
    """Return the problem of a share of every sample, and its share of the weight."""
    weights = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
    some = shares > 0.0
    part = problem.take(some)
    if np.any(shares[some] < 1.0):
        part = part.reweighted((shares * weights)[some])
    return part, float(shares @ weights / weights.sum())
