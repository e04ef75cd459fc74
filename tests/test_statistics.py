"""Statistics of a squared loss: the problem of all rows, whatever their division, order and number."""

from __future__ import annotations

import pickle
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_devices import DEVICE, HAS_TORCH, needs_torch

import qsdp
import qsdp_check
from qsdp import SufficientStatistics, TrainingProblem
from qsdp.exceptions import (
    InvalidInputError,
    InvalidTypeError,
    SolverError,
    StorageError,
    UnavailableSolverError,
)
from qsdp.statistics import row_batches

N_ROWS = 400


def rows(vector: bool = False, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return data with a constant and means far from zero, targets with noise, and weights, some of them zero."""
    rng = np.random.default_rng(seed)
    X, y = qsdp.datasets.make_planted(n=N_ROWS, d=5, n_neurons=3, random_state=seed)
    y = y + 0.3 * rng.standard_normal(N_ROWS)
    X = np.column_stack([X * [1.0, 3.0, 0.2, 1.0, 1.0] + [0.0, 0.0, 1.0, -2.0, 8.0], np.ones(N_ROWS)])
    return X, np.column_stack([y, rng.standard_normal(N_ROWS)]) if vector else y, rng.integers(0, 4, N_ROWS) * 0.7


def of_parts(parts: Any) -> SufficientStatistics:
    statistics = SufficientStatistics()
    for part in parts:
        statistics.partial_fit(*part)
    return statistics


# -- the problem of the rows --------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"activation": "relu_like"}, {"levels": 4}, {"activation": "quadratic"}])
def test_problem_is_that_of_the_rows(arguments, vector):
    X, y, w = rows(vector)
    problem = TrainingProblem(X, y, beta=5.0, sample_weight=w, **arguments)
    statistics = SufficientStatistics().partial_fit(X, y, w)
    reduced = TrainingProblem.from_statistics(statistics, beta=5.0, **arguments)
    assert (reduced.n_samples, reduced.n_features, reduced.n_outputs) == (N_ROWS, 6, problem.n_outputs)
    assert (reduced.size, reduced.dimension) == (problem.size, problem.dimension)
    assert qsdp.beta_max(reduced) == pytest.approx(qsdp.beta_max(problem), rel=1e-8)
    assert reduced.data_fit.value_at_zero == pytest.approx(problem.data_fit.value_at_zero, rel=1e-13)
    one, other = qsdp.solve_relaxation(problem), qsdp.solve_relaxation(reduced)
    assert other.objective == pytest.approx(one.objective, rel=2e-6)
    assert other.lower_bound == pytest.approx(one.lower_bound, rel=2e-6)
    assert other.relative_gap <= 1e-6
    np.testing.assert_allclose(other.predict(X), one.predict(X), atol=1e-2 * np.abs(y).max())
    networks = [qsdp.sample_network(qsdp.shape_covariance(r), 60, random_state=0) for r in (one, other)]
    np.testing.assert_array_equal(networks[0].U, networks[1].U)
    np.testing.assert_allclose(networks[0].alpha, networks[1].alpha, rtol=1e-3)
    assert reduced.objective(networks[0]) == pytest.approx(problem.objective(networks[0]), rel=1e-12)
    refitted = qsdp.refit(networks[0], reduced)
    assert problem.objective(refitted) == pytest.approx(problem.objective(qsdp.refit(networks[0], problem)), rel=1e-7)
    certificate = qsdp.certify(refitted, reduced, other)
    assert certificate.lower_bound <= problem.objective(refitted)
    assert certificate.objective == pytest.approx(problem.objective(refitted), rel=1e-12)


@pytest.mark.parametrize("solver", ["interior", "splitting", "clarabel"])
def test_solvers_agree(solver):
    X, y, w = rows()
    reduced = TrainingProblem.from_statistics(SufficientStatistics().partial_fit(X, y, w), beta=20.0)
    expected = qsdp.solve_relaxation(TrainingProblem(X, y, beta=20.0, sample_weight=w))
    assert qsdp.solve_relaxation(reduced, solver).lower_bound == pytest.approx(expected.lower_bound, rel=1e-4)


def test_column_generation_and_exact_bounds():
    X, y, w = rows()
    reduced = TrainingProblem.from_statistics(SufficientStatistics().partial_fit(X, y, w), beta=20.0)
    problem = TrainingProblem(X, y, beta=20.0, sample_weight=w)
    result = qsdp.column_generation(reduced, tol=1e-6)
    assert result.certificate.bound_type == "exact"
    assert result.certificate.relative_gap <= 1e-6
    assert problem.objective(result.network) == pytest.approx(result.certificate.objective, rel=1e-10)
    assert qsdp.column_generation(problem).certificate.objective == pytest.approx(
        result.certificate.objective, rel=1e-5
    )
    exact = qsdp.certify(result.network, reduced, bound_type="exact")
    assert exact.relative_gap < 1e-4


@pytest.mark.parametrize("bound_type", ["sdp", "exact"])
@pytest.mark.parametrize(("vector", "arguments"), [(False, {}), (True, {"activation": "relu_like", "levels": 4})])
def test_certificates_are_checked_from_files(vector, arguments, bound_type, tmp_path, capsys):
    X, y, w = rows(vector)
    statistics = SufficientStatistics().partial_fit(X, y, w)
    problem = TrainingProblem.from_statistics(statistics, beta=20.0, **arguments)
    network = qsdp.sample_network(qsdp.shape_covariance(qsdp.solve_relaxation(problem)), 40, random_state=0)
    certificate = qsdp.certify(network, problem, bound_type=bound_type)
    path = tmp_path / "certificate"
    certificate.save(path, include_data=False)
    assert qsdp.load_certificate(path, problem) == certificate
    assert qsdp_check.main([str(path)]) == 1
    certificate.save(path)
    loaded = qsdp.load_certificate(path)
    assert loaded == certificate
    assert loaded.proof.problem == problem
    assert loaded.proof.problem.n_samples == N_ROWS
    capsys.readouterr()
    assert qsdp_check.main([str(path)]) == 0
    assert f"statistics of {N_ROWS} samples (stated, not checked) in {len(problem.y)} rows" in capsys.readouterr().out
    arrays, _, _ = qsdp_check.read(str(path))
    for name, change, reason in (
        ("nu", lambda nu: 0.5 * nu, "is proven"),
        ("forms", lambda forms: 1.01 * forms, "objective: it is"),
        ("forms", lambda forms: forms[:, 1:], "not triangles"),
        ("lower_bound", lambda bound: bound + 1e-6 * certificate.objective, "is proven"),
        ("loss", lambda loss: np.array("absolute"), "only a squared loss"),
    ):
        with pytest.raises(qsdp_check.ClaimError, match=reason):
            qsdp_check.check({**arrays, name: change(arrays[name])})
    with pytest.raises(StorageError, match="a different problem"):
        qsdp.load_certificate(path, problem.with_beta(1.0))
    with pytest.raises(StorageError, match="a different problem"):
        qsdp.load_certificate(path, TrainingProblem(X, y, beta=20.0, **arguments))


def test_many_betas_and_other_levels():
    X, y, _ = rows()
    reduced = TrainingProblem.from_statistics(SufficientStatistics().partial_fit(X, y), beta=1.0)
    relaxation = None
    for beta in qsdp.beta_max(reduced) * np.geomspace(1.0, 1e-3, 4):
        relaxation = qsdp.solve_relaxation(reduced.with_beta(beta), start=relaxation)
        of_rows = qsdp.solve_relaxation(TrainingProblem(X, y, beta=beta))
        assert relaxation.objective == pytest.approx(of_rows.objective, rel=3e-6)
    other = relaxation.with_levels(4)
    assert other.lower_bound <= other.objective
    assert reduced.with_beta(2.0) != reduced
    assert reduced.with_beta(1.0) == reduced
    assert reduced != TrainingProblem(X, y, beta=1.0)


# -- divisions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((5, 2)), np.arange(5.0)),
        (np.ones((4, 1)), np.arange(4.0)),
        (np.array([[1.0, 2.0]]), [3.0]),
        (np.array([[0.0, 1.0], [0.0, 2.0], [0.0, -1.0]]), [1.0, 2.0, 0.5]),
        (np.eye(3), np.zeros(3)),
        (np.full((3, 2), 1e80) * [[1], [2], [-1]], np.array([1e-90, 2e-90, 3e-90])),
    ],
    ids=["zero data", "constant", "one row", "empty column", "zero targets", "ends of the range"],
)
@pytest.mark.filterwarnings("ignore::qsdp.QSDPWarning")
def test_degenerate_data(X, y):
    problem = TrainingProblem(X, y, beta=1.0)
    largest = qsdp.beta_max(problem)
    reduced = TrainingProblem.from_statistics(SufficientStatistics().partial_fit(X, y), beta=0.1 * largest or 1.0)
    expected = qsdp.solve_relaxation(problem.with_beta(reduced.beta))
    found = qsdp.solve_relaxation(reduced)
    assert found.objective == pytest.approx(expected.objective, rel=1e-5, abs=1e-300)
    assert found.lower_bound <= expected.objective * (1.0 + 1e-12)


@st.composite
def trees(draw: Any) -> Any:
    """Return numbers of rows divided among parts, which are merged in pairs until one is left."""
    order = draw(st.permutations(range(N_ROWS)))
    cuts = sorted(draw(st.lists(st.integers(1, N_ROWS - 1), max_size=7, unique=True)))
    parts = [list(order[a:b]) for a, b in zip([0, *cuts], [*cuts, N_ROWS], strict=True)]
    merges = [draw(st.tuples(st.integers(0, k), st.integers(0, k - 1))) for k in range(len(parts) - 1, 0, -1)]
    return parts, merges, draw(st.booleans())


@settings(max_examples=15, deadline=None)
@given(trees())
def test_any_division_order_and_merge_tree_has_the_same_bounds(tree):
    parts, merges, weighted = tree
    X, y, w = rows()
    weights = w if weighted else np.ones(N_ROWS)
    pieces = [SufficientStatistics().partial_fit(X[part], y[part], weights[part]) for part in parts]
    for kept, merged in merges:
        first = pieces.pop(kept)
        pieces[merged] = first.merge(pieces[merged])
    once = SufficientStatistics().partial_fit(X, y, weights)
    problems = [TrainingProblem.from_statistics(one, beta=20.0) for one in (pieces[0], once)]
    found, expected = (qsdp.solve_relaxation(problem) for problem in problems)
    # Bounds allow for rounding, whose worst case grows with every change of the centres that parts of few rows chose.
    assert found.lower_bound == pytest.approx(expected.lower_bound, rel=1e-8)
    assert found.lower_bound <= expected.objective
    assert found.objective == pytest.approx(expected.objective, rel=1e-10)


@pytest.mark.parametrize("kind", ["rows", "blocks"])
@pytest.mark.parametrize("place", [0, 2, 5])
def test_batches_without_weight_or_rows_add_nothing(kind, place):
    X, y, w = rows()
    data = X if kind == "rows" else qsdp.Blocks(X, sizes=[2, 2])
    weights = w + 0.1
    batches = [(data[a : a + 80], y[a : a + 80], weights[a : a + 80]) for a in range(0, N_ROWS, 80)]
    more = [(data[:0], y[:0], w[:0]), (data[:30], 1e6 * y[:30], np.zeros(30))]
    found = SufficientStatistics.from_batches([*batches[:place], *more, *batches[place:]], keep=50)
    once = SufficientStatistics.from_batches(batches, keep=50)
    assert (found.n_samples_seen_, found.total_weight_) == (N_ROWS + 30, once.total_weight_)
    assert found.sample_problem(beta=5.0) == once.sample_problem(beta=5.0)
    empty = SufficientStatistics().partial_fit(*more[1])
    merged = (SufficientStatistics().merge(empty).merge(of_parts(batches)), of_parts(batches).merge(empty))
    problems = [TrainingProblem.from_statistics(one, beta=5.0) for one in (once, found, *merged)]
    expected, *others = (qsdp.solve_relaxation(problem).lower_bound for problem in problems)
    assert others == pytest.approx([expected] * 3, rel=1e-6)
    network = qsdp.sample_network(qsdp.shape_covariance(qsdp.solve_relaxation(problems[0])), 20, random_state=0)
    expected, *others = (problem.objective(network) for problem in problems)
    assert others == pytest.approx([expected] * 3, rel=1e-11)
    with pytest.raises(InvalidInputError, match="y must have no rows, as X has none; got 80"):
        SufficientStatistics().partial_fit(data[:0], y[:80])
    with pytest.raises(InvalidInputError, match="must have at least one row to have a problem; all have weight zero"):
        TrainingProblem.from_statistics(empty, beta=5.0)


def test_integers_have_the_same_statistics_whatever_the_division():
    rng = np.random.default_rng(0)
    X, y = rng.integers(-3, 4, (500, 4)).astype(float), rng.integers(0, 2, 500).astype(float)
    once = SufficientStatistics().partial_fit(X, y)
    cut = of_parts((X[a : a + 37], y[a : a + 37]) for a in range(0, 500, 37))
    assert TrainingProblem.from_statistics(once, beta=1.0) == TrainingProblem.from_statistics(cut, beta=1.0)


@pytest.mark.parametrize("scales", [[1.0, 1e-6, 1e6, 1.0, 1e3, 1.0], [1e-40] * 5 + [1.0], [1e40] * 6])
def test_objectives_on_columns_of_all_sizes(scales):
    X, y, w = rows()
    X = X * scales
    statistics = of_parts((X[a : a + 90], y[a : a + 90], w[a : a + 90]) for a in range(0, N_ROWS, 90))
    reduced = TrainingProblem.from_statistics(statistics, beta=1e-9)
    rng = np.random.default_rng(1)
    signs = rng.choice([-1, 1], (20, 2, 6))
    for k in range(20):
        network = qsdp.BilinearNetwork(signs[[k], 0], signs[[k], 1], [rng.standard_normal() / np.max(scales) ** 2])
        expected = TrainingProblem(X, y, beta=1e-9, sample_weight=w).objective(network)
        assert reduced.objective(network) == pytest.approx(expected, rel=1e-13)


def test_columns_far_from_zero_keep_their_digits():
    X, y, _ = rows()
    far = X + np.array([1e4, 0.0, 0.0, 1e4, 0.0, 0.0])
    statistics = of_parts((far[a : a + 50], y[a : a + 50]) for a in range(0, N_ROWS, 50))
    network = qsdp.BilinearNetwork([[1, 1, 1, -1, 1, -1]], [[-1, 1, 1, 1, 1, 1]], [0.3])
    expected = TrainingProblem(far, y, beta=1e-9).objective(network)
    # Both neurons cancel what is of the size of 1e4.
    found = TrainingProblem.from_statistics(statistics, beta=1e-9).objective(network)
    assert found == pytest.approx(expected, rel=1e-9)


def test_first_rows_far_from_the_others_cost_no_digits():
    rng = np.random.default_rng(0)
    X, y = 1e3 + rng.standard_normal((70_000, 2)), rng.standard_normal(70_000)
    X[:3] = 0.0
    statistics = of_parts([(X[:3], y[:3]), (X[3:], y[3:])])
    network = qsdp.BilinearNetwork([[1, -1]], [[1, -1]], [1.0])
    expected = TrainingProblem(X, y, beta=1e-9).objective(network)
    found = TrainingProblem.from_statistics(statistics, beta=1e-9).objective(network)
    assert found == pytest.approx(expected, rel=1e-8)


# -- files and streams --------------------------------------------------------------------------------------


def test_merging_leaves_the_other_as_it_is():
    X, y, w = rows()
    one, other = SufficientStatistics(), SufficientStatistics().partial_fit(X, y, w)
    before = TrainingProblem.from_statistics(other, beta=1.0)
    assert one.merge(other) is one
    one.partial_fit(2.0 * X, y).merge(SufficientStatistics()).merge(other)
    assert TrainingProblem.from_statistics(other, beta=1.0) == before
    assert (one.n_samples_seen_, one.total_weight_) == (3 * N_ROWS, pytest.approx(2 * w.sum() + N_ROWS))


def test_file_holds_all(tmp_path):
    X, y, w = rows(vector=True)
    statistics = SufficientStatistics().partial_fit(X, y, w)
    statistics.save(tmp_path / "statistics")
    loaded = SufficientStatistics.load(tmp_path / "statistics")
    assert loaded.n_samples_seen_ == statistics.n_samples_seen_ == N_ROWS
    assert loaded.total_weight_ == statistics.total_weight_
    problems = [TrainingProblem.from_statistics(one.partial_fit(X, y), beta=1.0) for one in (statistics, loaded)]
    assert problems[0] == problems[1]


def test_foreign_and_damaged_files_are_refused(tmp_path):
    X, y, _ = rows()
    path = tmp_path / "statistics"
    SufficientStatistics().partial_fit(X, y).save(path)
    path.write_bytes(path.read_bytes()[:-5] + b"\x00" * 5)
    with pytest.raises(StorageError, match="damaged"):
        SufficientStatistics.load(path)
    qsdp.BilinearNetwork([[1, 1]], [[1, 1]], [0.2]).save(path)
    with pytest.raises(StorageError, match="sufficient statistics"):
        SufficientStatistics.load(path)


def test_memory_mapped_arrays_in_batches(tmp_path):
    X, y, w = rows()
    mapped = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=X.shape)
    mapped[:] = X
    statistics = SufficientStatistics.from_batches(row_batches(mapped, y, w, rows=64))
    expected = SufficientStatistics().partial_fit(np.asarray(mapped, dtype=np.float64), y, w)
    problems = [TrainingProblem.from_statistics(one, beta=1.0) for one in (statistics, expected)]
    assert qsdp.beta_max(problems[0]) == pytest.approx(qsdp.beta_max(problems[1]), rel=1e-9)


def test_functions_and_iterables_are_sources():
    X, y, w = rows()
    batches = list(row_batches(X, y, w, rows=150))
    expected = of_parts(batches)
    for source in (batches, iter(batches), lambda: batches, lambda: iter(batches), tuple(batches)):
        found = SufficientStatistics.from_batches(source)
        assert (found.n_samples_seen_, found.total_weight_) == (N_ROWS, expected.total_weight_)
        network = qsdp.BilinearNetwork([[1, 1, -1, 1, -1, 1]], [[1, -1, 1, 1, 1, 1]], [0.3])
        problems = [TrainingProblem.from_statistics(one, beta=5.0) for one in (found, expected)]
        assert problems[0].objective(network) == problems[1].objective(network)
    for wrong in (3, X, "rows.csv", None, lambda: 3):
        with pytest.raises(InvalidTypeError, match=r"batches must be an iterable of .*; got (int|nd|str|None)"):
            SufficientStatistics.from_batches(wrong)


# -- rows that are kept -------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", [False, True])
def test_kept_rows_stand_for_all(vector, tmp_path):
    X, y, w = rows(vector)
    parts = [SufficientStatistics(keep=100) for _ in range(3)]
    for k, start in enumerate(range(0, N_ROWS, 40)):
        batch = slice(start, start + 40)
        parts[k % 3].partial_fit(X[batch], y[batch], w[batch])
    parts[2].save(tmp_path / "part")
    statistics = parts[0].merge(parts[1]).merge(SufficientStatistics.load(tmp_path / "part"))
    problem = TrainingProblem.from_statistics(statistics, beta=20.0)
    kept = statistics.sample_problem(beta=20.0)
    assert (kept.n_samples, kept.scalar) == (100, not vector)
    assert kept.data_fit.total_weight == pytest.approx(w.sum())
    assert len(np.unique(kept.X, axis=0)) == 100
    assert all(any(np.array_equal(row, other) for other in X[w > 0]) for row in kept.X)
    assert kept.data_fit.value_at_zero == pytest.approx(problem.data_fit.value_at_zero, rel=0.5)
    network = qsdp.sample_network(qsdp.shape_covariance(qsdp.solve_relaxation(problem)), 30, random_state=0)
    assert problem.objective(qsdp.polish(network, kept, random_state=0)) < problem.objective(network)


def test_kept_rows_are_a_uniform_sample():
    position = np.arange(20_000.0)[:, None]
    parts = [SufficientStatistics(keep=2000, random_state=seed) for seed in (0, 1)]
    # The first part has a quarter of the rows, in small batches.
    for start in range(0, 5000, 100):
        parts[0].partial_fit(position[start : start + 100], np.zeros(100))
    parts[1].partial_fit(position[5000:], np.zeros(15_000))
    X = parts[0].merge(parts[1]).sample_problem(beta=1.0).X[:, 0]
    counts = np.histogram(X, bins=20, range=(0.0, 20_000.0))[0]
    assert counts.sum() == 2000
    assert np.sum((counts - 100.0) ** 2 / 100.0) < 45.0, "a chi-square of 19 degrees of freedom"


# -- bad input ----------------------------------------------------------------------------------------------

HOLES = np.ones((5, 6))
HOLES[[1, 3], [0, 2]] = np.nan


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((5, 4)), np.ones(5)), "X must have 6 columns, as before; got 4"),
        ((np.ones((5, 6)), np.ones((5, 2))), r"targets of shape \(n,\), as before; got \(n, 2\)"),
        ((np.ones((5, 6)), np.ones(4)), "y must have 5 entries"),
        ((HOLES, np.ones(5)), "X must be finite; NaN or infinity in row 1, 3 of this batch"),
        ((np.ones((5, 6)), [1, 2, np.inf, 4, 5]), "y must be finite; NaN or infinity in row 2 of this batch"),
        ((np.ones((5, 6)), np.ones(5), [1, 1, -1, 1, 1]), "sample_weight must be >= 0; found -1"),
        ((np.ones((5, 6)), np.ones(5), np.ones(4)), r"sample_weight must have shape \(5,\)"),
        ((np.full((5, 6), "a"), np.ones(5)), "X must be a numeric array"),
        ((np.ones((5, 6)) * 1e120, np.ones(5)), "X must be zero or have its largest magnitude within"),
    ],
)
def test_refused_rows_leave_what_was_accumulated(arguments, message):
    X, y, _ = rows()
    statistics = SufficientStatistics().partial_fit(X, y)
    before = TrainingProblem.from_statistics(statistics, beta=1.0)
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        statistics.partial_fit(*arguments)
    assert statistics.n_samples_seen_ == N_ROWS
    assert TrainingProblem.from_statistics(statistics, beta=1.0) == before


def test_statistics_interrupted_in_a_batch_are_refused(monkeypatch):
    X, y, _ = rows()
    statistics, whole = (SufficientStatistics().partial_fit(X, y) for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(
            "qsdp.statistics.sufficient.monomials", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            statistics.partial_fit(X, y)
    for use in (
        lambda: statistics.partial_fit(X, y),
        lambda: whole.merge(statistics),
        lambda: statistics.save("statistics"),
        lambda: TrainingProblem.from_statistics(statistics, beta=1.0),
    ):
        with pytest.raises(InvalidInputError, match="interrupted in the middle of a batch"):
            use()


def test_batches_are_named_in_errors():
    X, y, _ = rows()
    broken = X.copy()
    broken[250, 1] = np.nan
    with pytest.raises(InvalidInputError, match=r"batch 2, which begins at row 200: .* row 50 of this batch"):
        SufficientStatistics.from_batches(row_batches(broken, y, rows=100))
    cases = [
        ((X[:, :3], y), "batch 1, which begins at row 400: X must have 6 columns, as before; got 3"),
        ((X, np.stack([y, y], 1)), r"batch 1, .*y?.*must come with targets of shape \(n,\)"),
        ((X, y[:-1]), "batch 1, which begins at row 400: y must have"),
        ((X.astype(str), y), "batch 1, which begins at row 400: X must"),
        ((X, y.astype(object)[:, None]), "batch 1, which begins at row 400: "),
        ((None, y), "batch 1, which begins at row 400: X must"),
    ]
    for batch, message in cases:
        with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
            SufficientStatistics.from_batches([(X, y), batch])
    with pytest.raises(InvalidInputError, match="empty stream"):
        SufficientStatistics.from_batches([])
    with pytest.raises(InvalidTypeError, match=r"batch 0 must be a tuple \(X, y\)"):
        SufficientStatistics.from_batches([X])


def test_other_columns_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.ones((3, 2)), columns=["a", "b"])
    statistics = SufficientStatistics().partial_fit(frame, np.ones(3)).partial_fit(np.ones((2, 2)), np.ones(2))
    assert statistics.feature_names_in_ == ("a", "b")
    other = frame.rename(columns={"b": "c"})
    with pytest.raises(InvalidInputError, match="'c' instead of 'b'"):
        statistics.partial_fit(other, np.ones(3))
    with pytest.raises(InvalidInputError, match="other must have the same columns as before"):
        statistics.merge(SufficientStatistics().partial_fit(other, np.ones(3)))
    with pytest.raises(InvalidInputError, match="other must have 2 columns"):
        statistics.merge(SufficientStatistics().partial_fit(np.ones((3, 3)), np.ones(3)))
    with pytest.raises(InvalidTypeError, match="SufficientStatistics; got int"):
        statistics.merge(3)  # type: ignore[arg-type]


def test_memory_is_refused_before_any_work():
    needed = SufficientStatistics.memory(99)
    assert needed == 12 * 5051 * 5052
    with pytest.raises(InvalidInputError, match=f"max_memory must be at least {needed} for 99 columns .306 MB"):
        SufficientStatistics(max_memory=10**8).partial_fit(np.ones((1, 99)), [1.0])
    with pytest.raises(InvalidInputError, match="max_memory must be an integer >= 1"):
        SufficientStatistics(max_memory=0)


def test_statistics_take_the_memory_they_say(monkeypatch):
    monkeypatch.setattr("qsdp.statistics.moments.ROWS_AT_ONCE", 4096)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5000, 45)), rng.standard_normal(5000)
    statistics = SufficientStatistics().partial_fit(X, y)
    tracemalloc.start()
    for _ in range(3):
        statistics.partial_fit(X[:2500], y[:2500])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < SufficientStatistics.memory(45) + 8 * 2**20 + 4 * X[:2500].nbytes


# -- on a device ---------------------------------------------------------------------------------------------


def sums_of(statistics: SufficientStatistics) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower triangle of the sums, and their sizes by the diagonal."""
    triangle = np.tril(statistics._sums.triangle())
    sizes = np.sqrt(np.diagonal(triangle))
    return triangle, np.outer(sizes, sizes)


@needs_torch
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("folded", [False, True])
def test_sums_on_a_device_are_those_of_numpy(vector, folded, monkeypatch):
    import torch

    X, y, w = rows(vector)
    if folded:
        monkeypatch.setattr("qsdp.statistics.moments.ROWS_AT_ONCE", 100)
        monkeypatch.setattr("qsdp._utils.arrays._DEVICE_FLOATS", 50 * 31)
    batches = list(row_batches(X, y, w, rows=150))
    here, there = (SufficientStatistics.from_batches(batches, device=device) for device in (None, DEVICE))
    if not folded:
        assert isinstance(there._sums._full, torch.Tensor)
        assert there._sums._full.dtype == torch.float64
    expected, sizes = sums_of(here)
    # Whatever was asked for in between, later rows are added to what was there.
    for _ in range(2):
        found, _ = sums_of(there)
        assert np.abs(found - expected).max() > 0.0 or not folded
        np.testing.assert_array_less(np.abs(found - expected), 1e-14 * sizes + 1e-300)
        for statistics in (here, there):
            statistics.partial_fit(X[:70], y[:70])
        expected, sizes = sums_of(here)
    assert there._basis == here._basis


@needs_torch
def test_statistics_of_a_device_are_merged_saved_and_sent(tmp_path):
    X, y, w = rows()
    here = SufficientStatistics().partial_fit(X, y, w).merge(SufficientStatistics().partial_fit(X, y))
    parts = [SufficientStatistics(device=DEVICE).partial_fit(X, y, own) for own in (w, None)]
    parts[1].save(tmp_path / "part")
    loaded = SufficientStatistics.load(tmp_path / "part", device=DEVICE)
    total = pickle.loads(pickle.dumps(parts[0])).merge(loaded)
    expected, sizes = sums_of(here)
    for statistics in (total, SufficientStatistics(device=DEVICE).merge(total)):
        assert statistics.device == statistics._sums.device == DEVICE
        np.testing.assert_array_less(np.abs(sums_of(statistics)[0] - expected), 1e-14 * sizes + 1e-300)
    # A part that was merged goes on by itself.
    assert parts[1].partial_fit(X, y).n_samples_seen_ == 2 * N_ROWS
    expected, sizes = sums_of(SufficientStatistics().partial_fit(X, y).partial_fit(X, y))
    np.testing.assert_array_less(np.abs(sums_of(parts[1])[0] - expected), 1e-14 * sizes + 1e-300)
    problem = TrainingProblem.from_statistics(total, beta=5.0)
    expected_problem = TrainingProblem.from_statistics(here, beta=5.0)
    one, other = qsdp.solve_relaxation(expected_problem), qsdp.solve_relaxation(problem, device=DEVICE)
    assert other.objective == pytest.approx(one.objective, rel=2e-6)


def test_devices_of_statistics_are_checked_before_any_row(monkeypatch):
    def batches():
        raise AssertionError("a row was asked for")
        yield

    for make in (SufficientStatistics, lambda device: SufficientStatistics.from_batches(batches(), device=device)):
        with pytest.raises(InvalidTypeError, match="device must be a string or None; got int"):
            make(device=0)
        if HAS_TORCH:
            with pytest.raises(InvalidInputError, match="device 'nonsense' is not available to torch"):
                make(device="nonsense")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnavailableSolverError, match="device='cuda' needs torch: pip install torch"):
        SufficientStatistics(device="cuda")


