"""Choice of an additive model with interactions: thresholds, their products, and beta, by errors on held-out rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.blocks import Blocks
from qsdp.choosing.additive_path import AdditivePath
from qsdp.choosing.distinct_rows import DistinctRows
from qsdp.choosing.options import AUTO, TrainingOptions, fraction_of_beta_max
from qsdp.encoding import AdditiveBlocks, Encoding, EncodingRule, TableEncoder
from qsdp.encoding.additive_blocks import neuron_price, standardised, weight_prices
from qsdp.encoding.fitting import thresholds_of
from qsdp.encoding.scales import NO_GAIN
from qsdp.estimators.choices import useful_inputs
from qsdp.estimators.held_out import held_out_folds
from qsdp.estimators.thresholds import MAX_INPUTS, distributions
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.statistics.sample import Rows

__all__ = ["AdditiveFit", "fit_additive"]

#: Numbers of thresholds per column to choose from.
_THRESHOLDS = (0, 5, 20)

#: Fractions of `beta_max` to choose from: nearly three orders of magnitude in eight steps.
_FRACTIONS = np.geomspace(0.3, 6e-4, 9)

#: Increase of the loss above the smallest one that ends a path, as a fraction.
_HOPELESS = 0.1

#: Entries of the thresholds of all columns that take a gigabyte of memory; no candidate has more.
_MAX_ENTRIES = 2**27


@dataclass(frozen=True, eq=False)
class AdditiveFit:
    """Chosen encoder with the blocks of the training rows, beta, and a network that is optimal to about a percent.

    Attributes
    ----------
    encoder : AdditiveBlocks
    blocks : Blocks
    beta : float
    network : BilinearNetwork
    """

    encoder: AdditiveBlocks
    blocks: Blocks
    beta: float
    network: BilinearNetwork


def fit_additive(
    samples: Rows, coded: FloatArray, weights: FloatArray | None, options: TrainingOptions, max_categories: int
) -> AdditiveFit:
    """Choose thresholds, their products, and beta for a table, and fit the additive model with interactions.

    Candidates have 0, 5 or 20 thresholds per column, and neurons on all other inputs. The last candidate has the inputs
    and thresholds that have a weight in the best of these fits, and neurons on the same. For each, the loss on held-out
    rows is computed for decreasing beta, each fit from the one before, and the smallest one decides. Of more than a
    hundred inputs, those that a quadratic ridge regression needs are selected first.

    Parameters
    ----------
    samples : Rows
        Rows of a table, of positive weight.
    coded : ndarray of shape (n,) or (n, C)
        Targets.
    weights : ndarray of shape (n,), optional
        Weights of the rows in the training problem, with those of classes.
    options : TrainingOptions
        Of which loss and beta are used.
    max_categories : int
        Largest number of categories of a column that have bits.
    """
    rule = EncodingRule.recommended("standard", samples.X.shape[1], max_categories)
    encoder: TableEncoder = TableEncoder(**asdict(rule)).fit(samples.X, sample_weight=samples.weights)
    table, standard = encoder._table(samples.X, warned=True), encoder.encoding_
    if standard.width > MAX_INPUTS:
        # A neuron on hundreds of inputs costs more bits than a product of two is worth.
        columns = standard.encode(table)
        rows = np.hstack([columns, np.ones((len(columns), 1))])
        problem = options.problem(rows, coded, weights, samples.repetitions)
        standard = standard.restricted(useful_inputs(problem, DistinctRows.from_rows(rows), standard.width))
    encoding, sets = _with_thresholds(standard, table, samples.weights)
    encoding = standardised(encoding, encoding.encode(table), samples.weights)
    problem = options.problem(encoding.encode(table), coded, weights, samples.repetitions)
    search = _AdditiveSearch(problem, encoding, options.beta)
    with options.choosing("thresholds and beta"):
        chosen = search.chosen(sets)
    with options.refining():
        return search.fitted(chosen, encoder, weights)


def _with_thresholds(
    standard: Encoding, table: list[Any], weights: FloatArray | None
) -> tuple[Encoding, dict[int, IntArray]]:
    """Return the encoding with the thresholds of all candidates, and their places by the number of a candidate."""
    spread, expressions = distributions(standard, table, weights), standard.expressions
    sets = {0: np.zeros(0, dtype=np.intp)}
    for count in _THRESHOLDS[1:]:
        more = thresholds_of(standard, spread, count)
        if more and len(more) * len(table[0]) <= _MAX_ENTRIES:
            sets[count] = np.arange(len(expressions), len(expressions) + len(more))
            expressions += more
    return replace(standard, expressions=expressions), sets


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Inputs that have weights and inputs of neurons, of a table of all inputs."""

    weighted: IntArray
    members: IntArray


