r"""Proofs for the squared loss on blocks that use sums over the samples instead of the samples.

With packed entries :math:`x_i`, :math:`G = \sum_i w_i x_i x_i^T`, :math:`h = \sum_i w_i y_i x_i` and
:math:`q = \sum_i w_i y_i^2` give the loss :math:`q - 2 s^T h + s^T G s` of every network with entries s. A vector t
stands for the dual vector :math:`\nu_i = 2 w_i (y_i - x_i^T t)`. With :math:`g = h - G t`, the entries of
:math:`M_\nu` are :math:`2 g`, and the dual value is :math:`(q - t^T h) + t^T g`. These differences cancel, so g is
computed in twice the precision.

Sums that are not exact err, too. If entry (i, j) of G, with h and q as further rows and columns, errs by at most
:math:`\gamma \sqrt{G_{ii} G_{jj}}`, and :math:`a = \sqrt q + \sum_j \sqrt{G_{jj}} |t_j|`, then g errs by at most
:math:`\gamma \sqrt{G_{ii}}\, a`, and the dual value by :math:`\gamma a^2`. Bounds allow for both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import EPS, MARGIN, triangle_side
from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray, read_only, read_only_copy
from qsdp.block_layout import Layout
from qsdp.certificates.proof import Proof, tree_bound
from qsdp.data_map import BLOCKS, require
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.forms import FormMap
from qsdp.gram import GramFactor
from qsdp.problem import TrainingProblem
from qsdp.relaxation.instance import Instance
from qsdp.roundoff import SumRounding, exact_product
from qsdp.statistics.moments import PackedSums

__all__ = ["Sums", "converted", "read_rounding", "rounding_arrays"]

#: Rows whose products enter the compensated sum at once: a bound loses little, and the sums take twice the time.
_ROWS_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the samples of a problem on blocks: G of shape (P, P), h of shape (P, C) and q of shape (C,).

    `rounding` is the number gamma of the errors of their entries; it is zero if integers have been summed exactly.
    """

    layout: Layout
    gram: FloatArray
    products: FloatArray
    squares: FloatArray
    rounding: float

    @classmethod
    def from_problem(cls, problem: TrainingProblem) -> Sums:
        """Return the sums of a problem with the squared loss on blocks; raise `InvalidInputError` for others."""
        require(problem.weight_map, "include_data='sums'", BLOCKS)
        if not problem.loss.quadratic:
            raise InvalidInputError("include_data can be 'sums' only for the squared loss; use True")
        data = cast(FormMap, problem.weight_map)
        (n, P), weights = data.rows.shape, problem.sample_weight
        sums = PackedSums(P + problem.n_outputs, at_once=_ROWS_AT_ONCE)
        for some in chunks(n, P):
            table = np.hstack([data.rows[some], problem.targets[some]], dtype=np.float64)
            sums.add_rows(table, None if weights is None else weights[some])
        lower = np.tril(sums.triangle())
        total, rounding = lower + np.tril(lower, -1).T, sums.rounding
        if data.rounding is not None:
            rounding += data.rounding.gamma
        return cls(data.layout, total[:P, :P], total[:P, P:], total.diagonal()[P:].copy(), rounding)

    @property
    def _roots(self) -> FloatArray:
        return np.sqrt(np.maximum(self.gram.diagonal(), 0.0))

    def agrees(self, other: Sums) -> bool:
        """Return whether the other sums, of the same samples, differ by no more than their rounding."""
        roots, targets = self._roots, np.sqrt(np.maximum(self.squares, 0.0))
        allowance = self.rounding + other.rounding + 4.0 * EPS
        pairs = (
            (self.gram, other.gram, np.outer(roots, roots)),
            (self.products, other.products, np.outer(roots, targets)),
            (self.squares, other.squares, self.squares),
        )
        return self.layout == other.layout and all(
            a.shape == b.shape and bool(np.all(np.abs(a - b) <= allowance * size)) for a, b, size in pairs
        )

    def residuals(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return h - G t for vectors t of shape (P, C) as sums of two floats, and bounds on their errors."""
        high, low = self.products.copy(), np.zeros_like(self.products)
        for column, t in zip(self.gram.T, vectors, strict=True):
            product, error = exact_product(column[:, None], -t)
            total = high + product
            moved = total - high
            low += ((high - (total - moved)) + (product - moved)) + error
            high = total
        sizes = np.abs(self.products) + np.abs(self.gram) @ np.abs(vectors)
        return high, low, ((len(vectors) + 8) * EPS) ** 2 * sizes

    def values(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return q - t'h and t'(h - G t) for vectors t of shape (P, C), and bounds on the errors of both."""
        high, low, errors = self.residuals(vectors)
        columns = zip(self.squares, vectors.T, self.products.T, strict=True)
        first = np.array([math.fsum([q, *_terms(-t, h)]) for q, t, h in columns])
        columns = zip(vectors.T, high.T, low.T, strict=True)
        second = np.array([math.fsum([*_terms(t, g), *(t * rest)]) for t, g, rest in columns])
        slack = 4.0 * EPS * (np.abs(first) + np.abs(second)) + 2.0 * (np.abs(vectors) * errors).sum(axis=0)
        return first, second, slack

    def losses(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound what the rounding of the sums changes in h - G t, of shape (P, C), and in the dual values, (C,)."""
        sizes = np.sqrt(np.maximum(self.squares, 0.0)) + self._roots @ np.abs(vectors)
        return MARGIN * self.rounding * np.outer(self._roots, sizes), MARGIN * self.rounding * sizes**2


def converted(proof: Proof) -> tuple[Sums, FloatArray, float, float]:
    r"""Convert a proof with one dual variable per sample to one that is checked from sums alone.

    Every dual vector has the same matrices as one of the form :math:`2 w_i (y_i - x_i^T t)`, which proves no less.
    Return the sums, the vectors t of shape (P, C), the objective and the lower bound.
    """
    problem, network = proof.problem, proof.network
    sums = Sums.from_problem(problem)
    # In the units of the rows.
    wanted = 0.5 * problem.weight_map.sums(proof.nu) * sums.layout.entry_prices[:, None]
    pivoted = GramFactor(sums.gram.copy())
    # Near an optimum, the network itself is nearly such a vector, and large cancelling vectors are avoided.
    vectors = network.entries.T.copy()
    # A factor of a singular matrix determines corrections; two reach the limits of doubles.
    for _ in range(3):
        high, low, _errors = sums.residuals(vectors)
        vectors += pivoted.preimage(pivoted.targets((high - wanted) + low))
    fit, correction, _ = sums.values(network.entries.T)
    objective = float((fit - correction).sum()) + problem.penalty(network)
    return sums, vectors, objective, _bound(proof, sums, vectors)


def _bound(proof: Proof, sums: Sums, vectors: FloatArray) -> float:
    """Return the bound proven by the vectors and the trees, reduced by twice the bound on rounding errors."""
    layout, beta = sums.layout, proof.problem.beta
    high, low, errors = sums.residuals(vectors)
    entries, values = sums.losses(vectors)
    errors += EPS * np.abs(high) + entries
    units = 2.0 / layout.entry_prices
    entries_of = (units[:, None] * (high + low)).T
    bounds = [tree_bound(M, tree) for M, tree in zip(layout.matrices(entries_of), proof.trees, strict=True)]
    taus = Instance.from_problem(proof.problem).constraints(bounds, entries_of[:, layout.weight_entries])
    tau = float((taus + 4.0 * layout.pricing_sizes((units[:, None] * errors).T).ravel()).max())
    s = min(1.0, beta / tau) if tau > 0.0 else 1.0
    first, second, slack = sums.values(vectors)
    return float((s * (2.0 - s) * first + s * s * second - 4.0 * slack - values).sum())


def _terms(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return floats whose exact sum is the inner product of a and b."""
    return np.concatenate(exact_product(a, b))


def rounding_arrays(problem: TrainingProblem) -> dict[str, Any]:
    """Return what bounds the rounding of statistics."""
    data = cast(FormMap, problem.weight_map)
    rounding = data.rounding
    assert rounding is not None  # statistics record it
    return {
        "rounding": rounding.gamma,
        "table": rounding.table[np.triu_indices(len(rounding.table))],
        "form_sizes": rounding.sizes * data.scale,
        "target_ratio": rounding.target_ratio,
    }


def read_rounding(arrays: dict[str, npt.NDArray[Any]], n: int, P: int) -> SumRounding:
    """Return how the statistics of a file, n rows of P entries, were rounded."""
    names = ("rounding", "table", "form_sizes", "target_ratio")
    gamma, entries, sizes, ratio = (arrays[name] for name in names)
    k = triangle_side(entries.size)
    table = np.zeros((k, k))
    if entries.shape != (k * (k + 1) // 2,) or k > n or sizes.shape != (P,) or not np.all(sizes >= 0.0):
        raise StorageError("the rounding of its sums does not fit its forms")
    table[np.triu_indices(k)] = entries
    if not (np.all(np.isfinite(table)) and np.all(table.diagonal() > 0.0) and gamma > 0.0 and ratio >= 1.0):
        raise StorageError("the rounding of its sums is no positive number, or its table is singular")
    return SumRounding(float(gamma), read_only(table), read_only_copy(sizes), float(ratio))
