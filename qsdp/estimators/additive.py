"""Choice of an additive model with interactions: thresholds, their products, and beta, by errors on held-out rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.parallel import blas_threads
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.blocks import Blocks
from qsdp.choosing.additive_path import AdditivePath
from qsdp.choosing.options import AUTO, TrainingOptions, fraction_of_beta_max
from qsdp.encoding import AdditiveBlocks, Encoding, EncodingRule, TableEncoder
from qsdp.encoding.additive_blocks import neuron_price, standardised, weight_prices
from qsdp.encoding.fitting import distributions, thresholds_of
from qsdp.encoding.scales import NO_GAIN
from qsdp.estimators.held_out import held_out_folds
from qsdp.losses import DataFit
from qsdp.networks import BilinearNetwork
from qsdp.problem import TrainingProblem
from qsdp.statistics.sample import Rows

__all__ = ["AdditiveFit", "fit_additive"]


#: Numbers of thresholds per column to choose from; 19 are the multiples of 5 %, with the median.
_THRESHOLDS = (0, 19)

#: Fractions of `beta_max` to choose from: three orders of magnitude in nine steps.
_FRACTIONS = np.geomspace(0.3, 3e-4, 10)

#: Maximum number of inputs of neurons before any selection, and maximum number of operations for all their products.
_MAX_INPUTS, _MAX_OPERATIONS = 1000, 2**34

#: Maximum number of inputs and thresholds of neurons after a selection: a neuron on hundreds costs many bits.
_MAX_MEMBERS = 100

#: Maximum number for refine="exact": the optimum of so many inputs is mostly proven in seconds, of 90 it never was.
_MAX_PROVEN = 35

#: A path ends when so many steps in a row together reduce the held-out loss by less than this fraction.
_FLAT, _GAIN = 2, 0.005

#: A path also ends when its loss exceeds that of the best candidate at the same step, after the first, by the first
#: fraction of the best candidate's gain, or its smallest loss so far by the second fraction of its gain so far.
_BEHIND, _WORSE = 0.1, 0.05

#: Standard errors of the difference of two losses: other inputs of neurons must reduce the loss by so many (with only
#: one, losses on new rows are larger), an elimination ends when the loss rises by so many; and fewer columns may raise
#: the loss by the second number.
_CLEAR, _NEGLIGIBLE = 2.0, 0.25

#: Entries of the thresholds of all columns that take a gigabyte of memory; no candidate has more. Products of inputs
#: and thresholds have fewer: the rest of a fit takes about ten seconds for so many.
_MAX_ENTRIES, _MAX_PRODUCTS = 2**27, 2**24


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

    Candidates have 0 or 19 thresholds per column, and neurons on all other inputs. For each, the loss on held-out rows
    is computed for decreasing beta, each fit from the one before, and the smallest one decides. Of the best candidate,
    the half of the columns with the smallest effects is left out, again and again, until two losses in a row are larger
    by two standard errors. The fewest columns whose loss exceeds the smallest one by a quarter of a standard error
    remain, with 0 or 19 thresholds. Then the inputs and thresholds with an effect are also those of the neurons, and
    the half of them with the smallest effects is left out; this decides if it lowers the loss by two standard errors.
    If more inputs of neurons remain than have products of moderate size, or than 35 with ``refine="exact"``, those with
    the largest effects do. Of more than a thousand inputs, or fewer of tens of thousands of rows, those with the
    largest slopes at a zero network are first those of the neurons.

    Parameters
    ----------
    samples : Rows
        Rows of a table, of positive weight.
    coded : ndarray of shape (n,) or (n, C)
        Targets.
    weights : ndarray of shape (n,), optional
        Weights of the rows in the training problem, with those of classes.
    options : TrainingOptions
        Of which loss, beta and refine are used.
    max_categories : int
        Largest number of categories of a column that have bits.
    """
    rule = EncodingRule.recommended("standard", samples.X.shape[1], max_categories)
    encoder: TableEncoder = TableEncoder(**asdict(rule)).fit(samples.X, sample_weight=samples.weights)
    table, standard = encoder._table(samples.X, warned=True), encoder.encoding_
    encoding, sets = _with_thresholds(standard, table, samples.weights)
    encoding = standardised(encoding, standard.encode(table), samples.weights)
    problem = options.problem(encoding.encode(table), coded, weights, samples.repetitions)
    limit = _MAX_PROVEN if options.refine == "exact" else _MAX_MEMBERS
    search = _AdditiveSearch(problem, encoding, options.beta, limit)
    # Products are too small for more threads, which made fits to 3,000 to 16,000 rows 1.3 to 2.2 times slower.
    with blas_threads(1):
        with options.choosing("thresholds and beta"):
            chosen = search.chosen(sets)
        with options.refining():
            fit = search.fitted(chosen, encoder, weights)
    # Columns without a weight cause no warning.
    encoder._report_unseen(table)
    return fit


