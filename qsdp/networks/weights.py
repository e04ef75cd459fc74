"""Weights of networks: validation, number of bits and storage."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.parallel import chunks
from qsdp._utils.validation import (
    FloatArray,
    IntArray,
    check_matrix,
    check_numbers,
    check_targets,
    read_only,
    read_only_copy,
)
from qsdp.block_layout import Layout
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.storage import check_memory, fits_memory

__all__ = [
    "FLOAT_BITS",
    "LARGEST_WEIGHT",
    "bits_of",
    "check_alpha",
    "check_column_weights",
    "check_signs",
    "check_weights",
    "count_floats",
    "owners_of",
    "pack_alpha",
    "pack_weights",
    "shared_columns",
    "signed_entries",
    "unpack_alpha",
    "unpack_weights",
    "weight_bits",
]

#: Bits of a real number or a count in every size that is reported; files store numbers in double precision.
FLOAT_BITS = 32

#: Largest magnitude of a first-layer weight, an 8-bit integer.
LARGEST_WEIGHT = 127


def bits_of(n_values: int) -> int:
    """Return ceil(log2(n)), the number of bits that distinguish n values."""
    return (n_values - 1).bit_length()


def check_weights(name: str, weights: Any, levels: int, lifted: bool) -> npt.NDArray[np.int8]:
    """Check that all first-layer weights are levels; return them as a read-only int8 array."""
    array = check_matrix(name, weights, unread_dtypes=["i1"])
    if array.shape[1] <= lifted:
        raise InvalidInputError(f"{name} must have at least one input; got shape {array.shape}")
    M = levels - 1
    parts = [(array[:, :-1], M), (array[:, -1:], 1)] if lifted else [(array, M)]
    for whole, largest in parts:
        for rows in chunks(len(whole), whole.shape[1]):
            part = whole[rows]
            wrong = (part < -largest) | (part > largest)
            if part.dtype == np.int8:
                wrong |= np.bitwise_and(part, 1) != (largest & 1)
            else:
                wrong |= (part != np.rint(part)) | ((part - largest) % 2 != 0)
            if np.any(wrong):
                raise InvalidInputError(
                    f"{name} must have entries {_level_names(largest)} only; found {part[wrong][0]:g}"
                )
    if array.dtype == np.int8 and array.base is None and not array.flags.writeable and array.flags.c_contiguous:
        # The weights of another network, or an array that its owner has made read-only, cannot change: no copy needed.
        return np.asarray(array, dtype=np.int8)
    return read_only(array.astype(np.int8, copy=True))


def _level_names(M: int) -> str:
    if M == 1:
        return "-1 and +1"
    return ", ".join(str(v) for v in range(-M, M + 1, 2)) if M < 6 else f"{-M}, {2 - M}, ..., {M}"


def check_alpha(alpha: Any, n_neurons: int) -> FloatArray:
    """Check that second-layer weights (m,) or (m, C) are finite; return them as a read-only array."""
    array = check_targets("alpha", alpha, length=None) if n_neurons else check_numbers("alpha", alpha, "(0,) or (0, C)")
    if array.shape[0] != n_neurons:
        raise InvalidInputError(f"alpha must have {n_neurons} entries, one per neuron; got {array.shape[0]}")
    if array.ndim not in {1, 2} or (array.ndim == 2 and array.shape[1] == 0):
        raise InvalidInputError(f"alpha must have shape (0,) or (0, C) without neurons; got {array.shape}")
    return read_only_copy(array)


def check_signs(
    U: Any, V: Any, block: Any, layout: Layout
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8], npt.NDArray[np.intp]]:
    """Check signs of neurons in blocks and the numbers of these, and return them as read-only arrays."""
    if layout.n_weights and len(U) == len(V) == 0:
        # The weights are a network without neurons.
        U = V = np.zeros((0, layout.side), dtype=np.int8)
    else:
        U, V = check_matrix("U", U, unread_dtypes=["i1"]), check_matrix("V", V, unread_dtypes=["i1"])
    if not layout.n_blocks and len(U):
        raise InvalidInputError(f"U and V must be empty, since no block has neurons; got shape {U.shape}")
    if U.shape[1] != layout.side or V.shape != U.shape:
        raise InvalidInputError(f"U and V must have shapes (m, {layout.side}); got {U.shape} and {V.shape}")
    m, R = len(U), layout.n_blocks
    uncounted = " (blocks of kind 'weights' are not counted)" if layout.weights else ""
    wanted = f"block must have {m} numbers from 0 to {R - 1}, one for each neuron{uncounted}"
    if block is None and R > 1 and m:
        raise InvalidInputError(f"{wanted}; got None")
    numbers = check_numbers("block", np.zeros(m) if block is None else block, "(m,)")
    if numbers.shape != (m,) or np.any((numbers < 0) | (numbers >= R) | (numbers != np.rint(numbers))):
        raise InvalidInputError(wanted)
    block = read_only(numbers.astype(np.intp))
    for name, weights, inside in zip(("U", "V"), (U, V), signed_entries(layout, block), strict=True):
        if not np.array_equal(np.abs(weights), inside):
            raise InvalidInputError(
                f"{name} must have entries -1 and +1 inside the sides of the neurons' blocks"
                f"{', 0 in linear blocks' * (name == 'V')}, and 0 beyond"
            )
    return read_only_copy(U.astype(np.int8)), read_only_copy(V.astype(np.int8)), block


def check_column_weights(weights: Any, layout: Layout, alpha: FloatArray) -> FloatArray:
    """Check real weights of the columns of a layout, with the outputs of alpha, and return them read-only."""
    shape = (layout.n_weights, *alpha.shape[1:])
    if weights is None:
        return read_only(np.zeros(shape))
    array = check_numbers("weights", weights, f"{shape}")
    if array.shape != shape:
        raise InvalidInputError(
            f"weights must have the shape {shape}, a number for each column of the blocks of kind 'weights' and each "
            f"output; got {array.shape}"
        )
    return read_only_copy(array)


def signed_entries(layout: Layout, block: npt.NDArray[Any]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return masks of the entries of U and V that are weights of neurons in these blocks."""
    inside = layout.used[block]
    return inside, inside & ~np.array(layout.linear, dtype=bool)[block, None]


