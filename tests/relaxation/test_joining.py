"""The best of several solves of a relaxation, and of the point and the gradient of a network."""

from dataclasses import replace

import numpy as np
import pytest
from relaxation_proofs import assert_proven

import qsdp
from qsdp.relaxation.backends import BACKENDS
from qsdp.relaxation.joining import better_of, point_of, with_network
from qsdp.relaxation.repair import along_gradient
from qsdp.relaxation.scaled import ScaledProblem
from qsdp.relaxation.solution import Relaxation, finish

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")

KINDS = {
    "bilinear": {},
    "levels": {"levels": 4},
    "lifted": {"activation": (1.0, 0.5, 0.2), "levels": 3},
    "logistic": {"loss": "logistic"},
    "outputs": {"outputs": 3},
    "coupled": {"loss": "cross_entropy", "outputs": 3},
}


def problem_of(outputs=0, beta=0.3, n=60, d=6, **kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(n)
    if kind.get("loss") == "logistic":
        y = np.sign(y)
    if outputs:
        y = np.stack([y, X[:, 2] * X[:, 3], rng.standard_normal(n)], axis=1)
    if kind.get("loss") == "cross_entropy":
        y = y.argmax(axis=1)
    return qsdp.TrainingProblem(X, y, beta=beta, **kind)


def stopped(problem) -> Relaxation:
    """Return a relaxation that ended long before its tolerance: a point along the gradient, and the bound of zero."""
    scaled = ScaledProblem.from_problem(problem)
    nu = 0.5 * scaled.instance.zero_dual
    raw = replace(along_gradient(scaled.instance), nu=nu, status="time limit")
    return finish(scaled, raw, solver="splitting", tol=1e-6, certified=True)


def polished(problem, seed=0):
    covariance = qsdp.shape_covariance(qsdp.solve_relaxation(problem))
    network = qsdp.sample_network(covariance, n_neurons=60, random_state=seed)
    return qsdp.polish(network, problem, random_state=seed)


@pytest.mark.parametrize("kind", sorted(KINDS))
class TestNetworks:
    def test_a_network_is_a_point_of_its_objective(self, kind):
        problem = problem_of(**KINDS[kind])
        network = polished(problem)
        Z, V = point_of(network, problem)
        np.testing.assert_allclose(problem.relaxed_predictions(Z), problem.outputs(network), atol=1e-10)
        for block, diagonal in zip(Z, V, strict=True):
            assert np.linalg.eigvalsh(diagonal + block)[0] >= -1e-12
            assert np.linalg.eigvalsh(diagonal - block)[0] >= -1e-12
        rhos = np.diagonal(V, axis1=1, axis2=2).max(axis=1)
        weight = problem.relaxed_penalty
        assert weight * rhos.sum() <= problem.penalty(network) * (1.0 + 1e-12)

    def test_a_stopped_solve_takes_point_and_bound_of_a_network(self, kind):
        problem = problem_of(**KINDS[kind])
        network, early = polished(problem), stopped(problem)
        joined = with_network(early, network)
        assert problem.objective(network) < early.objective
        assert joined.objective <= problem.objective(network) * (1.0 + 1e-12)
        assert joined.lower_bound > early.lower_bound
        assert joined.lower_bound <= qsdp.solve_relaxation(problem, tol=1e-8).objective
        assert_proven(joined)
        assert qsdp.certify(network, problem, joined).relative_gap < qsdp.certify(network, problem, early).relative_gap


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_training_returns_no_point_worse_than_its_network(kind, monkeypatch):
    backend = BACKENDS["splitting"]
    hasty = replace(backend, solve=lambda instance, settings: backend.solve(instance, replace(settings, tol=0.8)))
    monkeypatch.setitem(BACKENDS, "splitting", hasty)
    problem = problem_of(**KINDS[kind])
    y = problem.y.argmax(axis=1) if problem.loss.coupled else problem.y
    options = {"beta": problem.beta, "loss": problem.loss, "levels": problem.levels, "activation": problem.activation}
    early = qsdp.solve_relaxation(problem, solver="splitting")
    result = qsdp.solve_and_sample(problem.X, y, n_neurons=60, solver="splitting", refine="polish", **options)
    best = min(result.certificate.objective, early.objective)
    assert result.relaxation.objective <= best * (1.0 + 1e-12)
    assert result.relaxation.lower_bound >= early.lower_bound
    assert result.certificate.lower_bound == pytest.approx(result.relaxation.lower_bound, rel=1e-6)
    assert_proven(result.relaxation)
    # The covariance is that of the point: neurons drawn anew belong to it.
    again = qsdp.shape_covariance(result.relaxation)
    for one, two in zip(np.atleast_1d(result.covariance), np.atleast_1d(again), strict=True):
        np.testing.assert_array_equal(one.Q, two.Q)


class TestBetterOf:
    def test_outputs_that_do_not_interact_are_chosen_apart(self):
        problem = problem_of(outputs=3)
        good = qsdp.solve_relaxation(problem, tol=1e-8)
        scaled = ScaledProblem.from_problem(problem)
        raw = scaled.inside(good.Z_stack, good.V_stack, good.dual.nu, good.dual.z)

        def spoiled(outputs):
            Z, V, nu = raw.Z.copy(), raw.V.copy(), raw.nu.copy()
            Z[outputs], V[outputs], nu[:, outputs] = 0.0, 0.0, 0.0
            found = finish(scaled, replace(raw, Z=Z, V=V, W=V, nu=nu), solver="one", tol=1e-6, certified=True)
            # Bounds are to be those of the candidates.
            return replace(found, status="inaccurate")

        one, other = spoiled([0]), spoiled([1, 2])
        joined = better_of(one, other)
        assert max(one.objective, other.objective) > good.objective * 1.01
        assert joined.objective == pytest.approx(good.objective, rel=1e-9)
        assert joined.lower_bound >= max(one.lower_bound, other.lower_bound)
        assert_proven(joined)

    def test_the_point_of_one_has_the_bound_of_the_other(self):
        problem = problem_of()
        found = qsdp.solve_relaxation(problem, tol=1e-8)
        half = 0.5 * found.lower_bound
        weak = replace(found.bound, nu=0.5 * found.bound.nu, value=half)
        changed = {"bound": weak, "lower_bound": half, "lower_bounds": np.array([half])}
        point = replace(found, **changed, status="inaccurate", solve_time=1.0)
        zero, at_zero = np.zeros_like(found.Z_stack), problem.data_fit.value_at_zero
        blocks = {"Z_stack": zero, "V_stack": zero, "rho_stack": np.zeros(1)}
        values = {"objective": at_zero, "objectives": np.array([at_zero])}
        bound = replace(found, **blocks, **values, status="inaccurate", solve_time=2.0)
        for joined in (better_of(bound, point), better_of(point, bound)):
            assert joined.status == "optimal"
            assert joined.objective == found.objective
            assert joined.lower_bound == found.lower_bound
            assert joined.solve_time == 3.0
            assert_proven(joined)
