"""Operator splitting: against other solvers, at every stop, and on data that degenerate."""

import math
from dataclasses import replace

import numpy as np
import pytest
from brute_force import global_optimum
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_interior import KINKED, data, reference, standardised
from test_interior_stops import assert_certified, problem_of

import qsdp
from qsdp._utils import deadline
from qsdp.gram import Gram
from qsdp.lifting import append_constant
from qsdp.losses import LOSSES
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import Progress, RawSolution, ScaledProblem, Settings
from qsdp.relaxation.solution import finish
from qsdp.relaxation.solvers.splitting import admm as splitting
from qsdp.relaxation.solvers.splitting import data_step, solve_splitting
from qsdp.relaxation.solvers.splitting.acceleration import Anderson
from qsdp.relaxation.solvers.splitting.data_step import GramStep, IterativeStep, KernelStep, choose_step, precision

STEPS = ("kernel", "gram", "iterative")

#: None, and the processor by torch where that is installed.


def raw_solution(
    problem: qsdp.TrainingProblem, tol: float = 1e-6, step: str = "auto", **limits
) -> tuple[RawSolution, list[Progress]]:
    told: list[Progress] = []
    given_callback = limits.pop("callback", None)
    seconds = limits.pop("time_limit", math.inf)

    def callback(progress: Progress) -> object:
        told.append(progress)
        return given_callback(progress) if given_callback else None

    instance = Instance.from_problem(problem).normalised()[0]
    with deadline.within(seconds):
        return solve_splitting(instance, Settings(tol, callback=callback, **limits), step=step), told


# -- the step through the data ---------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
# Rounding makes directions of conjugate gradients unsymmetric, which products must not amplify.
@example(seed=0, n=4, d=1, outputs=1, w=30.0, activation="relu_like")
# Predictions of large rows.
@example(seed=321288194, n=18, d=2, outputs=1, w=1.0, activation=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 20),
    d=st.integers(1, 5),
    outputs=st.integers(1, 3),
    w=st.sampled_from([1e-2, 1.0, 30.0]),
    activation=st.sampled_from([None, "relu_like", (0.0, 1.0, 0.3)]),
)
def test_steps_solve_the_same_problem(seed, n, d, outputs, w, activation):
    rng = np.random.default_rng(seed)
    problem = qsdp.TrainingProblem(rng.standard_normal((n, d)), rng.standard_normal(n), beta=1.0, activation=activation)
    N = problem.size
    delta = np.exp(rng.standard_normal(N))
    T0, q = rng.standard_normal((outputs, N, N)), rng.standard_normal((n, outputs))
    T0 = T0 + T0.transpose(0, 2, 1)
    forward = np.array([problem.map.forward(E) for E in np.eye(N * N).reshape(-1, N, N)]).T
    forward = 0.5 * (forward + forward.reshape(n, N, N).transpose(0, 2, 1).reshape(n, -1))
    scaled = forward / np.outer(delta, delta).ravel()
    expected = np.stack(
        [
            np.linalg.solve(
                w * scaled.T @ scaled + 0.5 * np.eye(N * N), w * scaled.T @ q[:, k] + 0.5 * T0[k].ravel()
            ).reshape(N, N)
            for k in range(outputs)
        ]
    )
    own = np.arange(outputs)
    size = np.abs(expected).max() + np.abs(q).max()
    gram, products = Gram.from_map(problem.map, q).into_basis()
    steps = [
        KernelStep(problem.map),
        GramStep(problem.map, gram),
        GramStep(problem.map, gram, products),
        IterativeStep(problem.map),
    ]
    for step in steps:
        step.prepare(delta[None], w, 1.0)
        for _ in range(30 if isinstance(step, IterativeStep) else 1):
            T, _, predictions = step.solve(T0[:, None], np.zeros((outputs, 0)), q, own)
        np.testing.assert_allclose(T[:, 0], expected, atol=1e-8 * size)
        if predictions is not None:
            amplified = size * max(1.0, np.abs(scaled).sum(axis=1).max())
            np.testing.assert_allclose(predictions, scaled @ T.reshape(outputs, -1).T, atol=1e-8 * amplified)


