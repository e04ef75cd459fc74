"""What this package's own solvers have in common: stops before the first iteration, shared work, imports, routes."""

import math
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from test_interior import data
from torch_devices import DEVICE, HAS_TORCH, needs_torch

import qsdp
from qsdp._utils import deadline
from qsdp.exceptions import InvalidInputError, InvalidTypeError, SolverError, UnavailableSolverError
from qsdp.gram import Gram, GramFactor
from qsdp.lifting import QuadraticMap
from qsdp.losses import LOSSES
from qsdp.relaxation import bounds
from qsdp.relaxation.backends import BACKENDS, choose_backend
from qsdp.relaxation.instance import Instance
from qsdp.relaxation.scaled import RawSolution, ScaledProblem, Settings
from qsdp.relaxation.solution import finish
from qsdp.relaxation.solve import solve_with
from qsdp.relaxation.solvers.lowrank import solve_low_rank
from qsdp.relaxation.solvers.lowrank.factor_objective import Objective
from qsdp.relaxation.solvers.splitting.data_step import GramStep

OWN = ("interior", "splitting", "low-rank")

#: Of each, something that it does of the data before it iterates.
SETUP = {
    "interior": (QuadraticMap, "pair_sums"),
    "splitting": (QuadraticMap, "pair_sums"),
    "low-rank": (sys.modules[solve_low_rank.__module__].ObjectiveData, "__init__"),
}


def problem_of(outputs: int = 1, n: int = 60, d: int = 4, beta: float = 0.5) -> qsdp.TrainingProblem:
    X, y = data(n, d, "squared")
    return qsdp.TrainingProblem(X, y if outputs == 1 else np.stack([y] * outputs, axis=1), beta=beta)


