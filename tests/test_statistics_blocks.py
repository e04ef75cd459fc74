"""Statistics of blocks: sums of packed entries, exact for integers, whatever the batches and their order."""

from __future__ import annotations

import copy
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import read_archive, write_archive
from block_problems import enumerated_optimum, random_blocks, random_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg.lapack import dtfttr
from torch_devices import DEVICE, needs_torch

import qsdp
import qsdp_check
from qsdp import Blocks, SufficientStatistics, TrainingProblem
from qsdp.exceptions import InvalidInputError, StorageError

SIZES, KINDS = (3, 2, 4), ("quadratic", "linear", "quadratic")
N_ENTRIES = 6 + 2 + 10


def integer_data(dtype: Any, largest: int, n: int = 40, seed: int = 0) -> tuple[Blocks, np.ndarray]:
    """Return blocks of integers of a type, up to a magnitude, and integer targets of two outputs."""
    rng = np.random.default_rng(seed)
    low = 0 if np.dtype(dtype).kind == "u" else -largest
    rows = rng.integers(low, largest + 1, (n, N_ENTRIES)).astype(dtype)
    return Blocks(rows, SIZES, KINDS, omega=(1.0, 2.0, 0.5)), rng.integers(-9, 10, (n, 2))


def integer_sums(statistics: SufficientStatistics) -> list[list[int]]:
    """Return the sums as Python integers: both parts of a sum are integers if it is."""
    sums = statistics._sums
    sums.fold()
    total: Any = 0
    for part in (sums.high, sums.low):
        if part is not None:
            triangle = np.tril(dtfttr(sums.side, part, uplo="L")[0])
            assert np.array_equal(triangle, np.rint(triangle))
            total = total + np.vectorize(int, otypes=[object])(triangle)
    return (total + np.tril(total, -1).T).tolist()


def direct_sums(blocks: Blocks, y: np.ndarray) -> list[list[int]]:
    table = np.hstack([np.rint(blocks.rows).astype(np.int64), y.astype(np.int64)]).astype(object)
    return (table.T @ table).tolist()


def float_sums(statistics: SufficientStatistics) -> np.ndarray:
    lower = np.tril(statistics._sums.triangle())
    return lower + np.tril(lower, -1).T


# -- the problem of the rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_problem_is_that_of_the_rows(seed: int, n_outputs: int, weighted: bool) -> None:
    n, rng = 40, np.random.default_rng(seed)
    weights = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0.1, 3.0, n)) if weighted else None
    drawn = random_problem(seed, n=n, n_outputs=n_outputs)
    problem = TrainingProblem(drawn.X, drawn.y, beta=drawn.beta, sample_weight=weights)
    statistics = SufficientStatistics().partial_fit(drawn.X, drawn.y, weights)
    reduced = TrainingProblem.from_statistics(statistics, beta=drawn.beta)
    assert reduced.blocks == problem.blocks == statistics.blocks_
    assert (reduced.n_samples, reduced.n_features, reduced.n_outputs) == (n, problem.n_features, n_outputs)
    assert (reduced.scalar, reduced.size, reduced.dimension) == (problem.scalar, problem.size, 1)
    assert statistics.total_weight_ == pytest.approx(n if weights is None else weights.sum(), rel=1e-15)
    for _ in range(5):
        network = _random_network(rng, problem, n_outputs)
        assert reduced.objective(network) == pytest.approx(problem.objective(network), rel=1e-12)
        assert reduced.outputs(network).shape == reduced.targets.shape
    assert qsdp.beta_max(reduced) == pytest.approx(qsdp.beta_max(problem), rel=1e-9)
    one, other = qsdp.solve_relaxation(problem), qsdp.solve_relaxation(reduced)
    assert other.lower_bound == pytest.approx(one.lower_bound, rel=2e-6)
    assert other.objective == pytest.approx(one.objective, rel=2e-6)
    assert other.lower_bound <= enumerated_optimum(problem) * (1.0 + 1e-6)


