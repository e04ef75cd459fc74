"""Steps to the boundary of the cone: those of the eigenvalues of all matrices."""

from __future__ import annotations

import numpy as np
import pytest

from qsdp.relaxation.solvers.interior import cone
from qsdp.relaxation.solvers.interior.cone import (
    inverse_means,
    largest_step,
    predicted_product,
    predictor_reach,
    primal_step,
)


def points(seed: int, size: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Return a scaled step of shape (1, 2, N, N), symmetric, and the values of the scaled point."""
    rng = np.random.default_rng(seed)
    step = rng.standard_normal((1, 2, size, size))
    return step + step.swapaxes(-1, -2), rng.uniform(0.5, 2.0, (1, 2, size))


def lowest(values: np.ndarray, step: np.ndarray, length: float) -> float:
    """Return the lowest eigenvalue of the point so far along a step."""
    diagonal = np.zeros_like(step)
    np.einsum("...ii->...i", diagonal)[...] = values
    return float(np.linalg.eigvalsh(diagonal + length * step).min())


@pytest.mark.parametrize("seed", range(5))
def test_the_predictor_reaches_the_boundary_of_one_of_both_cones(seed: int) -> None:
    change, values = points(seed)
    for scale in (1e-3, 1.0, 30.0):
        reach = predictor_reach(scale * change, inverse_means(values))
        primal = primal_step(scale * change, values)
        assert 0.0 < reach <= 1.0
        assert min(lowest(values, scale * change, reach), lowest(values, primal, reach)) == pytest.approx(
            0.0, abs=1e-12
        )
        at = np.zeros_like(change)
        np.einsum("...ii->...i", at)[...] = values
        expected = float(np.sum((at + reach * primal) * (at + reach * scale * change)))
        assert predicted_product(scale * change, values, reach) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_step_is_that_of_the_worst_matrix(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (first, values), (second, _) = points(seed), points(seed + 100)
    for pair in ((first, second), (second, first)):
        step = largest_step(pair, inverse_means(values), 1e6)
        assert min(lowest(values, one, step) for one in pair) == pytest.approx(0.0, abs=1e-11)
    # A step within reach takes no eigenvalue.
    monkeypatch.setattr(cone, "_lowest_eigenvalue", None)
    assert largest_step((first, second), inverse_means(values), 0.5 * step) == 0.5 * step


def test_a_step_that_is_no_number_is_none() -> None:
    change, values = points(0)
    change[0, 1, 3, 2] = change[0, 1, 2, 3] = np.nan
    with pytest.raises(np.linalg.LinAlgError):
        largest_step((change,), inverse_means(values), 1.0)