def test_smallest_system_is_chosen():
    def chosen(n, d):
        return choose_step(Instance.from_problem(qsdp.TrainingProblem(np.ones((n, d)), np.ones(n), beta=1.0)), 1e-6)

    assert chosen(50, 40) == "kernel"
    assert chosen(5000, 10) == "gram"
    assert chosen(20_000, 300) == "iterative"


def test_large_matrices_of_coarse_solves_are_in_single_precision():
    def chosen(n, d, tol, **options):
        instance = Instance.from_problem(qsdp.TrainingProblem(np.ones((n, d)), np.ones(n), beta=1.0, **options))
        step = choose_step(instance, tol)
        return step, np.dtype(precision(step, instance, tol)).name

    assert chosen(50_000, 197, 1e-2) == ("gram", "float32")
    # In double precision it would take twice the memory.
    assert chosen(50_000, 197, 1e-6)[0] == "iterative"
    assert chosen(4000, 100, 1e-2) == ("kernel", "float32")
    assert chosen(4000, 100, 1e-6) == ("kernel", "float64")
    assert chosen(400, 100, 1e-2) == ("kernel", "float64")
    instance = Instance.from_problem(qsdp.TrainingProblem(np.full((4000, 9), 1e10), np.ones(4000), beta=1.0))
    assert np.dtype(precision("kernel", instance, 1e-2)).name == "float64"


@pytest.mark.parametrize("step", ["kernel", "gram"])
@pytest.mark.parametrize("weighted", [False, True])
def test_single_precision_reaches_a_thousandth(monkeypatch, step, weighted):
    monkeypatch.setattr(data_step, "MANY_ROWS", 0)
    monkeypatch.setattr(splitting, "MANY_ROWS", 0)
    rng = np.random.default_rng(0)
    X = append_constant(rng.standard_normal((300, 17)))
    Y = np.eye(3)[rng.integers(3, size=300)] + 0.1 * X[:, :3] * X[:, 1:4]
    weights = rng.integers(1, 4, size=300) if weighted else None
    problem = qsdp.TrainingProblem(X, Y, beta=0.3, sample_weight=weights)
    raw, _ = raw_solution(problem, 1e-3, step)
    assert raw.status == "optimal"
    single = finish(ScaledProblem.from_problem(problem), raw, solver="", tol=1e-3, certified=True)
    assert single.status == "optimal"
    interior = qsdp.solve_relaxation(problem, solver="interior", tol=1e-6)
    assert single.lower_bound <= interior.objective
    assert interior.lower_bound <= single.objective <= interior.objective * 1.0011


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_gaps_that_single_precision_leaves_close_in_double_precision(monkeypatch, n_outputs):
    monkeypatch.setattr(data_step, "MANY_ROWS", 0)
    monkeypatch.setattr(splitting, "MANY_ROWS", 0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 17))
    Y = (X[:, 1:2] * X[:, :n_outputs] + 0.3 * rng.standard_normal((300, n_outputs))).squeeze()
    # Dual matrices are small differences of large ones.
    problem = qsdp.TrainingProblem(X, Y, beta=1e-7 * qsdp.beta_max(qsdp.TrainingProblem(X, Y, beta=1.0)))
    raw, _ = raw_solution(problem, 1e-3, "gram", max_iter=500)
    assert raw.status == "optimal"
    assert finish(ScaledProblem.from_problem(problem), raw, solver="", tol=1e-3, certified=True).status == "optimal"
    monkeypatch.setattr(splitting, "fits", lambda *_: False)
    assert raw_solution(problem, 1e-3, "gram", max_iter=500)[0].status == "iteration limit"


def test_matrices_that_take_long_to_factor_are_factored_in_place():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 60)).astype(np.float32)
    A = A @ A.T + np.eye(30, dtype=np.float32)
    b, expected = rng.standard_normal((30, 2)), A.astype(float)
    factor = data_step.factored(A)
    assert np.shares_memory(factor[0], A)
    np.testing.assert_allclose(expected @ data_step.solved(factor, b), b, atol=1e-4)


