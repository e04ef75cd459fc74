"""Data that degenerate: every loss, several outputs and a lift, by each of this package's solvers, against Clarabel."""

import functools

import numpy as np
import pytest
from solver_problems import data

import qsdp
from qsdp.losses import LOSSES

pytestmark = pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")

RNG = np.random.default_rng(0)
LINE = np.linspace(-1.0, 2.0, 9)

DEGENERATE = {
    "one sample": np.array([[1.0, -2.0, 0.5]]),
    "one column": LINE[:, None],
    "one number": np.array([[3.0]]),
    "rank one": np.outer(LINE, [1.0, -2.0, 0.5]),
    "rank one, many samples": np.outer(np.linspace(-1.0, 2.0, 60), [1.0, -2.0, 0.5]),
    "equal rows": np.repeat(np.array([[1.0, 2.0, -1.0], [0.5, 1.0, 1.0]]), 10, axis=0),
    "equal columns": np.repeat(np.linspace(-1.0, 2.0, 20)[:, None], 3, axis=1),
    "zero column": np.column_stack([np.zeros(9), LINE, np.linspace(1.0, -3.0, 9) ** 2]),
    "zero row": np.vstack([np.zeros(3), RNG.standard_normal((8, 3))]),
    "binary": np.sign(RNG.standard_normal((40, 4))),
    "all zero": np.zeros((5, 2)),
    "tiny": 1e-30 * RNG.standard_normal((12, 3)),
    "huge": 1e30 * RNG.standard_normal((12, 3)),
}

#: Columns of sizes that differ; low rank is not for these.
UNEVEN = {
    "columns of 0.1 to 10": RNG.standard_normal((12, 4)) * [0.1, 1.0, 3.0, 10.0],
    "columns of 0.1 to 10, many samples": RNG.standard_normal((60, 4)) * [0.1, 1.0, 3.0, 10.0],
    "columns of 0.01 to 100": RNG.standard_normal((12, 4)) * [0.01, 1.0, 10.0, 100.0],
}

#: Loss, number of outputs, activation.
VARIANTS = [
    *((loss, 1, None) for loss in LOSSES),
    ("squared", 2, None),
    ("huber", 2, None),
    ("squared", 1, "relu_like"),
    ("absolute", 1, "relu_like"),
]

SOLVERS = {"interior": 1e-6, "splitting": 1e-3, "low-rank": 1e-3}
LIMITS = {"interior": None, "splitting": 1500, "low-rank": 300}

#: Clarabel's own accuracy ends here.
REFERENCE_GAP = 5e-6

#: Gaps that are left at the limits where a solver misses its tolerance: measured, with a margin of a half or more.
LEFT = {
    ("columns of 0.1 to 10, many samples", "absolute", "interior"): 5e-6,
    ("columns of 0.1 to 10, many samples", "cross_entropy", "splitting"): 1.5e-2,
    ("columns of 0.1 to 10", "hinge", "splitting"): 1.3e-2,
    ("columns of 0.01 to 100", "hinge", "splitting"): 0.4,
    ("columns of 0.01 to 100", "squared_hinge", "splitting"): 0.3,
    ("columns of 0.01 to 100", "cross_entropy", "splitting"): 0.25,
}


@functools.cache
def problem_of(name: str, loss: str, outputs: int, activation: str | None) -> qsdp.TrainingProblem:
    X = {**DEGENERATE, **UNEVEN}[name]
    n = len(X)
    signal = np.random.default_rng(1).standard_normal(n)
    y = np.where(signal > 0.0, 1.0, -1.0) if LOSSES[loss].labels else signal
    if LOSSES[loss].coupled:
        y = np.arange(n) % 3
    if outputs > 1:
        y = np.stack([y, np.arange(n) - 1.0], axis=1)
    size = float(np.abs(X).max()) or 1.0
    # The price goes with the squares of the data, so that theirs is the size of nothing.
    beta = size**2 if name in {"tiny", "huge"} else 1.0
    return qsdp.TrainingProblem(X, y, beta=beta, loss=loss, activation=activation)


@functools.cache
def reference(name: str, loss: str, outputs: int, activation: str | None) -> qsdp.Relaxation:
    return qsdp.solve_relaxation(problem_of(name, loss, outputs, activation), solver="clarabel", tol=1e-9)