def shared_columns(alpha: FloatArray) -> tuple[list[int], list[float]] | None:
    """Return neuron counts and shared weights per output; None unless neurons are grouped by output with equal weights.

    The weights have the shape (m, C).
    """
    if np.any((alpha != 0.0).sum(axis=1) > 1):
        return None
    owners = owners_of(alpha)
    if np.any(np.diff(owners) < 0):
        return None
    sizes = np.bincount(owners, minlength=alpha.shape[1])
    values = [float(alpha[owners == k, k][0]) if size else 0.0 for k, size in enumerate(sizes)]
    if any(np.any(alpha[owners == k, k] != value) for k, value in enumerate(values)):
        return None
    return [int(size) for size in sizes], values


def owners_of(alpha: FloatArray) -> npt.NDArray[np.intp]:
    """Assign an output to each neuron, for weights of shape (m, C) with at most one nonzero per row.

    A neuron of weight zero is assigned to an output without nonzero weights: the first such output from the previous
    neuron's output on, or else the first of all such outputs.
    """
    owners: npt.NDArray[np.intp] = np.argmax(alpha != 0.0, axis=1)
    idle, unused = np.flatnonzero(~alpha.any(axis=1)), np.flatnonzero(~alpha.any(axis=0))
    for j in idle if len(unused) else ():
        later = unused[unused >= (owners[j - 1] if j else 0)]
        owners[j] = later[0] if len(later) else unused[0]
    return owners


def count_floats(alpha: FloatArray) -> int:
    """Count the numbers that store second-layer weights."""
    return sum(array.size for array in pack_alpha(alpha, alpha.nbytes).values())


def pack_alpha(alpha: FloatArray, n_bytes: int) -> dict[str, npt.NDArray[Any]]:
    """Encode second-layer weights (m,) or (m, C) as the arrays of a file whose first layer takes `n_bytes`.

    Shared weights take one float per output, and one size per output unless the function is scalar. They are written
    in full if the memory for them would be out of proportion to the file, so that it can be read.
    """
    shared = shared_columns(alpha.reshape(len(alpha), -1))
    if shared is None or not fits_memory(alpha.nbytes, n_bytes):
        return {"alpha": alpha}
    sizes, values = shared
    packed = {"shared": np.array(values), "sizes": np.array(sizes, dtype=np.int64)}
    return packed if alpha.shape[1:] else {"alpha": packed["shared"]}