# -- against other solvers -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("activation", [None, "relu_like", (0.0, 1.0, 0.3)])
@pytest.mark.parametrize("n", [8, 40])
def test_agrees_with_a_conic_solver(loss, activation, n):
    X, y = data(n, 4, loss)
    problem = qsdp.TrainingProblem(X, y, beta=0.5, loss=loss, activation=activation)
    # Where a loss has kinks the method is slow, and the interior-point method is the better choice.
    tol = 2e-3 if loss in KINKED else 1e-5
    raw, told = raw_solution(problem, tol)
    assert raw.status == "optimal"
    assert told[-1].relative_gap <= tol
    ours, theirs = finish(ScaledProblem.from_problem(problem), raw, solver="splitting", tol=tol), reference(problem)
    assert ours.objective <= theirs.objective * (1.0 + 1.1 * tol)
    assert ours.lower_bound <= theirs.objective * (1.0 + 1e-12)
    assert theirs.lower_bound <= ours.objective * (1.0 + 1e-12)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
def test_every_step_reaches_the_gap(step, loss):
    X, y = data(60, 5, loss)
    problem = qsdp.TrainingProblem(X, y, beta=0.5, loss=loss, activation="relu_like")
    raw, _ = raw_solution(problem, 1e-5, step)
    assert raw.status == "optimal"
    interior = qsdp.solve_relaxation(problem, solver="interior", tol=1e-6)
    assert finish(ScaledProblem.from_problem(problem), raw, solver="", tol=1e-5).objective == pytest.approx(
        interior.objective, rel=2e-5
    )


@pytest.mark.parametrize(("first", "factor"), [(6, 2), (10, 3)])
@pytest.mark.parametrize(("step", "name"), [(KernelStep, "kernel"), (GramStep, "gram")])
def test_the_metric_is_updated_at_growing_intervals(monkeypatch, step, name, first, factor):
    X, y = data(60, 5, "squared")
    problem = qsdp.TrainingProblem(X * np.geomspace(0.1, 10.0, 5), y, beta=0.05)
    iterations = 0
    renewed: list[int] = []
    advance, prepare = splitting._Iteration.advance, step.prepare

    def counted(self):
        nonlocal iterations
        iterations += 1
        advance(self)

    def noted(self, *metric):
        renewed.append(iterations)
        prepare(self, *metric)

    monkeypatch.setattr(splitting._Iteration, "advance", counted)
    monkeypatch.setattr(step, "prepare", noted)
    if factor == 3:
        # Large matrices take long to factor.
        monkeypatch.setattr(splitting, "MAX_SIDE", 0)
    solution, _ = raw_solution(problem, 1e-6, name)
    assert solution.status == "optimal"
    assert renewed[0] == 0
    assert set(renewed[1:]) <= {first * factor**k for k in range(7)}
    assert len(renewed) > 1


@pytest.mark.filterwarnings("ignore:.*globally optimal")
def test_outputs_of_different_sizes():
    # One metric does not suit them all: what is slow is started again alone.
    X, y = data(60, 5, "squared")
    targets = np.stack([y, 1e-3 * y**2, 1e3 * X[:, 2], 0.0 * y], axis=1)
    problem = qsdp.TrainingProblem(X, targets, beta=0.5)
    relaxation = qsdp.solve_relaxation(problem, solver="splitting", tol=1e-5)
    assert relaxation.status == "optimal"
    for k in range(4):
        alone = qsdp.solve_relaxation(problem.output(k), solver="interior", tol=1e-7)
        ours = problem.output(k).relaxed_objective([relaxation.Z[0][[k]]], relaxation.rho[[k]])
        assert ours == pytest.approx(alone.objective, rel=2e-5, abs=1e-12)


@pytest.mark.filterwarnings("ignore:.*globally optimal")
def test_outputs_share_a_metric_for_longer_where_its_factorisation_is_larger(monkeypatch):
    # A metric for each output takes factorisations of its own.
    X, y = data(60, 5, "squared")
    problem = qsdp.TrainingProblem(X, np.stack([y, 1e-3 * y**2], axis=1), beta=0.5)
    shared: list[int] = []
    begin = splitting._Iteration.begin

    def counted(self, outputs, start=None):
        shared.append(len(outputs))
        begin(self, outputs, start)

    monkeypatch.setattr(splitting._Iteration, "begin", counted)
    monkeypatch.setattr(splitting, "MAX_STEPS", 5)
    for together, apart in ((0.0, True), (1e6, False)):
        monkeypatch.setattr(splitting, "_TOGETHER", together)
        shared.clear()
        assert raw_solution(problem, 1e-5, "gram", max_iter=1000)[0].status == "optimal"
        assert shared[0] == 2
        assert (1 in shared) == apart


