"""Load networks from files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.atomic_files import check_path
from qsdp._utils.stored import Checks, checked, is_activation, is_count, is_list, is_text
from qsdp.activations import get_activation
from qsdp.block_layout import WEIGHTS, check_layout, single_block
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.bilinear import KIND, BilinearNetwork, stored_weights
from qsdp.networks.coding import BitReader
from qsdp.networks.compact import MAGIC, pack_neurons, read_compact, weights_memory
from qsdp.networks.polynomial import KIND as POLYNOMIAL_KIND
from qsdp.networks.polynomial import polynomial_from_archive
from qsdp.networks.storage import check_memory, read_archive
from qsdp.networks.weights import bits_of, unpack_alpha, unpack_weights
from qsdp.training_data import check_levels

__all__ = ["NETWORK_KINDS", "load_network", "network_from_archive"]

_HEADER: Checks = {
    "n_neurons": lambda value: is_count(value) or (type(value) is int and value == 0),
    "n_inputs": lambda value: value is None or is_count(value),
    "sizes": lambda value: value is None or (is_list(value) and all(map(is_count, value))),
    "kinds": lambda value: value is None or (is_list(value) and all(map(is_text, value))),
    "n_outputs": lambda value: value is None or is_count(value),
    "levels": is_count,
    "activation": is_activation,
}


def load_network(path: str | os.PathLike[str]) -> Any:
    """Load a `BilinearNetwork` or a `PolynomialNetwork`.

    Raises
    ------
    StorageError
        The file is damaged or does not hold a network of qsdp.
    """
    path = check_path(path)
    with open(path, "rb") as stream:
        beginning = stream.read(len(MAGIC))
    if beginning.startswith(b"PK"):
        raise StorageError(f"{path!r} is not a network; if it is a model, read it with qsdp.load(...).network_")
    compact = beginning == MAGIC
    kind, header, arrays = ("", {}, {}) if compact else read_archive(path, *NETWORK_KINDS)
    try:
        if compact:
            return _from_contents(Path(path).read_bytes())
        return _READERS[kind](header, arrays)
    except (KeyError, TypeError, InvalidInputError, StorageError) as error:
        raise StorageError(f"{path!r} is not a valid network: {error}") from None


def network_from_archive(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> BilinearNetwork:
    """Build the network of a file's header and arrays; raise `StorageError` for any mismatch."""
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
    for weights, mask, M in stored_weights(U, V, layout, block, levels, lifted):
        numbers = reader.integers(int(np.count_nonzero(mask)), bits_of(M + 1), np.int16)
        if np.any(numbers > M):
            raise StorageError(f"packed weights have values beyond the {M + 1} allowed")
        weights[mask] = 2 * numbers - M
    reader.finish()
    if single and fields["n_outputs"] is not None:
        full = np.zeros((m, C))
        full[np.arange(m), owners] = alpha
        alpha = full
    network = BilinearNetwork(
        U, V, alpha, block, sizes, fields["kinds"], levels=levels, activation=activation, weights=real
    )
    if network._single != single:
        raise StorageError("its neurons are not stored in canonical form")
    return network


def _from_contents(contents: bytes) -> BilinearNetwork:
    """Build the network of a compact file; raise `StorageError` for any mismatch."""
    layout, shape, arrays = read_compact(contents)
    alpha, weights = (array if shape else array[:, 0] for array in (arrays["alpha"], arrays["weights"]))
    network = BilinearNetwork.on_blocks(layout, arrays["U"], arrays["V"], alpha, arrays["block"], weights)
    if pack_neurons(network) != contents:
        raise StorageError("its numbers are not coded in canonical form")
    return network


#: Readers by the kind of file that `load_network` reads, except estimators.
_READERS = {KIND: network_from_archive, POLYNOMIAL_KIND: polynomial_from_archive}
NETWORK_KINDS = tuple(_READERS)
