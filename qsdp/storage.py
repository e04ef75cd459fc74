"""Files of qsdp: safetensors with a strict header and a digest, written whole or not at all.

A file is a safetensors archive whose metadata has one entry, ``qsdp``: a JSON object with the texts
``format``, ``version``, ``kind``, ``header`` (JSON itself) and the ``sha256`` of all of it. It is one entry
because safetensors writes several in random order: equal contents are equal bytes. Nothing in a file is ever
executed; every length is checked before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from qsdp.exceptions import StorageError

__all__ = ["pack_signs", "read_archive", "unpack_signs", "write_archive"]

_FORMAT, _VERSION = "qsdp", "1"
_ENTRY = "qsdp"

Arrays = dict[str, npt.NDArray[Any]]


def write_archive(path: str | os.PathLike[str], kind: str, header: dict[str, Any], arrays: Arrays) -> None:
    """Write `arrays` and the JSON-able `header` as an archive of the given `kind`.

    The file appears under its name only when complete; an older one of that name is replaced.
    """
    target = Path(path)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(header, sort_keys=True, allow_nan=False)
    fields = {
        "format": _FORMAT,
        "version": _VERSION,
        "kind": kind,
        "header": text,
        "sha256": _digest(kind, text, arrays),
    }
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {os.fspath(path)!r}: its folder {str(target.parent)!r} does not exist"
        )
    blob = save(arrays, metadata={_ENTRY: json.dumps(fields, sort_keys=True)})
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as stream:
            stream.write(blob)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_archive(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of an archive of the given `kind`.

    Raises
    ------
    StorageError
        The file is no archive of that kind and version, or one of its bits is not what was written.
    FileNotFoundError, IsADirectoryError, PermissionError
        As from `open`.
    """
    with open(path, "rb"):
        pass  # the operating system's own error, with the name, for what cannot be read
    try:
        with safe_open(os.fspath(path), framework="np") as archive:
            metadata = archive.metadata() or {}
            arrays = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, MemoryError) as error:
        raise StorageError(f"{os.fspath(path)!r} is not a qsdp file or is damaged: {error}") from None
    fields = _texts(metadata.get(_ENTRY, ""))
    if fields.get("format") != _FORMAT:
        raise StorageError(f"{os.fspath(path)!r} is not a qsdp file (no qsdp header)")
    if fields.get("version") != _VERSION:
        raise StorageError(
            f"{os.fspath(path)!r} has format version {fields.get('version')!r:.60}; expected {_VERSION!r}"
        )
    if fields.get("kind") != kind:
        raise StorageError(f"{os.fspath(path)!r} holds a {fields.get('kind')!r:.60}; expected a {kind!r}")
    text = fields.get("header", "")
    if fields.get("sha256") != _digest(kind, text, arrays):
        raise StorageError(f"{os.fspath(path)!r} is damaged: its contents do not match their digest")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{os.fspath(path)!r} is damaged: {error}") from None
    if not isinstance(header, dict):
        raise StorageError(f"{os.fspath(path)!r} is damaged: its header is no mapping")
    return header, arrays


def pack_signs(signs: npt.NDArray[np.int8]) -> npt.NDArray[np.uint8]:
    """Return a +-1 matrix of shape (m, D) as bits, shape (m, ceil(D / 8)); +1 is a set bit."""
    return np.packbits(signs > 0, axis=1)


def unpack_signs(bits: npt.NDArray[Any], n_columns: int) -> npt.NDArray[np.int8]:
    """Return the +-1 matrix of shape (m, n_columns) that `pack_signs` packed."""
    if bits.dtype != np.uint8 or bits.ndim != 2 or bits.shape[1] != -(-n_columns // 8):
        raise StorageError(f"packed weights of shape {bits.shape} do not hold {n_columns} columns")
    if n_columns % 8 and np.any(bits[:, -1] & ((1 << (8 - n_columns % 8)) - 1)):
        raise StorageError("packed weights have bits set beyond their last column")
    unpacked = np.unpackbits(bits, axis=1, count=n_columns)
    return (2 * unpacked.astype(np.int8) - 1).astype(np.int8)


def _texts(entry: str) -> dict[str, str]:
    """Return the texts in the entry of the metadata, none if it is no JSON object."""
    try:
        fields = json.loads(entry)
    except (ValueError, RecursionError):
        return {}
    items = fields.items() if isinstance(fields, dict) else ()
    return {name: text for name, text in items if isinstance(text, str)}


def _digest(kind: str, header: str, arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for text in (_FORMAT, _VERSION, kind, header):
        # JSON may hold lone surrogates.
        digest.update(f"{len(text)}:{text}".encode(errors="surrogatepass"))
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{len(name)}:{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(memoryview(array.reshape(-1).view(np.uint8)))
    return digest.hexdigest()
