"""Grothendieck sampling: moments by z-tests, Theorem 3's decay, reproducibility, bounded memory.

Each statistical test states its false-alarm rate; seeds are fixed, so a pass stays a pass.
"""

import tracemalloc

import numpy as np
import pytest
import scipy.linalg
from brute_force import random_problem, random_vector_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import qsdp
from qsdp.exceptions import InvalidInputError


@pytest.fixture(scope="module")
def relaxation():
    return qsdp.solve_relaxation(random_problem(21, 6, 40, beta=0.5))


@pytest.fixture(scope="module")
def covariance(relaxation):
    return qsdp.shape_covariance(relaxation)


def z_scores(samples, mean):
    """Standardised deviations of the mean of +-1 samples (rows) from `mean`, entry by entry."""
    deviation = np.sqrt((1 - mean**2) / len(samples))
    return (samples.mean(axis=0) - mean) / deviation


def largest_z(count, alarm):
    """Bound that the largest of `count` standard normals passes with probability `alarm` at most."""
    return stats.norm.isf(alarm / (2 * count))


@pytest.mark.parametrize("triangular", [False, True])
def test_grothendieck_identity(covariance, triangular, monkeypatch):
    # 66 distinct entries of E[w w'] = (2 / pi) arcsin(Q), w = [u; v]; false alarm below 1e-6.
    if triangular:
        monkeypatch.setattr("qsdp.shaping.roots.QUICK_SIDE", 0)
    network = qsdp.sample_network(covariance, 200_000, random_state=0)
    w = np.hstack([network.U, network.V]).astype(float)
    first, second = np.triu_indices(w.shape[1], k=1)
    expected = 2 / np.pi * np.arcsin(covariance.Q[first, second])
    scores = z_scores(w[:, first] * w[:, second], expected)
    assert np.abs(scores).max() < largest_z(len(scores), 1e-6)
    # The test has teeth: erratum 3's identity without the factor 2 / pi is far outside.
    wrong = z_scores(w[:, first] * w[:, second], np.clip(np.arcsin(covariance.Q[first, second]), -0.99, 0.99))
    assert np.abs(wrong).max() > 20


def test_signs_are_fair_coins(covariance):
    network = qsdp.sample_network(covariance, 100_000, random_state=1)
    scores = z_scores(np.hstack([network.U, network.V]).astype(float), np.zeros(12))
    assert np.abs(scores).max() < largest_z(12, 1e-6)


@pytest.mark.parametrize("method", ["krivine", "adaptive"])
def test_mean_of_the_network_is_twice_z(relaxation, method):
    # 36 entries of E[sum alpha u v'] = 2 Z; false alarm below 1e-6.
    covariance = qsdp.shape_covariance(relaxation, method=method)
    network = qsdp.sample_network(covariance, 200_000, random_state=2)
    products = (network.U[:, :, None] * network.V[:, None, :]).reshape(len(network.U), -1).astype(float)
    total = network.alpha.sum()
    scores = z_scores(products, (2 * relaxation.Z[0][0] / total).ravel())
    assert np.abs(scores).max() < largest_z(36, 1e-6)


def test_adaptive_lowers_regulariser_and_noise(relaxation, covariance):
    closed, adaptive = qsdp.shape_covariance(relaxation, "krivine"), covariance
    assert adaptive.total_weight < 0.95 * closed.total_weight
    # Variance of the predictions of one neuron, from 40,000: a mean of bounded terms, its standard error below 1 %
    # of it; the two differ by more than twenty of them.
    X = relaxation.problem.X
    variances = []
    for one in (closed, adaptive):
        network = qsdp.sample_network(one, 40_000, random_state=9)
        outputs = one.total_weight * (network.U @ X.T) * (network.V @ X.T)
        deviations = ((outputs - outputs.mean(axis=0)) ** 2).sum(axis=1)
        assert deviations.std() / 200 < 0.01 * deviations.mean()
        variances.append(deviations.mean())
    assert variances[1] < 0.8 * variances[0]


