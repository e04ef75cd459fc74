"""Certificates: identities, refusals, and the bound against the true optimum of enumerated problems."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import BilinearNetwork, Certificate, Relaxation, TrainingProblem, certify, solve_relaxation
from qsdp.exceptions import InvalidInputError
from qsdp.losses import SCALAR_LOSSES

FUZZ = settings(max_examples=80, deadline=None, derandomize=True)
#: Krivine's bound on Grothendieck's constant.
KRIVINE = math.pi / (2 * math.asinh(1.0))


def make(loss: str, *, n: int = 15, d: int = 3, beta: float = 0.5, seed: int = 0) -> TrainingProblem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X[:, 0] * X[:, 1] - 0.3 * rng.standard_normal(n)
    return TrainingProblem(X, np.sign(y) if SCALAR_LOSSES[loss].labels else y, beta=beta, loss=loss)


@pytest.fixture(scope="module")
def solved() -> dict[str, Relaxation]:
    return {loss: solve_relaxation(make(loss)) for loss in SCALAR_LOSSES}


def true_optimum(problem: TrainingProblem) -> BilinearNetwork:
    """Return the best network of any width: a convex problem over all pairs of sign vectors up to sign."""
    d = problem.dimension
    half = [np.array((1, *rest)) for rest in itertools.product((-1, 1), repeat=d - 1)]
    pairs = list(itertools.combinations_with_replacement(half, 2))
    features = np.stack([(problem.X @ u) * (problem.X @ v) for u, v in pairs], axis=1)
    alpha = cp.Variable(len(pairs))
    value = problem.loss.expression(features @ alpha, problem.y) + problem.beta * d * cp.norm1(alpha)
    cp.Problem(cp.Minimize(value)).solve(solver=cp.SCS, eps_abs=1e-9, eps_rel=1e-9, max_iters=100_000)
    return BilinearNetwork([u for u, _ in pairs], [v for _, v in pairs], alpha.value)


@pytest.mark.parametrize("loss", SCALAR_LOSSES)
def test_the_bound_is_below_the_true_optimum_and_not_far(loss: str, solved: dict[str, Relaxation]) -> None:
    problem = make(loss)
    certificate = certify(true_optimum(problem), problem, solved[loss])
    assert certificate.gap >= 0.0
    # p* <= d(K beta) <= K d(beta) for losses >= 0; the relaxation itself is solved to 1e-4.
    assert certificate.objective <= KRIVINE * certificate.lower_bound * (1 + 1e-4)
    assert certificate.lower_bound > 0.1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("beta", [0.01, 1.0])
def test_the_bound_is_below_the_true_optimum_on_more_data(seed: int, beta: float) -> None:
    problem = make("squared", n=12, d=4, beta=beta, seed=seed)
    certificate = certify(true_optimum(problem), problem, solve_relaxation(problem))
    assert certificate.gap >= 0.0
    assert certificate.objective <= KRIVINE * certificate.lower_bound * (1 + 1e-4)


@pytest.mark.parametrize("loss", SCALAR_LOSSES)
@FUZZ
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 30), scale=st.floats(-6, 2))
def test_the_bound_holds_for_every_network(
    loss: str, seed: int, m: int, scale: float, solved: dict[str, Relaxation]
) -> None:
    rng = np.random.default_rng(seed)
    U, V = rng.integers(0, 2, size=(2, m, 3)) * 2 - 1
    network = BilinearNetwork(U, V, rng.standard_normal(m) * 10.0**scale / m)
    certificate = certify(network, make(loss), solved[loss])
    assert certificate.lower_bound <= certificate.objective
    assert certificate.objective == make(loss).objective(network)
    assert certificate.lower_bound == solved[loss].lower_bound
    assert certificate.gap == certificate.objective - certificate.lower_bound
    assert certificate.relative_gap == pytest.approx(certificate.gap / certificate.objective, rel=1e-15)
    assert 0.0 <= certificate.relative_gap <= 1.0
    assert certificate.kind == "sdp"


def test_the_printed_relaxation_gives_a_weaker_valid_bound(solved: dict[str, Relaxation]) -> None:
    problem = make("squared")
    printed = solve_relaxation(problem, regularization="paper")
    network = true_optimum(problem)
    weak, strong = certify(network, problem, printed), certify(network, problem, solved["squared"])
    assert weak.lower_bound < strong.lower_bound <= strong.objective == weak.objective


# -- refusals ----------------------------------------------------------------------------------------

NETWORK = BilinearNetwork([[1, 1, -1]], [[1, -1, 1]], [0.5])


@pytest.mark.parametrize("width", [1, 2, 4])
def test_networks_of_another_width(width: int, solved: dict[str, Relaxation]) -> None:
    network = BilinearNetwork(np.ones((2, width)), np.ones((2, width)), [1.0, 1.0])
    with pytest.raises(InvalidInputError, match=rf"network must have n_inputs 3, as the problem has; got {width}"):
        certify(network, make("squared"), solved["squared"])


def nudged(array: np.ndarray) -> np.ndarray:
    changed = array.copy()
    changed.flat[0] = np.nextafter(changed.flat[0], np.inf)
    return changed


P = make("squared")
OTHERS: dict[str, TrainingProblem] = {
    "another beta": TrainingProblem(P.X, P.y, beta=P.beta * 2),
    "beta one rounding off": TrainingProblem(P.X, P.y, beta=float(np.nextafter(P.beta, 1))),
    "one entry of X one rounding off": TrainingProblem(nudged(P.X), P.y, beta=P.beta),
    "one entry of y one rounding off": TrainingProblem(P.X, nudged(P.y), beta=P.beta),
    "another loss": TrainingProblem(P.X, P.y, beta=P.beta, loss="huber"),
    "fewer samples": TrainingProblem(P.X[:-1], P.y[:-1], beta=P.beta),
    "other order": TrainingProblem(P.X[::-1], P.y[::-1], beta=P.beta),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_relaxations_of_another_problem(other: TrainingProblem, solved: dict[str, Relaxation]) -> None:
    with pytest.raises(InvalidInputError, match="relaxation must be one of the same problem"):
        certify(NETWORK, other, solved["squared"])


def test_an_equal_problem_will_do(solved: dict[str, Relaxation]) -> None:
    copied = TrainingProblem(P.X.tolist(), P.y.tolist(), beta=P.beta)
    assert certify(NETWORK, copied, solved["squared"]) == certify(NETWORK, P, solved["squared"])


@pytest.mark.parametrize(
    ("what", "network"),
    [
        ("levels 2, as the problem has; got 3", BilinearNetwork([[2, 0, -2]], [[0, 2, 2]], [0.5], levels=3)),
        ("n_outputs 1, as the problem has; got 2", BilinearNetwork([[1, 1, -1]], [[1, -1, 1]], [[0.5, 1.0]])),
        ("activation None, as the problem has", BilinearNetwork([[1] * 3], [[1] * 3], [0.5], activation="quadratic")),
        ("activation None, as the problem has", BilinearNetwork([[1] * 4], [[1] * 4], [0.5], activation="relu")),
    ],
)
def test_networks_of_another_kind(what: str, network: BilinearNetwork, solved: dict[str, Relaxation]) -> None:
    with pytest.raises(InvalidInputError, match=f"network must have {what}"):
        certify(network, make("squared"), solved["squared"])


@pytest.mark.parametrize(
    "options", [{"levels": 3}, {"activation": "relu"}, {"activation": "relu", "levels": 3}], ids=str
)
def test_problems_of_other_levels_and_activations_are_others(
    options: dict[str, Any], solved: dict[str, Relaxation]
) -> None:
    other = TrainingProblem(P.X, P.y, beta=P.beta, **options)
    assert other != P
    size = P.n_features + other.lifted
    network = BilinearNetwork(
        np.ones((1, size)) * (1 if options.get("levels", 2) == 2 else np.r_[np.zeros(3), np.ones(size - 3)]),
        np.ones((1, size)) * (1 if options.get("levels", 2) == 2 else np.r_[np.zeros(3), np.ones(size - 3)]),
        [0.5],
        other.levels,
        other.activation,
    )
    with pytest.raises(InvalidInputError, match="relaxation must be one of the same problem"):
        certify(network, other, solved["squared"])
    relaxation = solve_relaxation(other)
    certificate = certify(network, other, relaxation)
    assert certificate.objective == other.objective(network)
    assert certificate.gap >= 0.0


# -- the certificate itself --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lower", "objective", "gap", "share"),
    [
        (3.0, 4.0, 1.0, 0.25),
        (0.0, 2.0, 2.0, 1.0),
        (2.0, 2.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0),
        (0.0, 1e-300, 1e-300, 1.0),
    ],
)
def test_gaps_by_hand(lower: float, objective: float, gap: float, share: float) -> None:
    certificate = Certificate(lower_bound=lower, objective=objective)
    assert certificate.gap == gap
    assert certificate.relative_gap == share


def test_text() -> None:
    certificate = Certificate(lower_bound=3.0, objective=4.0)
    assert str(certificate) == "objective 4, global optimum >= 3 (sdp bound), gap 1 (25 %)"


def test_certificates_are_immutable_values() -> None:
    certificate = Certificate(lower_bound=3.0, objective=4.0)
    field: Any = "objective"
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(certificate, field, 3.0)
    assert certificate == Certificate(3.0, 4.0)
    assert certificate != Certificate(3.0, 4.0, kind="exact")
