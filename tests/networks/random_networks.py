"""Random bilinear networks, and files of networks with one bit flipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from qsdp import BilinearNetwork, load_network
from qsdp.exceptions import StorageError


def random_network(
    rng: np.random.Generator,
    m: int,
    d: int,
    activation: Any = None,
    *,
    shared: bool = False,
    levels: int = 2,
    C: int | None = None,
) -> BilinearNetwork:
    """Draw a network; the last entries of lifted ones have random signs, shared weights are grouped by output."""
    U, V = 2 * rng.integers(0, levels, size=(2, m, d)) - (levels - 1)
    if activation is not None and any(activation[1:]):
        signs = 2 * rng.integers(0, 2, size=(2, m, 1)) - 1
        U, V = np.hstack([U, signs[0]]), np.hstack([V, signs[1]])
    if not shared:
        alpha = rng.standard_normal(m if C is None else (m, C))
    elif C is None:
        alpha = np.full(m, rng.standard_normal())
    else:
        # Positive, so that no zero is negative: files keep one value per output.
        alpha = rng.uniform(0.1, 1.0, C) * np.eye(C)[np.sort(rng.integers(0, C, size=m))]
    return BilinearNetwork(U, V, alpha, levels=levels, activation=activation)


def unnoticed_flips(network: Any, path: Path, assert_same: Callable[[Any, Any], None]) -> list[tuple[int, str]]:
    """Flip bits of every byte of the network's file; return those that neither raise nor leave the network the same."""
    network.save(path)
    blob = path.read_bytes()
    missed = []
    # A third of them, of every byte two or three: the digest is one of whole bytes.
    for position in range(0, 8 * len(blob), 3):
        damaged = bytearray(blob)
        damaged[position // 8] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        try:
            loaded = load_network(path)
        except StorageError:
            continue
        except Exception as error:
            missed.append((position, repr(error)))
            continue
        # A bit without meaning, such as one of the padding of the header, may flip, but nothing else.
        try:
            assert_same(loaded, network)
        except AssertionError:
            missed.append((position, "another network"))
    return missed