# -- limits count from the first moment -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("solver", OWN)
def test_an_interrupt_before_the_first_iteration_leaves_a_valid_pair(solver, outputs, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    problem = problem_of(outputs)
    optimum = qsdp.solve_relaxation(problem)
    monkeypatch.setattr(*SETUP[solver], interrupted)
    relaxation = qsdp.solve_relaxation(problem, solver=solver)
    assert relaxation.solver_status == "interrupted"
    assert relaxation.iterations == 0
    assert 0.0 <= relaxation.lower_bound <= optimum.objective
    assert optimum.lower_bound <= relaxation.objective <= np.sum(problem.y**2) * (1.0 + 1e-12)


@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("solver", OWN)
def test_the_time_limit_counts_what_precedes_the_first_iteration(solver, outputs, monkeypatch):
    owner, name = SETUP[solver]
    prompt = getattr(owner, name)

    def slow(*args, **options):
        time.sleep(0.05)
        return prompt(*args, **options)

    problem = problem_of(outputs)
    monkeypatch.setattr(owner, name, slow)
    relaxation = qsdp.solve_relaxation(problem, solver=solver, time_limit=0.04)
    assert relaxation.solver_status == "time limit"
    assert relaxation.iterations == 0
    assert relaxation.lower_bound <= relaxation.objective


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("solver", OWN)
def test_after_a_limit_one_cheap_certificate_follows(solver, outputs, monkeypatch):
    problem, decompositions = problem_of(outputs), []
    optimum = qsdp.solve_relaxation(problem)

    def expire(progress):
        if progress.iteration >= 1:
            scope.expire()

    decompose = bounds.multiple_of
    monkeypatch.setattr(bounds, "multiple_of", lambda *args: decompositions.append(1) or decompose(*args))
    settings = Settings(1e-9, callback=expire)
    with deadline.within(1e6) as scope:
        relaxation = solve_with(problem, solver, settings)
    assert relaxation.solver_status == "time limit"
    assert relaxation.iterations >= 1
    # One of the solver's dual vector and one of the gradient at its point.
    assert len(decompositions) == 2 * outputs
    assert 0.0 < relaxation.lower_bound <= optimum.objective
    assert optimum.lower_bound <= relaxation.objective < problem.data_fit.value_at_zero


def test_the_weights_of_a_certificate_have_no_limit():
    problem = problem_of(d=30)
    scaled, raw = ScaledProblem.from_problem(problem), RawSolution(status="stalled")
    whole = finish(scaled, raw, solver="interior", tol=1e-6)
    with deadline.within(0.0):
        after = finish(scaled, raw, solver="interior", tol=1e-6)
    assert after.lower_bound == whole.lower_bound > 0.0
    np.testing.assert_array_equal(after.dual.z, whole.dual.z)


# -- outputs share what depends on the data alone ---------------------------------------------------------


def counted(monkeypatch, owner, name) -> list[int]:
    calls, original = [], getattr(owner, name)

    def counting(*args, **options):
        calls.append(1)
        return original(*args, **options)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_outputs_share_the_factorisations_of_splitting(monkeypatch):
    grams, factorisations = counted(monkeypatch, QuadraticMap, "pair_sums"), counted(monkeypatch, GramStep, "prepare")
    counts = []
    for outputs in (1, 5):
        grams.clear()
        factorisations.clear()
        assert qsdp.solve_relaxation(problem_of(outputs), solver="splitting", tol=1e-5).status == "optimal"
        assert len(grams) == 1
        counts.append(len(factorisations))
    assert counts[1] == counts[0]


def test_outputs_share_the_gram_matrix_and_its_factor_of_the_interior_points(monkeypatch):
    grams, factors = (
        counted(monkeypatch, QuadraticMap, "pair_sums"),
        counted(monkeypatch, GramFactor, "__init__"),
    )
    assert qsdp.solve_relaxation(problem_of(5), solver="interior").status == "optimal"
    assert len(grams) == len(factors) == 1


# -- low rank through the front door ----------------------------------------------------------------------


def constant(n: int, d: int, loss: str) -> qsdp.TrainingProblem:
    y = np.arange(n) % 3 if LOSSES[loss].coupled else np.where(np.arange(n) % 2, 1.0, -1.0)
    return qsdp.TrainingProblem(np.ones((n, d)), y, beta=1.0, loss=loss)


@pytest.mark.parametrize("loss", LOSSES)
def test_auto_takes_low_rank_where_neither_kernel_nor_gram_matrix_has_room(loss):
    instance = Instance.from_problem(constant(20_000, 300, loss)).normalised()[0]
    chosen = choose_backend("auto", instance, Settings(1e-6)).name
    assert chosen == ("low-rank" if LOSSES[loss].smooth else "splitting")


@pytest.mark.parametrize(
    ("n", "d", "outputs", "expected"),
    [
        (60_000, 197, 10, "splitting"),
        (4800, 110, 6, "splitting"),
        (100, 784, 10, "low-rank"),
        (1000, 784, 10, "low-rank"),
    ],
)
@pytest.mark.parametrize("time_limit", [math.inf, 1e-3])
def test_auto_on_hundreds_of_inputs(n, d, outputs, expected, time_limit):
    problem = qsdp.TrainingProblem(np.ones((n, d)), np.ones((n, outputs)), beta=1.0)
    settings = Settings(1e-2)
    with deadline.within(time_limit):
        assert choose_backend("auto", Instance.from_problem(problem), settings).name == expected


@pytest.mark.parametrize("loss", ["absolute", "hinge"])
def test_low_rank_refuses_losses_with_kinks(loss):
    with pytest.raises(SolverError, match=f"'low-rank' does not support loss '{loss}': it requires second derivatives"):
        qsdp.solve_relaxation(constant(20, 3, loss), solver="low-rank")


@pytest.mark.parametrize("loss", [name for name in LOSSES if LOSSES[name].smooth])
def test_auto_through_low_rank(loss, monkeypatch):
    for other in ("interior", "splitting"):
        dear = replace(BACKENDS[other], operations=lambda instance, tol: math.inf)
        monkeypatch.setitem(BACKENDS, other, dear)
    monkeypatch.setitem(BACKENDS, "low-rank", replace(BACKENDS["low-rank"], operations=lambda instance, tol: 0.0))
    X, y = data(80, 6, loss)
    problem = qsdp.TrainingProblem(X, y, beta=3.0, loss=loss)
    cold = qsdp.solve_relaxation(problem, tol=1e-4)
    assert (cold.solver, cold.status) == ("low-rank", "optimal")
    expected = qsdp.solve_relaxation(problem, solver="interior")
    assert cold.objective == pytest.approx(expected.objective, rel=2e-4)
    warm = qsdp.solve_relaxation(problem, tol=1e-4, start=cold)
    assert warm.status == "optimal"
    assert warm.iterations < cold.iterations


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("solver", ["interior", "splitting", "scs"])
@pytest.mark.parametrize("weighted", [False, True])
@needs_torch
def test_the_gram_matrix_of_a_device(monkeypatch, loss, solver, weighted):
    devices = []

    def noted(cls, data, targets, weights, dtype, device):
        devices.append(device)
        return original(data, targets, weights, dtype, device)

    original = Gram.from_map
    monkeypatch.setattr(Gram, "from_map", classmethod(noted))
    X, y = data(90, 4, loss)
    weights = np.linspace(0.5, 2.0, 90) if weighted else None
    problem = qsdp.TrainingProblem(X, y, beta=0.3, loss=loss, sample_weight=weights)
    here, there = (qsdp.solve_relaxation(problem, solver=solver, device=device) for device in (None, DEVICE))
    assert there.objective == pytest.approx(here.objective, rel=2e-6)
    # Only these need the Gram matrix.
    assert devices == ([None, DEVICE] if loss == "squared" or solver == "splitting" else [])


@needs_torch
def test_problems_from_statistics_need_no_device():
    statistics = qsdp.SufficientStatistics().partial_fit(*data(50, 4, "squared"))
    problem = qsdp.TrainingProblem.from_statistics(statistics, beta=1.0)
    here, there = (qsdp.solve_relaxation(problem, device=device) for device in (None, DEVICE))
    assert there.objective == pytest.approx(here.objective, rel=2e-6)


@needs_torch
def test_several_outputs_on_a_device():
    problem = problem_of(outputs=3)
    there = None
    for beta in (1.0, 0.5):
        one = problem.with_beta(beta)
        there = qsdp.solve_relaxation(one, solver="splitting", device=DEVICE, start=there)
        here = qsdp.solve_relaxation(one, solver="splitting")
        assert there.relative_gap <= 1e-6
        assert there.objective == pytest.approx(here.objective, rel=2e-6)


def test_devices_are_refused_before_any_work(monkeypatch):
    def begun(*args, **options):
        raise AssertionError("work has begun")

    monkeypatch.setattr("qsdp.relaxation.solve.solve_with", begun)
    with pytest.raises(InvalidTypeError, match="device must be a string or None; got int"):
        qsdp.solve_relaxation(problem_of(), device=0)
    if HAS_TORCH:
        # The second keeps no numbers.
        for device in ("nonsense", "meta"):
            with pytest.raises(InvalidInputError, match=f"device '{device}' is not available to torch"):
                qsdp.solve_relaxation(problem_of(), device=device)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnavailableSolverError, match="device='cuda' needs torch: pip install torch"):
        qsdp.solve_relaxation(problem_of(), device="cuda")


