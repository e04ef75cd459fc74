"""The relaxation against enumeration of every neuron, and against solvers that misbehave."""

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from brute_force import global_optimum, random_problem
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
from benchmarks.data.uci_sets import load_uci
from qsdp.exceptions import SolverError, UnavailableSolverError
from qsdp.losses import SCALAR_LOSSES
from qsdp.relaxation import RawSolution
from qsdp.relaxation.backends import BACKENDS

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")

KRIVINE = np.pi / (2 * np.arcsinh(1.0))

problems = st.builds(
    random_problem,
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([1, 2, 3, 4, 5]),
    n=st.integers(2, 14),
    loss=st.sampled_from(sorted(SCALAR_LOSSES)),
    beta=st.sampled_from([1e-3, 1e-2, 0.1, 1.0, 10.0]),
    coarse=st.booleans(),
)


def replaced_backend(monkeypatch, solve):
    """Let "scs" be a solver that returns what `solve(problem, settings)` returns."""
    monkeypatch.setitem(BACKENDS, "scs", replace(BACKENDS["scs"], solve=solve))


@settings(max_examples=15, deadline=None)
@given(problems, st.integers(1, 40), st.integers(0, 1000))
def test_bound_and_network_bracket_the_global_optimum(problem, n_neurons, seed):
    optimum = global_optimum(problem)
    relaxation = qsdp.solve_relaxation(problem, solver="scs")
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), n_neurons, seed)
    assert relaxation.lower_bound <= optimum.upper
    assert optimum.lower <= problem.objective(network)
    assert relaxation.lower_bound <= relaxation.objective


@settings(max_examples=25, deadline=None)
@given(problems, st.sampled_from([{"tol": 1e-2}, {"max_iter": 5}, {"max_iter": 1, "tol": 1.0}]))
def test_bound_is_valid_at_loose_tolerance_and_early_stop(problem, options):
    relaxation = qsdp.solve_relaxation(problem, solver="scs", **options)
    assert relaxation.lower_bound <= global_optimum(problem).upper
    assert_feasible(relaxation)


GARBAGE = {
    "indefinite": lambda M, rng: M - 3.0 * np.abs(M).max() * np.eye(len(M)),
    "asymmetric": lambda M, rng: M + rng.standard_normal(M.shape),
    "random": lambda M, rng: rng.standard_normal(M.shape),
    "huge": lambda M, rng: 1e12 * M,
    "tiny": lambda M, rng: 1e-12 * M,
    "negative": lambda M, rng: -M,
    "not a number": lambda M, rng: np.full_like(M, np.nan),
    "infinite": lambda M, rng: np.full_like(M, np.inf),
    "zero": lambda M, rng: np.zeros_like(M),
    "absent": lambda M, rng: None,
}


@pytest.mark.parametrize("kind", sorted(GARBAGE))
@pytest.mark.parametrize("loss", ["squared", "hinge", "logistic"])
def test_bound_is_valid_whatever_the_solver_returns(monkeypatch, kind, loss):
    problem = random_problem(11, 4, 12, loss=loss, beta=0.2)
    optimum = global_optimum(problem)
    rng = np.random.default_rng(5)
    spoil = GARBAGE[kind]
    original = BACKENDS["scs"].solve

    def lying(normal, options):
        raw = original(normal, options)
        vectors = [spoil(np.diag(v), rng) for v in (raw.nu[:, 0], raw.z[0])]
        nu, z = (None if v is None else np.diagonal(v).copy() for v in vectors)
        matrices = [spoil(block[0], rng) for block in (raw.Z, raw.V, raw.W)]
        Z, V, W, z = (None if part is None else part[None] for part in (*matrices, z))
        nu = None if nu is None else nu[:, None]
        return RawSolution(Z, V, W, nu, z, status="optimal")

    replaced_backend(monkeypatch, lying)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        relaxation = qsdp.solve_relaxation(problem, solver="scs")
    assert 0.0 <= relaxation.lower_bound <= optimum.upper
    assert optimum.lower <= KRIVINE * relaxation.objective
    assert_feasible(relaxation)
    # The solver said "optimal"; the status repeats it only where the gap agrees.
    assert (relaxation.status == "optimal") == (relaxation.relative_gap <= 100 * relaxation.tol)
    assert relaxation.status in (
        {"failed", "optimal"} if kind in {"absent", "infinite"} else {"inaccurate", "optimal", "failed"}
    )


