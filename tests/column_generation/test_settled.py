"""What column generation claims is true of the network it returns, however far apart the numbers are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qsdp
import qsdp_check
from qsdp.exceptions import InvalidInputError


def test_optimal_is_what_the_certificate_says() -> None:
    """Rows of sizes 1e6 and 1e8 cancel in the dual vector, whose rounding the certificate must allow for."""
    X = [[-1.67025017e06], [1.17257874e08], [2.65635193e08]]
    problem = qsdp.TrainingProblem(X, [-1.0, 1.0, -1.0], beta=22.4, loss="squared_hinge", levels=4)
    result = qsdp.column_generation(problem)
    assert result.relative_gap > 0.1
    assert result.status == "stalled"


def test_no_network_beats_one_whose_objective_is_noise() -> None:
    """Squares of 1e48 must cancel for a target near one: floats have no digit of the prediction left."""
    X = [[1.7e48], [-2.3e48]]
    problem = qsdp.TrainingProblem(X, [1.0, -0.4], beta=1.7e-5, loss="absolute", activation="relu_like", levels=6)
    result = qsdp.column_generation(problem, time_limit=5.0)
    assert result.objective <= problem.data_fit.value_at_zero
    assert result.lower_bound <= result.objective


def test_rounding_of_an_objective() -> None:
    problem = qsdp.TrainingProblem([[1.0, 2.0], [3.0, -1.0]], [1.0, -1.0], beta=0.1)
    small = qsdp.BilinearNetwork([[1, 1]], [[1, -1]], [0.1])
    assert 0.0 < problem.objective_rounding(small) < 1e-12
    assert problem.objective_rounding(qsdp.BilinearNetwork([[1, 1]], [[1, -1]], [1e15])) > 1e10
    assert problem.objective_rounding(qsdp.BilinearNetwork([[1, 1]], [[1, -1]], [1e200])) == np.inf
    assert problem.objective_rounding(qsdp.BilinearNetwork([[1, 1]], [[1, -1]], [0.0])) == 0.0


def test_certificate_of_an_uncertain_objective_is_not_saved(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 3))
    problem = qsdp.TrainingProblem(X, rng.standard_normal(6), beta=1e-12)
    signs = np.array([[1, 1, 1], [1, 1, -1], [1, -1, 1], [1, -1, -1]])
    network = qsdp.BilinearNetwork(np.vstack([signs, signs]), np.vstack([signs, signs]), np.repeat([1e9, -1e9], 4))
    certificate = qsdp.certify(network, problem)
    with pytest.raises(InvalidInputError, match=r"the objective of its network.* is ill-conditioned .* similar sizes"):
        certificate.save(tmp_path / "one.qsdp")
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
@pytest.mark.parametrize("loss", ["huber", "cross_entropy"])
def test_certificate_of_predictions_beyond_doubles_is_not_saved(loss: str, tmp_path: Path) -> None:
    """Their sums in any order agree, and a checker with twice the digits of a double knows no more."""
    classes = loss == "cross_entropy"
    y = [0.0, 1.0] if classes else [4e26, 1.0]
    problem = qsdp.TrainingProblem([[1e13, 1e13], [1.0, 0.0]], y, beta=1.0, loss=loss)
    alpha = [[1.0, 1.0]] if classes else [1.0]
    certificate = qsdp.certify(
        qsdp.BilinearNetwork([[1, 1]], [[1, 1]], alpha), problem, qsdp.solve_relaxation(problem, max_iter=1)
    )
    with pytest.raises(InvalidInputError, match=r"the objective of its network.* is ill-conditioned"):
        certificate.save(tmp_path / "one.qsdp")
    assert not list(tmp_path.iterdir())


def test_bounds_known_of_a_vector_that_is_projected_afterwards(tmp_path: Path) -> None:
    """Probabilities round to 1e-16, which is much of a dual vector of 1e-10 and far too much beside rows of 1e4."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((5, 2)) * [1e4, 1e3]
    problem = qsdp.TrainingProblem(X, [0.0, 1.0, 0.0, 1.0, 0.0], beta=1e-3, loss="cross_entropy")
    certificate = qsdp.column_generation(problem, time_limit=1.0).certificate
    certificate.save(tmp_path / "one.qsdp")
    assert qsdp_check.main([str(tmp_path / "one.qsdp")]) == 0
