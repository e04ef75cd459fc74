r"""One pass of back-propagating least squares: solves, desired hidden outputs, reports, and the blend of two networks.

The paper's equation 5 solves the layer equation :math:`T \approx H W` for one neuron i and one output j with all other
neurons fixed: :math:`n_i = h_i + e_j / w_{ij}` with the residual :math:`E = T - H W`. It does not say how to treat
several outputs, or whether neurons move one after the other or at once. Each rule of `hidden_target` is one reading.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from benchmarks.papers.tomic.network import BPLSSettings, Network, Weights
from qsdp._utils.parallel import in_threads
from qsdp._utils.validation import FloatArray

#: Fraction of the largest squared row norm of W below which a neuron has no influence and is not changed.
_TINY = 1e-12

_Rule = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


def _reciprocal(W: FloatArray) -> FloatArray:
    """Return 1 / W, and zero where W is zero."""
    return np.divide(1.0, W, out=np.zeros_like(W), where=W != 0.0)


def _steps(W: FloatArray) -> FloatArray:
    r"""Return the least-squares steps for E, rows :math:`w_i / \|w_i\|^2`, zero for a neuron with zero weights."""
    squares = np.einsum("ij,ij->i", W, W)
    alive = squares > _TINY * squares.max(initial=0.0)
    scales: FloatArray = np.divide(1.0, squares, out=np.zeros_like(squares), where=alive)
    return W * scales[:, None]


def _gauss_seidel(H: FloatArray, W: FloatArray, E: FloatArray) -> FloatArray:
    """Solve for one neuron after the other, each by least squares on the residual left by the previous ones."""
    N, E, steps = H.copy(), E.copy(), _steps(W)
    for i, (w, step) in enumerate(zip(W, steps, strict=True)):
        move = E @ step
        N[:, i] += move
        E -= np.outer(move, w)
    return N


#: The rules by name; each takes H (S, n), W (n, J) and E (S, J), and returns (S, n).
HIDDEN_TARGETS: dict[str, _Rule] = {
    "first": lambda H, W, E: H + E[:, :1] * _reciprocal(W[:, 0]),
    "mean": lambda H, W, E: H + E @ _reciprocal(W).T / W.shape[1],
    "ls": lambda H, W, E: H + E @ _steps(W).T,
    "relax": lambda H, W, E: H + min(1.0, W.shape[1] / len(W)) * (E @ _steps(W).T),
    "damped": lambda H, W, E: H + (E @ _steps(W).T) / len(W),
    "gauss-seidel": _gauss_seidel,
    "minnorm": lambda H, W, E: H + E @ np.linalg.pinv(W),
}


def hidden_target(H: FloatArray, W: FloatArray, T: FloatArray, rule: str = "relax") -> FloatArray:
    r"""Return the desired outputs of a hidden layer.

    With the residual :math:`E = T - H W` and :math:`w_i` the rows of W:

    ==================  =======================================================================================
    ``"first"``         :math:`n_i = h_i + e_1 / w_{i1}`; the paper's equation 5 for j = 1. For one output only.
    ``"mean"``          :math:`n_i = h_i + \frac1J \sum_j e_j / w_{ij}`; heavy tails where weights are small.
    ``"ls"``            :math:`n_i = h_i + E w_i / \|w_i\|^2`; overshoots, by a gain of n / J on average.
    ``"relax"``         the same with the step times :math:`\min(1, J / n)`, which makes the average gain 1.
    ``"damped"``        the same with the step times :math:`1 / n`.
    ``"gauss-seidel"``  one neuron after the other, with E updated in between.
    ``"minnorm"``       :math:`H + E W^+`, the smallest change that fits.
    ==================  =======================================================================================

    A neuron without outgoing weights keeps its values.

    Parameters
    ----------
    H : ndarray of shape (S, n)
        Outputs of the layer, one row per sample.
    W : ndarray of shape (n, J)
        Weights of the next layer.
    T : ndarray of shape (S, J)
        Desired pre-activations of the next layer.
    rule : str, default="relax"

    Returns
    -------
    ndarray of shape (S, n)

    Examples
    --------
    >>> import numpy as np
    >>> H, W, T = np.array([[1.0, 2.0]]), np.array([[1.0], [2.0]]), np.array([[9.0]])
    >>> hidden_target(H, W, T, "ls") @ W
    array([[13.]])
    >>> hidden_target(H, W, T, "relax") @ W
    array([[9.]])
    """
    return HIDDEN_TARGETS[rule](H, W, T - H @ W)


#: Singular values below this times the larger side of A, relative to the largest, count as rounding errors in A: the
#: hidden outputs of a linear network have the rank of its inputs, and their other singular values are 1e-16.
_RANK_TOLERANCE = 10 * float(np.finfo(np.float64).eps)

#: Columns that a thread solves at a time; constant, so that the result is the same for any number of threads.
_COLUMNS = 16


@dataclass(frozen=True)
class Design:
    """Shape, rank and condition of the design matrix of a layer's least-squares problem.

    Attributes
    ----------
    n_samples, n_columns : int
        Shape of the design matrix A.
    rank : int
        Numerical rank of A; with a ridge, it is found from the Gram matrix, to half the digits.
    condition : float
        Largest singular value divided by the smallest one that is not zero.
    """

    n_samples: int
    n_columns: int
    rank: int
    condition: float


@dataclass(frozen=True)
class LayerReport:
    """Report on the least-squares solve of one layer in one pass.

    Attributes
    ----------
    number : int
        Number of the layer, from 1 at the inputs.
    designs : tuple of Design
        Size, rank and condition of the design matrix, or of both if there was a second solve or a refit.
    n_solves : int
        Number of weight vectors solved for.
    clipped : float or None
        Fraction of desired outputs of the previous hidden layer that had no pre-activation and were clipped; None for
        the first layer.
    seconds : float
        Time for solves and desired values. As for a whole pass, finding ranks and conditions is not counted.
    """

    number: int
    designs: tuple[Design, ...]
    n_solves: int
    clipped: float | None
    seconds: float


#: Function that analyses a design matrix outside the time of its solve.
Diagnosis = Callable[[], Design]


class Factorisation:
    r"""Solver of :math:`\min_W \|A W - B\|_F^2 + r S \|W\|_F^2` for any B, by one factorisation.

    Parameters
    ----------
    A : ndarray of shape (S, n)
    ridge : float
        Coefficient r. At 0, a singular-value decomposition (of the triangular factor, if S > n) gives the solution of
        minimum norm; above 0, the solver uses Cholesky's decomposition of :math:`A^T A + r S I`.

    Notes
    -----
    The printed :math:`(A^T A)^{-1} A^T B` does not exist for designs without full column rank: two inputs into
    three linear neurons, or images with a constant pixel.
    """

    def __init__(self, A: FloatArray, ridge: float) -> None:
        self._A = A
        self._ridge = ridge
        self._cholesky: tuple[FloatArray, bool] | None = None
        gram = A.T @ A if ridge > 0.0 else None
        if gram is None or not np.isfinite(gram).all() or not self._factorise(gram):
            self._decompose()

    def _factorise(self, gram: FloatArray) -> bool:
        """Compute Cholesky's decomposition; return False if the ridge is below the Gram matrix's rounding errors."""
        self._gram = gram.copy()
        gram.flat[:: len(gram) + 1] += self._ridge * len(self._A)
        try:
            self._cholesky = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return False
        return True

    def _decompose(self) -> None:
        """Compute the singular-value decomposition, through the triangular factor if A is tall."""
        A = self._A
        if A.shape[0] > A.shape[1]:
            Q, R = scipy.linalg.qr(A, mode="economic", check_finite=False)
            U, spectrum, Vt = np.linalg.svd(R, full_matrices=False)
            self._left = [Q, U]
        else:
            U, spectrum, Vt = np.linalg.svd(A, full_matrices=False)
            self._left = [U]
        self._spectrum = spectrum
        self._cutoff = max(A.shape) * _RANK_TOLERANCE * (spectrum[0] if len(spectrum) else 0.0)
        kept = spectrum > self._cutoff
        values = spectrum[kept]
        self._right = (kept, Vt[kept].T / (values + self._ridge * len(A) / values))

    def diagnosis(self) -> Diagnosis:
        """Return a function that computes size, rank and condition of A on demand and does not keep A in memory."""
        shape = self._A.shape
        if self._cholesky is None:
            spectrum, cutoff = self._spectrum, self._cutoff
            return lambda: _design(shape, spectrum, cutoff)
        gram = self._gram

        def from_gram() -> Design:
            values = scipy.linalg.eigvalsh(gram, check_finite=False)
            spectrum = np.sqrt(np.clip(values, 0.0, None))[::-1]
            # Squared singular values are known up to the rounding error of the largest one.
            return _design(shape, spectrum, math.sqrt(max(shape) * np.finfo(np.float64).eps) * spectrum[0])

        return from_gram

    def solve(self, B: FloatArray, n_jobs: int = 1) -> FloatArray:
        """Return W (n, J) for B (S, J); independent columns are solved by several threads."""
        W = np.empty((self._A.shape[1], B.shape[1]))

        def columns(part: slice) -> None:
            W[:, part] = self._solve(B[:, part])

        starts = range(0, B.shape[1], _COLUMNS)
        in_threads(columns, [slice(start, start + _COLUMNS) for start in starts], n_jobs)
        return W

    def _solve(self, B: FloatArray) -> FloatArray:
        if self._cholesky is not None:
            return scipy.linalg.cho_solve(self._cholesky, self._A.T @ B, check_finite=False)
        for factor in self._left:
            B = factor.T @ B
        kept, right = self._right
        least: FloatArray = right @ B[kept]
        return least


def _design(shape: tuple[int, ...], spectrum: FloatArray, cutoff: float) -> Design:
    kept = spectrum[spectrum > cutoff]
    condition = float(kept[0] / kept[-1]) if len(kept) else math.nan
    return Design(shape[0], shape[1], len(kept), condition)


def solve_layer(A: FloatArray, B: FloatArray, ridge: float, n_jobs: int = 1) -> tuple[FloatArray, Diagnosis]:
    """Return W of `Factorisation` and the diagnosis of A; if A or B is not finite, W is nan."""
    if np.isfinite(A).all() and np.isfinite(B).all():
        try:
            factorisation = Factorisation(A, ridge)
            return factorisation.solve(B, n_jobs), factorisation.diagnosis()
        except np.linalg.LinAlgError:
            pass
    n_samples, n_columns = A.shape
    return np.full((n_columns, B.shape[1]), np.nan), lambda: Design(n_samples, n_columns, 0, math.nan)


@dataclass(frozen=True)
class LayerSolve:
    """Solve of one layer before ranks and conditions are computed, which `report` does; fields as in `LayerReport`."""

    number: int
    diagnoses: tuple[Diagnosis, ...]
    n_solves: int
    clipped: float | None
    seconds: float

    def joined(self, other: LayerSolve) -> LayerSolve:
        """Return this solve combined with that of other outputs of the same layer."""
        diagnoses, n_solves = self.diagnoses + other.diagnoses, self.n_solves + other.n_solves
        return LayerSolve(self.number, diagnoses, n_solves, self.clipped, self.seconds + other.seconds)

    def report(self) -> LayerReport:
        """Return the `LayerReport`, computing ranks and conditions."""
        designs = tuple(diagnose() for diagnose in self.diagnoses)
        return LayerReport(self.number, designs, self.n_solves, self.clipped, self.seconds)


def backward_pass(
    network: Network, designs: Sequence[FloatArray], T: FloatArray, *, second_solve: bool
) -> tuple[Weights, list[LayerSolve]]:
    r"""Solve all layers by least squares, the last one first.

    In every layer, :math:`W = \arg\min \|H W - T\|_F^2`. The rule `hidden_target` then gives the desired outputs N of
    the layer before, whose T is :math:`a^{-1}(N)`.

    Only the settings of the network are used; `designs` are its design matrices. T (S, J) are the desired
    pre-activations of the outputs. With `second_solve`, every layer but the first is solved once more on N in place of
    H (the paper's Algorithm 2, lines 8 and 9). There, N is not yet clipped to the activation's range, and the rows of a
    softmax layer are not made to sum to one. The weights and the solves are returned in the order of the layers.
    """
    settings = network.settings
    weights: Weights = []
    solves: list[LayerSolve] = []
    for number in range(len(designs) - 1, -1, -1):
        start = time.perf_counter()
        A = designs[number]
        W, first = solve_layer(A, T, settings.ridge, settings.n_jobs)
        solved, clipped = [first], None
        if number > 0:
            N = _desired(A, W, T, settings)
            if second_solve:
                W, second = solve_layer(network.hidden_design(N), T, settings.ridge, settings.n_jobs)
                solved.append(second)
            activation, eps = settings.activations[number - 1], settings.eps_hidden[number - 1]
            clipped, T = activation.outside(N, eps), activation.inverse(N, eps)
        weights.insert(0, W)
        n_solves = W.shape[1] * len(solved)
        solves.insert(0, LayerSolve(number + 1, tuple(solved), n_solves, clipped, time.perf_counter() - start))
    return weights, solves


def _desired(A: FloatArray, W: FloatArray, T: FloatArray, settings: BPLSSettings) -> FloatArray:
    """Return the desired values of the hidden outputs in A; a column of ones among them stays as it is."""
    if settings.bias != "all":
        return hidden_target(A, W, T, settings.hidden_target)
    return hidden_target(A[:, :-1], W[:-1], T - W[-1], settings.hidden_target)


def fit_readout(network: Network, design: FloatArray, T: FloatArray) -> tuple[Network, LayerSolve]:
    """Return the network with its last layer solved by least squares for T, given that layer's design matrix."""
    settings, start = network.settings, time.perf_counter()
    readout, solved = solve_layer(design, T, settings.ridge, settings.n_jobs)
    solve = LayerSolve(len(network.weights), (solved,), readout.shape[1], None, time.perf_counter() - start)
    return Network([*network.weights[:-1], readout], settings), solve


def blend(weights: Weights, others: Weights, share: float) -> Weights:
    r"""Return the network with weights :math:`(1 - \rho) W + \rho W'` in every layer, for :math:`\rho` = `share`."""
    return [(1.0 - share) * W + share * other for W, other in zip(weights, others, strict=True)]
