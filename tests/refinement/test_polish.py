"""Polishing: optimal with respect to single moves (by brute force), monotone, at equal storage."""

import tracemalloc

import numpy as np
import pytest
from brute_force import ACTIVATIONS, neuron_values, random_neurons, random_problem, random_vector_problem
from hypothesis import example, given, settings
from hypothesis import strategies as st

import qsdp
from qsdp import polish
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import LOSSES, SCALAR_LOSSES


def random_network(problem, m, seed, alpha=None, free=False):
    rng = np.random.default_rng(seed)
    U, V = random_neurons(rng, m, problem)
    if alpha is None:
        alpha = np.abs(problem.y).max() / np.abs(problem.X).max() ** 2 / m
    if not problem.scalar:
        full = np.zeros((m, problem.n_outputs))
        full[np.arange(m), np.arange(m) * problem.n_outputs // m] = alpha
    else:
        full = np.full(m, alpha)
    if free:
        full = full + alpha * rng.standard_normal(full.shape)
    return qsdp.BilinearNetwork(U, V, full, levels=problem.levels, activation=problem.activation)


def best_move(network, problem):
    """The smallest objective of all networks that differ in one weight by one level, from the neurons' definition."""
    fit, alpha = problem.data_fit, network.alpha.reshape(network.n_neurons, -1)
    predictions = problem.predictions(network).reshape(problem.n_samples, -1)
    penalty = problem.beta * problem.dimension * np.abs(alpha).sum()
    largest = np.full(network.U.shape[1], network.levels - 1)
    largest[network.n_inputs :] = 1
    best = np.inf
    for one, other in ((network.U, network.V), (network.V, network.U)):
        for j, weights in enumerate(one.astype(float)):
            moved = np.vstack([weights + 2.0 * np.eye(len(weights)), weights - 2.0 * np.eye(len(weights))])
            moved = moved[np.all(np.abs(moved) <= largest, axis=1)]
            values = neuron_values(problem, np.vstack([weights, moved]), np.tile(other[j], (len(moved) + 1, 1)))
            for change in (values[:, 1:] - values[:, :1]).T:
                after = predictions + np.outer(change, alpha[j])
                best = min(best, fit.value(after) + penalty)
    return best


def scale_of(problem):
    return problem.loss.value(np.zeros_like(problem.y), problem.y)


def check_locally_optimal(network, problem, **options):
    before = problem.objective(network)
    polished = polish(network, problem, max_sweeps=500, random_state=0, **options)
    objective = problem.objective(polished)
    assert objective <= before
    assert best_move(polished, problem) >= objective - 1e-9 * scale_of(problem)
    # Free weights that come out equal are stored as one.
    assert polished.n_bits == network.n_bits or (polished.shared_alpha and not network.shared_alpha)
    assert polished.shared_alpha or not network.shared_alpha
    return polished


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("seed", "loss"), list(enumerate(SCALAR_LOSSES)))
def test_no_single_move_helps(loss, free, seed):
    problem = random_problem(seed, 5, 25, loss, beta=0.05, coarse=seed % 2 == 1)
    for m in (1, 3, 20):
        polished = check_locally_optimal(random_network(problem, m, seed, free=free and m > 1), problem)
        assert problem.objective(polished) < scale_of(problem) or m == 1


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize(("number", "activation"), list(enumerate([None, *ACTIVATIONS])))
def test_no_single_move_helps_with_levels_and_lifts(levels, number, activation):
    # Every two of levels, activation and loss meet.
    loss = ("squared", "logistic", "hinge")[(levels + number) % 3]
    problem = random_problem(7, 3, 20, loss, beta=0.02, activation=activation, levels=levels)
    check_locally_optimal(random_network(problem, 6, 1), problem)
    check_locally_optimal(random_network(problem, 4, 2, free=True), problem)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_single_move_helps_with_several_outputs(loss, free):
    problem = random_vector_problem(3, 4, 24, 3, loss, beta=0.02, levels=3, activation="relu_like")
    for m in (3, 12):
        check_locally_optimal(random_network(problem, m, 5, free=free), problem)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(sorted(LOSSES)),
    m=st.integers(1, 40),
    levels=st.integers(2, 5),
    activation=st.sampled_from([None, *ACTIVATIONS]),
    outputs=st.integers(1, 3),
    free=st.booleans(),
    beta=st.sampled_from([1e-300, 0.01, 1.0, 100.0]),
    size=st.sampled_from([1e-6, 1.0, 1e6]),
)
# Neurons that cancel: a multiple of what rounding leaves of their sum is no progress.
@example(64, "absolute", 12, 2, (0.0, 0.0, 1.0), 1, False, 1e-300, 1.0)
@example(0, "cross_entropy", 1, 2, (0.7, 0.0, -0.4), 3, False, 1e-300, 1e-6)
def test_never_worse_and_monotone(seed, loss, m, levels, activation, outputs, free, beta, size):
    options = {"activation": activation, "levels": levels}
    if outputs == 1 and loss != "cross_entropy":
        problem = random_problem(seed, 3, 12, loss, beta, **options)
    else:
        outputs = max(outputs, 2)
        problem = random_vector_problem(seed, 3, 12, outputs, loss, beta, **options)
        m = max(m, outputs)
    problem = qsdp.TrainingProblem(problem.X * size, problem.y, beta=beta, loss=loss, **options)
    network = random_network(problem, m, seed, free=free)
    history = []
    polished = polish(
        network, problem, max_sweeps=6, random_state=0, callback=lambda sweep, objective: history.append(objective)
    )
    rounding = 1e-9 * (problem.objective(network) + scale_of(problem))
    # With hardly a penalty, tiny inputs have huge weights, whose sums cancel.
    rounding += 64.0 * np.finfo(float).eps * np.abs(polished.output_weights).sum() * max(1.0, size**2)
    assert problem.objective(polished) <= problem.objective(network)
    assert np.all(np.diff([problem.objective(network), *history]) <= rounding)
    assert abs(problem.objective(polished) - history[-1]) <= rounding
    assert polished.n_bits <= network.n_bits
    assert polished.shared_alpha or not network.shared_alpha
    assert (polished.levels, polished.activation) == (network.levels, network.activation)


