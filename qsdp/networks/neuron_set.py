"""Storage of neurons as a set, which saves the bits of their order and of signs that do not affect the function."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import triangle_side
from qsdp.exceptions import StorageError
from qsdp.networks.coding import BitReader, encode, encoded_bits, parameter_of
from qsdp.networks.storage import MOST_INPUTS, check_memory
from qsdp.networks.weights import FLOAT_BITS, count_floats, pack_alpha, shared_columns, unpack_alpha

__all__ = ["KIND", "numbers_of", "pack_set", "set_bits", "set_memory", "unpack_set", "vectors_of"]

KIND = "neuron-set"

#: Neurons of each output as differences of their sorted numbers, see `_numbers_of`.
_Gaps = list[npt.NDArray[Any]]


def set_bits(U: npt.NDArray[np.int8], V: npt.NDArray[np.int8], alpha: Any, levels: int, lifted: bool) -> int:
    """Compute the size of `pack_set`'s result in bits: codes, a byte per parameter, and the second layer."""
    codes = [encoded_bits(one, parameter_of(one)) + 8 for one in _gaps(U, V, alpha, levels, lifted)]
    return sum(codes) + FLOAT_BITS * count_floats(alpha)


def pack_set(
    U: npt.NDArray[np.int8], V: npt.NDArray[np.int8], alpha: Any, levels: int, lifted: bool
) -> dict[str, npt.NDArray[Any]]:
    """Encode the neurons of every output, sorted by their numbers (`_numbers_of`), as differences of numbers.

    The second-layer weights of an output are equal, so its neurons may be listed in any order. With b bits of weights
    per neuron, m neurons take about m log2(m / e) bits less than m b.
    """
    gaps = _gaps(U, V, alpha, levels, lifted)
    parameters = [parameter_of(one) for one in gaps]
    bits = [encode(one, k) for one, k in zip(gaps, parameters, strict=True)]
    neurons, k = np.packbits(np.concatenate(bits)), np.array(parameters, dtype=np.uint32)
    return {"neurons": neurons, "parameters": k, **pack_alpha(alpha, neurons.nbytes + k.nbytes)}


def set_memory(m: int, D: int) -> int:
    """Return the bytes of memory that decoding m neurons of D entries takes, with digits as Python integers."""
    return 32 * m * D


def unpack_set(
    arrays: dict[str, npt.NDArray[Any]], m: int, d: int, levels: int, lifted: bool
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8], Any]:
    """Decode U, V and alpha of m neurons from `pack_set`'s arrays; raise `StorageError` for any mismatch."""
    if not {"neurons", "parameters"} < set(arrays):
        raise StorageError(f"arrays {sorted(arrays)} are not a set of neurons")
    packed, parameters = arrays["neurons"], arrays["parameters"]
    if packed.dtype != np.uint8 or packed.shape != (packed.size,):
        raise StorageError("neurons of a set must be bytes")
    if d > MOST_INPUTS or m > 8 * packed.size:
        raise StorageError(f"{m} neurons of {d} inputs are more than {packed.size} bytes hold")
    check_memory(set_memory(m, d + lifted), packed.size)
    alpha = unpack_alpha(arrays, m, {"neurons", "parameters"})
    shared = shared_columns(alpha.reshape(m, -1))
    if shared is None:
        raise StorageError("the neurons of an output must have one second-layer weight")
    sizes = shared[0]
    radices = _radices(d, levels, lifted)
    # The number of vectors, counting a vector and its opposite once.
    half = (_count(radices) + 1) // 2
    if parameters.dtype != np.uint32 or parameters.shape != (len(sizes),):
        raise StorageError(f"parameters of shape {parameters.shape} do not describe {len(sizes)} outputs")
    if np.any(parameters > 2 * half.bit_length()):
        raise StorageError("parameters are larger than numbers of neurons")
    reader = BitReader(packed)
    gaps = [reader.read(size, k, object) for size, k in zip(sizes, parameters.tolist(), strict=True)]
    numbers = np.concatenate([np.cumsum(one) for one in gaps])
    pairs = [divmod(number, 2) for number in numbers.tolist()]
    larger, smaller = zip(*(_pair_of(index) for index, _ in pairs), strict=True)
    if max(larger) >= half:
        raise StorageError("neurons have numbers beyond those of their levels")
    signs = np.array([1 - 2 * opposite for _, opposite in pairs], dtype=np.int8)
    U, V = (_weights_of(np.array(one, dtype=object), radices) for one in (smaller, larger))
    U *= signs[:, None]
    again = pack_set(U, V, alpha, levels, lifted)
    if not all(np.array_equal(again[name], arrays[name]) for name in again):
        raise StorageError("its neurons are not coded in canonical form")
    return U, V, alpha


