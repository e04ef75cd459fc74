"""Bounds of quadratic forms over sign vectors: validity, exactness, structure, arguments, interruption."""

import os
import time
from fractions import Fraction
from itertools import product
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.inner_problem import InnerBound


def symmetric(n, seed=0):
    M = np.random.default_rng(seed).standard_normal((n, n))
    return M + M.T


def block(M):
    """The symmetric matrix whose form in (u, v) is u' M v."""
    m, n = M.shape
    return np.block([[np.zeros((m, m)), M / 2], [M.T / 2, np.zeros((n, n))]])


def maximum(B):
    """The largest x' B x by enumeration."""
    X = np.array(list(product([-1.0, 1.0], repeat=len(B))))
    return float(np.einsum("ki,ij,kj->k", X, B, X, optimize=True).max())


def by_cvxpy(B):
    K = cp.Variable(B.shape, PSD=True)
    unit = np.abs(B).max()
    problem = cp.Problem(cp.Maximize(cp.trace(B / unit @ K)), [cp.diag(K) == 1])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return unit * problem.value


def check(bound, B, tol=1e-6):
    """What every result must satisfy, recomputed from its z and Y alone."""
    assert isinstance(bound, InnerBound)
    size = max(float(np.abs(B).sum()), 1e-300)
    assert float(bound) == bound.upper_bound >= np.sum(bound.z) - 1e-14 * size
    np.testing.assert_allclose(np.sum(bound.Y**2, axis=1), 1.0, rtol=1e-12)
    assert bound.value == pytest.approx(np.sum(bound.Y * (B @ bound.Y)), abs=1e-12 * size)
    assert bound.value <= bound.upper_bound + 1e-13 * size
    # Weak duality: tr((Diag(z) - B) K) is the gap, and no eigenvalue of Diag(z) - B is negative.
    slack = np.diag(bound.z) - B
    assert np.sum(bound.Y * (slack @ bound.Y)) == pytest.approx(bound.upper_bound - bound.value, abs=1e-12 * size)
    spectrum = np.linalg.svd(slack, compute_uv=False)
    assert np.linalg.eigvals(slack).real.min() >= -1e-13 * spectrum.max()
    scale = max(abs(bound.upper_bound), abs(bound.upper_bound - np.trace(B)))
    assert bound.relative_gap == pytest.approx(max(0, bound.upper_bound - bound.value) / max(scale, 1e-320), abs=1e-12)
    assert bound.status == "optimal"
    assert bound.relative_gap <= tol


@pytest.mark.parametrize("n", [1, 2, 3, 6, 10])
@pytest.mark.parametrize("seed", range(5))
def test_maxcut_against_enumeration(n, seed):
    M = symmetric(n, seed)
    bound = qsdp.maxcut_bound(M)
    check(bound, M)
    best = maximum(M)
    assert bound.upper_bound >= best


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (2, 5), (5, 5), (6, 3)])
@pytest.mark.parametrize("seed", range(5))
def test_grothendieck_against_enumeration(shape, seed):
    M = np.random.default_rng(seed).standard_normal(shape)
    bound = qsdp.grothendieck_bound(M)
    check(bound, block(M))
    best = maximum(block(M))
    assert best <= bound.upper_bound <= 1.7823 * best


@pytest.mark.parametrize("n", [5, 12, 18])
@pytest.mark.parametrize("seed", range(3))
def test_against_interior_point_solver(n, seed):
    M = symmetric(n, seed)
    bound = qsdp.maxcut_bound(M, tol=1e-8)
    check(bound, M, 1e-8)
    assert bound.upper_bound == pytest.approx(by_cvxpy(M), rel=1e-6)
    rectangular = M[: n // 2]
    bound = qsdp.grothendieck_bound(rectangular, tol=1e-8)
    check(bound, block(rectangular), 1e-8)
    assert bound.upper_bound == pytest.approx(by_cvxpy(block(rectangular)), rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_symmetric_grothendieck_is_that_of_two_blocks(seed):
    M = symmetric(15, seed)
    halves = qsdp.grothendieck_bound(M, tol=1e-8)
    check(halves, block(M), 1e-8)
    # A relative asymmetry of 1e-9 takes the other route.
    other = M + np.triu(np.full_like(M, 1e-9 * np.abs(M).max()), 1)
    whole = qsdp.grothendieck_bound(other, tol=1e-8)
    check(whole, block(other), 1e-8)
    assert halves.upper_bound == pytest.approx(whole.upper_bound, rel=1e-7)
    z = 2 * halves.z[:15]
    assert np.sum(z) == pytest.approx(halves.upper_bound)
    for sign in (1.0, -1.0):
        assert np.linalg.eigvalsh(np.diag(z) + sign * M).min() > -1e-12


def test_asymmetry_of_rounding_is_allowed_for():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 12))
    M = (X.T * rng.standard_normal(40)) @ X
    M[0, 1] += 1e-15
    bound = qsdp.grothendieck_bound(M)
    check(bound, block(M))
    assert np.array_equal(bound.z[:12], bound.z[12:])  # two blocks


