"""Additive models with neurons for one beta after the other, by active sets: accurate to a percent, in little time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils import deadline
from qsdp._utils.tuning import GAIN, PATIENCE, ROUGH, SMALL
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.column_generation.restricted import Columns, SmoothProblem, ValueLoss
from qsdp.losses import DataFit
from qsdp.pricing.pool import alternated_pairs

__all__ = ["AdditivePath"]

#: Vectors from which signs alternate, for each output; three times as many find hardly better neurons.
_STARTS = 32

#: Maximum number of neurons that a round adds: divided among the outputs, but at least the second number for each.
_ADDED, _FEWEST_ADDED = 20, 5

#: Maximum number of starting vectors times the squared number of inputs: with hundreds of inputs, hardly any neuron is
#: worth its bits, and fewer starts save time.
_MAX_WORK = 2**20

#: Side of a matrix above which eigenvectors are approximated in a random subspace: at 400, in a quarter of the time.
_LARGE = 150

#: Maximum number of weights that a round adds to an output, for each neuron that it may add.
_WEIGHTS = 2

#: Rounds of a fit that need not be accurate (four times as many take twice the time for no better choices), fewer for
#: coupled outputs, whose restricted problems are larger, and maximum number of rounds of an accurate fit.
_ROUNDS, _COUPLED_ROUNDS, _MANY_ROUNDS = 3, 2, 60


class AdditivePath:
    r"""Fits of weights on columns and neurons on inputs for decreasing beta, each from the one before.

    .. math:: \min_{W, \alpha} L\Big(T W + \sum_j (z^T u_j)(z^T v_j)\, \alpha_j\Big)
        + \beta \Big(\sum_k \omega_k \|w_k\|_1 + \omega_q D \sum_j \|\alpha_j\|_1\Big)

    A restricted problem over weights and neurons in use is solved. Weights and neurons whose pricing values exceed
    their penalties by more than a hundredth are added, as long as a search from a few dozen vectors finds any.

    Parameters
    ----------
    columns : ndarray of shape (n, p)
        T.
    omega : ndarray of shape (p,)
        Prices of the weights.
    inputs : ndarray of shape (n, D)
        Rows z.
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
        self._omega, self._inputs, self._price = omega, inputs, price
        fractions = (
            np.full(len(columns), 1.0 / len(columns)) if fit.weights is None else fit.weights / fit.weights.sum()
        )
        self.variances = fractions @ columns**2 - (fractions @ columns) ** 2
        # Columns and targets of the squared loss are centred: its intercept is then exact.
        self._fractions = fractions if fit.quadratic else None
        self._means = np.zeros(columns.shape[1]) if self._fractions is None else fractions @ columns
        self._columns = (columns - self._means) / omega
        self._added = max(_ADDED // fit.target.shape[1], _FEWEST_ADDED)
        self._constant = np.zeros(fit.target.shape[1])
        if self._fractions is not None:
            self._constant = fractions @ fit.target
            fit = DataFit(fit.loss, fit.target - self._constant, fit.weights)
        self._fit, self._rng = fit, np.random.default_rng(0)
        self._nu = fit.zero_dual
        size = inputs.shape[1]
        # Atoms: a weight or a neuron with a sign, which feeds an output, in units of their penalties.
        self._vectors, self._sizes = np.zeros((0, len(columns))), np.zeros(0)
        self._outputs, self._weight = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
        self._U = self._V = np.zeros((0, size), dtype=np.int8)
        self._signs, self._offsets = np.zeros(0), np.zeros(0)

    def beta_max(self) -> float:
        """Return the beta above which all weights and neurons are zero, as far as the search finds neurons."""
        largest = float(np.abs(self._columns.T @ self._fit.zero_dual).max())
        return max([largest, *(float(values[0]) for _, values, _, _ in self._priced(self._fit.zero_dual))])

    def fit(self, beta: float, *, accurate: bool = False) -> None:
        """Minimise the objective for a beta, at best a little smaller than the last one.

        Unless `accurate`, only a few rounds with a gap of a hundredth follow, which suffice after the fit before.
        """
        values: list[float] = []
        rough = _COUPLED_ROUNDS if self._fit.loss.coupled else _ROUNDS
        for _ in range(_MANY_ROUNDS if accurate else rough):
            values.append(self._solve(beta, SMALL if accurate else ROUGH))
            idle = len(values) > PATIENCE and values[-1] > (1.0 - SMALL) * values[-1 - PATIENCE]
            if not self._extend(beta) or idle or deadline.over():
                break

    def outputs(self, columns: FloatArray, inputs: FloatArray) -> FloatArray:
        """Compute the outputs (n, C) for other rows."""
        W, U, V, alpha = self.parts()
        values = (inputs @ U.T.astype(np.float64)) * (inputs @ V.T.astype(np.float64))
        return columns @ W + values @ alpha + self.intercept()

    def intercept(self) -> FloatArray:
        """Return the intercepts (C,) of the squared loss; zero for other losses."""
        W, _, _, _ = self.parts()
        neurons = self._weight < 0
        means = np.bincount(
            self._outputs[neurons], (self._offsets * self._sizes)[neurons], minlength=len(self._constant)
        )
        return self._constant - self._means @ W - means

    def parts(self) -> tuple[FloatArray, npt.NDArray[np.int8], npt.NDArray[np.int8], FloatArray]:
        """Return the weights W (p, C), and the neurons' U, V (m, D) and second-layer weights (m, C)."""
        count, neurons = len(self._constant), self._weight < 0
        W = np.zeros((len(self._omega), count))
        np.add.at(W, (self._weight[~neurons], self._outputs[~neurons]), (self._signs * self._sizes)[~neurons])
        alpha = (self._signs * self._sizes / self._price)[neurons, None] * np.eye(count)[self._outputs[neurons]]
        return W / self._omega[:, None], self._U[neurons], self._V[neurons], alpha

    def interactions(self) -> FloatArray:
        """Estimate the coefficients (C, D, D) of products of inputs, with what one Newton step would add to each."""
        _, U, V, alpha = self.parts()
        curvature = self._fit.curvature(self._prediction()).diagonal.sum(axis=0)
        matrices = np.empty((len(curvature), *2 * (self._inputs.shape[1],)))
        for k, (second_layer, column) in enumerate(zip(alpha.T, self._nu.T, strict=True)):
            matrices[k] = (U.T * second_layer) @ V.astype(np.float64)
            matrices[k] = 0.5 * (matrices[k] + matrices[k].T)
            matrices[k] += (self._inputs.T * column) @ self._inputs / max(float(curvature[k]), 1e-300)
        return matrices

    def weights_after_step(self, columns: IntArray) -> FloatArray:
        """Estimate the weights (k, C) of some columns without their penalty: a Newton step of each alone."""
        W, _, _, _ = self.parts()
        rows = self._columns[:, columns] * self._omega[columns]
        curvature = self._fit.curvature(self._prediction()).diagonal
        return W[columns] + (rows.T @ self._nu) / np.maximum((rows**2).T @ curvature, 1e-300)

    def _prediction(self) -> FloatArray:
        outputs = np.eye(len(self._constant))[self._outputs]
        prediction: FloatArray = self._vectors.T @ (self._sizes[:, None] * outputs)
        return prediction

    # -- rounds ------------------------------------------------------------------------------------------------

    def _solve(self, beta: float, tol: float) -> float:
        """Solve the restricted problem, drop what is zero, and return its objective."""
        value = 0.0
        for k, part in enumerate(self._fit.parts):
            coupled = self._fit.n_parts == 1
            members = slice(None) if coupled else np.flatnonzero(self._outputs == k)
            vectors, outputs = self._vectors[members], self._outputs[members] if coupled else 0 * self._outputs[members]
            loss = ValueLoss(part, coarse=True)
            columns = Columns(vectors, outputs, np.zeros(len(vectors), dtype=np.intp), part.target.shape[1])
            problem = SmoothProblem(loss, columns, loss.images(vectors), np.full(len(vectors), beta))
            start = self._sizes[members]
            self._sizes[members], point = problem.minimise(start, problem.at(start), tol)
            self._nu[:, slice(None) if coupled else [k]] = point.nu
            value += problem.total(self._sizes[members], point)
        # Fits are less accurate than what so small weights and neurons contribute.
        self._select(np.flatnonzero(self._sizes > GAIN * SMALL * self._sizes.sum()))
        return value

    def _select(self, atoms: npt.NDArray[np.intp]) -> None:
        for name in ("_vectors", "_sizes", "_outputs", "_weight", "_U", "_V", "_signs", "_offsets"):
            setattr(self, name, getattr(self, name)[atoms])

    def _extend(self, beta: float) -> bool:
        """Add the weights and neurons of largest pricing value; return whether there are any."""
        threshold, slopes = (1.0 + ROUGH) * beta, self._columns.T @ self._nu
        new: list[dict[str, Any]] = []
        for k, column in enumerate(slopes.T):
            order = np.argsort(-np.abs(column))[: _WEIGHTS * self._added]
            chosen = order[np.abs(column[order]) > threshold]
            none = np.zeros((len(chosen), self._inputs.shape[1]), dtype=np.int8)
            new.append(
                self._atoms(self._columns[:, chosen].T, k, np.sign(column[chosen]), chosen, none, none, 0.0 * chosen)
            )
        for k, values, U, V in self._priced(self._nu):
            good = values > threshold
            U, V = U[good], V[good]
            vectors = (U.astype(np.float64) @ self._inputs.T) * (V.astype(np.float64) @ self._inputs.T) / self._price
            means = np.zeros(len(U)) if self._fractions is None else vectors @ self._fractions
            vectors -= means[:, None]
            side = np.sign(vectors @ self._nu[:, k])
            new.append(self._atoms(vectors, k, side, np.full(len(U), -1), U, V, side * means))
        for name in new[0]:
            setattr(self, name, np.concatenate([getattr(self, name), *(atoms[name] for atoms in new)]))
        return any(len(atoms["_sizes"]) for atoms in new)

    def _atoms(
        self,
        vectors: FloatArray,
        output: int,
        side: FloatArray,
        weight: npt.NDArray[np.intp],
        U: npt.NDArray[np.int8],
        V: npt.NDArray[np.int8],
        offsets: FloatArray,
    ) -> dict[str, Any]:
        """Return the attributes of atoms of size zero that feed an output."""
        return {
            "_vectors": side[:, None] * vectors,
            "_sizes": np.zeros(len(side)),
            "_outputs": np.full(len(side), output, dtype=np.intp),
            "_weight": weight,
            "_U": U,
            "_V": V,
            "_signs": side,
            "_offsets": offsets,
        }

    def _priced(self, nu: FloatArray) -> Iterator[tuple[int, FloatArray, npt.NDArray[np.int8], npt.NDArray[np.int8]]]:
        """Yield for each output the best neurons of a search, and their pricing values in units of their penalty."""
        size = self._inputs.shape[1]
        for k, column in enumerate(nu.T):
            M = (self._inputs * column[:, None]).T @ self._inputs
            largest = _eigenvectors(M, min(self._added, max(_MAX_WORK // size**2, _FEWEST_ADDED)))
            others = self._rng.standard_normal((min(_STARTS, _MAX_WORK // size**2), size))
            sums, U, V = alternated_pairs(M, np.vstack([largest, others]))
            prices = sums / self._price
            _, first = np.unique(np.round(prices, 9 - int(np.log10(prices.max() or 1.0))), return_index=True)
            best = first[::-1][: self._added]
            yield k, prices[best], U[best].astype(np.int8), V[best].astype(np.int8)


def _eigenvectors(M: FloatArray, count: int) -> FloatArray:
    """Return at most `count` eigenvectors (k, D) of the largest absolute eigenvalues; of large matrices, roughly."""
    if len(M) <= _LARGE:
        values, vectors = np.linalg.eigh(M)
        return vectors[:, np.argsort(-np.abs(values))[:count]].T
    # Imported here, because nothing else in this module needs scikit-learn.
    from sklearn.utils.extmath import randomized_svd

    largest: FloatArray = randomized_svd(M, count, n_iter=2, random_state=0)[0].T
    return largest
