r"""Search for the inner problem: trust-region ascent, and proofs of diagonals that dominate the scaled matrix.

The problem is :math:`\max \mathrm{tr}(B K)` over positive semidefinite K of unit diagonal, :math:`K = Y Y^T`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse.linalg

from qsdp._utils import deadline
from qsdp._utils.numeric import EPS
from qsdp._utils.progress import NO_BAR, ProgressBar
from qsdp._utils.truncated_newton import ACCEPTED, Step, newton_step
from qsdp._utils.tuning import GAIN, INNER, MAX_STEPS, NEGLIGIBLE, PATIENCE, PROGRESS, ROUGH, SMALL
from qsdp._utils.validation import FloatArray
from qsdp.roundoff import dominating_shift

__all__ = ["Ascent", "BoundSearch", "Certifier", "DualPair", "Form", "SearchOptions", "embedded", "supported"]


#: Multiple of the allowed gap below which the gradient, which bounds the gap, triggers a proof: bounds of loose
#: tolerance, and the default beta with them, depend on it to their tolerance.
_LIKELY = 1.5


@dataclass(frozen=True, eq=False)
class Form:
    r"""Symmetric matrix without zero rows, of the form with one sign, or paired with its negative.

    A factor Y has rows :math:`y_i` of unit length. Its first `split` columns, P, are multiplied by `matrix`, and the
    others, Q, by ``-matrix``; only a paired form has the latter. The value is
    :math:`\mathrm{tr}(P^T M P) - \mathrm{tr}(Q^T M Q)`.

    Attributes
    ----------
    matrix : ndarray of shape (N, N)
        It has a diagonal only if `paired`.
    paired : bool
        Whether both signs of the matrix occur.
    """

    matrix: FloatArray
    paired: bool = False

    @property
    def size(self) -> int:
        """Number of rows of a factor."""
        return len(self.matrix)

    def times(self, Y: FloatArray, split: int) -> FloatArray:
        """Compute B Y: half the gradient at Y, or the same linear map applied to a direction."""
        product: FloatArray = self.matrix @ Y
        if self.paired:
            product[:, split:] *= -1.0
        return product

    def row_norms(self) -> FloatArray:
        """Compute the Euclidean norms of the rows, without underflow."""
        magnitudes = np.abs(self.matrix)
        # Powers of two, so that the quotients are near one and nothing is rounded.
        unit = np.frexp(magnitudes.max(axis=1))[1]
        norms: FloatArray = np.ldexp(np.sqrt(np.square(np.ldexp(magnitudes, -unit[:, None])).sum(axis=1)), unit)
        return norms


class Certifier:
    r"""Prover that :math:`\mathrm{Diag}(z) \pm M` are positive semidefinite for diagonals z; stores the best z.

    Attributes
    ----------
    z : ndarray of shape (N,)
        The best diagonal so far, including rounding. Initially the sums of magnitudes of the rows, which need no proof.
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self.z = _up(np.abs(form.matrix).sum(axis=1) * (1.0 + (form.size + 2) * EPS))
        #: Number of multiplications in a proof, comparable to `Ascent.multiplications`.
        self.work = form.size**3 / 3.0 * (2.0 if form.paired else 1.0)

    @property
    def bound(self) -> float:
        """Upper bound proven so far: the sum of z."""
        return float(self.z.sum())

    def prove_within(self, z: FloatArray, weights: FloatArray, budget: float, guess: float) -> bool:
        """Try to prove z after raising it in proportion to `weights` by `guess` or `budget` in total."""
        # A tenth of the budget is reserved for rounding.
        budget *= 1.0 - INNER
        raises = [guess, budget] if guess < budget else [budget]
        return any(self._prove(_raised(z, weights, amount)) for amount in raises)

    def search(self, z: FloatArray, weights: FloatArray, guess: float) -> None:
        """Raise z in proportion to `weights`, by a total from `guess` upwards, until it is proven or not the best."""
        # This many doublings of the smallest guess exceed every dominating diagonal.
        for _ in range(MAX_STEPS):
            if float(z.sum()) + guess >= self.bound or self._prove(_raised(z, weights, guess)):
                return
            guess *= 2.0

    def _prove(self, z: FloatArray) -> bool:
        """Try to prove z, and store it if it is the best; return whether it was proven."""
        if not float(z.min()) > 0.0:
            return False
        signs = (1.0, -1.0) if self.form.paired else (1.0,)
        # A diagonal that is not dominating up to rounding is not worth a decomposition.
        added = dominating_shift(self.form.matrix, z, signs, attempts=1)
        if not np.all(added < np.inf):
            return False
        proven = _up(z + added)
        if float(proven.sum()) < self.bound:
            self.z = proven
        return True


