"""Every solver on blocks: against enumeration, and against programs written from the raw matrices."""

import functools

import cvxpy as cp
import numpy as np
import pytest
from block_problems import LOSSES, enumerated_optimum, random_blocks, random_problem, random_targets

import qsdp
from qsdp import paper

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate", "ignore::qsdp.exceptions.QSDPWarning")

ACCURATE = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}

#: Losses with kinks, for which low rank is not meant.
KINKED = {"hinge", "absolute"}

#: Seed, number of samples, outputs and whether samples are weighted: fewer and more samples than packed entries.
CASES = [(0, 12, 1, True), (1, 36, 2, False)]


def raw_matrices(blocks):
    """Return for every block the matrices of all samples, of shape (n, N, N), entry by entry."""
    start, matrices = 0, []
    for N, kind in zip(blocks.sizes, blocks.kinds, strict=True):
        X = np.zeros((len(blocks), N, N))
        places = [(a, a) for a in range(N)] if kind == "linear" else [(a, b) for a in range(N) for b in range(a, N)]
        for place, (a, b) in enumerate(places):
            X[:, a, b] = X[:, b, a] = blocks.rows[:, start + place]
        matrices.append(X)
        start += len(places)
    return matrices


def conic_value(problem, *, shared=False):
    """Return the value of the relaxation with a rho for every output and block, or with a shared one per output."""
    blocks, constraints, predictions, penalty = problem.X, [], [], 0.0
    matrices = raw_matrices(blocks)
    for _ in range(problem.n_outputs):
        value, common = 0.0, cp.Variable()
        for X, N, omega in zip(matrices, blocks.sizes, blocks.omega, strict=True):
            rho = common if shared else cp.Variable()
            A, B = cp.Variable((N, N), PSD=True), cp.Variable((N, N), PSD=True)
            constraints.append(cp.diag(A + B) == 2.0 * rho)
            value = value + X.reshape(len(X), -1) @ cp.vec(A - B, order="C")
            penalty = penalty + 2.0 * problem.beta * omega * N * rho
        predictions.append(cp.reshape(value, (len(blocks), 1), order="C"))
    objective = problem.data_fit.expression(cp.hstack(predictions)) + penalty
    return float(cp.Problem(cp.Minimize(objective), constraints).solve(**ACCURATE))


@functools.cache
def case(loss, seed, n, outputs, weighted):
    weights = np.random.default_rng(seed).uniform(0.2, 3.0, size=n) if weighted else None
    problem = random_problem(seed, loss, n, outputs, sample_weight=weights)
    return problem, conic_value(problem), enumerated_optimum(problem)


def check(relaxation, value, optimum, rel):
    problem = relaxation.problem
    assert relaxation.lower_bound <= optimum * (1.0 + 1e-7)
    assert relaxation.lower_bound <= value * (1.0 + 1e-7)
    assert relaxation.objective == pytest.approx(value, rel=rel)
    assert relaxation.lower_bound == pytest.approx(value, rel=rel)
    recomputed = problem.relaxed_objective(relaxation.Z, relaxation.rho)
    assert recomputed == pytest.approx(relaxation.objective, rel=1e-9)
    A, B = relaxation.V_stack + relaxation.Z_stack, relaxation.V_stack - relaxation.Z_stack
    assert min(np.linalg.eigvalsh(A).min(), np.linalg.eigvalsh(B).min()) >= -1e-12 * np.abs(A).max()


SOLVED = [
    (solver, loss)
    for solver in ("splitting", "low-rank", "clarabel", "scs")
    for loss in LOSSES
    if solver != "low-rank" or loss not in KINKED
]


