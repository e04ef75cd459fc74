"""Neurons as sets: the same function, no bit for what does not matter, and files that are no sets."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network, unnoticed_flips

import qsdp
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.neuron_set import KIND, _numbers_of
from qsdp.networks.storage import read_archive, write_archive

RELU = (0.0937, 0.5, 0.4688)


def assert_same_function(first: Any, second: Any) -> None:
    one, other = first.to_integer_form(), second.to_integer_form()
    np.testing.assert_array_equal(one.matrices, other.matrices)
    np.testing.assert_array_equal(one.scales, other.scales)
    assert (first.activation, first.levels) == (second.activation, second.levels)
    np.testing.assert_array_equal(first.alpha, second.alpha)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 40),
    d=st.integers(1, 6),
    activation=st.sampled_from([None, (1.0, 0.0, 0.0), RELU]),
    C=st.sampled_from([None, 1, 3]),
    levels=st.sampled_from([2, 3, 8, 128]),
)
def test_a_set_computes_the_same(
    tmp_path_factory: pytest.TempPathFactory, seed: int, m: int, d: int, activation: Any, C: int | None, levels: int
) -> None:
    network = random_network(np.random.default_rng(seed), m, d, activation, shared=True, levels=levels, C=C)
    path = tmp_path_factory.mktemp("set") / "network"
    network.save(path, form="set")
    found = qsdp.load_network(path)
    assert isinstance(found, qsdp.BilinearNetwork)
    assert_same_function(found, network)
    # A set has one file, in whatever order and with whatever signs its neurons are told.
    blob, rng = path.read_bytes(), np.random.default_rng(seed)
    order = np.lexsort((rng.random(m), np.argmax(network.alpha.reshape(m, -1) != 0, axis=1)))
    sign = rng.choice(np.array([-1, 1], dtype=np.int8), (m, 1))
    U, V = sign * network.U[order], sign * network.V[order]
    swap = rng.random((m, 1)) < 0.5
    shuffled = np.where(swap, V, U), np.where(swap, U, V)
    qsdp.BilinearNetwork(*shuffled, network.alpha[order], levels, activation).save(path, form="set")
    assert path.read_bytes() == blob


@pytest.mark.parametrize(("levels", "lifted"), [(2, False), (2, True), (3, False), (3, True), (4, False)])
def test_numbers_are_those_of_the_functions(levels: int, lifted: bool) -> None:
    """All pairs of vectors: two neurons have one number exactly if they are one function up to what is left out."""
    values = np.arange(1 - levels, levels, 2)
    vectors = np.array(list(itertools.product(values, values, *([[-1, 1]] if lifted else []))), dtype=np.int8)
    pairs = np.array(list(itertools.product(range(len(vectors)), repeat=2)))
    U, V = vectors[pairs[:, 0]], vectors[pairs[:, 1]]
    numbers = _numbers_of(U, V, levels, lifted)
    known: dict[Any, set[int]] = {}
    for u, v, number in zip(U.tolist(), V.tolist(), numbers, strict=True):
        minus = [-x for x in u], [-x for x in v]
        turned = [] if any(u) and any(v) else [(u, minus[1]), (minus[0], v), (v, minus[0]), (minus[1], u)]
        same = min((u, v), (v, u), minus, minus[::-1], *turned)
        known.setdefault(str(same), set()).add(number)
    assert all(len(found) == 1 for found in known.values())
    all_numbers = sorted(number for found in known.values() for number in found)
    half = (len(vectors) + 1) // 2
    assert len(set(all_numbers)) == len(all_numbers)
    assert 0 <= all_numbers[0] <= all_numbers[-1] < half * (half + 1)


@pytest.mark.parametrize("m", [8, 64, 1000])
def test_bits_are_near_the_logarithm_of_the_number_of_sets(m: int, tmp_path: Path) -> None:
    network = random_network(np.random.default_rng(0), m, 30, RELU, shared=True)
    # 31 entries a vector; sets of m among them.
    least = m * 60.0 - math.log2(math.factorial(m))
    assert least < network.set_bits - 40 < least + 0.2 * m + 40
    assert network.n_bits - 32 == 62 * m
    network.save(tmp_path / "set", form="set")
    _, _, arrays = read_archive(tmp_path / "set", KIND)
    assert 0 <= 8 * arrays["neurons"].size - (network.set_bits - 40) < 8


def test_weights_that_are_not_shared_are_no_set(tmp_path: Path) -> None:
    network = random_network(np.random.default_rng(0), 30, 5)
    assert network.set_bits == network.n_bits
    with pytest.raises(InvalidInputError, match="alpha must be the same"):
        network.save(tmp_path / "none", form="set")
    assert not (tmp_path / "none").exists()


def test_every_damaged_bit_is_noticed(tmp_path: Path) -> None:
    network = random_network(np.random.default_rng(0), 5, 3, shared=True)
    network.save(tmp_path / "first", form="set")
    ordered = qsdp.load_network(tmp_path / "first")

    class AsSet:
        def save(self, path: Path) -> None:
            ordered.save(path, form="set")

    assert unnoticed_flips(AsSet(), tmp_path / "set", lambda found, _: assert_same_function(found, ordered)) == []


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({"n_neurons": 5}, {}),
        ({"n_neurons": 10**9}, {}),
        ({"n_neurons": 10**19}, {}),
        ({"n_inputs": 10**9}, {}),
        ({"n_inputs": 2**15, "n_neurons": 8}, {}),
        ({"n_inputs": 1}, {}),
        ({"n_inputs": 0}, {}),
        ({"levels": 300}, {}),
        ({"more": 1}, {}),
        ({}, {"neurons": np.zeros(1, dtype=np.uint8)}),
        ({}, {"neurons": np.zeros((2, 2), dtype=np.uint8)}),
        ({}, {"parameters": np.array([200], dtype=np.uint32)}),
        ({}, {"parameters": np.array([5], dtype=np.uint32)}),
        ({}, {"parameters": np.array([3.0])}),
        ({}, {"alpha": np.arange(4.0)}),
        ({}, {"alpha": np.array([np.nan])}),
        ({}, {"more": np.zeros(1)}),
    ],
)
def test_files_that_are_no_sets(tmp_path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    network = random_network(np.random.default_rng(0), 4, 3, shared=True)
    network.save(tmp_path / "set", form="set")
    _, good, held = read_archive(tmp_path / "set", KIND)
    write_archive(tmp_path / "bad", KIND, json.loads(json.dumps({**good, **header})), {**held, **arrays})
    with pytest.raises(StorageError, match="bad"):
        qsdp.load_network(tmp_path / "bad")


def test_a_code_that_is_not_the_shortest_is_refused(tmp_path: Path) -> None:
    network = random_network(np.random.default_rng(0), 4, 3, shared=True)
    network.save(tmp_path / "set", form="set")
    _, header, arrays = read_archive(tmp_path / "set", KIND)
    longer = np.append(arrays["neurons"], np.uint8(0))
    write_archive(tmp_path / "bad", KIND, header, {**arrays, "neurons": longer})
    with pytest.raises(StorageError, match="not coded in canonical form"):
        qsdp.load_network(tmp_path / "bad")
