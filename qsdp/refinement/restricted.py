"""The convex problem of the second layer for fixed neurons, by a dense interior-point method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.optimize
from scipy.special import expit, softmax

from qsdp._validation import FloatArray
from qsdp.exceptions import SolverError
from qsdp.losses import Loss

__all__ = ["RestrictedSolution", "solve_restricted", "sparsify"]

_MAX_ITERATIONS = 100

#: How far a step goes towards the boundary of the positive orthant.
_TO_BOUNDARY = 0.995

#: Of the solution of a linear system by Woodbury's identity, the first solve included.
_REFINEMENTS = 4

#: Samples up to which the n x n system is solved rather than the smaller one, which is less accurate.
_FEW_SAMPLES = 3000

#: Steps along the central path where the primal-dual method failed, and the gap that is no failure.
_PATH_STEPS, _ACCURATE = 200, 1e-9

#: Iterations without a better gap after which rounding has taken over.
_PATIENCE = 12


@dataclass(frozen=True, eq=False)
class RestrictedSolution:
    """Weights, a dual vector, and what both prove about the restricted problem.

    Attributes
    ----------
    weights : ndarray of shape (k,)
        Non-negative.
    nu : ndarray in the shape of the target
        In the domain of the conjugate and with ``columns' nu <= prices``. From the middle of the dual optimal
        set rather than its boundary: what column generation converges well with.
    objective, lower_bound : float
        Of the restricted problem, evaluated at `weights` and `nu`.
    iterations : int
    """

    weights: FloatArray
    nu: FloatArray
    objective: float
    lower_bound: float
    iterations: int


def solve_restricted(
    columns: FloatArray,
    loss: Loss,
    target: FloatArray,
    prices: FloatArray,
    *,
    outputs: npt.NDArray[np.intp] | None = None,
    tol: float = 1e-10,
) -> RestrictedSolution:
    r"""Minimise :math:`\ell(\sum_j a_j f_j, y) + \sum_j c_j a_j` over :math:`a \ge 0`.

    Parameters
    ----------
    columns : ndarray of shape (n, k)
        The values :math:`f_j` of k neurons on the data; a neuron whose weight may be negative stands there
        twice, with both signs.
    loss : Loss
    target : ndarray of shape (n,), or (n, C) for a coupled loss
    prices : ndarray of shape (k,)
        c, positive.
    outputs : ndarray of shape (k,), optional
        Which output each column feeds, for targets (n, C).
    tol : float, default=1e-10
        Relative duality gap at which to stop. Loose ones leave the dual vector well inside the feasible set.

    Returns
    -------
    RestrictedSolution

    Raises
    ------
    SolverError
        The method has no equations for the loss, one from outside this package.

    Notes
    -----
    A primal-dual interior-point method with Mehrotra's corrector. Piecewise linear parts of a loss become columns
    of the identity, :math:`|r| = \min \{t^+ + t^- : t^+ - t^- = r\}` and so on, so that five losses are one
    quadratic program; the logistic loss and the cross-entropy are linearised in every step. The linear systems are
    dense and of the smaller of the two sides, samples or columns. On the problems of column generation this
    is much faster than sparse solvers, whose factorisations do not see that nothing is sparse.
    """
    if loss.name not in _SLACKS and loss.name not in _SMOOTH:
        raise SolverError(
            f"the second layer has no method for loss {loss.name!r}, only for {', '.join(sorted({*_SLACKS, *_SMOOTH}))}"
        )
    # The last iterations divide by almost nothing; what overflows is not used.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if loss.name in _SLACKS:
            return _solve_quadratic(columns, loss, target, prices, tol)
        return _solve_smooth(columns, loss, target, prices, outputs, tol)


# -- squared, absolute, huber, hinge, squared hinge --------------------------------------------------------

#: Slack columns of a loss as pairs (diagonal, cost), given its targets.
_SLACKS: dict[str, Callable[[Loss, FloatArray], list[tuple[FloatArray, float]]]] = {
    "squared": lambda loss, y: [],
    "absolute": lambda loss, y: [(np.ones_like(y), 1.0), (-np.ones_like(y), 1.0)],
    "huber": lambda loss, y: [(np.ones_like(y), loss.lipschitz), (-np.ones_like(y), loss.lipschitz)],
    "hinge": lambda loss, y: [(y, 1.0), (-y, 0.0)],
    "squared_hinge": lambda loss, y: [(-y, 0.0)],
}

#: Losses whose curvature `_solve_smooth` knows.
_SMOOTH = frozenset({"logistic", "cross_entropy"})

#: Half of the inverse curvature of the quadratic part, 0 where there is none.
_QUADRATIC = {"squared": 0.5, "huber": 0.5, "squared_hinge": 0.5, "absolute": 0.0, "hinge": 0.0}


def _solve_quadratic(F: FloatArray, loss: Loss, y: FloatArray, prices: FloatArray, tol: float) -> RestrictedSolution:
    n, k = F.shape
    if loss.name == "squared" and n > 2 * k:
        return _solve_compressed(F, loss, y, prices, tol)
    slacks = _SLACKS[loss.name](loss, y)
    inverse = _QUADRATIC[loss.name]
    diagonals = [sigma for sigma, _ in slacks]
    c = np.concatenate([prices, *(np.full(n, cost) for _, cost in slacks)])

    def forward(x: FloatArray) -> FloatArray:
        value = F @ x[:k]
        for g, sigma in enumerate(diagonals):
            value += sigma * x[k + g * n : k + (g + 1) * n]
        return value

    def adjoint(nu: FloatArray) -> FloatArray:
        return np.concatenate([F.T @ nu, *(sigma * nu for sigma in diagonals)])

    best = _Best(F, loss, y, prices)
    x, nu, s = _start(F, y, c, k, best.objective)
    for iteration in range(_MAX_ITERATIONS):
        mu = float(x @ s) / len(x)
        if best.update(x[:k], nu, iteration, mu) <= tol or best.stalled:
            break
        primal = forward(x) + inverse * nu - y
        dual = c - adjoint(nu) - s
        D = x / s
        diagonal = np.full(n, inverse) + sum(D[k + g * n : k + (g + 1) * n] for g in range(len(slacks)))
        solve = _normal_equations(F, D[:k], diagonal)
        if solve is None:
            break

        def step(
            centre: FloatArray | float,
            solve: Callable[[FloatArray], FloatArray] = solve,
            x: FloatArray = x,
            s: FloatArray = s,
            D: FloatArray = D,
            primal: FloatArray = primal,
            dual: FloatArray = dual,
        ) -> tuple[FloatArray, FloatArray, FloatArray]:
            g = centre / s - x
            dnu = solve(-primal - forward(g - D * dual))
            ds = dual - adjoint(dnu)
            return g - D * ds, dnu, ds

        dx, dnu, ds = step(0.0)
        reach = min(_reach(x, dx), _reach(s, ds))
        sigma = (float((x + reach * dx) @ (s + reach * ds)) / len(x) / mu) ** 3
        dx, dnu, ds = step(sigma * mu - dx * ds)
        if not (np.all(np.isfinite(dx)) and np.all(np.isfinite(ds))):
            break
        length = min(1.0, _TO_BOUNDARY * min(_reach(x, dx), _reach(s, ds)))
        x, nu, s = x + length * dx, nu + length * dnu, s + length * ds
    return best.solution()


def _solve_compressed(F: FloatArray, loss: Loss, y: FloatArray, prices: FloatArray, tol: float) -> RestrictedSolution:
    # With F = Q R the residual off the range of F is constant, and orthogonal to every column.
    Q, R = np.linalg.qr(F)
    inside = Q.T @ y
    rest = y - Q @ inside
    constant = float(rest @ rest)
    # The gap is relative to the whole objective.
    small = _solve_quadratic(R, loss, inside, prices, tol)
    nu = Q @ small.nu + 2.0 * rest
    return RestrictedSolution(
        small.weights, nu, small.objective + constant, small.lower_bound + constant, small.iterations
    )


def _start(
    F: FloatArray, y: FloatArray, c: FloatArray, k: int, value: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    size = float(np.abs(y).max(initial=0.0)) or 1.0
    row = float(np.abs(F).sum()) / max(1, len(F)) or 1.0
    x = np.full(len(c), size)
    x[:k] = size / row
    typical = float(c[:k].mean())
    s = np.maximum(c, 0.1 * typical)
    # Far from feasible, products that are small beside the value at zero would allow tiny steps only.
    s[:k] = np.maximum(s[:k], 0.1 * value / len(c) / x[:k])
    # Zero-cost slacks must not start on the boundary.
    s[k:] = np.maximum(c[k:], 0.1)
    return x, np.zeros_like(y), s


def _normal_equations(F: FloatArray, D: FloatArray, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    """Return a solver of ``(F Diag(D) F' + Diag(diagonal)) x = b``, through the smaller side."""
    n, k = F.shape
    if n <= max(k, _FEW_SAMPLES):
        # A matrix times its own transpose takes half the operations.
        root = F * np.sqrt(D)
        N = root @ root.T
        N[np.diag_indices(n)] += diagonal
        return _cholesky(N)
    # Woodbury's identity with the k x k matrix D^-1 + F' diagonal^-1 F.
    scaled = F / diagonal[:, None]
    root = F / np.sqrt(diagonal)[:, None]
    small = root.T @ root
    small[np.diag_indices(k)] += 1.0 / D
    inner = _cholesky(small)
    if inner is None:
        return None

    def solve(b: FloatArray) -> FloatArray:
        x = np.zeros_like(b)
        # Small diagonals make the identity lose digits that a residual brings back.
        for _ in range(_REFINEMENTS):
            r = b - F @ (D * (F.T @ x)) - diagonal * x
            x = x + r / diagonal - scaled @ inner(scaled.T @ r)
        return x

    return solve


def _cholesky(N: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    # Scaled to unit diagonal, where a tiny shift costs nothing and saves the last iterations.
    scale: FloatArray = 1.0 / np.sqrt(np.maximum(N.diagonal(), np.finfo(np.float64).tiny))
    N = N * np.outer(scale, scale)
    for shift in (0.0, 1e-14, 1e-12, 1e-10):
        N[np.diag_indices(len(N))] += shift
        try:
            factor = scipy.linalg.cho_factor(N, check_finite=False)
        except scipy.linalg.LinAlgError:
            continue
        return lambda b: scale * scipy.linalg.cho_solve(factor, scale * b, check_finite=False)
    return None


def _reach(x: FloatArray, dx: FloatArray) -> float:
    """Return the largest multiple of dx, at most 1 / _TO_BOUNDARY, that keeps x non-negative."""
    falling = dx < 0.0
    if not np.any(falling):
        return 1.0 / _TO_BOUNDARY
    return min(1.0 / _TO_BOUNDARY, float((-x[falling] / dx[falling]).min()))


class _Best:
    """The best weights and the best dual vector met so far, both evaluated."""

    def __init__(
        self,
        F: FloatArray,
        loss: Loss,
        target: FloatArray,
        prices: FloatArray,
        outputs: npt.NDArray[np.intp] | None = None,
    ) -> None:
        self.F, self.loss, self.target, self.prices, self.outputs = F, loss, target, prices, outputs
        self.weights = np.zeros(F.shape[1])
        self.nu = np.zeros_like(target)
        self.objective = loss.value(np.zeros_like(target), target)
        self.bound = max(0.0, -loss.conjugate(self.nu, target))
        self.gap = self.mu = np.inf
        self.improved = self.iterations = 0

    @property
    def relative_gap(self) -> float:
        """Return the gap of the best pair as a share of its objective."""
        return (self.objective - self.bound) / (abs(self.objective) or 1.0)

    @property
    def stalled(self) -> bool:
        return self.iterations - self.improved > _PATIENCE

    def predict(self, weights: FloatArray) -> FloatArray:
        if self.outputs is None:
            return self.F @ weights
        prediction = np.zeros_like(self.target)
        for output in range(self.target.shape[1]):
            mine = self.outputs == output
            prediction[:, output] = self.F[:, mine] @ weights[mine]
        return prediction

    def correlations(self, nu: FloatArray) -> FloatArray:
        """Return the product of every column with the dual vector of its output."""
        if self.outputs is None:
            return self.F.T @ nu
        products = self.F.T @ nu
        chosen: FloatArray = products[np.arange(len(self.outputs)), self.outputs]
        return chosen

    def update(self, weights: FloatArray, nu: FloatArray, iteration: int, mu: float) -> float:
        """Evaluate a pair of iterates and return the relative gap of the best ones."""
        self.iterations = iteration
        objective = self.loss.value(self.predict(weights), self.target) + float(self.prices @ weights)
        if objective < 0.99 * self.objective:
            self.improved = iteration
        if objective < self.objective:
            self.objective, self.weights = objective, weights.copy()
        nu = -self.loss.project_dual(-nu, self.target)
        excess = float((self.correlations(nu) / self.prices).max(initial=0.0))
        nu = nu / max(1.0, excess)
        bound = -self.loss.conjugate(-nu, self.target)
        if bound > 1.01 * self.bound:
            self.improved = iteration
        if bound > self.bound:
            self.bound, self.nu = bound, nu
        gap = self.relative_gap
        # The gap stands still in the first iterations of problems whose optimum is near zero.
        if gap < 0.9 * self.gap or mu < 0.9 * self.mu:
            self.gap, self.mu, self.improved = min(gap, self.gap), min(mu, self.mu), iteration
        return gap

    def solution(self) -> RestrictedSolution:
        return RestrictedSolution(self.weights, self.nu, self.objective, self.bound, self.iterations)


# -- logistic loss and cross-entropy ------------------------------------------------------------------


def _solve_smooth(
    F: FloatArray,
    loss: Loss,
    target: FloatArray,
    prices: FloatArray,
    outputs: npt.NDArray[np.intp] | None,
    tol: float,
) -> RestrictedSolution:
    k = F.shape[1]
    best = _Best(F, loss, target, prices, outputs)
    row = float(np.abs(F).sum(axis=1).mean()) or 1.0
    a = np.full(k, 1.0 / row)
    slope = prices + best.correlations(loss.gradient(best.predict(a), target))
    # Small ones would meet the boundary at once where the first slopes are negative.
    s = np.maximum(slope, max(float(np.abs(slope).max()), float(prices.max())))
    for iteration in range(_MAX_ITERATIONS):
        prediction = best.predict(a)
        gradient = loss.gradient(prediction, target)
        mu = float(a @ s) / k
        if best.update(a, -gradient, iteration, mu) <= tol or best.stalled:
            break
        slope = prices + best.correlations(gradient)
        solve = _newton_system(F, loss, prediction, target, outputs, s / a)
        if solve is None:
            break
        # Complementarity means little as long as s is not the slope: the curvature changes on the way.
        away = mu + float(np.abs(a * (slope - s)).sum()) / k
        da = solve(-slope)
        ds = -s - s / a * da
        reach = min(1.0, _reach(a, da), _reach(s, ds))
        sigma = max((1.0 - reach) ** 3, 1e-3)
        # After a short step the corrector would correct what does not happen.
        centre = sigma * away - (da * ds if reach > 0.5 else 0.0)
        da = solve(-slope + centre / a)
        ds = (centre - s * da) / a - s
        if not (np.all(np.isfinite(da)) and np.all(np.isfinite(ds))):
            break
        reach = _TO_BOUNDARY * min(_reach(a, da), _reach(s, ds))
        length = _backtrack(best, a, s, da, ds, min(1.0, reach), sigma * away)
        a, s = a + length * da, s + length * ds
    if best.relative_gap > max(10.0 * tol, _ACCURATE):
        _follow_path(best, tol)
    return best.solution()


def _follow_path(best: _Best, tol: float) -> None:
    r"""Continue where the primal-dual method cycles, by Newton's method on :math:`f(a) - \mu \sum_j \log a_j`.

    Slower, but every step lowers a convex function, so that nothing can go round.
    """
    k = len(best.weights)
    unit = best.objective / float(best.prices.sum())
    a = np.maximum(best.weights, 1e-6 * unit)
    mu = max(best.objective - best.bound, tol * best.objective) / k
    for iteration in range(_PATH_STEPS):
        prediction = best.predict(a)
        gradient = best.loss.gradient(prediction, best.target)
        if best.update(a, -gradient, iteration, mu) <= tol:
            return
        slope = best.prices + best.correlations(gradient) - mu / a
        solve = _newton_system(best.F, best.loss, prediction, best.target, best.outputs, mu / a**2)
        if solve is None:
            return
        da = solve(-slope)
        decrement = -float(slope @ da)
        if not decrement > 0.0:
            return
        a = a + _descent(best, a, da, mu, decrement) * da
        if decrement <= 0.1 * mu:
            mu *= 0.1


def _descent(best: _Best, a: FloatArray, da: FloatArray, mu: float, decrement: float) -> float:
    """Return a step that lowers the barrier function by a share of what its slope promises."""

    def barrier(a: FloatArray) -> float:
        loss = best.loss.value(best.predict(a), best.target)
        return loss + float(best.prices @ a) - mu * float(np.log(a).sum())

    length = min(1.0, _TO_BOUNDARY * _reach(a, da))
    before = barrier(a)
    for _ in range(40):
        if barrier(a + length * da) <= before - 1e-4 * length * decrement:
            break
        length *= 0.5
    return length


def _backtrack(
    best: _Best, a: FloatArray, s: FloatArray, da: FloatArray, ds: FloatArray, length: float, mu: float
) -> float:
    """Halve the step until the residual of the central path's conditions does not grow much."""

    def residual(a: FloatArray, s: FloatArray) -> float:
        gradient = best.loss.gradient(best.predict(a), best.target)
        stationarity = best.prices + best.correlations(gradient) - s
        return float(np.linalg.norm(stationarity)) + float(np.linalg.norm(a * s - mu)) / (float(a.mean()) or 1.0)

    before = residual(a, s)
    for _ in range(6):
        if residual(a + length * da, s + length * ds) <= 2.0 * before:
            break
        length *= 0.5
    return length


def _newton_system(
    F: FloatArray,
    loss: Loss,
    prediction: FloatArray,
    target: FloatArray,
    outputs: npt.NDArray[np.intp] | None,
    E: FloatArray,
) -> Callable[[FloatArray], FloatArray] | None:
    """Return a solver of ``(Diag(E) + F' W F) x = b`` with the curvature W of the loss."""
    n, k = F.shape
    if outputs is not None:
        H = _coupled_hessian(F, softmax(prediction, axis=1), outputs)
        H[np.diag_indices(k)] += E
        return _cholesky(H)
    probability = expit(prediction)
    G = F * np.sqrt(probability * (1.0 - probability))[:, None]
    if k <= n:
        H = G.T @ G
        H[np.diag_indices(k)] += E
        return _cholesky(H)
    root = G / np.sqrt(E)
    small = root @ root.T
    small[np.diag_indices(n)] += 1.0
    inner = _cholesky(small)
    if inner is None:
        return None

    def solve(b: FloatArray) -> FloatArray:
        x = np.zeros_like(b)
        for _ in range(2):
            r = b - E * x - G.T @ (G @ x)
            x = x + (r - G.T @ inner(G @ (r / E))) / E
        return x

    return solve


def _coupled_hessian(F: FloatArray, p: FloatArray, outputs: npt.NDArray[np.intp]) -> FloatArray:
    # Per sample diag(p) - p p'.
    products = F * p[:, outputs]
    H: FloatArray = -products.T @ products
    for output in range(p.shape[1]):
        mine = np.flatnonzero(outputs == output)
        H[np.ix_(mine, mine)] += F[:, mine].T @ products[:, mine]
    return H


# -- few neurons ----------------------------------------------------------------------------------------


def sparsify(columns: FloatArray, weights: FloatArray, prices: FloatArray) -> FloatArray:
    r"""Return weights with the same :math:`\sum_j a_j f_j`, no larger cost and linearly independent columns.

    Parameters
    ----------
    columns : ndarray of shape (n, k)
    weights, prices : ndarray of shape (k,)
        Non-negative.

    Returns
    -------
    ndarray of shape (k,)
        With at most n positive entries, the rank of `columns` to be exact.

    Notes
    -----
    A vertex of :math:`\{w \ge 0 : \sum_j w_j f_j = \sum_j a_j f_j\}` of least cost, by the simplex method. Where that
    fails, the weights are returned as they came.
    """
    used = np.flatnonzero(weights > 0.0)
    F = columns[:, used]
    if F.shape[0] > F.shape[1]:
        F = np.asarray(scipy.linalg.qr(F, mode="r", check_finite=False)[0][: F.shape[1]], dtype=np.float64)
    if not len(used) or np.linalg.matrix_rank(F) == len(used):
        return weights
    norms = np.linalg.norm(F, axis=0)
    norms[norms == 0.0] = 1.0
    aim = F @ weights[used]
    unit = float(np.abs(aim).max()) or 1.0
    program = scipy.optimize.linprog(
        prices[used] / norms / float(prices[used].max()),
        A_eq=F / norms,
        b_eq=aim / unit,
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if program.x is None:
        return weights
    basis = np.flatnonzero(program.x > 1e-12 * program.x.max(initial=0.0))
    exact = scipy.linalg.lstsq(F[:, basis] / norms[basis], aim, check_finite=False)[0]
    vertex = np.zeros_like(weights)
    vertex[used[basis]] = np.maximum(exact, 0.0) / norms[basis]
    return vertex
