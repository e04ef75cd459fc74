"""Verified bounds: exact rational arithmetic says that every step holds, and enumeration that the bound does."""

from __future__ import annotations

import decimal
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from brute_force import global_optimum, random_problem, random_vector_problem
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import BilinearNetwork, TrainingProblem, certify, solve_relaxation
from qsdp.certificates.proof import (
    enumerated,
    folded,
    halves,
    leaf_bound,
    proven_bound,
    tree_bound,
)
from qsdp.exceptions import InvalidInputError
from qsdp.lifting import QuadraticMap
from qsdp.losses import LOSSES, DataFit, Huber, Logistic, Loss
from qsdp.losses._logistic import logarithm
from qsdp.pricing import BoundTree, Leaf, LeafCuts
from qsdp.pricing.bound_trees import check_tree, root_tree
from qsdp.roundoff import VerifiedSums, semidefinite_shift


def bound_of(problem: TrainingProblem, nu: Any, trees: Any) -> float:
    return proven_bound(problem, problem.columns(nu), trees)[0]


FUZZ = settings(max_examples=60, deadline=None, derandomize=True)
UNIT = 2.0**-53
KINDS: list[dict[str, Any]] = [
    {},
    {"levels": 3},
    {"activation": "relu_like"},
    {"activation": (-0.5, 1.0, 0.25), "levels": 4},
    {"activation": "quadratic"},
]


def problem_of(seed: int, loss: str, d: int = 3, n: int = 8, **options: Any) -> TrainingProblem:
    if loss == "cross_entropy":
        return random_vector_problem(seed, d, n, 3, loss, **options)
    return random_problem(seed, d, n, loss, **options)


def dual_vector(rng: np.random.Generator, problem: TrainingProblem) -> np.ndarray:
    nu = -problem.loss.project_dual(-rng.standard_normal(problem.y.shape), problem.y)
    return np.asarray(nu)


def enumerated_tree(N: int, *signs: tuple[int, ...], order: Any = None) -> BoundTree:
    order = np.arange(N) if order is None else np.asarray(order)
    return BoundTree(order, tuple(Leaf(np.array(fixed, dtype=np.int8), None) for fixed in signs or ((),)))


def shift_tree(M: np.ndarray, rng: np.random.Generator) -> BoundTree:
    """A tree of random leaves, some enumerated, some with the shifts of Gershgorin's discs."""
    N, order = len(M), rng.permutation(len(M))
    leaves, open_ones = [], [(1,)] if rng.random() < 0.8 else [()]
    while open_ones:
        fixed = open_ones.pop()
        if 0 < len(fixed) < N and rng.random() < 0.5:
            open_ones += [(*fixed, 1), (*fixed, -1)]
            continue
        k = len(fixed)
        c = np.abs(M[:, order[:k]] @ np.array(fixed, dtype=float)) / 2
        rest = np.abs(M[:, order[k:]]) / 2
        z = np.concatenate([[c.sum()], c + rest.sum(axis=1), rest.sum(axis=0)])
        leaves.append(Leaf(np.array(fixed, dtype=np.int8), None if rng.random() < 0.3 else z))
    return BoundTree(order, tuple(leaves))


# -- logarithms and the conjugate ---------------------------------------------------------------------


def decimal_logs(x: np.ndarray) -> list[decimal.Decimal]:
    with decimal.localcontext() as context:
        context.prec = 50
        return [decimal.Decimal(float(value)).ln() for value in x]


def test_logarithms_are_as_accurate_as_proven() -> None:
    rng = np.random.default_rng(0)
    near_one = 1.0 + rng.integers(-40, 40, 100) * UNIT * 2
    x = np.concatenate([rng.random(500), 10.0 ** rng.uniform(-308, 308, 500), near_one, [5e-324, 0.5, 2.0, 1e308]])
    x = np.concatenate([x, [math.sqrt(0.5), math.nextafter(math.sqrt(0.5), 0), math.sqrt(2.0), 1.0]])
    for found, true in zip(logarithm(x).tolist(), decimal_logs(x), strict=True):
        assert abs(decimal.Decimal(found) - true) <= decimal.Decimal(16 * UNIT) * abs(true)


def fit_of(loss: Any, y: np.ndarray, weights: np.ndarray | None = None) -> DataFit:
    return DataFit(LOSSES[loss]() if isinstance(loss, str) else loss, y, weights)


