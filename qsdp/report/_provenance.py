"""Provenance of a report: digests of its files, and versions of packages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from qsdp.report._blocks import TextTable

__all__ = ["files_table", "listed", "sha256_of"]


def files_table(files: Sequence[tuple[str, str, str]]) -> TextTable:
    """Return a table of files with their roles, names and digests."""
    return TextTable(("file", "name", "SHA-256"), [(what, name, f"`{digest}`") for what, name, digest in files])


def listed(found: Mapping[str, str]) -> str:
    """Return packages and their versions on one line."""
    return ", ".join(f"{name} {version}" for name, version in sorted(found.items()))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