def _with_thresholds(
    standard: Encoding, table: list[Any], weights: FloatArray | None
) -> tuple[Encoding, dict[int, IntArray]]:
    """Return the encoding with the thresholds of all candidates, and their positions by the number of thresholds."""
    spread, expressions = distributions(standard, table, weights), standard.expressions
    sets = {0: np.zeros(0, dtype=np.intp)}
    for count in _THRESHOLDS[1:]:
        more = thresholds_of(standard, spread, count)
        if more and len(more) * len(table[0]) <= _MAX_ENTRIES:
            sets[count] = np.arange(len(expressions), len(expressions) + len(more))
            expressions += more
    return replace(standard, expressions=expressions), sets


class _Fold(NamedTuple):
    """Losses and inputs (width, n) of training and held-out rows, and fraction of the weight in the training set."""

    fit: DataFit
    inputs: FloatArray
    held_out_fit: DataFit
    held_out_inputs: FloatArray
    row_counts: FloatArray
    fraction: float

    @classmethod
    def from_problems(cls, training: TrainingProblem, held_out: TrainingProblem, fraction: float) -> _Fold:
        # Candidates take some of the inputs, which are rows of these arrays.
        inputs, others = np.ascontiguousarray(training.X.T), np.ascontiguousarray(held_out.X.T)
        return cls(training.data_fit, inputs, held_out.data_fit, others, held_out.row_counts, fraction)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Inputs that have weights and inputs of neurons, of a table of all inputs."""

    weighted: IntArray
    members: IntArray

    def equals(self, other: _Candidate) -> bool:
        return np.array_equal(self.weighted, other.weighted) and np.array_equal(self.members, other.members)


@dataclass(frozen=True, eq=False)
class _Selection:
    """Which inputs of a candidate that was tried remain: those of the best columns, or the best ones.

    Attributes
    ----------
    source : _Tried
    kind : str
        "columns" are compared, and the others lose all their inputs; or "inputs", and the best ones have weights and
        are the inputs of the neurons; or "members", the inputs of the neurons, without a change of the weights.
    fraction : float
        Fraction of the columns or inputs with an effect that remains.
    inputs : _Candidate, optional
        Candidate whose inputs of the best columns remain, if not those of the source.
    """

    source: _Tried
    kind: str
    fraction: float
    inputs: _Candidate | None = None


@dataclass(frozen=True, eq=False)
class _Tried:
    """Held-out losses of candidates, one for each fold, for decreasing beta, and the effects of the inputs in the fits.

    Attributes
    ----------
    candidates : list of _Candidate
    losses : ndarray of shape (B,)
    row_losses : ndarray of shape (n,)
        Those of each held-out row for the beta of the smallest loss.
    effects : list of ndarray
        Sizes of the effects of the weighted inputs in the fit of each fold, for the beta of the smallest loss.
    selection : _Selection, optional
        How the candidates arose from others.
    """

    candidates: list[_Candidate]
    losses: FloatArray
    row_losses: FloatArray
    effects: list[FloatArray]
    selection: _Selection | None = None

    def smallest(self) -> float:
        return float(self.losses.min())

    def is_clear_gain(self, other: _Tried, counts: FloatArray, errors: float = _CLEAR) -> bool:
        """Whether losses are smaller than those of another by more than some standard errors of the difference."""
        gains = other.row_losses - self.row_losses
        variance = float(gains**2 @ (1.0 / counts)) - float(gains.sum()) ** 2 / float(counts.sum())
        return bool(gains.sum() > errors * np.sqrt(max(variance, 0.0)))

    def gain(self) -> float:
        return float(self.losses.max() - self.losses.min())

    @property
    def step(self) -> int:
        return int(np.argmin(self.losses))


@dataclass(frozen=True, eq=False)
class _AdditiveSearch:
    """Search among candidates for a problem whose columns are the inputs of all of them.

    Attributes
    ----------
    problem : TrainingProblem
    encoding : Encoding
    beta : float or str
        As passed by the user.
    limit : int
        Maximum number of inputs of neurons after a selection.
    """

    problem: TrainingProblem
    encoding: Encoding
    beta: float | str
    limit: int

    @cached_property
    def _above(self) -> npt.NDArray[np.bool_]:
        return np.array([expression.kind == "above" for expression in self.encoding.expressions])

    @cached_property
    def _has_column(self) -> bool:
        """Whether the intercept is the weight of a column of ones: that of the squared loss is free."""
        return not self.problem.loss.quadratic

    @cached_property
    def _positions(self) -> IntArray:
        return np.array([expression.position for expression in self.encoding.expressions])

    def chosen(self, sets: dict[int, IntArray]) -> tuple[_Candidate, int]:
        """Return the candidate and the number of steps to its beta."""
        standard = np.flatnonzero(~self._above)
        candidates = [self._first_candidate(np.concatenate([standard, extra])) for extra in sets.values()]
        folds = [_Fold.from_problems(*each) for each in held_out_folds(self.problem)]
        if not folds or (len(candidates) == 1 and not self._chooses):
            return candidates[0], 0
        tried: list[_Tried] = []
        for candidate in candidates:
            self._try(tried, folds, [candidate] * len(folds))
        best = min(tried, key=_Tried.smallest)
        best = self._eliminate(tried, folds, best, best, "columns")
        if best.selection is not None:
            selections = [replace(best.selection, inputs=candidate) for candidate in candidates]
            best = min((self._select(tried, folds, selection) for selection in selections), key=_Tried.smallest)
        others = [trial for trial in tried if np.any(self._above[trial.candidates[0].weighted])]
        chosen = self._eliminate(tried, folds, best, best, "inputs")
        if others:
            chosen = self._eliminate(tried, folds, min(others, key=_Tried.smallest), chosen, "inputs")
        if any(len(candidate.members) > self._max_members for candidate in chosen.candidates):
            chosen = self._select(tried, folds, _Selection(chosen, "members", 1.0))
        return self._on_all_rows(chosen), chosen.step

    def _first_candidate(self, weighted: IntArray) -> _Candidate:
        """Return the candidate whose neurons have all inputs but thresholds, or those of largest slopes at zero."""
        standard, slopes = weighted[~self._above[weighted]], self.problem.data_fit.zero_dual
        limit = min(_MAX_INPUTS, int(np.sqrt(_MAX_OPERATIONS / slopes.size)))
        if len(standard) > limit:
            sizes = ((self.problem.X[:, standard].T @ slopes) ** 2).sum(axis=1)
            standard = standard[_largest(sizes, limit)]
        return _Candidate(weighted, standard)

    def _eliminate(self, tried: list[_Tried], folds: list[_Fold], source: _Tried, chosen: _Tried, kind: str) -> _Tried:
        """Try the better half of the columns or inputs of a source, the better half of these and so on.

        Return the fewest columns whose losses exceed the smallest ones by a negligible amount. Of inputs, those with
        an effect are tried first, and the best candidates are returned if their losses are clearly smaller than those
        of the chosen ones, which are returned else.
        """
        new: list[_Tried] = []
        counts = np.concatenate([fold.row_counts for fold in folds])
        while True:
            selection = _Selection(new[-1] if new else source, kind, 0.5 if kind == "columns" or new else 1.0)
            new.append(self._select(tried, folds, selection))
            best, some = min(tried, key=_Tried.smallest), new[-1].candidates
            # A poor half of the columns may come before a good one: noise in many hides what few of them have.
            patience = 2 if kind == "columns" else 1
            hopeless = len(new) >= patience and all(best.is_clear_gain(trial, counts) for trial in new[-patience:])
            # A single column with several inputs has no better half.
            stuck = selection.fraction < 1.0 and all(map(_Candidate.equals, some, selection.source.candidates))
            if stuck or hopeless or max(len(candidate.weighted) for candidate in some) == 1 or deadline.over():
                break
        if kind == "columns":
            # Fewer columns need fewer bits.
            best = min([chosen, *new], key=_Tried.smallest)
            return [trial for trial in [chosen, *new] if not best.is_clear_gain(trial, counts, _NEGLIGIBLE)][-1]
        better = min(new, key=_Tried.smallest)
        return better if better.is_clear_gain(chosen, counts) else chosen

    def _select(self, tried: list[_Tried], folds: list[_Fold], selection: _Selection) -> _Tried:
        """Try what a selection leaves, unless the same was tried: in each fold, the inputs that its rows choose."""
        # Inputs that all rows choose would have errors that are too small.
        pairs = zip(selection.source.candidates, selection.source.effects, strict=True)
        some = [self._selected(candidate, effects, selection) for candidate, effects in pairs]
        known = (trial for trial in tried if all(map(_Candidate.equals, trial.candidates, some)))
        return next(known, None) or self._try(tried, folds, some, selection)

    def _selected(
        self, candidate: _Candidate, effects: FloatArray, selection: _Selection, count: int | None = None
    ) -> _Candidate:
        """Return the inputs of a candidate that a selection by the sizes of their effects leaves, or `count`."""
        weighted = candidate.weighted
        if selection.kind == "columns":
            totals = np.zeros(self._positions.max() + 1)
            np.maximum.at(totals, self._positions[weighted], effects)
            best = _largest(totals, count or _fraction_of(totals, selection.fraction))
            some = (selection.inputs or candidate).weighted
            return self._first_candidate(some[np.isin(self._positions[some], best)])
        members = selection.kind == "members"
        effects = np.where(np.isin(weighted, candidate.members), effects, 0.0) if members else effects
        count = min(count or _fraction_of(effects, selection.fraction), self._max_members)
        best = weighted[_largest(effects, count)]
        return _Candidate(weighted if members else best, best)

    def _count(self, tried: _Tried) -> int | None:
        """Return the number of columns or inputs that a selection left in the folds, or None if all with an effect."""
        if tried.selection is None or tried.selection.fraction == 1.0:
            return None
        some = [each.weighted for each in tried.candidates]
        some = [self._positions[each] for each in some] if tried.selection.kind == "columns" else some
        return int(np.ceil(np.mean([len(np.unique(each)) for each in some])))

    @property
    def _max_members(self) -> int:
        """Largest number of inputs of neurons after a selection, also by the number of their products on all rows."""
        return min(self.limit, int(np.sqrt(2.0 * _MAX_PRODUCTS / len(self.problem.X))))

    def _on_all_rows(self, tried: _Tried) -> _Candidate:
        """Return the candidate that the selections which led to those of the folds choose on all rows."""
        if tried.selection is None:
            return tried.candidates[0]
        candidate = self._on_all_rows(tried.selection.source)
        path, _ = self._followed(candidate, tried.selection.source.step)
        # Fits to more rows have fewer effects, of which a fraction would be too few.
        return self._selected(candidate, self._effects(candidate, path), tried.selection, self._count(tried))

    def _followed(self, candidate: _Candidate, step: int, *, accurate: bool = False) -> tuple[AdditivePath, float]:
        """Fit a candidate to all rows for each beta up to a step; return the path and its beta."""
        path = self._path(candidate, self.problem.data_fit, self.problem.X.T)
        betas = self._betas(path)[: step + 1].tolist()
        for beta in betas:
            path.fit(beta, accurate=accurate and beta == betas[-1])
        return path, betas[-1]

    @property
    def _chooses(self) -> bool:
        return self.beta == AUTO

    def _betas(self, path: AdditivePath, weight_fraction: float = 1.0) -> FloatArray:
        """Return the candidates of beta, for a fraction of the weight of all rows."""
        if isinstance(self.beta, str):
            fractions = _FRACTIONS if self._chooses else np.array([fraction_of_beta_max("beta", self.beta)])
            return fractions * (path.beta_max() or 1.0)
        return np.array([weight_fraction * self.beta])

    def _path(self, candidate: _Candidate, fit: DataFit, inputs: FloatArray) -> AdditivePath:
        columns, members = self._parts(candidate, inputs)
        omega = weight_prices(self._above[candidate.weighted], column=self._has_column)
        side = len(candidate.members)
        return AdditivePath(columns, omega, members, neuron_price(side) * side, fit)

    def _effects(self, candidate: _Candidate, path: AdditivePath) -> FloatArray:
        """Return the sizes of the effects of the weighted inputs of a candidate, without that of an intercept."""
        return path.effects(np.searchsorted(candidate.weighted, candidate.members))[: len(candidate.weighted)]

    def _parts(self, candidate: _Candidate, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the columns (p, n) that have weights, with ones unless the intercept is free, and those of neurons."""
        count = len(candidate.weighted)
        columns = np.empty((count + self._has_column, inputs.shape[1]))
        columns[:count], columns[count:] = inputs[candidate.weighted], 1.0
        return columns, inputs[candidate.members]

    def _try(
        self,
        tried: list[_Tried],
        folds: list[_Fold],
        candidates: list[_Candidate],
        selection: _Selection | None = None,
    ) -> _Tried:
        """Fit the candidates of the folds, append the result to those that were tried before, and return it."""
        pairs = list(zip(candidates, folds, strict=True))
        paths = [self._path(candidate, fold.fit, fold.inputs) for candidate, fold in pairs]
        betas = [self._betas(path, fold.fraction) for path, fold in zip(paths, folds, strict=True)]
        held_out = [self._parts(candidate, fold.held_out_inputs) for candidate, fold in pairs]
        best = min(tried, key=_Tried.smallest) if tried else None
        losses: list[float] = []
        for step in range(len(betas[0])):
            values = []
            for path, fold, some, (columns, inputs) in zip(paths, folds, betas, held_out, strict=True):
                path.fit(float(some[step]))
                outputs = path.outputs(columns, inputs)
                values.append(fold.held_out_fit.values(outputs).reshape(len(outputs), -1).sum(axis=1))
            loss = float(sum(some.sum() for some in values))
            if loss < min(losses, default=np.inf):
                row_losses = np.concatenate(values)
                effects = [self._effects(*pair) for pair in zip(candidates, paths, strict=True)]
            losses.append(loss)
            worse = loss > min(losses) + _WORSE * (max(losses) - min(losses))
            behind = best and 0 < step < len(best.losses) and loss > best.losses[step] + _BEHIND * best.gain()
            flat = len(losses) > _FLAT and min(losses[-_FLAT:]) > (1.0 - _GAIN) * min(losses[:-_FLAT])
            if worse or behind or flat or deadline.over():
                break
        tried.append(_Tried(candidates, np.array(losses), row_losses, effects, selection))
        return tried[-1]

    def fitted(self, chosen: tuple[_Candidate, int], encoder: TableEncoder, weights: FloatArray | None) -> AdditiveFit:
        """Fit the chosen candidate to all rows, without the thresholds that have no weight."""
        candidate, step = chosen
        path, beta = self._followed(candidate, step, accurate=True)
        W, U, V, alpha = path.parts()
        count = len(candidate.weighted)
        remaining = W[:count].any(axis=1) | np.isin(candidate.weighted, candidate.members)
        W = np.vstack([W[:count][remaining], W[count:]])
        inputs = candidate.weighted[remaining]
        before, encoder.encoding_ = encoder.encoding_, self.encoding.restricted(inputs)
        unused = sorted(set(before.used) - set(encoder.encoding_.used))
        encoder.dropped_ = {**encoder.dropped_, **{before.columns[position].name: NO_GAIN for position in unused}}
        thresholds = Counter(
            expression.position for expression in encoder.encoding_.expressions if expression.kind == "above"
        )
        blocks_encoder = AdditiveBlocks(
            max(thresholds.values(), default=0),
            products=_products(candidate.members, inputs, self._above[inputs]),
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
        return AdditiveFit(blocks_encoder, blocks, beta, network)


def _products(members: IntArray, inputs: IntArray, above: npt.NDArray[np.bool_]) -> str | list[int]:
    """Return which of some inputs, of which these are thresholds, neurons have; see `AdditiveBlocks`."""
    if len(members) == len(inputs):
        return "all"
    if np.array_equal(members, inputs[~above]):
        return "inputs"
    positions: list[int] = np.searchsorted(inputs, members).tolist()
    return positions


def _fraction_of(sizes: FloatArray, fraction: float) -> int:
    """Return a fraction of the number of sizes above zero, at least one."""
    return max(int(fraction * np.count_nonzero(sizes)), 1)


def _largest(sizes: FloatArray, count: int) -> IntArray:
    """Return the positions, ascending, of the largest sizes above zero: `count`, or all if these are fewer."""
    count = min(count, max(int(np.count_nonzero(sizes)), 1))
    return np.sort(np.argsort(-sizes, kind="stable")[:count])