def true_value(fit: DataFit, nu: np.ndarray) -> Fraction:
    """-sum w l*(-nu / w) in rational arithmetic, or to 60 digits; fails outside the domain."""
    name, y = fit.loss.name, fit.target
    weights = 1.0 if fit.factors is None else fit.factors
    w = np.vectorize(Fraction)(np.broadcast_to(weights, y.shape))
    if fit.loss.coupled:
        total = Fraction(0)
        for one, row, labels in zip(w[:, 0], nu.tolist(), y, strict=True):
            p = [-Fraction(v) / one for v, own in zip(row, labels, strict=True) if not own]
            total += one * sum(entropy(q) for q in [*p, 1 - sum(p)])
        return total
    total = Fraction(0)
    numbers = (w.ravel(), map(Fraction, nu.ravel().tolist()), map(Fraction, y.ravel().tolist()))
    for one, multiplier, t in zip(*numbers, strict=True):
        v = multiplier / one
        p = t * v
        if name == "logistic":
            total += one * (entropy(p) + entropy(1 - p))
            continue
        assert name in {"squared", "squared_hinge"} or abs(v) <= Fraction(fit.loss.lipschitz)
        assert p >= 0 or not fit.loss.labels
        curved = 0 if name in {"absolute", "hinge"} else v / 4
        total += one * v * (t - curved)
    return total


def entropy(p: Fraction) -> Fraction:
    assert 0 <= p <= 1
    if p == 0:
        return Fraction(0)
    with decimal.localcontext() as context:
        context.prec = 60
        number = decimal.Decimal(p.numerator) / decimal.Decimal(p.denominator)
        return Fraction(-number * number.ln())


@pytest.mark.parametrize("loss", LOSSES)
@settings(FUZZ, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), exponent=st.sampled_from([0, 0, 1, 5, 12, 16]))
def test_the_conjugate_is_rounded_down_and_not_far(loss: str, seed: int, exponent: int) -> None:
    rng = np.random.default_rng(seed)
    problem = problem_of(seed, loss)
    dual = problem.loss.project_dual(-rng.standard_normal(problem.targets.shape), problem.targets)
    # Near the borders of the domain, where 1 - p and p log p lose digits.
    dual = problem.loss.project_dual(
        dual + 10.0**-exponent * rng.standard_normal(problem.targets.shape), problem.targets
    )
    if loss == "logistic" and exponent:
        dual = -problem.targets * rng.choice([0.0, 1.0, 10.0**-exponent, 1.0 - 10.0**-exponent], problem.targets.shape)
    w = rng.choice([1.0, 3.0, 0.1], len(problem.targets)) * 10.0 ** rng.integers(-9, 9)
    for weights in (None, w, rng.uniform(0.1, 3.0, len(problem.targets))):
        fit = fit_of(problem.loss, problem.targets, weights)
        factors = 1.0 if fit.factors is None else fit.factors
        nu = fit.verified_multiplier(factors * -dual)
        found, true = fit.verified_dual_value(nu), true_value(fit, nu)
        assert Fraction(found) <= true
        size = np.sum(np.abs(nu * fit.target) + np.square(nu) / factors + factors)
        assert found >= float(true) - 1e-13 * size
        assert np.all(np.abs(nu + factors * dual) <= 1e-14 * factors * (1.0 + np.abs(dual)))


def test_terms_that_cancel_are_bounded_apart() -> None:
    # nu = 4 w y in floats nearly: the dual value is w times the rounding of the quotient.
    rng = np.random.default_rng(0)
    for _ in range(300):
        y, w = rng.uniform(0.5, 1.0, (1, 1)), rng.uniform(0.5, 3.0, 1)
        fit = fit_of("squared", y, w)
        nu = 4.0 * w * y
        assert Fraction(fit.verified_dual_value(nu)) <= true_value(fit, nu)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("loss", [*LOSSES, Huber(1.0 / 3.0)], ids=str)