def _raised(z: FloatArray, weights: FloatArray, amount: float) -> FloatArray:
    """Raise z by `amount` in total, in proportion to weights with a floor at a fraction of their mean."""
    # A tenth of the mean is added because rows of small entries need not be accurate.
    floored = np.maximum(weights, 0.0) + INNER * float(weights.mean())
    return z + amount / float(floored.sum()) * floored


def _up(z: FloatArray) -> FloatArray:
    """Round up: return an upper bound on the exact result of the operation that was rounded to z."""
    raised: FloatArray = np.nextafter(z, np.inf)
    return raised


def embedded(matrix: FloatArray) -> FloatArray:
    """Build the symmetric matrix ``[[0, M/2], [M'/2, 0]]`` of the form u'Mv in (u, v)."""
    m, n = matrix.shape
    return np.block([[np.zeros((m, m)), 0.5 * matrix], [0.5 * matrix.T, np.zeros((n, n))]])


def supported(matrix: FloatArray, *, paired: bool = False) -> tuple[Form, npt.NDArray[np.intp]]:
    """Build the form of the nonzero rows of a symmetric matrix; also return these rows."""
    support = np.flatnonzero(matrix.any(axis=1))
    rows = matrix if len(support) == len(matrix) else matrix[np.ix_(support, support)]
    return Form(np.ascontiguousarray(rows), paired), support


