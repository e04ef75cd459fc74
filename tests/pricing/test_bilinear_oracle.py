"""The oracle of bilinear networks against brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp._utils import deadline
from qsdp.pricing import BilinearOracle
from qsdp.pricing.branching import TreeSearch
from qsdp.pricing.enumeration import Enumeration, signs_of
from qsdp.pricing.pool import Pool, alternate
from qsdp.pricing.scaling import Scaled

KINDS_OF_ROWS = ("small", "large", "ones", "unsearched")


def all_signs(n: int) -> np.ndarray:
    return np.array(list(itertools.product([1.0, -1.0], repeat=n)))


def true_maximum(M: np.ndarray) -> float:
    U = all_signs(len(M))
    return float((U @ M @ U.T).max())


def random_matrix(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    A = rng.standard_normal((n, n))
    if kind == "integer":
        A = rng.integers(-2, 3, size=(n, n)).astype(float)
    elif kind == "rank one":
        A = np.outer(A[0], A[0])
    elif kind == "zero rows":
        A *= np.outer(rng.random(n) < 0.6, np.ones(n))
        A *= np.outer(np.ones(n), np.abs(A).sum(axis=1) > 0)
    elif kind == "ill-scaled":
        scale = 10.0 ** rng.uniform(-6, 6, n)
        A *= np.outer(scale, scale)
    elif kind == "sparse":
        A *= rng.random((n, n)) < 0.2
    elif kind == "diagonal":
        A = np.diag(A[0])
    return 0.5 * (A + A.T)


KINDS = ["normal", "integer", "rank one", "zero rows", "ill-scaled", "sparse", "diagonal"]


def check_atoms(result, M: np.ndarray, threshold: float = 0.0) -> None:
    assert result.U.dtype == result.V.dtype == np.int8
    assert np.all(np.abs(result.U) == 1)
    assert np.all(np.abs(result.V) == 1)
    products = np.einsum("ki,ij,kj->k", result.U.astype(float), M, result.V.astype(float))
    np.testing.assert_allclose(result.values, products, rtol=1e-12, atol=1e-14 * np.abs(M).sum())
    assert np.all(result.values > threshold)
    assert np.all(np.diff(result.values) <= 0.0)
    seen = set()
    for u, v in zip(result.U, result.V, strict=True):
        versions = {
            (a * s).tobytes() + (b * s).tobytes() for a, b in ((u, v), (v, u)) for s in (np.int8(1), np.int8(-1))
        }
        assert not versions & seen
        seen |= versions


@settings(max_examples=150, deadline=None)
@given(n=st.integers(1, 8), kind=st.sampled_from(KINDS), seed=st.integers(0, 10**6))
def test_proof_is_the_brute_force_maximum(n: int, kind: str, seed: int) -> None:
    M = random_matrix(np.random.default_rng(seed), n, kind)
    result = BilinearOracle(n).prove(M)
    truth = true_maximum(M)
    assert result.exact
    assert result.value == pytest.approx(truth, rel=1e-13)
    assert truth <= result.upper <= truth * (1 + 1e-9)
    check_atoms(result, M)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 10), kind=st.sampled_from(KINDS), seed=st.integers(0, 10**6), share=st.floats(0.0, 1.2))
def test_search_never_exceeds_the_proof_and_returns_atoms(n: int, kind: str, seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    M = random_matrix(rng, n, kind)
    oracle = BilinearOracle(n)
    proven = oracle.prove(M)
    threshold = share * proven.value
    result = oracle.search(M, threshold=threshold, n_starts=20, max_atoms=5, rng=rng)
    assert result.value <= proven.upper
    assert result.upper == np.inf
    assert not result.exact
    assert result.trees == ()
    assert len(result.U) <= 5
    check_atoms(result, M, threshold)


def check_cover(tree, n: int) -> None:
    assert sorted(tree.order.tolist()) == list(range(n))
    words = [tuple(leaf.signs.tolist()) for leaf in tree.leaves]
    assert all(word[0] == 1 for word in words if word)
    assert not any(a != b and b[: len(a)] == a for a in words for b in words)
    assert words == [()] or sum(2.0 ** (1 - len(word)) for word in words) == 1.0
    for leaf in tree.leaves:
        assert leaf.signs.dtype == np.int8
        assert leaf.shift is None or leaf.shift.shape == (1 + n + n - len(leaf.signs),)


def independent_bound(M: np.ndarray, tree) -> float:
    """The bound of a tree from its definition."""
    n, best = len(M), 0.0
    for leaf in tree.leaves:
        k = len(leaf.signs)
        c = M[:, tree.order[:k]] @ leaf.signs.astype(float)
        rest = M[:, tree.order[k:]]
        if leaf.shift is None:
            best = max(best, float(np.abs(c[:, None] + rest @ all_signs(n - k).T).sum(axis=0).max()))
            continue
        B = np.zeros((1 + n + n - k,) * 2)
        B[0, 1 : 1 + n], B[1 : 1 + n, 1 + n :] = c, rest
        A = np.diag(leaf.shift) - 0.5 * (B + B.T)
        best = max(best, float(leaf.shift.sum()) + len(A) * max(0.0, -np.linalg.eigvalsh(A)[0]))
    return best


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(1, 8), kind=st.sampled_from(KINDS), seed=st.integers(0, 10**6), enumerated=st.sampled_from([0, 1, 3])
)
def test_branch_and_bound_equals_enumeration(n: int, kind: str, seed: int, enumerated: int) -> None:
    M = random_matrix(np.random.default_rng(seed), n, kind)
    result = BilinearOracle(n, enumerated=enumerated).prove(M)
    truth = true_maximum(M)
    assert result.exact
    assert result.value == pytest.approx(truth, rel=1e-13)
    assert truth <= result.upper <= truth * (1 + 2e-9)
    check_atoms(result, M)
    check_cover(result.trees[0], n)
    assert independent_bound(M, result.trees[0]) == pytest.approx(result.upper, rel=1e-8)


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(1, 8),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10**6),
    polls=st.integers(0, 60),
    enumerated=st.sampled_from([0, 3, 33]),
    seeded=st.booleans(),
)
def test_proof_at_any_time_limit_holds(n: int, kind: str, seed: int, polls: int, enumerated: int, seeded: bool) -> None:
    M = random_matrix(np.random.default_rng(seed), n, kind)
    shift = np.abs(M).sum(axis=1) if seeded else None
    oracle = BilinearOracle(n, enumerated=enumerated)
    with deadline.checks(polls):
        result = oracle.prove(M, shift=shift)
    truth = true_maximum(M)
    assert result.value <= truth * (1 + 1e-13) <= result.upper * (1 + 1e-13)
    assert result.upper <= np.abs(M).sum() * (1 + 1e-9)
    check_cover(result.trees[0], n)
    assert independent_bound(M, result.trees[0]) == pytest.approx(result.upper, rel=1e-8)
    assert not result.exact or result.upper <= truth * (1 + 2e-9)


def test_upper_bound_falls_with_time() -> None:
    M = random_matrix(np.random.default_rng(0), 12, "normal")
    results = []
    for polls in (0, 1, 5, 20, 80, 10**9):
        with deadline.checks(polls):
            results.append(BilinearOracle(12, enumerated=0).prove(M))
    assert np.all(np.diff([result.upper for result in results]) <= 0.0)
    assert results[-1].exact
    assert not results[2].exact


def test_shift_seeds_the_root() -> None:
    M = random_matrix(np.random.default_rng(1), 10, "normal")
    z = np.full(10, np.abs(np.linalg.eigvalsh(M)).max())
    with deadline.checks(0):
        result = BilinearOracle(10, enumerated=0).prove(M, shift=z)
    assert result.upper <= z.sum() * (1 + 1e-12)
    assert not result.exact


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("enumerated", [0, 33])
def test_scaling(scale: float, enumerated: int) -> None:
    M = random_matrix(np.random.default_rng(2), 7, "normal")
    result = BilinearOracle(7, enumerated=enumerated).prove(scale * M)
    truth = true_maximum(M)
    assert result.exact
    assert result.value == pytest.approx(scale * truth, rel=1e-12)
    assert scale * truth <= result.upper <= scale * truth * (1 + 2e-9)
    assert independent_bound(scale * M, result.trees[0]) == pytest.approx(result.upper, rel=1e-8)
    search = BilinearOracle(7).search(scale * M, rng=np.random.default_rng(0))
    assert search.value == pytest.approx(scale * truth, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_zero_matrix(n: int) -> None:
    result = BilinearOracle(n).prove(np.zeros((n, n)))
    assert (result.value, result.upper, result.exact, len(result.U)) == (0.0, 0.0, True, 0)
    assert result.trees[0].leaves[0].shift is None
    assert BilinearOracle(n).search(np.zeros((n, n)), rng=np.random.default_rng(0)).value == 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_screening_never_loses_the_maximum(kind: str, seed: int) -> None:
    # Larger than one table, so that partial vectors are screened by the maxima of tails.
    M = random_matrix(np.random.default_rng(seed), 14, kind)
    U = all_signs(13)
    U = np.hstack([np.ones((len(U), 1)), U])
    truth = float(np.abs(U @ M).sum(axis=1).max())
    result = BilinearOracle(14).prove(M)
    assert result.value == pytest.approx(truth, rel=1e-13)
    assert truth <= result.upper <= truth * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["normal", "ill-scaled", "integer"])
def test_many_tables_agree_with_plain_enumeration(kind: str) -> None:
    M = random_matrix(np.random.default_rng(7), 19, kind)
    low, high = all_signs(9) @ M[:9], all_signs(10)[:512] @ M[9:]
    truth = max(float(np.abs(low + row).sum(axis=1).max()) for row in high)
    result = BilinearOracle(19).prove(M)
    assert result.value == pytest.approx(truth, rel=1e-13)
    assert truth <= result.upper <= truth * (1 + 1e-9)


@pytest.mark.parametrize(
    ("n", "half", "kind"),
    [(*size, kind) for size in ((12, True), (13, False), (17, True), (18, True)) for kind in KINDS_OF_ROWS],
)
def test_enumeration_visits_every_vector_above_the_level(
    n: int, half: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The search finds the optimum before, so no result of an oracle shows that a vector was left out.
    rng = np.random.default_rng(n)
    rows, start = rng.standard_normal((n, n)), np.zeros(n) if half else rng.standard_normal(n)
    if kind == "large":
        # Units of 16-bit integers are above 1.
        rows, start = 1e6 * rows, 1e6 * start
    elif kind == "ones":
        # No norm exceeds that of the sum of rows, which takes all 16 bits.
        rows, start = np.ones((n, n)), start - start
    elif kind == "unsearched":
        # Nor do bounds of what remains rest on a search that has found its only large vector.
        rows = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None] * (1.0 + 0.1 * rng.random((n, n)))
        monkeypatch.setattr("qsdp.pricing.enumeration.attained", lambda rows, start=0.0: 0.0)
    codes = np.arange(2**n)[:: 1 + half]
    values = np.abs(start + signs_of(codes, n) @ rows).sum(axis=1)
    for level in (0.0, float(np.quantile(values, 0.999)), 0.98 * float(values.max())):
        visited: list[np.ndarray] = []
        assert Enumeration(rows).run(start, half=half, level=lambda at=level: at, accept=visited.append)
        reached = np.concatenate(visited)
        assert len(np.unique(reached)) == len(reached)
        assert set(codes[values > level]) <= set(reached) <= set(codes)


@pytest.mark.parametrize("fixed", [0, 1, 3])
def test_enumerated_nodes_have_their_best_completion(fixed: int) -> None:
    n = 13
    scaled = Scaled.from_matrix(_gaussian(n), n)
    for signs in all_signs(fixed) if fixed else np.zeros((1, 0)):
        pool = Pool(scaled.M, 0.0, 1, 0.0, 0.0)
        search = TreeSearch(scaled, pool, n)
        assert search.enumerate(signs.astype(np.int8))
        free = all_signs(n - fixed)
        U = np.hstack([np.tile(signs, (len(free), 1)), free])
        best = np.abs(U @ scaled.M[search.order]).sum(axis=1).max()
        assert pool.best == pytest.approx(best, rel=1e-13)


def test_alternation_ends_where_it_improves_no_side() -> None:
    M = _gaussian(40)
    starts = np.random.default_rng(0).choice([-1.0, 1.0], (50, 40))
    U = alternate(M, starts)
    V = np.sign(U @ M)
    np.testing.assert_array_equal(np.sign(V @ M), U)
    assert np.all(np.abs(U @ M).sum(axis=1) >= np.abs(starts @ M).sum(axis=1))


@pytest.mark.parametrize("max_atoms", [1, 3])
def test_the_best_of_many_vectors_are_collected(max_atoms: int) -> None:
    M, U = _gaussian(10), all_signs(10)
    pool = Pool(M, 0.0, max_atoms, 0.0, 0.0)
    values = pool.add(U)
    # Versions of an atom differ by rounding.
    best = np.unique(np.round(values, 9))[::-1][:max_atoms]
    np.testing.assert_allclose(pool.values, best, rtol=1e-9)
    np.testing.assert_allclose([u @ M @ v for u, v in zip(*map(np.float64, pool.pairs), strict=True)], best, rtol=1e-9)


def test_time_limit_leaves_a_bound() -> None:
    # An hour would not do for the proof.
    M = _gaussian(60)
    with deadline.after(1e-6):
        result = BilinearOracle(60).prove(M)
    assert result.value < result.upper < np.inf
    assert not result.exact
    check_cover(result.trees[0], 60)
    assert independent_bound(M, result.trees[0]) == pytest.approx(result.upper, rel=1e-8)


def test_enumeration_of_leaves_below_a_prefix() -> None:
    M = random_matrix(np.random.default_rng(3), 16, "normal")
    whole = BilinearOracle(16).prove(M)
    parts = BilinearOracle(16, enumerated=13).prove(M)
    assert parts.value == pytest.approx(whole.value, rel=1e-13)
    assert any(leaf.shift is None for leaf in BilinearOracle(30, enumerated=25).prove(_gaussian(30)).trees[0].leaves)


def _gaussian(n: int) -> np.ndarray:
    return random_matrix(np.random.default_rng(4), n, "normal")


@settings(max_examples=60, deadline=None)
@given(n=st.integers(2, 8), seed=st.integers(0, 10**6), share=st.floats(0.5, 1.3), enumerated=st.sampled_from([0, 33]))
def test_incumbent_slack_and_threshold(n: int, seed: int, share: float, enumerated: int) -> None:
    M = random_matrix(np.random.default_rng(seed), n, "normal")
    truth = true_maximum(M)
    oracle = BilinearOracle(n, enumerated=enumerated)
    result = oracle.prove(M, incumbent=share * truth, threshold=share * truth, slack=0.05)
    assert result.exact
    assert result.value == pytest.approx(max(1.0, share) * truth, rel=1e-12)
    assert truth <= result.upper <= result.value * 1.05 * (1 + 1e-8)
    check_atoms(result, M, share * truth)
    assert len(result.U) == 0 or share < 1.0
    assert len(oracle.prove(M, max_atoms=0).U) == 0


def test_atoms_near_the_maximum_are_collected() -> None:
    M = random_matrix(np.random.default_rng(5), 8, "integer")
    U = all_signs(8)
    truth = true_maximum(M)
    result = BilinearOracle(8).prove(M, threshold=0.995 * truth, max_atoms=1000)
    best = {tuple((u * u[0]).astype(int)) for u in U if np.abs(u @ M).sum() > 0.995 * truth}
    found = {tuple((u * u[0]).tolist()) for u in np.vstack([result.U, result.V])}
    assert best <= found


def test_starts_are_used_and_proofs_repeat() -> None:
    rng = np.random.default_rng(6)
    M = random_matrix(rng, 20, "normal")
    result = BilinearOracle(20).prove(M)
    found = BilinearOracle(20).search(M, starts=result.U[:1], n_starts=0, rng=rng)
    assert found.value == pytest.approx(result.value, rel=1e-13)
    again = BilinearOracle(20).prove(M)
    np.testing.assert_array_equal(again.U, result.U)
    assert again.upper == result.upper
    assert BilinearOracle(20).search(M, n_starts=0, rng=rng).value == 0.0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"slack": -1.0}, "slack"),
        ({"incumbent": np.nan}, "incumbent"),
        ({"max_atoms": -1}, "max_atoms"),
        ({"threshold": np.inf}, "threshold"),
        ({"shift": np.ones(2)}, "shift"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, word: str) -> None:
    with pytest.raises(qsdp.exceptions.InvalidInputError, match=word):
        BilinearOracle(3).prove(np.eye(3), **arguments)


def test_bad_matrices_are_refused() -> None:
    for M in (np.eye(2), np.ones((2, 3)), np.full((3, 3), np.nan)):
        with pytest.raises(qsdp.exceptions.InvalidInputError, match="M "):
            BilinearOracle(3).prove(M)
    with pytest.raises(qsdp.exceptions.InvalidInputError, match="starts"):
        BilinearOracle(3).search(np.eye(3), starts=np.ones((2, 2)), rng=np.random.default_rng(0))


def test_errors_of_the_poll_come_through() -> None:
    def poll() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), deadline.after(None, interrupted=poll):
        BilinearOracle(30).prove(_gaussian(30))