def test_free_layer_is_the_best_of_its_neurons():
    problem = random_problem(2, 5, 30, "logistic", beta=0.02)
    polished = polish(random_network(problem, 8, 0, free=True), problem, max_sweeps=500, random_state=0)
    objective = problem.objective(polished)
    for j in range(8):
        for step in (-1e-4, 1e-4):
            alpha = polished.alpha.copy()
            alpha[j] += step
            assert problem.objective(qsdp.BilinearNetwork(polished.U, polished.V, alpha)) >= objective - 1e-10


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_zero_second_layer_comes_to_life(loss):
    problem = random_problem(3, 4, 30, loss, beta=0.01)
    for m in (1, 5):
        zero = random_network(problem, m, 0, alpha=0.0)
        assert problem.objective(polish(zero, problem, random_state=0)) < 0.999 * scale_of(problem)
    U, V = random_neurons(np.random.default_rng(0), 4, problem)
    free = qsdp.BilinearNetwork(U, V, [0.0, 0.0, 0.0, 0.01])
    polished = polish(free, problem, random_state=0)
    assert np.count_nonzero(polished.alpha) > 1


def test_zero_is_returned_where_it_is_optimal():
    problem = random_problem(3, 4, 30, beta=1e4)
    polished = polish(random_network(problem, 3, 0), problem)
    assert problem.objective(polished) <= scale_of(problem) * (1 + 1e-9)
    vector = random_vector_problem(3, 4, 30, 2, beta=1e4)
    polished = polish(random_network(vector, 4, 0), vector)
    assert polished.shared_alpha
    assert vector.objective(polished) <= scale_of(vector) * (1 + 1e-9)


def test_outputs_of_a_separable_loss_are_polished_apart():
    problem = random_vector_problem(8, 5, 30, 2, "huber")
    network = random_network(problem, 10, 0)
    together = polish(network, problem)
    for k, rows in enumerate((slice(0, 5), slice(5, 10))):
        part = qsdp.BilinearNetwork(network.U[rows], network.V[rows], network.alpha[rows, k])
        alone = polish(part, problem.output(k))
        np.testing.assert_array_equal(alone.U, together.U[rows])
        np.testing.assert_allclose(alone.alpha, together.alpha[rows, k])


def test_huge_and_tiny_data():
    problem = random_problem(5, 4, 20)
    network = random_network(problem, 10, 0)
    polished = polish(network, problem)
    # With squares of the data of 1e160 the curvatures, fourth powers, would overflow.
    for factor in (2.0**260, 2.0**-260):
        scaled = qsdp.TrainingProblem(problem.X * factor, problem.y, beta=problem.beta * factor**2)
        other = polish(qsdp.BilinearNetwork(network.U, network.V, network.alpha / factor**2), scaled)
        np.testing.assert_array_equal(other.U, polished.U)
        np.testing.assert_array_equal(other.alpha * factor**2, polished.alpha)


