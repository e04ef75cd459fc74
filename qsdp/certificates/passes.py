r"""Certificates over any number of rows, from one or more passes; between passes, the dual vector is corrected.

The scores of a relaxation of some rows give a dual vector of all rows. It misses the penalty to the extent that the few
rows differ from all rows. Between passes, a Newton step moves the scores: the gradient of all rows, :math:`M_\nu`, and
the curvature of the few rows define a squared loss, whose relaxation is solved. As the dual function is concave, a
mixture of the dual vectors of all passes proves at least the mixture of their bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from qsdp._utils import deadline
from qsdp._utils.deadline import TimeOver
from qsdp._utils.numeric import EPS, MARGIN, ROUNDING, SAFE, UNIT
from qsdp._utils.progress import ProgressBar
from qsdp._utils.validation import FloatArray, read_only
from qsdp.certificates.proof import root_tree, scaled_tree, tree_bound
from qsdp.certificates.row_sums import SCALES, RowSums, Scores, Totals, read_rows
from qsdp.certificates.verification import check_guarded
from qsdp.exceptions import InvalidInputError
from qsdp.forms import FormMap
from qsdp.inner_problem import grothendieck_bound, uninterrupted
from qsdp.losses import Loss
from qsdp.networks import BilinearNetwork
from qsdp.pricing import BilinearOracle, BoundTree
from qsdp.problem import TrainingProblem, quadratic_problem
from qsdp.relaxation import Relaxation, solve_relaxation
from qsdp.relaxation.spectra import spectral_bound
from qsdp.roundoff import gamma
from qsdp.statistics.batches import has_weight, naming, numbered, require_rows
from qsdp.training_data import QuadraticModel

__all__ = ["RowsProof", "bound_over_rows", "proportional_beta"]

#: Step of Moreau's envelope of losses with kinks, relative to the mean loss; of 0.1 to 1, 0.3 was the best.
_SMOOTHING = 0.3

#: Mixtures are multiples of this, so that sums of thousands are exact.
_UNIT = 8192.0 * UNIT

#: Diagonal regularisation of the curvature of few rows, relative to its mean; from 0.1 to 0.3 it does not matter.
_RIDGE = 0.2


@dataclass(frozen=True, eq=False)
class RowsProof:
    r"""Everything needed to recompute a certificate's bound, except the rows themselves.

    The dual vector is :math:`\nu_i = \sum_k m_{kp}\, \nu_i(S_k)`, for scores :math:`S_k` and each part p of the outputs
    (single outputs if they do not interact, else all). It is in the domain of the conjugate.

    Attributes
    ----------
    network : BilinearNetwork
    loss : Loss
    beta : float
    n_samples : int
    digest : str
        SHA-256 of the rows, see `qsdp.certificates.row_sums.RowSums`.
    scores : tuple of Scores
    mixture : ndarray of shape (K, P)
        Nonnegative; columns add up to one at most.
    trees : tuple of BoundTree
        Trees that bound the pricing values of the mixture's matrices, one for each output.
    objective_rounding : float
        Bound on how much the objective may depend on the order of sums.
    """

    network: BilinearNetwork
    loss: Loss
    beta: float
    n_samples: int
    digest: str
    scores: tuple[Scores, ...]
    mixture: FloatArray
    trees: tuple[BoundTree, ...]
    objective_rounding: float = 0.0

    @property
    def size(self) -> int:
        """Side N of the matrices."""
        return int(self.scores[0].forms.shape[-1])

    @property
    def scalar(self) -> bool:
        """Whether outputs have the shape (n,)."""
        return not self.network.output_shape


def bound_over_rows(
    network: BilinearNetwork,
    batches: Any,
    relaxation: Relaxation,
    beta: float | None,
    *,
    passes: int,
    exact: bool,
    verified: bool,
    bar: ProgressBar,
) -> tuple[float, float, bool, RowsProof]:
    """Compute objective and lower bound over the rows of batches, whether pricing was exact, and the proof.

    The arguments are those of `certify`, already checked. The relaxation is one of some rows, few enough to be solved
    in memory. No pass starts after a time limit.
    """
    loss, few = relaxation.problem.loss, relaxation.problem
    if verified:
        check_guarded(loss)
    if passes > 1:
        few.require_rows("a correction between passes")
    search: _Search | None = None
    first: RowSums | None = None
    scores = _initial_scores(relaxation)
    for number, stream in enumerate(_streams(batches, passes)):
        sums = RowSums(network, loss, scores, verified=verified)
        _take(sums, stream, network, loss, bar, f"pass {number + 1} of {passes}" if passes > 1 else "")
        if first is None:
            first = sums
            ratio = sums.total_weight / few.data_fit.total_weight
            weight = proportional_beta(few, sums.total_weight) if beta is None else beta
            search = _Search(network, weight, few.data_fit.n_parts)
        elif sums.digest != first.digest:
            raise InvalidInputError("batches must hold the same rows in every pass; those of the first pass differed")
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
    value, mixture, trees, finished = search.proven(exact)
    proof = RowsProof(
        network,
        loss,
        weight,
        first.n_samples,
        first.digest,
        tuple(one.scores for one in search.passes),
        read_only(mixture),
        trees,
        first.objective_rounding,
    )
    return first.loss_value + search.penalty(network), value, finished, proof


def proportional_beta(few: TrainingProblem, total_weight: float) -> float:
    """Scale the problem's beta to the total weight of all rows; the beta of statistics is unchanged."""
    return few.beta if not few.weight_map.has_rows else few.beta * (total_weight / few.data_fit.total_weight)