def test_spectral_error_falls_as_one_over_the_root_of_m(relaxation, covariance):
    # Slope of a log-log fit over m = 2^5 .. 2^14, 40 networks each. Its standard error, from the spread of
    # the errors, is about 0.01: the interval is 6 of them wide on each side.
    sizes = 2 ** np.arange(5, 15)
    rng = np.random.default_rng(3)
    errors = [
        [
            np.linalg.norm((n.U.T * n.alpha) @ n.V.astype(float) - 2 * relaxation.Z[0][0], 2)
            for n in (qsdp.sample_network(covariance, int(m), rng) for _ in range(40))
        ]
        for m in sizes
    ]
    fit = stats.linregress(np.log(sizes), np.log(np.mean(errors, axis=1)))
    assert fit.slope == pytest.approx(-0.5, abs=0.06)
    assert fit.rvalue**2 > 0.99


def test_neurons_are_int8_signs_with_one_alpha(covariance):
    network = qsdp.sample_network(covariance, 1000, random_state=4)
    assert network.U.dtype == network.V.dtype == np.int8
    assert set(np.unique(network.U)) == set(np.unique(network.V)) == {-1, 1}
    assert network.shared_alpha
    assert network.alpha.sum() == pytest.approx(covariance.total_weight, rel=1e-12)


def test_degenerate_gaussians_give_no_zeros():
    # beta so large that rho = 0, and rank one: perfectly correlated signs.
    with pytest.warns(qsdp.QSDPWarning):
        zero = qsdp.solve_relaxation(random_problem(0, 3, 8, beta=1e9))
    network = qsdp.sample_network(qsdp.shape_covariance(zero), 50, random_state=0)
    assert np.abs(network.U).min() == 1
    assert not network.alpha.any()
    one = qsdp.solve_relaxation(qsdp.TrainingProblem([[1.0], [2.0]], [3.0, 12.0], beta=1e-3))
    network = qsdp.sample_network(qsdp.shape_covariance(one), 50, random_state=0)
    assert np.abs(network.V).min() == 1


def test_random_state_decides_everything(covariance):
    def draw(state, m=64):
        network = qsdp.sample_network(covariance, m, state)
        return np.hstack([network.U, network.V])

    np.testing.assert_array_equal(draw(7), draw(7))
    np.testing.assert_array_equal(draw(np.random.default_rng(7)), draw(7))
    np.testing.assert_array_equal(draw(np.random.RandomState(7)), draw(np.random.RandomState(7)))
    assert (draw(7) != draw(8)).any()
    assert (draw(None) != draw(None)).any()
    network = qsdp.sample_network(covariance, 64)
    np.testing.assert_array_equal(np.hstack([network.U, network.V]), draw(0))
    np.testing.assert_array_equal(draw(7, 200)[:64], draw(7))


def test_chunks_do_not_change_the_sample(covariance, monkeypatch):
    whole = qsdp.sample_network(covariance, 500, random_state=5)
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 12 * 7)
    pieces = qsdp.sample_network(covariance, 500, random_state=5)
    np.testing.assert_array_equal(pieces.U, whole.U)
    np.testing.assert_array_equal(pieces.V, whole.V)


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_threads_do_not_change_the_sample(covariance, monkeypatch, n_jobs):
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 12 * 7)
    alone = qsdp.sample_network([covariance, covariance], 300, random_state=5)
    together = qsdp.sample_network([covariance, covariance], 300, random_state=5, n_jobs=n_jobs)
    for name in ("U", "V", "alpha"):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


