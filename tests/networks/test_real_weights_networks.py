"""Networks with real weights beside neurons: values, objectives, sizes and files."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import read_archive, write_archive
from block_problems import blocks_layout
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from qsdp.exceptions import InvalidInputError, StorageError

KIND = "bilinear-network"


def layout_of(rng: np.random.Generator) -> Any:
    R = int(rng.integers(1, 5))
    kinds = ["weights", *rng.choice(["quadratic", "linear", "weights"], R - 1).tolist()]
    return blocks_layout(rng.integers(1, 7, R).tolist(), rng.permutation(kinds).tolist())


def network_of(seed: int, *, integers: bool = False) -> qsdp.BilinearNetwork:
    """Return a random network on blocks, at least one of which has real weights, of which some are zero."""
    rng = np.random.default_rng(seed)
    layout, C = layout_of(rng), rng.choice([None, 1, 3])
    m = int(rng.integers(0, 7)) if layout.n_blocks else 0
    shape = () if C is None else (C,)
    alpha, weights = rng.standard_normal((m, *shape)), rng.standard_normal((layout.n_weights, *shape))
    weights *= rng.random(weights.shape) < rng.random()
    if integers:
        alpha, weights = 0.25 * np.rint(3.0 * alpha), float(np.float32(0.3)) * np.rint(5.0 * weights)
        weights.flat[0] = 0.0 + float(np.float32(0.3))
    U, V = rng.choice([-1, 1], size=(2, m, layout.side))
    return qsdp.BilinearNetwork.on_blocks(layout, U, V, alpha, rng.integers(0, max(layout.n_blocks, 1), m), weights)


def samples(layout: Any, n: int = 9) -> qsdp.Blocks:
    rows = np.random.default_rng(1).standard_normal((n, layout.n_entries))
    return qsdp.Blocks(rows, layout.all_sizes, layout.kinds, layout.all_omega)


def expected_values(network: qsdp.BilinearNetwork, X: qsdp.Blocks) -> np.ndarray:
    """Sum neurons and weights one by one, from the rows of the blocks."""
    values = np.zeros((len(X), network.n_outputs))
    weights, block = iter(network.weights.reshape(-1, network.n_outputs)), -1
    ends = np.cumsum(
        [0, *(N * (N + 1) // 2 if kind == "quadratic" else N for N, kind in zip(X.sizes, X.kinds, strict=True))]
    )
    for N, kind, start, end in zip(X.sizes, X.kinds, ends[:-1], ends[1:], strict=True):
        rows = X.rows[:, start:end]
        if kind == "weights":
            for column in rows.T:
                values += np.multiply.outer(column, next(weights))
            continue
        block += 1
        for j in np.flatnonzero(network.block == block):
            u, v = network.U[j, :N].astype(float), network.V[j, :N].astype(float)
            for i, row in enumerate(rows):
                matrix = np.zeros((N, N))
                if kind == "quadratic":
                    matrix[np.triu_indices(N)] = row
                    matrix = matrix + matrix.T - np.diag(matrix.diagonal())
                value = u @ matrix @ v if kind == "quadratic" else row @ u
                values[i] += value * network.alpha.reshape(-1, network.n_outputs)[j]
    return values


@pytest.mark.parametrize("seed", range(40))
def test_weights_add_to_the_values_of_neurons(seed: int) -> None:
    network = network_of(seed)
    X = samples(network.layout)
    expected = expected_values(network, X)
    predicted = network.predict(X)
    assert predicted.shape == (len(X), *network.alpha.shape[1:])
    np.testing.assert_allclose(predicted.reshape(expected.shape), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("loss", ["squared", "huber", "absolute"])
def test_a_weight_is_a_linear_block_of_side_one(seed: int, loss: str) -> None:
    network, rng = network_of(seed), np.random.default_rng(seed)
    layout = network.layout
    omega = [rng.uniform(0.5, 2.0, N) if kind == "weights" else rng.uniform(0.5, 2.0)
             for N, kind in zip(layout.all_sizes, layout.kinds, strict=True)]  # fmt: skip
    blocks = qsdp.Blocks(samples(layout).rows, layout.all_sizes, layout.kinds, omega)
    sizes, kinds, prices, number = [], [], [], {}
    for N, kind, price in zip(layout.all_sizes, layout.kinds, omega, strict=True):
        count = N if kind == "weights" else 1
        number[len(number)] = len(sizes)
        sizes += [1] * count if kind == "weights" else [N]
        kinds += ["linear"] * count if kind == "weights" else [kind]
        prices += list(price) if kind == "weights" else [float(price)]
    others = qsdp.Blocks(blocks.rows, sizes, kinds, prices)
    neurons = [position for position, kind in enumerate(layout.kinds) if kind != "weights"]
    firsts = [number[p] + i for p, kind in enumerate(layout.kinds) if kind == "weights"
              for i in range(layout.all_sizes[p])]  # fmt: skip
    side = others.layout.side
    U, V = (np.pad(W, ((0, len(firsts)), (0, side - W.shape[1])), constant_values=1) for W in (network.U, network.V))
    block = np.concatenate([[number[neurons[r]] for r in network.block], firsts]).astype(int)
    alpha = np.concatenate([network.alpha, network.weights])
    other = qsdp.BilinearNetwork.on_blocks(others.layout, U, V, alpha, block)
    targets = rng.standard_normal((len(blocks), *network.alpha.shape[1:]))
    one = qsdp.TrainingProblem(blocks, targets, beta=0.3, loss=loss)
    two = qsdp.TrainingProblem(others, targets, beta=0.3, loss=loss)
    np.testing.assert_allclose(network.predict(blocks), other.predict(others), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(network.objective(one), other.objective(two), rtol=1e-12)
    np.testing.assert_allclose(one.penalty(network), two.penalty(other), rtol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_round_trips(seed: int, tmp_path: Path) -> None:
    network = network_of(seed)
    network.save(tmp_path / "n")
    loaded = qsdp.load_network(tmp_path / "n")
    for name in ("U", "V", "alpha", "block", "weights"):
        np.testing.assert_array_equal(getattr(network, name), getattr(loaded, name))
    assert (loaded.sizes, loaded.kinds, loaded.n_bits) == (network.sizes, network.kinds, network.n_bits)
    contents = (tmp_path / "n").read_bytes()
    loaded.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == contents
    _, _, arrays = read_archive(tmp_path / "n")
    numbers = sum(array.size for array in arrays.values() if array.itemsize == 8)
    # Neurons and the mask of weights are rounded up to bytes apart; numbers of 64 bits count 32.
    stored = sum(array.nbytes for array in arrays.values()) - 4 * numbers
    assert 0 <= 8 * stored - network.n_bits < 16


def test_sizes_of_real_weights() -> None:
    layout = blocks_layout([2, 100], ["quadratic", "weights"])
    U = np.ones((1, 2), dtype=int)

    def bits(weights: Any) -> int:
        network = qsdp.BilinearNetwork(U, U, [0.1], [0], layout.all_sizes, layout.kinds, weights=weights)
        return network.n_bits - 4 - 32

    rng = np.random.default_rng(0)
    full, sparse = rng.standard_normal(100), np.where(np.arange(100) < 7, rng.standard_normal(100), 0.0)
    assert (bits(full), bits(sparse)) == (3200, 100 + 7 * 32)
    # Zeros are integers of no bits, with a scale.
    assert bits(None) == 32
    # Integers of up to 7 and a sign take 4 bits.
    q = np.concatenate([[7, -7], rng.integers(-7, 8, 98)])
    assert bits(0.5 * q) == min(400, 100 + 4 * np.count_nonzero(q)) + 32
    assert bits(0.5 * np.where(np.arange(100) < 20, q, 0)) == 100 + 4 * np.count_nonzero(q[:20]) + 32


@pytest.mark.parametrize("seed", range(40))
def test_integers_are_stored_in_few_bytes_and_have_a_form(seed: int, tmp_path: Path) -> None:
    network = network_of(seed, integers=True)
    network.save(tmp_path / "n")
    contents = (tmp_path / "n").read_bytes()
    assert contents[:4] == b"qsdB"
    loaded, X = qsdp.load_network(tmp_path / "n"), samples(network.layout)
    expected = expected_values(network, X).reshape(len(X), *network.output_shape)
    np.testing.assert_allclose(loaded.predict(X), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(loaded.weights, network.weights)
    form = network.to_integer_form()
    np.testing.assert_allclose(form.predict(X), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(form.weights * form.weight_scales, network.weights.reshape(form.weights.shape))
    assert form.n_bits > 0
    assert loaded.to_integer_form().n_bits == form.n_bits
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == contents


def test_a_thousand_zeros_take_few_bytes(tmp_path: Path) -> None:
    weights = np.zeros(1000)
    weights[[3, 500, 999]] = [0.5, -1.0, 2.0]
    empty = np.zeros((0, 0), dtype=int)
    network = qsdp.BilinearNetwork(empty, empty, [], [], [1000], ["weights"], weights=weights)
    network.save(tmp_path / "n")
    assert len((tmp_path / "n").read_bytes()) < 40
    np.testing.assert_array_equal(qsdp.load_network(tmp_path / "n").weights, weights)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"weights must have the shape \(3,\)"),
        (np.ones((3, 1)), r"weights must have the shape \(3,\)"),
        ([1.0, np.nan, 0.0], "weights must be a numeric array|weights"),
        ("abc", "weights"),
    ],
)
def test_bad_weights_are_refused(weights: Any, message: str) -> None:
    with pytest.raises((InvalidInputError, TypeError), match=message):
        qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5], [0], [2, 3], ["quadratic", "weights"], weights=weights)


def test_blocks_of_weights_have_no_neurons() -> None:
    with pytest.raises(InvalidInputError, match=r"from 0 to 0, one for each neuron \(blocks of kind 'weights' are not"):
        qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5], [1], [3, 2], ["weights", "quadratic"])
    with pytest.raises(
        InvalidInputError, match=r"U and V must be empty, since no block has neurons; got shape \(1, 2\)"
    ):
        qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5], [0], [3], ["weights"])
    with pytest.raises(InvalidInputError, match=r"U must have shape|U must be|got shape"):
        qsdp.BilinearNetwork(np.zeros((0, 2)), np.zeros((0, 2)), [], [], [2], ["quadratic"])


CHANGES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "integers": lambda h, a: a.update(weights=a["weights"].astype("i8")),
    "single precision": lambda h, a: a.update(weights=a["weights"].astype("f4")),
    "not finite": lambda h, a: a.update(weights=a["weights"] * np.nan),
    "no weights": lambda h, a: a.pop("weights"),
    "no mask": lambda h, a: a.pop("used_weights"),
    "a weight too many": lambda h, a: a.update(weights=np.append(a["weights"], 1.0)),
    "a matrix": lambda h, a: a.update(weights=a["weights"][None]),
    "a weight of zero": lambda h, a: a.update(weights=0.0 * a["weights"]),
    "all bits of the mask": lambda h, a: a.update(used_weights=a["used_weights"] | np.uint8(255)),
    "a longer mask": lambda h, a: a.update(used_weights=np.append(a["used_weights"], np.uint8(0))),
    "a mask of another type": lambda h, a: a.update(used_weights=a["used_weights"].astype("i8")),
    "a full mask for few weights": lambda h, a: a.update(weights=np.ones(60), used_weights=np.full(8, 255, "u1")),
    "other kinds": lambda h, a: h.update(kinds=["linear"] * 2),
    "other sizes": lambda h, a: h.update(sizes=[2, 2**40]),
    "no neurons": lambda h, a: h.update(n_neurons=0),
    "a boolean number of neurons": lambda h, a: h.update(n_neurons=False),
    "many outputs": lambda h, a: h.update(n_outputs=2**62),
}


@pytest.mark.parametrize("change", CHANGES)
def test_hostile_files_of_a_right_digest(change: str, tmp_path: Path) -> None:
    weights = np.where(np.arange(60) % 10 == 0, 0.1 * np.arange(60) + 0.01, 0.0)
    network = qsdp.BilinearNetwork([[1, -1]], [[1, 1]], [0.5], [0], [2, 60], ["quadratic", "weights"], weights=weights)
    network.save(tmp_path / "n")
    _, header, arrays = read_archive(tmp_path / "n")
    assert set(arrays) == {"neurons", "alpha", "weights", "used_weights"}
    CHANGES[change](header, arrays)
    write_archive(tmp_path / "n", KIND, header, arrays)
    with pytest.raises(StorageError, match="is not a valid network"):
        qsdp.load_network(tmp_path / "n")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 40), data=st.data())
def test_a_changed_compact_file_is_an_error_or_a_network(seed: int, data: st.DataObject, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("files")
    network_of(seed, integers=True).save(folder / "n")
    contents = bytearray((folder / "n").read_bytes())
    contents[data.draw(st.integers(5, len(contents) - 5))] ^= data.draw(st.integers(1, 255))
    (folder / "n").write_bytes(contents)
    with pytest.raises(StorageError, match="not a valid network"):
        qsdp.load_network(folder / "n")
    whole = bytes(contents[:-4])
    (folder / "n").write_bytes(whole + zlib.crc32(whole).to_bytes(4, "little"))
    try:
        loaded = qsdp.load_network(folder / "n")
    except StorageError:
        return
    loaded.predict(samples(loaded.layout))