def test_more_levels():
    X, y = data(30, 3, "squared")
    problem = qsdp.TrainingProblem(X, y, beta=0.3, levels=4, activation="relu_like")
    ours, theirs = (qsdp.solve_relaxation(problem, solver=solver, tol=1e-6) for solver in ("splitting", "interior"))
    assert ours.status == "optimal"
    assert ours.objective == pytest.approx(theirs.objective, rel=3e-6)


@pytest.mark.filterwarnings("ignore:.*globally optimal")
@pytest.mark.usefixtures("uci_available")
@pytest.mark.parametrize("name", ["breast-cancer", "ionosphere", "credit-approval", "vehicle"])
@pytest.mark.parametrize("beta", [0.1, 1.0, 10.0, 100.0, 1000.0])
def test_default_settings_on_real_data(name, beta):
    X, y = standardised(name)
    problem = qsdp.TrainingProblem(append_constant(X), np.where(y == y[0], 1.0, -1.0), beta=beta)
    relaxation = qsdp.solve_relaxation(problem, solver="splitting")
    assert relaxation.status == "optimal"
    assert relaxation.relative_gap <= 1e-6
    assert relaxation.solver == "none" or relaxation.iterations <= 1000


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    d=st.integers(1, 3),
    log_beta=st.floats(-2.0, 2.0),
    loss=st.sampled_from(["squared", "absolute", "huber", "hinge", "squared_hinge", "logistic"]),
)
# Thousands of iterations.
@example(seed=219, n=7, d=2, log_beta=-2.0, loss="hinge")
def test_bounds_and_points_of_random_problems(seed, n, d, log_beta, loss):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n + 1, d)), 1)
    y = np.r_[1.0, -np.ones(n)] if LOSSES[loss].labels else rng.standard_normal(n + 1)
    problem = qsdp.TrainingProblem(X, y, beta=10.0**log_beta, loss=loss)
    raw, told = raw_solution(problem, 1e-4, max_iter=10_000)
    relaxation = assert_certified(problem, raw)
    optimum = global_optimum(problem)
    assert relaxation.lower_bound <= optimum.upper * (1.0 + 1e-12)
    assert optimum.lower <= 1.783 * relaxation.objective
    assert told[-1].gap <= 2e-2 * told[-1].objective + 1e-6 * told[0].objective


# -- stops -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_every_stop_leaves_a_valid_pair(loss):
    problem = problem_of(loss)
    optimum = qsdp.solve_relaxation(problem, solver="interior", tol=1e-6)
    for k in range(0, 60, 5):
        raw, told = raw_solution(problem, 1e-15, callback=lambda progress, k=k: progress.iteration >= k)
        assert raw.status == "stopped by the callback"
        assert k <= raw.iterations == told[-1].iteration < k + 20
        relaxation = assert_certified(problem, raw)
        assert relaxation.lower_bound <= optimum.objective * (1.0 + 1e-12)
        assert relaxation.objective >= optimum.lower_bound * (1.0 - 1e-12)
        assert np.all(np.diff([p.objective for p in told]) <= 0.0)
        assert np.all(np.diff([p.lower_bound for p in told]) >= 0.0)


def test_limits():
    problem = problem_of("squared")
    raw, _ = raw_solution(problem, 1e-12, max_iter=7)
    assert (raw.status, raw.iterations) == ("iteration limit", 7)
    assert_certified(problem, raw)
    raw, _ = raw_solution(problem, 1e-12, time_limit=1e-9)
    assert (raw.status, raw.iterations) == ("time limit", 0)
    assert_certified(problem, raw)


def test_interrupt_returns_the_best_pair():
    def interrupt(progress):
        if progress.iteration >= 20:
            raise KeyboardInterrupt

    problem = problem_of("squared")
    raw, _ = raw_solution(problem, 1e-12, callback=interrupt)
    assert raw.status == "interrupted"
    assert assert_certified(problem, raw).relative_gap < 0.9


@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
def test_interrupted_relaxation_says_so():
    def interrupt(progress):
        if progress.iteration >= 10:
            raise KeyboardInterrupt

    for solver in ("splitting", "interior"):
        relaxation = qsdp.solve_relaxation(problem_of("logistic", 40, 5), solver=solver, tol=1e-14, callback=interrupt)
        assert relaxation.solver_status in ("interrupted", "stalled")
        assert relaxation.lower_bound <= relaxation.objective