def test_restarts_help_and_repeat():
    problem = random_problem(11, 6, 40, beta=0.1)
    network = random_network(problem, 6, 3)
    once = problem.objective(polish(network, problem))
    more = polish(network, problem, restarts=20, random_state=1)
    assert problem.objective(more) < once
    again = polish(network, problem, restarts=20, random_state=1)
    np.testing.assert_array_equal(more.U, again.U)
    np.testing.assert_array_equal(more.alpha, again.alpha)


def test_a_local_optimum_comes_back_as_it_is():
    problem = random_problem(11, 6, 40, beta=0.1)
    polished = polish(random_network(problem, 6, 3), problem, max_sweeps=100)
    again = polish(polished, problem)
    assert problem.objective(again) <= problem.objective(polished)
    np.testing.assert_array_equal(again.U, polished.U)


def test_max_sweeps_and_callback():
    problem = random_problem(12, 8, 60)
    calls = []
    polish(random_network(problem, 50, 0), problem, max_sweeps=2, callback=lambda *call: calls.append(call))
    assert [sweep for sweep, _ in calls] == [1, 2]


def test_time_limit_ends_early():
    problem = random_problem(12, 8, 60)
    network = random_network(problem, 50, 0)
    calls = []
    polished = polish(
        network, problem, time_limit=1e-9, restarts=1000, callback=lambda *call: calls.append(call), random_state=0
    )
    assert len(calls) <= 1
    assert problem.objective(polished) <= problem.objective(network)


def test_interrupt_returns_what_was_gained():
    problem = random_problem(12, 8, 60)
    network = random_network(problem, 50, 0)

    def interrupt(sweep, objective):
        raise KeyboardInterrupt

    with pytest.warns(qsdp.QSDPWarning, match="interrupted"):
        polished = polish(network, problem, callback=interrupt)
    assert problem.objective(polished) < problem.objective(network)
    best = polish(network, problem, max_sweeps=200)
    with pytest.raises(KeyboardInterrupt):
        polish(best, problem, callback=interrupt)


def test_memory_is_bounded_by_the_width_of_a_batch(monkeypatch):
    monkeypatch.setattr("qsdp.refinement._sample_descent.LARGE_FLOATS", 2**16)
    problem = random_problem(1, 10, 1000)
    network = random_network(problem, 600, 0)
    tracemalloc.start()
    try:
        polish(network, problem, max_sweeps=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # An array of n x m floats would take 4.8 MB.
    assert peak < 2.4e6


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"max_sweeps": 0}, "max_sweeps"),
        ({"max_sweeps": 2.5}, "max_sweeps"),
        ({"restarts": -1}, "restarts"),
        ({"time_limit": 0.0}, "time_limit"),
        ({"time_limit": float("nan")}, "time_limit"),
        ({"random_state": "seed"}, "random_state"),
        ({"callback": 3}, "callback"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"n_jobs": 1.5}, "n_jobs"),
    ],
)
def test_bad_settings(options, name):
    problem = random_problem(0, 3, 10)
    with pytest.raises(InvalidInputError, match=f"^{name} must"):
        polish(random_network(problem, 3, 0), problem, **options)


def test_networks_of_other_problems():
    problem = random_problem(0, 3, 10)
    network = random_network(problem, 3, 0)
    others = [
        (random_problem(0, 4, 10), "n_inputs 4"),
        (random_problem(0, 3, 10, levels=3), "levels 3"),
        (random_problem(0, 3, 10, activation="relu_like"), "activation"),
        (random_vector_problem(0, 3, 10, 2), "n_outputs 2"),
    ]
    for other, what in others:
        with pytest.raises(InvalidInputError, match=f"network must have {what}"):
            polish(network, other)
    with pytest.raises(InvalidTypeError, match="network must be a BilinearNetwork"):
        polish(network.to_polynomial(), problem)
    with pytest.raises(InvalidTypeError, match="problem must be a TrainingProblem"):
        polish(network, None)


# -- large data: several moves at once, nothing copied ------------------------------------------------------


@pytest.fixture
def large(monkeypatch):
    """Make the data of small problems count as large."""
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 64)
    monkeypatch.setattr("qsdp.refinement._choice._LARGEST", 0)


@pytest.mark.parametrize(("free", "activation"), [(False, None), (True, "relu_like")])
@pytest.mark.parametrize("loss", SCALAR_LOSSES)
def test_no_single_move_helps_on_large_data(loss, free, activation, large):
    problem = random_problem(5, 16, 40, loss, beta=0.02, activation=activation)
    check_locally_optimal(random_network(problem, 10, 1, free=free), problem)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", ["cross_entropy", "squared", "hinge"])
