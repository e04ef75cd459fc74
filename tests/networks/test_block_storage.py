"""Networks on blocks on disk: exact round trips in the promised bits, and nothing but an error from a bad file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import read_archive, write_archive
from block_problems import random_network, random_problem

import qsdp
from qsdp.exceptions import StorageError

KIND = "bilinear-network"


def network_of(seed: int) -> qsdp.BilinearNetwork:
    rng = np.random.default_rng(seed)
    R = int(rng.integers(1, 6))
    kinds = rng.choice(["quadratic", "linear"], size=R).tolist()
    layout = qsdp.BilinearNetwork([[1]], [[1]], [1.0], [0], [1]).layout
    layout = type(layout)(tuple(rng.integers(1, 7, R).tolist()), tuple(kind == "linear" for kind in kinds), (1.0,) * R)
    C = rng.choice([None, 1, 2, 3, 5])
    return random_network(rng, layout, int(rng.integers(1, 20)), C, single=bool(seed % 2))


def assert_same(one: qsdp.BilinearNetwork, other: qsdp.BilinearNetwork) -> None:
    assert type(one) is type(other)
    assert (one.sizes, one.kinds, one.n_bits) == (other.sizes, other.kinds, other.n_bits)
    for name in ("U", "V", "alpha", "block"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert getattr(one, name).dtype == getattr(other, name).dtype


@pytest.mark.parametrize("seed", range(6))
def test_packed_entries_are_sums_over_neurons(seed: int) -> None:
    network = network_of(seed)
    U, V = (side.astype(float) for side in (network.U, network.V))
    vectors = network.layout.products(U, V, network.block)
    expected = network.output_weights.T @ vectors
    np.testing.assert_allclose(network.entries, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(20))
def test_round_trips_take_the_promised_bits(seed: int, tmp_path: Path) -> None:
    network = network_of(seed)
    network.save(tmp_path / "n")
    loaded = qsdp.load_network(tmp_path / "n")
    assert_same(network, loaded)
    contents = (tmp_path / "n").read_bytes()
    loaded.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == contents
    _, _, arrays = read_archive(tmp_path / "n")
    # Files hold numbers of 64 bits, each of which counts 32.
    numbers = sum(array.size for array in arrays.values() if array.itemsize == 8)
    assert sum(array.nbytes for array in arrays.values()) == -(-network.n_bits // 8) + 4 * numbers


def test_shared_weights_are_stored_once(tmp_path: Path) -> None:
    problem = random_problem(0, n=30, n_outputs=2)
    network = qsdp.sample_network(qsdp.shape_covariance(qsdp.solve_relaxation(problem)), 40)
    signs = sum(problem.blocks.sizes[r] * (1 if problem.blocks.linear[r] else 2) for r in network.block)
    assert network.n_bits == signs + 40 * (problem.blocks.n_blocks - 1).bit_length() + 4 * 32
    network.save(tmp_path / "n")
    assert_same(network, qsdp.load_network(tmp_path / "n"))


def test_neurons_of_weight_zero(tmp_path: Path) -> None:
    network = qsdp.BilinearNetwork([[1, 1]] * 2, [[1, 1]] * 2, [[0.0, 0.0], [0.0, 0.1]], [0, 0], [2])
    network.save(tmp_path / "n")
    assert_same(network, qsdp.load_network(tmp_path / "n"))


Change = Callable[[dict[str, Any], dict[str, Any]], None]
CHANGES: dict[str, Change] = {
    "more neurons": lambda h, a: h.update(n_neurons=h["n_neurons"] + 1),
    "no neurons": lambda h, a: h.update(n_neurons=0),
    "many neurons": lambda h, a: h.update(n_neurons=2**62),
    "no sizes": lambda h, a: h.update(sizes=[]),
    "a huge size": lambda h, a: h.update(sizes=[2**40] * len(h["sizes"])),
    "a size of zero": lambda h, a: h.update(sizes=[0] * len(h["sizes"])),
    "a text as size": lambda h, a: h.update(sizes=["3"] * len(h["sizes"])),
    "larger sizes": lambda h, a: h.update(sizes=[size + 8 for size in h["sizes"]]),
    "smaller sizes": lambda h, a: h.update(sizes=[1] * len(h["sizes"])),
    "an unknown kind": lambda h, a: h.update(kinds=["cubic"] * len(h["kinds"])),
    "kinds of other types": lambda h, a: h.update(kinds=[[]] * len(h["kinds"])),
    "kinds of other lengths": lambda h, a: h.update(kinds=["linear", [], "linear"]),
    "fewer kinds": lambda h, a: h.update(kinds=h["kinds"][1:]),
    "other outputs": lambda h, a: h.update(n_outputs=900),
    "many outputs": lambda h, a: h.update(n_outputs=2**62),
    "scalar of several outputs": lambda h, a: h.update(n_outputs=None),
    "not of single outputs": lambda h, a: a.update(alpha=a.pop("single")),
    "a full second layer": lambda h, a: a.update(alpha=np.diag(a.pop("single"))[:, :3]),
    "two second layers": lambda h, a: a.update(alpha=a["single"]),
    "a text as number": lambda h, a: h.update(levels="2"),
    "levels": lambda h, a: h.update(levels=3),
    "an activation": lambda h, a: h.update(activation=[1.0, 2.0, 3.0]),
    "inputs": lambda h, a: h.update(n_inputs=4),
    "inputs in place of sizes": lambda h, a: h.update(n_inputs=4, sizes=None),
    "inputs in place of blocks": lambda h, a: h.update(n_inputs=4, sizes=None, kinds=None),
    "neither inputs nor sizes": lambda h, a: h.update(sizes=None, kinds=None),
    "another field": lambda h, a: h.update(width=2),
    "a missing field": lambda h, a: h.pop("kinds"),
    "another array": lambda h, a: a.update(U=np.zeros(3)),
    "no neurons array": lambda h, a: a.pop("neurons"),
    "no alpha": lambda h, a: a.pop("single"),
    "single precision": lambda h, a: a.update(single=a["single"].astype("f4")),
    "alpha not finite": lambda h, a: a.update(single=a["single"] * np.nan),
    "a longer alpha": lambda h, a: a.update(single=np.append(a["single"], 1.0)),
    "bytes of another type": lambda h, a: a.update(neurons=a["neurons"].astype("i8")),
    "a matrix of bytes": lambda h, a: a.update(neurons=a["neurons"][None]),
    "more bytes": lambda h, a: a.update(neurons=np.append(a["neurons"], np.uint8(0))),
    "fewer bytes": lambda h, a: a.update(neurons=a["neurons"][:-1]),
    "no bytes": lambda h, a: a.update(neurons=a["neurons"][:0]),
    "a set bit at the end": lambda h, a: a.update(neurons=a["neurons"] | np.uint8(1)),
    "block numbers too large": lambda h, a: a.update(neurons=a["neurons"] | np.uint8(255)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_hostile_files_of_a_right_digest(change: str, tmp_path: Path) -> None:
    layout = network_of(0).layout
    layout = type(layout)((3, 2, 4), (False, True, False), (1.0,) * 3)
    network = random_network(np.random.default_rng(0), layout, 7, 3, single=True)
    network.save(tmp_path / "n")
    _, header, arrays = read_archive(tmp_path / "n")
    CHANGES[change](header, arrays)
    write_archive(tmp_path / "n", KIND, header, arrays)
    with pytest.raises(StorageError, match="is not a valid network"):
        qsdp.load_network(tmp_path / "n")


@pytest.mark.parametrize("seed", range(100))
def test_any_bits_are_a_network_or_an_error(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    network = network_of(seed)
    network.save(tmp_path / "n")
    _, header, arrays = read_archive(tmp_path / "n")
    if seed % 3:
        arrays["neurons"] = rng.integers(0, 256, len(arrays["neurons"])).astype(np.uint8)
    else:
        values: list[Any] = [None, True, 1, 2, 2**33, [1], "a"]
        header[str(rng.choice([*header]))] = values[rng.integers(len(values))]
    write_archive(tmp_path / "n", KIND, header, arrays)
    try:
        loaded = qsdp.load_network(tmp_path / "n")
    except StorageError:
        return
    contents = (tmp_path / "n").read_bytes()
    loaded.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == contents
