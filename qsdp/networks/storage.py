"""Files of qsdp: safetensors with a strict header and a digest, written atomically.

A file is a safetensors archive whose metadata has one entry, ``qsdp``: a JSON object with the texts ``format``,
``version``, ``kind``, ``header`` (itself JSON) and the ``sha256`` of all contents. A single entry is used because
safetensors writes several entries in random order, and equal contents must give equal bytes. Nothing in a file is ever
executed, and every length is checked before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from qsdp._utils.atomic_files import BEGINNING, another_kind, check_path, write_whole
from qsdp.exceptions import StorageError

__all__ = [
    "MAX_INPUTS",
    "bits_of_integers",
    "check_memory",
    "fits_memory",
    "pack_levels",
    "read_archive",
    "unpack_levels",
    "write_archive",
]

_FORMAT, _VERSION = "qsdp", "1"
_ENTRY = "qsdp"

#: Maximum number of inputs of a file.
MAX_INPUTS = 2**15

#: Bytes of memory that the arrays of any network may take, and per byte of its file. A forged file of 100 bytes must
#: not fill the memory, and ordinary networks are far below: a stored sign takes 16 times its bits.
_ANY_MEMORY, _MEMORY_A_BYTE = 2**22, 2**10

Arrays = dict[str, npt.NDArray[Any]]


def write_archive(path: str | os.PathLike[str], kind: str, header: dict[str, Any], arrays: Arrays) -> None:
    """Write `arrays` and the JSON-serialisable `header` as an archive of type `kind`.

    The file appears under its name only when it is complete, and replaces any older file of that name.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(header, sort_keys=True, allow_nan=False)
    fields = {
        "format": _FORMAT,
        "version": _VERSION,
        "kind": kind,
        "header": text,
        "sha256": _digest(kind, text, arrays),
    }
    write_whole(path, save(arrays, metadata={_ENTRY: json.dumps(fields, sort_keys=True)}))


def read_archive(path: str | os.PathLike[str], *kinds: str) -> tuple[str, dict[str, Any], Arrays]:
    """Read an archive whose type is one of `kinds`; return its kind, header and arrays.

    Raises
    ------
    StorageError
        The file is not an archive of that kind and version, or one of its bits has changed since it was written.
    FileNotFoundError, IsADirectoryError, PermissionError
        The file cannot be opened.
    """
    path = check_path(path)
    with open(path, "rb") as stream:  # a file that cannot be read raises the operating system's own error
        other = another_kind(stream.read(BEGINNING), "archive")
    if other is not None:
        raise StorageError(f"{path!r} is {other}")
    try:
        with safe_open(path, framework="np") as archive:
            metadata = archive.metadata() or {}
            arrays = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, MemoryError) as error:
        raise StorageError(f"{path!r} is not a qsdp file or is damaged: {error}") from None
    fields = _texts(metadata.get(_ENTRY, ""))
    if fields.get("format") != _FORMAT:
        raise StorageError(f"{path!r} is not a qsdp file (no qsdp header)")
    if fields.get("version") != _VERSION:
        raise StorageError(f"{path!r} has format version {fields.get('version')!r:.60}; expected {_VERSION!r}")
    kind = fields.get("kind", "")
    if kind not in kinds:
        expected = " or ".join(repr(name) for name in kinds)
        raise StorageError(f"{path!r} holds a {kind!r:.60}; expected a {expected}")
    text = fields.get("header", "")
    if fields.get("sha256") != _digest(kind, text, arrays):
        raise StorageError(f"{path!r} is damaged: its contents do not match their digest")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path!r} is damaged: {error}") from None
    if not isinstance(header, dict):
        raise StorageError(f"{path!r} is damaged: its header is not a mapping")
    return kind, header, arrays


def fits_memory(needed: int, n_bytes: int) -> bool:
    """Return whether a file of `n_bytes` may stand for arrays of `needed` bytes, so that its size bounds the memory."""
    return needed <= max(_ANY_MEMORY, _MEMORY_A_BYTE * n_bytes)


def check_memory(needed: int, n_bytes: int) -> None:
    """Raise StorageError unless `fits_memory`; to be called before the arrays are allocated."""
    if not fits_memory(needed, n_bytes):
        raise StorageError(f"arrays of {needed} bytes are more than a file of {n_bytes} bytes may stand for")


def bits_of_integers(numbers: npt.NDArray[Any], width: int) -> npt.NDArray[np.uint8]:
    """Expand integers to their lowest `width` bits along a new last axis, most significant bit first."""
    bits = np.empty((*numbers.shape, width), dtype=np.uint8)
    for k in range(width):
        bits[..., k] = numbers >> (width - 1 - k) & 1
    return bits


def pack_levels(weights: npt.NDArray[np.int8], largest: int, *, step: int = 2) -> npt.NDArray[np.uint8]:
    """Pack weights -M, -M + step, ..., M of shape (m, d) into the minimum number of bits each, a row per neuron.

    The most significant bit comes first, and rows are padded with zeros to whole bytes.
    """
    bits = bits_of_integers((weights.astype(np.int16) + largest) // step, (2 * largest // step).bit_length())
    return np.packbits(bits.reshape(len(bits), -1), axis=1)


def unpack_levels(
    packed: npt.NDArray[Any], shape: tuple[int, int], largest: int, *, step: int = 2
) -> npt.NDArray[np.int8]:
    """Invert `pack_levels`."""
    (m, d), top = shape, 2 * largest // step
    width = top.bit_length()
    bits = _unpacked(packed, m, d * width)
    powers = (1 << np.arange(width)[::-1]).astype(np.uint8)
    numbers = bits.reshape(m, d, width) @ powers
    if np.any(numbers > top):
        raise StorageError(f"packed weights have values beyond the {top + 1} allowed")
    return (step * numbers.astype(np.int16) - largest).astype(np.int8)


def _unpacked(packed: npt.NDArray[Any], m: int, used: int) -> npt.NDArray[np.uint8]:
    if packed.dtype != np.uint8 or packed.shape != (m, -(-used // 8)):
        raise StorageError(f"packed weights of shape {packed.shape} do not hold {m} neurons of {used} bits")
    if used % 8 and np.any(packed[:, -1] & ((1 << (8 - used % 8)) - 1)):
        raise StorageError("packed weights have bits set beyond their last one")
    return np.unpackbits(packed, axis=1, count=used)


def _texts(entry: str) -> dict[str, str]:
    """Parse the metadata entry to a dict of strings; empty if it is not a JSON object."""
    try:
        fields = json.loads(entry)
    except (ValueError, RecursionError):
        return {}
    items = fields.items() if isinstance(fields, dict) else ()
    return {name: text for name, text in items if isinstance(text, str)}


def _digest(kind: str, header: str, arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for text in (_FORMAT, _VERSION, kind, header):
        # JSON may contain lone surrogates.
        digest.update(f"{len(text)}:{text}".encode(errors="surrogatepass"))
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{len(name)}:{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(memoryview(array.reshape(-1).view(np.uint8)))
    return digest.hexdigest()
