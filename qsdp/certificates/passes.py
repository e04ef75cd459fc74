r"""Certificates over any number of rows, from one or more passes; between passes, the dual vector is corrected.

The scores of a relaxation of some rows give a dual vector of all rows. It misses the penalty to the extent that the few
rows differ from all rows. Between passes, a Newton step moves the scores: the gradient of all rows, :math:`M_\nu`, and
the curvature of the few rows define a squared loss, whose relaxation is solved. As the dual function is concave, a
mixture of the dual vectors of all passes proves at least the mixture of their bounds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from qsdp._utils import deadline
from qsdp._utils.deadline import TimeOver
from qsdp._utils.numeric import EPS, MARGIN, ROUNDING, SAFE, UNIT
from qsdp._utils.progress import progress
from qsdp._utils.validation import FloatArray, check_beta, check_integer, check_verbose, read_only
from qsdp.certificates.certificate import Certificate, as_bilinear, check_fits
from qsdp.certificates.proof import tree_bound
from qsdp.certificates.row_sums import SCALES, RowsProof, RowSums, Scores, Totals
from qsdp.data_map import SAMPLES, require
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.forms import FormMap
from qsdp.gram import GramFactor
from qsdp.inner_problem import grothendieck_bound, uninterrupted
from qsdp.networks import BilinearNetwork, PolynomialNetwork
from qsdp.pricing import BoundTree
from qsdp.pricing.bound_trees import root_tree, scaled_tree
from qsdp.problem import TrainingProblem, quadratic_problem
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.relaxation.spectra import spectral_bound
from qsdp.roundoff import gamma
from qsdp.statistics.batches import add_batches, streams
from qsdp.training_data import QuadraticModel

__all__ = ["certify_stream"]

#: Step of Moreau's envelope of losses with kinks, relative to the mean loss; of 0.1 to 1, 0.3 was the best.
_SMOOTHING = 0.3

#: Mixtures are multiples of this, so that sums of thousands are exact.
_UNIT = 8192.0 * UNIT

#: Diagonal regularisation of the curvature of few rows, relative to its mean; from 0.1 to 0.3 it does not matter.
_RIDGE = 0.2


def certify_stream(
    network: BilinearNetwork | PolynomialNetwork,
    batches: Any,
    relaxation: Relaxation,
    *,
    passes: int = 1,
    beta: float | None = None,
    verbose: bool | int = False,
) -> Certificate:
    r"""Certify a network on any number of rows, which are read in batches and forgotten.

    The relaxation is that of some of the rows, few enough to be solved in memory. Its predictions give a dual vector of
    all rows, whose bound holds for every network on all rows. Allowances for the rounding of the sums are subtracted.

    Parameters
    ----------
    network : BilinearNetwork or PolynomialNetwork
        Any network with the inputs, outputs, levels and activation of the relaxation's problem. A polynomial network is
        converted by `from_polynomial`.
    batches : iterable of (X, y) or (X, y, sample_weight), function that returns one, or tuple of Dask collections
        All rows, in batches of any size. Several passes need an iterable that can be read again, such as a list, or a
        function that is called once for every pass. Of a tuple (X, y) or (X, y, sample_weight) of Dask arrays or data
        frames, one chunk at a time is brought to this process.
    relaxation : Relaxation
        Relaxation of some of the rows, with the loss, activation and levels of all rows.
    passes : int, default=1
        Number of passes over the batches. Between passes, a Newton step for all rows corrects the predictions, which
        reduces the gap due to a relaxation of only some rows severalfold.
    beta : float, optional
        Beta for all rows. By default, the beta of the relaxation times the ratio of the total weight of all rows to
        that of the relaxation's rows. The beta of a relaxation of statistics is used unchanged.
    verbose : bool or int, default=False
        Show the number of rows read so far, on standard error or in the notebook.

    Returns
    -------
    Certificate

    Raises
    ------
    InvalidInputError, InvalidTypeError
        The network or a batch does not match the relaxation's problem, or the batches cannot be read again. For a
        batch, the message gives its number and its first row.

    Examples
    --------
    >>> import qsdp
    >>> X, y = qsdp.datasets.make_planted(n=300, d=4, n_neurons=3, random_state=0)
    >>> relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X[:100], y[:100], beta=1.0))
    >>> network = qsdp.sample_network(qsdp.shape_covariance(relaxation), 50, random_state=0)
    >>> batches = [(X[:150], y[:150]), (X[150:], y[150:])]
    >>> certificate = qsdp.certify_stream(network, batches, relaxation, passes=2)
    >>> 0.0 < certificate.lower_bound <= certificate.objective
    True
    """
    passes = check_integer("passes", passes, minimum=1)
    check_verbose(verbose)
    if not isinstance(relaxation, Relaxation):
        raise InvalidTypeError(f"relaxation must be a Relaxation of some of the rows; got {type(relaxation).__name__}")
    few = relaxation.problem
    if few.blocks is not None:
        raise InvalidInputError("relaxation must be of columns: rows in batches cannot be in blocks; see qsdp.certify")
    bilinear: BilinearNetwork = as_bilinear(network, few)
    check_fits(bilinear, few)
    beta = None if beta is None else check_beta("beta", beta)
    if passes > 1:
        require(few.weight_map, "a correction between passes", SAMPLES)
    search: _Search | None = None
    first: RowSums | None = None
    scores = _initial_scores(relaxation)
    with progress(verbose) as stages, stages.stage("certify") as bar:
        for number, stream in enumerate(streams(batches, passes)):
            sums = RowSums(bilinear, few.loss, scores)
            add_batches(stream, sums.add, bar, f"pass {number + 1} of {passes}" if passes > 1 else "")
            if not sums.n_samples:
                raise InvalidInputError("batches must have at least one row of positive weight; got none")
            if first is None:
                first = sums
                ratio = sums.total_weight / few.data_fit.total_weight
                weight = proportional_beta(few, sums.total_weight) if beta is None else beta
                search = _Search(bilinear, weight, few.data_fit.n_parts)
            elif sums.digest != first.digest:
                raise InvalidInputError(
                    "batches must hold the same rows in every pass; those of the first pass differed"
                )
            assert search is not None
            search.add(sums.totals())
            if number + 1 == passes or deadline.over():
                break
            try:
                scores = _corrected(few, scores, search.passes[-1].matrices, weight, ratio)
            except (TimeOver, np.linalg.LinAlgError):
                break
    assert first is not None
    assert search is not None
    bound, mixture, trees = search.proven()
    proof = RowsProof(
        bilinear,
        few.loss,
        weight,
        first.n_samples,
        first.digest,
        tuple(totals.scores for totals in search.passes),
        read_only(mixture),
        trees,
        first.objective_rounding,
    )
    objective = first.loss_value + search.penalty(bilinear)
    return Certificate(min(bound, objective), objective, proof=proof)


def proportional_beta(few: TrainingProblem, total_weight: float) -> float:
    """Scale the problem's beta to the total weight of all rows; the beta of statistics is unchanged."""
    return few.beta if SAMPLES not in few.weight_map.offers else few.beta * (total_weight / few.data_fit.total_weight)


