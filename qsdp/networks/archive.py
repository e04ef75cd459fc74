"""Archives of bilinear networks: headers, and neurons as packed bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.stored import Checks, checked, is_activation, is_count, is_list, is_text
from qsdp.activations import get_activation
from qsdp.block_layout import WEIGHTS, Layout, check_layout, single_block
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.compact import BitReader, weights_memory
from qsdp.networks.storage import Arrays, bits_of_integers, check_memory, fits_memory
from qsdp.networks.weights import bits_of, pack_alpha, pack_weights, signed_entries, unpack_alpha, unpack_weights
from qsdp.training_data import check_levels

__all__ = ["pack_archive", "unpack_archive"]

_HEADER: Checks = {
    "n_neurons": lambda value: is_count(value) or (type(value) is int and value == 0),
    "n_inputs": lambda value: value is None or is_count(value),
    "sizes": lambda value: value is None or (is_list(value) and all(map(is_count, value))),
    "kinds": lambda value: value is None or (is_list(value) and all(map(is_text, value))),
    "n_outputs": lambda value: value is None or is_count(value),
    "levels": is_count,
    "activation": is_activation,
}


def pack_archive(network: Any) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of the file of a bilinear network."""
    layout, C = network.layout, network.n_outputs
    header = {
        "n_neurons": network.n_neurons,
        "n_inputs": network.n_inputs if network.blocks is None else None,
        "sizes": None if network.blocks is None else list(layout.all_sizes),
        "kinds": None if network.blocks is None else list(layout.kinds),
        "n_outputs": C if network.output_shape else None,
        "levels": network.levels,
        "activation": list(network.activation.coefficients) if network.activation else None,
    }
    owners = np.argmax(network.output_weights != 0.0, axis=1)
    numbers = [(network.block, bits_of(layout.n_blocks)), (owners, bits_of(C) if network._single else 0)]
    for weights, mask, M in _stored_weights(
        network.U, network.V, layout, network.block, network.levels, network.lifted
    ):
        numbers.append(((weights[mask].astype(np.int16) + M) // 2, bits_of(M + 1)))
    neurons = np.packbits(np.concatenate([bits_of_integers(values, width).ravel() for values, width in numbers]))
    needed = weights_memory(layout, network.n_neurons, C)
    second: Arrays
    if not network.n_neurons:
        second = {}
    elif network._single:
        second = {"single": network.output_weights[np.arange(network.n_neurons), owners]}
    else:
        second = pack_alpha(network.alpha, neurons.nbytes)
    arrays = {"neurons": neurons, **second, **pack_weights(network.weights)}
    n_bytes = sum(array.nbytes for array in arrays.values())
    if not fits_memory(needed, n_bytes):
        raise InvalidInputError(
            f"a network of {network.n_neurons} neurons on blocks of sides up to {layout.side} with {C} outputs cannot "
            f"be stored in {n_bytes} bytes, fewer than load_network trusts for so many weights; leave out the "
            "largest blocks or the outputs that have no neurons"
        )
    return header, arrays


def unpack_archive(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Return the arguments of the network of a file's header and arrays; raise `StorageError` for any mismatch."""
    fields = checked("header", header, _HEADER)
    levels, activation, sizes = check_levels(fields["levels"]), get_activation(fields["activation"]), fields["sizes"]
    if (sizes is None) == (fields["n_inputs"] is None) or (sizes is None) != (fields["kinds"] is None):
        raise StorageError("its header must have either the number of inputs or the sizes and kinds of blocks")
    lifted = activation is not None and activation.lifted
    C, n_bytes = fields["n_outputs"] or 1, sum(array.nbytes for array in arrays.values())
    columns = [size for size, kind in zip(sizes or (), fields["kinds"] or (), strict=False) if kind == WEIGHTS]
    # Each has a price and a weight for every output.
    check_memory(8 * sum(columns) * (C + 1), n_bytes)
    layout = single_block(fields["n_inputs"] + lifted) if sizes is None else check_layout(sizes, fields["kinds"])
    m, packed, single = fields["n_neurons"], arrays["neurons"], "single" in arrays
    shape = () if fields["n_outputs"] is None else (C,)
    if packed.dtype != np.uint8 or packed.shape != (packed.size,):
        raise StorageError("neurons must be bytes")
    if m > 8 * packed.size:
        raise StorageError(f"{m} neurons are more than {packed.size} bytes hold")
    check_memory(weights_memory(layout, m, C), n_bytes)
    arrays = dict(arrays)
    real = unpack_weights(arrays, (layout.n_weights, *shape))
    alpha = unpack_alpha(arrays, m, {"neurons"}) if m or len(arrays) > 1 else np.zeros((0, *shape))
    if alpha.shape[1:] != (() if single else shape) or (m == 0 and len(arrays) > 1):
        raise StorageError(f"alpha of shape {alpha.shape} does not belong to {m} neurons and {C} outputs")
    reader = BitReader(packed)
    block = reader.integers(m, bits_of(layout.n_blocks), np.intp)
    owners = reader.integers(m, bits_of(C) if single else 0, np.intp)
    if np.any(block >= layout.n_blocks) or np.any(owners >= C) or (single and np.any(owners[alpha == 0.0])):
        raise StorageError("numbers of blocks or outputs are beyond those of the network")
    U, V = (np.zeros((m, layout.side), dtype=np.int8) for _ in range(2))
    for weights, mask, M in _stored_weights(U, V, layout, block, levels, lifted):
        numbers = reader.integers(int(np.count_nonzero(mask)), bits_of(M + 1), np.int16)
        if np.any(numbers > M):
            raise StorageError(f"packed weights have values beyond the {M + 1} allowed")
        weights[mask] = 2 * numbers - M
    reader.finish()
    if single and fields["n_outputs"] is not None:
        full = np.zeros((m, C))
        full[np.arange(m), owners] = alpha
        alpha = full
    return {
        "U": U,
        "V": V,
        "alpha": alpha,
        "block": block,
        "sizes": sizes,
        "kinds": fields["kinds"],
        "levels": levels,
        "activation": activation,
        "weights": real,
    }


def _stored_weights(
    U: npt.NDArray[np.int8],
    V: npt.NDArray[np.int8],
    layout: Layout,
    block: npt.NDArray[np.intp],
    levels: int,
    lifted: bool,
) -> Iterator[tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_], int]]:
    """Yield U and V with masks of the weights and their largest magnitudes, in the order of a file.

    The last weights of lifted neurons are signs.
    """
    for weights, mask in zip((U, V), signed_entries(layout, block), strict=True):
        first = np.arange(layout.side) < layout.side - lifted
        yield weights, mask & first, levels - 1
        if lifted:
            yield weights, mask & ~first, 1
