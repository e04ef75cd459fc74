"""Golomb-Rice codes, nearly as short as the entropy if integers are geometrically distributed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp.exceptions import StorageError
from qsdp.networks.storage import bits_of_integers

__all__ = ["BitReader", "Bits", "encode", "encoded_bits", "fold", "parameter_of", "unfold"]

#: Bits as numbers 0 and 1.
Bits = npt.NDArray[np.uint8]
#: Integers as int64, or as Python integers in an array of objects.
Integers = npt.NDArray[Any]


def parameter_of(numbers: Integers) -> int:
    """Choose the parameter k of the Golomb-Rice code of nonnegative numbers.

    It is one of four values near the logarithm of their mean. A code has at most 17 + k bits per number on average.
    """
    around = (int(numbers.sum()) // max(len(numbers), 1)).bit_length()
    return min(range(max(around - 3, 0), around + 1), key=lambda k: encoded_bits(numbers, k))


def encoded_bits(numbers: Integers, parameter: int) -> int:
    """Compute the length of `encode`'s result in bits."""
    return len(numbers) * (1 + parameter) + int((numbers >> parameter).sum())


def encode(numbers: Integers, parameter: int) -> Bits:
    """Encode nonnegative numbers: first all quotients by 2^k in unary, then all remainders."""
    ends = np.cumsum((numbers >> parameter).astype(np.int64) + 1)
    unary = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    unary[ends - 1] = 1
    return np.concatenate([unary, bits_of_integers(numbers, parameter).ravel()])


class BitReader:
    """Reader of consecutive bits, integers and Golomb-Rice codes from a possibly corrupted string of bits."""

    def __init__(self, packed: npt.NDArray[np.uint8]) -> None:
        self._bits = np.unpackbits(packed)
        self._at = 0

    def read(self, count: int, parameter: int, kind: type = np.int64) -> Integers:
        """Return the next `count` numbers, as int64 or, if `kind` is object, as Python integers.

        Raises
        ------
        StorageError
            Fewer numbers are left.
        """
        left = len(self._bits) - self._at
        if count * (1 + parameter) > left:
            raise StorageError(f"{left} bits are too few for {count} numbers")
        ends = np.flatnonzero(self._bits[self._at :])[:count]
        remainders = self._at + (int(ends[-1]) + 1 if len(ends) else 0)
        self._at = remainders + count * parameter
        if len(ends) < count or self._at > len(self._bits):
            raise StorageError(f"{left} bits hold fewer than {count} numbers")
        numbers: Integers = np.diff(ends, prepend=-1).astype(kind) - 1
        for bits in self._bits[remainders : self._at].reshape(count, parameter).T:
            numbers = (numbers << 1) + bits.astype(kind)
        return numbers

    def take(self, count: int) -> Bits:
        """Return the next `count` bits, or raise StorageError if fewer are left."""
        taken = self._bits[self._at : self._at + count]
        if len(taken) < count:
            raise StorageError(f"{len(taken)} bits are left where {count} are expected")
        self._at += count
        return taken

    def integers(self, count: int, width: int, kind: type) -> Integers:
        """Return the next `count` integers of `width` bits each, written by `bits_of_integers`."""
        integers: Integers = np.zeros(count, dtype=kind)
        for bits in self.take(count * width).reshape(count, width).T:
            integers = (integers << 1) + bits
        return integers.astype(kind, copy=False)

    def finish(self) -> None:
        """Raise StorageError unless only the padding of the last byte remains."""
        left = self._bits[self._at :]
        if len(left) >= 8 or np.any(left):
            raise StorageError("it has bits beyond those of its neurons")


def fold(integers: Integers) -> Integers:
    """Map integers 0, -1, 1, -2, 2, ... to numbers 0, 1, 2, 3, 4, ..."""
    folded: Integers = np.where(integers < 0, -2 * integers - 1, 2 * integers)
    return folded


def unfold(numbers: Integers) -> Integers:
    """Invert `fold`."""
    integers: Integers = (numbers >> 1) ^ -(numbers & 1)
    return integers
