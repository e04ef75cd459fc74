"""The best of several solves of a relaxation, and of the point and the gradient of a network."""

import math
from dataclasses import replace

import numpy as np
import pytest

import qsdp
from qsdp._utils import deadline
from qsdp.choosing.options import TrainingOptions
from qsdp.pipeline import sample_from
from qsdp.relaxation import solve as solving
from qsdp.relaxation.backends import choose_backend, low_rank_first
from qsdp.relaxation.bounds import best_dual_bound, instance_bound
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.joining import better_of, point_of, with_network
from qsdp.relaxation.repair import along_gradient
from qsdp.relaxation.scaled import RawSolution, ScaledProblem, Settings
from qsdp.relaxation.solution import Relaxation, finish
from qsdp.relaxation.solve import _without_zeros

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


def assert_honest(relaxation):
    """Point, objective, bound and gap are those of the problem, computed anew."""
    problem = relaxation.problem
    assert relaxation.objective == pytest.approx(problem.relaxed_objective(relaxation.Z, relaxation.rho), rel=1e-9)
    for Z, V, rho in zip(relaxation.Z_stack, relaxation.V_stack, relaxation.rho_stack, strict=True):
        np.testing.assert_allclose(np.diagonal(V), rho, rtol=1e-12)
        assert min(np.linalg.eigvalsh(V + Z)[0], np.linalg.eigvalsh(V - Z)[0]) >= -1e-10 * max(rho, 1.0)
    proven = best_dual_bound(problem, [relaxation.dual.nu], [relaxation.dual.z]).value
    assert relaxation.lower_bound <= proven * (1.0 + 1e-6) + 1e-9
    assert relaxation.lower_bound == pytest.approx(relaxation.dual.value, rel=1e-12)
    assert relaxation.objective == pytest.approx(relaxation.objectives.sum(), rel=1e-12)
    assert relaxation.lower_bound == pytest.approx(relaxation.lower_bounds.sum(), rel=1e-12)


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
        assert_honest(joined)
        assert qsdp.certify(network, problem, joined).relative_gap < qsdp.certify(network, problem, early).relative_gap

    def test_the_pipeline_returns_no_point_worse_than_its_network(self, kind):
        problem = problem_of(**KINDS[kind])
        early = stopped(problem)
        options = TrainingOptions(n_neurons=60, beta=problem.beta, loss=problem.loss, refine="polish")
        result = sample_from(early, options, np.random.default_rng(0))
        assert result.certificate.objective < early.objective
        assert result.relaxation.objective <= result.certificate.objective * (1.0 + 1e-12)
        assert result.relaxation.lower_bound > early.lower_bound
        assert result.certificate.lower_bound == pytest.approx(result.relaxation.lower_bound, rel=1e-6)
        # The covariance is that of the point: neurons drawn anew belong to it.
        again = qsdp.shape_covariance(result.relaxation)
        for one, two in zip(np.atleast_1d(result.covariance), np.atleast_1d(again), strict=True):
            np.testing.assert_array_equal(one.Q, two.Q)


def test_a_solved_relaxation_stays_as_it_is():
    problem = problem_of()
    solved = qsdp.solve_relaxation(problem)
    options = TrainingOptions(n_neurons=30, beta=problem.beta, refine="polish")
    assert sample_from(solved, options, np.random.default_rng(0)).relaxation is solved


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
        assert_honest(joined)

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
            assert_honest(joined)


class TestEndOfTime:
    @pytest.mark.parametrize("kind", ["bilinear", "logistic", "outputs"])
    def test_gradients_prove_more_than_a_poor_dual_vector(self, kind):
        problem = problem_of(**KINDS[kind])
        scaled = ScaledProblem.from_problem(problem)
        good = qsdp.solve_relaxation(problem, tol=1e-3)
        nu = np.random.default_rng(1).standard_normal(good.dual.nu.shape) * good.dual.nu
        raw = scaled.inside(good.Z_stack, good.V_stack, nu, good.dual.z)
        ended = replace(raw, status="time limit")
        found = finish(scaled, ended, solver="low-rank", tol=1e-6, certified=True)
        gradient = -problem.data_fit.gradient(problem.relaxed_predictions(good.Z_stack))
        if problem.scalar:
            # One decomposition with the row sums as weights.
            cheap = instance_bound(Instance.from_problem(problem), [gradient], exhaustive=False).value
            assert found.lower_bound == pytest.approx(cheap, rel=1e-9)
        assert found.lower_bound > 2.0 * best_dual_bound(problem, [nu], [good.dual.z]).value
        assert_honest(found)

    def test_outputs_that_were_not_begun_have_a_point_along_the_gradient(self):
        problem = problem_of(outputs=3)
        instance = ScaledProblem.from_problem(problem).instance
        Z, V = np.zeros((2, 3, problem.size, problem.size))
        V[0] = np.eye(problem.size)
        Z[0] = 0.1 * V[0]
        raw = RawSolution(Z, V, V, status="time limit")
        filled = _without_zeros(raw, instance)
        np.testing.assert_array_equal(filled.Z[0], Z[0])
        for k in (1, 2):
            part = instance.parts[k]
            cost = part.penalty * float(np.diagonal(filled.V[k]).max())
            assert part.fit.value(part.predictions(filled.Z[k : k + 1])) + cost < part.fit.value_at_zero
        np.testing.assert_array_equal(Z[1:], 0.0)


class TestChoiceInTime:
    @staticmethod
    def of(interior, splitting, monkeypatch):
        counts = {"interior": interior, "splitting": splitting, "low-rank": np.inf}
        monkeypatch.setattr("qsdp.relaxation.backends._operations", lambda backend, *rest: counts[backend.name])
        monkeypatch.setattr("qsdp.relaxation.backends.SECOND", 0.0)
        instance = ScaledProblem.from_problem(problem_of()).instance
        options = Settings(1e-6)
        return options, instance, choose_backend("auto", instance, options)

    def test_the_choice_does_not_depend_on_the_time_left(self, monkeypatch):
        for seconds in (math.inf, 1e6, 1e-9):
            with deadline.within(seconds):
                # The interior-point method unless splitting, which is uncertain, promises to save most operations.
                assert self.of(8e9, 1e9, monkeypatch)[2].name == "interior"
                assert self.of(32e9, 1e9, monkeypatch)[2].name == "splitting"

    def test_the_first_try_takes_a_share_of_the_operations(self, monkeypatch):
        options, instance, chosen = self.of(8e9, 1e9, monkeypatch)
        assert low_rank_first(chosen, instance, options).effort == pytest.approx(8e8)
        tried = []

        def attempt(scaled, backend, settings):
            tried.append((backend.name, settings.effort, deadline.left()))
            return attempts(scaled, backend, settings)

        attempts = solving._solve_once
        monkeypatch.setattr(solving, "_solve_once", attempt)
        for seconds in (1e6, math.inf):
            with deadline.within(seconds):
                solving.solve_with(problem_of(), "auto", options)
            # Its own operations and time end the attempt, see `solve_low_rank`.
            assert tried[0] == ("low-rank", pytest.approx(8e8), pytest.approx(seconds))
            tried.clear()
