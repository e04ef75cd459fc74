"""Choice of beta on held-out samples, from a few coarse solves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qsdp._utils.deadline import NEVER, Deadline
from qsdp._utils.progress import NO_BAR, ProgressBar
from qsdp._utils.validation import FloatArray
from qsdp.problem import TrainingProblem
from qsdp.relaxation.backends import Settings
from qsdp.relaxation.path import useful_beta_max
from qsdp.relaxation.reductions import Reductions
from qsdp.relaxation.solution import Relaxation
from qsdp.relaxation.solve import solve_with

__all__ = ["MOST_SAMPLES", "choose_beta"]

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


def choose_beta(problem: TrainingProblem, *, deadline: Deadline = NEVER, bar: ProgressBar = NO_BAR) -> float:
    r"""Return the beta, a share of `beta_max`, whose relaxation has the smallest loss on held-out samples.

    The search goes downhill along the grid of shares, from the middle on. For each the relaxation is solved coarsely on
    the samples outside a fold. Predictions are cut to the range of the targets. Beta of a training part is smaller by
    its share of the weight, since the loss is a sum. Equal rows of X are in one fold, and folds depend neither on the
    order of the samples nor on whether a row is repeated or has a weight. Where zero is optimal for every beta, any
    will do.

    Parameters
    ----------
    problem : TrainingProblem
        Its own beta does not matter.
    deadline : Deadline
        When it has passed, the best share so far is returned.
    bar : ProgressBar
        Shows how many shares are done.
    """
    largest = useful_beta_max(problem, deadline.share(0.3))
    if largest == 0.0:
        return 1.0
    folds = _folds(problem)
    losses: dict[float, float] = {}
    of_folds: list[float] = []
    for share in _downhill(losses) if folds else ():
        bar.count(len(losses), len(SHARES), f"share {share:g} of beta_max")
        found = _losses(folds, share * largest, of_folds, deadline)
        if deadline.over:
            break
        losses[share] = sum(found) if len(found) == len(folds) else np.inf
        if losses[share] == min(losses.values()):
            of_folds = found
    if not losses:
        return FALLBACK * largest
    share = min(losses, key=losses.__getitem__)
    if deadline.over and share == min(losses):
        # Time ended the search while the loss was falling.
        share = min(share, FALLBACK)
    return share * largest


def _downhill(losses: Mapping[float, float]) -> Iterator[float]:
    """Yield shares from the first on, until the next smaller and the next larger one are no better.

    The loss of every share yielded must be among `losses` when the next is asked for.
    """
    start = SHARES.index(START)
    yield SHARES[start]
    for step in (1, -1):
        place = start
        while 0 <= place + step < len(SHARES) and losses[SHARES[place]] == min(losses.values()):
            place += step
            yield SHARES[place]
        if losses[SHARES[start]] > min(losses.values()):
            return


def _losses(folds: Sequence[_Fold], beta: float, best: Sequence[float], deadline: Deadline) -> list[float]:
    """Return the losses on the folds, or on the first of them where those are clearly above the `best` losses."""
    losses: list[float] = []
    for fold in folds:
        losses.append(fold.loss(beta, deadline))
        if deadline.over:
            # What is not known of all folds is not used.
            break
        done = len(losses)
        if best and _LEAST_FOLDS <= done < len(folds) and sum(losses) > (1.0 + _WORSE) * sum(best[:done]):
            break
    return losses


def held_out_predictions(
    problem: TrainingProblem, deadline: Deadline = NEVER
) -> Iterator[tuple[TrainingProblem, FloatArray]]:
    """Return samples held out and the outputs there of a coarse relaxation of the others, for every fold.

    The folds are those of `choose_beta`; where there are too few distinct samples for any, one of all samples at
    themselves. No fold but the first begins after the deadline.
    """
    for k, fold in enumerate(_folds(problem) or [_Fold(problem, problem, 1.0)]):
        if k == 0 or not deadline.over:
            yield fold.held_out, fold.predict(problem.beta, deadline)


@dataclass
class _Fold:
    """A training part and the samples held out, with what a solve leaves for the next."""

    training: TrainingProblem
    held_out: TrainingProblem
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

    def loss(self, beta: float, deadline: Deadline) -> float:
        """Return the loss of those outputs."""
        return self.held_out.data_fit.value(self.predict(beta, deadline))


def _folds(problem: TrainingProblem) -> list[_Fold]:
    """Return the folds to be held out, none where there are too few distinct samples."""
    distinct, group = np.unique(problem.X, axis=0, return_inverse=True)
    n = len(distinct)
    if n < 2 * _FOLDS:
        return []
    rank = np.random.default_rng(0).permutation(n)[group.ravel()]
    used = rank < MOST_SAMPLES
    weights = np.ones(problem.n_samples) if problem.sample_weight is None else problem.sample_weight
    folds = []
    for k in range(_FOLDS if n <= _MANY else 1):
        held_out = rank % _FOLDS == k
        training = used & ~held_out
        share = float(weights[training].sum() / weights.sum())
        folds.append(_Fold(problem.take(training), problem.take(used & held_out), share))
    return folds