def numbers_of(
    U: npt.NDArray[np.int8], V: npt.NDArray[np.int8] | None
) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.bool_]]:
    """Encode each pair of sign vectors (each vector if V is None) as a number; also return whether the sign changed.

    The numbers are those of `pack_set` without the last bit, which encodes the sign change.
    """
    numbers = _numbers_of(U, U if V is None else V, 2, False)
    if V is not None:
        return numbers >> 1, (numbers & 1).astype(bool)
    # The smaller of a vector's number and its opposite's has the first sign negative.
    larger = np.array([_pair_of(number >> 1)[0] for number in numbers.tolist()], dtype=object)
    return larger, U[:, 0] > 0


def vectors_of(
    numbers: npt.NDArray[np.object_], side: int, *, paired: bool
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8] | None]:
    """Invert `numbers_of`; raise `StorageError` for numbers out of range."""
    half = 2 ** (side - 1)
    listed = [_pair_of(number) for number in numbers.tolist()] if paired else [(n, n) for n in numbers.tolist()]
    if any(larger >= half for larger, _ in listed):
        raise StorageError("neurons have numbers beyond those of their sides")
    larger, smaller = (np.array([pair[k] for pair in listed], dtype=object) for k in (0, 1))
    V = _weights_of(larger, [2] * side)
    return (_weights_of(smaller, [2] * side), V) if paired else (V, None)


def _gaps(U: npt.NDArray[np.int8], V: npt.NDArray[np.int8], alpha: Any, levels: int, lifted: bool) -> _Gaps:
    shared = shared_columns(alpha.reshape(len(U), -1))
    assert shared is not None
    numbers = _numbers_of(U, V, levels, lifted)
    ends = np.cumsum(shared[0])[:-1]
    return [np.diff(np.sort(one), prepend=0) for one in np.split(numbers, ends)]


def _numbers_of(U: npt.NDArray[np.int8], V: npt.NDArray[np.int8], levels: int, lifted: bool) -> npt.NDArray[np.object_]:
    r"""Map each neuron to an integer that is equal for :math:`(u, v)`, :math:`(v, u)` and :math:`(-u, -v)`.

    The digits of a vector's number are its weights; the vector gets the smaller of its number and its opposite's.
    Pairs are counted along a triangle. A neuron's number is twice its pair's, plus one if just one of u, v was negated.
    """
    radices = _radices(U.shape[1] - lifted, levels, lifted)
    last = _count(radices) - 1
    found = []
    turned = np.zeros(len(U), dtype=np.bool_)
    for weights in (U, V):
        digits = (weights.astype(np.int16) + (np.array(radices) - 1)) // 2
        number = _joined(digits, radices)
        opposite = last - number
        turned ^= opposite < number
        found.append(np.minimum(number, opposite))
    # The zero vector, which exists for odd numbers of levels, is its own opposite and does not count as negated.
    turned &= ~np.any([2 * number == last for number in found], axis=0)
    smaller, larger = np.minimum(*found), np.maximum(*found)
    pairs = larger * (larger + 1) // 2 + smaller
    numbers: npt.NDArray[np.object_] = 2 * pairs + turned.astype(np.int64)
    return numbers


def _pair_of(index: int) -> tuple[int, int]:
    """Convert an index of the lower triangle to its row and column: the larger and the smaller number of a pair."""
    larger = triangle_side(index)
    return larger, index - larger * (larger + 1) // 2


def _joined(digits: npt.NDArray[np.int16], radices: list[int]) -> npt.NDArray[np.object_]:
    """Convert rows of digits (m, D) to numbers."""
    if set(radices) == {2}:
        padding = -len(radices) % 8
        rows = np.packbits(digits.astype(np.uint8), axis=1)
        return np.array([int.from_bytes(row.tobytes(), "big") >> padding for row in rows], dtype=object)
    number = np.zeros(len(digits), dtype=object)
    for column, radix in zip(digits.T, radices, strict=True):
        number = number * radix + column.astype(object)
    return number


def _weights_of(numbers: npt.NDArray[np.object_], radices: list[int]) -> npt.NDArray[np.int8]:
    """Convert numbers to weight vectors (m, D)."""
    if set(radices) == {2}:
        # Bits in place of divisions, whose time would grow with the square of the side.
        n_bytes = -(-len(radices) // 8)
        packed = np.frombuffer(b"".join(int(number).to_bytes(n_bytes, "big") for number in numbers), dtype=np.uint8)
        bits = np.unpackbits(packed.reshape(len(numbers), n_bytes), axis=1)[:, 8 * n_bytes - len(radices) :]
        return 2 * bits.astype(np.int8) - 1
    columns = []
    for radix in reversed(radices):
        columns.append((2 * (numbers % radix) - (radix - 1)).astype(np.int8))
        numbers = numbers // radix
    return np.stack(columns[::-1], axis=1)


def _count(radices: list[int]) -> int:
    """Return the number of vectors whose entries take so many values: all entries but the last take equally many."""
    return int(radices[0] ** (len(radices) - 1) * radices[-1])


def _radices(d: int, levels: int, lifted: bool) -> list[int]:
    """Return the number of allowed values of each weight of a vector."""
    return [levels] * d + [2] * lifted
