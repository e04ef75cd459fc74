"""The optimum of a small training problem over all neurons, by a way that shares nothing with the library's solvers.

Every neuron is enumerated, the convex problem in their weights is solved by Clarabel in units in which its numbers are
moderate, and what counts is evaluated from the definitions in extended precision, with a bound of the rounding added:
`upper` values are objectives of networks that exist, so that a lower bound above one is wrong, whatever the solver did.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import clarabel
import numpy as np
import scipy.sparse as sp

import qsdp

__all__ = ["Enumeration", "network_value", "polynomial_value"]

Extended = np.longdouble
_EPS = np.finfo(Extended).eps


@dataclass(frozen=True, eq=False)
class Enumeration:
    """All neurons of a problem as columns, and the best weights found for them.

    Attributes
    ----------
    upper : float
        An objective that is attained, rounded up.
    zero : float
        That of the network without neurons.
    solved : bool
        Whether Clarabel called its solution one.
    """

    upper: float
    zero: float
    solved: bool

    @classmethod
    def of(cls, problem: qsdp.TrainingProblem, *, corners: bool = True, polynomial: bool = False) -> Enumeration:
        """Solve a problem over all pairs of neurons, or over single polynomial ones.

        Parameters
        ----------
        problem : TrainingProblem
        corners : bool, default=True
            Only first-layer weights of the largest magnitude: a bilinear neuron of others is a mean of such.
        polynomial : bool, default=False
            Neurons sigma(x'q) at the same price; all levels.
        """
        U, V = _neurons(problem, corners and not polynomial, polynomial)
        F = _features(problem, U, V)
        weight = Extended(problem.beta) * Extended(problem.dimension if not polynomial else _polynomial_size(problem))
        shape = (F.shape[1], *problem.y.shape[1:])
        zero = _upper(problem, F, np.zeros(shape), weight)
        alpha, solved = _weights(problem, F, weight)
        # Multiples of a solution that is none can still be good; so is nothing at all.
        best = min([zero, *(_upper(problem, F, s * alpha, weight) for s in (1.0, 0.5, 0.1) if np.any(alpha))])
        return cls(best, zero, solved)


def network_value(problem: qsdp.TrainingProblem, network: qsdp.BilinearNetwork) -> tuple[float, float, float]:
    """Return the objective of a network, from the definition, what it errs by at most, and what floats would."""
    F = _features(problem, network.U.astype(float), network.V.astype(float))
    weight = Extended(problem.beta) * Extended(problem.dimension)
    return (*_value(problem, F, network.alpha, weight), _value(problem, F, network.alpha, weight, 2.0**-52)[1])


def polynomial_value(problem: qsdp.TrainingProblem, network: qsdp.PolynomialNetwork) -> tuple[float, float, float]:
    """Return the objective (12) of a polynomial network in the same way."""
    Q = network.Q.astype(float)
    last = np.ones((len(Q), problem.size - problem.n_features))
    F = _features(problem, np.hstack([Q, last]), np.hstack([Q, last]))
    weight = Extended(problem.beta) * Extended(_polynomial_size(problem))
    return (*_value(problem, F, network.alpha, weight), _value(problem, F, network.alpha, weight, 2.0**-52)[1])


def _polynomial_size(problem: qsdp.TrainingProblem) -> int:
    return problem.n_features * (problem.levels - 1)


def _neurons(problem: qsdp.TrainingProblem, corners: bool, polynomial: bool) -> tuple[np.ndarray, np.ndarray]:
    M = problem.levels - 1
    values = (-M, M) if corners else tuple(range(-M, M + 1, 2))
    side = np.array(list(itertools.product(values, repeat=problem.n_features)), dtype=float)
    if problem.lifted:
        # Of a neuron and its negative the one whose last entry is +1.
        side = np.hstack([side, np.ones((len(side), 1))])
    elif not polynomial or problem.activation is None:
        side = side[: (len(side) + 1) // 2]
    if polynomial:
        return side, side
    first, second = np.triu_indices(len(side))
    return side[first], side[second]


def _features(problem: qsdp.TrainingProblem, U: np.ndarray, V: np.ndarray) -> np.ndarray:
    a, b, c = (Extended(v) for v in (problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)))
    if problem._forms is not None:
        # Upper triangles of the matrices themselves, of a problem from statistics.
        first, second = np.triu_indices(problem.size)
        pairs = U[:, first] * V[:, second] + (first != second) * U[:, second] * V[:, first]
        return np.asarray(problem.weight_map.forms.astype(Extended) @ pairs.T.astype(Extended))
    d, X = problem.n_features, problem.X.astype(Extended)
    left, right = X @ U[:, :d].T.astype(Extended), X @ V[:, :d].T.astype(Extended)
    F = a * left * right
    if problem.lifted:
        s, t = U[:, d].astype(Extended), V[:, d].astype(Extended)
        F = F + b / 2 * (left * t + right * s) + c * s * t
    return np.asarray(F)


def _value(
    problem: qsdp.TrainingProblem, F: np.ndarray, alpha: np.ndarray, weight: Extended, eps: float = _EPS
) -> tuple[float, float]:
    """Return the objective of weights of features, and a bound of its rounding, that to a float included.

    With the unit roundoff of floats as `eps` the bound is that of an evaluation in floats.
    """
    a = alpha.astype(Extended)
    prediction, magnitude = F @ a, _magnitude(problem) * np.abs(a).sum(axis=0)
    # Terms of features and predictions are no larger than magnitudes, however much of them cancels.
    error = 4 * (problem.n_features + len(a) + 8) * eps * np.broadcast_to(magnitude, prediction.shape)
    penalty = weight * np.abs(a).sum()
    value = _loss(problem, prediction, 0 * error) + penalty
    upper = (_loss(problem, prediction, error) + penalty) * (1 + 64 * (problem.y.size + len(a)) * eps)
    if not np.isfinite(upper):
        return np.inf, np.inf
    return float(value), float(upper - value) + 2.0**-51 * float(value)


def _upper(problem: qsdp.TrainingProblem, F: np.ndarray, alpha: np.ndarray, weight: Extended) -> float:
    return sum(_value(problem, F, alpha, weight))


def _magnitude(problem: qsdp.TrainingProblem) -> np.ndarray:
    """Return a bound of every feature's terms, in the shape of the targets' rows."""
    if problem._forms is not None:
        return np.asarray(2 * (problem.levels - 1) ** 2 * np.abs(problem.weight_map.forms).sum(axis=1), dtype=Extended)
    a, b, c = (abs(Extended(v)) for v in (problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)))
    t = (problem.levels - 1) * np.abs(problem.X.astype(Extended)).sum(axis=1)
    size = a * t * t + b * t + c
    return np.asarray(size[:, None] if problem.vector else size)


def _loss(problem: qsdp.TrainingProblem, t: np.ndarray, error: np.ndarray) -> Extended:
    """Return the weighted loss where every prediction errs by so much, at most."""
    y, name = problem.y.astype(Extended), problem.loss.name
    w = np.ones(len(y), dtype=Extended) if problem.sample_weight is None else problem.sample_weight.astype(Extended)
    if name == "cross_entropy":
        top = t.max(axis=1)
        terms = top + np.log(np.exp(t - top[:, None]).sum(axis=1)) - (y * t).sum(axis=1)
        return Extended((w * (terms + 2 * error.max(axis=1))).sum())
    terms = np.maximum(_entries(problem, t - error, y), _entries(problem, t + error, y))
    return Extended((w * (terms.T if terms.ndim == 2 else terms)).sum())


def _entries(problem: qsdp.TrainingProblem, t: np.ndarray, y: np.ndarray) -> np.ndarray:
    name, r = problem.loss.name, y - t
    if name == "squared":
        return np.asarray(r * r)
    if name == "absolute":
        return np.abs(r)
    if name == "huber":
        delta = Extended(problem.loss.parameters()["delta"])
        return np.where(np.abs(r) <= delta, r * r, 2 * delta * np.abs(r) - delta * delta)
    margin = y * t
    if name == "logistic":
        return np.where(margin > 0, np.log1p(np.exp(-np.abs(margin))), -margin + np.log1p(np.exp(-np.abs(margin))))
    short = np.maximum(0, 1 - margin)
    return np.asarray(short if name == "hinge" else short * short)


# -- the convex problem --------------------------------------------------------------------------------------------


def _weights(problem: qsdp.TrainingProblem, F: np.ndarray, weight: Extended) -> tuple[np.ndarray, bool]:
    """Return weights of all features that Clarabel finds, and whether it calls them optimal."""
    y, name = problem.y.astype(Extended), problem.loss.name
    w = np.ones(len(y), dtype=Extended) if problem.sample_weight is None else problem.sample_weight.astype(Extended)
    shape = (F.shape[1], *y.shape[1:])
    if name == "cross_entropy":
        return _solve_coupled(F, y, w, weight)
    columns = y.T if y.ndim == 2 else [y]
    parts = [_solve_scalar(problem, F, column, w, weight) for column in columns]
    alpha = np.stack([part[0] for part in parts], axis=1) if y.ndim == 2 else parts[0][0]
    return alpha.reshape(shape), all(part[1] for part in parts)


def _solve_scalar(
    problem: qsdp.TrainingProblem, F: np.ndarray, y: np.ndarray, w: np.ndarray, weight: Extended
) -> tuple[np.ndarray, bool]:
    name, n = problem.loss.name, len(y)
    value = (w * _entries(problem, np.zeros_like(y), y)).sum()
    if not value > 0:
        return np.zeros(F.shape[1]), True
    signed = np.hstack([F, -F])
    # Rows in the units of the total loss, columns of at most one.
    curved = name in ("squared", "squared_hinge")
    rows = np.sqrt(w / value) if curved else w / value
    size = np.maximum(np.abs(signed * rows[:, None]).max(axis=0), Extended(1e-4000))
    A, target = (signed * rows[:, None] / size).astype(float), (y * rows).astype(float)
    eye, program = np.eye(n), _Program(_price(weight, value, size))
    own = slice(0, A.shape[1])
    if name == "squared":
        r = program.variables(n)
        program.equal([(own, A), (r, eye)], target)
        program.square(r)
    elif name == "absolute":
        r = program.variables(n, cost=1.0)
        program.below([(own, A), (r, -eye)], target)
        program.below([(own, -A), (r, -eye)], -target)
    elif name == "huber":
        # r = u + v - v', in the units of its square and of its slope beyond delta.
        delta = Extended(problem.loss.parameters()["delta"])
        near, far = np.sqrt(w / value), 2 * delta * w / value
        u, v, below = program.variables(n), program.variables(n, cost=1.0), program.variables(n, cost=1.0)
        D, E = np.diag((rows / near).astype(float)), np.diag((rows / far).astype(float))
        program.equal([(own, A), (u, D), (v, E), (below, -E)], target)
        program.square(u)
        for one in (v, below):
            program.below([(one, -eye)], np.zeros(n))
    elif name in ("hinge", "squared_hinge"):
        h = program.variables(n, cost=0.0 if curved else 1.0)
        program.below([(own, -y.astype(float)[:, None] * A), (h, -eye)], -rows.astype(float))
        program.below([(h, -eye)], np.zeros(n))
        if curved:
            program.square(h)
    else:
        # log(1 + exp(-y t)) <= h where exp(-h) + exp(-y t - h) <= 1.
        h, p, s = program.variables(n, cost=(w / value).astype(float)), program.variables(n), program.variables(n)
        program.below([(p, eye), (s, eye)], np.ones(n))
        program.exponentials([(h, -eye)], p)
        program.exponentials([(own, (-y / rows).astype(float)[:, None] * A), (h, -eye)], s)
    x, solved = program.solve()
    a = np.maximum(x[own], 0.0).astype(Extended) / size
    return a[: len(a) // 2] - a[len(a) // 2 :], solved


def _solve_coupled(F: np.ndarray, y: np.ndarray, w: np.ndarray, weight: Extended) -> tuple[np.ndarray, bool]:
    n, C = y.shape
    value = Extended((w * np.log(Extended(C))).sum())
    signed = np.hstack([F, -F])
    size = np.maximum(np.abs(signed).max(axis=0), Extended(1e-4000))
    A, unit, m = (signed / size).astype(float), (w / value).astype(float), signed.shape[1]
    slopes = [A.T @ (unit * y[:, k].astype(float)) for k in range(C)]
    program = _Program(np.concatenate([_price(weight, value, size) - slope for slope in slopes]))
    h = program.variables(n, cost=unit)
    parts = []
    for k in range(C):
        p = program.variables(n)
        program.exponentials([(slice(k * m, (k + 1) * m), A), (h, -np.eye(n))], p)
        parts.append((p, np.eye(n)))
    program.below(parts, np.ones(n))
    x, solved = program.solve()
    a = np.maximum(x[: m * C], 0.0).reshape(C, m).T.astype(Extended) / size[:, None]
    return a[: m // 2] - a[m // 2 :], solved


def _price(weight: Extended, value: Extended, size: np.ndarray) -> np.ndarray:
    """Return the cost of columns of at most one, in units of the loss at zero."""
    return np.asarray(np.minimum(weight / value / size, Extended(1e30)), dtype=float)


_Blocks = list[tuple[slice, np.ndarray]]


class _Program:
    """A conic program in the making: non-negative variables first, then free ones, and rows over them."""

    def __init__(self, costs: np.ndarray) -> None:
        self._costs, self._curvatures = [costs], [np.zeros(len(costs))]
        self._size = self._first = len(costs)
        self._rows: list[tuple[str, _Blocks, np.ndarray]] = []

    def variables(self, count: int, cost: float | np.ndarray = 0.0) -> slice:
        """Return the places of further variables."""
        self._costs.append(np.broadcast_to(np.asarray(cost, dtype=float), (count,)))
        self._curvatures.append(np.zeros(count))
        self._size += count
        return slice(self._size - count, self._size)

    def square(self, columns: slice) -> None:
        """Add the squares of the variables that were made last but for those after them."""
        position = 0
        for part in self._curvatures:
            if position == columns.start:
                part[:] = 2.0
            position += len(part)

    def equal(self, blocks: _Blocks, right: np.ndarray) -> None:
        """Demand that a sum of products be the right side."""
        self._rows.append(("equal", blocks, right))

    def below(self, blocks: _Blocks, right: np.ndarray) -> None:
        """Demand that it be no more."""
        self._rows.append(("below", blocks, right))

    def exponentials(self, exponent: _Blocks, bound: slice) -> None:
        """Demand exp(exponent) <= bound, entry by entry."""
        n = bound.stop - bound.start
        place = np.eye(n)
        first, last = np.kron(place, [[1.0], [0.0], [0.0]]), np.kron(place, [[0.0], [0.0], [1.0]])
        blocks = [(columns, -first @ block) for columns, block in exponent]
        self._rows.append(("exponential", [*blocks, (bound, -last)], np.tile([0.0, 1.0, 0.0], n)))

    def solve(self) -> tuple[np.ndarray, bool]:
        """Return the variables, zero where the solver has failed, and whether it calls them optimal."""
        rows, right, cones = [], [], []
        for kind, blocks, side in self._rows:
            row = np.zeros((len(side), self._size))
            for columns, block in blocks:
                row[:, columns] += block
            rows.append(row)
            right.append(side)
            if kind == "exponential":
                cones += [clarabel.ExponentialConeT()] * (len(side) // 3)
            else:
                cones.append((clarabel.ZeroConeT if kind == "equal" else clarabel.NonnegativeConeT)(len(side)))
        rows.append(-np.eye(self._first, self._size))
        right.append(np.zeros(self._first))
        cones.append(clarabel.NonnegativeConeT(self._first))
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_iter, settings.time_limit = False, 100, 5.0
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
        places = np.arange(self._size + 1)
        P = sp.csc_matrix((np.concatenate(self._curvatures), places[:-1], places))
        P.eliminate_zeros()
        A, b = sp.csc_matrix(np.vstack(rows)), np.concatenate(right)
        try:
            found = clarabel.DefaultSolver(P, np.concatenate(self._costs), A, b, cones, settings).solve()
        except KeyboardInterrupt:
            raise
        except BaseException:  # the solver's own panics are no Exception
            return np.zeros(self._size), False
        x = np.array(found.x)
        if not np.all(np.isfinite(x)):
            return np.zeros(self._size), False
        return x, str(found.status) in ("Solved", "AlmostSolved")