def test_samples_are_the_signs_of_one_stream(covariance, monkeypatch):
    # What a random_state gives must not change with chunks, threads or the version.
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 12 * 7)
    network = qsdp.sample_network([covariance, covariance], 60, random_state=3, n_jobs=2)
    eigenvalues, vectors = scipy.linalg.eigh(covariance.Q)
    noise = np.random.default_rng(3).standard_normal((60, 12))
    signs = np.where(noise @ (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T < 0.0, -1, 1)
    np.testing.assert_array_equal(np.hstack([network.U, network.V]), signs)


def test_memory_is_bounded_by_the_chunk_and_the_result(covariance, monkeypatch):
    monkeypatch.setattr("qsdp._utils.parallel.WORK_FLOATS", 2**16)
    m = 400_000
    tracemalloc.start()
    try:
        qsdp.sample_network(covariance, m, random_state=6)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The int8 neurons, alpha, its checked copy and the owners take 12 + 8 + 8 + 16 bytes a neuron; the Gaussians
    # of all neurons at once would take 12 * 8 = 96 and their product with the root as much again.
    assert peak < 50 * m


# Several levels and lifts


KINDS = [(3, None), (4, None), (2, "relu_like"), (3, "relu_like"), (4, (-0.5, 1.0, 0.25))]
kinds = pytest.mark.parametrize(("levels", "activation"), KINDS, ids=str)


def levels_relaxation(levels, activation):
    return qsdp.solve_relaxation(random_problem(21, 4, 25, beta=0.02, activation=activation, levels=levels))


def sample_z(samples, expected):
    """Standardised deviations of the means of columns, by their own spread; 0 for constant right ones."""
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    difference = samples.mean(axis=0) - expected
    constant = error == 0.0
    assert np.all(np.abs(difference[constant]) < 1e-9)
    return np.where(constant, 0.0, difference / np.where(constant, 1.0, error))


def assert_mean_is_twice_z(U, V, alpha, Z, problem, alarm):
    """E[sum alpha u v'] is 2 Z on the columns of true levels."""
    sizes = np.r_[np.full(problem.n_features, problem.levels - 1), np.ones(problem.size - problem.n_features)]
    products = (U[:, :, None].astype(float) * V[:, None, :]).reshape(len(U), -1)
    expected = (2 * Z * np.outer(sizes, sizes) / alpha.sum()).ravel()
    assert np.abs(sample_z(products, expected)).max() < largest_z(len(expected), alarm)


@pytest.mark.parametrize("method", ["krivine", "adaptive"])
@kinds
def test_weights_are_levels_and_their_mean_is_twice_z(levels, activation, method):
    # False alarm below 1e-6 for each of the fifteen.
    relaxation = levels_relaxation(levels, activation)
    problem, M = relaxation.problem, levels - 1
    covariance = qsdp.shape_covariance(relaxation, method=method)
    network = qsdp.sample_network(covariance, 60_000, random_state=2)
    assert (network.levels, network.activation) == (levels, problem.activation)
    assert network.n_inputs == 4
    for weights in (network.U, network.V):
        assert weights.dtype == np.int8
        assert set(np.unique(weights[:, :4])) <= set(range(-M, M + 1, 2))
        assert {-M, M} <= set(np.unique(weights[:, :4]))
        assert np.all(np.abs(weights[:, 4:]) == 1)
    assert network.shared_alpha
    assert network.alpha.sum() == pytest.approx(covariance.total_weight, rel=1e-12)
    assert_mean_is_twice_z(network.U, network.V, network.alpha, relaxation.Z[0][0], problem, 1e-6)
    # Then the mean of the network's predictions is the relaxation's: each row's mean by its own spread.
    U, V = network.U.astype(float), network.V.astype(float)
    outputs = covariance.total_weight * lifted_products(problem, U, V)
    scores = sample_z(outputs, relaxation.predict(problem.X))
    assert np.abs(scores).max() < largest_z(len(scores), 1e-6)


def lifted_products(problem, U, V):
    """Outputs of single neurons with alpha = 1, shape (m, n)."""
    a, b, c = problem.activation.coefficients if problem.activation else (1.0, 0.0, 0.0)
    d = problem.n_features
    left, right = U[:, :d] @ problem.X.T, V[:, :d] @ problem.X.T
    if not problem.lifted:
        return a * left * right
    s, t = U[:, d:], V[:, d:]
    return a * left * right + 0.5 * b * (left * t + right * s) + c * s * t


def test_a_wrong_scale_would_be_noticed():
    # The test above has teeth: the means for M = 2 on unscaled columns are far outside.
    relaxation = levels_relaxation(3, None)
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), 60_000, random_state=2)
    products = (network.U[:, :, None].astype(float) * network.V[:, None, :]).reshape(60_000, -1)
    assert np.abs(sample_z(products, (2 * relaxation.Z[0][0] / network.alpha.sum()).ravel())).max() > 20