def test_no_single_move_helps_on_large_data_of_several_outputs(loss, free, large):
    problem = random_vector_problem(3, 17, 30, 3, loss, beta=0.02, levels=3)
    check_locally_optimal(random_network(problem, 9, 2, free=free), problem)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("beta", [1e-300, 3.0])
def test_every_sweep_lowers_the_objective_on_large_data(loss, free, beta, large):
    problem = random_vector_problem(2, 20, 30, 3, loss, beta=beta)
    network = random_network(problem, 12, 0, free=free)
    values = [problem.objective(network)]
    polish(network, problem, max_sweeps=6, random_state=0, callback=lambda _, value: values.append(value))
    assert np.all(np.diff(values) <= 1e-9 * values[0])


def test_threads_do_not_change_the_network():
    problem = random_vector_problem(8, 5, 30, 3)
    network = random_network(problem, 12, 0)
    alone = polish(network, problem, restarts=1, random_state=0)
    together = polish(network, problem, restarts=1, random_state=0, n_jobs=2)
    for name in ("U", "V", "alpha"):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


@pytest.mark.parametrize(("loss", "free"), [("squared", False), ("cross_entropy", True)])
def test_memory_on_large_data(loss, free, monkeypatch):
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 2**14)
    monkeypatch.setattr("qsdp.refinement._sample_descent.LARGE_FLOATS", 2**16)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(10_000, 100))
    classes = np.argmax(np.stack([X[:, 0] * X[:, 1], X[:, 2] * X[:, 3], X[:, 4] ** 2], axis=1), axis=1)
    y = classes if loss == "cross_entropy" else np.eye(3)[classes]
    problem = qsdp.TrainingProblem(X, y, beta=1e-3, loss=loss)
    network = random_network(problem, 30, 0, free=free)
    tracemalloc.start()
    try:
        polish(network, problem, max_sweeps=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The data take 8 MB: one copy of them in single precision, none an output, and no n x m array for all neurons.
    assert peak < 4e6 + 4.5e6


@pytest.fixture
def single(monkeypatch):
    """Make products with the data of small problems run in single precision."""
    monkeypatch.setattr("qsdp.refinement._samples.SMALL", 0)
    monkeypatch.setattr("qsdp.refinement._choice._LARGEST", 0)


@pytest.mark.parametrize(("free", "activation"), [(False, None), (True, "relu_like")])
@pytest.mark.parametrize("loss", SCALAR_LOSSES)
def test_no_single_move_helps_in_single_precision(loss, free, activation, single):
    problem = random_problem(6, 12, 40, loss, beta=0.02, activation=activation)
    check_locally_optimal(random_network(problem, 10, 1, free=free), problem)


@pytest.mark.parametrize("loss", ["cross_entropy", "squared", "hinge"])
def test_no_single_move_helps_in_single_precision_with_several_outputs(loss, single, large):
    problem = random_vector_problem(3, 11, 30, 3, loss, beta=0.02, levels=3)
    check_locally_optimal(random_network(problem, 9, 2, free=True), problem)


def test_single_precision_finds_the_same_network(monkeypatch):
    problem = random_problem(4, 20, 400, beta=0.01)
    network = random_network(problem, 15, 0)
    expected = polish(network, problem)
    monkeypatch.setattr("qsdp.refinement._samples.SMALL", 0)
    found = polish(network, problem)
    np.testing.assert_array_equal(found.U, expected.U)
    np.testing.assert_array_equal(found.V, expected.V)
    assert problem.objective(found) == pytest.approx(problem.objective(expected), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-12, 1e30])
def test_targets_of_any_size_are_learned_on_large_data(scale, single):
    problem = random_problem(4, 6, 40, beta=0.01)
    scaled = qsdp.TrainingProblem(problem.X, scale * problem.y, beta=0.01 * scale)
    objectives = [one.objective(polish(random_network(one, 15, 0), one)) for one in (problem, scaled)]
    assert objectives[1] == pytest.approx(scale**2 * objectives[0], rel=1e-6)


@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_huge_targets_of_losses_with_bounded_gradients_are_learned_on_large_data(loss, single):
    problem = random_problem(4, 6, 60, loss, beta=0.01)
    scaled = qsdp.TrainingProblem(problem.X, 1e25 * problem.y, beta=0.01, loss=loss)
    check_locally_optimal(random_network(scaled, 15, 0), scaled)


