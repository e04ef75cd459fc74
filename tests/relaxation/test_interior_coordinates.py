"""The kernels and borders of the interior-point method against their definitions, entry by entry."""

from __future__ import annotations

import numpy as np
import pytest

from qsdp.lifting import QuadraticMap
from qsdp.relaxation.interior import coordinates
from qsdp.relaxation.interior.coordinates import (
    Coordinates,
    FactorCoordinates,
    MatrixCoordinates,
    SampleCoordinates,
)

MAPS = (
    QuadraticMap(np.random.default_rng(0).standard_normal((57, 5))),
    QuadraticMap(np.random.default_rng(1).standard_normal((57, 5)), (-0.7, 0.0, 0.0)),
    QuadraticMap(np.random.default_rng(2).standard_normal((57, 4)), (0.1, 0.5, 0.2), lifted=True),
    QuadraticMap(np.random.default_rng(3).standard_normal((1, 1))),
)


def rows_of(system: Coordinates) -> np.ndarray:
    """Return the matrices whose inner products with T are F T, one for each row."""
    return np.stack([system.adjoint(row) for row in np.eye(system.length)])


def systems(data: QuadraticMap) -> list[Coordinates]:
    entries = MatrixCoordinates(data.size)
    rows = np.stack([entries.forward(data.adjoint(row)) for row in np.eye(data.n_rows)])
    return [SampleCoordinates(data), entries, FactorCoordinates(rows.T @ rows, data.size)]


@pytest.mark.parametrize("block", [1, 300, 2**19])
@pytest.mark.parametrize("data", MAPS)
def test_kernels_and_borders_are_those_of_the_definition(monkeypatch, data, block):
    monkeypatch.setattr(coordinates, "_KERNEL_BLOCK", block)
    G = np.random.default_rng(4).standard_normal((2, data.size, data.size))
    W = G @ G.swapaxes(-1, -2)
    for system in systems(data):
        rows = rows_of(system)
        turned = W[:, None] @ rows @ W[:, None]
        kernel = np.full((system.length, system.length), np.nan)
        expected = np.einsum("iab,sjab->ij", rows, turned)
        scale = np.abs(expected).max()
        lower = np.tril_indices(system.length)
        if isinstance(system, MatrixCoordinates):
            system.plain_kernel(W, kernel)
            kernel *= 0.5 * system.factors * system.factors[:, None]
        else:
            system.kernel(G, W, kernel)
        np.testing.assert_allclose(kernel[lower], expected[lower], rtol=0.0, atol=1e-12 * scale)
        border = np.einsum("ka,iab,kb->ik", W[0], rows, W[0]) - np.einsum("ka,iab,kb->ik", W[1], rows, W[1])
        np.testing.assert_allclose(system.border(W), border, rtol=0.0, atol=1e-12 * max(scale, np.abs(border).max()))
