"""Networks with quantized first-layer weights: evaluation, exact transforms and storage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy.typing as npt

from qsdp._utils.atomic_files import check_path
from qsdp.exceptions import InvalidInputError, StorageError
from qsdp.networks.archive import unpack_archive
from qsdp.networks.bilinear import KIND, BilinearNetwork, from_polynomial, is_narrow
from qsdp.networks.compact import MAGIC, pack_neurons, read_compact
from qsdp.networks.integer_form import IntegerForm
from qsdp.networks.polynomial import KIND as POLYNOMIAL_KIND
from qsdp.networks.polynomial import PolynomialNetwork, polynomial_from_archive
from qsdp.networks.quadratic_form import QuadraticForm
from qsdp.networks.storage import read_archive

__all__ = [
    "NETWORK_KINDS",
    "BilinearNetwork",
    "IntegerForm",
    "PolynomialNetwork",
    "QuadraticForm",
    "from_polynomial",
    "is_narrow",
    "load_network",
    "network_from_archive",
]


def load_network(path: str | os.PathLike[str]) -> Any:
    """Load a `BilinearNetwork` or a `PolynomialNetwork`.

    Raises
    ------
    StorageError
        The file is damaged or does not hold a network of qsdp.
    """
    path = check_path(path)
    with open(path, "rb") as stream:
        compact = stream.read(len(MAGIC)) == MAGIC
    kind, header, arrays = ("", {}, {}) if compact else read_archive(path, *NETWORK_KINDS)
    try:
        if compact:
            return _from_contents(Path(path).read_bytes())
        return _READERS[kind](header, arrays)
    except (KeyError, TypeError, InvalidInputError, StorageError) as error:
        raise StorageError(f"{path!r} is not a valid network: {error}") from None


def network_from_archive(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> BilinearNetwork:
    """Build the network of a file's header and arrays; raise `StorageError` for any mismatch."""
    network = BilinearNetwork(**unpack_archive(header, arrays))
    if network._single != ("single" in arrays):
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
