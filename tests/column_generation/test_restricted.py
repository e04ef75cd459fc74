"""The convex problem of the second layer: against CVXPY, its dual values recomputed, and few neurons."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp.column_generation.restricted import (
    RestrictedSolution,
    _nonnegative,
    _quadratic,
    nonnegative_minimum,
    sampling_chances,
    solve_restricted,
    sparsify,
)
from qsdp.losses import LOSSES, CrossEntropy, DataFit, Huber, Loss, get_loss

FUZZ = settings(max_examples=60, deadline=None, derandomize=True)
SHAPES = [(1, 1), (1, 7), (10, 1), (8, 8), (5, 20), (20, 5), (30, 14), (30, 15), (40, 120), (90, 25)]
KINDS = ["normal", "integer", "duplicated", "zero columns", "both signs", "one direction", "scaled", "high", "low"]


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Columns F, penalties c, and a loss with its target."""

    F: np.ndarray
    loss: Loss
    y: np.ndarray
    c: np.ndarray
    outputs: np.ndarray | None = None
    sample_weight: np.ndarray | None = None

    @property
    def fit(self) -> DataFit:
        return DataFit(self.loss, self.y, self.sample_weight)

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """The definition, column by column."""
        if self.outputs is None:
            return (self.F @ weights)[:, None]
        prediction = np.zeros_like(self.y)
        for j, output in enumerate(self.outputs):
            prediction[:, output] += weights[j] * self.F[:, j]
        return prediction

    def objective(self, weights: np.ndarray) -> float:
        return self.fit.value(self.predict(weights)) + float(self.c @ weights)

    def correlations(self, nu: np.ndarray) -> np.ndarray:
        """Return the product of every column with the dual vector of its output."""
        if self.outputs is None:
            return self.F.T @ nu[:, 0]
        return np.array([self.F[:, j] @ nu[:, output] for j, output in enumerate(self.outputs)])

    @property
    def at_zero(self) -> float:
        return self.fit.value_at_zero

    def solve(self, tol: float = 1e-10) -> RestrictedSolution:
        return solve_restricted(self.F, self.fit, self.c, outputs=self.outputs, tol=tol)


