"""Archives of networks and statistics, read and written by the description of their format alone."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy


def digest(kind: str, text: str, arrays: dict[str, Any]) -> str:
    """Return the SHA-256 of an archive's contents: texts with their lengths, then each array by name."""
    sha256 = hashlib.sha256()
    for part in ("qsdp", "1", kind, text):
        sha256.update(f"{len(part)}:{part}".encode(errors="surrogatepass"))
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name]) if np.ndim(arrays[name]) else np.atleast_1d(arrays[name])
        sha256.update(f"{len(name)}:{name}:{array.dtype.str}:{array.shape}".encode())
        sha256.update(array.tobytes())
    return sha256.hexdigest()


def write_text(path: Path, kind: str, text: str, arrays: dict[str, Any], /, **changes: Any) -> None:
    """Write an archive with a right digest for any header text and arrays; None in `changes` leaves a field out."""
    fields = {"format": "qsdp", "version": "1", "kind": kind, "header": text, "sha256": digest(kind, text, arrays)}
    kept = {key: value for key, value in {**fields, **changes}.items() if value is not None}
    path.write_bytes(safetensors.numpy.save(arrays, metadata={"qsdp": json.dumps(kept, sort_keys=True)}))


def write_archive(path: Path, kind: str, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write an archive of a header and arrays."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_text(path, kind, json.dumps(header, sort_keys=True), arrays)


def read_archive(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return kind, header and arrays of an archive whose digest is right."""
    with safetensors.safe_open(path, framework="np") as archive:
        fields = json.loads(archive.metadata()["qsdp"])
        arrays = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118 (not a mapping)
    assert (fields["format"], fields["version"]) == ("qsdp", "1")
    assert fields["sha256"] == digest(fields["kind"], fields["header"], arrays)
    return fields["kind"], json.loads(fields["header"]), arrays


def packed(numbers: np.ndarray, width: int) -> np.ndarray:
    """Pack non-negative integers of shape (m, d) into `width` bits each, rows padded with zeros to whole bytes."""
    rows = ["".join(f"{n:0{width}b}" for n in row) for row in numbers.tolist()]
    padded = [row + "0" * (-len(row) % 8) for row in rows]
    return np.array([[int(row[i : i + 8], 2) for i in range(0, len(row), 8)] for row in padded], dtype=np.uint8)