@pytest.mark.parametrize("part", ["Z", "V", "nu", "z"])
def test_one_missing_part_does_no_harm(monkeypatch, part):
    from dataclasses import replace

    problem = random_problem(2, 4, 12)
    original = BACKENDS["scs"].solve
    replaced_backend(monkeypatch, lambda normal, options: replace(original(normal, options), **{part: None}))
    relaxation = qsdp.solve_relaxation(problem, solver="scs")
    assert relaxation.lower_bound <= global_optimum(problem).upper
    assert_feasible(relaxation)


def assert_feasible(relaxation):
    (Z,), (V,), (W,), rho = relaxation.Z[0], relaxation.V[0], relaxation.W[0], relaxation.rho[0, 0]
    K = np.block([[V, Z], [Z.T, W]])
    np.testing.assert_array_equal(K.diagonal(), np.full(len(K), rho))
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K)[0] >= -1e-12 * max(rho, 1e-300)
    problem = relaxation.problem
    direct = problem.loss.value(np.array([2 * x @ Z @ x for x in problem.X]), problem.y)
    direct += 2.0 * problem.beta * problem.dimension * rho
    assert relaxation.objective == pytest.approx(direct, rel=1e-9)


@pytest.mark.parametrize("loss", sorted(SCALAR_LOSSES))
def test_solvers_agree(loss):
    problem = random_problem(4, 5, 25, loss=loss, beta=0.5)
    reference = qsdp.solve_relaxation(problem, solver="scs", tol=1e-8)
    other = qsdp.solve_relaxation(problem, solver="clarabel", tol=1e-8)
    assert other.solver == "clarabel"
    assert other.objective == pytest.approx(reference.objective, rel=1e-5)
    assert other.lower_bound == pytest.approx(reference.objective, rel=1e-4)


@pytest.mark.parametrize(("scale_x", "scale_y"), [(1e-6, 1e3), (1e5, 1e-4), (1e40, 1e40), (1e-40, 1e-40)])
def test_units_do_not_matter(scale_x, scale_y):
    problem = random_problem(8, 4, 20, beta=0.5)
    beta = problem.beta * scale_y * scale_x**2
    scaled = qsdp.TrainingProblem(problem.X * scale_x, problem.y * scale_y, beta=beta)
    plain, other = qsdp.solve_relaxation(problem), qsdp.solve_relaxation(scaled)
    assert other.objective == pytest.approx(plain.objective * scale_y**2, rel=1e-5)
    assert other.lower_bound == pytest.approx(plain.lower_bound * scale_y**2, rel=1e-5)
    assert other.rho == pytest.approx(plain.rho * scale_y / scale_x**2, rel=1e-3)


def test_dual_of_the_result_proves_the_bound():
    problem = random_problem(9, 5, 20, beta=0.5)
    relaxation = qsdp.solve_relaxation(problem)
    nu, z = relaxation.dual.nu, relaxation.dual.z
    M = problem.X.T @ np.diag(nu) @ problem.X
    assert z.min() > 0
    assert z.sum() <= problem.beta * problem.dimension * (1 + 1e-12)
    assert np.linalg.eigvalsh(np.diag(z) - M)[0] >= -1e-12
    assert np.linalg.eigvalsh(np.diag(z) + M)[0] >= -1e-12
    assert -problem.loss.conjugate(-nu, problem.y) == pytest.approx(relaxation.lower_bound, rel=1e-12)