@settings(FUZZ, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(-300, 100))
def test_admissible_multipliers_are_in_the_domain(loss: Any, seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    name = loss if isinstance(loss, str) else loss.name
    problem = problem_of(seed, name)
    w = rng.uniform(0.1, 3.0, len(problem.targets)) * 10.0**size
    fit = fit_of(loss, problem.targets, w)
    ends = rng.choice([0.0, 0.5, 1.0, 1.0 + 2 * UNIT, 1.0 - UNIT, 2.0, 1e9], problem.targets.shape)
    limit = 1.0 if not np.isfinite(fit.loss.lipschitz) or fit.loss.coupled else fit.loss.lipschitz
    for nu in (
        limit * ends * problem.targets,
        limit * fit.factors * ends * rng.choice([-1.0, 1.0], problem.targets.shape),
    ):
        admitted = fit.verified_multiplier(nu)
        if fit.loss.coupled and not fit.verified_dual_value(admitted) > -math.inf:
            admitted *= 1.0 - 2.0**-40
        assert fit.loss.verified_values(admitted, fit.target, fit.factors) is not None
        true_value(fit, admitted)
        if not fit.loss.coupled:
            again = fit.verified_multiplier(admitted)
            assert np.all(np.abs(again - admitted) <= 2 * UNIT * np.abs(admitted))


@pytest.mark.parametrize(
    ("loss", "nu"),
    [
        ("absolute", [1.0 + 2 * UNIT, 0.0]),
        ("huber", [0.0, -2.0 - 4 * UNIT]),
        ("hinge", [-5e-324, 0.0]),
        ("hinge", [1.0 + 2 * UNIT, 0.0]),
        ("logistic", [-1e-300, 0.0]),
        ("squared_hinge", [0.0, 1e-300]),
        ("cross_entropy", [[-5e-324, 5e-324], [0.0, 0.0]]),
        ("cross_entropy", [[1.0, -1.0 - 2 * UNIT], [0.0, 0.0]]),
        ("squared", [math.nan, 0.0]),
        ("squared", [math.inf, 0.0]),
        ("absolute", [math.nan, 0.0]),
    ],
)
def test_the_domain_is_tested_exactly(loss: str, nu: list[Any]) -> None:
    y = np.eye(2) if loss == "cross_entropy" else np.array([1.0, -1.0])
    assert fit_of(loss, y).verified_dual_value(np.array(nu)) == -math.inf
    assert fit_of(loss, y).verified_dual_value(np.zeros_like(y)) >= -1e-13
    w = np.array([3.0, 0.1])
    factors = w[:, None] if loss == "cross_entropy" else w
    with np.errstate(all="ignore"):
        assert fit_of(loss, y, w).verified_dual_value(np.nextafter(factors * nu, 10.0 * factors * nu)) == -math.inf


def test_a_probability_next_to_one_is_allowed_for() -> None:
    # 1 - p rounds to 1 - u, whose entropy u exceeds the true one, 0.6 u.
    nu, y = np.array([[0.6 * UNIT, -0.6 * UNIT]]), np.array([[1.0, 0.0]])
    fit = fit_of("cross_entropy", y)
    assert Fraction(fit.verified_dual_value(nu)) <= true_value(fit, nu)


class Plain(Logistic):
    """The logistic loss without terms of proven errors."""

    verified_values = Loss.verified_values


@pytest.mark.parametrize("seed", range(8))
def test_a_loss_without_verified_values_has_an_allowance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = problem_of(seed, "logistic")
    w = None if seed % 2 else rng.uniform(0.1, 3.0, len(problem.targets))
    fit, proven = (DataFit(loss, problem.targets, w) for loss in (Plain(), Logistic()))
    factors = 1.0 if w is None else w[:, None]
    nu = fit.verified_multiplier(factors * problem.targets * rng.random(problem.targets.shape))
    value = fit.verified_dual_value(nu)
    assert Fraction(value) <= true_value(proven, nu)
    assert value >= proven.verified_dual_value(nu) - 1e-13 * np.sum(np.broadcast_to(factors, nu.shape))
    assert fit.verified_dual_value(2.0 * factors * problem.targets) == -math.inf
    values = fit.loss.verified_values(nu, fit.target, fit.factors)
    assert values is not None
    at_zero = float(np.sum(factors * fit.loss.values(np.zeros_like(fit.target), fit.target)))
    assert values[2] == pytest.approx(128.0 * UNIT * at_zero, rel=1e-12, abs=0.0)
    network = BilinearNetwork(np.ones((1, 3)), np.ones((1, 3)), [0.1])
    plain = TrainingProblem(problem.X, problem.y, beta=0.1, loss=Plain())
    certificate = certify(network, plain)
    assert certificate.lower_bound == pytest.approx(certify(network, problem.with_beta(0.1)).lower_bound, rel=1e-9)


# -- semidefinite by rational arithmetic ---------------------------------------------------------------


def is_semidefinite(A: list[list[Fraction]]) -> bool:
    """Exact: symmetric elimination, in which a zero pivot needs a zero row."""
    A = [row[:] for row in A]
    for k in range(len(A)):
        if A[k][k] < 0 or (A[k][k] == 0 and any(A[k][j] for j in range(k + 1, len(A)))):
            return False
        for i in range(k + 1, len(A)):
            factor = A[i][k] / A[k][k] if A[k][k] else Fraction(0)
            for j in range(k + 1, len(A)):
                A[i][j] -= factor * A[k][j]
    return True


def rational(A: np.ndarray, d: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(A[i, j]) + (Fraction(d[i]) if i == j else 0) for j in range(len(A))] for i in range(len(A))]