def cases(names) -> list:
    """Return what can be asked: a loss of labels needs both labels, and low rank no kinks.

    Every data set meets the squared loss, and in turn a fifth of the other variants, a tenth by methods of first order.
    Columns of other sizes meet every variant, and splitting where it leaves a gap.
    """
    chosen = []
    for number, name in enumerate(names):
        single = name in {"one sample", "one number"}
        for place, (loss, outputs, activation) in enumerate(VARIANTS):
            if single and (LOSSES[loss].labels or LOSSES[loss].coupled):
                continue
            # The constant of the lift is neither tiny nor huge.
            if name in {"tiny", "huge"} and activation is not None:
                continue
            if place and (place + number) % 5 and name not in UNEVEN:
                continue
            for solver in SOLVERS:
                if solver == "low-rank" and (not LOSSES[loss].smooth or name in UNEVEN):
                    continue
                turn = (name, loss, solver) in LEFT if name in UNEVEN else (place + number) % 10 == 0
                if solver != "interior" and place and not turn:
                    continue
                chosen.append((name, loss, outputs, activation, solver))
    return chosen


@pytest.mark.parametrize(("name", "loss", "outputs", "activation", "solver"), cases({**DEGENERATE, **UNEVEN}))
def test_against_a_conic_solver(name, loss, outputs, activation, solver):
    case = name, loss, outputs, activation
    theirs = reference(*case)
    assert theirs.relative_gap <= REFERENCE_GAP
    tol = LEFT.get((name, loss, solver), SOLVERS[solver])
    ours = qsdp.solve_relaxation(problem_of(*case), solver=solver, tol=SOLVERS[solver], max_iter=LIMITS[solver])
    assert ours.relative_gap <= tol
    assert ours.objective <= theirs.objective * (1.0 + 1.1 * tol)
    assert ours.lower_bound <= theirs.objective * (1.0 + 1e-12)
    assert theirs.lower_bound <= ours.objective * (1.0 + 1e-12)


#: Gaps of "auto" for columns of 1e-6 to 1e6, measured, and a quarter more; at 1 only the bound's validity is asserted.
#: Predictions are differences of numbers 1e12 times as large: what Clarabel proves is no better but for three losses.
ILL_SCALED = {
    ("squared", 12): 6.1e-2,
    ("absolute", 12): 1.0,
    ("logistic", 12): 0.75,
    ("squared", 60): 0.99,
    ("logistic", 60): 0.55,
}


@pytest.mark.parametrize(("loss", "n"), ILL_SCALED)
def test_columns_of_all_sizes(loss, n):
    X, y = data(n, 4, loss)
    problem = qsdp.TrainingProblem(X * [1e-6, 1.0, 1e3, 1e6], y, beta=0.1, loss=loss)
    solved = {
        solver: qsdp.solve_relaxation(problem, solver=solver, tol=1e-3, max_iter=limit)
        for solver, limit in (("clarabel", None), ("interior", None), ("auto", 1000))
    }
    if LOSSES[loss].smooth:
        solved["low-rank"] = qsdp.solve_relaxation(problem, solver="low-rank", max_iter=30)
    for relaxation in solved.values():
        assert relaxation.objective == pytest.approx(problem.relaxed_objective(relaxation.Z, relaxation.rho), rel=1e-6)
        assert all(relaxation.lower_bound <= other.objective for other in solved.values())
    assert solved["auto"].relative_gap <= ILL_SCALED[loss, n]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("X", [np.logspace(-90, 90, 12)[:, None], np.logspace(-6, 6, 12)[:, None]])
def test_rows_of_all_sizes_end_with_a_bound(X, loss, solver):
    # Squares of the data beyond what floating point holds: no more than a valid pair, and no error.
    rows = X * np.random.default_rng(0).standard_normal((12, 4))
    y = np.random.default_rng(1).standard_normal(12)
    problem = qsdp.TrainingProblem(rows, y, beta=1.0, loss=loss)
    relaxation = qsdp.solve_relaxation(problem, solver=solver, max_iter=100)
    at_zero = problem.loss.value(np.zeros(12), y)
    assert 0.0 <= relaxation.lower_bound <= relaxation.objective <= at_zero * (1.0 + 1e-12)
