"""Where a report's files come from: their digests, and versions of packages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from qsdp.report._blocks import TextTable

__all__ = ["files_table", "listed", "sha256_of"]


def files_table(files: Sequence[tuple[str, str, str]]) -> TextTable:
    """Return the table of what files are, their names and their digests."""
    return TextTable(("file", "name", "SHA-256"), [(what, name, f"`{digest}`") for what, name, digest in files])


def listed(found: Mapping[str, str]) -> str:
    """Return packages and their versions in one line."""
    return ", ".join(f"{name} {version}" for name, version in sorted(found.items()))


def sha256_of(path: Path) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
