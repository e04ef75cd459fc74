"""Raw files of data sets, read from ``QSDP_DATA`` or downloaded into a cache, and verified."""

from __future__ import annotations

import gzip
import hashlib
import os
import textwrap
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from qsdp.exceptions import DatasetError, MissingPackageError

DATA_VARIABLE = "QSDP_DATA"

#: Messages of downloads that failed, by file. A long run sets it to a dictionary, so that each file is tried once. With
#: None, each call tries again, for users whose connection is back.
failed_downloads: dict[RawFile, str] | None = None


@dataclass(frozen=True)
class RawFile:
    """File of an archive: its local path, its addresses, and its checksum.

    Attributes
    ----------
    local : str
        Path below ``QSDP_DATA`` and below the cache folder.
    urls : tuple of str
        Addresses to download from, tried in order.
    sha256 : str
        Checksum of the file at these addresses.
    unpacked : str or None
        For a gzip file the checksum of its content, which can be packed in many ways.
    """

    local: str
    urls: tuple[str, ...]
    sha256: str
    unpacked: str | None = None


def read_raw(file: RawFile) -> tuple[Path, bytes]:
    """Read the content of a file, unpacked if it is a gzip file, and verify its checksum; also return its path.

    If the environment variable ``QSDP_DATA`` is set and not empty, the file must be in that folder, and nothing is
    downloaded. Otherwise it is read from the user's cache folder, in the same layout, and downloaded into it if it is
    missing or damaged.
    """
    folder = os.environ.get(DATA_VARIABLE, "")
    path = _find(file, Path(folder).expanduser()) if folder else _download(file)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {_reason(error)}") from None
    if file.unpacked is None:
        return path, _verified(file, path, content, file.sha256)
    try:
        content = gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise DatasetError(f"{path} is damaged: {_reason(error)}; {_remedy(file)}") from None
    return path, _verified(file, path, content, file.unpacked, "its unpacked sha256")


def _verified(file: RawFile, path: Path, content: bytes, expected: str, what: str = "its sha256") -> bytes:
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected:
        raise DatasetError(
            f"{path} is damaged or another version: {what} is {actual}, expected {expected}; {_remedy(file)}"
        )
    return content


def _remedy(file: RawFile) -> str:
    return f"replace it by {file.urls[0]}, or unset {DATA_VARIABLE} to let qsdp download it"


def _find(file: RawFile, folder: Path) -> Path:
    if not folder.is_dir():
        raise DatasetError(
            f"{DATA_VARIABLE} is set to {str(folder)!r}, which is not a folder; set it to the folder that "
            f"holds {file.local}, or unset it to let qsdp download {file.urls[0]}"
        )
    path = folder / file.local
    if not path.is_file():
        raise DatasetError(
            f"{path} not found ({DATA_VARIABLE} is set to {str(folder)!r}); put {file.urls[0]} there, set "
            f"{DATA_VARIABLE} to the folder that holds {file.local}, or unset it to let qsdp download it"
        )
    return path


def _download(file: RawFile) -> Path:
    if failed_downloads is not None and file in failed_downloads:
        raise DatasetError(failed_downloads[file])
    try:
        import pooch
    except ImportError:
        raise MissingPackageError(
            f"downloading {file.urls[0]} needs pooch: pip install pooch, or set the environment variable "
            f"{DATA_VARIABLE} to a folder that holds the file as {file.local}"
        ) from None
    cache = Path(pooch.os_cache("qsdp"))
    path = cache / file.local
    failures: list[tuple[str, str]] = []
    for url in file.urls:
        try:
            # pooch verifies a temporary file before moving it, so no half-written file is left.
            pooch.retrieve(url, f"sha256:{file.sha256}", fname=path.name, path=path.parent)
        except (OSError, ValueError) as error:  # errors of requests are OSErrors, a wrong checksum is a ValueError
            # Errors of connections quote the address again, and the errors that caused them.
            failures.append((url, textwrap.shorten(_reason(error), 200, placeholder=" ...")))
        else:
            return path
    _remove_empty(path.parent, cache)
    tried = "; nor ".join(f"{url} ({reason})" for url, reason in failures)
    message = (
        f"cannot download {tried} to {path}; to work without a download, get the file elsewhere and set the "
        f"environment variable {DATA_VARIABLE} to a folder that holds it as {file.local}"
    )
    if failed_downloads is not None:
        failed_downloads[file] = message
    raise DatasetError(message)


def _remove_empty(folder: Path, cache: Path) -> None:
    """Remove folders that a failed download left empty, from `folder` up to the cache folder itself."""
    with suppress(OSError):
        while folder.is_relative_to(cache):
            folder.rmdir()
            folder = folder.parent


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
