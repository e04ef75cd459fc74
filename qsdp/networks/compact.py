"""Compact file format of networks on blocks whose second-layer weights are small multiples of a scale per output.

A file is five bytes that name the format, the contents, and their CRC-32. The contents begin with unsigned LEB128
integers: the number of outputs (zero for a scalar function), the number of runs of equal blocks, and for each run its
length and twice the side, plus one if the blocks are linear; for blocks of real weights a zero and the number of
columns. If there are such blocks, the number of weights that are not zero follows. Then come the scale of each output
in single precision and, if there are real weights, their scales. Golomb-Rice codes follow, with a byte for each
parameter that cannot be computed from preceding values. They are one string of bits, padded with zeros to a whole byte:
the number of neurons of each block and output, their second-layer weights, and the neurons of each block and output in
ascending order of their numbers, as differences of these; then the nonzero real weights, and the zeros before each.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import triangle_side
from qsdp._utils.validation import FloatArray, IntArray
from qsdp.block_layout import KINDS, WEIGHTS, Layout, check_layout
from qsdp.exceptions import StorageError
from qsdp.networks.storage import MAX_INPUTS, bits_of_integers, check_memory, fits_memory
from qsdp.networks.weights import FLOAT_BITS, count_floats, integer_bits, shared_columns

__all__ = [
    "MAGIC",
    "BitReader",
    "Bits",
    "encode",
    "encoded_bits",
    "fold",
    "integer_weights",
    "pack_neurons",
    "parameter_of",
    "read_compact",
    "unfold",
    "weights_memory",
]

#: Bits as numbers 0 and 1.
Bits = npt.NDArray[np.uint8]
#: Integers as int64, or as Python integers in an array of objects.
Integers = npt.NDArray[Any]

MAGIC = b"qsdB\x01"

#: Largest magnitude of an integer second-layer weight.
_LARGEST = 2**15
#: Bytes of memory that a block takes, about as many as its entries in three tuples and their copies.
_BLOCK_MEMORY = 256


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


def integer_weights(alpha: FloatArray) -> tuple[IntArray, FloatArray] | None:
    """Factor second-layer weights exactly into integers (m, C) and single-precision scales (C,).

    Return None if there are no such integers up to 2^15 in magnitude.
    """
    integers, scales = np.zeros(alpha.shape, dtype=np.int64), np.zeros(alpha.shape[1])
    for c, column in enumerate(alpha.T):
        used = np.flatnonzero(column)
        if not len(used):
            continue
        ratios = [value.as_integer_ratio() for value in np.abs(column[used]).tolist()]
        shared = math.lcm(*(below for _, below in ratios))
        # The greatest common divisor of the weights is a multiple of their scale, perhaps with more digits.
        divisor = Fraction(math.gcd(*(above * (shared // below) for above, below in ratios)), shared)
        limit = int(_LARGEST * divisor / Fraction(float(np.abs(column).max())))
        scale = next((s for s in map(_single, (divisor / k for k in _divisors(divisor, limit))) if s is not None), None)
        if scale is None:
            return None
        integers[used, c], scales[c] = np.rint(column[used] / scale).astype(np.int64), scale
    return integers, scales


def second_layer_bits(alpha: FloatArray, *, single: bool = False) -> int:
    """Return the size in bits of second-layer weights (m,) or (m, C), of which neurons may store a `single` one.

    Weights that the neurons of an output do not share may be integers times a scale of the output.
    """
    if not len(alpha):
        return 0
    weights = alpha.reshape(len(alpha), -1)
    n_bits = FLOAT_BITS * (len(alpha) if single else count_floats(alpha))
    factored = integer_weights(weights) if shared_columns(weights) is None else None
    if factored is None:
        return n_bits
    integers, scales = factored
    return min(n_bits, integer_bits(integers) * (len(alpha) if single else weights.size) + FLOAT_BITS * len(scales))


def _divisors(number: Fraction, limit: int) -> Iterator[int]:
    """Yield the integers up to `limit` in ascending order by which a float may be divided without new odd factors."""
    odd = number.numerator // (number.numerator & -number.numerator)
    k = np.arange(1, limit + 1)
    yield from k[odd % (k // (k & -k)) == 0].tolist()


def _single(number: Fraction) -> float | None:
    """Return the number as a float if it is exact in single precision, else None."""
    rounded = float(np.float32(float(number)))
    return rounded if rounded > 0.0 and Fraction(rounded) == number else None


def pack_neurons(network: Any) -> bytes | None:
    """Encode a network as the contents of a file, or return None if its weights are not integers or all zero.

    Neither the order of neurons is stored, nor signs that are absorbed in their weights. A neuron that serves several
    outputs is stored for each. None is also the result if the file would be so small that `read_compact` refused it.
    """
    factored, real = integer_weights(network.output_weights), integer_weights(network.column_weights)
    if factored is None or real is None or not (np.any(factored[0]) or np.any(real[0])):
        return None
    integers, scales = factored
    layout, gaps, weights = network.layout, [], []
    neurons, outputs = np.nonzero(integers)
    groups = network.block[neurons] * network.n_outputs + outputs
    counts = np.bincount(groups, minlength=layout.n_blocks * network.n_outputs)
    sorted_groups = np.argsort(groups, kind="stable")
    for some in np.split(sorted_groups, np.cumsum(counts[counts > 0])[:-1]) if len(neurons) else ():
        rows, (r, c) = neurons[some], divmod(int(groups[some[0]]), network.n_outputs)
        flat, side = layout.linear[r], layout.sizes[r]
        numbers, negated = _numbers_of(network.U[rows, :side], None if flat else network.V[rows, :side])
        q = np.where(negated, -integers[rows, c], integers[rows, c])
        order = np.lexsort((q, numbers))
        differences = np.diff(numbers[order], prepend=0)
        gaps.append(encode(differences, _parameter(len(rows), side, flat)))
        weights.append(q[order])
    # No weight is zero.
    coded = [_coded(counts), _coded(fold(np.concatenate([np.zeros(0, dtype=np.int64), *weights])) - 1)]
    head = _leb128(network.n_outputs if network.output_shape else 0)
    runs = [(key, len(list(run))) for key, run in groupby(zip(layout.all_sizes, layout.kinds, strict=True))]
    head += _leb128(len(runs))
    for (side, kind), length in runs:
        head += _leb128(length)
        head += _leb128(0) + _leb128(side) if kind == WEIGHTS else _leb128(2 * side + KINDS.index(kind))
    if layout.n_weights:
        q = real[0].ravel()
        used = np.flatnonzero(q)
        head += _leb128(len(used))
        coded.append(_coded(fold(q[used]) - 1))
        gaps.append(coded[-1][1])
        gaps.append(encode(np.diff(used, prepend=-1) - 1, _gap_parameter(len(used), len(q))))
    bits = np.concatenate([*(bits for _, bits in coded[:2]), *gaps])
    head += scales.astype("<f4").tobytes() + (real[1].astype("<f4").tobytes() if layout.n_weights else b"")
    head += bytes(parameter for parameter, _ in coded)
    body = MAGIC + head + np.packbits(bits).tobytes()
    memory = weights_memory(layout, len(neurons), network.n_outputs) + _BLOCK_MEMORY * layout.n_blocks
    if layout.side > MAX_INPUTS or not fits_memory(memory, len(body) + 4):
        return None
    return body + zlib.crc32(body).to_bytes(4, "little")


def read_compact(contents: bytes) -> tuple[Layout, tuple[int, ...], dict[str, npt.NDArray[Any]]]:
    """Decode layout, output shape, and U, V, alpha and block of a file; raise `StorageError` for any mismatch."""
    body = contents[:-4]
    if len(contents) < len(MAGIC) + 7 or zlib.crc32(body).to_bytes(4, "little") != contents[-4:]:
        raise StorageError("it is damaged: its contents do not match their digest")
    data = body[len(MAGIC) :]
    numbers = _Numbers(data)
    outputs = numbers.next()
    runs = [(numbers.next(), *numbers.block()) for _ in range(numbers.next(limit=len(data)))]
    C, R = max(outputs, 1), sum(count for count, _, _ in runs)
    p = sum(count * side for count, side, kind in runs if kind == WEIGHTS)
    used = numbers.next() if p else 0
    # Every block and output takes at least a bit, unless it has only weights.
    if 8 * len(data) < C * sum(count for count, _, kind in runs if kind != WEIGHTS) or used > min(8 * len(data), C * p):
        raise StorageError(f"{R} blocks and {C} outputs are more than {len(contents)} bytes hold")
    check_memory(_BLOCK_MEMORY * (R + p) + 8 * C * p, len(contents))
    if any(side > MAX_INPUTS for _, side, _ in runs):
        raise StorageError(f"a block has a side beyond {MAX_INPUTS}")
    blocks = [(side, kind) for count, side, kind in runs for _ in range(count)]
    layout = check_layout([side for side, _ in blocks], [kind for _, kind in blocks])
    scales = np.frombuffer(numbers.take(4 * C * (2 if p else 1)), dtype="<f4").astype(np.float64)
    if not np.all(np.isfinite(scales) & (scales >= 0.0)):
        raise StorageError("its scales are not finite")
    return (
        layout,
        (outputs,) if outputs else (),
        _read_neurons(numbers, layout, scales.reshape(-1, C), used, len(contents)),
    )


def weights_memory(layout: Layout, m: int, n_outputs: int) -> int:
    """Return the bytes of memory that the weights of m neurons take."""
    return m * (2 * layout.side + 8 * n_outputs)


def _read_neurons(
    numbers: _Numbers, layout: Layout, every_scale: FloatArray, used: int, n_bytes: int
) -> dict[str, npt.NDArray[Any]]:
    """Read neurons and real weights, of which `used` are not zero, with the scales of both in rows."""
    scales, parameters = every_scale[0], numbers.take(1 + len(every_scale))
    reader = BitReader(np.frombuffer(numbers.rest(), dtype=np.uint8))
    if max(parameters) > 52:
        raise StorageError("parameters are larger than integers")
    groups = list(_groups(layout, len(scales)))
    counts = reader.read(len(groups), parameters[0])
    # As Python integers, which do not overflow.
    m = sum(counts.tolist())
    if m > 8 * n_bytes:
        raise StorageError(f"{m} neurons are more than {n_bytes} bytes hold")
    check_memory(weights_memory(layout, m, len(scales)), n_bytes)
    q = unfold(reader.read(m, parameters[1]) + 1)
    if m + used == 0 or np.abs(q).max(initial=0) > _LARGEST:
        raise StorageError("it has neither neurons nor weights, or some beyond the largest")
    U, V = (np.ones((m, layout.side), dtype=np.int8) for _ in range(2))
    alpha, block, first = np.zeros((m, len(scales))), np.zeros(m, dtype=np.intp), 0
    for (r, c), count in zip(groups, counts.tolist(), strict=True):
        if count == 0:
            continue
        side, flat, rows = layout.sizes[r], layout.linear[r], slice(first, first + count)
        listed = np.cumsum(reader.read(count, _parameter(count, side, flat), object)).tolist()
        U[rows, :side], other = _vectors_of(listed, side, paired=not flat)
        V[rows, :side] = other if other is not None else 1
        alpha[rows, c], block[rows], first = q[rows] * scales[c], r, first + count
    weights = np.zeros((layout.n_weights, len(scales)))
    if layout.n_weights:
        integers = unfold(reader.read(used, parameters[2]) + 1)
        positions = np.cumsum(reader.read(used, _gap_parameter(used, weights.size)) + 1) - 1
        if np.abs(integers).max(initial=0) > _LARGEST or np.any(positions >= weights.size):
            raise StorageError("it has weights beyond the largest or the last")
        weights.ravel()[positions] = integers
        weights *= every_scale[1]
    return {"U": U, "V": V, "alpha": alpha, "block": block, "weights": weights}


def _groups(layout: Layout, n_outputs: int) -> Iterator[tuple[int, int]]:
    """Yield (block, output) pairs in the order in which a file stores their neurons."""
    for r in range(layout.n_blocks):
        for c in range(n_outputs):
            yield r, c


def _numbers_of(
    U: npt.NDArray[np.int8], V: npt.NDArray[np.int8] | None
) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.bool_]]:
    r"""Convert neurons to numbers, and return whether their second-layer weights must change their signs.

    The digits of a vector's number are its signs, all changed if the first one is positive. Pairs are counted along a
    triangle, so that :math:`(u, v)`, :math:`(v, u)` and :math:`(\pm u, \pm v)` have the same number. V is None for
    neurons of linear blocks.
    """
    sides = [U] if V is None else [U, V]
    numbers = []
    for signs in sides:
        rows = np.packbits((signs > 0) != (signs[:, :1] > 0), axis=1)
        padding = -signs.shape[1] % 8
        numbers.append(np.array([int.from_bytes(row.tobytes(), "big") >> padding for row in rows], dtype=object))
    negated = np.logical_xor.reduce([signs[:, 0] > 0 for signs in sides])
    if V is None:
        return numbers[0], negated
    smaller, larger = np.minimum(*numbers), np.maximum(*numbers)
    return larger * (larger + 1) // 2 + smaller, negated


def _vectors_of(
    numbers: list[int], side: int, *, paired: bool
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8] | None]:
    """Invert `_numbers_of`; raise `StorageError` for numbers out of range."""
    if not paired:
        return _signs_of(numbers, side), None
    larger = [triangle_side(number) for number in numbers]
    smaller = [number - root * (root + 1) // 2 for number, root in zip(numbers, larger, strict=True)]
    return _signs_of(smaller, side), _signs_of(larger, side)


def _signs_of(numbers: list[int], side: int) -> npt.NDArray[np.int8]:
    """Convert the numbers of sign vectors to the vectors, (m, side), of which the first sign is negative."""
    if max(numbers) >= 2 ** (side - 1):
        raise StorageError("neurons have numbers beyond those of their sides")
    n_bytes = -(-side // 8)
    packed = np.frombuffer(b"".join(number.to_bytes(n_bytes, "big") for number in numbers), dtype=np.uint8)
    bits = np.unpackbits(packed.reshape(len(numbers), n_bytes), axis=1)[:, 8 * n_bytes - side :]
    return 2 * bits.astype(np.int8) - 1


def _parameter(count: int, side: int, flat: bool) -> int:
    """Compute the Golomb-Rice parameter for the gaps between `count` sorted numbers from their number and range."""
    bits = (side - 1) if flat else 2 * (side - 1) - 1
    return max(0, bits - (count + 1).bit_length() + 1)


def _gap_parameter(count: int, size: int) -> int:
    """Compute the Golomb-Rice parameter for the gaps between `count` of `size` positions."""
    return max(0, (size // (count + 1)).bit_length() - 1)


def _coded(numbers: npt.NDArray[Any]) -> tuple[int, Bits]:
    parameter = parameter_of(numbers)
    return parameter, encode(numbers, parameter)


def _leb128(number: int) -> bytes:
    encoded = bytearray()
    while number >= 128:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


class _Numbers:
    """Sequential reader of the integers and bytes of a file."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def next(self, limit: int = 2**31) -> int:
        number, shift = 0, 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 127) << shift
            shift += 7
            if number > limit or shift > 35:
                raise StorageError("its numbers are too large")
            if byte < 128:
                return number

    def block(self) -> tuple[int, str]:
        """Read the side and the kind of a block."""
        side, flat = divmod(self.next(), 2)
        if side == 0 and flat == 0:
            return self.next(), WEIGHTS
        return side, KINDS[flat]

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += count
        if len(taken) < count:
            raise StorageError("it ends too early")
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)