def test_large_beta_makes_zero_optimal_without_a_solve(monkeypatch):
    def explode(*args):
        raise AssertionError("solved although zero is optimal")

    replaced_backend(monkeypatch, explode)
    problem = random_problem(1, 4, 10, beta=1e9)
    with pytest.warns(qsdp.QSDPWarning, match="zero network is globally optimal"):
        relaxation = qsdp.solve_relaxation(problem)
    assert relaxation.rho == 0
    assert relaxation.lower_bound == pytest.approx(relaxation.objective, rel=1e-12)
    assert relaxation.objective == pytest.approx(np.sum(problem.y**2), rel=1e-12)
    assert global_optimum(problem).upper >= relaxation.lower_bound


def hasty(solver):
    """Return a back end that stops at a gap of a tenth and claims success."""
    backend = BACKENDS[solver]
    return replace(backend, solve=lambda instance, settings: backend.solve(instance, replace(settings, tol=0.1)))


@pytest.mark.parametrize("solver", ["scs", "interior"])
def test_status_of_a_solver_that_claims_success_too_early(monkeypatch, solver):
    monkeypatch.setitem(BACKENDS, solver, hasty(solver))
    relaxation = qsdp.solve_relaxation(random_problem(1, 6, 40, beta=0.01), solver=solver, tol=1e-7)
    assert (relaxation.solver_status, relaxation.status) == ("optimal", "inaccurate")


@pytest.mark.parametrize("max_iter", [None, 2000])
def test_splitting_follows_a_method_that_ends_above_the_tolerance(monkeypatch, max_iter):
    monkeypatch.setitem(BACKENDS, "interior", hasty("interior"))
    relaxation = qsdp.solve_relaxation(random_problem(1, 6, 40, beta=0.01), max_iter=max_iter)
    assert (relaxation.solver, relaxation.status) == ("splitting", "optimal")


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"max_iter": 2}, "'interior' reached its iteration limit; allow more with max_iter .*solver='splitting'$"),
        ({"max_iter": 2, "solver": "splitting"}, "iteration limit; allow more with max_iter .* or try solver='auto'$"),
        ({"time_limit": 1e-9}, "the time limit ended the solve; allow more time with time_limit$"),
    ],
)
def test_warnings_name_gap_tolerance_cause_and_next_step(options, cause):
    with pytest.warns(qsdp.QSDPWarning, match=rf"above tol=1e-06, .*bound is valid: .*{cause}"):
        qsdp.solve_relaxation(random_problem(1, 6, 40, beta=0.01), **options)


def test_whoever_stopped_a_solve_is_not_warned():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        qsdp.solve_relaxation(random_problem(1, 6, 40, beta=0.01), callback=lambda progress: True)