def test_middle_level_has_its_frequency():
    # For M = 2 a weight is 0 when its two signs differ: arccos(t) / pi. 8 frequencies, false alarm below 1e-6.
    covariance = qsdp.shape_covariance(levels_relaxation(3, None))
    network = qsdp.sample_network(covariance, 60_000, random_state=3)
    zero = (np.hstack([network.U, network.V]) == 0).astype(float)
    expected = np.arccos(covariance.replica_correlation) / np.pi
    assert np.abs(sample_z(zero, expected)).max() < largest_z(8, 1e-6)
    assert expected.max() > 0.05


@pytest.mark.parametrize("levels", [3, 4, 5])
def test_intermediate_levels_occur(levels):
    covariance = qsdp.shape_covariance(levels_relaxation(levels, "relu_like"))
    # Coordinates whose replicas disagree now and then; there are some, and all levels occur in them.
    free = np.flatnonzero((covariance.replica_correlation < 0.95) & (covariance.replicas > 1))
    assert free.size
    network = qsdp.sample_network(covariance, 20_000, random_state=4)
    weights = np.hstack([network.U, network.V])
    for column in weights[:, free].T:
        assert set(np.unique(column)) == set(range(1 - levels, levels, 2))


# Several outputs


def test_adaptive_constants_of_several_outputs():
    # Each output by its own constant; false alarm below 3e-6.
    problem = random_vector_problem(3, 3, 12, 3, "cross_entropy", beta=0.02, levels=3, activation="relu_like")
    relaxation = qsdp.solve_relaxation(problem)
    covariances = qsdp.shape_covariance(relaxation, method="adaptive")
    assert len({covariance.constant for covariance in covariances}) == 3
    network = qsdp.sample_network(covariances, 40_001, random_state=8, allocation="proportional")
    for k, covariance in enumerate(covariances):
        rows = network.alpha[:, k] != 0
        assert network.alpha[:, k].sum() == pytest.approx(covariance.rho * np.pi / covariance.constant, rel=1e-12)
        assert_mean_is_twice_z(
            network.U[rows], network.V[rows], network.alpha[rows, k], relaxation.Z[0][k], problem, 1e-6
        )


@pytest.mark.parametrize("allocation", ["equal", "proportional"])
@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@pytest.mark.parametrize(("levels", "activation"), [(2, None), (3, "relu_like")])
def test_mean_of_a_vector_network_is_the_relaxation(levels, activation, loss, allocation):
    # Every output by itself; false alarm below 3e-6 for each.
    problem = random_vector_problem(3, 3, 12, 3, loss, beta=0.02, levels=levels, activation=activation)
    relaxation = qsdp.solve_relaxation(problem)
    covariances = qsdp.shape_covariance(relaxation)
    network = qsdp.sample_network(covariances, 40_001, random_state=8, allocation=allocation)
    assert network.alpha.shape == (40_001, 3)
    assert network.n_outputs == 3
    assert network.shared_alpha
    parts = np.array([c.total_weight if allocation == "proportional" else 1.0 for c in covariances])
    assert np.all(np.abs((network.alpha != 0).sum(axis=0) - 40_001 * parts / parts.sum()) < 1.0)
    # Every neuron serves one output, outputs one after another.
    owners = network.alpha != 0
    assert np.all(owners.sum(axis=1) == 1)
    assert np.all(np.diff(owners.argmax(axis=1)) >= 0)
    for k, covariance in enumerate(covariances):
        rows = owners[:, k]
        assert network.alpha[:, k].sum() == pytest.approx(covariance.total_weight, rel=1e-12)
        assert_mean_is_twice_z(
            network.U[rows], network.V[rows], network.alpha[rows, k], relaxation.Z[0][k], problem, 1e-6
        )
    assert network.predict(problem.X).shape == problem.y.shape