def _random_network(rng: np.random.Generator, problem: TrainingProblem, n_outputs: int) -> qsdp.BilinearNetwork:
    layout, m = problem.blocks, 7
    U, V = (rng.choice([-1, 1], (m, layout.side)) for _ in range(2))
    alpha = rng.standard_normal((m, n_outputs) if n_outputs > 1 else m)
    return qsdp.BilinearNetwork.on_blocks(layout, U, V, alpha, rng.integers(0, layout.n_blocks, m))


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_networks_from_statistics_are_proven_optimal_for_the_rows(n_outputs: int) -> None:
    problem = random_problem(5, n=40, n_outputs=n_outputs)
    statistics = SufficientStatistics().partial_fit(problem.X, problem.y)
    result = qsdp.column_generation(TrainingProblem.from_statistics(statistics, beta=problem.beta), tol=1e-8)
    assert result.status == "optimal"
    assert problem.objective(result.network) == pytest.approx(result.objective, rel=1e-10)
    assert result.lower_bound <= problem.objective(result.network)
    assert result.lower_bound == pytest.approx(enumerated_optimum(problem), rel=1e-6)
    reduced = TrainingProblem.from_statistics(statistics, beta=problem.beta)
    certificate = qsdp.certify(result.network, reduced, bound_type="exact")
    assert certificate.objective == pytest.approx(result.objective, rel=1e-10)
    assert certificate.lower_bound <= result.objective


def test_singular_sums_are_ordinary() -> None:
    # Every block of a sample holds the same constant, and two columns are equal.
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, N_ENTRIES))
    rows[:, [0, 6, 8]] = 1.0
    rows[:, 10] = rows[:, 3]
    blocks, y = Blocks(rows, SIZES, KINDS), rng.standard_normal(200)
    reduced = TrainingProblem.from_statistics(SufficientStatistics().partial_fit(blocks, y), beta=3.0)
    assert reduced.map.n_rows == N_ENTRIES + 1 - 3
    problem = TrainingProblem(blocks, y, beta=3.0)
    network = _random_network(rng, problem, 1)
    assert reduced.objective(network) == pytest.approx(problem.objective(network), rel=1e-12)


def test_blocks_of_statistics_refuse_what_blocks_refuse() -> None:
    blocks, y = integer_data(np.int16, 9)
    statistics = SufficientStatistics().partial_fit(blocks, y)
    for arguments in ({"levels": 4}, {"activation": "quadratic"}):
        with pytest.raises(InvalidInputError, match="levels must be 2 and activation None for blocks"):
            TrainingProblem.from_statistics(statistics, beta=1.0, **arguments)
    with pytest.raises(InvalidInputError, match="needs the rows"):
        TrainingProblem.from_statistics(statistics, beta=1.0, loss="absolute")
    with pytest.raises(InvalidInputError, match="needs the rows of the data"):
        _ = TrainingProblem.from_statistics(statistics, beta=1.0).X


def test_kept_rows_are_blocks() -> None:
    blocks, y = integer_data(np.uint8, 255, n=100)
    statistics = SufficientStatistics(keep=30).partial_fit(blocks[:50], y[:50]).partial_fit(blocks[50:], y[50:])
    kept = statistics.sample_problem(beta=1.0)
    assert (kept.n_samples, kept.blocks) == (30, blocks.layout)
    assert kept.sample_weight.sum() == pytest.approx(100.0)
    rows = {tuple(row) for row in np.hstack([blocks.rows, y]).tolist()}
    assert {tuple(row) for row in np.hstack([kept.X.rows, kept.y]).tolist()} < rows


# -- divisions ------------------------------------------------------------------------------------------------


