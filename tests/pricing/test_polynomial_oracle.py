"""The oracle of polynomial networks against brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.pricing import PolynomialOracle

KINDS = ["normal", "integer", "rank one", "zero rows", "ill-scaled", "negative", "diagonal"]


def all_levels(d: int, levels: int, lifted: bool) -> np.ndarray:
    Q = np.array(list(itertools.product(range(1 - levels, levels, 2), repeat=d)), dtype=float)
    return np.hstack([Q, np.ones((len(Q), 1))]) if lifted else Q


def forms(K: np.ndarray, Q: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", Q @ K, Q)


def random_form(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    A = rng.standard_normal((n, n))
    if kind == "integer":
        A = rng.integers(-2, 3, size=(n, n)).astype(float)
    elif kind == "rank one":
        A = np.outer(A[0], A[0])
    elif kind == "zero rows":
        keep = rng.random(n) < 0.6
        A *= np.outer(keep, keep)
    elif kind == "ill-scaled":
        scale = 10.0 ** rng.uniform(-4, 4, n)
        A *= np.outer(scale, scale)
    elif kind == "negative":
        A = -A @ A.T
    elif kind == "diagonal":
        A = np.diag(A[0])
    return 0.5 * (A + A.T)


def check_atoms(result, K: np.ndarray, levels: int, lifted: bool, threshold: float = 0.0) -> None:
    d = len(K) - lifted
    assert result.U.dtype == result.sign.dtype == np.int8
    np.testing.assert_array_equal(result.U, result.V)
    Q = result.U.astype(float)
    assert np.all(np.abs(Q[:, :d]) <= levels - 1)
    assert np.all((result.U[:, :d] + levels - 1) % 2 == 0)
    assert np.all(Q[:, d:] == 1)
    tolerance = 1e-14 * np.abs(K).sum() * levels**2
    np.testing.assert_allclose(result.values, result.sign * forms(K, Q), rtol=1e-12, atol=tolerance)
    assert np.all(result.values > threshold)
    assert np.all(np.diff(result.values) <= 0.0)
    rows = {tuple(q) for q in result.U.tolist()}
    assert len(rows) == len(result.U)
    if not lifted:
        assert not rows & {tuple(-x for x in q) for q in rows if any(q)}


def check_trees(result, K: np.ndarray, levels: int, lifted: bool) -> float:
    """Check that the trees cover all vectors, and return the bound that they prove by definition."""
    n, top, best = len(K), levels - 1.0, 0.0
    assert len(result.trees) == 2
    for sign, tree in zip((1.0, -1.0), result.trees, strict=True):
        order = tree.order
        assert sorted(order.tolist()) == list(range(n))
        covered = 0.0
        for leaf in tree.leaves:
            k = len(leaf.signs)
            F, R = order[:k], order[k:]
            free_fixed = int(np.sum(n - lifted > F))
            covered += float(levels) ** -free_fixed
            s = leaf.signs.astype(float)
            assert np.all(s[n - lifted <= F] == 1)
            constant = sign * s @ K[np.ix_(F, F)] @ s
            if leaf.shift is None:
                Q = np.zeros((levels ** (n - lifted - free_fixed), n))
                last = R[n - lifted <= R]
                inner = R[n - lifted > R]
                Q[:, F], Q[:, last] = s, 1.0
                Q[:, inner] = all_levels(len(inner), levels, False)
                best = max(best, float((sign * forms(K, Q)).max()))
                continue
            assert leaf.shift.shape == (1 + n - k,)
            assert levels == 2 or np.all(leaf.shift[1:] >= 0.0)
            # In units of the largest level.
            unit = np.where(n - lifted > R, top, 1.0)
            c = sign * unit * (K[np.ix_(R, F)] @ s)
            B = np.block([[np.zeros((1, 1)), c[None, :]], [c[:, None], sign * np.outer(unit, unit) * K[np.ix_(R, R)]]])
            A = np.diag(leaf.shift) - B
            best = max(best, constant + leaf.shift.sum() + len(A) * max(0.0, -np.linalg.eigvalsh(A)[0]))
        assert covered == pytest.approx(1.0, rel=1e-12)
        words = [tuple(leaf.signs.tolist()) for leaf in tree.leaves]
        assert not any(a != b and b[: len(a)] == a for a in words for b in words)
    return best


cases = given(
    d=st.integers(1, 5),
    levels=st.integers(2, 4),
    lifted=st.booleans(),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10**6),
    enumerated=st.sampled_from([0, 10, 2**26]),
)


@settings(max_examples=200, deadline=None)
@cases
def test_proof_is_the_brute_force_maximum(
    d: int, levels: int, lifted: bool, kind: str, seed: int, enumerated: int
) -> None:
    K = random_form(np.random.default_rng(seed), d + lifted, kind)
    result = PolynomialOracle(d, levels, lifted, enumerated=enumerated).prove(K)
    truth = float(np.abs(forms(K, all_levels(d, levels, lifted))).max())
    rounding = 1e-12 * np.abs(K).sum() * levels**2
    assert result.exact
    assert result.value == pytest.approx(truth, rel=1e-12, abs=rounding)
    assert truth <= result.upper <= truth * (1 + 1e-8) + rounding
    check_atoms(result, K, levels, lifted)
    assert check_trees(result, K, levels, lifted) == pytest.approx(result.upper, rel=1e-8, abs=rounding)
    search = PolynomialOracle(d, levels, lifted).search(K, n_starts=20, rng=np.random.default_rng(seed))
    assert search.value <= result.upper
    assert (search.upper, search.exact, search.trees) == (np.inf, False, ())
    check_atoms(search, K, levels, lifted)


@settings(max_examples=100, deadline=None)
@cases
def test_interrupted_proof_holds(d: int, levels: int, lifted: bool, kind: str, seed: int, enumerated: int) -> None:
    K = random_form(np.random.default_rng(seed), d + lifted, kind)
    left = [seed % 12]

    def interrupted() -> bool:
        left[0] -= 1
        return left[0] < 0

    shift = np.abs(K).sum(axis=1) if seed % 2 else None
    result = PolynomialOracle(d, levels, lifted, enumerated=enumerated).prove(K, interrupted=interrupted, shift=shift)
    truth = float(np.abs(forms(K, all_levels(d, levels, lifted))).max())
    rounding = 1e-12 * np.abs(K).sum() * levels**2
    assert result.value - rounding <= truth <= result.upper
    assert result.upper <= np.abs(K).sum() * (levels - 1) ** 2 * (1 + 1e-9) + rounding
    assert check_trees(result, K, levels, lifted) == pytest.approx(result.upper, rel=1e-8, abs=rounding)


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize("d", [13, 14])
def test_blocks_of_the_enumeration(d: int, levels: int, lifted: bool) -> None:
    # More vectors than one pair of tables holds, by enumeration and by branching with enumerated leaves.
    d = d if levels == 2 else d - 4
    K = random_form(np.random.default_rng(d), d + lifted, "normal")
    truth = float(np.abs(forms(K, all_levels(d, levels, lifted))).max())
    for enumerated in (2**26, 300):
        result = PolynomialOracle(d, levels, lifted, enumerated=enumerated).prove(K)
        assert result.exact
        assert result.value == pytest.approx(truth, rel=1e-12)
        assert truth <= result.upper <= truth * (1 + 1e-8)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e290])
@pytest.mark.parametrize("enumerated", [0, 2**26])
def test_scaling(scale: float, enumerated: int) -> None:
    K = random_form(np.random.default_rng(1), 5, "normal")
    result = PolynomialOracle(4, 3, True, enumerated=enumerated).prove(scale * K)
    truth = scale * float(np.abs(forms(K, all_levels(4, 3, True))).max())
    assert result.value == pytest.approx(truth, rel=1e-12)
    assert truth <= result.upper <= truth * (1 + 1e-8)


@pytest.mark.parametrize("lifted", [False, True])
def test_forms_without_free_entries(lifted: bool) -> None:
    result = PolynomialOracle(3, 3, lifted).prove(np.zeros((3 + lifted, 3 + lifted)))
    assert (result.value, result.upper, result.exact, len(result.U)) == (0.0, 0.0, True, 0)
    K = np.zeros((4, 4))
    K[3, 3] = -2.0
    result = PolynomialOracle(3, 3, True).prove(K)
    assert (result.value, result.exact, result.sign.tolist()) == (2.0, True, [-1])
    assert check_trees(result, K, 3, True) == pytest.approx(2.0)
    assert PolynomialOracle(3, 3, True).search(K, rng=np.random.default_rng(0)).value == 2.0


def test_threshold_incumbent_and_atoms() -> None:
    K = random_form(np.random.default_rng(2), 6, "normal")
    oracle = PolynomialOracle(6, 3, False)
    values = np.abs(forms(K, all_levels(6, 3, False)))
    truth = float(values.max())
    result = oracle.prove(K, threshold=0.995 * truth, max_atoms=1000)
    assert len(result.U) == len({round(float(v), 9) for v in values if v > 0.995 * truth})
    check_atoms(result, K, 3, False, 0.995 * truth)
    above = oracle.prove(K, incumbent=1.1 * truth, threshold=1.1 * truth)
    assert above.value == pytest.approx(1.1 * truth)
    assert above.upper == pytest.approx(1.1 * truth)
    assert len(above.U) == 0
    found = oracle.search(K, starts=result.U[:1], n_starts=0, max_atoms=1, rng=np.random.default_rng(0))
    assert found.value == pytest.approx(truth)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(qsdp.exceptions.InvalidInputError, match="levels"):
        PolynomialOracle(3, 1, False)
    with pytest.raises(qsdp.exceptions.InvalidInputError, match="M "):
        PolynomialOracle(3, 2, True).prove(np.eye(3))
    with pytest.raises(qsdp.exceptions.InvalidInputError, match="shift"):
        PolynomialOracle(3, 2, False).prove(np.eye(3), shift=np.ones(4))
