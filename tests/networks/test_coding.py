"""Golomb-Rice codes: written out by hand, to and fro, near the entropy, and damaged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qsdp.exceptions import StorageError
from qsdp.networks.coding import BitReader, encode, encoded_bits, fold, parameter_of, unfold


def test_a_code_by_hand() -> None:
    # Quotients by four 0, 1, 3 in unary, then the remainders 3, 0, 1 of two bits.
    bits = encode(np.array([3, 4, 13]), 2)
    assert "".join(map(str, bits)) == "1" + "01" + "0001" + "11" + "00" + "01"
    assert fold(np.array([0, -1, 1, -2, 2])).tolist() == [0, 1, 2, 3, 4]


@given(
    codes=st.lists(st.tuples(st.lists(st.integers(0, 2**20), max_size=30), st.booleans()), min_size=1, max_size=4),
    shift=st.integers(0, 300),
)
def test_codes_are_read_as_written(codes: list[tuple[list[int], bool]], shift: int) -> None:
    arrays = [
        np.array([one << shift for one in numbers], dtype=object) if large else np.array(numbers, dtype=np.int64)
        for numbers, large in codes
    ]
    parameters = [parameter_of(one) for one in arrays]
    parts = [encode(one, k) for one, k in zip(arrays, parameters, strict=True)]
    for one, k, part in zip(arrays, parameters, parts, strict=True):
        assert len(part) == encoded_bits(one, k) <= len(one) * (17 + k)
    reader = BitReader(np.packbits(np.concatenate(parts)))
    for one, k in zip(arrays, parameters, strict=True):
        found = reader.read(len(one), k, one.dtype.type if one.dtype != object else object)
        assert found.tolist() == one.tolist()


@given(st.lists(st.integers(-(2**53), 2**53)))
def test_folding_is_undone(integers: list[int]) -> None:
    folded = fold(np.array(integers, dtype=np.int64))
    assert np.all(folded >= 0)
    assert unfold(folded).tolist() == integers


@pytest.mark.parametrize("deviation", [1.0, 3.0, 20.0, 1000.0])
def test_a_code_is_near_the_entropy(deviation: float) -> None:
    numbers = np.rint(deviation * np.random.default_rng(0).standard_normal(20_000)).astype(np.int64)
    _, counts = np.unique(numbers, return_counts=True)
    shares = counts / counts.sum()
    entropy = -float((shares * np.log2(shares)).sum())
    folded = fold(numbers)
    k = parameter_of(folded)
    each = encoded_bits(folded, k) / len(numbers)
    assert entropy < each < 1.1 * entropy + 0.1
    # No parameter is better.
    assert encoded_bits(folded, k) == min(encoded_bits(folded, other) for other in range(20))


@pytest.mark.parametrize(("count", "parameter"), [(9, 0), (2, 4), (100, 60), (1, 9)])
def test_too_few_bits(count: int, parameter: int) -> None:
    reader = BitReader(np.array([0b10000000], dtype=np.uint8))
    with pytest.raises(StorageError, match=r"bits (are too few for|hold fewer than)"):
        reader.read(count, parameter)