def _initial_scores(relaxation: Relaxation) -> Scores:
    problem = relaxation.problem
    forms = 2.0 * relaxation.Z_stack * _level_factors(problem)
    if problem.loss.smooth:
        return Scores(forms, 0.0)
    fit = problem.data_fit
    mean = fit.value(Scores(forms, 0.0).predictions(problem.weight_map)) / fit.total_weight
    return Scores(forms, _SMOOTHING * mean)


def _level_factors(problem: TrainingProblem) -> FloatArray:
    """Compute the entrywise factors that convert matrices for level-scaled data to matrices for the data."""
    sides = np.append(np.full(problem.n_features, problem.levels - 1.0), np.ones(int(problem.lifted)))
    return np.outer(sides, sides)


# -- correction -------------------------------------------------------------------------------------------------


def _corrected(few: TrainingProblem, scores: Scores, matrices: FloatArray, beta: float, ratio: float) -> Scores:
    """Take a Newton step for all rows, and return the new scores.

    Raises
    ------
    TimeOver, LinAlgError
        The time limit has passed, or the curvature overflows.
    """
    fit, factors = few.data_fit, _level_factors(few)
    slopes = scores.slopes(scores.predictions(few.weight_map), fit)
    upper = np.triu_indices(few.size)
    counts = np.where(upper[0] == upper[1], 1.0, 2.0)
    moved = []
    for S, M, slope in zip(scores.forms, matrices / factors, slopes.T, strict=True):
        # The squared loss has no factor of one half.
        curvature = few.weight_map.pair_sums(0.5 * ratio * slope)
        ridge = _RIDGE * float(np.trace(curvature)) / len(curvature)
        curvature[np.diag_indices_from(curvature)] += ridge or 1.0
        if not np.all(np.isfinite(curvature)):
            raise np.linalg.LinAlgError("the curvature is too large for floats")
        factor = GramFactor(curvature)
        target = factor.rows @ (counts * S[upper]) + 0.5 * factor.targets(M[upper])
        model = QuadraticModel(FormMap.from_forms(factor.rows, few.lifted, few.n_samples), target)
        problem = quadratic_problem(model, beta=beta, activation=few.activation, levels=few.levels)
        relaxation = solve_relaxation(problem)
        moved.append(2.0 * relaxation.Z_stack[0] * factors)
    return replace(scores, forms=np.stack(moved))


# -- mixtures ---------------------------------------------------------------------------------------------------