@dataclass(frozen=True, eq=False)
class _Tried:
    """Held-out losses of candidates, one for each fold, for decreasing beta, and what the fits use.

    Attributes
    ----------
    candidates : list of _Candidate
    losses : ndarray of shape (B,)
    used : list of lists of ndarray
        Inputs that have a weight, for each beta and fold.
    first : tuple of _Candidate and int, optional
        The fit to all rows whose inputs in use are the inputs of this candidate, and its step.
    """

    candidates: list[_Candidate]
    losses: FloatArray
    used: list[list[IntArray]]
    first: tuple[_Candidate, int] | None = None

    def smallest(self) -> float:
        return float(self.losses.min())


@dataclass(frozen=True, eq=False)
class _AdditiveSearch:
    """Search among candidates for a problem whose columns are the inputs of all of them.

    Attributes
    ----------
    problem : TrainingProblem
    encoding : Encoding
    beta : float or str
        As passed by the user.
    """

    problem: TrainingProblem
    encoding: Encoding
    beta: float | str

    @cached_property
    def _above(self) -> npt.NDArray[np.bool_]:
        return np.array([one.kind == "above" for one in self.encoding.expressions])

    def chosen(self, sets: dict[int, IntArray]) -> tuple[_Candidate, int]:
        """Return the candidate and the number of steps to its beta."""
        standard = np.flatnonzero(~self._above)
        candidates = [_Candidate(np.concatenate([standard, extra]), standard) for extra in sets.values()]
        folds = held_out_folds(self.problem)
        if not folds or (len(candidates) == 1 and not self._chooses):
            return candidates[0], 0
        tried = []
        for candidate in candidates:
            tried.append(self._tried(folds, [candidate] * len(folds)))
            if deadline.over():
                break
        else:
            best = min(tried, key=_Tried.smallest)
            step = int(np.argmin(best.losses))
            # Each fold has the inputs that its own rows choose, else its errors would be too small.
            used = [some for some in best.used[step] if len(some)]
            if len(used) == len(folds):
                second = self._tried(folds, [_Candidate(some, some) for some in used])
                tried.append(replace(second, first=(best.candidates[0], step)))
        chosen = min(tried, key=_Tried.smallest)
        step = int(np.argmin(chosen.losses))
        if chosen.first is None:
            return chosen.candidates[0], step
        some = self._used(*chosen.first)
        return (_Candidate(some, some), step) if len(some) else chosen.first

    @property
    def _chooses(self) -> bool:
        return self.beta == AUTO

    def _betas(self, path: AdditivePath, share: float = 1.0) -> FloatArray:
        """Return the candidates of beta, for a share of the weight of all rows."""
        if isinstance(self.beta, str):
            shares = _FRACTIONS if self._chooses else np.array([fraction_of_beta_max("beta", self.beta)])
            return shares * (path.beta_max() or 1.0)
        return np.array([share * self.beta])

    def _path(self, candidate: _Candidate, problem: TrainingProblem) -> AdditivePath:
        columns = self._weighted(candidate, problem.X)
        omega = weight_prices(self._above[candidate.weighted], column=not problem.loss.quadratic)
        side = len(candidate.members)
        return AdditivePath(
            columns, omega, problem.X[:, candidate.members], neuron_price(side) * side, problem.data_fit
        )

    def _weighted(self, candidate: _Candidate, X: FloatArray) -> FloatArray:
        columns = X[:, candidate.weighted]
        return columns if self.problem.loss.quadratic else np.hstack([columns, np.ones((len(X), 1))])

    def _used(self, candidate: _Candidate, step: int) -> IntArray:
        """Return the inputs that have a weight in the fit to all rows."""
        path = self._path(candidate, self.problem)
        for beta in self._betas(path)[: step + 1]:
            path.fit(float(beta))
        return _used_inputs(candidate, path)

    def _tried(
        self, folds: list[tuple[TrainingProblem, TrainingProblem, float]], candidates: list[_Candidate]
    ) -> _Tried:
        paths = [self._path(one, training) for one, (training, _, _) in zip(candidates, folds, strict=True)]
        betas = [self._betas(path, share) for path, (_, _, share) in zip(paths, folds, strict=True)]
        losses, used = [], []
        for step in range(len(betas[0])):
            loss = 0.0
            for one, path, (_, held_out, _), some in zip(candidates, paths, folds, betas, strict=True):
                path.fit(float(some[step]))
                outputs = path.outputs(self._weighted(one, held_out.X), held_out.X[:, one.members])
                loss += held_out.data_fit.value(outputs)
            losses.append(loss)
            used.append([_used_inputs(*pair) for pair in zip(candidates, paths, strict=True)])
            if losses[-1] > (1.0 + _HOPELESS) * min(losses) or deadline.over():
                break
        return _Tried(candidates, np.array(losses), used)

    def fitted(self, chosen: tuple[_Candidate, int], encoder: TableEncoder, weights: FloatArray | None) -> AdditiveFit:
        """Fit the chosen candidate to all rows, without the thresholds that have no weight."""
        candidate, step = chosen
        path = self._path(candidate, self.problem)
        betas = self._betas(path)[: step + 1]
        for beta in betas:
            path.fit(float(beta), accurate=beta == betas[-1])
        W, U, V, alpha = path.parts()
        count = len(candidate.weighted)
        kept = W[:count].any(axis=1) | np.isin(candidate.weighted, candidate.members)
        W = np.vstack([W[:count][kept], W[count:]])
        inputs = candidate.weighted[kept]
        before, encoder.encoding_ = encoder.encoding_, self.encoding.restricted(inputs)
        unused = sorted(set(before.used) - set(encoder.encoding_.used))
        encoder.dropped_ = {**encoder.dropped_, **{before.columns[position].name: NO_GAIN for position in unused}}
        thresholds = Counter(one.position for one in encoder.encoding_.expressions if one.kind == "above")
        blocks_encoder = AdditiveBlocks(
            max(thresholds.values(), default=0),
            products="all" if len(candidate.members) == count else "inputs",
            intercept="means" if self.problem.loss.quadratic else "column",
            max_categories=encoder.max_categories,
        )
        blocks = blocks_encoder.fit_inputs(encoder, self.problem.X[:, inputs], weights)
        layout, scalar = blocks_encoder.layout_, self.problem.scalar
        network = BilinearNetwork.on_blocks(
            layout,
            U,
            V,
            alpha[:, 0] if scalar else alpha,
            np.zeros(len(U), dtype=np.intp),
            W[:, 0] if scalar else W,
        )
        return AdditiveFit(blocks_encoder, blocks, float(betas[-1]), network)


def _used_inputs(candidate: _Candidate, path: AdditivePath) -> IntArray:
    """Return the inputs of a candidate that have a weight."""
    used: IntArray = candidate.weighted[path.parts()[0][: len(candidate.weighted)].any(axis=1)]
    return used