@FUZZ
@given(
    seed=st.integers(0, 2**32 - 1),
    p=st.integers(1, 7),
    rank=st.integers(0, 7),
    below=st.sampled_from([0.0, 1e-15, 1e-12, 1e-3, 1.0]),
    spread=st.integers(0, 8),
    size=st.integers(-200, 200),
)
def test_shifted_matrices_are_semidefinite_exactly(
    seed: int, p: int, rank: int, below: float, spread: int, size: int
) -> None:
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((p, rank)) * 10.0 ** rng.uniform(-spread, 0.0, p)[:, None]
    A = (F @ F.T - below * np.eye(p)) * 10.0**size
    A = 0.5 * (A + A.T)
    d = semidefinite_shift(A)
    assert np.all(d >= 0.0)
    assert np.all(np.isfinite(d))
    assert is_semidefinite(rational(A, d))
    least = max(0.0, -float(np.linalg.eigvalsh(A)[0]))
    assert d.max() <= 1.1 * least + 1e-13 * np.abs(A).max()


@pytest.mark.parametrize("below", [1e-12, 1e-11, 1e-6])
@pytest.mark.parametrize("p", [2, 5, 30])
def test_a_matrix_indefinite_by_a_little_is_not_called_semidefinite(below: float, p: int) -> None:
    rng = np.random.default_rng(p)
    Q = np.linalg.qr(rng.standard_normal((p, p)))[0]
    A = Q * np.concatenate([[-below], rng.uniform(0.5, 1.0, p - 1)]) @ Q.T
    A = 0.5 * (A + A.T)
    d = semidefinite_shift(A)
    # v'(A + Diag(d)) v >= 0 for the eigenvector v of -below.
    assert d @ Q[:, 0] ** 2 >= 0.99 * below
    assert d.max() <= 1.01 * below + 1e-13 * p


@FUZZ
@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 6))
def test_the_factor_may_be_wrong(seed: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((p, p))
    A = F + F.T
    np.fill_diagonal(A, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qsdp.roundoff.lower_factor", lambda A: np.tril(rng.standard_normal(A.shape)))
        d = semidefinite_shift(A)
    assert is_semidefinite(rational(A, d))


def test_shifts_of_no_proof_are_infinite_and_of_zero_are_zero() -> None:
    assert np.array_equal(semidefinite_shift(np.zeros((3, 3))), np.zeros(3))
    with np.errstate(all="ignore"):
        assert np.all(semidefinite_shift(np.full((2, 2), 1e308)) >= 0.0)


# -- trees ---------------------------------------------------------------------------------------------


@FUZZ
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 8))
def test_trees_bound_the_pricing_value(seed: int, N: int) -> None:
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((N, N)) if seed % 2 else rng.integers(-2, 3, (N, N)).astype(float)
    M = M + M.T
    if seed % 3 == 0:
        M[0] = M[:, 0] = 0.0
    U = np.array(list(itertools.product([1.0, -1.0], repeat=N)))
    true = float(np.abs(U @ M).sum(axis=1).max())
    assert tree_bound(M, shift_tree(M, rng)) >= true
    exact = tree_bound(M, enumerated_tree(N, order=rng.permutation(N)))
    assert true <= exact <= true * (1 + 1e-12) + 1e-12
    for fixed in ((1,), (1, -1), (1, 1, 1)):
        if len(fixed) <= N:
            order = rng.permutation(N)
            these = np.all(U[:, order[: len(fixed)]] == fixed, axis=1)
            leaf = Leaf(np.array(fixed, dtype=np.int8), None)
            value = float(np.abs(U[these] @ M).sum(axis=1).max())
            assert enumerated(M, order, leaf) == pytest.approx(value, rel=1e-13, abs=1e-13)


