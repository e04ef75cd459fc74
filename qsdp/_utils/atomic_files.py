"""Atomic writing of files, and their kinds by their first bytes, so that one reader can name another."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from qsdp.exceptions import InvalidInputError, InvalidTypeError

__all__ = [
    "BEGINNING",
    "another_kind",
    "check_path",
    "is_device",
    "write_into",
    "write_together",
    "write_whole",
    "writing_whole",
]


#: What files are, by the name of their kind: offset, bytes there, and the text of a message. Files of safetensors begin
#: with the size of their header, which takes eight bytes.
_KINDS = {
    "certificate": (0, b"qsdp certificate ", "a certificate; read it with qsdp.load_certificate"),
    "compact": (0, b"qsdB", "a network; read it with qsdp.load_network"),
    "archive": (8, b'{"__metadata__":{"qsdp"', "a network or statistics; read it with qsdp.load_network or "
                "qsdp.SufficientStatistics.load"),
    "model": (0, b"PK", "a zip archive; if it is a model, read it with qsdp.load"),
}  # fmt: skip

#: Number of first bytes that tell the kind.
BEGINNING = max(offset + len(text) for offset, text, _ in _KINDS.values())


def check_path(path: Any, name: str = "path") -> str:
    """Return a path as text; raise InvalidTypeError for integers, which `open` would take for open files."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise InvalidTypeError(f"{name} must be text or a pathlib.Path; got {path!r:.60}")
    return os.fsdecode(path)


def write_whole(path: str | os.PathLike[str], contents: bytes) -> None:
    """Write a file atomically, replacing an existing one."""
    write_together({Path(check_path(path)): contents})


def write_together(files: Mapping[Path, bytes]) -> None:
    """Write several files that belong together; all are written to temporary files before any is renamed."""
    for target in files:
        if target.is_dir():
            raise IsADirectoryError(f"cannot write {str(target)!r}: it is a folder; name a file in it")
        if not target.parent.is_dir():
            raise FileNotFoundError(f"cannot write {str(target)!r}: its folder {str(target.parent)!r} does not exist")
    with ExitStack() as stack:
        for target, contents in files.items():
            stream = stack.enter_context(writing_whole(target))
            stream.write(contents)
            stream.flush()


def write_into(directory: str | os.PathLike[str], files: Mapping[str, bytes], *, force: bool) -> list[Path]:
    """Write files into a directory, all or none, and return their paths.

    Raises
    ------
    InvalidInputError
        One of the files exists and `force` is False.
    """
    paths = [Path(check_path(directory, "directory")) / name for name in files]
    for path in paths:
        if path.exists() and not force:
            raise InvalidInputError(f"{str(path)!r} exists; overwrite it with force=True")
    write_together(dict(zip(paths, files.values(), strict=True)))
    return paths


def is_device(path: Path) -> bool:
    """Whether a path is a device or a pipe, such as /dev/stdout, which is written to and not replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def writing_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a stream to a temporary file, which is renamed to `path` if no error occurs.

    A link keeps its name: the file that it refers to is replaced.
    """
    target = Path(path)
    if is_device(target):
        with open(target, "wb") as stream:
            yield stream
        return
    whole = target.resolve()
    temporary = whole.with_name(f".{secrets.token_hex()}.tmp")
    try:
        with _named(target), open(temporary, "xb") as stream:
            yield stream
        os.replace(temporary, whole)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _named(target: Path) -> Iterator[None]:
    """Replace the temporary file's name in errors, such as those of a full disk, by the requested one."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(".tmp"):
            error.filename = os.fspath(target)
        raise


def another_kind(contents: bytes, *expected: str) -> str | None:
    """Return what the contents of a file are and what reads them, unless their kind is expected or unknown."""
    for kind, (offset, beginning, text) in _KINDS.items():
        if contents[offset:].startswith(beginning):
            return None if kind in expected else text
    return None