# -- data that degenerate --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:overflow encountered in dot:RuntimeWarning")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("beta", [1e-300, 1e-12, 1e6, 1e300])
def test_extreme_prices(loss, beta):
    problem = problem_of(loss, beta=beta)
    raw, _ = raw_solution(problem, 1e-6, max_iter=300)
    relaxation = assert_certified(problem, raw)
    if beta >= 1e6:
        assert relaxation.relative_gap <= 1e-6


def test_auto_turns_to_splitting_where_the_other_method_stalls():
    X, y = data(12, 4, "squared")
    problem = qsdp.TrainingProblem(X * [1e-6, 1.0, 1e3, 1e6], y, beta=0.1)
    # Terms of 1e12 cancel in the dual matrix: the solver ends at a gap of 1.5 percent, and the allowance of the bound
    # for the rounding of these terms, there and where the bound is checked (`verified_scale`), adds 3.6.
    with pytest.warns(
        qsdp.QSDPWarning,
        match=r"lower bound is valid: the columns of X differ in scale by a factor of \d+",
    ):
        relaxation = qsdp.solve_relaxation(problem, tol=1e-4)
    assert relaxation.solver == "splitting"
    assert relaxation.relative_gap < 6.4e-2
    alone = qsdp.solve_relaxation(problem, solver="interior", tol=1.0)
    assert alone.relative_gap > relaxation.relative_gap


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute"])
def test_zero_targets(loss):
    X, y = data(9, 3, loss)
    raw, told = raw_solution(qsdp.TrainingProblem(X, 0.0 * y, beta=0.1, loss=loss))
    assert raw.status == "optimal"
    assert told[-1].objective == 0.0


# -- starts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_start_from_the_solution_is_optimal_soon(loss):
    problem = problem_of(loss, 30, 5)
    tol = 1e-3 if loss in KINKED else 1e-5
    cold = qsdp.solve_relaxation(problem, solver="splitting", tol=tol)
    warm = qsdp.solve_relaxation(problem, solver="splitting", tol=tol, start=cold)
    assert warm.status == "optimal"
    assert warm.iterations < cold.iterations
    neighbour = qsdp.TrainingProblem(problem.X, problem.y, beta=1.2 * problem.beta, loss=problem.loss)
    near = qsdp.solve_relaxation(neighbour, solver="splitting", tol=tol, start=cold)
    assert near.status == "optimal"


def test_start_without_duals():
    problem = problem_of("squared")
    instance = Instance.from_problem(problem).normalised()[0]
    cold, _ = raw_solution(problem, 1e-6)
    warm = solve_splitting(instance, Settings(1e-6, start=replace(cold, nu=None, z=None)))
    assert warm.status == "optimal"


# -- acceleration ----------------------------------------------------------------------------------------


def iterate(accelerated: bool, steps: int, n: int = 12) -> float:
    """Return the distance from the fixed point of a linear map after some steps."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    map_ = Q @ np.diag(np.linspace(0.2, 0.99, n)) @ Q.T
    fixed = rng.standard_normal(n)
    method, x = Anderson(), np.zeros(n)
    for _ in range(steps):
        image = fixed + map_ @ (x - fixed)
        x = method.extrapolate(image, image - x) if accelerated else image
    return float(np.linalg.norm(x - fixed))


def test_acceleration_solves_linear_maps_as_krylov_methods_do():
    assert iterate(True, 40) < 1e-5
    assert iterate(False, 40) > 0.1


def test_acceleration_goes_back_where_a_leap_led_astray():
    method, images = Anderson(), []
    for size in (1.0, 0.5, 0.25, 0.125):
        images.append(np.array([size, size**2]))
        point = method.extrapolate(images[-1], np.array([size, 0.5 * size**2]))
    assert np.any(point != images[-1])
    np.testing.assert_array_equal(method.extrapolate(np.array([9.0, 9.0]), np.array([100.0, 0.0])), images[-1])


def test_acceleration_of_a_drift_does_not_run_away():
    # Steps that are all the same have no fixed point to extrapolate to.
    method, x = Anderson(), np.zeros(2)
    for _ in range(50):
        x = method.extrapolate(x + 1.0, np.ones(2))
    assert np.all(x <= 50.0)