def unpack_alpha(arrays: dict[str, npt.NDArray[Any]], m: int, others: set[str]) -> FloatArray:
    """Invert `pack_alpha` for an archive that also contains the arrays `others`."""
    names = set(arrays) - others
    if names == {"single"}:
        arrays, names = {"alpha": arrays["single"]}, {"alpha"}
    if names == {"alpha"}:
        alpha = arrays["alpha"]
        if alpha.shape == (1,):
            alpha = np.repeat(alpha, m)
        if alpha.dtype != np.float64 or alpha.ndim not in {1, 2} or len(alpha) != m:
            raise StorageError(f"alpha of shape {alpha.shape} does not belong to {m} neurons")
        return alpha
    if names != {"shared", "sizes"}:
        raise StorageError(f"arrays {sorted(arrays)} are not those of a network")
    shared, sizes = arrays["shared"], arrays["sizes"]
    if shared.dtype != np.float64 or sizes.dtype != np.int64 or not shared.shape == sizes.shape == (sizes.size,):
        raise StorageError("shared second-layer weights do not fit together")
    if np.any(sizes < 0) or np.any(sizes > m) or int(sizes.sum()) != m:
        raise StorageError(f"outputs of sizes {sizes[:8].tolist()} do not have {m} neurons together")
    check_memory(8 * m * len(shared), sum(arrays[name].nbytes for name in others))
    full = np.zeros((m, len(shared)))
    full[np.arange(m), np.repeat(np.arange(len(shared)), sizes)] = np.repeat(shared, sizes)
    return full


def weight_bits(weights: FloatArray, factored: tuple[IntArray, FloatArray] | None) -> int:
    """Return the size in bits of real weights (p, C), which may be integers times scales, see `BilinearNetwork`."""
    sizes = [_fewest_bits(weights, FLOAT_BITS)]
    if factored is not None and weights.size:
        integers, scales = factored
        sizes.append(_fewest_bits(weights, integer_bits(integers)) + FLOAT_BITS * len(scales))
    return min(sizes)


def integer_bits(integers: IntArray) -> int:
    """Return the number of bits, sign included, of the largest of some integers."""
    return (2 * int(np.abs(integers).max(initial=0))).bit_length()


def _fewest_bits(weights: FloatArray, width: int) -> int:
    """Return the bits of weights of the same width, or of a bit for each weight and those that are not zero."""
    return min(width * weights.size, weights.size + width * int(np.count_nonzero(weights)))


def pack_weights(weights: FloatArray) -> dict[str, npt.NDArray[Any]]:
    """Encode real weights (p,) or (p, C) as arrays of a file: all, or the nonzero ones and a mask if that is less."""
    if not weights.size:
        return {}
    if _fewest_bits(weights, FLOAT_BITS) == FLOAT_BITS * weights.size:
        return {"weights": weights}
    used = weights.ravel() != 0.0
    return {"weights": weights.ravel()[used], "used_weights": np.packbits(used)}


def unpack_weights(arrays: dict[str, npt.NDArray[Any]], shape: tuple[int, ...]) -> FloatArray:
    """Invert `pack_weights`, removing its arrays from those of a file."""
    empty = np.zeros(0)
    size, values, mask = math.prod(shape), arrays.pop("weights", empty), arrays.pop("used_weights", None)
    if values.dtype != np.float64:
        raise StorageError("weights must be floats")
    if mask is None:
        if values.size != size or (size and values.shape != shape):
            raise StorageError(f"weights must have the shape {shape}; the file has {values.shape}")
        weights = values.reshape(shape)
    else:
        if mask.dtype != np.uint8 or mask.shape != (-(-size // 8),):
            raise StorageError("the mask of the weights does not fit their number")
        used = np.unpackbits(mask)
        if np.any(used[size:]) or values.shape != (int(used.sum()),):
            raise StorageError("the weights do not fit their mask")
        full = np.zeros(size)
        full[used[:size] == 1] = values
        weights = full.reshape(shape)
    stored = pack_weights(weights)
    if ("used_weights" in stored) != (mask is not None) or (mask is not None and not np.all(values)):
        raise StorageError("weights are not stored in canonical form")
    return weights