def correlated(noise, n=2000, d=30):
    """Return a problem of columns that lie near a plane, or of noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d)) + noise * rng.standard_normal((n, d))
    score = X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(n)
    problem = qsdp.TrainingProblem(X, np.where(score > 0.0, 1.0, -1.0), beta=1.0, loss="logistic")
    return problem.with_beta(0.01 * qsdp.beta_max(problem))


class TestFirstTry:
    @pytest.fixture(autouse=True)
    def always(self, monkeypatch):
        monkeypatch.setattr("qsdp.relaxation.backends.SECOND", 0.0)
        monkeypatch.setattr("qsdp.relaxation.backends.INNER", 0.3)

    def test_low_rank_solves_what_has_low_rank(self):
        found = qsdp.solve_relaxation(correlated(0.05), tol=1e-3)
        assert (found.solver, found.status) == ("low-rank", "optimal")

    @pytest.mark.parametrize("effort", [0.0, 1e-3])
    def test_the_chosen_method_follows_where_it_does_not(self, monkeypatch, effort):
        monkeypatch.setattr("qsdp.relaxation.backends.INNER", effort)
        problem = correlated(1.0)
        found = qsdp.solve_relaxation(problem, tol=1e-6)
        alone = qsdp.solve_relaxation(problem, solver="interior", tol=1e-6)
        assert found.solver != "low-rank"
        assert found.status == "optimal"
        assert found.objective == pytest.approx(alone.objective, rel=2e-6)

    def test_a_stop_by_the_callback_is_final(self):
        found = qsdp.solve_relaxation(correlated(1.0), callback=lambda progress: progress.iteration >= 1)
        assert (found.solver, found.solver_status) == ("low-rank", "stopped by the callback")
        assert found.lower_bound <= found.objective

    def test_a_limit_of_iterations_is_for_one_method(self):
        assert qsdp.solve_relaxation(correlated(0.05), max_iter=3).solver != "low-rank"


class TestRegistry:
    def test_auto_takes_the_first_that_can_what_ours_cannot(self, monkeypatch):
        problem, logistic = random_problem(0, 2, 4), random_problem(0, 2, 4, loss="logistic")
        limited = replace(BACKENDS["clarabel"], unfit=lambda loss: "no exponentials" if loss.labels else None)
        monkeypatch.setattr("qsdp.relaxation.backends.BACKENDS", {"clarabel": limited})
        assert qsdp.solve_relaxation(problem).solver == "clarabel"
        with pytest.raises(UnavailableSolverError, match="'logistic': it requires no exponentials"):
            qsdp.solve_relaxation(logistic)

    def test_solvers_through_cvxpy_take_no_callback(self):
        with pytest.raises(SolverError, match="does not support callback"):
            qsdp.solve_relaxation(random_problem(0, 2, 4), solver="scs", callback=print)

    def test_missing_package_says_what_to_install(self, monkeypatch):
        from dataclasses import replace

        gone = replace(BACKENDS["clarabel"], package="a_package_that_is_not_there")
        monkeypatch.setitem(BACKENDS, "clarabel", gone)
        with pytest.raises(UnavailableSolverError, match=r"pip install clarabel") as caught:
            qsdp.solve_relaxation(random_problem(0, 2, 4), solver="clarabel")
        assert "\n" not in str(caught.value)
        assert "pip install" in qsdp.available_solvers()["clarabel"]

    def test_mosek_without_licence_says_so_in_one_line(self):
        reason = qsdp.available_solvers()["mosek"]
        if reason is None:
            relaxation = qsdp.solve_relaxation(random_problem(0, 4, 20), solver="mosek")
            assert relaxation.status == "optimal"
            return
        assert "\n" not in reason
        with pytest.raises(UnavailableSolverError, match=r"licence|pip install"):
            qsdp.solve_relaxation(random_problem(0, 2, 4), solver="mosek")

    def test_mosek_is_asked_with_its_own_parameters(self, monkeypatch):
        # The path up to the solver, with a licence: what reaches CVXPY is MOSEK's name and parameters.
        from dataclasses import replace

        handed = {}

        def take(program, name, **options):
            handed.update(solver=name, options=options["solver_opts"])
            raise cp.SolverError("enough")

        monkeypatch.setitem(BACKENDS, "mosek", replace(BACKENDS["mosek"], licence=None))
        monkeypatch.setattr(cp.Problem, "get_problem_data", take)
        with pytest.raises(cp.SolverError, match="enough"):
            qsdp.solve_relaxation(random_problem(0, 2, 4), solver="mosek", tol=1e-7, max_iter=7, time_limit=3.0)
        assert handed["solver"] == "MOSEK"
        parameters = handed["options"]["mosek_params"]
        assert parameters["MSK_IPAR_INTPNT_MAX_ITERATIONS"] == 7
        assert parameters["MSK_DPAR_OPTIMIZER_MAX_TIME"] == pytest.approx(3.0, abs=1.0)
        assert parameters["MSK_DPAR_INTPNT_CO_TOL_REL_GAP"] == 1e-7

    def test_limit_a_solver_does_not_take_is_refused(self, monkeypatch):
        monkeypatch.setitem(BACKENDS, "scs", replace(BACKENDS["scs"], time_limit=False))
        with pytest.raises(SolverError, match="does not support time_limit"):
            qsdp.solve_relaxation(random_problem(0, 2, 4), solver="scs", time_limit=1.0)

    @pytest.mark.parametrize("solver", ["scs", "clarabel"])
    def test_iteration_limit_is_kept(self, solver):
        problem = random_problem(1, 6, 40, beta=0.01)
        relaxation = qsdp.solve_relaxation(problem, solver=solver, max_iter=2)
        assert relaxation.solver_status != "optimal"
        assert relaxation.lower_bound <= global_optimum(problem).upper

    @pytest.mark.parametrize("solver", ["scs", "clarabel"])
    def test_time_limit_is_handed_over(self, solver):
        problem = random_problem(1, 6, 40, loss="hinge", beta=1e-4)
        relaxation = qsdp.solve_relaxation(problem, solver=solver, tol=1e-14, time_limit=1e-4)
        assert relaxation.solver_status != "optimal"
        assert relaxation.lower_bound <= global_optimum(problem).upper


class TestReferenceValues:
    """Section 10 of the theory, on the original files."""

    @staticmethod
    def standardised(name, constant):
        X, _, y, _ = load_uci(name).split(0)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        return (np.hstack([X, np.ones((len(X), 1))]) if constant else X), y

    def test_ionosphere(self, uci_available):
        X, y = self.standardised("ionosphere", constant=False)
        problem = qsdp.TrainingProblem(X, y, beta=10.0)
        assert X.shape == (280, 33)
        tight = qsdp.solve_relaxation(problem)
        assert tight.lower_bound == pytest.approx(56.2728, abs=5e-4)
        assert tight.objective == pytest.approx(56.2728, abs=5e-4)
        # The program as printed has half of the regulariser (tests/test_paper.py).
        assert qsdp.solve_relaxation(problem.with_beta(5.0)).objective == pytest.approx(38.909, abs=5e-3)

    def test_breast_cancer(self, uci_available):
        X, y = self.standardised("breast-cancer", constant=True)
        relaxation = qsdp.solve_relaxation(qsdp.TrainingProblem(X, y, beta=10.0))
        assert X.shape == (228, 10)
        assert relaxation.objective == pytest.approx(136.975, abs=1e-3)
        # The proven global optimum lies above the bound.
        assert relaxation.lower_bound <= 138.83095


def test_the_keyboard_interrupts_a_solve():
    # In a process of its own: SCS catches the signal itself and would report a failure.
    import subprocess
    import sys

    script = """
