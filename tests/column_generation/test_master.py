"""The restricted problem of column generation: atoms, units, what is given up and what is kept."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest
from brute_force import (
    ACTIVATIONS,
    global_optimum,
    random_neurons,
    random_problem,
    random_vector_problem,
    sign_vectors,
)
from brute_force import atoms as all_atoms
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import BilinearNetwork, TrainingProblem
from qsdp._utils import deadline
from qsdp.column_generation._row_program import FeasibleDual
from qsdp.column_generation.loop import PricingResult, generate
from qsdp.column_generation.master import Master
from qsdp.losses import SCALAR_LOSSES
from qsdp.pricing.atoms import Atoms
from qsdp.relaxation.instance import Instance

FUZZ = settings(max_examples=40, deadline=None, derandomize=True)


def both_signs(U: np.ndarray, V: np.ndarray, n_outputs: int = 1) -> Atoms:
    """Every neuron for every output with both signs."""
    ones = np.ones(len(U))
    one = Atoms.from_signs(np.vstack([U, U]), np.vstack([V, V]), np.concatenate([ones, -ones]))
    return Atoms.of_outputs([one] * n_outputs)


def full_master(problem: TrainingProblem, seed: int = 0, m: int = 30) -> Master:
    """A master with random neurons, in the units of its columns (levels -1 and +1)."""
    binary = problem.with_levels(2)
    U, V = random_neurons(np.random.default_rng(seed), m, binary)
    master = Master(Instance.from_problem(problem))
    master.add(both_signs(U, V, problem.n_outputs))
    return master


def network_of(problem: TrainingProblem, atoms: Atoms, weights: np.ndarray) -> BilinearNetwork:
    """The network of atoms of two levels, from their definition."""
    M = problem.levels - 1
    U, V = atoms.U.astype(int), atoms.V.astype(int)
    U[:, : problem.n_features] *= M
    V[:, : problem.n_features] *= M
    alpha = atoms.signs * weights
    if not problem.scalar:
        alpha = alpha[:, None] * (atoms.outputs[:, None] == np.arange(problem.n_outputs))
    return BilinearNetwork(U, V, alpha, levels=problem.levels, activation=problem.activation)


def check_units(master: Master, problem: TrainingProblem, gap: float = 1e-9) -> None:
    """Objective and dual vector against the problem itself."""
    instance = master.instance
    weights = master.weights * master.units.weight
    network = network_of(problem, master.atoms, weights)
    size = problem.loss.value(np.zeros_like(problem.targets), problem.targets)
    assert master.objective == pytest.approx(problem.objective(network), rel=1e-9, abs=1e-12 * size)
    # The dual vector is feasible for every neuron in hand and proves the objective optimal among them.
    assert master.nu.shape == problem.targets.shape
    for output, M in enumerate(instance.adjoints(master.nu)):
        mine = master.atoms.outputs == output
        U, V = master.atoms.U[mine].astype(float), master.atoms.V[mine].astype(float)
        values = master.atoms.signs[mine] * np.einsum("ij,ij->i", U @ M, V)
        assert values.max(initial=0.0) <= problem.beta * problem.dimension * (1 + 1e-9)
    nu = -problem.loss.project_dual(-master.nu, problem.targets)
    assert nu == pytest.approx(master.nu, rel=1e-9, abs=1e-12 * np.abs(nu).max())
    bound = -problem.loss.conjugate(-nu, problem.targets)
    assert bound <= master.objective + 1e-9 * size
    assert master.objective - bound <= gap * master.objective + 1e-12 * size


# -- atoms ---------------------------------------------------------------------------------------------


def test_equal_neurons_have_equal_keys() -> None:
    rng = np.random.default_rng(0)
    for levels, lifted in itertools.product((2, 3, 4), (False, True)):
        problem = TrainingProblem(
            np.ones((2, 4)), [1.0, 2.0], beta=1.0, levels=levels, activation="relu_like" if lifted else None
        )
        U, V = random_neurons(rng, 50, problem)
        # Sides of zeros have no pricing value and may be anything.
        U[:, 0], V[:, 0] = rng.choice([1 - levels, levels - 1], size=(2, 50))
        for sign in (1, -1):
            signs = np.full(50, sign)
            keys = Atoms.from_signs(U, V, signs).keys()
            assert Atoms.from_signs(V, U, signs).keys() == keys
            assert Atoms.from_signs(-U, -V, signs).keys() == keys
            assert Atoms.from_signs(-V, U, -signs).keys() == keys
            assert Atoms.from_signs(U, -V, -signs).keys() == keys
            for other in (
                Atoms.from_signs(U, -V, signs),
                Atoms.from_signs(U, V, -signs),
                Atoms.of_outputs([Atoms.from_signs(U[:0], V[:0]), Atoms.from_signs(U, V, signs)]),
            ):
                for key, different in zip(keys, other.keys(), strict=True):
                    assert key != different


@pytest.mark.parametrize("levels", [2, 3])
def test_keys_tell_apart_what_predicts_differently(levels: int) -> None:
    # For generic data two neurons are equal exactly if their symmetric matrices are.
    sides = np.array(list(itertools.product(range(1 - levels, levels, 2), repeat=3)))
    sides = sides[np.any(sides, axis=1)]
    first, second = (grid.ravel() for grid in np.meshgrid(np.arange(len(sides)), np.arange(len(sides))))
    U, V = sides[first], sides[second]
    every = Atoms.from_signs(np.vstack([U, U]), np.vstack([V, V]), np.repeat([1, -1], len(U)))
    products = every.signs[:, None, None] * every.U[:, :, None].astype(int) * every.V[:, None, :]
    symmetric = products + products.transpose(0, 2, 1)
    if levels == 2:
        assert len(set(every.keys())) == len({matrix.tobytes() for matrix in symmetric})
    # What has one key has one matrix.
    matrices: dict[bytes, bytes] = {}
    for key, matrix in zip(every.keys(), symmetric, strict=True):
        assert matrices.setdefault(key, matrix.tobytes()) == matrix.tobytes()


def test_atoms_by_hand() -> None:
    one = Atoms.from_signs(np.array([[1, -1]]), np.array([[1, 1]]))
    two = Atoms.from_signs(np.array([[1, 1], [-1, 1]]), np.array([[1, 1], [1, 1]]), [1, -1])
    none = one[:0]
    both = Atoms.of_outputs([one, none, two])
    assert len(both) == 3
    assert both.U.tolist() == [[1, -1], [1, 1], [-1, 1]]
    assert both.V.tolist() == [[1, 1]] * 3
    assert both.signs.tolist() == [1, 1, -1]
    assert both.outputs.tolist() == [0, 2, 2]
    assert both.U.dtype == both.V.dtype == both.signs.dtype == np.int8
    assert both[[2]].U.tolist() == [[-1, 1]]
    assert both[both.outputs == 2].signs.tolist() == [1, -1]
    assert len(both[:0]) == 0 == len(both[:0].keys())


def test_known_atoms_are_not_taken_in_again() -> None:
    problem = random_problem(0, 4, 10)
    master = Master(Instance.from_problem(problem))
    U, V = np.array([[1, 1, -1, 1], [1, -1, -1, 1]]), np.array([[1, -1, 1, 1], [1, -1, -1, 1]])
    assert master.add(Atoms.from_signs(U, V)) == 2
    assert master.add(Atoms.from_signs(V, U)) == 0
    assert master.add(Atoms.from_signs(-U, V, [-1, -1])) == 0
    assert master.add(Atoms.from_signs(U, -V)) == 2
    # Twice the same at once, too.
    assert master.add(Atoms.from_signs(np.ones((3, 4)), np.ones((3, 4)))) == 1
    assert master.add(Atoms.from_signs(U[:0], V[:0])) == 0
    assert len(master.atoms) == len(master.weights) == 5
    master.solve(1e-10)
    before = master.objective
    assert master.add(Atoms.from_signs(-V, -U)) == 0
    master.solve(1e-10)
    assert master.objective == pytest.approx(before, rel=1e-9)
    # What was given up may come again.
    master.select(np.array([0]))
    assert master.add(Atoms.from_signs(U, V)) == 1


# -- units ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", SCALAR_LOSSES)
@pytest.mark.parametrize("n", [6, 60], ids=["few samples", "many samples"])
def test_objective_and_dual_vector_are_in_the_units_of_the_problem(loss: str, n: int) -> None:
    for seed, (levels, activation) in enumerate([(2, None), (3, "relu_like"), (4, "quadratic"), (2, (0.7, 0.0, -0.4))]):
        problem = random_problem(seed, 4, n, loss, beta=0.05, levels=levels, activation=activation)
        master = full_master(problem)
        # Only many samples and the squared loss are reduced to the Gram matrix.
        assert (master.program._reduction is not None) == (loss == "squared" and n == 60)
        master.solve(1e-10)
        check_units(master, problem, gap=1e-8)


@pytest.mark.parametrize("unit_X", [1e-4, 1e3])
@pytest.mark.parametrize("unit_y", [1e-5, 1e4])
@pytest.mark.parametrize("n", [6, 60])
def test_units_of_the_data(unit_X: float, unit_y: float, n: int) -> None:
    problem = random_problem(1, 4, n)
    # The same problem in other units: weights scale by unit_y / unit_X^2.
    beta = problem.beta * unit_y * unit_X**2
    changed = TrainingProblem(unit_X * problem.X, unit_y * problem.y, beta=beta)
    ours, theirs = full_master(problem), full_master(changed)
    ours.solve(1e-11)
    theirs.solve(1e-11)
    check_units(theirs, changed, gap=1e-8)
    assert theirs.objective == pytest.approx(unit_y**2 * ours.objective, rel=1e-8)


def test_a_target_that_no_network_reaches() -> None:
    # Nearly all of the objective is a constant off the range of the Gram matrix.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    network = BilinearNetwork([[1, 1, -1]], [[1, -1, 1]], [1e-4])
    noise = rng.standard_normal(300)
    problem = TrainingProblem(X, network.predict(X) + noise, beta=1e-3)
    master = full_master(problem)
    assert master.program._constant > 100.0
    master.solve(1e-12)
    check_units(master, problem, gap=1e-10)


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("n", [5, 40])
def test_all_neurons_together_give_the_global_optimum(n: int, coarse: bool) -> None:
    for seed, activation in enumerate([None, *ACTIVATIONS]):
        problem = random_problem(seed, 3, n, coarse=coarse, activation=activation, levels=2 + seed % 2)
        U, V = all_atoms(problem.with_levels(2))
        master = Master(Instance.from_problem(problem))
        master.add(both_signs(U, V))
        master.solve(1e-11)
        optimum = global_optimum(problem)
        size = problem.loss.value(np.zeros_like(problem.y), problem.y)
        assert optimum.lower * (1 - 1e-9) - 1e-9 * size <= master.objective <= optimum.upper * (1 + 1e-9)
        check_units(master, problem, gap=1e-8)


def test_vector_outputs_of_a_coupled_loss() -> None:
    for seed, activation in enumerate([None, "relu_like"]):
        problem = random_vector_problem(seed, 4, 20, 3, "cross_entropy", beta=0.05, activation=activation, levels=3)
        master = full_master(problem)
        master.solve(1e-10)
        check_units(master, problem, gap=1e-8)
        assert set(master.atoms.outputs) == {0, 1, 2}


def test_nothing_in_hand_is_the_network_of_zero() -> None:
    for problem in (random_problem(0, 3, 8), random_vector_problem(0, 3, 8, 3, "cross_entropy")):
        master = Master(Instance.from_problem(problem))
        master.solve(1e-9)
        nothing = np.zeros_like(problem.targets)
        assert master.objective == problem.loss.value(nothing, problem.targets)
        assert np.array_equal(master.nu, -problem.loss.gradient(nothing, problem.targets))
        master.prune()
        atoms, weights = master.support()
        assert len(atoms) == len(weights) == master.n_neurons == 0


def test_bounds_of_pricing_values() -> None:
    for n in (8, 60):
        problem = random_problem(2, 4, n, beta=0.3)
        master = full_master(problem)
        master.solve(1e-10)
        nu = master.nu
        at_zero = problem.data_fit.value_at_zero
        penalty = problem.beta * problem.dimension
        for upper in (0.5 * penalty, penalty, 1.1 * penalty, 10.0 * penalty):
            feasible = master.feasible_dual(upper)
            assert master.gap(upper) == pytest.approx((master.objective - feasible.value) / master.objective)
            # The dual vector of the bound is feasible, and proves it.
            assert feasible.scale * upper + feasible.excess <= penalty * (1 + 1e-12)
            lifted = master.program.lifted(feasible.nu)
            moved = np.abs(problem.map.adjoint(lifted[:, 0]) - feasible.scale * problem.map.adjoint(nu[:, 0])).sum()
            assert moved <= max(feasible.excess, 1e-12 * penalty)
            value = -problem.loss.conjugate(-lifted, problem.targets)
            assert feasible.value == pytest.approx(value, rel=1e-9, abs=1e-9 * at_zero)
        assert master.feasible_dual(penalty).value == pytest.approx(master.objective, rel=1e-8)
        assert master.feasible_dual(1.1 * penalty).value < master.objective


# -- what is kept --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_without_time_the_last_solution_is_kept(loss: str) -> None:
    problem = random_problem(2, 4, 20, loss, beta=0.01)
    master = full_master(problem)
    master.solve(1e-9)
    before, nu, weights = master.objective, master.nu, master.weights
    assert before < 0.9 * master.instance.fit.value_at_zero
    U, V = random_neurons(np.random.default_rng(1), 30, problem)
    added = master.add(both_signs(U, V))
    assert added > 0
    with deadline.within(0.0):
        master.solve(1e-9)
    assert master.objective == before
    assert np.array_equal(master.nu, nu)
    assert np.array_equal(master.weights, np.concatenate([weights, np.zeros(added)]))
    master.solve(1e-9)
    assert master.objective < before


def test_the_objective_is_that_of_the_atoms_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(2, 4, 30, beta=0.01)
    master = full_master(problem, m=200)
    master.solve(1e-2)
    monkeypatch.setattr(sys.modules[Master.__module__], "MAX_SIDE", 20)
    master.prune()
    network = network_of(problem, master.atoms, master.weights * master.units.weight)
    assert master.objective == pytest.approx(problem.objective(network), rel=1e-9)


@pytest.mark.parametrize(("n", "memory"), [(8, False), (60, False), (60, True)])
def test_pruning_keeps_what_is_used(n: int, memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # With more samples than entries of a form, small penalties leave every pricing value at its own.
    problem = random_problem(2, 4, n, beta=0.3 if n < 10 else 30.0)
    master = full_master(problem, m=200)
    master.solve(1e-9)
    used = {key for key, weight in zip(master.atoms.keys(), master.weights, strict=True) if weight > 1e-4}
    before, size = master.objective, len(master.atoms)
    assert 0 < len(used) <= n
    master.prune()
    assert len(master.atoms) == size
    if memory:
        # Half of it holds forty columns and three copies of them.
        most = 2.0 * 40 * 4 * master.program.columns[:1].nbytes
        monkeypatch.setattr(sys.modules[Master.__module__], "main_memory", lambda: most)
    else:
        monkeypatch.setattr(sys.modules[Master.__module__], "MAX_SIDE", 40)
    master.prune()
    assert len(used) < len(master.atoms) <= 40 < size
    assert used <= set(master.atoms.keys())
    assert len(master.weights) == len(master.program.columns) == len(master.atoms)
    master.solve(1e-9)
    assert master.objective == pytest.approx(before, rel=1e-8)
    check_units(master, problem, gap=1e-8)
    # What was given up may come again.
    kept = len(master.atoms)
    U, V = random_neurons(np.random.default_rng(0), 200, problem)
    assert master.add(both_signs(U, V)) == size - kept > 0


def check_support(problem: TrainingProblem, master: Master) -> None:
    atoms, weights = master.support()
    assert len(atoms) == len(weights)
    assert np.all(weights > 0.0)
    counts = np.bincount(atoms.outputs, minlength=problem.n_outputs)
    assert counts.max() <= problem.n_samples
    # The range of the forms is another limit.
    assert counts.max() <= problem.size * (problem.size + 1) // 2
    size = problem.loss.value(np.zeros_like(problem.y), problem.y)
    if len(atoms):
        objective = problem.objective(network_of(problem, atoms, weights))
        assert objective == pytest.approx(master.objective, rel=1e-9, abs=1e-11 * size)
    else:
        assert master.objective == pytest.approx(size, rel=1e-9)


@pytest.mark.parametrize("loss", SCALAR_LOSSES)
@FUZZ
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 25),
    d=st.integers(1, 4),
    coarse=st.booleans(),
    log_beta=st.floats(-4, 1),
    activation=st.sampled_from([None, *ACTIVATIONS]),
)
def test_few_neurons_have_the_same_objective(
    loss: str, seed: int, n: int, d: int, coarse: bool, log_beta: float, activation: Any
) -> None:
    problem = random_problem(seed, d, n, loss, beta=10.0**log_beta, coarse=coarse, activation=activation)
    check_support(problem, full_master(problem, seed, m=60))


def test_few_neurons_of_several_outputs() -> None:
    for seed, n in enumerate((5, 12, 30)):
        problem = random_vector_problem(seed, 4, n, 3, "cross_entropy", beta=0.02)
        check_support(problem, full_master(problem, seed, m=60))


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
def test_ties_leave_a_vertex(loss: str) -> None:
    # The barrier ends in the middle of a face of many neurons.
    problem = random_problem(0, 4, 10, loss, beta=1e-2, coarse=True)
    master = full_master(problem, m=200)
    master.solve(1e-9)
    assert master.n_neurons > 2 * 10
    check_support(problem, master)


@pytest.mark.parametrize("n", [8, 300])
def test_the_dual_vector_is_smoothed_towards_that_of_the_best_bound(n: int) -> None:
    problem = random_problem(4, 3, n)
    master, signs = full_master(problem, m=2), sign_vectors(3)

    def largest() -> float:
        return float(np.abs(signs @ master.instance.adjoints(master.nu)[0]).sum(axis=1).max())

    master.solve(1e-9)
    own, best = master.nu, master.feasible_dual(largest())
    master.set_centre(best)
    before = master.smooth_dual()
    centre = master.program.lifted(best.nu)
    assert master.nu == pytest.approx(0.5 * (centre + own), rel=1e-9, abs=1e-12 * np.abs(own).max())
    assert 0.0 < master.feasible_dual(largest()).value <= global_optimum(problem).upper * (1.0 + 1e-9)
    master.undo_smoothing(before)
    assert np.array_equal(master.nu, own)


@pytest.mark.parametrize("proven", [True, False])
def test_dual_vectors_are_smoothed_after_proven_rounds_that_did_not_help(proven: bool) -> None:
    calls: list[str] = []

    class Stalled:
        """A master that does not improve, in which no atom is missing at a dual vector that was smoothed."""

        objective, atoms, n_neurons = 1.0, (), 0

        def __getattr__(self, name: str) -> Any:
            def called(*args: Any) -> Any:
                if name in {"solve", "smooth_dual", "undo_smoothing", "add"}:
                    calls.append(name)
                answers = {
                    "smooth_dual": np.zeros(1),
                    "gap": 0.5,
                    "feasible_dual": FeasibleDual(0.5, np.zeros(1), 1.0, 0.0),
                }
                return int(calls[-3:] != ["smooth_dual", "price", "add"]) if name == "add" else answers.get(name)

            return called

    def pricing(master: Any, gap: float) -> PricingResult:
        calls.append("price")
        if calls.count("price") == 5:
            raise KeyboardInterrupt
        none = Atoms.from_signs(np.zeros((0, 1)), np.zeros((0, 1)))
        return PricingResult(none, 1.0, 1.0 if proven else np.inf)

    outcome = generate(Stalled(), pricing, tol=1e-6)
    assert outcome.status == "interrupted"
    plain = ["solve", "price", "add"]
    smoothed = ["solve", "smooth_dual", "price", "add", "undo_smoothing", "price", "add"]
    assert calls == (2 * plain + smoothed + ["solve", "smooth_dual", "price"] if proven else 4 * plain + plain[:2])
