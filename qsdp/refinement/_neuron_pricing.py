"""Pricing values of a network's neurons."""

from __future__ import annotations

from typing import Any

import numpy as np

from qsdp._utils.parallel import chunks
from qsdp._utils.validation import FloatArray

__all__ = ["pricing_values"]


def pricing_values(network: Any, matrices: FloatArray) -> FloatArray:
    """Compute the pricing values u' M v (m, C) of all neurons, for the matrices (K, N, N) of each output and block."""
    if network.blocks is not None:
        entries = network.layout.entries(matrices)
        values = np.empty((network.n_neurons, len(entries)))
    else:
        values = np.empty((network.n_neurons, len(matrices)))
    for rows in chunks(len(values), max(matrices.shape[1], values.shape[1])):
        U, V = network.U[rows].astype(np.float64), network.V[rows].astype(np.float64)
        if network.blocks is not None:
            values[rows] = network.layout.products(U, V, network.block[rows]) @ entries.T
        else:
            for k, M in enumerate(matrices):
                values[rows, k] = np.einsum("ij,ij->i", U @ M, V)
    return values
