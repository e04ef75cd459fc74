"""Quadratic forms of integers that networks with shared second-layer weights compute."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network, unnoticed_flips

import qsdp
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.coding import encode, fold, parameter_of
from qsdp.networks.integer_form import KIND
from qsdp.networks.storage import read_archive, write_archive

RELU = (0.0937, 0.5, 0.4688)


def assert_same(first: Any, second: Any) -> None:
    assert first.activation == second.activation
    assert first.output_shape == second.output_shape
    np.testing.assert_array_equal(first.matrices, second.matrices)
    np.testing.assert_array_equal(first.scales, second.scales)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 40),
    d=st.integers(1, 6),
    activation=st.sampled_from([None, (1.0, 0.0, 0.0), RELU]),
    C=st.sampled_from([None, 1, 3]),
    levels=st.sampled_from([2, 3, 8, 128]),
)
def test_a_form_is_the_network_in_integers(
    seed: int, m: int, d: int, activation: Any, C: int | None, levels: int
) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, m, d, activation, shared=True, levels=levels, C=C)
    form = network.to_integer_form()
    # Python's integers neuron by neuron.
    alpha = network.alpha.reshape(m, -1)
    for k, matrix in enumerate(form.matrices):
        exact = np.zeros(matrix.shape, dtype=object)
        for u, v, weight in zip(network.U.astype(object), network.V.astype(object), alpha[:, k], strict=True):
            exact += int(np.sign(weight)) * (np.outer(u, v) + np.outer(v, u))
        assert (2 * matrix).tolist() == exact.tolist()
        assert form.scales[k] == np.abs(alpha[:, k]).max()
    assert form.n_inputs == network.n_inputs
    assert form.n_outputs == network.n_outputs
    assert form.n_bits == network.form_bits
    X = rng.standard_normal((7, d))
    size = 1e-12 * max(1.0, float(np.abs(form.matrices).sum()) * float(form.scales.max(initial=0.0)))
    np.testing.assert_allclose(form.predict(X), network.predict(X), rtol=1e-9, atol=100 * size)
    np.testing.assert_allclose(form.to_quadratic_form().predict(X), network.predict(X), rtol=1e-9, atol=100 * size)


@pytest.mark.parametrize("C", [None, 3])
@pytest.mark.parametrize("activation", [None, RELU])
@pytest.mark.parametrize("levels", [2, 5])
def test_files(tmp_path: Path, C: int | None, activation: Any, levels: int) -> None:
    rng = np.random.default_rng(0)
    form = random_network(rng, 30, 5, activation, shared=True, levels=levels, C=C).to_integer_form()
    form.save(tmp_path / "form")
    assert_same(qsdp.load_network(tmp_path / "form"), form)
    _, _, arrays = read_archive(tmp_path / "form", KIND)
    described = 8 * arrays["codes"].size + 32 * form.n_outputs
    assert 0 <= 8 * arrays["integers"].size + described - form.n_bits < 8
    assert_same(pickle.loads(pickle.dumps(form)), form)
    assert_same(copy.deepcopy(form), form)


def test_every_damaged_bit_is_noticed(tmp_path: Path) -> None:
    form = random_network(np.random.default_rng(0), 9, 3, shared=True).to_integer_form()
    assert unnoticed_flips(form, tmp_path / "form", assert_same) == []


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 30), d=st.integers(2, 6), levels=st.sampled_from([2, 4, 128]))
def test_the_diagonal_tells_the_last_bits(seed: int, m: int, d: int, levels: int) -> None:
    form = random_network(np.random.default_rng(seed), m, d, RELU, shared=True, levels=levels).to_integer_form()
    (T,) = form.matrices.astype(object)
    for i, j in itertools.combinations(range(d + 1), 2):
        assert (T[i, j] + T[i, i] + (T[i, i] - T[j, j]) // 2) % 2 == 0
        assert (T[i, i] - T[j, j]) % 2 == 0


def test_codes_take_less_than_equal_widths() -> None:
    """Sums of signs are nearly Gaussian: a bit less by what the diagonal tells, and one by rare large ones."""
    form = random_network(np.random.default_rng(0), 500, 40, RELU, shared=True).to_integer_form()
    width = int(2 * np.abs(form.matrices).max()).bit_length()
    assert form.n_bits - 40 < (width - 1.5) * 41 * 42 / 2
    # Integers that are of no network are stored as well.
    rng = np.random.default_rng(0)
    T = rng.integers(-9, 10, (1, 7, 7))
    assert qsdp.IntegerForm(T + T.transpose(0, 2, 1), np.ones(1)).n_bits > 40


@pytest.mark.parametrize("largest", [0, 1, 2**40, 2**52])
def test_forms_of_no_network_are_stored(tmp_path: Path, largest: int) -> None:
    rng = np.random.default_rng(0)
    T = np.triu(rng.integers(-largest, largest + 1, (2, 5, 5)))
    form = qsdp.IntegerForm(T + np.triu(T, 1).transpose(0, 2, 1), np.array([0.5, -2.0]), None, (2,))
    form.save(tmp_path / "form")
    assert_same(qsdp.load_network(tmp_path / "form"), form)


def test_the_smallest_form_is_stored(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    few, many = (random_network(rng, m, 20, RELU, shared=True) for m in (8, 300))
    free = random_network(rng, 8, 20, RELU)
    assert few.set_bits < few.n_bits < few.form_bits
    assert many.form_bits < many.set_bits < many.n_bits
    for network, kind in ((few, qsdp.BilinearNetwork), (many, qsdp.IntegerForm), (free, qsdp.BilinearNetwork)):
        assert network.smallest_bits == min(network.n_bits, network.set_bits, network.form_bits)
        network.save(tmp_path / "smallest", form="smallest")
        loaded = qsdp.load_network(tmp_path / "smallest")
        assert isinstance(loaded, kind)
        assert network.smallest_bits == (loaded.n_bits if kind is qsdp.IntegerForm else loaded.set_bits)
        network.save(tmp_path / "neurons")
        found = qsdp.load_network(tmp_path / "neurons")
        np.testing.assert_array_equal(found.U, network.U)
    few.save(tmp_path / "integers", form="integers")
    assert isinstance(qsdp.load_network(tmp_path / "integers"), qsdp.IntegerForm)


def test_weights_that_are_not_shared_have_no_integers(tmp_path: Path) -> None:
    network = random_network(np.random.default_rng(0), 300, 2)
    with pytest.raises(InvalidInputError, match="alpha must be the same"):
        network.to_integer_form()
    with pytest.raises(InvalidInputError, match="alpha must be the same"):
        network.save(tmp_path / "none", form="integers")
    assert not (tmp_path / "none").exists()
    with pytest.raises(InvalidInputError, match=r"form must be one of.*did you mean 'integers'"):
        network.save(tmp_path / "none", form="integer")
    network.save(tmp_path / "smallest", form="smallest")
    assert isinstance(qsdp.load_network(tmp_path / "smallest"), qsdp.BilinearNetwork)


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({"vector": 1}, {}),
        ({"n_inputs": 0}, {}),
        ({"n_inputs": 10**9}, {}),
        ({"n_inputs": 2**15}, {}),
        ({"n_inputs": 4}, {}),
        ({"n_inputs": 1}, {}),
        ({"more": 1}, {}),
        ({}, {"scales": np.array([np.nan])}),
        ({}, {"scales": np.zeros(2)}),
        ({}, {"scales": np.zeros((0,))}),
        ({}, {"integers": np.zeros(1, dtype=np.uint8)}),
        ({}, {"integers": np.zeros((2, 2), dtype=np.uint8)}),
        ({}, {"codes": np.array([3 * 64], dtype=np.uint8)}),
        ({}, {"codes": np.array([60], dtype=np.uint8)}),
        ({}, {"codes": np.zeros(2, dtype=np.uint8)}),
        ({}, {"codes": np.zeros(1)}),
        ({}, {"more": np.zeros(1)}),
        ({}, {"integers": "a byte too many"}),
        ({}, {"codes": "last bits that follow are written"}),
    ],
)
def test_files_that_are_no_forms(tmp_path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    form = random_network(np.random.default_rng(0), 2, 2, shared=True).to_integer_form()
    form.save(tmp_path / "form")
    _, good, held = read_archive(tmp_path / "form", KIND)
    changed = {**held, **arrays}
    if isinstance(changed["integers"], str):
        changed["integers"] = np.append(held["integers"], np.uint8(0))
    if isinstance(changed["codes"], str):
        (matrix,) = form.matrices
        entries = fold(np.concatenate([np.diag(matrix), matrix[np.triu_indices(2, 1)]]))
        changed["codes"] = np.array([2 * 64 + parameter_of(entries)], dtype=np.uint8)
        changed["integers"] = np.packbits(encode(entries, parameter_of(entries)))
    write_archive(tmp_path / "bad", KIND, json.loads(json.dumps({**good, **header})), changed)
    with pytest.raises(StorageError, match="bad"):
        qsdp.load_network(tmp_path / "bad")


def test_summary() -> None:
    form = random_network(np.random.default_rng(0), 20, 3, shared=True, C=2).to_integer_form()
    assert repr(form).startswith("IntegerForm(n_inputs=3, n_outputs=2, n_bits=")
    assert "bits of an entry" in form._repr_html_()
    assert form.to_expression()[0].count("x1^2") == 1