@pytest.mark.parametrize(
    ("solver", "loss", "values"),
    # Methods of our own meet both cases, by turns of the losses.
    [(*pair, CASES[0 if pair[0] in {"clarabel", "scs"} else turn % 2]) for turn, pair in enumerate(SOLVED)],
)
def test_every_solver_agrees_with_the_program_of_raw_matrices(solver, loss, values):
    problem, value, optimum = case(loss, *values)
    tol = 1e-6 if solver in {"splitting", "low-rank"} else 1e-8
    check(qsdp.solve_relaxation(problem, solver, tol), value, optimum, 1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_a_shared_rho_is_not_a_bound_and_is_not_what_is_built(seed):
    problem = random_problem(seed)
    optimum, shared = enumerated_optimum(problem), conic_value(problem, shared=True)
    assert shared > (1.0 + 1e-3) * optimum
    built = paper.two_block_program(problem)
    assert built.problem.solve(**ACCURATE) <= (1.0 + 1e-7) * optimum
    assert qsdp.solve_relaxation(problem, "splitting").objective <= (1.0 + 1e-5) * optimum


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_rows_of_other_types_give_the_same_relaxation(dtype, tmp_path):
    rng = np.random.default_rng(3)
    rows = rng.integers(-9, 10, size=(40, 9)).astype(dtype)
    stored = np.memmap(tmp_path / "rows", dtype=dtype, mode="w+", shape=rows.shape)
    stored[:] = rows
    y = random_targets(rng, 40, "logistic")
    values = []
    for kept in (stored, rows.astype(float)):
        problem = qsdp.TrainingProblem(qsdp.Blocks(kept, [3, 2]), y, beta=2.0, loss="logistic")
        values += [qsdp.solve_relaxation(problem, name, 1e-6).objective for name in ("splitting", "low-rank", "scs")]
    np.testing.assert_allclose(values, values[0], rtol=3e-6)


# -- paths, starts, and the choice of beta ---------------------------------------------------------------------


@pytest.mark.parametrize(("solver", "loss"), [("splitting", "cross_entropy"), ("low-rank", "logistic")])
def test_warm_starts_reach_the_optimum_of_every_beta(solver, loss):
    problem = random_problem(3, loss, 30, 2 if loss != "cross_entropy" else 1)
    relaxation = None
    for beta in qsdp.beta_max(problem) * np.geomspace(0.56, 0.1, 4):
        relaxation = qsdp.solve_relaxation(problem.with_beta(beta), solver, 1e-5, start=relaxation)
        value = conic_value(relaxation.problem)
        assert relaxation.lower_bound <= value * (1.0 + 1e-7)
        assert relaxation.objective == pytest.approx(value, rel=2e-5)


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_beta_is_chosen_on_held_out_samples(loss):
    rng = np.random.default_rng(0)
    blocks = random_blocks(rng, 80, 3)
    signal = blocks.rows[:, 0] + blocks.rows[:, -1]
    y = np.digitize(signal, [-1.0, 1.0]) if loss == "cross_entropy" else signal + 0.1 * rng.standard_normal(80)
    problem = qsdp.TrainingProblem(blocks, y, beta=1.0, loss=loss)
    order = rng.permutation(80)
    first, second = (
        qsdp.solve_and_sample(blocks[rows], y[rows], 12, "auto", loss, shaping="krivine").problem.beta
        for rows in (np.arange(80), order)
    )
    # The targets depend on the inputs, so that a small fraction is better than the largest.
    assert 0.0 < first < 0.15 * qsdp.beta_max(problem)
    assert second == pytest.approx(first)


def test_beta_max_is_the_largest_over_the_blocks():
    problem = random_problem(7, "squared", 20, 2)
    largest = qsdp.beta_max(problem)
    for share, moved in ((0.99, True), (1.001, False)):
        assert (conic_value(problem.with_beta(share * largest)) < problem.data_fit.value_at_zero * (1 - 1e-9)) == moved


@pytest.mark.parametrize("solver", ["interior", "splitting"])
def test_coordinates_of_a_single_block_may_be_zero_in_all_samples(solver):
    rng = np.random.default_rng(3)
    entries, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    rows = np.zeros((12, 6))
    rows[:, [0, 1, 3]] = entries
    # The penalty has the side of the block, so that of the smaller block is raised.
    whole = qsdp.TrainingProblem(qsdp.Blocks(rows, [3]), y, beta=0.1)
    part = qsdp.TrainingProblem(qsdp.Blocks(entries, [2], omega=[1.5]), y, beta=0.1)
    first, second = (qsdp.solve_relaxation(problem, solver=solver, tol=1e-7) for problem in (whole, part))
    assert first.objective == pytest.approx(second.objective, rel=1e-6)
    assert first.lower_bound == pytest.approx(second.lower_bound, rel=1e-6)
    assert first.objective < whole.data_fit.value_at_zero
