"""Load networks from files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy.typing as npt

from qsdp._utils.atomic_files import check_path
from qsdp._utils.stored import Checks, checked, is_activation, is_count
from qsdp.activations import get_activation
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.bilinear import KIND, BilinearNetwork
from qsdp.networks.block_network import KIND as BLOCK_KIND
from qsdp.networks.block_network import blocks_from_archive, blocks_of_contents
from qsdp.networks.compact import MAGIC
from qsdp.networks.polynomial import KIND as POLYNOMIAL_KIND
from qsdp.networks.polynomial import polynomial_from_archive
from qsdp.networks.storage import read_archive, unpack_levels
from qsdp.networks.weights import unpack_alpha
from qsdp.training_data import check_levels

__all__ = ["NETWORK_KINDS", "load_network", "network_from_archive"]

_HEADER: Checks = {"n_neurons": is_count, "n_inputs": is_count, "levels": is_count, "activation": is_activation}


def load_network(path: str | os.PathLike[str]) -> Any:
    """Load a `BilinearNetwork`, a `PolynomialNetwork` or a `BlockNetwork`.

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
            return blocks_of_contents(Path(path).read_bytes())
        return _READERS[kind](header, arrays)
    except (KeyError, TypeError, InvalidInputError, StorageError) as error:
        raise StorageError(f"{path!r} is not a valid network: {error}") from None


def network_from_archive(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> BilinearNetwork:
    """Build the network of a file's header and arrays; raise `StorageError` for any mismatch."""
    fields = checked("header", header, _HEADER)
    m, d, levels = fields["n_neurons"], fields["n_inputs"], check_levels(fields["levels"])
    activation = get_activation(fields["activation"])
    lifted = activation is not None and activation.lifted
    U, V = (unpack_levels(arrays[name], (m, d), levels - 1, lifted=lifted) for name in ("U", "V"))
    return BilinearNetwork(U, V, unpack_alpha(arrays, m, {"U", "V"}), levels, activation)


#: Readers by the kind of file that `load_network` reads, except estimators.
_READERS = {
    KIND: network_from_archive,
    POLYNOMIAL_KIND: polynomial_from_archive,
    BLOCK_KIND: blocks_from_archive,
}
NETWORK_KINDS = tuple(_READERS)
