"""Declarations of data sets, and their raw files, read from ``QSDP_DATA`` or downloaded into a cache, and verified."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from qsdp.exceptions import DatasetError

DATA_VARIABLE = "QSDP_DATA"
UCI_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases"


def declarations(source: str) -> dict[str, dict[str, Any]]:
    """Read the entries of ``catalogue.json`` by name of the data set, with files as `RawFile` objects.

    The `source` is "bundled", "uci" or "images". An entry that is "like" an earlier one inherits the fields that it
    does not define.
    """
    entries: dict[str, dict[str, Any]] = {}
    for name, fields in _catalogue()[source].items():
        own = dict(fields)
        entries[name] = {**entries.get(own.pop("like", ""), {}), **own}
    return entries


@cache
def _catalogue() -> dict[str, dict[str, dict[str, Any]]]:
    def as_declared(entry: dict[str, Any]) -> Any:
        entry |= {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
        return RawFile(**entry) if "sha256" in entry else entry

    text = files("qsdp.datasets").joinpath("catalogue.json").read_text("utf-8")
    catalogue: dict[str, dict[str, dict[str, Any]]] = json.loads(text, object_hook=as_declared)
    return catalogue


@dataclass(frozen=True)
class RawFile:
    """File of an archive: its local path, its addresses, and its checksum.

    Attributes
    ----------
    local : str
        Path below ``QSDP_DATA`` and below the cache folder.
    remote : str
        Path below each of `mirrors`.
    sha256 : str
        Checksum of the file on the mirrors.
    unpacked : str or None
        For a gzip file the checksum of its content, which can be packed in many ways.
    mirrors : tuple of str
        Addresses to try in order; empty for the UCI archive.
    """

    local: str
    remote: str
    sha256: str
    unpacked: str | None = None
    mirrors: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses to download from, tried in order."""
        return tuple(f"{mirror}/{self.remote}" for mirror in self.mirrors or (UCI_URL,))

    @property
    def url(self) -> str:
        """First of `urls`."""
        return self.urls[0]


def read_raw(file: RawFile) -> tuple[Path, str]:
    """Read the text of a file after verifying its checksum; return the path and the text.

    If the environment variable ``QSDP_DATA`` is set and not empty, the file must be in that folder, as
    ``$QSDP_DATA/uci/<set>/<file>``, and nothing is downloaded. Otherwise it is read from the user's cache folder, in
    the same layout, and downloaded into it if it is missing or damaged.
    """
    path, content = _read(file)
    _verify(file, path, content, file.sha256)
    return path, content.decode("utf-8", errors="replace")


def read_unpacked(file: RawFile) -> tuple[Path, bytes]:
    """Read the verified content of a gzip file, located as by `read_raw`; return the path and the content."""
    if file.unpacked is None:
        raise ValueError(f"{file.local} declares no checksum of its content")
    path, packed = _read(file)
    try:
        content = gzip.decompress(packed)
    except (EOFError, OSError, zlib.error) as error:
        raise DatasetError(f"{path} is damaged: {_reason(error)}; {_remedy(file)}") from None
    _verify(file, path, content, file.unpacked, what="its unpacked sha256")
    return path, content


def _read(file: RawFile) -> tuple[Path, bytes]:
    folder = _data_folder()
    path = _download(file) if folder is None else _find(file, folder)
    try:
        return path, path.read_bytes()
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {_reason(error)}") from None


def _verify(file: RawFile, path: Path, content: bytes, expected: str, what: str = "its sha256") -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DatasetError(
            f"{path} is damaged or another version: {what} is {found}, expected {expected}; {_remedy(file)}"
        )


def _remedy(file: RawFile) -> str:
    return f"replace it by {file.url}, or unset {DATA_VARIABLE} to let qsdp download it"


def is_present(file: RawFile) -> bool:
    """Whether `read_raw` would find `file` without a download; the checksum is not verified."""
    return ((_data_folder() or _cache_folder()) / file.local).is_file()


def _data_folder() -> Path | None:
    folder = os.environ.get(DATA_VARIABLE, "")
    return Path(folder).expanduser() if folder else None


def _find(file: RawFile, folder: Path) -> Path:
    if not folder.is_dir():
        raise DatasetError(
            f"{DATA_VARIABLE} is set to {str(folder)!r}, which is not a folder; set it to the folder that "
            f"holds {file.local}, or unset it to let qsdp download {file.url}"
        )
    path = folder / file.local
    if not path.is_file():
        raise DatasetError(
            f"{path} not found ({DATA_VARIABLE} is set to {str(folder)!r}); put {file.url} there, set "
            f"{DATA_VARIABLE} to the folder that holds {file.local}, or unset it to let qsdp download it"
        )
    return path


def _download(file: RawFile) -> Path:
    import pooch

    path = _cache_folder() / file.local
    failures: list[tuple[str, Exception]] = []
    for url in file.urls:
        try:
            # pooch verifies a temporary file before moving it, so no half-written file is left.
            pooch.retrieve(url, f"sha256:{file.sha256}", fname=path.name, path=path.parent)
        except (OSError, ValueError) as error:  # errors of requests are OSErrors, a wrong checksum is a ValueError
            failures.append((url, error))
        else:
            return path
    _remove_empty(path.parent, _cache_folder())
    tried = "; nor ".join(f"{url} to {path}: {_reason(failure)}" for url, failure in failures)
    raise DatasetError(
        f"cannot download {tried}; to work without a download, get the file elsewhere and set the environment "
        f"variable {DATA_VARIABLE} to a folder that holds it as {file.local}"
    )


def _remove_empty(folder: Path, cache: Path) -> None:
    """Remove folders that a failed download left empty, from `folder` up to the cache folder itself."""
    with suppress(OSError):
        while folder.is_relative_to(cache):
            folder.rmdir()
            folder = folder.parent


def _cache_folder() -> Path:
    import pooch

    return Path(pooch.os_cache("qsdp"))


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
