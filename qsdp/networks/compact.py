"""Compact file format of networks on blocks: neurons as sets, or integer forms, in a container of nine bytes.

A file is four bytes that name the format, one for the kind, the contents, and their CRC-32. The contents begin with
unsigned LEB128 integers: the number of outputs (zero for a scalar function), the number of runs of equal blocks, and
for each run its length and twice the side, plus one if the blocks are linear; then the scale of each output in single
precision. Golomb-Rice codes follow; a parameter takes a byte unless it can be computed from preceding values. The rest
is one string of bits, padded with zeros to a whole byte.
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

from qsdp._utils.validation import FloatArray, IntArray
from qsdp.blocks import KINDS, Layout, check_layout
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.coding import BitReader, Bits, encode, fold, parameter_of, unfold
from qsdp.networks.neuron_set import numbers_of, vectors_of
from qsdp.networks.storage import MOST_INPUTS, check_memory, fits_memory

__all__ = ["FORM", "MAGIC", "NEURONS", "integer_weights", "pack_form", "pack_neurons", "read_compact", "weights_memory"]

MAGIC = b"qsdB"

#: Kinds of contents.
NEURONS, FORM = 1, 2

#: Largest magnitude of an integer second-layer weight.
_LARGEST = 2**15
#: Bytes of memory that a block takes, about as many as its entries in three tuples and their copies.
_BLOCK_MEMORY = 256


def integer_weights(alpha: FloatArray) -> tuple[IntArray, FloatArray]:
    """Factor second-layer weights exactly into integers (m, C) and single-precision scales (C,).

    Raises
    ------
    InvalidInputError
        There are no such integers up to 2^15 in magnitude.
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
        most = int(_LARGEST * divisor / Fraction(float(np.abs(column).max())))
        scale = next((s for s in map(_single, (divisor / k for k in _divisors(divisor, most))) if s is not None), None)
        if scale is None:
            raise InvalidInputError(
                "alpha must be integers up to 2^15 times one scale of single precision for each output to be stored "
                "in a few bits: use qsdp.refit(..., alpha_bits=8)"
            )
        integers[used, c], scales[c] = np.rint(column[used] / scale).astype(np.int64), scale
    return integers, scales