def test_bounds_of_nearly_symmetric_matrices_are_not_below_the_maximum():
    # The bound of the symmetric part is tight at u != v, where the antisymmetric part adds all of its sum.
    for asymmetry in (1e-15, 3e-14, 1.1e-13):
        M = np.array([[2.0, asymmetry], [-asymmetry, -2.0]])
        exact = [[Fraction(entry) for entry in row] for row in M.tolist()]
        largest = max(
            sum(exact[i][j] * u[i] * v[j] for i in range(2) for j in range(2))
            for u in product([-1, 1], repeat=2)
            for v in product([-1, 1], repeat=2)
        )
        bound = qsdp.grothendieck_bound(M)
        assert np.array_equal(bound.z[:2], bound.z[2:])  # two blocks
        assert largest <= Fraction(bound.upper_bound) <= largest + Fraction(1, 10**13)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_diagonal_matrices_are_exact(n):
    M = np.diag(np.arange(n) - 2.0)
    bound = qsdp.maxcut_bound(M)
    check(bound, M)
    assert bound.upper_bound == bound.value == np.trace(M)
    assert bound.relative_gap == 0.0


@pytest.mark.parametrize("n", [1, 2, 7])
def test_zero(n):
    for bound in (qsdp.maxcut_bound(np.zeros((n, n))), qsdp.grothendieck_bound(np.zeros((n, 3)))):
        assert bound.upper_bound == bound.value == bound.relative_gap == 0.0
        assert bound.status == "optimal"


@pytest.mark.parametrize("n", [2, 5, 30])
def test_rank_one_is_tight(n):
    v = np.random.default_rng(n).standard_normal(n)
    M = np.outer(v, v)
    bound = qsdp.maxcut_bound(M)
    check(bound, M)
    exact = np.abs(v).sum() ** 2
    assert exact <= bound.upper_bound * (1 + 1e-14) <= exact * (1 + 2e-6)
    bound = qsdp.grothendieck_bound(M)
    check(bound, block(M))
    assert bound.upper_bound == pytest.approx(exact, rel=2e-6)


def test_negative_rank_one_has_the_bound_zero():
    # Of v with no large entry: the rows of Y cancel.
    v = np.random.default_rng(0).uniform(1.0, 2.0, 12)
    M = -np.outer(v, v)
    bound = qsdp.maxcut_bound(M)
    check(bound, M)
    assert 0.0 <= bound.upper_bound <= 2e-6 * np.sum(v**2)


@pytest.mark.parametrize("second", [1.0, 1e-6, 1e-12])
def test_disconnected_parts_add_up(second):
    M, N = symmetric(8, 1), second * symmetric(6, 2)
    both = np.block([[M, np.zeros((8, 6))], [np.zeros((6, 8)), N]])
    bound = qsdp.maxcut_bound(both, tol=1e-8)
    check(bound, both, 1e-8)
    parts = qsdp.maxcut_bound(M, tol=1e-8).upper_bound + qsdp.maxcut_bound(N, tol=1e-8).upper_bound
    assert bound.upper_bound == pytest.approx(parts, rel=2e-8)


@pytest.mark.parametrize("exponent", [-320, -300, -150, -20, 20, 150, 300])
def test_any_scale(exponent):
    M = symmetric(7, 4)
    unit = qsdp.maxcut_bound(M)
    bound = qsdp.maxcut_bound(M * float(f"1e{exponent}"))
    scale = float(f"1e{exponent}")
    assert bound.upper_bound == pytest.approx(unit.upper_bound * scale, rel=1e-5 if exponent > -310 else 1e-2)
    assert bound.status == "optimal"


@pytest.mark.parametrize("seed", range(4))
def test_entries_of_all_magnitudes(seed):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((8, 8)) * 10.0 ** rng.integers(-150, 150, (8, 8))
    M += M.T
    for bound, B in ((qsdp.maxcut_bound(M), M), (qsdp.grothendieck_bound(M[:5]), block(M[:5]))):
        assert bound.status == "optimal"
        assert bound.upper_bound >= maximum(B)