def draw(loss: str | Loss, n: int, k: int, kind: str = "normal", seed: int = 0, n_outputs: int = 3) -> Problem:
    rng = np.random.default_rng([seed, n, k])
    loss = get_loss(loss)
    integer = kind == "integer"
    F = rng.integers(-4, 5, size=(n, k)).astype(float) if integer else rng.standard_normal((n, k))
    penalties = np.exp(0.3 * rng.standard_normal(k)) * 10.0 ** rng.uniform(-1.0, 0.5)
    if kind == "duplicated":
        F = F[:, rng.integers(0, (k + 1) // 2, size=k)]
        penalties[:] = penalties[0]
    elif kind == "zero columns":
        F[:, ::3] = 0.0
    elif kind == "both signs":
        F = np.hstack([F[:, : (k + 1) // 2], -F[:, : k // 2]])
    elif kind == "one direction":
        F = np.outer(F[:, 0], F[0])
    elif kind == "scaled":
        F *= 10.0 ** rng.uniform(-3.0, 3.0, size=k)
    elif kind == "high":
        penalties *= 1e3
    elif kind == "low":
        penalties *= 1e-5
    outputs = rng.integers(0, n_outputs, size=k) if loss.coupled else None
    if loss.coupled:
        y = np.eye(n_outputs)[rng.integers(0, n_outputs, size=n)]
    elif loss.labels:
        y = rng.choice([-1.0, 1.0], size=(n, 1))
    else:
        y = rng.standard_normal((n, 1)) * 10.0 ** rng.uniform(-1.0, 1.0)
    return Problem(F, loss, y, penalties, outputs)


def check(problem: Problem, solution: RestrictedSolution, gap: float = 1e-8) -> None:
    """Everything a solution says, from the definitions."""
    weights, nu = solution.weights, solution.nu
    assert weights.shape == problem.c.shape
    assert nu.shape == problem.y.shape
    assert np.all(weights >= 0.0)
    # Rounding of what is summed, whose size is that of the loss at zero.
    rounding = 1e-13 * problem.at_zero * (1 + problem.y.size)
    assert solution.objective == pytest.approx(problem.objective(weights), rel=1e-11, abs=rounding)
    # The conjugate knows no tolerance: outside its domain it is infinite.
    assert solution.lower_bound == pytest.approx(problem.fit.dual_value(nu), rel=1e-11, abs=rounding)
    sums = np.abs(problem.F).sum(axis=0)
    # Entries of classes are probabilities less one, and know no more than the roundoff of one.
    allowed = 1e-14 * np.abs(nu).max(initial=0.0) + 2.0**-53 * problem.loss.coupled
    assert np.all(problem.correlations(nu) <= problem.c * (1.0 + 1e-12) + allowed * sums)
    assert solution.lower_bound <= solution.objective + rounding
    assert solution.objective - solution.lower_bound <= gap * solution.objective + 10.0 * rounding


def reference(problem: Problem) -> np.ndarray:
    """Weights by CVXPY."""
    weights = cp.Variable(len(problem.c), nonneg=True)
    if problem.outputs is None:
        prediction = cp.reshape(problem.F @ weights, problem.y.shape, order="C")
    else:
        onto = np.eye(problem.y.shape[1])[problem.outputs]
        prediction = problem.F @ cp.diag(weights) @ onto
    value = problem.fit.expression(prediction) + problem.c @ weights
    cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    return np.maximum(weights.value, 0.0)


# -- optimality ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_values_are_those_of_the_weights_and_the_gap_is_closed(loss: str, kind: str) -> None:
    for n, k in SHAPES:
        problem = draw(loss, n, k, kind)
        check(problem, problem.solve())


@pytest.mark.parametrize("shape", [(6, 1), (6, 15), (12, 5), (8, 8)], ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_optima_are_those_of_cvxpy(loss: str, shape: tuple[int, int]) -> None:
    for kind in ("normal", "integer", "duplicated"):
        problem = draw(loss, *shape, kind, seed=5)
        solution = problem.solve()
        optimum = problem.objective(reference(problem))
        assert solution.lower_bound <= optimum * (1 + 1e-12)
        assert solution.objective <= optimum * (1 + 1e-10)
        assert solution.objective == pytest.approx(optimum, rel=1e-5)


@pytest.mark.parametrize("delta", [1e-3, 0.3, 50.0])
def test_other_huber_losses(delta: float) -> None:
    for shape in SHAPES:
        problem = draw(Huber(delta), *shape)
        check(problem, problem.solve())


@pytest.mark.parametrize("n_outputs", [2, 5])
def test_other_numbers_of_classes(n_outputs: int) -> None:
    for shape in SHAPES[2:]:
        problem = draw(CrossEntropy(), *shape, n_outputs=n_outputs)
        check(problem, problem.solve())


def test_outputs_that_no_column_feeds() -> None:
    problem = dataclasses.replace(draw("cross_entropy", 20, 6), outputs=np.full(6, 1))
    solution = problem.solve()
    check(problem, solution)
    assert np.any(solution.weights)
    assert problem.objective(reference(problem)) == pytest.approx(solution.objective, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_zero_is_optimal_where_penalties_exceed_correlations(loss: str) -> None:
    for (n, k), factor in itertools.product(SHAPES, (1.0, 1e8)):
        problem = draw(loss, n, k)
        # A subgradient at zero; the kinks of the losses are elsewhere.
        slope = -problem.fit.gradient(np.zeros_like(problem.y))
        correlations = problem.correlations(slope)
        problem = dataclasses.replace(problem, c=np.full(k, factor * 1.01 * max(correlations.max(), 0.1)))
        solution = problem.solve()
        check(problem, solution)
        assert solution.objective == pytest.approx(problem.at_zero, rel=1e-9)
        assert solution.lower_bound == pytest.approx(problem.at_zero, rel=1e-8)
        # A penalty a hundredth lower than the largest correlation lets the column in.
        if correlations.max() > 0.1 and factor == 1.0:
            cheaper = dataclasses.replace(problem, c=np.full(k, 0.99 * correlations.max()))
            assert cheaper.solve().objective < problem.at_zero * (1 - 1e-9)


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
def test_targets_of_zero(loss: str) -> None:
    for shape in SHAPES:
        problem = draw(loss, *shape)
        problem = dataclasses.replace(problem, y=np.zeros_like(problem.y))
        solution = problem.solve()
        assert solution.objective == solution.lower_bound == 0.0
        assert not np.any(solution.weights)


@pytest.mark.parametrize("loss", ["squared", "absolute", "hinge", "squared_hinge", "logistic"])
def test_one_column_by_hand(loss: str) -> None:
    problem = Problem(np.array([[2.0]]), get_loss(loss), np.array([[1.0]]), np.array([0.5]))
    weight = {
        # 2 * 2 (1 - 2a) = 0.5; slopes 2 > 0.5 up to the kink at 2a = 1; 2 expit(-2a) = 0.5.
        "squared": 7 / 16,
        "absolute": 0.5,
        "hinge": 0.5,
        "squared_hinge": 7 / 16,
        "logistic": 0.5 * np.log(3.0),
    }[loss]
    solution = problem.solve()
    assert solution.weights[0] == pytest.approx(weight, rel=1e-5)
    assert solution.objective == pytest.approx(problem.objective(np.array([weight])), rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_more_samples_than_the_full_system_takes(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_quadratic, "MAX_SIDE", 10)
    for k in (5, 30):
        problem = draw(loss, 400, k)
        check(problem, problem.solve(), gap=1e-7)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_units_of_the_target(loss: str, unit: float) -> None:
    problem = draw(loss, 15, 30)
    value = unit**2 if loss == "squared" else unit
    changed = dataclasses.replace(problem, y=unit * problem.y, c=problem.c * value / unit)
    solution = changed.solve()
    check(changed, solution)
    assert solution.objective == pytest.approx(value * problem.solve().objective, rel=1e-8)


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1e25])
def test_loose_tolerances_of_columns_beyond_single_precision(size: float) -> None:
    rng = np.random.default_rng(0)
    F, outputs = size * rng.standard_normal((40, 9)), np.arange(9) % 3
    fit = DataFit(get_loss("cross_entropy"), np.eye(3)[rng.integers(0, 3, 40)])
    rough, exact = (solve_restricted(F, fit, np.full(9, size), outputs=outputs, tol=tol) for tol in (1e-2, 1e-10))
    assert exact.lower_bound <= exact.objective * (1.0 + 1e-12)
    assert rough.objective - rough.lower_bound <= 1e-2 * rough.objective
    assert rough.lower_bound <= exact.objective <= rough.objective * (1.0 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_loose_tolerances_stop_early_with_what_is_proven(loss: str) -> None:
    for shape in [(30, 14), (30, 15), (40, 120)]:
        problem = draw(loss, *shape)
        loose, tight = problem.solve(1e-2), problem.solve()
        check(problem, loose, gap=1e-2)
        assert loose.objective - loose.lower_bound > tight.objective - tight.lower_bound
        assert loose.lower_bound <= tight.objective
        assert tight.lower_bound <= loose.objective


@pytest.mark.parametrize("loss", LOSSES)
@settings(FUZZ, max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    k=st.integers(1, 30),
    kind=st.sampled_from(KINDS),
    scale=st.floats(-6, 3),
)
def test_no_weights_are_better_than_the_bound(loss: str, seed: int, n: int, k: int, kind: str, scale: float) -> None:
    problem = draw(loss, n, k, kind, seed)
    solution = problem.solve(1e-8)
    rng = np.random.default_rng(seed)
    rounding = 1e-13 * problem.at_zero * (1 + n)
    others = rng.exponential(10.0**scale, size=(5, k)) * (rng.random((5, k)) < 0.3)
    near = solution.weights * np.exp(1e-3 * rng.standard_normal((5, k)))
    for weights in (*others, *near):
        assert solution.lower_bound <= problem.objective(weights) + rounding
    if k > 1:
        # A column less is no better.
        fewer = None if problem.outputs is None else problem.outputs[1:]
        less = dataclasses.replace(problem, F=problem.F[:, 1:], c=problem.c[1:], outputs=fewer)
        assert less.solve(1e-8).objective >= solution.lower_bound - rounding


# -- few neurons ---------------------------------------------------------------------------------------


def check_sparse(F: np.ndarray, weights: np.ndarray, penalties: np.ndarray, few: np.ndarray) -> None:
    assert few.shape == weights.shape
    assert np.all(few >= 0.0)
    # No neuron comes in.
    assert not np.any(few[weights == 0.0])
    size = np.abs(F) @ weights
    assert np.abs(F @ few - F @ weights).max(initial=0.0) <= 1e-9 * size.max(initial=0.0)
    assert penalties @ few <= (penalties @ weights) * (1.0 + 1e-9)
    used = few > 0.0
    if np.any(used):
        columns = F[:, used] / np.linalg.norm(F[:, used], axis=0)
        assert np.linalg.matrix_rank(columns) == used.sum() <= np.linalg.matrix_rank(F) <= len(F)


@pytest.mark.parametrize("kind", [*KINDS, "of rank three"])
def test_few_neurons_predict_the_same(kind: str) -> None:
    for (n, k), seed in itertools.product([*SHAPES, (15, 200)], range(4)):
        rng = np.random.default_rng(seed)
        F = draw("squared", n, k, kind, seed).F
        if kind == "of rank three":
            F = F @ rng.integers(-1, 2, size=(k, 3)).astype(float) @ rng.standard_normal((3, k))
        weights = rng.exponential(size=k) * 10.0 ** rng.uniform(-5, 0, size=k) * (rng.random(k) < 0.9)
        penalties = np.ones(k) if seed % 2 else rng.uniform(0.5, 2.0, size=k)
        check_sparse(F, weights, penalties, sparsify(F, weights, penalties))


@pytest.mark.parametrize("seed", [42, 153, 1466])
def test_few_neurons_on_inputs_of_zeros_and_ones(seed: int) -> None:
    # Dependent rows of the linear program, which HiGHS gives up on in some of these cases, are left out.
    rng = np.random.default_rng(seed)
    N, n, k = int(rng.integers(5, 15)), int(rng.integers(30, 300)), int(rng.integers(60, 450))
    numbers = rng.standard_normal((n, (N - 1) // 2))
    X = np.hstack([numbers, rng.integers(0, 2, (n, N - 1 - (N - 1) // 2)).astype(float), np.ones((n, 1))])
    if rng.random() < 0.5:
        X[:, :-1] = (X[:, :-1] - X[:, :-1].mean(axis=0)) / X[:, :-1].std(axis=0)
    U, V = (rng.choice([-1.0, 1.0], (k, N)) for _ in range(2))
    F = (X @ U.T) * (X @ V.T) * rng.choice([-1, 1], k)
    weights = 10.0 ** rng.uniform(-12 * rng.random(), 0, k)
    check_sparse(F, weights, np.ones(k), sparsify(F, weights, np.ones(k)))


@settings(FUZZ, max_examples=150)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 6), k=st.integers(1, 20))
def test_few_neurons_of_integer_columns(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    F = rng.integers(-2, 3, size=(n, k)).astype(float)
    F = F[:, np.any(F, axis=0)]
    weights, penalties = rng.integers(0, 3, size=(2, F.shape[1])).astype(float)
    check_sparse(F, weights, penalties + 1.0, sparsify(F, weights, penalties + 1.0))


def test_independent_columns_are_left_alone() -> None:
    F = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    weights = np.array([0.5, 2.0, 0.0])
    assert np.array_equal(sparsify(F, weights, np.ones(3)), weights)
    assert np.array_equal(sparsify(F, np.zeros(3), np.ones(3)), np.zeros(3))


def test_the_cheapest_of_equal_columns_stays() -> None:
    F = np.array([[1.0, 2.0, 1.0]])
    for penalties, expected in [
        ([3.0, 4.0, 5.0], [0.0, 2.0, 0.0]),
        ([1.0, 4.0, 5.0], [4.0, 0.0, 0.0]),
        ([9.0, 9.0, 4.0], [0.0, 0.0, 4.0]),
    ]:
        few = sparsify(F, np.ones(3), np.array(penalties))
        assert few == pytest.approx(expected, abs=1e-12)


def test_columns_that_cancel_go() -> None:
    F = np.array([[1.0, -1.0, 0.0], [2.0, -2.0, 3.0]])
    few = sparsify(F, np.array([5.0, 5.0, 1.0]), np.ones(3))
    assert few == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)


def test_a_program_that_fails_leaves_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failed:
        x: Any = None

    monkeypatch.setattr(scipy.optimize, "linprog", lambda *args, **_: Failed())
    weights = np.array([1.0, 2.0])
    assert np.array_equal(sparsify(np.ones((1, 2)), weights, np.ones(2)), weights)


#: Columns whose program made SciPy's presolve write out of bounds.
OUT_OF_BOUNDS = """
import numpy as np
from qsdp.column_generation.restricted import sparsify
a, b, c, d, e = 0.007931169026214603, 812341.3574575143, 0.011057420069011363, 200530.89989981087, 0.0030711299657205
f, g, h, i = 974709.3183801207, 0.025849051783347343, 784391.1605589162, 2235126.434896721
F = np.array([
    [-a, -b, -3.7583880869018576e-08, 1.75161844242175e-08, a, b, -1.998079712647964e-08],
    [-c, -d, -1.263811386167863e-08, 4.0301433795415375e-08, c, d, 2.6469773828547004e-08],
    [e, f, 6.200453715337066e-08, 6.200453715337066e-08, -e, -f, 0.0],
    [-g, -h, 0.0, 0.0, g, h, 0.0],
    [0.0, i, 0.0, 0.0, 0.0, -i, 0.0],
    [0.0] * 7,
])
first, last = [30.425397099360403, 0.2674304750855052, 0.2674327696198474], [0.2674302356805567, 0.26743121924175967]
weights = np.array([*first, 0.26743358571787623, 4.1810519878836905, *last])
for _ in range(50):
    few = sparsify(F, weights, np.full(7, 6.656915862797783e-274))
assert np.allclose(F @ few, F @ weights, rtol=1e-9)
assert np.count_nonzero(few) <= 5
"""


def test_columns_of_very_different_sizes_do_no_harm_to_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", OUT_OF_BOUNDS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# -- quadratic programs over non-negative weights --------------------------------------------------------


@settings(FUZZ, max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    k=st.integers(1, 12),
    kind=st.sampled_from(["normal", "duplicated", "zero columns", "all zero"]),
    minimise=st.sampled_from([nonnegative_minimum, _nonnegative._active_set]),
)
def test_non_negative_minima_are_those_of_least_squares(seed: int, n: int, k: int, kind: str, minimise: Any) -> None:
    rng = np.random.default_rng(seed)
    F, y = rng.standard_normal((n, k)), rng.standard_normal(n)
    if kind == "duplicated":
        F = F[:, rng.integers(0, k, k)]
    elif kind != "normal":
        F[:, rng.random(k) < (0.4 if kind == "zero columns" else 1.0)] = 0.0
    ridge = 1e-9 * np.eye(k) if minimise is not nonnegative_minimum else 0.0
    start = rng.random(k) * (rng.random(k) < 0.5)
    found = minimise(F.T @ F + ridge, -F.T @ y, start, 1e-12)
    least = scipy.optimize.nnls(F, y)[1] ** 2
    assert np.all(found >= 0.0)
    assert float(np.sum((F @ found - y) ** 2)) == pytest.approx(least, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("loss", ["logistic", "cross_entropy"])
@pytest.mark.parametrize("penalty", [0.0, 5e-324, 1e-310])
def test_penalties_that_vanish_beside_the_loss(loss: str, penalty: float) -> None:
    """Where some combination of columns separates the labels, the infimum is zero and is not attained."""
    problem = draw(loss, 5, 20)
    solution = dataclasses.replace(problem, c=np.full(20, penalty)).solve()
    assert np.all(np.isfinite(solution.weights))
    assert np.all(solution.weights >= 0.0)
    assert problem.fit.value(problem.predict(solution.weights)) < 1e-3 * problem.at_zero


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=60), st.integers(1, 80))
@FUZZ
def test_samples_are_drawn_in_proportion_to_their_sizes(sizes: list[float], count: int) -> None:
    """Chances add up to the count, are proportional where below one, and positive where the size is zero."""
    chances = sampling_chances(np.array(sizes), count)
    assert np.all((chances > 0.0) & (chances <= 1.0))
    assert chances.sum() == pytest.approx(min(count, len(sizes)), rel=1e-9)
    shares = np.array(sizes) + 1e-3 * (np.mean(sizes) or 1.0)
    below = chances < 1.0
    ratios = chances[below] / shares[below]
    assert ratios == pytest.approx(np.full(len(ratios), ratios.max(initial=0.0)), rel=1e-9)
    assert np.all(chances[~below][:, None] / shares[~below][:, None] <= ratios * (1 + 1e-9))


@pytest.mark.parametrize("exchanges", [0, 100])
@pytest.mark.parametrize("seed", range(5))
def test_nonnegative_minima(seed: int, exchanges: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all sets of positive weights, one gives the minimum; some columns are equal."""
    monkeypatch.setattr(sys.modules["qsdp.column_generation.restricted._nonnegative"], "MAX_STEPS", exchanges)
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((6, 8))
    F[:, 7] = F[:, 6]
    H, g = F.T @ F, rng.standard_normal(8)
    g[:4] -= 2.0
    g[7] = g[6] + 0.1
    a = nonnegative_minimum(H, g, rng.uniform(0.0, 1.0, 8) * rng.integers(0, 2, 8), 1e-12)
    assert np.all(a >= 0.0)
    best = 0.0
    for size in range(1, 7):
        for own in map(list, itertools.combinations(range(8), size)):
            solution = np.linalg.lstsq(H[np.ix_(own, own)], -g[own], rcond=None)[0]
            if np.all(solution >= 0.0):
                best = min(best, 0.5 * float(g[own] @ solution))
    assert 0.5 * a @ H @ a + g @ a == pytest.approx(best, rel=1e-9, abs=1e-12)