class Ascent:
    r"""Trust-region Newton method for the factor Y of the semidefinite program.

    Parameters
    ----------
    form : Form
    Y : ndarray of shape (N, p)
        Starting point, with rows of any length.
    split : int
        Number of columns of Y that multiply the matrix with the positive sign.

    Attributes
    ----------
    Y, split, G
        The current factor, and B Y.
    weights : ndarray of shape (N,)
        Metric of the rows: the multipliers, except small ones, which are raised to a minimum.
    z : ndarray of shape (N,)
        :math:`\langle y_i, (B Y)_i \rangle`, which are the multipliers if Y is stationary; they sum to the value.
    value : float
        Objective value of Y, the sum of `z`.
    gradient : float
        Norm of the gradient relative to the multipliers, in the metric of the weights.
    multiplications : float
        Number of multiplications done so far.

    Notes
    -----
    The method is Steihaug's truncated conjugate gradients with the diagonal of multipliers as preconditioner and
    metric. The rank of an optimum is about a third of the rank that avoids spurious stationary points (Barvinok,
    Pataki; Boumal, Voroninski, Bandeira). Near an optimum, vanishing columns are therefore dropped, which makes
    products cheaper and the Hessian regular.
    """

    Y: FloatArray
    split: int
    G: FloatArray
    z: FloatArray
    weights: FloatArray
    value: float
    gradient: float

    def __init__(self, form: Form, Y: FloatArray, split: int) -> None:
        self.form, self.shrinking = form, True
        # The largest entry of the matrix is about one; quotients by the weights must be finite.
        self.smallest_weights = np.maximum(0.25 * form.row_norms(), 1e-200)
        self.multiplications = 0.0
        #: Number of multiplications of a product with one column, and of what is computed from it.
        self._column_work = float(form.matrix.size + 4 * form.size)
        self.radius = 0.0
        self._move(_unit(Y), split)
        self.radius = 0.5 * float(np.sqrt(self.weights.sum()))

    def step(self) -> bool:
        """Take one step, shortened at a time limit; return whether another step may make progress."""
        if self.shrinking and self.gradient < ROUGH:
            self._shrink()
        step = self._newton_step()
        gain = 2.0 * step.predicted()
        if gain <= 0.0:
            return False
        before = (self.Y, self.split, self.G, self.z, self.weights, self.value, self.gradient)
        value, gradient = self.value, self.gradient
        self._move(_unit(self.Y + step.direction), self.split)
        # Smaller changes of the value are rounding.
        noise = 64.0 * EPS * float(np.abs(before[3]).sum())
        ratio = (self.value - value + noise) / (gain + noise)
        self.radius = step.next_radius(self.radius, ratio)
        converged = gain <= noise
        if ratio <= ACCEPTED or (converged and self.gradient >= gradient):
            self.Y, self.split, self.G, self.z, self.weights, self.value, self.gradient = before
            return not converged and self.radius > NEGLIGIBLE * float(np.sqrt(self.weights.sum()))
        return True

    def enlarge(self, columns: int, random: np.random.Generator) -> None:
        """Escape from a saddle point by adding columns; no column is dropped from then on.

        One column along which the value grows is added, and random columns up to `columns` for each sign.
        """
        self.shrinking = False
        signs = (1.0, -1.0) if self.form.paired else (1.0,)
        _, growing, vector = min((_lowest(self.form, self.z, self.weights, sign) for sign in signs), key=lambda t: t[0])
        parts = []
        for sign, part in ((1.0, self.Y[:, : self.split]), (-1.0, self.Y[:, self.split :])):
            added = [part]
            if sign == growing:
                added.append(INNER / float(np.abs(vector).max()) * vector[:, None])
            if sign in signs and (missing := columns - sum(block.shape[1] for block in added)) > 0:
                added.append(INNER / np.sqrt(missing) * random.standard_normal((len(part), missing)))
            parts.append(np.hstack(added))
        self._move(_unit(np.hstack(parts)), parts[0].shape[1])
        self.radius = 0.5 * float(np.sqrt(self.weights.sum()))

    def _move(self, Y: FloatArray, split: int) -> None:
        G = self._times(Y, split)
        z = np.einsum("ij,ij->i", Y, G)
        weights = np.maximum(z, self.smallest_weights)
        R = G - z[:, None] * Y
        relative = float(np.sqrt(np.einsum("ij,ij->i", R, R) @ (1.0 / weights) / weights.sum()))
        self.Y, self.split, self.G, self.z, self.weights = Y, split, G, z, weights
        self.value, self.gradient = float(z.sum()), relative

    def _times(self, Y: FloatArray, split: int) -> FloatArray:
        self.multiplications += self._column_work * Y.shape[1]
        return self.form.times(Y, split)

    def _shrink(self) -> None:
        parts = [self.Y[:, : self.split], self.Y[:, self.split :]]
        spectra = [np.linalg.eigh(part.T @ (self.weights[:, None] * part)) for part in parts]
        largest = max(float(values[-1]) for values, _ in spectra if len(values))
        bases = [vectors[:, values > SMALL * largest] for values, vectors in spectra]
        count = sum(vectors.shape[1] for vectors in bases)
        if count <= PROGRESS * self.Y.shape[1]:
            turned = [part @ vectors for part, vectors in zip(parts, bases, strict=True)]
            self._move(_unit(np.hstack(turned)), turned[0].shape[1])

    def _newton_step(self) -> Step:
        """Minimise the quadratic model of half the value in the trust region; return a tangent step."""
        Y, z, split = self.Y, self.z[:, None], self.split
        inverse = 1.0 / self.weights[:, None]

        def hessian(direction: FloatArray) -> FloatArray:
            product = self._times(direction, split)
            product -= np.einsum("ij,ij->i", Y, product)[:, None] * Y
            return z * direction - product

        return newton_step(
            z * Y - self.G,
            hessian,
            lambda residual: inverse * residual,
            radius=self.radius,
            accuracy=min(INNER, self.gradient**0.25),
            max_products=MAX_STEPS,
        )


def _unit(Y: FloatArray) -> FloatArray:
    """Normalise the rows of Y; a row of zeros, which dropping columns may cause, becomes the first axis."""
    lengths = np.sqrt(np.einsum("ij,ij->i", Y, Y))
    if not lengths.all():
        Y = Y.copy()
        Y[lengths == 0.0, 0] = 1.0
        lengths[lengths == 0.0] = 1.0
    normalised: FloatArray = Y / lengths[:, None]
    return normalised


