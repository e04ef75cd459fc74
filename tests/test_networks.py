"""Networks in memory: predictions against plain loops, storage counted in bits, strict weights."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import BilinearNetwork
from qsdp.exceptions import InvalidInputError

FUZZ = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def make(rng: np.random.Generator, m: int, d: int, *, shared: bool = False) -> BilinearNetwork:
    U, V = rng.integers(0, 2, size=(2, m, d)) * 2 - 1
    alpha = np.full(m, rng.standard_normal()) if shared else rng.standard_normal(m)
    return BilinearNetwork(U, V, alpha)


def looped(network: BilinearNetwork, X: np.ndarray) -> list[float]:
    """Sum over neurons of plain Python floats, rounded once."""
    outputs = []
    for row in X.tolist():
        terms = []
        for u, v, alpha in zip(network.U.tolist(), network.V.tolist(), network.alpha.tolist(), strict=True):
            left = math.fsum(a * b for a, b in zip(row, u, strict=True))
            right = math.fsum(a * b for a, b in zip(row, v, strict=True))
            terms.append(alpha * left * right)
        outputs.append(math.fsum(terms))
    return outputs


# -- predictions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("m", "d"), [(1, 1), (1, 9), (2, 30), (5, 5), (400, 3), (1000, 1), (37, 17)])
def test_predictions_against_loops(m: int, d: int, shared: bool) -> None:
    rng = np.random.default_rng(m * 1000 + d)
    network = make(rng, m, d, shared=shared)
    X = rng.standard_normal((6, d))
    size = np.abs(network.alpha).sum() * np.abs(X).sum(axis=1).max() ** 2
    np.testing.assert_allclose(network.predict(X), looped(network, X), rtol=0, atol=1e-12 * size)


@FUZZ
@given(seed=seeds, m=st.integers(1, 40), d=st.integers(1, 12))
def test_quadratic_form(seed: int, m: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    network, X = make(rng, m, d), rng.standard_normal((4, d))
    S = network.quadratic_form
    assert S.shape == (d, d)
    np.testing.assert_array_equal(S, S.T)
    outer = sum(
        weight * np.outer(u.astype(float), v.astype(float))
        for u, v, weight in zip(network.U, network.V, network.alpha, strict=True)
    )
    np.testing.assert_allclose(S, 0.5 * (outer + outer.T), rtol=0, atol=1e-13 * np.abs(network.alpha).sum())
    for x, output in zip(X, network.predict(X), strict=True):
        size = np.abs(x).sum() ** 2 * np.abs(network.alpha).sum()
        assert abs(float(x @ S @ x) - output) <= 1e-12 * size
    with pytest.raises(ValueError, match="read-only"):
        S[0, 0] = 1.0


def test_the_quadratic_form_of_many_neurons_is_summed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2 ** 22 // D neurons a part: this network needs three parts. All alphas are integers, so sums are exact.
    rng = np.random.default_rng(0)
    d = 2048
    m = 2 * (2**22 // d) + 5
    network = BilinearNetwork(
        (rng.integers(0, 2, size=(m, d), dtype=np.int8) * 2 - 1).astype(np.int8),
        (rng.integers(0, 2, size=(m, d), dtype=np.int8) * 2 - 1).astype(np.int8),
        rng.integers(-3, 4, size=m),
    )
    x = rng.integers(-2, 3, size=(2, d)).astype(np.float64)
    expected = [(((network.U @ row) * (network.V @ row)) @ network.alpha) for row in x]
    np.testing.assert_array_equal(network.predict(x), expected)


def test_int8_products_do_not_overflow() -> None:
    d = 300  # beyond the range of int8 and of its square
    ones = np.ones((2, d), dtype=np.int8)
    network = BilinearNetwork(ones, ones, [1.0, 1.0])
    assert network.predict(np.ones((1, d))).tolist() == [2.0 * d * d]


@FUZZ
@given(seed=seeds, m=st.integers(1, 20), d=st.integers(1, 8))
def test_symmetries(seed: int, m: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    network, X = make(rng, m, d), rng.standard_normal((4, d))
    np.testing.assert_array_equal(network.predict(-X), network.predict(X))
    np.testing.assert_array_equal(network.predict(4.0 * X), 16.0 * network.predict(X))
    swapped = BilinearNetwork(network.V, network.U, network.alpha)
    flipped = BilinearNetwork(-network.U, network.V, -network.alpha)
    atol = 1e-12 * np.abs(network.alpha).sum() * np.abs(X).sum(axis=1).max() ** 2
    np.testing.assert_allclose(swapped.predict(X), network.predict(X), rtol=0, atol=atol)
    np.testing.assert_allclose(flipped.predict(X), network.predict(X), rtol=0, atol=atol)


@pytest.mark.parametrize("columns", [1, 2, 4])
def test_wrong_number_of_columns(columns: int) -> None:
    network = make(np.random.default_rng(0), 4, 3)
    with pytest.raises(InvalidInputError, match=rf"X must have 3 columns; got shape \(5, {columns}\)"):
        network.predict(np.ones((5, columns)))


@pytest.mark.parametrize("X", [np.ones(3), [[np.nan, 1, 1]], [["a", "b", "c"]], np.ones((1, 3)) * 1j, None])
def test_bad_data(X: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"\bX\b"):
        make(np.random.default_rng(0), 4, 3).predict(X)


def test_frames_and_lists() -> None:
    network, X = make(np.random.default_rng(0), 4, 3), np.random.default_rng(1).standard_normal((5, 3))
    expected = network.predict(X)
    assert expected.dtype == np.float64
    np.testing.assert_array_equal(network.predict(X.tolist()), expected)
    np.testing.assert_array_equal(network.predict(pd.DataFrame(X, columns=list("abc"))), expected)
    np.testing.assert_array_equal(network.predict(np.asfortranarray(X)), expected)


# -- storage -----------------------------------------------------------------------------------------


@FUZZ
@given(seed=seeds, m=st.integers(1, 50), d=st.integers(1, 30))
def test_bits(seed: int, m: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    assert make(rng, m, d, shared=True).n_bits == 2 * m * d + 64
    assert make(rng, m, d).n_bits == 2 * m * d + 64 * m
    network = make(rng, m, d)
    assert (network.n_neurons, network.n_inputs) == (m, d)


def test_alpha_is_shared_only_when_all_are_equal() -> None:
    signs = np.ones((3, 2))
    assert BilinearNetwork(signs, signs, [0.1, 0.1, 0.1]).shared_alpha
    assert not BilinearNetwork(signs, signs, [0.1, 0.1, np.nextafter(0.1, 1)]).shared_alpha
    assert not BilinearNetwork(signs, signs, [0.1, -0.1, 0.1]).shared_alpha


def test_repr() -> None:
    shared = BilinearNetwork([[1, 1, -1]], [[1, -1, 1]], [0.25])
    assert repr(shared) == "BilinearNetwork(n_neurons=1, n_inputs=3, n_bits=70, shared alpha=0.25)"
    free = BilinearNetwork([[1], [1]], [[1], [-1]], [0.25, 0.5])
    assert repr(free) == "BilinearNetwork(n_neurons=2, n_inputs=1, n_bits=132, free alpha)"


def test_weights_are_int8_and_read_only() -> None:
    U, V, alpha = np.array([[1.0, -1.0]]), np.array([[1, 1]], dtype=np.int8), np.array([2.0])
    network = BilinearNetwork(U, V, alpha)
    for weights in (network.U, network.V):
        assert weights.dtype == np.int8
        with pytest.raises(ValueError, match="read-only"):
            weights[0, 0] = -1
    with pytest.raises(ValueError, match="read-only"):
        network.alpha[0] = 1.0
    U[:], V[:], alpha[:] = -1, -1, 5.0
    assert network.U.tolist() == [[1, -1]]
    assert network.V.tolist() == [[1, 1]]
    assert network.alpha.tolist() == [2.0]
    with pytest.raises(AttributeError):
        network.alpha = alpha  # type: ignore[misc]


def test_alpha_of_a_series_is_copied() -> None:
    buffer = np.array([1.0, 2.0])
    network = BilinearNetwork([[1], [1]], [[1], [-1]], pd.Series(buffer, copy=False))
    buffer[:] = 9.0
    assert network.alpha.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("through", [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))], ids=["copy", "pickle"])
def test_copies_are_equal_and_read_only_as_well(through: Any) -> None:
    network = make(np.random.default_rng(0), 5, 3)
    other = through(network)
    X = np.random.default_rng(1).standard_normal((4, 3))
    np.testing.assert_array_equal(other.predict(X), network.predict(X))
    for name in ("U", "V", "alpha"):
        np.testing.assert_array_equal(getattr(other, name), getattr(network, name))
        assert not getattr(other, name).flags.writeable


GOOD = np.array([[1, -1], [-1, -1]])

BAD_SIGNS: dict[str, Any] = {
    "zero": np.array([[1, 0], [1, 1]]),
    "int8 zero": np.array([[1, 0], [1, 1]], dtype=np.int8),
    "two": np.array([[1, 2], [1, 1]], dtype=np.int8),
    "-128": np.array([[1, -128], [1, 1]], dtype=np.int8),
    "uint8 minus one": np.array([[1, 255], [1, 1]], dtype=np.uint8),
    "nan": [[1, np.nan], [1, 1]],
    "inf": [[1, np.inf], [1, 1]],
    "half": [[1, 0.5], [1, 1]],
    "nearly one": [[1, 1 - 1e-15], [1, 1]],
    "complex": GOOD + 0j,
    "text": [["+", "-"], ["+", "+"]],
    "one-dimensional": [1, -1],
    "three-dimensional": GOOD[None],
    "ragged": [[1, -1], [1]],
    "no neurons": np.zeros((0, 2)),
    "no neurons, int8": np.zeros((0, 2), dtype=np.int8),
    "no inputs, int8": np.zeros((2, 0), dtype=np.int8),
    "None": None,
}


@pytest.mark.parametrize("signs", BAD_SIGNS.values(), ids=BAD_SIGNS.keys())
def test_bad_signs(signs: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"\bU\b"):
        BilinearNetwork(signs, GOOD, [1.0, 1.0])
    with pytest.raises(InvalidInputError, match=r"\bV\b"):
        BilinearNetwork(GOOD, signs, [1.0, 1.0])


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (2, 1), (1, 2)])
def test_shapes_that_do_not_fit(shape: tuple[int, int]) -> None:
    with pytest.raises(
        InvalidInputError, match=rf"V must have the shape of U, \(2, 2\); got \({shape[0]}, {shape[1]}\)"
    ):
        BilinearNetwork(GOOD, np.ones(shape), [1.0, 1.0])


@pytest.mark.parametrize(
    "alpha",
    [
        [1.0],
        [1.0, 1.0, 1.0],
        [],
        [[1.0, 1.0]],
        [1.0, np.nan],
        [np.inf, 1.0],
        ["a", "b"],
        1.0,
        None,
        [1j, 1.0],
    ],
    ids=repr,
)
def test_bad_alpha(alpha: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"\balpha\b"):
        BilinearNetwork(GOOD, GOOD, alpha)


def test_the_wrong_entry_is_shown() -> None:
    with pytest.raises(InvalidInputError, match=r"entries -1 and \+1 only; found 3$"):
        BilinearNetwork([[1, 3]], [[1, 1]], [1.0])