def test_enumeration_beyond_one_block_finds_the_maximum() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 16))
    M = X.T @ (X * rng.standard_normal(60)[:, None])
    U = np.array(list(itertools.product([1.0, -1.0], repeat=16)))
    found = enumerated(M, rng.permutation(16), Leaf(np.zeros(0, dtype=np.int8), None))
    assert found == pytest.approx(float(np.abs(U @ M).sum(axis=1).max()), rel=1e-13)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (enumerated_tree(3, (1, 1)), "cover every sign vector once"),
        (enumerated_tree(3, (1, 1), (1, -1), (1, -1, 1)), "cover every sign vector once"),
        (enumerated_tree(3, (1,), ()), "cover every sign vector once"),
        (enumerated_tree(3, (1,), (1,)), "cover every sign vector once"),
        (enumerated_tree(3, (1, 1), (1, 1)), "cover every sign vector once"),
        (enumerated_tree(3, (1, 1), (1, 1, -1), (1, -1, 1)), "cover every sign vector once"),
        (enumerated_tree(3, (1, -1, 1), (1, -1, -1), (1, 1, 1)), "cover every sign vector once"),
        (BoundTree(np.arange(3), ()), "cover every sign vector once"),
        (enumerated_tree(3, (-1,)), "the first of them"),
        (enumerated_tree(3, (1, 0), (1, 1)), "signs -1 and"),
        (enumerated_tree(3, (1, 1, 1, 1)), "signs -1 and"),
        (enumerated_tree(3, order=[0, 1, 1]), "order of a tree must hold 0 .. 2"),
        (enumerated_tree(3, order=[0, 1]), "order of a tree must hold 0 .. 2"),
        (BoundTree(np.arange(3), (Leaf(np.zeros(0, dtype=np.int8), np.ones(6)),)), "must be 7 finite numbers"),
        (BoundTree(np.arange(3), (Leaf(np.zeros(0, dtype=np.int8), np.full(7, np.nan)),)), "must be 7 finite"),
    ],
)
def test_trees_that_prove_nothing(tree: BoundTree, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check_tree(tree, 3)


def test_too_many_free_signs() -> None:
    M = np.ones((50, 50))
    with pytest.raises(InvalidInputError, match=r"free signs of a leaf must be an integer .*; got 49"):
        tree_bound(M, enumerated_tree(50))
    # Coordinates without entries are not free.
    M[10:] = M[:, 10:] = 0.0
    assert tree_bound(M, enumerated_tree(50)) == pytest.approx(100.0)


# -- halves of root leaves -----------------------------------------------------------------------------


def random_root(rng: np.random.Generator, N: int) -> tuple[np.ndarray, np.ndarray, Leaf]:
    """A symmetric matrix, an order, and a leaf without signs but with cuts, all of small integers."""
    M = rng.integers(-4, 5, (N, N)).astype(float)
    cuts = rng.integers(-1, 2, (int(rng.integers(0, 4)), 1 + 2 * N)).astype(np.int8)
    cuts[:, 0] += (cuts.sum(axis=1) + 1) % 2
    shift, weights = rng.integers(-3, 9, 1 + 2 * N).astype(float), rng.integers(0, 4, len(cuts)).astype(float)
    return M + M.T, rng.permutation(N), Leaf(np.zeros(0, dtype=np.int8), shift, LeafCuts(cuts, weights))


def signs_of_both(rng: np.random.Generator, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signs u and v, and the coordinates (1, v, u) of a leaf in its order."""
    u, v = rng.choice([-1.0, 1.0], (2, len(order)))
    return u, v, np.concatenate([[1.0], v, u[order]])


@FUZZ
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 7))
def test_halves_are_the_mean_of_a_form_and_its_mirror_image(seed: int, N: int) -> None:
    rng = np.random.default_rng(seed)
    M, order, leaf = random_root(rng, N)
    assert leaf.shift is not None
    assert leaf.cuts is not None
    plus, minus = halves(M, order, folded(leaf.shift, order), leaf.cuts)
    for _ in range(10):
        u, v, x = signs_of_both(rng, order)
        mirrored = np.concatenate([[1.0], u, v[order]])
        # Sums of small integers, so floats are exact.
        forms = [
            leaf.shift.sum() - u @ M @ v - leaf.cuts.weights @ np.square(leaf.cuts.vectors @ own)
            for own in (x, mirrored)
        ]
        p, m = np.concatenate([[2.0], v + u]), v - u
        assert p @ plus @ p + m @ minus @ m == 2.0 * sum(forms)


@FUZZ
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 5), factor=st.integers(0, 12))
def test_halves_are_semidefinite_where_the_whole_matrix_is(seed: int, N: int, factor: int) -> None:
    rng = np.random.default_rng(seed)
    M, order, _ = random_root(rng, N)
    z = factor * np.abs(M).sum(axis=1) / 16.0 + 0.25 * rng.integers(0, 3, N)
    whole = np.block([[np.diag(z), -M], [-M, np.diag(z)]]) / 2.0
    parts = [np.diag(z) - M, np.diag(z) + M]
    shift = 0.5 * np.concatenate([[0.0], z, z[order]])
    plus, minus = halves(M, order, folded(shift, order), LeafCuts(np.zeros((0, 1 + 2 * N), dtype=np.int8), np.zeros(0)))
    assert np.array_equal(plus[1:, 1:], parts[0])
    assert not plus[0].any()
    assert np.array_equal(minus, parts[1])
    zeros = np.zeros(2 * N)
    assert is_semidefinite(rational(whole, zeros)) == all(is_semidefinite(rational(A, zeros)) for A in parts)


@FUZZ
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 6), real=st.booleans())
def test_root_leaves_are_bounded_exactly_and_no_worse_than_by_the_whole_matrix(seed: int, N: int, real: bool) -> None:
    rng = np.random.default_rng(seed)
    M, order, leaf = random_root(rng, N)
    if real:
        M *= 1.0 + rng.random()
        leaf = Leaf(leaf.signs, rng.standard_normal(1 + 2 * N) * 10.0 ** rng.uniform(-2, 1), leaf.cuts)
    exact = [[Fraction(v) for v in row] for row in M.tolist()]
    signs = itertools.product([1, -1], repeat=N)
    true = max(sum(abs(sum(s * e for s, e in zip(u, row, strict=True))) for row in exact) for u in signs)
    found = leaf_bound(M, order, leaf)
    assert Fraction(found) >= true
    # A matrix that is not symmetric in a last digit is bounded as a whole.
    M[0, -1] = np.nextafter(M[0, -1], np.inf)
    if N > 1:
        assert found <= leaf_bound(M, order, leaf) * (1.0 + 1e-12)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("N", [1, 3, 6])
def test_one_indefinite_half_is_refused(sign: float, N: int) -> None:
    # The matrix itself is semidefinite, so with this sign and the smallest shift, only one half is indefinite.
    M = sign * (np.ones((N, N)) + np.eye(N))
    true = N * N + N
    for shift in (0.0, 0.5, 0.99):
        z = np.full(N, shift * (N + 1.0))
        definite = [np.linalg.eigvalsh(np.diag(z) + own * M)[0] >= -1e-12 for own in (1.0, -1.0)]
        assert definite == [sign > 0.0, sign < 0.0]
        bound = tree_bound(M, root_tree(z))
        # Missing shifts are added to all rows, that of the constant included.
        assert true <= bound <= 2.0 * true


# -- the bound -----------------------------------------------------------------------------------------


def rational_matrix(rows: Any, nu: list[Fraction], kappa: tuple[Fraction, ...], lifted: bool) -> list[list[Fraction]]:
    """sum_i nu_i A(x_i) from its definition, with the coefficients a, b/2 and c."""
    a, half_b, c = kappa
    weighted = [(w, [Fraction(v) for v in row]) for w, row in zip(nu, rows, strict=True)]
    d = len(weighted[0][1])
    M = [[a * sum(w * r[j] * r[k] for w, r in weighted) for k in range(d)] for j in range(d)]
    if lifted:
        edge = [half_b * sum(w * r[j] for w, r in weighted) for j in range(d)]
        M = [[*row, e] for row, e in zip(M, edge, strict=True)] + [[*edge, c * sum(nu)]]
    return M


def exact_pricing_value(problem: TrainingProblem, nu: list[Fraction]) -> Fraction:
    """max |u' M v| over signs in rational arithmetic, for columns times M = levels - 1."""
    a, b, c = map(Fraction, problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0))
    rows = [[Fraction(v) * (problem.levels - 1) for v in row] for row in problem.X.tolist()]
    d, N = problem.n_features, problem.size
    M = [
        [sum((w * a * r[j] * r[k] for w, r in zip(nu, rows, strict=True)), Fraction(0)) for k in range(d)]
        for j in range(d)
    ]
    if problem.lifted:
        edge = [sum((w * b / 2 * r[j] for w, r in zip(nu, rows, strict=True)), Fraction(0)) for j in range(d)]
        M = [[*row, e] for row, e in zip(M, edge, strict=True)] + [[*edge, c * sum(nu)]]
    signs = itertools.product([1, -1], repeat=N - 1)
    return max(sum(abs(sum(s * m for s, m in zip((1, *u), row, strict=True))) for row in M) for u in signs)


@FUZZ
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([1, 3, 70]),
    lifted=st.booleans(),
    wrong=st.sampled_from([0, 1e-14, 0.1]),
)
def test_the_matrix_is_as_accurate_as_claimed(seed: int, n: int, lifted: bool, wrong: float) -> None:
    rng = np.random.default_rng(seed)
    rows, nu = rng.standard_normal((n, 2)), rng.standard_normal(n)
    kappa, defects = rng.standard_normal(3), wrong * rng.random(n)
    a, half_b, c = kappa.tolist()
    sums = QuadraticMap(rows, (a, 2.0 * half_b, c), lifted).verified_sums()
    assert sums is not None
    ((M, r),) = sums(nu, defects)
    kappas = Fraction(a), Fraction(half_b), Fraction(c)
    meant = [
        Fraction(v) + Fraction(e) * sign
        for v, e, sign in zip(nu, defects, rng.choice([-1, 1], n).tolist(), strict=True)
    ]
    true = rational_matrix(rows, meant, kappas, lifted)
    missed = sum(abs(Fraction(M[j, k]) - true[j][k]) for j in range(len(M)) for k in range(len(M)))
    assert missed <= Fraction(r)
    assert r <= 1e-12 * (n + 10) + 100.0 * wrong * n