def test_invariances():
    M = symmetric(14, 7)
    value = qsdp.maxcut_bound(M, tol=1e-8).upper_bound
    rng = np.random.default_rng(0)
    order, signs, shift = rng.permutation(14), rng.choice([-1.0, 1.0], 14), rng.standard_normal(14)
    assert qsdp.maxcut_bound(M[np.ix_(order, order)], tol=1e-8).upper_bound == pytest.approx(value, rel=2e-8)
    assert qsdp.maxcut_bound(M * np.outer(signs, signs), tol=1e-8).upper_bound == pytest.approx(value, rel=2e-8)
    shifted = qsdp.maxcut_bound(M + np.diag(shift), tol=1e-8).upper_bound
    assert shifted == pytest.approx(value + shift.sum(), rel=1e-7)
    R = M[:6]
    value = qsdp.grothendieck_bound(R, tol=1e-8).upper_bound
    assert qsdp.grothendieck_bound(R.T, tol=1e-8).upper_bound == pytest.approx(value, rel=2e-8)
    assert qsdp.grothendieck_bound(-R * signs, tol=1e-8).upper_bound == pytest.approx(value, rel=2e-8)


@settings(max_examples=75, deadline=None)
@given(
    st.integers(1, 7),
    st.integers(1, 7),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["normal", "integer", "sparse", "scaled"]),
    st.sampled_from([1e-1, 1e-4, 1e-8]),
)
def test_bounds_are_valid(m, n, seed, kind, tol):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((m, n))
    if kind == "integer":
        M = rng.integers(-2, 3, (m, n)).astype(float)
    elif kind == "sparse":
        M *= rng.random((m, n)) < 0.3
    elif kind == "scaled":
        M *= 10.0 ** rng.integers(-12, 1, (m, n))
    bound = qsdp.grothendieck_bound(M, tol=tol)
    slack = 1e-15 * np.abs(M).sum()  # of the enumeration's sums
    assert bound.upper_bound >= maximum(block(M)) - slack
    assert bound.relative_gap <= tol
    square = M[: min(m, n), : min(m, n)]
    square = square + square.T
    bound = qsdp.maxcut_bound(square, tol=tol)
    assert bound.upper_bound >= maximum(square) - 2 * slack
    assert bound.relative_gap <= tol


def test_structured_matrices_with_many_optima():
    hadamard = scipy.linalg.hadamard(16).astype(float)
    ring = np.roll(np.eye(31), 1, axis=0)
    for M in (hadamard, -np.ones((20, 20)), np.ones((20, 20)), -(ring + ring.T), np.kron(hadamard, np.ones((3, 3)))):
        check(qsdp.maxcut_bound(M), M)
        check(qsdp.grothendieck_bound(M), block(M))
    # The odd ring: n cos(pi / n) pairs, twice.
    exact = 2 * 31 * np.cos(np.pi / 31)
    assert qsdp.maxcut_bound(-(ring + ring.T), tol=1e-9).upper_bound == pytest.approx(exact, rel=1e-9)


def test_tolerance_is_certified():
    M = symmetric(80, 8)
    gaps = [qsdp.maxcut_bound(M, tol=tol).relative_gap for tol in (1e-2, 1e-4, 1e-6, 1e-9)]
    assert all(gap <= tol for gap, tol in zip(gaps, (1e-2, 1e-4, 1e-6, 1e-9), strict=True))


def test_same_seed_same_result():
    M = symmetric(30, 9)
    first, second = qsdp.maxcut_bound(M), qsdp.maxcut_bound(M)
    assert first.upper_bound == second.upper_bound
    assert np.array_equal(first.Y, second.Y)
    other = qsdp.maxcut_bound(M, random_state=1)
    assert other.upper_bound == pytest.approx(first.upper_bound, rel=2e-6)


def test_hyperplanes_cut_edges_with_their_probability():
    # Of two nodes the factor is antipodal and the cut certain; of the 5-ring the angle is 4 pi / 5.
    ring = np.roll(np.eye(5), 1, axis=0)
    Y = qsdp.maxcut_bound(-(ring + ring.T), tol=1e-10).Y
    normals = np.random.default_rng(0).standard_normal((20000, Y.shape[1]))
    sides = normals @ Y.T > 0.0
    share = np.mean(sides[:, 0] != sides[:, 1])
    z = (share - 0.8) / np.sqrt(0.8 * 0.2 / 20000)
    assert abs(z) < 5.0  # false alarms: 6e-7


