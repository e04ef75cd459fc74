"""Measurements for reports: scores of rows, and networks of other sizes from the same solution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qsdp._utils.gap import relative
from qsdp._utils.outputs import squeezed
from qsdp._utils.validation import FloatArray
from qsdp.estimators.classes import choose_classes
from qsdp.exceptions import InvalidInputError
from qsdp.networks import BilinearNetwork
from qsdp.sampling import sample_network
from qsdp.tabular import DataTable, TabularModel

__all__ = ["ScoredRows", "Sizes", "measure_sizes", "scored_rows"]

#: Numbers of neurons of the sampled networks.
_SIZES = (10, 30, 100, 300, 1000, 3000)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with known targets.

    Attributes
    ----------
    name : str
        Name of the rows, such as "test rows".
    X : ndarray
        Inputs of networks.
    truth : ndarray of shape (n,)
        True targets, coded as for `Target.score`.
    weights : ndarray of shape (n,) or None
    """

    name: str
    model: TabularModel
    X: FloatArray
    truth: FloatArray
    weights: FloatArray | None

    @classmethod
    def of(cls, name: str, model: TabularModel, table: DataTable, X: FloatArray | None = None) -> ScoredRows:
        """Return the rows of a table, given their inputs if they are known."""
        inputs = model.inputs(table) if X is None else X
        weighted = model.weighting.column in table.columns
        weights = model.weighting.read(table) if weighted else None
        return cls(name, model, inputs, model.target.truth(table), weights)

    @cached_property
    def outputs(self) -> FloatArray:
        """Outputs of the model's network."""
        return self.model.network.predict(self.X)

    def score(self, network: BilinearNetwork) -> float:
        """Return the accuracy or R^2 of a network."""
        outputs = self.outputs if network is self.model.network else network.predict(self.X)
        return self.model.target.score(outputs, self.truth, self.weights)

    def values(self) -> FloatArray:
        """Return the predicted class scores, or the predicted numbers in the units of the target."""
        return self.model.target.values(self.outputs)

    def true_values(self) -> FloatArray:
        """Return the true numbers, in the units of the target."""
        return self.model.target.values(self.truth)

    def confusion(self) -> npt.NDArray[np.intp]:
        """Return numbers of rows by true and by predicted class, (C, C), without rows of unknown classes."""
        classes = self.model.target.classes
        assert classes is not None
        counts = np.zeros((len(classes), len(classes)), dtype=np.intp)
        truth = self.truth.astype(np.intp)
        known = truth >= 0
        np.add.at(counts, (truth[known], choose_classes(self.values())[known]), 1)
        return counts

    def common_share(self) -> float:
        """Return the (weighted) share of the most frequent class."""
        weights = np.ones(len(self.truth)) if self.weights is None else self.weights
        totals = [float(weights[self.truth == code].sum()) for code in np.unique(self.truth[self.truth >= 0.0])]
        return max(totals, default=0.0) / float(weights.sum())


def scored_rows(model: TabularModel, table: DataTable) -> tuple[list[ScoredRows], bool]:
    """Return training and test rows if the model was trained on the table, else all rows; and whether it was."""
    table.require([model.target.name])
    trained = model.is_trained_on(table)
    if trained:
        named = dict(zip(("training rows", "test rows"), model.split(table), strict=True))
    else:
        named = {"rows": table.known(model.target.name)}
        if not len(named["rows"]):
            raise InvalidInputError(f"{table.path!r} has no row in which the target {model.target.name!r} is known")
    return [ScoredRows.of(name, model, part) for name, part in named.items() if len(part)], trained


@dataclass(frozen=True, eq=False)
class Sizes:
    """Networks of several sizes.

    Attributes
    ----------
    neurons : ndarray of float of shape (K,)
    bits : ndarray of int of shape (K,)
    scores : ndarray of shape (K, R)
    gaps : ndarray of shape (K, R) or None
        Relative gaps; None if the training set is not known.
    """

    neurons: FloatArray
    bits: npt.NDArray[np.intp]
    scores: FloatArray
    gaps: FloatArray | None


def measure_sizes(model: TabularModel, rows: ScoredRows, table: DataTable | None, n_draws: int) -> Sizes:
    """Sample `n_draws` networks of each size from the solution of a model, with scores on rows.

    Gaps need the training table; they are left out if `table` is None.
    """
    rng = np.random.default_rng(model.holdout.seed)
    problem = None if table is None else model.problem(table)
    sizes = [size for size in _SIZES if size >= model.network.n_outputs]
    covariance = squeezed(model.solution.covariances(model.network.levels), model.network.output_shape)
    drawn = [
        [sample_network(covariance, size, rng, allocation=model.allocation) for _ in range(n_draws)] for size in sizes
    ]
    scores = np.array([[rows.score(network) for network in networks] for networks in drawn])
    gaps = None
    if problem is not None:
        objectives = np.array([[problem.objective(network) for network in networks] for networks in drawn])
        gaps = np.vectorize(relative)(objectives - model.lower_bound, objectives)
    bits = np.array([networks[0].n_bits for networks in drawn])
    return Sizes(np.array(sizes, dtype=np.float64), bits, scores, gaps)