import os, signal, threading
import numpy as np
import scs
import qsdp

class Interrupted(scs.SCS):
    def solve(self, *arguments, **options):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        return super().solve(*arguments, **options)

scs.SCS = Interrupted
rng = np.random.default_rng(0)
X, y = rng.standard_normal((200, 30)), np.where(rng.random(200) < 0.5, -1.0, 1.0)
problem = qsdp.TrainingProblem(X, y, beta=1e-4, loss="logistic")
planted = qsdp.TrainingProblem(*qsdp.datasets.make_planted(n=60, d=60, n_neurons=3, random_state=0), beta=0.1)
for solve in (
    lambda: qsdp.solve_relaxation(problem, solver="scs", tol=1e-14),
    lambda: qsdp.paper.algorithm_1(planted),
):
    try:
        solve()
    except KeyboardInterrupt:
        print("interrupted")
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.splitlines().count("interrupted") == 2


def test_a_dual_vector_of_one_output_may_have_one_axis(monkeypatch):
    problem = random_problem(3, 3, 12, beta=0.1)
    original = BACKENDS["scs"].solve

    def flat(normal, options):
        raw = original(normal, options)
        return replace(raw, nu=raw.nu[:, 0])

    expected = qsdp.solve_relaxation(problem, solver="scs")
    replaced_backend(monkeypatch, flat)
    found = qsdp.solve_relaxation(problem, solver="scs")
    assert found.lower_bound == expected.lower_bound