@st.composite
def trees(draw: Any, n: int = 40) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Return numbers of rows divided among batches, which are merged in pairs until one is left."""
    order = draw(st.permutations(range(n)))
    cuts = sorted(draw(st.lists(st.integers(1, n - 1), max_size=7, unique=True)))
    parts = [list(order[a:b]) for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
    return parts, [draw(st.tuples(st.integers(0, k), st.integers(0, k - 1))) for k in range(len(parts) - 1, 0, -1)]


def merged(tree: Any, blocks: Blocks, y: np.ndarray, weights: np.ndarray | None = None) -> SufficientStatistics:
    parts, merges = tree
    pieces = [
        SufficientStatistics().partial_fit(blocks[part], y[part], None if weights is None else weights[part])
        for part in parts
    ]
    for first, second in merges:
        piece = pieces.pop(first)
        pieces[second] = piece.merge(pieces[second])
    return pieces[0]


INTEGERS = [(np.uint8, 255), (np.int16, 2**15 - 1), (np.uint16, 2**16 - 1), (np.int32, 2**24), (np.float32, 2**22)]


@pytest.mark.parametrize(("dtype", "largest"), INTEGERS, ids=lambda value: str(value))
@settings(max_examples=15, deadline=None)
@given(trees(), st.integers(0, 3))
def test_sums_of_integers_are_exact_for_any_division_order_and_merge_tree(dtype, largest, tree, seed):
    blocks, y = integer_data(dtype, largest, seed=seed)
    found = merged(tree, blocks, y)
    assert integer_sums(found) == direct_sums(blocks, y)
    once = SufficientStatistics().partial_fit(blocks, y)
    problems = [TrainingProblem.from_statistics(one, beta=1.0) for one in (found, once)]
    assert problems[0] == problems[1]


@settings(max_examples=25, deadline=None)
@given(trees(), st.booleans(), st.sampled_from([np.float32, np.float64]), st.sampled_from([1e-8, 1.0, 1e8]))
def test_sums_of_floats_are_those_of_all_rows(tree, weighted, dtype, scale):
    rng = np.random.default_rng(0)
    rows = (scale * rng.standard_normal((40, N_ENTRIES))).astype(dtype)
    blocks, y = Blocks(rows, SIZES, KINDS), rng.standard_normal((40, 2))
    weights = rng.uniform(0.5, 2.0, 40) if weighted else None
    table = np.hstack([rows, y], dtype=np.longdouble)
    expected = table.T @ (table if weights is None else weights[:, None] * table)
    found = float_sums(merged(tree, blocks, y, weights))
    sizes = np.sqrt(np.diag(expected)).astype(float)
    assert np.abs((found - expected) / np.outer(sizes, sizes)).max() <= 1e-14


def test_integers_of_many_rows_stay_exact_beyond_64_bits() -> None:
    blocks, y = integer_data(np.int32, 2**24)
    statistics = SufficientStatistics().partial_fit(blocks, y)
    for _ in range(30):
        statistics.merge(copy.deepcopy(statistics))
    found, once = integer_sums(statistics), direct_sums(blocks, y)
    assert max(map(max, found)) > 2**70
    assert found == [[2**30 * entry for entry in row] for row in once]


def test_integers_too_large_for_exact_products_are_summed_as_floats() -> None:
    blocks, y = integer_data(np.uint32, 2**32 - 1)
    found = float_sums(SufficientStatistics().partial_fit(blocks, y))
    np.testing.assert_allclose(found, np.array(direct_sums(blocks, y), dtype=float), rtol=1e-14)


def test_sums_of_many_rows_are_exact_in_chunks() -> None:
    # Two magnitudes, so that one batch may hold more rows of exact sums than the other.
    small, y = integer_data(np.uint8, 255, n=20_000)
    large, z = integer_data(np.int32, 2**24, n=3000)
    statistics = SufficientStatistics().partial_fit(small, y).partial_fit(large, z).partial_fit(small, y)
    expected = 2 * np.array(direct_sums(small, y)) + np.array(direct_sums(large, z))
    assert integer_sums(statistics) == expected.tolist()


@needs_torch
def test_a_device_has_the_same_sums_of_integers() -> None:
    blocks, y = integer_data(np.uint8, 255, n=500)
    assert integer_sums(SufficientStatistics(device=DEVICE).partial_fit(blocks, y)) == direct_sums(blocks, y)


# -- memory, streams and files --------------------------------------------------------------------------------


def test_memory_maps_are_not_copied_whole(tmp_path: Path) -> None:
    n, sizes = 20_000, [10] * 16
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", dtype=np.float32, shape=(n, 880))
    rows[::7] = 1.0
    rows.flush()
    blocks, y = Blocks(np.load(tmp_path / "rows.npy", mmap_mode="r"), sizes), np.eye(10)[np.arange(n) % 10]
    tracemalloc.start()
    try:
        SufficientStatistics().partial_fit(blocks, y, np.arange(n) % 3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # In single precision the map has 70 MB, and in double precision 141.
    assert peak < 68e6


def test_file_holds_all(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    blocks, y = random_blocks(rng, 60), rng.standard_normal((60, 2))
    statistics = SufficientStatistics(keep=10).partial_fit(blocks[:30], y[:30]).partial_fit(blocks[30:], y[30:])
    statistics.save(tmp_path / "statistics")
    loaded = SufficientStatistics.load(tmp_path / "statistics")
    assert (loaded.blocks_, loaded.total_weight_) == (statistics.blocks_, 60.0)
    assert repr(loaded) == repr(statistics)
    assert repr(loaded).startswith(f"SufficientStatistics(60 rows, {blocks.n_blocks} blocks of ")
    assert loaded.sample_problem(beta=1.0) == statistics.sample_problem(beta=1.0)
    problems = [TrainingProblem.from_statistics(s.partial_fit(blocks, y), beta=1.0) for s in (statistics, loaded)]
    assert problems[0] == problems[1]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_damaged_files_are_refused(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged statistics"
    blocks, y = integer_data(np.uint8, 255)
    SufficientStatistics(keep=3).partial_fit(blocks, y).save(path)
    whole = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        whole[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del whole[place:]
    path.write_bytes(whole)
    with pytest.raises(StorageError):
        SufficientStatistics.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": [3, 2, 3]},
        {"sizes": [3, 2, 2**70]},
        {"sizes": [0, 2, 4]},
        {"sizes": 9},
        {"kinds": ["quadratic", "round", "quadratic"]},
        {"kinds": ["quadratic"]},
        {"omega": [1.0, 2.0, -0.5]},
        {"omega": None, "rows": 1},
    ],
    ids=str,
)
def test_files_with_other_blocks_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "statistics"
    blocks, y = integer_data(np.uint8, 255)
    SufficientStatistics().partial_fit(blocks, y).save(path)
    kind, header, arrays = read_archive(path)
    write_archive(path, kind, {**header, "blocks": {**header["blocks"], **change}}, arrays)
    with pytest.raises(StorageError, match="does not hold statistics"):
        SufficientStatistics.load(path)
    write_archive(path, kind, {**header, "blocks": None}, arrays)
    with pytest.raises(StorageError, match="does not hold statistics"):
        SufficientStatistics.load(path)
    write_archive(path, kind, header, {**arrays, "high": arrays["high"][:-1]})
    with pytest.raises(StorageError, match="do not fit together"):
        SufficientStatistics.load(path)


# -- one object, one kind of data -----------------------------------------------------------------------------


def _columns(n: int = 5) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(float(n * N_ENTRIES)).reshape(n, N_ENTRIES), np.zeros((n, 2))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (_columns(), r"must have blocks of sizes \(3, 2, 4\), as before; got columns"),
        ((Blocks(_columns()[0][:, :12], (3, 3)), _columns()[1]), r"of sizes \(3, 2, 4\), as before; got .* \(3, 3\)"),
        ((Blocks(_columns()[0], SIZES, KINDS), _columns()[1]), r"of omega \(1.0, 2.0, 0.5\), as before; got .*1.0\)"),
    ],
    ids=["columns", "sizes", "omega"],
)
def test_blocks_and_columns_are_not_mixed(other: Any, message: str) -> None:
    blocks, y = integer_data(np.uint8, 255)
    statistics = SufficientStatistics().partial_fit(blocks, y)
    before = integer_sums(statistics)
    with pytest.raises(InvalidInputError, match="X .*" + message):
        statistics.partial_fit(*other)
    with pytest.raises(InvalidInputError, match="other .*" + message):
        statistics.merge(SufficientStatistics().partial_fit(*other))
    assert (integer_sums(statistics), statistics.n_samples_seen_) == (before, 40)
    with pytest.raises(InvalidInputError, match="X must have"):
        SufficientStatistics().partial_fit(*other).partial_fit(blocks, y)


@pytest.mark.parametrize("size", [1e-158, 1e-161, 1e-165, 1e-310])
def test_files_of_columns_whose_squares_underflow_are_accepted(
    size: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    rows, y = rng.standard_normal((9, 6)), rng.standard_normal(9)
    rows[:, 1] *= size
    statistics = qsdp.SufficientStatistics().partial_fit(qsdp.Blocks(rows, [3]), y)
    problem = qsdp.TrainingProblem.from_statistics(statistics, beta=0.5)
    network = qsdp.BilinearNetwork([[1, 1, -1]], [[1, -1, 1]], [0.1], [0], sizes=[3])
    qsdp.certify(network, problem).save(tmp_path / "c")
    assert qsdp_check.main([str(tmp_path / "c")]) == 0, capsys.readouterr().out