class _Search:
    """Search for the best convex combination ("mixture") of the dual vectors of several passes over the same rows."""

    def __init__(self, network: BilinearNetwork, beta: float, n_parts: int) -> None:
        dimension = network.n_inputs * (network.levels - 1) + network.lifted
        self._dual_radius = beta * dimension
        self._parts = np.split(np.arange(network.n_outputs), n_parts)
        self.passes: list[Totals] = []
        self._dominating: list[FloatArray] = []
        self._mixture = np.zeros((0, len(self._parts)))

    def penalty(self, network: BilinearNetwork) -> float:
        """Return the regulariser of a network."""
        return self._dual_radius * float(np.abs(network.alpha).sum())

    def add(self, totals: Totals) -> None:
        """Add a pass, and mix it with the previous ones."""
        self.passes.append(totals)
        self._dominating.append(np.stack([_dominating(M) for M in totals.matrices]))
        known = np.vstack([self._mixture, np.zeros(len(self._parts))])
        latest = np.zeros(len(self.passes))
        latest[-1] = 1.0
        if len(self.passes) == 1:
            self._mixture = known + 1.0
            return
        columns = [self._best(p, column, latest) for p, column in enumerate(known.T)]
        self._mixture = np.floor(np.stack(columns, axis=1) / _UNIT) * _UNIT

    def _best(self, part: int, known: FloatArray, latest: FloatArray) -> FloatArray:
        def bound(fraction: float) -> float:
            mixture = (1.0 - fraction) * known + fraction * latest
            weights = np.tensordot(mixture, np.stack(self._dominating), 1)
            matrices, roundings = self._mixed(mixture)
            upper = max(
                spectral_bound(matrices[k], weights[k]) * float(weights[k].sum()) + roundings[k]
                for k in self._parts[part]
            )
            return self._value(self._values(part, mixture), upper)[0]

        search = scipy.optimize.minimize_scalar(lambda fraction: -bound(fraction), bounds=(0.0, 1.0), method="bounded")
        fraction = max(0.0, 1.0, float(search.x), key=bound)
        return (1.0 - fraction) * known + fraction * latest

    def proven(self) -> tuple[float, FloatArray, tuple[BoundTree, ...]]:
        """Compute the bound of the best mixture, the mixture, and the trees of one leaf that prove it."""
        total, scaled = [], self._mixture.copy()
        trees: list[BoundTree] = []
        for p, outputs in enumerate(self._parts):
            matrices, roundings = self._mixed(self._mixture[:, p])
            leaves = [root_tree(_dominating(matrices[k])) for k in outputs]
            upper = max(tree_bound(matrices[k], leaf) + roundings[k] for k, leaf in zip(outputs, leaves, strict=True))
            value, scale = self._value(self._values(p, self._mixture[:, p]), upper)
            total.append(value)
            scaled[:, p] *= scale
            trees += [scaled_tree(leaf, scale) for leaf in leaves]
        return math.nextafter(math.fsum(total), 0.0), scaled, tuple(trees)

    def _mixed(self, mixture: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the matrices of a mixture, and bounds on the effect of their errors on pricing values."""
        matrices = np.tensordot(mixture, np.stack([totals.matrices for totals in self.passes]), 1)
        sizes = np.tensordot(mixture, np.stack([np.abs(totals.matrices).sum(axis=(1, 2)) for totals in self.passes]), 1)
        roundings = np.tensordot(mixture, np.stack([totals.roundings for totals in self.passes]), 1)
        return matrices, MARGIN * roundings + gamma(len(mixture) + 2) * sizes

    def _values(self, part: int, mixture: FloatArray) -> FloatArray:
        """Compute lower bounds on the dual values of multiples of a mixture, starting with the multiple zero."""
        terms = mixture[:, None] * np.stack([totals.values[part] for totals in self.passes])
        return np.append(0.0, terms.sum(axis=0) - gamma(len(mixture) + 2) * np.abs(terms).sum(axis=0))

    def _value(self, values: FloatArray, upper: float) -> tuple[float, float]:
        """Maximise the dual value over feasible multiples; return the value and the multiple."""
        if not (math.isfinite(upper) and np.all(np.isfinite(values))):
            return 0.0, 0.0
        grid = np.array([0.0, *SCALES])
        limit = min(1.0, SAFE * self._dual_radius / upper) if upper > SAFE * self._dual_radius else 1.0
        last = int(np.searchsorted(grid, limit, side="right")) - 1
        scale, value = float(grid[last]), float(values[last])
        if last + 1 < len(grid):
            fraction = (limit - scale) / float(grid[last + 1] - scale)
            between = [(1.0 - fraction) * value, fraction * float(values[last + 1])]
            scale, value = limit, sum(between) - 4.0 * EPS * sum(map(abs, between))
        best = int(np.argmax(values[: last + 1]))
        return max((value, scale), (float(values[best]), float(grid[best])))


def _dominating(M: FloatArray) -> FloatArray:
    """Compute z > 0 of nearly minimal sum with ``Diag(z) +- M`` positive semidefinite up to rounding."""
    if not np.any(M) or not np.all(np.isfinite(M)):
        return np.ones(len(M))
    weights = uninterrupted(grothendieck_bound(M)).z[: len(M)]
    z = weights / weights.max() + ROUNDING
    dominating: FloatArray = spectral_bound(M, z) * z
    return dominating
