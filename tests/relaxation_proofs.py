"""What a relaxation says of itself, recomputed from the data."""

from __future__ import annotations

import numpy as np
import pytest

import qsdp


def assert_proven(relaxation: qsdp.Relaxation) -> None:
    """Check that the point is feasible, that its objective is the stated one, and that the dual proves the bound."""
    problem = relaxation.problem
    price = problem.beta * problem.dimension
    prediction = np.empty(problem.targets.shape)
    for k, (Z, V, rho) in enumerate(zip(relaxation.Z[0], relaxation.V[0], relaxation.rho[:, 0], strict=True)):
        K = np.block([[V, Z], [Z.T, V]])
        np.testing.assert_array_equal(K.diagonal(), np.full(2 * problem.size, rho))
        np.testing.assert_array_equal(K, K.T)
        assert np.linalg.eigvalsh(K)[0] >= -1e-12 * max(rho, 1e-300)
        prediction[:, k] = 2.0 * problem.map.forward(Z)
    fit = problem.data_fit
    objective = fit.value(prediction) + 2.0 * price * float(relaxation.rho.sum())
    assert relaxation.objective == pytest.approx(objective, rel=1e-9, abs=1e-12 * fit.value_at_zero)
    assert relaxation.objective <= fit.value_at_zero * (1.0 + 1e-9)
    nus, zs = np.reshape(relaxation.dual.nu, problem.targets.shape), np.atleast_2d(relaxation.dual.z)
    for nu, z in zip(nus.T, zs, strict=True):
        M = problem.map.adjoint(nu)
        lowest = min(np.linalg.eigvalsh(np.diag(z) + sign * M)[0] for sign in (-1, 1))
        assert lowest >= -1e-12 * max(np.abs(M).max(), np.abs(z).max())
        assert np.all(z >= 0.0)
        if nu.any():
            assert z.sum() <= price * (1.0 + 1e-12)
    assert relaxation.lower_bound <= fit.dual_value(nus) * (1.0 + 1e-12) + 1e-14 * fit.value_at_zero
    assert 0.0 <= relaxation.lower_bound <= relaxation.objective * (1.0 + 1e-12)
