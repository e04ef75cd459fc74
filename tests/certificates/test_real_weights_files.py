"""Certificates of problems with real weights: bounds below the optimum, files that are checked, and forgeries."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_problems import LOSSES, enumerated_optimum, random_network, random_problem
from hypothesis import given, settings
from hypothesis import strategies as st

import qsdp
import qsdp_check
from qsdp.exceptions import InvalidInputError, StorageError


def network_for(problem: Any, seed: int = 0, scale: float = 0.02) -> qsdp.BilinearNetwork:
    C = None if problem.scalar else problem.n_outputs
    network = random_network(np.random.default_rng(seed), problem.blocks, 5, C)
    return network.with_neurons(network.U, network.V, scale * network.alpha, weights=scale * network.weights)


def answer(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = qsdp_check.main([str(path), *options])
    return code, capsys.readouterr().out


def contents_of(path: Path) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(path.read_bytes()[len(qsdp_check.MAGIC) + 65 :])) as archive:
        return dict(archive)


def rewritten(path: Path, arrays: dict[str, Any]) -> None:
    """Write a file with other contents and a right digest."""
    stream = io.BytesIO()
    np.savez(stream, **{name: array for name, array in arrays.items() if array is not None})
    body = stream.getvalue()
    path.write_bytes(qsdp_check.MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(LOSSES), st.integers(1, 2))
def test_bounds_are_below_the_optimum_over_all_neurons_and_weights(seed: int, loss: str, n_outputs: int) -> None:
    problem = random_problem(seed, loss, n_outputs=1 if loss == "cross_entropy" else n_outputs, real=True)
    optimum = enumerated_optimum(problem)
    relaxation = qsdp.solve_relaxation(problem)
    network = network_for(problem, seed)
    assert relaxation.lower_bound <= optimum * (1 + 1e-6)
    found = {kind: qsdp.certify(network, problem, relaxation, bound_type=kind) for kind in ("sdp", "exact")}
    for certificate in found.values():
        assert certificate.lower_bound <= optimum * (1 + 1e-6) <= certificate.objective * (1 + 1e-6)
    assert found["exact"].lower_bound >= found["sdp"].lower_bound * (1 - 1e-9)
    assert relaxation.objective <= found["sdp"].objective * (1 + 1e-6)


@pytest.mark.parametrize(("loss", "seed"), [*((loss, k % 2) for k, loss in enumerate(LOSSES)), ("squared", 1)])
def test_files_are_accepted_and_loaded(
    loss: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = np.random.default_rng(1).uniform(0.5, 3.0, 12) if seed == 1 else None
    C = 1 if loss == "cross_entropy" else 1 + seed % 2
    problem = random_problem(seed, loss, n_outputs=C, real=True, sample_weight=weights)
    network = network_for(problem)
    y = np.argmax(problem.y, axis=1) if loss == "cross_entropy" else problem.y
    data = {"X": problem.X.rows, "y": y} | ({} if weights is None else {"sample_weight": weights})
    np.savez(tmp_path / "data.npz", **data)
    for kind in ("sdp", "exact"):
        certificate = qsdp.certify(network, problem, bound_type=kind)
        for stored in (True, False, "sums") if loss == "squared" else (True, False):
            certificate.save(tmp_path / "c", include_data=stored)
            options = [()] if stored else []
            for arguments in (*options, ("--data", str(tmp_path / "data.npz"))):
                code, said = answer(tmp_path / "c", capsys, *arguments)
                assert code == 0, said
                assert f"real, of {problem.X.layout.n_weights} columns, at prices omega" in said
            loaded = qsdp.load_certificate(tmp_path / "c", problem)
            assert loaded.objective == certificate.objective
            assert loaded.lower_bound == pytest.approx(certificate.lower_bound, rel=1e-9)
            np.testing.assert_array_equal(loaded.proof.network.weights, network.weights)  # type: ignore[union-attr]
            if stored is True:
                assert qsdp.load_certificate(tmp_path / "c").proof.problem == problem  # type: ignore[union-attr]
    other = qsdp.Blocks(problem.X.rows, problem.X.sizes, problem.X.kinds)
    cheaper = qsdp.TrainingProblem(other, y, beta=problem.beta, loss=problem.loss, sample_weight=weights)
    with pytest.raises(StorageError, match="belongs to a different problem"):
        qsdp.load_certificate(tmp_path / "c", cheaper)


def test_weights_alone_have_certificates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 6)), rng.standard_normal(30)
    problem = qsdp.TrainingProblem(qsdp.Blocks(X, [6], ["weights"], [rng.uniform(0.5, 2.0, 6)]), y, beta=4.0)
    relaxation = qsdp.solve_relaxation(problem, tol=1e-10)
    none = np.zeros((0, 0), dtype=np.int8)
    network = qsdp.BilinearNetwork(none, none, np.zeros(0), [], [6], ["weights"], weights=relaxation.weights[:, 0])
    assert problem.objective(network) == pytest.approx(relaxation.objective, rel=1e-12)
    for kind in ("sdp", "exact"):
        certificate = qsdp.certify(network, problem, relaxation, bound_type=kind)
        assert certificate.relative_gap <= 1e-6
        for stored in (True, "sums"):
            certificate.save(tmp_path / "c", include_data=stored)
            code, said = answer(tmp_path / "c", capsys)
            assert code == 0, said
        assert qsdp.load_certificate(tmp_path / "c", problem).objective == certificate.objective


def test_statistics_have_certificates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = random_problem(4, n=40, n_outputs=2, real=True)
    statistics = qsdp.SufficientStatistics()
    for rows in (slice(25), slice(25, 40)):
        statistics.partial_fit(problem.X[rows], problem.y[rows])
    statistics.save(tmp_path / "statistics")
    loaded = qsdp.SufficientStatistics.load(tmp_path / "statistics")
    assert loaded.blocks_ == problem.X.layout
    reduced = qsdp.TrainingProblem.from_statistics(loaded, beta=problem.beta)
    network = network_for(problem)
    assert reduced.objective(network) == pytest.approx(problem.objective(network), rel=1e-10)
    relaxation, expected = qsdp.solve_relaxation(reduced), qsdp.solve_relaxation(problem)
    assert relaxation.objective == pytest.approx(expected.objective, rel=1e-5)
    certificate = qsdp.certify(network, reduced, relaxation)
    assert certificate.lower_bound == pytest.approx(expected.lower_bound, rel=1e-5)
    certificate.save(tmp_path / "c")
    code, said = answer(tmp_path / "c", capsys)
    assert code == 0, said
    assert qsdp.load_certificate(tmp_path / "c") == certificate


def test_a_price_too_low_is_found_infeasible() -> None:
    # One column determines everything, at a price so low that only its weight bounds the dual vector.
    rng = np.random.default_rng(0)
    rows = np.hstack([1e-3 * rng.standard_normal((12, 3)), rng.standard_normal((12, 1))])
    problem = qsdp.TrainingProblem(
        qsdp.Blocks(rows, [2, 1], ["quadratic", "weights"], [1.0, 1e-3]), rows[:, 3], beta=0.1
    )
    relaxation = qsdp.solve_relaxation(problem, tol=1e-9)
    assert relaxation.weights[0, 0] == pytest.approx(1.0, abs=1e-3)
    assert relaxation.lower_bound <= 0.1 * 1e-3 <= relaxation.lower_bound * (1 + 1e-3)


@pytest.fixture(scope="module", params=["rows", "sums"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """Return the fields of a valid certificate, of rows or of sums."""
    problem = random_problem(7, n=20, n_outputs=2, real=True)
    path = tmp_path_factory.mktemp("valid") / "c"
    certificate = qsdp.certify(network_for(problem), problem, bound_type="exact")
    certificate.save(path, include_data=True if request.param == "rows" else "sums")
    return contents_of(path)


def shorter_prices(f: dict[str, Any]) -> None:
    f["weight_omega"] = f["weight_omega"][:-1]


def one_price(f: dict[str, Any]) -> None:
    f["weight_omega"] = f["weight_omega"][:1]


def negative_price(f: dict[str, Any]) -> None:
    f["weight_omega"] = -f["weight_omega"]


def zero_price(f: dict[str, Any]) -> None:
    f["weight_omega"] = 0.0 * f["weight_omega"]


def infinite_price(f: dict[str, Any]) -> None:
    """Make the dual constraint of a column void."""
    f["weight_omega"] = np.where(np.arange(len(f["weight_omega"])) == 0, np.inf, f["weight_omega"])


def no_price(f: dict[str, Any]) -> None:
    f["weight_omega"] = np.nan * f["weight_omega"]


def lower_prices(f: dict[str, Any]) -> None:
    f["weight_omega"] = 0.5 * f["weight_omega"]


def prices_of_single_precision(f: dict[str, Any]) -> None:
    f["weight_omega"] = f["weight_omega"].astype(np.float32)


def fewer_weights(f: dict[str, Any]) -> None:
    f["weights"] = f["weights"][:-1]


def weights_of_one_output(f: dict[str, Any]) -> None:
    f["weights"] = f["weights"][:, 0]


def other_weights(f: dict[str, Any]) -> None:
    f["weights"] = 1.1 * f["weights"]


def no_weights(f: dict[str, Any]) -> None:
    f["weights"] = np.nan * f["weights"]


def without_weights(f: dict[str, Any]) -> None:
    f["weights"] = None


def without_constraints(f: dict[str, Any]) -> None:
    """Leave out that there are columns with weights."""
    f["weights"] = f["weight_omega"] = f["weight_blocks"] = None


def no_columns(f: dict[str, Any]) -> None:
    f["weight_blocks"], f["weight_omega"] = f["weight_blocks"][:0], f["weight_omega"][:0]


def fewer_columns(f: dict[str, Any]) -> None:
    f["weight_blocks"] = f["weight_blocks"] - np.array([0, 1])


def more_columns(f: dict[str, Any]) -> None:
    f["weight_blocks"] = f["weight_blocks"] + np.array([0, 2**40])


def negative_position(f: dict[str, Any]) -> None:
    f["weight_blocks"] = f["weight_blocks"] - np.array([10, 0])


def far_position(f: dict[str, Any]) -> None:
    f["weight_blocks"] = f["weight_blocks"] + np.array([10, 0])


def pairs_of_three(f: dict[str, Any]) -> None:
    f["weight_blocks"] = np.ones((len(f["weight_blocks"]), 3), dtype=np.int64)


def positions_of_floats(f: dict[str, Any]) -> None:
    f["weight_blocks"] = f["weight_blocks"].astype(float)


def larger_dual(f: dict[str, Any]) -> None:
    name = "nu" if "nu" in f else "scores"
    f[name] = f[name] * (1.5 if name == "nu" else 0.0)
    f["lower_bound"] = f["lower_bound"] * 1.2


def raised(f: dict[str, Any]) -> None:
    f["lower_bound"] = f["lower_bound"] * (1 + 1e-7)


def lowered(f: dict[str, Any]) -> None:
    f["objective"] = f["objective"] * (1 - 1e-7)


FORGERIES: list[Callable[[dict[str, Any]], None]] = [
    shorter_prices, one_price, negative_price, zero_price, infinite_price, no_price, lower_prices,
    prices_of_single_precision, fewer_weights, weights_of_one_output, other_weights, no_weights, without_weights,
    without_constraints, no_columns, fewer_columns, more_columns, negative_position, far_position, pairs_of_three,
    positions_of_floats, larger_dual, raised, lowered,
]  # fmt: skip


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_forgeries_are_refused(
    forge: Callable[[dict[str, Any]], None],
    saved: dict[str, np.ndarray],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fields: dict[str, Any] = dict(saved)
    fields["lower_bound"] = np.array(qsdp_check.check(fields)[1])
    rewritten(tmp_path / "c", fields)
    code, said = answer(tmp_path / "c", capsys)
    assert code == 0, said
    forge(fields)
    rewritten(tmp_path / "c", fields)
    code, said = answer(tmp_path / "c", capsys)
    assert code == 1, said
    assert "malformed" not in said


def test_sums_of_infinite_numbers_are_refused_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = random_problem(7, n=20, n_outputs=2, real=True)
    qsdp.certify(network_for(problem), problem).save(tmp_path / "c", include_data="sums")
    fields = contents_of(tmp_path / "c")
    fields["weights"] = np.full_like(fields["weights"], 1e300)
    rewritten(tmp_path / "c", fields)
    assert answer(tmp_path / "c", capsys) == (1, "no: objective: the numbers are too large\n")


BLOCKS_OF_ONE = {"weights": np.zeros((1, 2)), "weight_omega": np.ones(1), "weight_blocks": np.array([[0, 1]])}
EMPTY = {"weights": np.zeros((0, 2)), "weight_omega": np.ones(0), "weight_blocks": np.zeros((0, 2), dtype=int)}


@pytest.mark.parametrize("added", [EMPTY, *({name: array} for name, array in BLOCKS_OF_ONE.items())])
def test_fields_of_weights_without_columns_are_refused(
    added: dict[str, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = random_problem(7, n=20, n_outputs=2)
    network = random_network(np.random.default_rng(0), problem.blocks, 5, 2)
    qsdp.certify(network, problem).save(tmp_path / "c")
    rewritten(tmp_path / "c", contents_of(tmp_path / "c") | added)
    assert answer(tmp_path / "c", capsys)[0] == 1
    with pytest.raises(StorageError, match="not all that real weights of columns need"):
        qsdp.load_certificate(tmp_path / "c")


def test_columns_of_data_have_no_fields_of_weights(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    problem = qsdp.TrainingProblem(X, X[:, 0], beta=1.0)
    qsdp.certify(qsdp.BilinearNetwork([[1, 1, 1]], [[1, 1, -1]], [0.1]), problem).save(tmp_path / "c")
    rewritten(tmp_path / "c", contents_of(tmp_path / "c") | BLOCKS_OF_ONE)
    with pytest.raises(StorageError, match="not all that real weights of columns need"):
        qsdp.load_certificate(tmp_path / "c")


@pytest.mark.parametrize("position", [-1, 2**40, -(2**62)])
def test_blocks_of_weights_at_other_positions_are_not_loaded(position: int, tmp_path: Path) -> None:
    problem = random_problem(7, n=20, n_outputs=2, real=True)
    qsdp.certify(network_for(problem), problem).save(tmp_path / "c")
    fields = contents_of(tmp_path / "c")
    fields["weight_blocks"][0, 0] = position
    rewritten(tmp_path / "c", fields)
    with pytest.raises(StorageError, match="not in blocks at ascending positions"):
        qsdp.load_certificate(tmp_path / "c")


def test_networks_of_other_blocks_are_refused() -> None:
    problem = random_problem(3, real=True)
    with pytest.raises(InvalidInputError, match="network must be on blocks of sizes"):
        qsdp.certify(network_for(random_problem(5, real=True)), problem)


@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_said_of_centred_rows(weighted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) + 2.0
    y = 10.0 + X[:, 0] + X[:, 1] * X[:, 2]
    weights = rng.uniform(0.5, 2.0, 60) if weighted else None
    model = qsdp.QuantizedNetworkRegressor(encoding="additive", beta="20%", random_state=0).fit(X, y, weights)
    problem, network = model.result_.problem, model.network_
    rows, targets = problem.X.rows, problem.y
    # The intercept is free: both are centred.
    assert np.abs(np.average(rows, axis=0, weights=weights)).max() < 1e-12
    assert abs(np.average(targets, weights=weights)) < 1e-12
    used = {} if weights is None else {"sample_weight": problem.sample_weight}
    centred, stated = "all columns centred", "how they were made of samples is stated, not checked"
    moved = rows + 1e-6 * np.eye(rows.shape[1])[-1]
    for name, (of_rows, of_targets), expected in (
        ("centred", (rows, targets), True),
        ("other rows", (moved, targets), False),
        ("other targets", (rows, targets + 1e-6), False),
    ):
        blocks = qsdp.Blocks(of_rows, problem.X.sizes, problem.X.kinds, problem.X.omega)
        other = qsdp.TrainingProblem(blocks, of_targets, beta=problem.beta, **used)
        qsdp.certify(network, other).save(tmp_path / "c")
        np.savez(tmp_path / "data.npz", X=of_rows, y=of_targets, **used)
        for options in ([], ["--data", str(tmp_path / "data.npz")]):
            assert qsdp_check.main([str(tmp_path / "c"), *options]) == 0, name
            said = capsys.readouterr().out
            assert (centred in said) == expected, name
            # Of other data, the user knows how they were made.
            assert (stated in said) == (not options), name