@pytest.mark.parametrize("function", [qsdp.maxcut_bound, qsdp.grothendieck_bound])
@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ([[1.0, np.nan], [0.0, 1.0]], InvalidInputError, "must be a numeric array .*NaN"),
        ([[np.inf]], InvalidInputError, "must be a numeric array .*infinity"),
        ([["a", "b"], ["b", "a"]], InvalidTypeError, "must be a numeric array"),
        ([1.0, 2.0], InvalidInputError, r"must have shape \(n, d\); got shape \(2,\)"),
        (np.zeros((0, 0)), InvalidInputError, "must have at least one row and one column"),
        ([[1j]], InvalidInputError, "must be a numeric array"),
    ],
)
def test_bad_matrices(function, bad, error, message):
    with pytest.raises(error, match=message):
        function(bad)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tol", 0.0, "tol must be a finite number > 0; got 0.0"),
        ("tol", "tight", "tol must be a finite number > 0; got 'tight'"),
        ("max_iter", 0, "max_iter must be an integer >= 1; got 0"),
        ("time_limit", -1.0, "time_limit must be a finite number > 0; got -1.0"),
        ("random_state", "x", "random_state must be"),
    ],
)
def test_bad_arguments(name, value, message):
    with pytest.raises(InvalidInputError, match=message):
        qsdp.maxcut_bound(symmetric(3), **{name: value})


@pytest.mark.parametrize("function", [qsdp.maxcut_bound, qsdp.grothendieck_bound])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_ended_early_the_bound_holds(function, steps):
    M = symmetric(40, 11)
    exact = function(M)
    early = function(M, max_iter=steps)
    assert early.status == "inaccurate"
    assert early.iterations == steps
    assert early.value < exact.upper_bound < early.upper_bound
    B = M if function is qsdp.maxcut_bound else block(M)
    assert np.linalg.eigvalsh(np.diag(early.z) - B).min() > -1e-12


def test_time_limit():
    M = symmetric(60, 12)
    bound = qsdp.maxcut_bound(M, time_limit=1e-9)
    assert bound.status == "time limit"
    assert bound.upper_bound >= qsdp.maxcut_bound(M).value
    assert np.linalg.eigvalsh(np.diag(bound.z) - M).min() > -1e-12


@pytest.mark.parametrize("function", [qsdp.maxcut_bound, qsdp.grothendieck_bound])
@pytest.mark.parametrize("calls", [1, 5, 20, 40])
def test_interrupted_it_keeps_what_it_has(function, calls, monkeypatch):
    M = symmetric(60, 13)
    count = iter(range(10**9))

    clock = time.monotonic

    def monotonic():
        if next(count) == calls:
            raise KeyboardInterrupt
        return clock()

    exact = function(M)
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", monotonic)
        bound = function(M, tol=1e-8, time_limit=1000.0)
    assert bound.status == "interrupted"
    assert bound.value <= exact.upper_bound <= bound.upper_bound * (1 + 2e-6)
    B = M if function is qsdp.maxcut_bound else block(M)
    assert np.linalg.eigvalsh(np.diag(bound.z) - B).min() > -1e-12
    assert bound.value == pytest.approx(np.sum(bound.Y * (B @ bound.Y)))


def _data(path):
    folder = os.environ.get("QSDP_DATA")
    if not folder or not (Path(folder) / path).is_file():
        pytest.skip(f"{path} not found: set QSDP_DATA")
    return (Path(folder) / path).read_text().splitlines()


@pytest.mark.parametrize(("name", "optimum"), [("mcp100", 226.1574), ("mcp124-1", 141.9905)])
def test_sdplib(qsdp_data, name, optimum):
    lines = _data(f"sdplib/{name}.dat-s")
    n = int(lines[0])
    M = np.zeros((n, n))
    for line in lines[4:]:
        matrix, _, i, j, value = line.split()
        if matrix == "0":
            M[int(i) - 1, int(j) - 1] = M[int(j) - 1, int(i) - 1] = float(value)
    bound = qsdp.maxcut_bound(M)
    check(bound, M)
    assert bound.upper_bound == pytest.approx(optimum, rel=2e-6)


def test_gset(qsdp_data):
    lines = _data("gset/G1.txt")
    n = int(lines[0].split()[0])
    edges = np.array([[int(part) for part in line.split()] for line in lines[1:] if line.strip()])
    W = np.zeros((n, n))
    W[edges[:, 0] - 1, edges[:, 1] - 1] = edges[:, 2]
    W += W.T
    laplacian = np.diag(W.sum(axis=0)) - W
    bound = qsdp.maxcut_bound(laplacian / 4)
    check(bound, laplacian / 4)
    assert bound.upper_bound == pytest.approx(12083.1976, rel=2e-6)
    # Hyperplanes cut 0.878 of the bound in the mean; the best known cut has 11624 edges.
    normals = np.random.default_rng(0).standard_normal((bound.Y.shape[1], 100))
    cuts = [int(edges[side[edges[:, 0] - 1] != side[edges[:, 1] - 1], 2].sum()) for side in (bound.Y @ normals > 0).T]
    assert 0.878 * bound.value <= max(cuts) <= 11624