def test_every_output_is_learned_on_large_data(single):
    problem, scales = random_vector_problem(3, 6, 40, 2, beta=1e-30), np.array([1.0, 1e-25])
    scaled = qsdp.TrainingProblem(problem.X, scales * problem.y, beta=1e-30)
    start = random_network(problem, 12, 0)
    expected = polish(start, problem)
    found = polish(qsdp.BilinearNetwork(start.U, start.V, scales * start.alpha), scaled)
    assert not np.array_equal(expected.U[start.alpha[:, 1] != 0.0], start.U[start.alpha[:, 1] != 0.0])
    np.testing.assert_array_equal(found.U, expected.U)
    np.testing.assert_allclose(found.alpha / scales, expected.alpha, rtol=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e12])
def test_a_row_of_another_size_does_not_end_learning_on_large_data(size, single):
    problem = random_problem(4, 6, 60, "hinge", beta=0.001)
    X = problem.X.copy()
    X[0] *= size
    outlying = qsdp.TrainingProblem(X, problem.y, beta=0.001, loss="hinge")
    check_locally_optimal(random_network(outlying, 15, 0), outlying)


# -- squared losses of many samples: moves known from moments -----------------------------------------------


def tall_problem(n_outputs, levels=2, activation=None, weighted=False, beta=0.02):
    problem = random_vector_problem(4, 6, 400, n_outputs, beta=beta, levels=levels, activation=activation)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 400) if weighted else None
    y = problem.y if n_outputs > 1 else problem.y[:, 0]
    return qsdp.TrainingProblem(problem.X, y, beta=beta, levels=levels, activation=activation, sample_weight=weights)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_outputs", "levels", "activation"), [(1, 2, None), (1, 4, "relu_like"), (3, 3, None)])
def test_no_single_move_helps_by_moments(free, weighted, n_outputs, levels, activation):
    problem = tall_problem(n_outputs, levels, activation, weighted)
    check_locally_optimal(random_network(problem, 9, 2, free=free), problem)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("free", [False, True])
def test_statistics_polish_as_their_rows_do(n_outputs, free):
    problem = tall_problem(n_outputs, activation="relu_like", weighted=True)
    statistics = qsdp.SufficientStatistics()
    for rows in (slice(0, 120), slice(120, 400)):
        statistics.partial_fit(problem.X[rows], problem.y[rows], problem.sample_weight[rows])
    without = qsdp.TrainingProblem.from_statistics(statistics, beta=problem.beta, activation="relu_like")
    network = random_network(problem, 12, 0, free=free)
    polished, expected = (polish(network, one, random_state=0) for one in (without, problem))
    assert problem.objective(polished) < problem.objective(network)
    assert without.objective(polished) == pytest.approx(problem.objective(polished), rel=1e-9)
    # Rounding chooses among moves that help equally; weights of neurons that nearly depend on others have few digits.
    assert problem.objective(polished) == pytest.approx(problem.objective(expected), rel=0.02)


def test_neurons_that_cancel_up_to_rounding_are_polished():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3))
    problem = qsdp.TrainingProblem(X, rng.standard_normal(20) + 3.0, beta=1e-300, activation=(0.0, 0.0, 1.0))
    # Ten constants of both signs; in another order than that of their sum they leave 1e-17, not 0.
    last = np.array([1, 1, 1, -1, 1, -1, -1, 1, -1, -1])
    U = np.hstack([rng.choice([-1, 1], size=(10, 3)), last[:, None]])
    V = np.hstack([rng.choice([-1, 1], size=(10, 3)), np.ones((10, 1), dtype=int)])
    network = qsdp.BilinearNetwork(U, V, np.full(10, 0.1), activation=(0.0, 0.0, 1.0))
    assert np.abs(network.predict(X)).max() < 1e-15
    polished = polish(network, problem, random_state=0)
    mean = problem.y.mean()
    assert problem.objective(polished) == pytest.approx(float(np.square(problem.y - mean).sum()), rel=1e-12)


@pytest.mark.parametrize("loss", ["huber", "logistic", "absolute"])
def test_free_weights_settle_in_single_precision(monkeypatch, loss):
    # Weights that are best for rounded outputs must not count as a fall in every other sweep.
    monkeypatch.setattr("qsdp.refinement._samples.SMALL", 0)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 6))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(120)
    problem = qsdp.TrainingProblem(X, np.sign(y) if loss == "logistic" else y, beta=0.2, loss=loss)
    U, V = rng.choice([-1, 1], size=(2, 12, 6))
    objectives = []
    network = qsdp.BilinearNetwork(U, V, rng.standard_normal(12))
    polish(network, problem, random_state=0, callback=lambda sweep, value: objectives.append(value))
    assert len(objectives) < 50