def _streams(batches: Any, passes: int) -> Iterator[Iterable[Any]]:
    """Yield an iterable of batches for each pass; raise an error if they can be read only once."""
    if callable(batches):
        for _ in range(passes):
            yield batches()
        return
    if passes > 1 and iter(batches) is batches:
        raise InvalidInputError(
            f"batches must be readable more than once for passes={passes}: give a list, or a function that returns the "
            f"stream again; got {type(batches).__name__}"
        )
    for _ in range(passes):
        yield batches


def _take(
    sums: RowSums, stream: Iterable[Any], network: BilinearNetwork, loss: Loss, bar: ProgressBar, name: str
) -> None:
    row = 0
    for number, parts in numbered(stream):
        with naming(f"batch {number}, which begins at row {row}"):
            if has_weight(*parts):
                sums.add(*read_rows(network, loss, *parts))
        row += len(parts[0])
        bar.count(row, None, ", ".join(part for part in (name, f"{row:,} rows") if part))
    require_rows(sums.n_samples)


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
        curvature = few.weight_map.samples.pair_sums(0.5 * ratio * slope)
        ridge = _RIDGE * float(np.trace(curvature)) / len(curvature)
        curvature[np.diag_indices_from(curvature)] += ridge or 1.0
        if not np.all(np.isfinite(curvature)):
            raise np.linalg.LinAlgError("the curvature is too large for floats")
        root = scipy.linalg.cholesky(curvature)
        target = root @ (counts * S[upper]) + 0.5 * scipy.linalg.solve_triangular(root, M[upper], trans=1)
        model = QuadraticModel(FormMap.of(root, few.lifted, few.n_samples), target)
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
        def bound(share: float) -> float:
            mixture = (1.0 - share) * known + share * latest
            weights = np.tensordot(mixture, np.stack(self._dominating), 1)
            matrices, roundings = self._mixed(mixture)
            upper = max(
                spectral_bound(matrices[k], weights[k]) * float(weights[k].sum()) + roundings[k]
                for k in self._parts[part]
            )
            return self._value(self._values(part, mixture), upper)[0]

        found = scipy.optimize.minimize_scalar(lambda share: -bound(share), bounds=(0.0, 1.0), method="bounded")
        share = max(0.0, 1.0, float(found.x), key=bound)
        return (1.0 - share) * known + share * latest

    def proven(self, exact: bool) -> tuple[float, FloatArray, tuple[BoundTree, ...], bool]:
        """Compute the bound of the best mixture, the mixture and trees that prove it, and whether all are exact."""
        total, finished, scaled = [], exact, self._mixture.copy()
        trees: dict[int, BoundTree] = {}
        for p, outputs in enumerate(self._parts):
            matrices, roundings = self._mixed(self._mixture[:, p])
            uppers = []
            for k in outputs:
                M = matrices[k]
                tree = root_tree(_dominating(M))
                if exact and not deadline.over() and np.all(np.isfinite(M)):
                    result = BilinearOracle(len(M)).prove(M, max_atoms=0)
                    tree = result.trees[0] if result.trees and result.trees[0].leaves else tree
                    finished &= result.exact
                else:
                    finished = False
                trees[k] = tree
                uppers.append(tree_bound(M, tree) + roundings[k])
            value, scale = self._value(self._values(p, self._mixture[:, p]), max(uppers))
            total.append(value)
            scaled[:, p] *= scale
            trees.update({k: scaled_tree(trees[k], scale) for k in outputs})
        return math.nextafter(math.fsum(total), 0.0), scaled, tuple(trees[k] for k in sorted(trees)), finished

    def _mixed(self, mixture: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the matrices of a mixture, and bounds on the effect of their errors on pricing values."""
        matrices = np.tensordot(mixture, np.stack([one.matrices for one in self.passes]), 1)
        sizes = np.tensordot(mixture, np.stack([np.abs(one.matrices).sum(axis=(1, 2)) for one in self.passes]), 1)
        roundings = np.tensordot(mixture, np.stack([one.roundings for one in self.passes]), 1)
        return matrices, MARGIN * roundings + gamma(len(mixture) + 2) * sizes

    def _values(self, part: int, mixture: FloatArray) -> FloatArray:
        """Compute lower bounds on the dual values of multiples of a mixture, starting with the multiple zero."""
        terms = mixture[:, None] * np.stack([one.values[part] for one in self.passes])
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
            share = (limit - scale) / float(grid[last + 1] - scale)
            between = [(1.0 - share) * value, share * float(values[last + 1])]
            scale, value = limit, sum(between) - 4.0 * EPS * sum(map(abs, between))
        best = int(np.argmax(values[: last + 1]))
        return max((value, scale), (float(values[best]), float(grid[best])))


def _dominating(M: FloatArray) -> FloatArray:
    """Compute z > 0 of nearly minimal sum with ``Diag(z) +- M`` positive semidefinite up to rounding."""
    if not np.any(M) or not np.all(np.isfinite(M)):
        return np.ones(len(M))
    found = uninterrupted(grothendieck_bound(M)).z[: len(M)]
    z = found / found.max() + ROUNDING
    dominating: FloatArray = spectral_bound(M, z) * z
    return dominating
