"""Networks of a fixed size: against enumeration, and enumeration against brute force over all weights."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from brute_force import (
    ACTIVATIONS,
    atoms,
    global_optimum,
    lifted_features,
    random_neurons,
    random_problem,
    random_vector_problem,
)
from enumerated_networks import enumerate_best
from scipy.optimize import minimize_scalar

import qsdp
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import SCALAR_LOSSES
from qsdp.refinement import fixed_width
from qsdp.refinement.fixed_width import train_fixed_width


def of_size(problem, m, **options):
    result = train_fixed_width(problem, m, random_state=0, **options)
    assert result.network.n_neurons == m
    assert result.objective == problem.objective(result.network)
    assert result.lower_bound <= result.objective
    assert result.gap == result.objective - result.lower_bound
    return result


def enumerated(problem, m, second_layer="shared"):
    """Return a best network and its objective."""
    network = enumerate_best(problem, m, second_layer == "shared")
    assert network.n_neurons == m
    return network, problem.objective(network)


def shared_optimum(problem, m):
    """The smallest objective over sums of m signed atoms with one magnitude, each by a scalar minimisation."""
    F = lifted_features(problem)
    penalty = problem.beta * problem.dimension * m
    best = problem.loss.value(np.zeros_like(problem.y), problem.y)
    for numbers in itertools.combinations_with_replacement(range(F.shape[1]), m):
        for signs in itertools.product([1.0, -1.0], repeat=m):
            f = F[:, numbers] @ np.array(signs)
            found = minimize_scalar(lambda a, f=f: problem.loss.value(a * f, problem.y) + penalty * abs(a), tol=1e-12)
            best = min(best, found.fun)
    return best


@pytest.mark.parametrize("loss", SCALAR_LOSSES)
def test_enumeration_of_shared_layers(loss):
    for seed, m, options in ((0, 1, {"levels": 3}), (1, 2, {}), (2, 1, {"activation": "relu_like"})):
        problem = random_problem(seed, 2, 12, loss, beta=0.05, **options)
        network, objective = enumerated(problem, m)
        assert network.shared_alpha
        assert objective == pytest.approx(shared_optimum(problem, m), rel=1e-6)


def free_optimum(problem, m):
    """The smallest objective over the free layers of all sets of m atoms, by one program with a column a set."""
    F = lifted_features(problem)
    sets = np.array(list(itertools.combinations(range(F.shape[1]), m))).T
    alpha = cp.Variable(sets.shape)
    prediction = sum(F[:, atoms] @ cp.diag(alpha[i]) for i, atoms in enumerate(sets))
    targets = np.tile(problem.y[:, None], sets.shape[1])
    penalty = problem.beta * problem.dimension
    program = cp.Minimize(problem.loss.expression(prediction, targets) + penalty * cp.sum(cp.abs(alpha)))
    cp.Problem(program).solve(solver="CLARABEL")
    values = np.einsum("nis,is->ns", F[:, sets], alpha.value)
    losses = [problem.loss.value(column, problem.y) for column in values.T]
    return np.min(losses + penalty * np.abs(alpha.value).sum(axis=0))


@pytest.mark.parametrize("loss", SCALAR_LOSSES)
def test_enumeration_of_free_layers(loss):
    problem = random_problem(3, 2, 12, loss, beta=0.05, activation=(0.5, 1.0, 0.5))
    for m in (1, 2):
        _, objective = enumerated(problem, m, second_layer="free")
        assert objective == pytest.approx(free_optimum(problem, m), rel=1e-6)


def test_enumeration_with_as_many_neurons_as_there_are_is_the_global_optimum():
    problem = random_problem(5, 2, 12, beta=0.3)
    count = len(atoms(problem)[0])
    optimum = global_optimum(problem)
    for m in (count, count + 2):
        _, objective = enumerated(problem, m, second_layer="free")
        assert objective == pytest.approx(optimum.upper, rel=1e-7)


@pytest.mark.parametrize(("seed", "d"), [(0, 2), (1, 5), (2, 7)])
def test_one_neuron_is_optimal(seed, d):
    problem = random_problem(seed, d, 30, beta=0.05)
    _, optimum = enumerated(problem, 1)
    found = of_size(problem, 1, restarts=4)
    assert found.objective == pytest.approx(optimum, rel=1e-8)
    assert len(found.starts) == 4
    # One weight is free and shared alike.
    np.testing.assert_array_equal(of_size(problem, 1, restarts=4, second_layer="free").network.U, found.network.U)


@pytest.mark.parametrize(("seed", "loss"), list(enumerate(SCALAR_LOSSES)))
def test_one_neuron_is_optimal_for_every_loss(seed, loss):
    options = ({}, {"levels": 3}, {"activation": "relu_like"})[seed % 3]
    problem = random_problem(seed, 3, 20, loss, beta=0.02, **options)
    _, optimum = enumerated(problem, 1)
    assert of_size(problem, 1, restarts=4).objective == pytest.approx(optimum, rel=1e-7)


@pytest.mark.parametrize("second_layer", ["shared", "free"])
@pytest.mark.parametrize("m", [2, 3])
def test_few_neurons_are_optimal(m, second_layer):
    problem = random_problem(m, 3, 20, beta=0.05)
    _, optimum = enumerated(problem, m, second_layer)
    found = of_size(problem, m, second_layer=second_layer, restarts=4)
    assert found.objective == pytest.approx(optimum, rel=1e-7)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_no_worse_than_enumeration_and_every_start(activation):
    problem = random_problem(4, 2, 20, beta=0.02, activation=activation, levels=3)
    _, optimum = enumerated(problem, 2)
    found = of_size(problem, 2, restarts=6)
    assert optimum - 1e-9 * optimum <= found.objective <= min(found.starts) * (1 + 1e-9)
    assert found.objective == pytest.approx(optimum, rel=1e-6)


def test_vector_outputs():
    problem = random_vector_problem(1, 2, 20, 2, beta=0.05)
    best, optimum = enumerated(problem, 3)
    assert best.shared_alpha
    assert np.count_nonzero(best.alpha, axis=0).tolist() == [2, 1]
    found = of_size(problem, 3, restarts=4)
    assert found.network.shared_alpha
    assert found.objective == pytest.approx(optimum, rel=1e-7)
    parts = [enumerated(problem.output(k), m)[1] for k, m in enumerate((2, 1))]
    assert optimum == pytest.approx(sum(parts))
    # Neurons of all outputs can do what neurons of one can.
    free = of_size(problem, 3, second_layer="free", restarts=2, starts=[found.network])
    assert free.objective <= found.objective
    assert of_size(problem, 1, second_layer="free", restarts=4).objective < sum(
        problem.loss.value(np.zeros(20), problem.y[:, k]) for k in range(2)
    )


def test_cross_entropy():
    problem = random_vector_problem(2, 3, 30, 3, "cross_entropy", beta=0.02)
    found = of_size(problem, 6, restarts=2)
    assert found.network.shared_alpha
    assert found.objective < of_size(problem, 3, restarts=2).objective
    assert found.objective < problem.loss.value(np.zeros_like(problem.y), problem.y)


def test_zero_where_it_is_optimal():
    problem = random_problem(1, 3, 15, beta=1e4)
    zero = problem.loss.value(np.zeros_like(problem.y), problem.y)
    with pytest.warns(qsdp.QSDPWarning, match="zero network"):
        found = of_size(problem, 2)
    assert found.objective == pytest.approx(zero)
    assert enumerated(problem, 1)[1] == zero


def test_starts_and_relaxation_are_used(monkeypatch):
    problem = random_problem(6, 5, 30, beta=0.05)
    relaxation = qsdp.solve_relaxation(problem)
    monkeypatch.setattr(fixed_width, "solve_relaxation", None)
    U, V = random_neurons(np.random.default_rng(0), 4, problem)
    start = qsdp.BilinearNetwork(U, V, np.full(4, 0.1))
    result = train_fixed_width(problem, 4, restarts=0, starts=iter([start]), relaxation=relaxation)
    assert len(result.starts) == 1
    assert result.lower_bound == relaxation.lower_bound
    again = train_fixed_width(problem, 4, restarts=0, starts=[result.network], relaxation=relaxation, random_state=1)
    assert again.objective <= result.objective


def test_repeats_with_its_seed():
    problem = random_problem(7, 6, 30, beta=0.05)
    one, two = (train_fixed_width(problem, 3, restarts=3, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.network.U, two.network.U)
    assert one.starts == two.starts


def test_exchange_helps():
    problem = random_problem(9, 8, 60, beta=0.05)
    result = of_size(problem, 6, restarts=2)
    assert result.objective < 0.999 * min(result.starts)


@pytest.mark.filterwarnings("ignore:the certified relative gap")
def test_time_limit_still_returns_a_network():
    problem = random_problem(9, 8, 60, beta=0.05)
    result = of_size(problem, 20, restarts=10**6, time_limit=1e-6)
    assert len(result.starts) == 1


def test_interrupt_returns_the_best_so_far(monkeypatch):
    problem = random_problem(9, 5, 30, beta=0.05)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(fixed_width, "exchange", interrupted)
    with pytest.warns(qsdp.QSDPWarning, match="interrupted"):
        result = of_size(problem, 3, restarts=3)
    assert result.objective == pytest.approx(min(result.starts))
    monkeypatch.setattr(fixed_width, "sample_network", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_fixed_width(problem, 3)


@pytest.mark.parametrize(
    ("m", "options", "message"),
    [
        (0, {}, "n_neurons must"),
        (1.5, {}, "n_neurons must"),
        (2, {"second_layer": "both"}, "second_layer must"),
        (2, {"restarts": -1}, "restarts must"),
        (2, {"restarts": 0}, "restarts must be at least 1"),
        (2, {"restarts": 0, "starts": []}, "restarts must be at least 1"),
        (2, {"time_limit": 0}, "time_limit must"),
        (2, {"random_state": -1}, "random_state must"),
        (2, {"relaxation": 3}, "relaxation must be a Relaxation"),
        (2, {"starts": 3}, "starts must"),
        (2, {"starts": [None]}, r"starts\[0\]: network must be a BilinearNetwork"),
    ],
)
def test_bad_arguments(m, options, message):
    problem = random_problem(0, 3, 10)
    with pytest.raises(InvalidInputError, match=message):
        train_fixed_width(problem, m, **options)


def test_what_does_not_fit():
    problem = random_problem(0, 3, 10)
    other = qsdp.BilinearNetwork([[1, 1]], [[1, 1]], [1.0])
    with pytest.raises(InvalidInputError, match=r"starts\[0\]: network must have n_inputs 3"):
        train_fixed_width(problem, 1, starts=[other])
    U = np.ones((2, 3))
    with pytest.raises(InvalidInputError, match=r"starts\[1\] must have 2 neurons; got 1"):
        train_fixed_width(
            problem, 2, starts=[qsdp.BilinearNetwork(U, U, [1.0, 1.0]), qsdp.BilinearNetwork(U[:1], U[:1], [1.0])]
        )
    with pytest.raises(InvalidInputError, match=r"starts\[0\] must have a shared second layer"):
        train_fixed_width(problem, 2, starts=[qsdp.BilinearNetwork(U, U, [1.0, 2.0])])
    with pytest.raises(InvalidInputError, match="relaxation must belong to the same problem"):
        train_fixed_width(problem, 2, relaxation=qsdp.solve_relaxation(random_problem(1, 3, 10)))
    with pytest.raises(InvalidTypeError, match="problem must be a TrainingProblem"):
        train_fixed_width(None, 2)
    vector = random_vector_problem(0, 2, 10, 2)
    with pytest.raises(InvalidInputError, match="n_neurons must"):
        train_fixed_width(vector, 1)
