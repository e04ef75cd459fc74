"""Polynomial networks: exact ways to and from bilinear ones, storage in memory and on disk."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import packed, read_archive, write_archive
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_networks import random_network, unnoticed_flips

from qsdp import (
    BilinearNetwork,
    PolynomialActivation,
    PolynomialNetwork,
    from_polynomial,
    load_network,
)
from qsdp.exceptions import InvalidInputError, StorageError

KIND = "polynomial-network"
FUZZ = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
seeds = st.integers(0, 2**32 - 1)

#: Every part that can be missing, and two signs of each.
COEFFICIENTS: list[tuple[float, float, float]] = [
    (1, 0, 0),
    (-0.7, 0, 0),
    (0, 1.5, 0),
    (0, -1, 0),
    (0, 0, 2),
    (0, 0, -3.5),
    (0.3, -2, 0),
    (-2, 0, 0.6),
    (0, 0.5, -1),
    (0.0937, 0.5, 0.4688),
    (-1, -2, 3),
]
outputs_of = st.sampled_from([None, 1, 3])


def polynomial(
    rng: np.random.Generator,
    m: int,
    d: int,
    activation: Any = (1, 0, 0),
    *,
    M: int = 1,
    equal_parity: bool = False,
    C: int | None = None,
    bias: bool = False,
    shared: bool = False,
) -> PolynomialNetwork:
    Q = 2 * rng.integers(0, M + 1, size=(m, d)) - M if equal_parity else rng.integers(-M, M + 1, size=(m, d))
    alpha = rng.standard_normal(m if C is None else (m, C))
    if shared:
        alpha = np.full(m, 0.1) if C is None else 0.1 * np.eye(C)[np.sort(rng.integers(0, C, size=m))]
    return PolynomialNetwork(Q, alpha, activation, rng.standard_normal(C or ()) if bias else 0.0)


def bilinear_looped(network: BilinearNetwork, X: np.ndarray) -> np.ndarray:
    """a (x.u)(x.v) + b/2 (t x.u + s x.v) + c s t, neuron by neuron, rounded once."""
    a, b, c = network.activation.coefficients if network.activation else (1.0, 0.0, 0.0)
    d = X.shape[1]
    outputs = []
    for alpha in network.alpha.reshape(len(network.U), -1).T.tolist():
        column = []
        for x in X.tolist():
            terms = []
            for u, v, weight in zip(network.U.tolist(), network.V.tolist(), alpha, strict=True):
                left = math.fsum(p * q for p, q in zip(x, u[:d], strict=True))
                right = math.fsum(p * q for p, q in zip(x, v[:d], strict=True))
                terms.append(weight * a * left * right)
                if b or c:
                    s, t = u[d], v[d]
                    terms += [weight * 0.5 * b * t * left, weight * 0.5 * b * s * right, weight * c * s * t]
            column.append(math.fsum(terms))
        outputs.append(column)
    return np.array(outputs[0]) if network.alpha.ndim == 1 else np.array(outputs).T


def polynomial_looped(network: PolynomialNetwork, X: np.ndarray) -> np.ndarray:
    a, b, c = network.activation.coefficients
    outputs = []
    for alpha, bias in zip(
        network.alpha.reshape(len(network.Q), -1).T.tolist(), np.atleast_1d(network.bias).tolist(), strict=True
    ):
        column = []
        for x in X.tolist():
            terms = [bias]
            for q, weight in zip(network.Q.tolist(), alpha, strict=True):
                t = math.fsum(p * r for p, r in zip(x, q, strict=True))
                terms += [weight * a * t * t, weight * b * t, weight * c]
            column.append(math.fsum(terms))
        outputs.append(column)
    return np.array(outputs[0]) if network.alpha.ndim == 1 else np.array(outputs).T


def size_of(network: BilinearNetwork | PolynomialNetwork, X: np.ndarray, largest: int) -> float:
    """Bound of the outputs and of all terms of which they are sums."""
    a, b, c = network.activation.coefficients if network.activation else (1.0, 0.0, 0.0)
    t = largest * np.abs(X).sum(axis=1).max()
    total = float(np.abs(network.alpha).sum())
    bias = float(np.abs(getattr(network, "bias", 0.0)).sum())
    return total * (abs(a) * t * t + abs(b) * t + abs(c)) + bias


# -- from bilinear to polynomial ---------------------------------------------------------------------


@pytest.mark.parametrize("C", [None, 3])
@pytest.mark.parametrize("levels", [2, 3, 128])
@pytest.mark.parametrize("activation", [None, (-0.7, 0, 0), (0, 1.5, 0), (-2, 0, 0.6), (-1, -2, 3)], ids=str)
def test_to_polynomial_is_exact(activation: Any, levels: int, C: int | None) -> None:
    for seed, (m, d) in enumerate([(1, 1), (7, 2), (20, 5)]):
        rng = np.random.default_rng(seed)
        network = random_network(rng, m, d, activation, levels=levels, C=C)
        X = np.vstack([rng.standard_normal((4, d)), np.zeros((1, d))])
        expected = bilinear_looped(network, X)
        atol = 1e-12 * size_of(network, X, levels - 1)
        np.testing.assert_allclose(network.predict(X), expected, rtol=0, atol=atol)
        for method in ("auto", "3m") if network.lifted else ("auto", "3m", "2m"):
            other = network.to_polynomial(method=method)
            assert other.n_inputs == d
            assert other.n_outputs == (C or 1)
            assert other.alpha.ndim == network.alpha.ndim
            assert other.n_neurons <= (3 if method == "3m" or network.lifted else 2) * m
            assert np.abs(other.Q.astype(int)).max() <= levels - 1
            assert other.predict(X).shape == expected.shape
            np.testing.assert_allclose(other.predict(X), expected, rtol=0, atol=4 * atol)
            np.testing.assert_allclose(polynomial_looped(other, X), expected, rtol=0, atol=4 * atol)
            np.testing.assert_array_equal(network.to_polynomial(method).predict(X), other.predict(X))


@FUZZ
@given(
    seed=seeds,
    m=st.integers(1, 15),
    d=st.integers(1, 6),
    levels=st.sampled_from([2, 3, 4, 7, 64, 127, 128]),
    activation=st.sampled_from([None, *COEFFICIENTS]),
    C=outputs_of,
)
def test_to_polynomial_on_random_networks(
    seed: int, m: int, d: int, levels: int, activation: Any, C: int | None
) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, m, d, activation, levels=levels, C=C)
    X = rng.standard_normal((3, d)) * 10.0 ** rng.integers(-2, 3)
    expected = bilinear_looped(network, X)
    for method in ("auto", "3m"):
        other = network.to_polynomial(method)
        atol = 4e-12 * size_of(network, X, levels - 1)
        np.testing.assert_allclose(other.predict(X), expected, rtol=0, atol=atol)
        # Merged: no neuron twice (up to the sign, where that does not matter), none constant, none useless.
        rows = {tuple(row) for row in other.Q.tolist()}
        assert len(rows) == other.n_neurons
        if other.activation.b == 0.0 and other.n_neurons > 1:
            assert not rows & {tuple(-value for value in row) for row in rows}
        if other.n_neurons > 1:
            assert all(any(row) for row in rows)
            assert np.all(np.any(other.alpha != 0, axis=tuple(range(1, other.alpha.ndim))))


@pytest.mark.parametrize("activation", [None, (1, 0, 0), (-2, 0, 0)], ids=str)
def test_2m_is_ternary_with_equal_magnitudes(activation: Any) -> None:
    rng = np.random.default_rng(0)
    network = random_network(rng, 8, 40, activation)
    for method in ("auto", "2m"):
        other = network.to_polynomial(method=method)
        assert set(np.unique(other.Q).tolist()) == {-1, 0, 1}
        assert other.n_neurons == 16
        assert sorted(np.abs(other.alpha).tolist()) == sorted(np.abs(np.tile(network.alpha, 2)).tolist())
        assert abs(other.alpha.sum()) < 1e-14
    assert network.to_polynomial(method="3m").n_neurons == 24
    shared = BilinearNetwork(network.U, network.V, np.full(8, 0.3), activation=activation)
    assert set(np.abs(shared.to_polynomial().alpha).tolist()) == {0.3}


def test_3m_has_the_right_factors() -> None:
    network = BilinearNetwork([[1, 1, 1, 1]], [[1, 1, -1, 1]], [4.0], activation=(1, 2, 3))
    other = network.to_polynomial()
    assert dict(zip(map(tuple, other.Q.tolist()), other.alpha.tolist(), strict=True)) == {
        (1, 1, 0): 8.0,
        (1, 1, 1): -2.0,
        (1, 1, -1): -2.0,
    }
    assert other.bias == 0.0
    assert other.activation == PolynomialActivation(1, 2, 3)
    # Another sign of a last entry turns its neuron and the weight around.
    flipped = BilinearNetwork([[-1, -1, -1, -1]], [[1, 1, -1, 1]], [-4.0], activation=(1, 2, 3)).to_polynomial()
    np.testing.assert_array_equal(flipped.Q, other.Q)
    np.testing.assert_array_equal(flipped.alpha, other.alpha)


@pytest.mark.parametrize("activation", [None, (1, 2, 3), (1, 0, 3), (0, 1, 0)], ids=str)
def test_duplicates_are_merged(activation: Any) -> None:
    rng = np.random.default_rng(1)
    one = random_network(rng, 3, 20, activation)
    many = BilinearNetwork(
        np.tile(one.U, (5, 1)), np.tile(one.V, (5, 1)), np.repeat([1.0, 2, 4, 8, 16], 3), activation=activation
    )
    other = many.to_polynomial()
    assert other.n_neurons == one.to_polynomial().n_neurons == (6 if activation is None else 9)
    X = rng.standard_normal((4, 20))
    np.testing.assert_allclose(other.predict(X), bilinear_looped(many, X), rtol=0, atol=1e-12 * size_of(many, X, 1))


@pytest.mark.parametrize("C", [None, 2])
@pytest.mark.parametrize("activation", [None, *COEFFICIENTS], ids=str)
def test_cancelling_neurons_vanish(activation: Any, C: int | None) -> None:
    rng = np.random.default_rng(0)
    one, rest = random_network(rng, 4, 9, activation, C=C), random_network(rng, 2, 9, activation, C=C)
    both = BilinearNetwork(
        np.vstack([one.U, rest.U, one.U]),
        np.vstack([one.V, rest.V, one.V]),
        np.concatenate([one.alpha, rest.alpha, -one.alpha]),
        activation=activation,
    )
    X = rng.standard_normal((4, 9))
    for method in ("auto", "3m"):
        other = both.to_polynomial(method)
        assert other.n_neurons == rest.to_polynomial(method).n_neurons
        np.testing.assert_allclose(other.predict(X), bilinear_looped(rest, X), rtol=0, atol=1e-12 * size_of(both, X, 1))


@pytest.mark.parametrize("C", [None, 2])
@pytest.mark.parametrize("activation", [a for a in COEFFICIENTS if a[2]], ids=str)
def test_an_all_cancelling_network_still_predicts_the_constant(tmp_path: Path, activation: Any, C: int | None) -> None:
    # sigma(t) + sigma(-t) less twice the neuron with opposite last entries is 4 c.
    q = [1, -1, 1]
    shares = np.array([1.0, 1.0, -2.0])
    alpha = shares if C is None else np.outer(shares, [1.0, -3.0])
    network = BilinearNetwork(
        [[*q, 1], [*(-v for v in q), 1], [*q, 1]],
        [[*q, 1], [*(-v for v in q), 1], [*q, -1]],
        alpha,
        activation=activation,
    )
    other = network.to_polynomial()
    constant = 4 * activation[2] * np.array(1.0 if C is None else [1.0, -3.0])
    if any(activation[:2]):
        assert other.n_neurons == 1
        np.testing.assert_allclose(other.bias, constant, rtol=1e-15)
    other.save(tmp_path / "n")
    for one in (other, load_network(tmp_path / "n"), from_polynomial(other)):
        values = one.predict(np.random.default_rng(0).standard_normal((4, 3)))
        np.testing.assert_allclose(values, np.broadcast_to(constant, values.shape), rtol=1e-13)


@pytest.mark.parametrize("C", [None, 2])
def test_zero_neurons_go_to_the_bias(C: int | None) -> None:
    alpha = np.array([2.0]) if C is None else np.array([[2.0, 5.0]])
    network = BilinearNetwork([[1, -1, 1]], [[-1, 1, 1]], alpha, activation=(1, 2, 3))
    other = network.to_polynomial()
    assert sorted(other.Q.tolist()) == [[-1, 1], [1, -1]]
    np.testing.assert_array_equal(other.bias, 2 * 3 * alpha[0])
    no_constant = BilinearNetwork([[1, -1, 1]], [[-1, 1, 1]], alpha, activation=(1, 2, 0)).to_polynomial()
    assert sorted(no_constant.Q.tolist()) == [[-1, 1], [1, -1]]
    assert not no_constant.bias.any()
    pure = BilinearNetwork([[1, -1]], [[-1, 1]], alpha).to_polynomial()
    assert pure.Q.tolist() == [[1, -1]]
    assert not pure.bias.any()


# -- from polynomial to bilinear ---------------------------------------------------------------------


@FUZZ
@given(
    seed=seeds,
    m=st.integers(1, 12),
    d=st.integers(1, 5),
    M=st.sampled_from([1, 2, 3, 6, 63, 126, 127]),
    equal_parity=st.booleans(),
    activation=st.sampled_from(COEFFICIENTS),
    C=outputs_of,
    bias=st.booleans(),
)
def test_from_polynomial_is_exact(
    seed: int, m: int, d: int, M: int, equal_parity: bool, activation: Any, C: int | None, bias: bool
) -> None:
    rng = np.random.default_rng(seed)
    one = polynomial(
        rng,
        m,
        d,
        activation,
        M=M if equal_parity else min(M, 63),
        equal_parity=equal_parity,
        C=C,
        bias=bias and activation[2],
    )
    X = np.vstack([rng.standard_normal((3, d)), np.zeros((1, d))])
    expected = polynomial_looped(one, X)
    other = from_polynomial(one)
    factor = 1 if one.equal_parity else 2
    assert other.levels == factor * one.largest_weight + 1
    assert other.n_neurons == m + 3 * bool(np.any(one.bias))
    assert other.n_inputs == d
    assert other.alpha.ndim == one.alpha.ndim
    np.testing.assert_array_equal(other.U[:m, :d], factor * one.Q.astype(int))
    np.testing.assert_array_equal(other.V[:m], other.U[:m])
    atol = 1e-12 * (size_of(one, X, one.largest_weight) + size_of(other, X, one.largest_weight))
    np.testing.assert_allclose(one.predict(X), expected, rtol=0, atol=atol)
    np.testing.assert_allclose(other.predict(X), expected, rtol=0, atol=atol)
    np.testing.assert_allclose(bilinear_looped(other, X), expected, rtol=0, atol=atol)


def test_equal_parity_keeps_values_and_both_are_doubled() -> None:
    odd = from_polynomial(PolynomialNetwork([[3, -1], [1, 1]], [1.0, 2.0], activation=(1, 2, 3)))
    assert (odd.levels, odd.activation) == (4, PolynomialActivation(1, 2, 3))
    assert odd.U.tolist() == odd.V.tolist() == [[3, -1, 1], [1, 1, 1]]
    even = from_polynomial(PolynomialNetwork([[2, 0]], [1.0], activation=(1, 0, 0)))
    assert (even.levels, even.U.tolist(), even.lifted) == (3, [[2, 0]], False)
    both = from_polynomial(PolynomialNetwork([[2, -1]], [1.0], activation=(1, 2, 3)))
    assert (both.levels, both.activation) == (5, PolynomialActivation(0.25, 1.0, 3))
    assert both.U.tolist() == [[4, -2, 1]]


@pytest.mark.parametrize("activation", [a for a in COEFFICIENTS if not a[2]], ids=str)
@pytest.mark.parametrize("bias", [1.0, 1e-300, [0.0, 2.0]], ids=str)
def test_a_bias_needs_a_constant_part(activation: Any, bias: Any) -> None:
    alpha = np.ones(2) if np.ndim(bias) == 0 else np.ones((2, 2))
    network = PolynomialNetwork([[1, 1], [1, -1]], alpha, activation, bias)
    with pytest.raises(InvalidInputError, match="bias must be 0"):
        from_polynomial(network)


@FUZZ
@given(
    seed=seeds,
    m=st.integers(1, 10),
    d=st.integers(1, 5),
    levels=st.sampled_from([2, 3, 4, 5, 64]),
    activation=st.sampled_from([None, *COEFFICIENTS]),
    C=outputs_of,
    method=st.sampled_from(["auto", "3m"]),
)
def test_there_and_back(seed: int, m: int, d: int, levels: int, activation: Any, C: int | None, method: str) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, m, d, activation, levels=levels, C=C)
    back = from_polynomial(network.to_polynomial(method=method))
    X = rng.standard_normal((4, d))
    atol = 1e-12 * (4 * size_of(network, X, levels - 1) + size_of(back, X, back.levels - 1))
    np.testing.assert_allclose(back.predict(X), bilinear_looped(network, X), rtol=0, atol=atol)
    again = back.to_polynomial(method)
    np.testing.assert_allclose(again.predict(X), bilinear_looped(network, X), rtol=0, atol=8 * atol)


# -- the network itself ------------------------------------------------------------------------------


@FUZZ
@given(
    seed=seeds,
    m=st.integers(1, 12),
    d=st.integers(1, 6),
    M=st.sampled_from([1, 2, 5, 127]),
    activation=st.sampled_from(COEFFICIENTS),
    C=outputs_of,
    bias=st.booleans(),
)
def test_predictions_against_loops(
    seed: int, m: int, d: int, M: int, activation: Any, C: int | None, bias: bool
) -> None:
    rng = np.random.default_rng(seed)
    network = polynomial(rng, m, d, activation, M=M, C=C, bias=bias)
    X = rng.standard_normal((4, d))
    values = network.predict(X)
    assert values.shape == ((4,) if C is None else (4, C))
    atol = 1e-12 * size_of(network, X, M)
    np.testing.assert_allclose(values, polynomial_looped(network, X), rtol=0, atol=atol)
    np.testing.assert_array_equal(network.to_quadratic_form().predict(X), values)


@pytest.mark.parametrize(
    ("Q", "largest", "equal_parity", "n_values", "bits"),
    [
        ([[1, -1]], 1, True, 2, 1),
        ([[1, 0]], 1, False, 3, 2),
        ([[0, 0]], 1, False, 3, 2),
        ([[2, 0]], 2, True, 3, 2),
        ([[2, 1]], 2, False, 5, 3),
        ([[3, -1]], 3, True, 4, 2),
        ([[-3, 0]], 3, False, 7, 3),
        ([[4, 0]], 4, True, 5, 3),
        ([[-4, 1]], 4, False, 9, 4),
        ([[7, 1]], 7, True, 8, 3),
        ([[127, 1]], 127, True, 128, 7),
        ([[-127, 0]], 127, False, 255, 8),
        ([[126, 0]], 126, True, 127, 7),
    ],
    ids=str,
)
def test_bits(Q: Any, largest: int, equal_parity: bool, n_values: int, bits: int) -> None:
    network = PolynomialNetwork(Q, [0.5])
    assert (network.largest_weight, network.equal_parity, network.n_values) == (largest, equal_parity, n_values)
    assert network.n_bits == 2 * bits + 32
    assert PolynomialNetwork(Q * 3, [0.5] * 3).n_bits == 6 * bits + 32
    assert PolynomialNetwork(Q * 3, [0.5, 0.5, 0.3]).n_bits == 6 * bits + 3 * 32
    # 0.5, 0.5 and 0.25 are 2, 2 and 1 times a scale: three bits with the sign.
    assert PolynomialNetwork(Q * 3, [0.5, 0.5, 0.25]).n_bits == 6 * bits + 3 * 3 + 32
    assert PolynomialNetwork(Q * 3, [0.5] * 3, bias=1.0).n_bits == 6 * bits + 2 * 32
    vector = PolynomialNetwork(Q * 3, np.arange(1.0, 7).reshape(3, 2), bias=[1.0, 0.0])
    # Integers up to 5, and a scale for each output.
    assert vector.n_bits == 6 * bits + 6 * 4 + (2 + 1) * 32
    assert (vector.n_neurons, vector.n_inputs, vector.n_outputs, network.n_outputs) == (3, 2, 2, 1)


BAD_Q: dict[str, Any] = {
    "half": [[1, 0.5]],
    "128": [[128, 0]],
    "int8 -128": np.array([[-128, 0]], dtype=np.int8),
    "nan": [[np.nan, 0]],
    "text": [["1", "0"]],
    "three-dimensional": [[[1, 0]]],
    "ragged": [[1, 0], [1]],
    "no neurons": np.zeros((0, 2)),
    "None": None,
}


@pytest.mark.parametrize("name", BAD_Q)
def test_bad_weights(name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"\bQ\b"):
        PolynomialNetwork(BAD_Q[name], [1.0])


@pytest.mark.parametrize(
    "alpha",
    [
        [1.0],
        [1.0] * 3,
        [],
        [[1.0, 1.0]],
        [1.0, np.nan],
        [np.inf, 1.0],
        ["a", "b"],
        1.0,
        None,
        [1j, 1.0],
        np.ones((2, 1, 1)),
    ],
    ids=lambda a: f"{a!r:.20}",
)
def test_bad_alpha(alpha: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"\balpha\b"):
        PolynomialNetwork([[1, 0], [0, 1]], alpha)


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize(
    "bias",
    [[1.0], [1.0, 2.0], np.nan, np.inf, None, "a", "1", 1j, np.array(1j), {}, [[1.0], [1.0, 2.0]]],
    ids=lambda b: f"{b!r:.20}",
)
def test_bad_bias(bias: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"\bbias\b"):
        PolynomialNetwork([[1, 0]], [1.0], bias=bias)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_arrays_are_plain_int8_copies_and_read_only() -> None:
    Q, alpha, bias = np.array([[1, 0]], dtype=np.int8), np.array([[2.0, 1.0]]), np.array([1.0, 2.0])
    network = PolynomialNetwork(Q, alpha, bias=bias)
    Q[:], alpha[:], bias[:] = 5, 5, 5
    assert network.Q.dtype == np.int8
    assert (network.Q.tolist(), network.alpha.tolist(), network.bias.tolist()) == ([[1, 0]], [[2, 1]], [1, 2])
    for name in ("Q", "alpha", "bias"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(network, name)[...] = 0
    masked = np.ma.array([[1, -1]], dtype=np.int8, mask=[[True, False]])
    for unusual in (masked, np.matrix([[1, -1]], dtype=np.int8)):
        assert type(PolynomialNetwork(unusual, [1.0]).Q) is np.ndarray


@pytest.mark.parametrize("through", [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))], ids=["copy", "pickle"])
@pytest.mark.parametrize("C", [None, 2])
def test_copies_are_equal_and_read_only(through: Any, C: int | None) -> None:
    network = polynomial(np.random.default_rng(0), 4, 3, (1, 2, 3), M=3, C=C, bias=True)
    X = np.random.default_rng(1).standard_normal((4, 3))
    for _ in range(2):  # before and after the form is cached
        other = through(network)
        np.testing.assert_array_equal(other.predict(X), network.predict(X))
        assert other.activation == network.activation
        for name in ("Q", "alpha", "bias"):
            np.testing.assert_array_equal(getattr(other, name), getattr(network, name))
            assert not getattr(other, name).flags.writeable
        assert not other.to_quadratic_form().S.flags.writeable


# -- files -------------------------------------------------------------------------------------------


def assert_same(one: PolynomialNetwork, other: PolynomialNetwork) -> None:
    assert type(one) is type(other) is PolynomialNetwork
    assert one.activation == other.activation
    for name in ("Q", "alpha", "bias"):
        first, second = getattr(one, name), getattr(other, name)
        assert first.dtype == second.dtype
        assert first.shape == second.shape
        assert first.tobytes() == second.tobytes()


@FUZZ
@given(
    seed=seeds,
    m=st.integers(1, 30),
    d=st.integers(1, 20),
    M=st.sampled_from([1, 2, 3, 4, 7, 8, 63, 126, 127]),
    equal_parity=st.booleans(),
    activation=st.sampled_from(COEFFICIENTS),
    C=outputs_of,
    bias=st.booleans(),
    shared=st.booleans(),
)
def test_round_trip(
    tmp_path: Path,
    seed: int,
    m: int,
    d: int,
    M: int,
    equal_parity: bool,
    activation: Any,
    C: int | None,
    bias: bool,
    shared: bool,
) -> None:
    rng = np.random.default_rng(seed)
    network = polynomial(rng, m, d, activation, M=M, equal_parity=equal_parity, C=C, bias=bias, shared=shared)
    path = tmp_path / "n"
    network.save(path)
    loaded = load_network(path)
    assert_same(loaded, network)
    assert loaded.n_bits == network.n_bits
    assert not loaded.Q.flags.writeable
    X = rng.standard_normal((3, d))
    np.testing.assert_array_equal(loaded.predict(X), network.predict(X))
    blob = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == blob
    kind, header, arrays = read_archive(path)
    assert kind == KIND
    assert set(header) == {"n_neurons", "n_inputs", "largest_weight", "equal_parity", "activation"}
    width = (network.n_values - 1).bit_length()
    assert arrays["Q"].nbytes == m * -(-d * width // 8)
    assert len(blob) <= sum(array.nbytes for array in arrays.values()) + 800


def test_load_network_dispatches_by_kind(tmp_path: Path) -> None:
    one = random_network(np.random.default_rng(0), 3, 4, (1, 2, 3), levels=3)
    one.save(tmp_path / "one")
    one.to_polynomial().save(tmp_path / "other")
    assert type(load_network(tmp_path / "one")) is BilinearNetwork
    assert_same(load_network(tmp_path / "other"), one.to_polynomial())
    write_archive(tmp_path / "third", "relaxation", {}, {"x": np.zeros(1)})
    kinds = "'bilinear-network' or 'polynomial-network'"
    with pytest.raises(StorageError, match=f"holds a 'relaxation'; expected a {kinds}"):
        load_network(tmp_path / "third")


NETWORK = PolynomialNetwork([[2, -1, 0], [1, 1, -2]], [0.5, -1.5], (1, 2, 3), 0.25)
HEADER: dict[str, Any] = {
    "n_neurons": 2,
    "n_inputs": 3,
    "largest_weight": 2,
    "equal_parity": False,
    "activation": [1.0, 2.0, 3.0],
}
ARRAYS: dict[str, Any] = {
    "Q": packed(NETWORK.Q + 2, 3),
    "alpha": np.array([0.5, -1.5]),
    "bias": np.array([0.25]),
}


def load(tmp_path: Path, header: dict[str, Any], arrays: dict[str, Any], kind: str = KIND) -> Any:
    write_archive(tmp_path / "n", kind, header, arrays)
    return load_network(tmp_path / "n")


def test_the_hostile_files_would_load_without_their_fault(tmp_path: Path) -> None:
    assert_same(load(tmp_path, HEADER, ARRAYS), NETWORK)
    NETWORK.save(tmp_path / "own")
    assert (tmp_path / "own").read_bytes() == (tmp_path / "n").read_bytes()


def test_flipped_bits_of_every_byte_are_noticed(tmp_path: Path) -> None:
    network = polynomial(np.random.default_rng(0), 3, 3, (1, 2, 3), M=2, C=2, bias=True)
    assert not unnoticed_flips(network, tmp_path / "n", assert_same)


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        *(
            ({name: value}, {})
            for name in ("n_neurons", "n_inputs", "largest_weight")
            for value in (0, 10**20, 2.0, "2")
        ),
        *(({"largest_weight": value}, {}) for value in (8, 128)),
        *(({"equal_parity": value}, {}) for value in (True, 0, None)),
        *(({"activation": value}, {}) for value in ([0, 0, 0], [1.0, 2.0], "relu_like", None)),
        ({"levels": 2}, {}),
        # 5 values in 3 bits: 101 means nothing.
        ({}, {"Q": packed(np.array([[5, 0, 0]] * 2), 3)}),
        *(({}, {"Q": value}) for value in (NETWORK.Q, ARRAYS["Q"][:1], ARRAYS["Q"][:, :1], ARRAYS["Q"] | 1)),
        *(({}, {"alpha": value}) for value in (np.array([np.nan, 1.0]), np.ones(2, np.float32), np.ones(3))),
        *(({}, {"bias": value}) for value in (np.array([np.inf]), np.ones(2), np.ones((1, 1)))),
        ({}, {"payload": np.zeros(2)}),
    ],
    ids=str,
)
def test_hostile_contents(tmp_path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    with pytest.raises(StorageError, match="not a valid network"):
        load(tmp_path, HEADER | header, {**ARRAYS, **arrays})


def test_files_of_one_kind_under_the_name_of_the_other(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not a valid network"):
        load(tmp_path, HEADER, ARRAYS, kind="bilinear-network")
