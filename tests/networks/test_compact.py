"""Compact files of networks on blocks: the same function in the bytes of the file, and nothing else from a bad one."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_problems import blocks_layout, random_network

import qsdp
from qsdp.exceptions import InvalidInputError, StorageError


def layout_of(rng: np.random.Generator) -> Any:
    R = int(rng.integers(1, 6))
    kinds = np.where(rng.random(R) < 0.3, "linear", "quadratic").tolist()
    return blocks_layout(rng.integers(1, 8, R).tolist(), kinds)


def network_of(seed: int) -> qsdp.BilinearNetwork:
    rng = np.random.default_rng(seed)
    network = random_network(rng, layout_of(rng), int(rng.integers(1, 30)), rng.choice([None, 1, 3]))
    integers = rng.integers(-7, 8, network.output_weights.shape) * (rng.random(network.output_weights.shape) < 0.6)
    integers[0, 0] = 5
    scales = np.float32(rng.uniform(1e-9, 1e3, integers.shape[1])).astype(float)
    alpha = (integers * scales).reshape(network.alpha.shape)
    return network.with_neurons(network.U, network.V, alpha)


def samples(layout: Any) -> qsdp.Blocks:
    rows = np.random.default_rng(1).standard_normal((20, layout.n_entries))
    return qsdp.Blocks.from_layout(rows, layout)


@pytest.mark.parametrize("seed", range(30))
def test_files_hold_the_same_function(seed: int, tmp_path: Path) -> None:
    network = network_of(seed)
    network.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes()[:4] == b"qsdB"
    loaded = qsdp.load_network(tmp_path / "n")
    X = samples(network.layout)
    expected = network.predict(X)
    np.testing.assert_allclose(loaded.predict(X), expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
    assert loaded.output_shape == network.output_shape
    assert (loaded.layout.sizes, loaded.layout.linear) == (network.layout.sizes, network.layout.linear)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "n").read_bytes()


@pytest.mark.parametrize("seed", range(20))
def test_a_file_does_not_depend_on_the_order_and_redundant_signs_of_neurons(seed: int, tmp_path: Path) -> None:
    network, rng = network_of(seed), np.random.default_rng(seed)
    network.save(tmp_path / "n")
    order = rng.permutation(network.n_neurons)
    first, second = rng.choice([-1, 1], (2, network.n_neurons, 1))
    quadratic = ~np.array(network.layout.linear)[network.block]
    swapped = (quadratic & (rng.random(network.n_neurons) < 0.5))[:, None]
    U, V = np.where(swapped, network.V, network.U) * first, np.where(swapped, network.U, network.V) * second
    sign = (first * np.where(quadratic[:, None], second, 1))[:, 0]
    alpha = (network.output_weights * sign[:, None]).reshape(network.alpha.shape)
    network.with_neurons(U[order], V[order], alpha[order], order).save(tmp_path / "other")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize("seed", range(20))
def test_integer_forms_are_the_same_function(seed: int) -> None:
    network = network_of(seed)
    form, X = network.to_integer_form(), samples(network.layout)
    expected = network.predict(X)
    np.testing.assert_allclose(form.predict(X), expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
    widths = [(2 * int(np.abs(row).max())).bit_length() for row in form.integers]
    assert form.n_bits == sum(widths) * network.layout.n_entries + 32 * network.n_outputs


def test_other_second_layers_have_no_integer_form_and_are_stored_unchanged(tmp_path: Path) -> None:
    network = network_of(0)
    network = network.with_neurons(network.U, network.V, network.alpha + 0.1)
    with pytest.raises(InvalidInputError, match="alpha_bits=8"):
        network.to_integer_form()
    network.save(tmp_path / "n")
    loaded = qsdp.load_network(tmp_path / "n")
    for name in ("U", "V", "alpha", "block"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(network, name))


def test_neurons_take_few_bits_more_than_their_entropy(tmp_path: Path) -> None:
    """A set of k among n neurons takes log2(n choose k) bits; the code may take two bits a neuron more."""
    rng = np.random.default_rng(0)
    layout = blocks_layout([10] * 16, ["quadratic"] * 16)
    network = random_network(rng, layout, 600, 10, single=True)
    alpha = np.where(network.output_weights != 0.0, rng.choice([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0], (600, 1)), 0.0)
    network.with_neurons(network.U, network.V, alpha).save(tmp_path / "n")
    size = 8 * (tmp_path / "n").stat().st_size
    pairs = 2**9 * (2**9 + 1) / 2
    entropy = 600 * (np.log2(pairs) - np.log2(600 / 160) + np.log2(np.e) + np.log2(6))
    assert entropy - 600 < size < entropy + 2.0 * 600 + 160 * 4 + 8 * 80


def rewritten(contents: bytes) -> bytes:
    return contents[:-4] + zlib.crc32(contents[:-4]).to_bytes(4, "little")


def test_any_changed_byte_is_an_error_or_another_network(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for seed in range(6):
        network = network_of(seed)
        network.save(tmp_path / "n")
        contents = (tmp_path / "n").read_bytes()
        for at in range(5, len(contents)):
            forged = bytearray(contents)
            forged[at] ^= int(rng.integers(1, 256))
            check_refused(tmp_path, bytes(forged))
            check_one_error(tmp_path, rewritten(bytes(forged)))
        for end in range(5, len(contents)):
            check_one_error(tmp_path, rewritten(contents[:end] + b"0000"))


def check_refused(folder: Path, contents: bytes) -> None:
    (folder / "forged").write_bytes(contents)
    with pytest.raises(StorageError, match="not a valid network"):
        qsdp.load_network(folder / "forged")


def check_one_error(folder: Path, contents: bytes) -> Any:
    (folder / "forged").write_bytes(contents)
    try:
        loaded = qsdp.load_network(folder / "forged")
    except StorageError:
        return
    loaded.predict(samples(loaded.layout))