@FUZZ
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 5), unit=st.integers(-30, 30))
def test_leaves_are_bounded_for_the_floats_themselves(seed: int, N: int, unit: int) -> None:
    rng = np.random.default_rng(seed)
    M = np.abs(rng.standard_normal((N, N)))
    M = M + M.T
    order, fixed = rng.permutation(N), np.ones(rng.integers(0, N + 1), dtype=np.int8)
    # All ones is best for nonnegative entries, and the shift of row sums is tight there: only rounding is left.
    true = sum(Fraction(v) for v in M.ravel().tolist())
    k = len(fixed)
    c, rest = M[:, order[:k]].sum(axis=1) / 2, M[:, order[k:]] / 2
    z = np.concatenate([[c.sum()], c + rest.sum(axis=1), rest.sum(axis=0)])
    for shift in (None, np.ldexp(z, unit)):
        upper = leaf_bound(M, order, Leaf(fixed, shift), unit)
        assert true <= Fraction(upper) <= true * Fraction(1 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("options", KINDS, ids=str)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_scaled_dual_vector_is_feasible_exactly(loss: str, options: dict[str, Any], seed: int) -> None:
    problem = problem_of(seed, loss, n=6, beta=0.1, **options)
    rng = np.random.default_rng(seed)
    nu = dual_vector(rng, problem)
    columns = nu.T if nu.ndim == 2 else [nu]
    trees = [shift_tree(problem.map.adjoint(column), rng) for column in columns]
    value, inside, scales = proven_bound(problem, problem.columns(nu), trees)
    used = scales * inside
    exact = [[Fraction(v) for v in row] for row in used.T.tolist()]
    if problem.loss.coupled:
        for i, own in enumerate(np.argmax(problem.y, axis=1)):
            exact[own][i] = -sum(exact[k][i] for k in range(len(exact)) if k != own)
    dual_radius = Fraction(problem.beta) * problem.dimension
    assert all(exact_pricing_value(problem, column) <= dual_radius for column in exact)
    assert Fraction(value) <= max(Fraction(0), true_value(problem.data_fit, used))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), options=st.sampled_from(KINDS))
