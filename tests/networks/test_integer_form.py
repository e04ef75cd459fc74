"""Quadratic forms of integers that networks with shared second-layer weights compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import random_network

import qsdp
from qsdp.exceptions import InvalidInputError

RELU = (0.0937, 0.5, 0.4688)


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
    (matrices,) = form.matrices
    for k, matrix in enumerate(matrices):
        exact = np.zeros(matrix.shape, dtype=object)
        for u, v, weight in zip(network.U.astype(object), network.V.astype(object), alpha[:, k], strict=True):
            exact += int(np.sign(weight)) * (np.outer(u, v) + np.outer(v, u))
        assert (2 * matrix).tolist() == exact.tolist()
        assert form.scales[k] == np.abs(alpha[:, k]).max()
    assert form.n_inputs == network.n_inputs
    assert form.n_outputs == network.n_outputs
    X = rng.standard_normal((7, d))
    size = 1e-12 * max(1.0, float(np.abs(matrices).sum()) * float(form.scales.max(initial=0.0)))
    np.testing.assert_allclose(form.predict(X), network.predict(X), rtol=1e-9, atol=100 * size)
    np.testing.assert_allclose(form.to_quadratic_form().predict(X), network.predict(X), rtol=1e-9, atol=100 * size)


def test_bits_are_those_of_the_widest_integer_of_each_output() -> None:
    T = np.zeros((3, 7, 7), dtype=np.int64)
    T[1, 2, 3] = T[1, 3, 2] = -4
    T[2, 6, 6] = 3
    form = qsdp.IntegerForm([T], np.ones(3), output_shape=(3,))
    assert form.bits == (0, 4, 3)
    assert form.n_bits == (0 + 4 + 3) * 28 + 3 * 32


def test_weights_that_are_not_shared_have_no_integers() -> None:
    network = random_network(np.random.default_rng(0), 300, 2)
    with pytest.raises(InvalidInputError, match="alpha must be the same"):
        network.to_integer_form()