def _divisors(number: Fraction, most: int) -> Iterator[int]:
    """Yield the integers up to `most` in ascending order by which a float may be divided without new odd factors."""
    odd = number.numerator // (number.numerator & -number.numerator)
    k = np.arange(1, most + 1)
    yield from k[odd % (k // (k & -k)) == 0].tolist()


def _single(number: Fraction) -> float | None:
    """Return the number as a float if it is exact in single precision, else None."""
    rounded = float(np.float32(float(number)))
    return rounded if rounded > 0.0 and Fraction(rounded) == number else None


def pack_neurons(network: Any) -> bytes:
    """Encode a network, whose second-layer weights are integers times a scale per output, as file contents.

    The neurons of each output and block are listed in ascending order of their numbers, see
    `qsdp.networks.neuron_set`, as the differences of these: neither their order is stored, nor signs that are absorbed
    in their weights. A neuron that serves several outputs is stored for each.
    """
    integers, scales = integer_weights(network.output_weights)
    layout, gaps, weights = network.layout, [], []
    neurons, outputs = np.nonzero(integers)
    if not len(neurons):
        raise InvalidInputError("alpha must not be all zero to be stored in a few bits: use form='neurons'")
    groups = network.block[neurons] * network.n_outputs + outputs
    counts = np.bincount(groups, minlength=layout.n_blocks * network.n_outputs)
    sorted_groups = np.argsort(groups, kind="stable")
    for some in np.split(sorted_groups, np.cumsum(counts[counts > 0])[:-1]):
        own, (r, c) = neurons[some], divmod(int(groups[some[0]]), network.n_outputs)
        flat, side = layout.linear[r], layout.sizes[r]
        numbers, negated = numbers_of(network.U[own, :side], None if flat else network.V[own, :side])
        q = np.where(negated, -integers[own, c], integers[own, c])
        order = np.lexsort((q, numbers.astype(object)))
        differences = np.diff(numbers[order], prepend=0)
        gaps.append(encode(differences, _parameter(len(own), side, flat)))
        weights.append(q[order])
    # No weight is zero.
    coded = [_coded(counts), _coded(fold(np.concatenate(weights)) - 1)]
    bits = np.concatenate([*(bits for _, bits in coded), *gaps])
    memory = weights_memory(layout, len(neurons), network.n_outputs)
    return _contents(NEURONS, network, scales, [parameter for parameter, _ in coded], bits, memory)


def pack_form(form: Any) -> bytes:
    """Encode an integer form as file contents, with a separate Golomb-Rice parameter for every output and block."""
    layout = form.layout
    parts = []
    for r, c in _groups(layout, form.n_outputs):
        parts.append(_coded(fold(form.integers[c, layout.starts[r] : layout.starts[r + 1]])))
    bits = np.concatenate([bits for _, bits in parts])
    return _contents(FORM, form, form.scales, [parameter for parameter, _ in parts], bits, 0)


def read_compact(contents: bytes) -> tuple[int, Layout, tuple[int, ...], dict[str, npt.NDArray[Any]]]:
    """Decode kind, layout, output shape and arrays of a file; raise `StorageError` for any mismatch.

    The arrays are U, V, alpha and block of neurons, or integers and scales of a form.
    """
    body = contents[:-4]
    if len(contents) < 12 or zlib.crc32(body).to_bytes(4, "little") != contents[-4:]:
        raise StorageError("it is damaged: its contents do not match their digest")
    kind, data = body[4], body[5:]
    if kind not in (NEURONS, FORM):
        raise StorageError(f"its contents are of an unknown kind, {kind}")
    numbers = _Numbers(data)
    outputs = numbers.next()
    runs = [(numbers.next(), *divmod(numbers.next(), 2)) for _ in range(numbers.next(limit=len(data)))]
    C, R = max(outputs, 1), sum(count for count, _, _ in runs)
    entries = sum(count * (side if flat else side * (side + 1) // 2) for count, side, flat in runs)
    # Every block and output takes at least a bit, and every integer of a form.
    if C * (entries if kind == FORM else R) > 8 * len(data):
        raise StorageError(f"{R} blocks and {C} outputs are more than {len(contents)} bytes hold")
    check_memory(_BLOCK_MEMORY * R, len(contents))
    if any(side > MOST_INPUTS for _, side, _ in runs):
        raise StorageError(f"a block has a side beyond {MOST_INPUTS}")
    blocks = [(side, KINDS[flat]) for count, side, flat in runs for _ in range(count)]
    layout = check_layout([side for side, _ in blocks], [kind for _, kind in blocks])
    scales = np.frombuffer(numbers.take(4 * C), dtype="<f4").astype(np.float64)
    if not np.all(np.isfinite(scales) & (scales >= 0.0)):
        raise StorageError("its scales are not finite")
    shape = (outputs,) if outputs else ()
    if kind == FORM:
        return kind, layout, shape, {"integers": _read_form(numbers, layout, C), "scales": scales}
    return kind, layout, shape, _read_neurons(numbers, layout, scales, len(contents))


def _read_form(numbers: _Numbers, layout: Layout, C: int) -> IntArray:
    parameters = list(numbers.take(layout.n_blocks * C))
    reader = BitReader(np.frombuffer(numbers.rest(), dtype=np.uint8))
    integers = np.zeros((C, layout.n_entries), dtype=np.int64)
    for (r, c), parameter in zip(_groups(layout, C), parameters, strict=True):
        if parameter > 52:
            raise StorageError("parameters are larger than integers")
        own = slice(layout.starts[r], layout.starts[r + 1])
        integers[c, own] = unfold(reader.read(own.stop - own.start, parameter))
    return integers


def weights_memory(layout: Layout, m: int, n_outputs: int) -> int:
    """Return the bytes of memory that the weights of m neurons take."""
    return m * (2 * layout.side + 8 * n_outputs)


def _read_neurons(numbers: _Numbers, layout: Layout, scales: FloatArray, n_bytes: int) -> dict[str, npt.NDArray[Any]]:
    parameters = numbers.take(2)
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
    if m == 0 or np.abs(q).max() > _LARGEST:
        raise StorageError("it has no neurons, or weights beyond the largest")
    U, V = (np.ones((m, layout.side), dtype=np.int8) for _ in range(2))
    alpha, block, first = np.zeros((m, len(scales))), np.zeros(m, dtype=np.intp), 0
    for (r, c), count in zip(groups, counts.tolist(), strict=True):
        if count == 0:
            continue
        side, flat, own = layout.sizes[r], layout.linear[r], slice(first, first + count)
        listed = np.cumsum(reader.read(count, _parameter(count, side, flat), object))
        U[own, :side], other = vectors_of(listed, side, paired=not flat)
        V[own, :side] = other if other is not None else 1
        alpha[own, c], block[own], first = q[own] * scales[c], r, first + count
    return {"U": U, "V": V, "alpha": alpha, "block": block}


def _contents(kind: int, function: Any, scales: FloatArray, parameters: list[int], bits: Bits, memory: int) -> bytes:
    layout = function.layout
    head = _leb128(function.n_outputs if function.output_shape else 0)
    runs = [(key, len(list(run))) for key, run in groupby(zip(layout.sizes, layout.linear, strict=True))]
    head += _leb128(len(runs))
    for (side, flat), length in runs:
        head += _leb128(length) + _leb128(2 * side + flat)
    head += scales.astype("<f4").tobytes() + bytes(parameters)
    body = MAGIC + bytes([kind]) + head + np.packbits(bits).tobytes()
    if layout.side > MOST_INPUTS or not fits_memory(memory + _BLOCK_MEMORY * layout.n_blocks, len(body) + 4):
        raise InvalidInputError(
            f"a network on {layout.n_blocks} blocks of sides up to {layout.side} must not be stored in "
            f"{len(body) + 4} bytes, fewer than load_network trusts for so many weights; use form='neurons'"
        )
    return body + zlib.crc32(body).to_bytes(4, "little")


def _groups(layout: Layout, n_outputs: int) -> Iterator[tuple[int, int]]:
    """Yield (block, output) pairs in the order in which a file stores their neurons."""
    for r in range(layout.n_blocks):
        for c in range(n_outputs):
            yield r, c


def _parameter(count: int, side: int, flat: bool) -> int:
    """Compute the Golomb-Rice parameter for the gaps between `count` sorted numbers from their number and range."""
    bits = (side - 1) if flat else 2 * (side - 1) - 1
    return max(0, bits - (count + 1).bit_length() + 1)


def _coded(numbers: npt.NDArray[Any]) -> tuple[int, Bits]:
    parameter = parameter_of(numbers)
    return parameter, encode(numbers, parameter)


def _leb128(number: int) -> bytes:
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


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

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += count
        if len(taken) < count:
            raise StorageError("it ends too early")
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)