def test_enumeration_uses_up_the_capacity(seed: int, options: dict[str, Any]) -> None:
    problem = problem_of(seed, "squared", n=6, beta=0.1, **options)
    # The dual value grows along the targets, up to twice the targets.
    nu = 1e3 * problem.y
    _, inside, scales = proven_bound(problem, problem.columns(nu), [enumerated_tree(problem.size)])
    dual_radius = Fraction(problem.beta) * problem.dimension
    largest = exact_pricing_value(problem, [Fraction(v) for v in (scales[0] * inside[:, 0]).tolist()])
    assert largest <= dual_radius
    assert 1e3 * scales[0] == pytest.approx(2.0) or dual_radius * Fraction(1 - 1e-11) <= largest


@pytest.mark.filterwarnings("ignore:with beta")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", [0, 8, 16, 24])
def test_bounds_hold_and_are_close_to_those_of_the_relaxation(loss: str, seed: int) -> None:
    options = KINDS[seed % len(KINDS)]
    d = 2 if options.get("levels", 2) > 2 else 3
    problem = problem_of(seed, loss, d=d, n=9, beta=[0.01, 0.3, 3.0][seed % 3], **options)
    relaxation = solve_relaxation(problem)
    dual = relaxation.dual
    optimum = global_optimum(problem)
    columns = dual.nu.T if dual.nu.ndim == 2 else [dual.nu]
    used = [z * bool(nu.any()) for nu, z in zip(columns, np.atleast_2d(dual.z), strict=True)]
    bound = bound_of(problem, dual.nu, [root_tree(z) for z in used])
    assert relaxation.lower_bound * (1 - 1e-9) - 1e-12 <= bound <= optimum.upper
    assert bound == pytest.approx(relaxation.lower_bound, rel=2e-6, abs=1e-12)
    exact = bound_of(problem, dual.nu, [enumerated_tree(problem.size)] * problem.n_outputs)
    assert bound * (1 - 1e-9) <= exact <= optimum.upper