def _lowest(form: Form, z: FloatArray, weights: FloatArray, sign: float) -> tuple[float, float, FloatArray]:
    """Approximate the smallest eigenvalue of Diag(z) - sign * M in the metric; return it, the sign and the vector."""
    root = 1.0 / np.sqrt(weights)
    split = 1 if sign > 0.0 else 0

    def apply(v: FloatArray) -> FloatArray:
        scaled = root * v.ravel()
        image: FloatArray = root * (z * scaled - form.times(scaled[:, None].copy(), split)[:, 0])
        return image

    N = form.size
    if N <= MAX_STEPS:
        dense = np.column_stack([apply(column) for column in np.eye(N)])
        values, vectors = scipy.linalg.eigh(0.5 * (dense + dense.T), subset_by_index=[0, 0])
    else:
        operator = scipy.sparse.linalg.LinearOperator((N, N), matvec=apply, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(N)
        try:
            values, vectors = scipy.sparse.linalg.eigsh(operator, k=1, which="SA", v0=start, tol=GAIN)
        except scipy.sparse.linalg.ArpackNoConvergence:
            values, vectors = np.zeros(1), start[:, None]
    return float(values[0]), sign, root * vectors[:, 0]


@dataclass(frozen=True, eq=False)
class DualPair:
    """Result of a search: a factor with its value, a dominating diagonal, and the status."""

    Y: FloatArray
    split: int
    value: float
    z: FloatArray
    iterations: int
    status: str


@dataclass(frozen=True, eq=False)
class SearchOptions:
    """Validated options of `qsdp.maxcut_bound`.

    The bar shows the gradient, which is one to ten times the gap that a proof would leave.
    """

    tol: float
    max_iter: int
    random: np.random.Generator
    bar: ProgressBar = NO_BAR


@dataclass(frozen=True, eq=False)
class BoundSearch:
    """Maximisation of a form until value and bound differ by `tol` relative to the bound, with or without `offset`.

    Parameters
    ----------
    form : Form
        Form with at least two rows.
    offset : float
        Bound of the whole problem minus that of the form, in the units of the form; of any sign.
    options : SearchOptions
    """

    form: Form
    offset: float
    options: SearchOptions

    def run(self) -> DualPair:
        """Run the search; return the best factor and the best bound."""
        form, options, tol, N = self.form, self.options, self.options.tol, self.form.size
        # With `safe` columns, there is no spurious optimum; with half as many, usually none, and steps are faster.
        safe = min(N, math.isqrt(2 * N) + 2)
        columns = min(N, math.isqrt(2 * N) // 2 + 2)

        def allowed() -> float:
            # The part of the allowed gap that does not depend on the error of the bound itself.
            return tol * max(abs(ascent.value + self.offset), abs(ascent.value))

        start = options.random.standard_normal((N, columns * (2 if form.paired else 1)))
        certifier = Certifier(form)
        ascent = Ascent(form, start, columns)
        best = (ascent.value, ascent.Y, ascent.split)
        iterations, status, escapes, proof_work = 0, "inaccurate", 0, 0.0
        try:
            while iterations < options.max_iter:
                moving = ascent.step()
                iterations += 1
                options.bar.measure(ascent.gradient, f"step {iterations}, gradient {ascent.gradient:.1e}")
                if ascent.value >= best[0]:
                    best = (ascent.value, ascent.Y, ascent.split)
                if deadline.over():
                    status = "time limit"
                    break
                stationary = not moving or ascent.gradient < SMALL * tol
                budget = allowed() - (best[0] - ascent.value)
                excess = ascent.gradient * float(ascent.weights.sum())
                worked = ascent.multiplications - proof_work >= 0.5 * certifier.work
                # After steps that cost half as much as a proof, ten times the allowed gap may do.
                if stationary or excess < _LIKELY * budget or (worked and INNER * excess < budget):
                    if budget > 0.0 and certifier.prove_within(ascent.z, ascent.weights, budget, excess):
                        status = "optimal"
                        break
                    proof_work = ascent.multiplications
                if stationary:
                    if escapes == PATIENCE:
                        break
                    escapes += 1
                    ascent.enlarge(safe, options.random)
        except KeyboardInterrupt:
            status = "interrupted"
        if status != "optimal":
            excess = ascent.gradient * float(ascent.weights.sum())
            # The gap is usually at least a quarter of the gradient, and never less than rounding.
            guess = max(0.25 * excess, allowed(), NEGLIGIBLE * abs(ascent.value))
            certifier.search(ascent.z, ascent.weights, guess)
        return DualPair(best[1], best[2], best[0], certifier.z, iterations, status)