def test_proportional_shares_lower_the_noise():
    # Outputs whose rho differ by 100: mean squared error of S over 40 networks each; the ratio expected is
    # (sum rho)^2 / (C sum rho^2) = 0.34. Asked for is less than 0.8, which 40 networks miss by chance in less
    # than one case in 1e6 (the spread of a mean is below 5 %).
    problem = random_vector_problem(3, 3, 12, 3, beta=1e-4)
    problem = qsdp.TrainingProblem(problem.X, problem.y / problem.y.std(axis=0) * [1.0, 0.01, 0.01], beta=1e-4)
    relaxation = qsdp.solve_relaxation(problem)
    covariances, target = qsdp.shape_covariance(relaxation), 2 * relaxation.Z[0]
    rng = np.random.default_rng(0)

    def error(allocation):
        networks = [qsdp.sample_network(covariances, 300, rng, allocation=allocation) for _ in range(40)]
        return np.mean([np.sum((network.quadratic_form - target) ** 2) for network in networks])

    assert error("proportional") < 0.8 * error("equal")


@pytest.mark.parametrize(("m", "expected"), [(3, [1, 1, 1]), (4, [2, 1, 1]), (5, [2, 2, 1]), (250, [84, 83, 83])])
def test_neurons_are_divided_among_outputs(m, expected):
    covariances = qsdp.shape_covariance(qsdp.solve_relaxation(random_vector_problem(3, 3, 12, 3, beta=0.02)))
    network = qsdp.sample_network(covariances, m, random_state=0)
    sizes = (network.alpha != 0).sum(axis=0)
    assert sizes.tolist() == expected
    for k, covariance in enumerate(covariances):
        # Fewer neurons, larger weights: the mean stays right for every output.
        assert network.alpha[:, k].max() == pytest.approx(covariance.total_weight / sizes[k], rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(m=st.integers(3, 5000), factors=st.lists(st.floats(0.1, 10.0), min_size=3, max_size=3))
def test_proportional_sizes_are_within_one_of_the_proportion(m, factors):
    drawn = random_vector_problem(3, 3, 12, 3, beta=0.002)
    problem = qsdp.TrainingProblem(drawn.X, drawn.y * factors, beta=0.002)
    covariances = qsdp.shape_covariance(qsdp.solve_relaxation(problem, tol=1e-2), "krivine")
    network = qsdp.sample_network(covariances, m, random_state=0, allocation="proportional")
    sizes = (network.alpha != 0).sum(axis=0)
    weights = np.array([one.total_weight for one in covariances])
    assert sizes.sum() == m
    assert sizes.min() >= 1
    # Where the proportional part of every output is at least one, the minimum is no obstacle.
    if (m * weights / weights.sum()).min() >= 1.0:
        assert np.all(np.abs(sizes - m * weights / weights.sum()) < 1.0 + 1e-9)


def test_bad_allotments_are_refused():
    with pytest.raises(InvalidInputError, match=r"allocation must be one of.*did you mean 'proportional'"):
        qsdp.sample_network(qsdp.shape_covariance(levels_relaxation(2, None)), 5, allocation="proportionl")


@pytest.mark.parametrize("allocation", ["equal", "proportional"])
@pytest.mark.parametrize("refine", ["none", "polish"])
def test_outputs_of_zero_relaxation_have_no_neurons(allocation, refine):
    """The second and the last target are too small for their beta: the other outputs keep a shared weight each."""
    X, y = qsdp.datasets.make_planted(n=60, d=4, n_neurons=3, random_state=0)
    targets = np.column_stack([y, 1e-3 * X[:, 0] * X[:, 1], X[:, 0] * X[:, 2], 1e-3 * y])
    result = qsdp.solve_and_sample(X, targets, 41, 1.0, refine=refine, allocation=allocation, random_state=0)
    np.testing.assert_array_equal(result.relaxation.rho_stack > 0.0, [True, False, True, False])
    network = result.network
    counts = (network.alpha != 0.0).sum(axis=0)
    assert counts[[1, 3]].tolist() == [0, 0]
    assert counts.sum() == network.n_neurons == 41
    assert network.shared_alpha
    assert network.n_bits == 2 * 41 * 4 + 32 * 8
    assert not np.any(network.predict(X)[:, [1, 3]])


def test_where_all_relaxations_are_zero_neurons_are_divided():
    X, y = qsdp.datasets.make_planted(n=60, d=4, n_neurons=3, random_state=0)
    result = qsdp.solve_and_sample(X, np.column_stack([y, -y]), 7, 1e6, refine="polish", random_state=0)
    assert not np.any(result.network.alpha)
    assert result.network.shared_alpha
    assert result.certificate.relative_gap < 1e-12
