"""Additive models with neurons for one beta after the other, by active sets: accurate to a percent, in little time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.tuning import GAIN, ROUGH, SMALL
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.column_generation.restricted import Columns, Evaluated, SmoothProblem, ValueLoss
from qsdp.losses import DataFit
from qsdp.pricing.pool import alternated_pairs

__all__ = ["AdditivePath"]

#: Numbers of rows of a matrix, the largest ones, from whose signs signs alternate, and of those whose sums and
#: differences do, too. With eigenvectors, they find neurons as good as those from as many random vectors, and depend
#: neither on the order of the inputs nor on their signs.
_STARTS, _PAIRED = 32, 6

#: Maximum number of neurons that a round adds: divided among the outputs, but at least the second number for each.
_ADDED, _FEWEST_ADDED = 20, 5

#: Maximum number of starting vectors times the squared number of inputs: with hundreds of inputs, hardly any neuron is
#: worth its bits, and fewer starts save time.
_MAX_WORK = 2**20

#: Side of a matrix above which eigenvectors are approximated by so many iterations from its largest rows.
_LARGE, _ITERATIONS = 150, 2

#: Maximum number of weights that a round adds to an output, for each neuron that it may add.
_WEIGHTS = 2

#: Relative gap of a fit that need not be accurate, in units of a hundredth: the bound of losses other than the squared
#: one is about three times as far as the best one.
_GAP = 3.0

#: Rounds of a fit that need not be accurate (four times as many take twice the time for no better choices), fewer for
#: coupled outputs, whose restricted problems are larger, and maximum number of rounds of an accurate fit, which also
#: ends after rounds that together reduce the objective by less than a thousandth.
_ROUNDS, _COUPLED_ROUNDS, _MANY_ROUNDS, _IDLE = 3, 2, 60, 5


class _Atoms(NamedTuple):
    """Weights and neurons with signs, each of which feeds an output, in units of their penalties.

    Attributes
    ----------
    vectors : ndarray of shape (k, n)
        Values on the rows.
    sizes, signs : ndarray of shape (k,)
    outputs : ndarray of shape (k,)
        Ascending.
    weight : ndarray of shape (k,)
        Position of the column; -1 for a neuron.
    U, V : ndarray of shape (k, D)
        Zero for a weight.
    offsets : ndarray of shape (k,)
        What was subtracted from the values, in the same units.
    """

    vectors: FloatArray
    sizes: FloatArray
    signs: FloatArray
    outputs: IntArray
    weight: IntArray
    U: npt.NDArray[np.int8]
    V: npt.NDArray[np.int8]
    offsets: FloatArray

    @classmethod
    def added(
        cls,
        vectors: FloatArray,
        signs: FloatArray,
        output: int,
        weight: IntArray,
        U: npt.NDArray[np.int8],
        V: npt.NDArray[np.int8],
        offsets: FloatArray,
    ) -> _Atoms:
        """Return atoms of size zero that feed an output, for vectors without their signs."""
        outputs = np.full(len(signs), output, dtype=np.intp)
        return cls(signs[:, None] * vectors, np.zeros(len(signs)), signs, outputs, weight, U, V, signs * offsets)

    def take(self, rows: Any) -> _Atoms:
        """Return some of the atoms."""
        return _Atoms._make(array[rows] for array in self)


class AdditivePath:
    r"""Fits of weights on columns and neurons on inputs for decreasing beta, each from the one before.

    .. math:: \min_{W, \alpha} L\Big(T W + \sum_j (z^T u_j)(z^T v_j)\, \alpha_j\Big)
        + \beta \Big(\sum_k \omega_k \|w_k\|_1 + \omega_q D \sum_j \|\alpha_j\|_1\Big)

    A restricted problem over weights and neurons in use is solved. Weights and neurons whose pricing values exceed
    their penalties by more than a hundredth are added, as long as a search from a few dozen vectors finds any.

    Parameters
    ----------
    columns : ndarray of shape (p, n)
        T, transposed: a column is contiguous.
    omega : ndarray of shape (p,)
        Prices of the weights.
    inputs : ndarray of shape (D, n)
        Rows z, transposed.
    price : float
        :math:`\omega_q D`.
    fit : DataFit
        A loss with curvature. The squared loss has a free intercept.

    Attributes
    ----------
    variances : ndarray of shape (p,)
        Weighted variances of the columns.
    """

    def __init__(self, columns: FloatArray, omega: FloatArray, inputs: FloatArray, price: float, fit: DataFit) -> None:
        self._columns, self._omega, self._inputs, self._price = columns, omega, inputs, price
        n = columns.shape[1]
        fractions = np.full(n, 1.0 / n) if fit.weights is None else fit.weights / fit.weights.sum()
        means, count, quadratic = columns @ fractions, fit.target.shape[1], fit.loss.quadratic
        self.variances = np.einsum("i,ji,ji->j", fractions, columns, columns) - means**2
        # Columns and targets of the squared loss are centred: its intercept is then exact.
        self._fractions = fractions if quadratic else None
        self._means, self._constant = np.zeros(len(means)), np.zeros(count)
        if quadratic:
            self._means, self._constant = means, fractions @ fit.target
            fit = DataFit(fit.loss, fit.target - self._constant, fit.weights)
        self._added = max(_ADDED // count, _FEWEST_ADDED)
        self._losses = [ValueLoss(part, coarse=True) for part in fit.parts]
        self._gap = ROUGH if quadratic else _GAP * ROUGH
        # The loss at the sizes of the atoms, if known.
        self._points: list[Evaluated | None] = [None] * len(self._losses)
        self._zero_dual = fit.zero_dual
        # Minus the gradient, and the diagonal of the second derivatives, at the last solution.
        self._nu, self._curvature = self._zero_dual.copy(), np.zeros_like(self._zero_dual)
        # Sums for a gap of a hundredth may be in single precision. For the squared loss, they would break ties.
        dtype: Any = np.float32 if fit.loss.coupled else np.float64
        numbers, positions = np.zeros(0), np.zeros(0, dtype=np.intp)
        signs = np.zeros((0, len(inputs)), dtype=np.int8)
        empty = np.zeros((0, n), dtype=dtype)
        self._atoms = _Atoms(empty, numbers, numbers, positions, positions, signs, signs, numbers)

    def beta_max(self) -> float:
        """Return the beta above which all weights and neurons are zero, as far as the search finds neurons."""
        largest = float(np.abs(self._slopes(self._zero_dual)).max())
        return max([largest, *(float(values[0]) for _, values, _, _ in self._priced(self._zero_dual))])

    def fit(self, beta: float, *, accurate: bool = False) -> None:
        """Minimise the objective for a beta, at best a little smaller than the last one.

        Unless `accurate`, only a few rounds with a gap of a hundredth follow, which suffice after the fit before, and
        no time limit ends them.
        """
        values: list[float] = []
        rough = _ROUNDS if len(self._constant) == len(self._losses) else _COUPLED_ROUNDS
        if accurate:
            # Sums in single precision would hide the last thousandth.
            self._atoms = self._atoms._replace(vectors=self._atoms.vectors.astype(np.float64, copy=False))
        for _ in range(_MANY_ROUNDS if accurate else rough):
            values.append(self._solve(beta, SMALL if accurate else self._gap))
            idle = len(values) > _IDLE and values[-1] > (1.0 - SMALL) * values[-1 - _IDLE]
            if not self._extend(beta) or idle or (accurate and deadline.over()):
                break

    def outputs(self, columns: FloatArray, inputs: FloatArray) -> FloatArray:
        """Compute the outputs (n, C) for columns (p, n) and inputs (D, n) of other rows."""
        W, U, V, alpha = self.parts()
        values = (U.astype(np.float64) @ inputs) * (V.astype(np.float64) @ inputs)
        # Means that were subtracted from columns and values are constants of the squared loss.
        atoms, count = self._atoms, len(self._constant)
        means = self._means @ W + np.bincount(atoms.outputs, atoms.offsets * atoms.sizes, minlength=count)
        return columns.T @ W + values.T @ alpha + (self._constant - means)

    def parts(self) -> tuple[FloatArray, npt.NDArray[np.int8], npt.NDArray[np.int8], FloatArray]:
        """Return the weights W (p, C), and the neurons' U, V (m, D) and second-layer weights (m, C)."""
        atoms, count = self._atoms, len(self._constant)
        values, neurons = atoms.signs * atoms.sizes, atoms.weight < 0
        W = np.zeros((len(self._omega), count))
        np.add.at(W, (atoms.weight[~neurons], atoms.outputs[~neurons]), values[~neurons])
        alpha = (values / self._price)[neurons, None] * np.eye(count)[atoms.outputs[neurons]]
        return W / self._omega[:, None], atoms.U[neurons], atoms.V[neurons], alpha

    def effects(self, positions: IntArray) -> FloatArray:
        """Return the sizes (p,) of the effects of columns: variances of what they add to the outputs, summed.

        A column that has a weight or is an input of neurons adds its weight and its largest product with an input,
        both after a Newton step of each alone: penalties shrink weights, and a neuron on many inputs is a poor product
        of two.

        Parameters
        ----------
        positions : ndarray of shape (D,)
            Columns that are the inputs of neurons.
        """
        W, U, V, alpha = self.parts()
        sizes = np.zeros(len(self.variances))
        used = np.union1d(np.flatnonzero(W.any(axis=1)), positions)
        columns = self._columns[used] - self._means[used, None]
        steps = (columns @ self._nu) / np.maximum(columns**2 @ self._curvature, 1e-300)
        sizes[used] = ((W[used] + steps) ** 2).sum(axis=1) * self.variances[used]
        for second_layer, column, curvature in zip(alpha.T, self._nu.T, self._curvature.sum(axis=0), strict=True):
            matrix = (U.T * second_layer) @ V.astype(np.float64)
            matrix = 0.5 * (matrix + matrix.T) + self._correlations(column) / max(float(curvature), 1e-300)
            sizes[positions] += (matrix**2).max(axis=1, initial=0.0)
        return sizes

    # -- rounds ------------------------------------------------------------------------------------------------

    def _solve(self, beta: float, tol: float) -> float:
        """Solve the restricted problem, drop what is zero, and return its objective."""
        value, atoms = 0.0, self._atoms
        count = len(self._constant) // len(self._losses)
        for k, loss in enumerate(self._losses):
            members = slice(*np.searchsorted(atoms.outputs, [k * count, (k + 1) * count]))
            columns = Columns(atoms.vectors[members], atoms.outputs[members] - k * count, count)
            problem = SmoothProblem(loss, columns, np.full(len(columns.outputs), beta))
            sizes, point = problem.minimise(atoms.sizes[members], tol, self._points[k])
            assert point.nu is not None
            assert point.curvature is not None
            atoms.sizes[members], self._points[k] = sizes, point
            outputs = slice(k * count, (k + 1) * count)
            self._nu[:, outputs], self._curvature[:, outputs] = point.nu, point.curvature.diagonal
            value += point.loss + beta * float(sizes.sum())
        # Fits are less accurate than what so small weights and neurons contribute.
        small = atoms.sizes <= GAIN * SMALL * atoms.sizes.sum()
        if np.any(atoms.sizes[small]):
            self._points = [None] * len(self._losses)
        self._atoms = atoms.take(np.flatnonzero(~small))
        return value

    def _extend(self, beta: float) -> bool:
        """Add the weights and neurons of largest pricing value; return whether there are any."""
        threshold, slopes, before = (1.0 + ROUGH) * beta, self._slopes(self._nu), self._atoms
        pieces = []
        for k, values, U, V in self._priced(self._nu):
            good = values > threshold
            members = slice(*np.searchsorted(before.outputs, [k, k + 1]))
            weights = self._weights(k, slopes[:, k], threshold)
            pieces += [before.take(members), weights, self._neurons(k, U[good], V[good])]
        # Atoms of an output stay together.
        vectors = np.concatenate([piece.vectors for piece in pieces], dtype=before.vectors.dtype, casting="same_kind")
        self._atoms = _Atoms(vectors, *(np.concatenate(arrays) for arrays in list(zip(*pieces, strict=True))[1:]))
        return len(self._atoms.sizes) > len(before.sizes)

    def _weights(self, k: int, slopes: FloatArray, threshold: float) -> _Atoms:
        """Return the weights of largest slopes for an output, if these exceed a threshold."""
        order = np.argsort(-np.abs(slopes))[: _WEIGHTS * self._added]
        columns = order[np.abs(slopes[order]) > threshold]
        vectors = (self._columns[columns] - self._means[columns, None]) / self._omega[columns, None]
        none = np.zeros((len(columns), len(self._inputs)), dtype=np.int8)
        return _Atoms.added(vectors, np.sign(slopes[columns]), k, columns, none, none, np.zeros(len(columns)))

    def _neurons(self, k: int, U: npt.NDArray[np.int8], V: npt.NDArray[np.int8]) -> _Atoms:
        """Return neurons that feed an output."""
        vectors = (U.astype(np.float64) @ self._inputs) * (V.astype(np.float64) @ self._inputs)
        vectors /= self._price
        means = np.zeros(len(U)) if self._fractions is None else vectors @ self._fractions
        vectors -= means[:, None]
        columns = np.full(len(U), -1, dtype=np.intp)
        return _Atoms.added(vectors, np.sign(vectors @ self._nu[:, k]), k, columns, U, V, means)

    def _slopes(self, nu: FloatArray) -> FloatArray:
        """Return the inner products (p, C) of multipliers and columns, in units of the penalties of the weights."""
        slopes: FloatArray = (self._columns @ nu - self._means[:, None] * nu.sum(axis=0)) / self._omega[:, None]
        return slopes

    def _correlations(self, column: FloatArray) -> FloatArray:
        M: FloatArray = (self._inputs * column) @ self._inputs.T
        return M

    def _priced(self, nu: FloatArray) -> Iterator[tuple[int, FloatArray, npt.NDArray[np.int8], npt.NDArray[np.int8]]]:
        """Yield for each output the best neurons of a search, and their pricing values in units of their penalty."""
        work = _MAX_WORK // len(self._inputs) ** 2
        for k, column in enumerate(nu.T):
            M = self._correlations(column)
            order = np.argsort(-np.einsum("ij,ij->i", M, M), kind="stable")
            some = min(self._added, max(work, _FEWEST_ADDED))
            rows = M[order[: min(_STARTS, work)]]
            first, second = np.triu_indices(min(_PAIRED, len(rows)), 1)
            pairs = (rows[first] + rows[second], rows[first] - rows[second])
            starts = np.vstack([_eigenvectors(M, order[:some]), rows, *pairs])
            sums, U, V = alternated_pairs(M, starts)
            prices = sums / self._price
            _, first = np.unique(np.round(prices, 9 - int(np.log10(prices.max() or 1.0))), return_index=True)
            best = first[::-1][: self._added]
            yield k, prices[best], U[best].astype(np.int8), V[best].astype(np.int8)


def _eigenvectors(M: FloatArray, largest: IntArray) -> FloatArray:
    """Return as many eigenvectors (k, D) of the largest absolute eigenvalues as there are largest rows.

    Of large matrices, they are those in the space that powers of the matrix span from the rows.
    """
    basis = None
    if len(M) > _LARGE:
        basis = M[:, largest]
        for _ in range(_ITERATIONS):
            basis = M @ np.linalg.qr(basis)[0]
        basis = np.linalg.qr(basis)[0]
    values, vectors = np.linalg.eigh(M if basis is None else basis.T @ M @ basis)
    vectors = vectors[:, np.argsort(-np.abs(values))[: len(largest)]]
    return (vectors if basis is None else basis @ vectors).T