def test_memory_of_low_rank_is_that_of_the_data_and_the_images_of_the_factors(monkeypatch):
    n, d = 4000, 100
    columns, at = [], Objective.at

    def recording(self, factors):
        columns.append(factors.E.shape[1])
        return at(self, factors)

    monkeypatch.setattr(Objective, "at", recording)
    X, y = data(n, d, "squared")
    instance = Instance.from_problem(qsdp.TrainingProblem(X, y, beta=100.0)).normalised()[0]
    tracemalloc.start()
    try:
        raw = solve_low_rank(instance, Settings(1e-6, max_iter=5))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert raw.iterations == 5
    # The Gram matrix of the map takes 204 MB here, and the kernel 128 MB.
    assert peak < 8 * 3 * (n * (d + max(columns)) + d * d) < 20e6


# -- torch ------------------------------------------------------------------------------------------------


def test_nothing_imports_torch_unasked():
    code = """
import sys, numpy as np, qsdp
X = np.random.default_rng(0).standard_normal((30, 4))
problem = qsdp.TrainingProblem(X, X[:, 0] * X[:, 1], beta=0.5)
for solver in ("interior", "splitting", "low-rank", "auto"):
    assert qsdp.solve_relaxation(problem, solver=solver, tol=1e-4).status == "optimal"
print(sorted(name for name in sys.modules if name.split(".")[0] == "torch"))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
