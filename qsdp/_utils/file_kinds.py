"""Kinds of files by their first bytes, so that the reader of one kind can name the reader of another."""

from __future__ import annotations

__all__ = ["BEGINNING", "another_kind"]

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


def another_kind(contents: bytes, *expected: str) -> str | None:
    """Return what the contents of a file are and what reads them, unless their kind is expected or unknown."""
    for kind, (offset, beginning, text) in _KINDS.items():
        if contents[offset:].startswith(beginning):
            return None if kind in expected else text
    return None