@FUZZ
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 5), size=st.sampled_from([0.0, 0.1, 1.0]))
def test_shifts_that_do_not_suffice_are_paid_for(seed: int, N: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((N, N))
    M = M + M.T
    true = max(float(np.abs(M @ u).sum()) for u in itertools.product([1.0, -1.0], repeat=N))
    shift = size * rng.standard_normal(1 + 2 * N)
    leaf = Leaf(np.zeros(0, dtype=np.int8), shift)
    verified = leaf_bound(M, np.arange(N), leaf, 0)
    assert verified >= true * (1 - 1e-14)
    # No shift is worse than its lack of definiteness, in floats relative to the sizes of rows where that is less.
    assert true * (1 - 1e-14) <= tree_bound(M, BoundTree(np.arange(N), (leaf,))) <= verified * (1 + 1e-9)


def test_the_error_of_the_matrix_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(0, "squared", beta=0.1)
    tree, nu = enumerated_tree(problem.size), 1e3 * problem.y
    before = proven_bound(problem, problem.columns(nu), [tree])[2][0]

    verified_sums = QuadraticMap.verified_sums

    def worse(data: QuadraticMap) -> VerifiedSums:
        sums = verified_sums(data)
        assert sums is not None
        return lambda *arguments: [(M, tree_bound(M, tree)) for M, _ in sums(*arguments)]

    monkeypatch.setattr(QuadraticMap, "verified_sums", worse)
    # It counts twice.
    assert proven_bound(problem, problem.columns(nu), [tree])[2][0] == pytest.approx(before / 3, rel=1e-9)


@pytest.mark.parametrize("n_outputs", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_outputs_that_add_up_are_scaled_apart(seed: int, n_outputs: int) -> None:
    problem = random_vector_problem(seed, 3, 10, n_outputs, beta=0.3)
    optimum = global_optimum(problem)
    nu = -problem.loss.gradient(np.zeros_like(problem.y), problem.y)
    tree = enumerated_tree(problem.size)
    value, _, scales = proven_bound(problem, nu, [tree] * n_outputs)
    parts = [bound_of(problem.output(k), nu[:, k], [tree]) for k in range(n_outputs)]
    assert value == pytest.approx(sum(parts), rel=1e-14)
    assert len(set(scales.tolist())) > 1
    assert value <= optimum.upper


@FUZZ
@given(seed=st.integers(0, 2**32 - 1), power=st.sampled_from([-98, -50, 0, 50, 99]), target=st.integers(-98, 99))
def test_no_bound_is_wrong_at_the_ends_of_the_range(seed: int, power: int, target: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(0.1, 1.0, (6, 2)), rng.uniform(-1.0, 1.0, 6)
    problem = TrainingProblem(10.0**power * X, 10.0**target * y, beta=float(10.0 ** rng.uniform(-300, 300)))
    value = bound_of(problem, 2.0 * problem.y, [enumerated_tree(2)])
    assert 0.0 <= value <= float(np.square(problem.y).sum())