# -- what needs rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda problem, network: problem.take([0, 1]),
        lambda problem, network: problem.X,
    ],
    ids=["take", "X"],
)
def test_what_needs_rows_says_so(use):
    X, y, _ = rows()
    problem = TrainingProblem.from_statistics(SufficientStatistics().partial_fit(X, y), beta=20.0)
    network = qsdp.BilinearNetwork(np.ones((1, 6)), np.ones((1, 6)), [0.1])
    message = "needs the rows of the data, which a problem from statistics does not have"
    with pytest.raises(InvalidInputError, match=message):
        use(problem, network)


def test_problems_that_statistics_do_not_have():
    X, y, _ = rows()
    statistics = SufficientStatistics().partial_fit(X, y)
    problem = TrainingProblem.from_statistics(statistics, beta=1.0)
    with pytest.raises(InvalidInputError, match=r"loss must be 'squared' .* got Huber"):
        TrainingProblem.from_statistics(statistics, beta=1.0, loss="huber")
    with pytest.raises(InvalidTypeError, match="statistics must be SufficientStatistics; got ndarray"):
        TrainingProblem.from_statistics(X, beta=1.0)
    with pytest.raises(InvalidInputError, match="statistics must have at least one row"):
        TrainingProblem.from_statistics(SufficientStatistics(), beta=1.0)
    with pytest.raises(InvalidTypeError, match=r"TrainingProblem\.from_statistics"):
        TrainingProblem(statistics, y, beta=1.0)
    with pytest.raises(InvalidInputError, match="statistics must have at least one row to be saved"):
        SufficientStatistics().save("statistics")
    with pytest.raises(SolverError, match="needs the rows of the data"):
        qsdp.solve_relaxation(problem, "low-rank")
    with pytest.raises(InvalidInputError, match="matrices of side 6; got 2"):
        problem.objective(qsdp.BilinearNetwork([[1, 1]], [[1, 1]], [0.1]))
