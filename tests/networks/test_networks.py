"""Networks in memory: predictions against plain loops, storage counted in bits, strict weights."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import read_archive
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network

from qsdp import BilinearNetwork, Blocks, TrainingProblem, load_network
from qsdp.exceptions import InvalidInputError, QSDPError

FUZZ = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
level_counts = st.sampled_from([2, 3, 4, 5, 6, 17, 127, 128])

#: Lifted ones are those with a linear or constant part.
COEFFICIENTS: list[tuple[float, float, float] | None] = [
    None,
    (1, 0, 0),
    (-0.5, 0, 0),
    (0, 2, 0),
    (0, 0, -3),
    (1, 2, 0),
    (2, 0, 1),
    (0, 1, 1),
    (0.0937, 0.5, 0.4688),
]
LIFTED = [one for one in COEFFICIENTS if one and any(one[1:])]


def looped(network: BilinearNetwork, X: np.ndarray) -> list[float]:
    """Sum over neurons of plain Python floats, rounded once; for scalar outputs."""
    a, b, c = network.activation.coefficients if network.activation else (1.0, 0.0, 0.0)
    d = X.shape[1]
    outputs = []
    for row in X.tolist():
        terms = []
        for u, v, alpha in zip(network.U.tolist(), network.V.tolist(), network.alpha.tolist(), strict=True):
            left = math.fsum(p * q for p, q in zip(row, u[:d], strict=True))
            right = math.fsum(p * q for p, q in zip(row, v[:d], strict=True))
            terms.append(alpha * a * left * right)
            if b or c:
                s, t = u[d], v[d]
                terms += [alpha * 0.5 * b * t * left, alpha * 0.5 * b * s * right, alpha * c * s * t]
        outputs.append(math.fsum(terms))
    return outputs


def looped_outputs(network: BilinearNetwork, X: np.ndarray) -> np.ndarray:
    if network.alpha.ndim == 1:
        return np.array(looped(network, X))
    columns = [
        BilinearNetwork(network.U, network.V, a, levels=network.levels, activation=network.activation)
        for a in network.alpha.T
    ]
    return np.array([looped(column, X) for column in columns]).T


def size_of(network: BilinearNetwork, X: np.ndarray) -> float:
    """Bound of the outputs and of all terms of which they are sums."""
    a, b, c = network.activation.coefficients if network.activation else (1.0, 0.0, 0.0)
    t = (network.levels - 1) * np.abs(X).sum(axis=1).max()
    return float(np.abs(network.alpha).sum() * (abs(a) * t * t + abs(b) * t + abs(c)))


# -- predictions -------------------------------------------------------------------------------------


@FUZZ
@given(
    seed=seeds,
    m=st.integers(1, 20),
    d=st.integers(1, 6),
    levels=level_counts,
    activation=st.sampled_from(COEFFICIENTS),
    C=st.sampled_from([None, 1, 3]),
    shared=st.booleans(),
)
def test_predictions_of_levels_activations_and_vectors_against_loops(
    seed: int, m: int, d: int, levels: int, activation: Any, C: int | None, shared: bool
) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, m, d, levels=levels, activation=activation, C=C, shared=shared)
    assert (network.n_inputs, network.n_outputs, network.lifted) == (d, C or 1, activation in LIFTED)
    X = np.vstack([rng.standard_normal((4, d)), np.zeros((1, d))])
    values = network.predict(X)
    assert values.shape == ((5,) if C is None else (5, C))
    atol = 1e-12 * size_of(network, X)
    np.testing.assert_allclose(values, looped_outputs(network, X), rtol=0, atol=atol)
    form = network.to_quadratic_form()
    assert (form.n_inputs, form.output_shape) == (d, () if C is None else (C,))
    np.testing.assert_allclose(form.predict(X), looped_outputs(network, X), rtol=0, atol=atol)
    S = network.quadratic_form
    D = d + network.lifted
    assert S.shape == ((D, D) if C is None else (C, D, D))
    np.testing.assert_array_equal(S, np.swapaxes(S, -1, -2))
    with pytest.raises(ValueError, match="read-only"):
        S[...] = 1.0


@pytest.mark.parametrize("activation", COEFFICIENTS, ids=str)
@pytest.mark.parametrize("levels", [2, 4])
def test_objective_against_loops(levels: int, activation: Any) -> None:
    rng = np.random.default_rng(levels)
    X = rng.standard_normal((5, 3))
    for C in (None, 2):
        y = rng.standard_normal(5 if C is None else (5, C))
        network = random_network(rng, 4, 3, levels=levels, activation=activation, C=C)
        problem = TrainingProblem(X, y, beta=0.3, activation=activation, levels=levels)
        residuals = (looped_outputs(network, X) - y).ravel().tolist()
        D = 3 * (levels - 1) + (activation in LIFTED)
        penalty = 0.3 * D * math.fsum(abs(w) for w in network.alpha.ravel().tolist())
        np.testing.assert_allclose(
            network.objective(problem), math.fsum(r * r for r in residuals) + penalty, rtol=1e-12
        )


@FUZZ
@given(seed=seeds, m=st.integers(1, 40), d=st.integers(1, 12))
def test_quadratic_form(seed: int, m: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    network, X = random_network(rng, m, d), rng.standard_normal((4, d))
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
    largest = BilinearNetwork(127 * ones, -127 * ones, [1.0, 1.0], levels=128)
    assert largest.predict(np.ones((1, d))).tolist() == [-2.0 * (127 * d) ** 2]


@FUZZ
@given(seed=seeds, m=st.integers(1, 20), d=st.integers(1, 8))
def test_symmetries(seed: int, m: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    network, X = random_network(rng, m, d), rng.standard_normal((4, d))
    np.testing.assert_array_equal(network.predict(-X), network.predict(X))
    np.testing.assert_array_equal(network.predict(4.0 * X), 16.0 * network.predict(X))
    swapped = BilinearNetwork(network.V, network.U, network.alpha)
    flipped = BilinearNetwork(-network.U, network.V, -network.alpha)
    atol = 1e-12 * np.abs(network.alpha).sum() * np.abs(X).sum(axis=1).max() ** 2
    np.testing.assert_allclose(swapped.predict(X), network.predict(X), rtol=0, atol=atol)
    np.testing.assert_allclose(flipped.predict(X), network.predict(X), rtol=0, atol=atol)


@pytest.mark.parametrize("X", [np.ones(3), [[np.nan, 1, 1]], [["a", "b", "c"]], np.ones((1, 3)) * 1j, None])
def test_bad_data(X: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"\bX\b"):
        random_network(np.random.default_rng(0), 4, 3).predict(X)


# -- storage -----------------------------------------------------------------------------------------


@FUZZ
@given(
    seed=seeds,
    m=st.integers(2, 30),
    d=st.integers(1, 10),
    levels=st.integers(2, 128),
    activation=st.sampled_from(COEFFICIENTS),
)
def test_bits_of_levels_activations_and_vectors(seed: int, m: int, d: int, levels: int, activation: Any) -> None:
    rng = np.random.default_rng(seed)
    weights = 2 * m * (math.ceil(math.log2(levels)) * d + (activation in LIFTED))
    options: dict[str, Any] = {"levels": levels, "activation": activation}
    assert random_network(rng, m, d, shared=True, **options).n_bits == weights + 32
    assert random_network(rng, m, d, **options).n_bits == weights + 32 * m
    assert random_network(rng, m, d, C=3, **options).n_bits == weights + 32 * 3 * m
    # Integers of -3 to 3 take three bits, and each output's scale 32.
    network = random_network(rng, m, d, **options)
    integers = np.append(rng.integers(-3, 4, m - 2), [3, -2])
    rounded = BilinearNetwork(network.U, network.V, 0.25 * integers, **options)
    assert rounded.n_bits == weights + 3 * m + 32
    # One float and one number of neurons for each output.
    assert random_network(rng, m, d, C=3, shared=True, **options).n_bits == weights + 32 * 2 * 3


def vector(alpha: Any) -> BilinearNetwork:
    signs = np.ones((len(alpha), 2))
    return BilinearNetwork(signs, signs, alpha)


GROUPED: dict[str, Any] = {
    "one output": [[0.1], [0.1]],
    "groups": [[0.1, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, -2.0, 0.0], [0.0, 0.0, 5e-324]],
    "an output without neurons in front": [[0.0, 1.0], [0.0, 1.0]],
    "an output without neurons in the middle": [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
    "an output without neurons at the end": [[1.0, 0.0], [1.0, 0.0]],
    "negative zeros": [[1.0, -0.0], [-0.0, 1.0]],
    "no weight at all": [[0.0, 0.0], [0.0, 0.0]],
    "weight zero, of an output without others": [[2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 3.0]],
    "weight zero at both ends": [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]],
}


@pytest.mark.parametrize("name", GROUPED)
def test_grouped_alpha_is_stored_as_one_float_an_output(tmp_path: Path, name: str) -> None:
    network = vector(GROUPED[name])
    assert network.shared_alpha
    network.save(tmp_path / "n")
    _, _, arrays = read_archive(tmp_path / "n")
    assert sorted(arrays) == ["neurons", "shared", "sizes"]
    assert arrays["shared"].shape == arrays["sizes"].shape == (network.n_outputs,)
    assert arrays["sizes"].sum() == network.n_neurons
    np.testing.assert_array_equal(load_network(tmp_path / "n").alpha, network.alpha)


def test_alpha_is_shared_only_when_all_are_equal() -> None:
    signs = np.ones((3, 2))
    assert BilinearNetwork(signs, signs, [0.1, 0.1, 0.1]).shared_alpha
    assert not BilinearNetwork(signs, signs, [0.1, 0.1, np.nextafter(0.1, 1)]).shared_alpha
    assert not BilinearNetwork(signs, signs, [0.1, -0.1, 0.1]).shared_alpha


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


@pytest.mark.parametrize("through", [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))], ids=["copy", "pickle"])
@pytest.mark.parametrize(
    "options",
    [{}, {"levels": 5}, {"activation": (1, 2, 3)}, {"C": 2}, {"levels": 4, "activation": (0, 0, 1), "C": 3}],
    ids=str,
)
def test_copies_are_equal_and_read_only_as_well(through: Any, options: dict[str, Any]) -> None:
    network = random_network(np.random.default_rng(0), 5, 3, **options)
    X = np.random.default_rng(1).standard_normal((4, 3))
    for _ in range(2):  # before and after the quadratic form is cached
        other = through(network)
        np.testing.assert_array_equal(other.predict(X), network.predict(X))
        assert (other.levels, other.activation) == (network.levels, network.activation)
        assert (other.n_bits, repr(other)) == (network.n_bits, repr(network))
        for name in ("U", "V", "alpha", "quadratic_form"):
            np.testing.assert_array_equal(getattr(other, name), getattr(network, name))
            assert not getattr(other, name).flags.writeable


GOOD = np.array([[1, -1], [-1, -1]])

BAD_SIGNS: dict[str, Any] = {
    "zero": np.array([[1, 0], [1, 1]]),
    "-128": np.array([[1, -128], [1, 1]], dtype=np.int8),
    "uint8 minus one": np.array([[1, 255], [1, 1]], dtype=np.uint8),
    "nan": [[1, np.nan], [1, 1]],
    "half": [[1, 0.5], [1, 1]],
    "text": [["+", "-"], ["+", "+"]],
    "one-dimensional": [1, -1],
    "ragged": [[1, -1], [1]],
    "no neurons": np.zeros((0, 2)),
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


# -- levels and lifted entries -----------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 3, 4, 5, 6, 127, 128])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float64])
def test_every_level_and_nothing_else(levels: int, dtype: type) -> None:
    M = levels - 1
    for value in range(-128, 128):
        weights = np.full((1, 2), M, dtype=dtype)
        weights[0, 1] = value
        if value in range(-M, M + 1, 2):
            network = BilinearNetwork(weights, weights, [1.0], levels=levels)
            assert network.U.tolist() == network.V.tolist() == [[M, value]]
            assert network.U.dtype == np.int8
        else:
            with pytest.raises(InvalidInputError, match=rf"U must have entries .* only; found {value}$"):
                BilinearNetwork(weights, np.full((1, 2), M), [1.0], levels=levels)
            with pytest.raises(InvalidInputError, match=rf"V must have entries .* only; found {value}$"):
                BilinearNetwork(np.full((1, 2), M), weights, [1.0], levels=levels)


@pytest.mark.parametrize("levels", [2, 4, 128])
@pytest.mark.parametrize("dtype", [np.int8, np.float64])
@pytest.mark.parametrize("last", [0, 2, -3, 127])
def test_the_last_entry_of_a_lifted_neuron_is_binary(levels: int, dtype: type, last: int) -> None:
    M = levels - 1
    good, bad = np.array([[M, M, 1]], dtype=dtype), np.array([[M, M, last]], dtype=dtype)
    for sign in (-1, 1):
        good[0, -1] = sign
        assert BilinearNetwork(good, good, [1.0], levels=levels, activation=(1, 1, 0)).n_inputs == 2  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=rf"U must have entries -1 and \+1 only; found {last}$"):
        BilinearNetwork(bad, good, [1.0], levels=levels, activation=(1, 1, 0))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=rf"V must have entries -1 and \+1 only; found {last}$"):
        BilinearNetwork(good, bad, [1.0], levels=levels, activation=(1, 1, 0))  # type: ignore[arg-type]


# -- networks on blocks ------------------------------------------------------------------------------

ON_BLOCKS: dict[str, Any] = {
    "U": [[1, -1, 0], [1, 1, 1]],
    "V": [[0, 0, 0], [1, -1, 1]],
    "alpha": [0.5, 2.0],
    "block": [1, 0],
    "sizes": [3, 2],
    "kinds": ["quadratic", "linear"],
}


def test_a_network_on_blocks_is_the_sum_of_its_neurons() -> None:
    network = BilinearNetwork(**ON_BLOCKS)
    rows = np.random.default_rng(0).standard_normal((4, 8))
    expected = []
    for row in rows:
        X = np.zeros((3, 3))
        X[np.triu_indices(3)] = row[:6]
        X += np.triu(X, 1).T
        expected.append(0.5 * (row[6] - row[7]) + 2.0 * np.ones(3) @ X @ [1.0, -1.0, 1.0])
    np.testing.assert_allclose(network.predict(Blocks(rows, [3, 2], ["quadratic", "linear"])), expected, rtol=1e-12)
    assert (network.sizes, network.kinds, network.n_inputs) == ((3, 2), ("quadratic", "linear"), 8)
    assert network.blocks == network.layout
    columns = BilinearNetwork([[1, 1, -1]], [[1, 1, 1]], [2.0])
    assert (columns.sizes, columns.blocks, columns.layout.sizes, columns.block.tolist()) == (None, None, (3,), [0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"U": [[1, -1, 1], [1, 1, 1]]}, "U must have entries -1 and .* and 0 beyond"),
        ({"U": [[257.0, -1, 0], [1, 1, 1]]}, "U must have entries"),
        ({"U": [[1.5, -1, 0], [1, 1, 1]]}, "U must have entries"),
        ({"V": [[1, 0, 0], [1, -1, 1]]}, "V must have entries .* 0 in linear blocks"),
        ({"V": [[0, 0, 0], [1, 0, 1]]}, "V must have entries"),
        ({"V": [[0, 0], [1, 1]]}, r"U and V must have shapes \(m, 3\)"),
        ({"block": [1, 2]}, "block must have 2 numbers from 0 to 1"),
        ({"block": [1, 0.5]}, "block must have 2 numbers from 0 to 1"),
        ({"block": [1]}, "block must have 2 numbers from 0 to 1"),
        ({"alpha": [1.0]}, "alpha must have 2 entries"),
        ({"block": None}, "block must have . numbers from 0 to 1, one for each neuron; got None"),
        ({"sizes": None}, "networks on blocks, which need sizes"),
        ({"sizes": None, "kinds": None}, "networks on blocks, which need sizes"),
        ({"levels": 3}, "levels must be 2 and activation None for blocks"),
        ({"activation": "relu_like"}, "levels must be 2 and activation None for blocks"),
    ],
)
def test_networks_on_blocks_refuse_what_does_not_fit(change: dict[str, Any], message: str) -> None:
    columns = {"U": [[1, -1, 1], [1, 1, 1]], "V": [[1, 1, 1], [1, -1, 1]]} if "sizes" in change else {}
    with pytest.raises(QSDPError, match=message):
        BilinearNetwork(**ON_BLOCKS | columns | change)


@pytest.mark.parametrize("block", [[0], [0, 0, 0], [[0], [0]], 0])
def test_networks_on_columns_refuse_zeros_that_are_not_one_for_each_neuron(block: Any) -> None:
    U = [[1, -1, 1], [1, 1, 1]]
    assert BilinearNetwork(U, U, [1.0, 2.0], block=[0, 0]).block.tolist() == [0, 0]
    with pytest.raises(InvalidInputError, match="block must have 2 zeros, one for each neuron"):
        BilinearNetwork(U, U, [1.0, 2.0], block=block)
