"""Blocks of columns with real weights, priced in the same objective as the neurons of the other blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError

SIZES, KINDS, OMEGA = (2, 3, 3, 4), ("weights", "quadratic", "linear", "weights"), ([1.0, 2.0], 0.5, 2.0, 3.0)


def test_blocks_of_several_kinds_keep_their_order_and_their_rows() -> None:
    rows = np.random.default_rng(0).standard_normal((9, 2 + 6 + 3 + 4))
    blocks = qsdp.Blocks(rows, SIZES, KINDS, OMEGA)
    assert (blocks.sizes, blocks.kinds, blocks.omega) == (SIZES, KINDS, ((1.0, 2.0), 0.5, 2.0, 3.0))
    assert (blocks.n_blocks, blocks.shape) == (4, (9, 15))
    assert np.shares_memory(blocks.rows, rows)
    assert repr(blocks) == f"Blocks(n_samples=9, sizes={SIZES}, kinds={KINDS}, omega=((1.0, 2.0), 0.5, 2.0, 3.0))"
    assert blocks == qsdp.Blocks(rows, blocks.sizes, blocks.kinds, blocks.omega)
    assert blocks != qsdp.Blocks(rows, SIZES, KINDS, ([2.0, 2.0], 0.5, 2.0, 3.0))
    assert blocks != qsdp.Blocks(rows, (4, 3, 3, 2), KINDS)


def test_many_prices_are_abbreviated() -> None:
    blocks = qsdp.Blocks(np.ones((2, 40)), [40], ["weights"], [np.arange(1.0, 41.0)])
    assert "(40 in all)" in repr(blocks)
    assert "40 (weights)" in blocks._repr_html_()


@pytest.mark.parametrize(
    ("omega", "message"),
    [
        ([1.0, [1.0, 2.0]], r"omega of a block of 4 weights must have the shape \(4,\); got \(2,\)"),
        ([1.0, [[1.0, 2.0, 3.0, 4.0]]], r"must have the shape \(4,\); got \(1, 4\)"),
        ([1.0, 0.0], "omega must be a finite number > 0; got 0"),
        ([1.0, [1.0, 2.0, -3.0, 4.0]], "omega must be a finite number > 0; got -3"),
        ([1.0, [1.0, 2.0, np.inf, 4.0]], "omega must be a numeric array"),
        ([1.0, 1e200], "omega must be within"),
        ([[1.0, 1.0], 1.0], "omega must be a finite number > 0"),
        ([1.0], "omega must have an entry for each of 2 blocks; got 1"),
    ],
)
def test_omega_is_checked(omega: Any, message: str) -> None:
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        qsdp.Blocks(np.ones((3, 2 + 4)), [2, 4], ["linear", "weights"], omega)


def test_levels_and_activations_are_refused() -> None:
    blocks = qsdp.Blocks(np.ones((3, 4)), [4], ["weights"])
    for options in ({"levels": 3}, {"activation": "relu_like"}):
        with pytest.raises(InvalidInputError, match="levels must be 2 and activation None for blocks"):
            qsdp.TrainingProblem(blocks, [1.0, 2.0, 3.0], beta=1.0, **options)
