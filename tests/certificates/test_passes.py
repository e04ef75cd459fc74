"""Certificates over batches: valid for all rows, whatever the few rows and the division."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brute_force import global_optimum, random_problem, random_vector_problem

import qsdp
import qsdp_check
from qsdp import BilinearNetwork, Relaxation, TrainingProblem, certify, certify_stream
from qsdp._utils import deadline
from qsdp.certificates.row_sums import RowsProof
from qsdp.exceptions import InvalidInputError, InvalidTypeError
from qsdp.losses import LOSSES, Logistic, Loss
from qsdp.statistics import row_batches

Batches = list[tuple[Any, ...]]


def case(loss: str, seed: int = 0, n: int = 60, **options: Any) -> tuple[TrainingProblem, Relaxation, BilinearNetwork]:
    """Return a problem, the relaxation of a third of its rows at the same beta a row, and a network of it."""
    if options.pop("vector", loss == "cross_entropy"):
        full = random_vector_problem(seed, 3, n, 2, loss, beta=2.0, **options)
    else:
        full = random_problem(seed, 3, n, loss, beta=2.0, **options)
    few = full.take(np.arange(n // 3)).with_beta(full.beta / 3)
    relaxation = qsdp.solve_relaxation(few)
    return full, relaxation, qsdp.sample_network(qsdp.shape_covariance(relaxation), 20, random_state=0)


def batches_of(problem: TrainingProblem, rows: int = 17) -> Batches:
    return list(row_batches(problem.X, problem.y, problem.sample_weight, rows=rows))


def checked(certificate: qsdp.Certificate, problem: TrainingProblem, folder: Path) -> int:
    """Return the verdict of the stand-alone check."""
    weights = {} if problem.sample_weight is None else {"sample_weight": problem.sample_weight}
    np.savez(folder / "rows.npz", X=problem.X, y=problem.y, **weights)
    certificate.save(folder / "certificate")
    return qsdp_check.main([str(folder / "certificate"), "--data", str(folder / "rows.npz")])


@pytest.mark.parametrize(
    ("loss", "options"),
    [*((loss, {}) for loss in LOSSES), ("squared", {"activation": "relu_like", "levels": 3})],
    ids=str,
)
def test_bounds_hold_for_all_rows(loss: str, options: dict[str, Any], tmp_path: Path) -> None:
    full, relaxation, network = case(loss, **options)
    optimum = global_optimum(full)
    for passes in (1, 3):
        certificate = certify_stream(network, batches_of(full), relaxation, passes=passes)
        assert certificate.objective == pytest.approx(full.objective(network), rel=1e-12)
        assert certificate.bound_type == "sdp"
        assert 0.0 < certificate.lower_bound <= optimum.upper * (1.0 + 1e-12)
        assert isinstance(certificate.proof, RowsProof)
        assert certificate.z is not None
        assert certificate.z.shape == (*full.output_shape, full.size)
        assert certificate.proof.beta == pytest.approx(full.beta)
        assert checked(certificate, full, tmp_path) == 0
        assert qsdp.load_certificate(tmp_path / "certificate") == certificate


def test_outputs_and_weights(tmp_path: Path) -> None:
    for loss in ("huber", "cross_entropy"):
        plain, _, network = case(loss, vector=True)
        w = np.random.default_rng(0).integers(0, 4, plain.n_samples) * 0.5
        full = TrainingProblem(plain.X, plain.y, beta=plain.beta, loss=loss, sample_weight=w)
        few = qsdp.solve_relaxation(full.take(np.arange(20)))
        batches = [(plain.X[:9], plain.y[:9], w[:9]), (plain.X[9:], plain.y[9:], w[9:])]
        certificate = certify_stream(network, batches, few, beta=full.beta, passes=2)
        assert certificate.objective == pytest.approx(full.objective(network), rel=1e-12)
        assert 0.0 < certificate.lower_bound <= global_optimum(full).upper
        assert checked(certificate, full, tmp_path) == 0


def test_classes_may_lack_in_batches() -> None:
    full, relaxation, network = case("cross_entropy")
    order = np.argsort(full.y[:, 0])
    sorted_rows = [(full.X[order[k : k + 10]], full.y.argmax(axis=1)[order[k : k + 10]]) for k in range(0, 60, 10)]
    certificate = certify_stream(network, sorted_rows, relaxation)
    assert certificate.objective == pytest.approx(full.objective(network), rel=1e-12)


def test_division_does_not_matter() -> None:
    full, relaxation, network = case("logistic")
    certificates = [certify_stream(network, batches_of(full, rows), relaxation, passes=2) for rows in (60, 7, 1)]
    for one in certificates[1:]:
        assert one.lower_bound == pytest.approx(certificates[0].lower_bound, rel=1e-6)
        assert one.proof.digest == certificates[0].proof.digest


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_passes_close_the_gap(loss: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10000, 5))
    f = X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]
    y = np.where(f + rng.logistic(size=len(X)) > 0, 1.0, -1.0)
    few = TrainingProblem(X[:1000], y[:1000], beta=20.0, loss=loss)
    relaxation = qsdp.solve_relaxation(few, tol=1e-3)
    network = qsdp.sample_network(qsdp.shape_covariance(relaxation), 300, random_state=0)
    batches = list(row_batches(X, y, rows=3000))
    gaps = [certify_stream(network, batches, relaxation, passes=passes).relative_gap for passes in (1, 2, 4)]
    whole = qsdp.solve_relaxation(TrainingProblem(X, y, beta=200.0, loss=loss), tol=1e-3)
    best = certify(network, whole.problem, whole).relative_gap
    assert gaps[0] > gaps[1] > gaps[2] >= best - 1e-3
    assert gaps[2] - best < 0.2 * (gaps[0] - best)


class Bare(Logistic):
    """A smooth loss from outside, which defines no curvature."""

    name = "bare"
    curvature = Loss.curvature


def test_passes_need_no_curvature() -> None:
    full, relaxation, network = case("logistic")
    few = full.take(np.arange(20)).with_beta(full.beta / 3)
    bare = TrainingProblem(few.X, few.y, beta=few.beta, loss=Bare())
    own = qsdp.solve_relaxation(bare, solver="splitting", tol=1e-2)
    bounds = [certify_stream(network, batches_of(full), one, passes=3).lower_bound for one in (relaxation, own)]
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-2)


def test_the_same_rows_are_asked_for() -> None:
    full, relaxation, network = case("squared")
    streams = iter([batches_of(full), batches_of(full)[::-1]])
    with pytest.raises(InvalidInputError, match="the same rows in every pass"):
        certify_stream(network, lambda: next(streams), relaxation, passes=2)
    stream = (batch for batch in batches_of(full))
    for source in (stream, lambda: stream):
        with pytest.raises(InvalidInputError, match=r"readable more than once for passes=2: give a list, .*generator"):
            certify_stream(network, source, relaxation, passes=2)


def test_a_source_is_opened_once_a_pass() -> None:
    full, relaxation, network = case("squared")
    opened = []

    class Source:
        def __iter__(self) -> Iterator[tuple[Any, ...]]:
            opened.append(self)
            return iter(batches_of(full))

    certify_stream(network, Source(), relaxation, passes=2)
    assert len(opened) == 2


def altered(change: Callable[[np.ndarray, np.ndarray], tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    full, _, _ = case("logistic")
    yield full.X[:20], full.y[:20]
    yield change(full.X[20:].copy(), full.y[20:].copy())


def test_bad_batches_are_named() -> None:
    full, relaxation, network = case("logistic")

    def missing(X: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
        X[3, 1] = np.nan
        return X, y

    cases = [
        (missing, "batch 1, which begins at row 20: X must be finite; NaN or infinity in row 3"),
        (lambda X, y: (X[:, :2], y), "batch 1, .*X must have 3 columns"),
        (lambda X, y: (X, 2 * y), "batch 1, .*labels -1 and \\+1 only for the logistic"),
        (lambda X, y: (X, np.stack([y, y], 1)), "batch 1, .*y must have shape \\(n,\\)"),
        (lambda X, y: (X, y, -np.ones(len(y))), "batch 1, .*sample_weight must be >= 0"),
        (lambda X, y: (X.astype(str), y), "batch 1, .*X must"),
    ]
    for change, message in cases:
        with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
            certify_stream(network, altered(change), relaxation)
    with pytest.raises(InvalidTypeError, match="batch 0 must be a tuple"):
        certify_stream(network, [full.X], relaxation)
    with pytest.raises(InvalidInputError, match="an empty stream"):
        certify_stream(network, [], relaxation)
    classes, few, other = case("cross_entropy")
    with pytest.raises(InvalidInputError, match=r"batch 0, .*class numbers 0 \.\. 1"):
        certify_stream(other, [(classes.X, np.full(60, 2.0))], few)


def test_batches_without_weight_or_rows_change_nothing() -> None:
    full, relaxation, network = case("logistic")
    batches = [(X, y, np.ones(len(y))) for X, y in batches_of(full)]
    more = [(full.X[:0], full.y[:0], full.y[:0]), (full.X[:5], full.y[:5], np.zeros(5))]
    found = certify_stream(network, [*more, *batches[:2], *more, *batches[2:], *more], relaxation, passes=2)
    assert found == certify_stream(network, batches, relaxation, passes=2)
    with pytest.raises(InvalidInputError, match="at least one row of positive weight; got none"):
        certify_stream(network, more, relaxation)
    with pytest.raises(InvalidInputError, match=r"batch 0.*: y must have no rows"):
        certify_stream(network, [(full.X[:0], full.y), *batches], relaxation)


def test_arguments_are_checked() -> None:
    full, relaxation, network = case("squared")
    with pytest.raises(InvalidTypeError, match=r"relaxation must be a Relaxation of some of the rows; got NoneType"):
        certify_stream(network, batches_of(full), None)
    for wrong in (3, "rows.csv", full.X, lambda: None):
        with pytest.raises(InvalidTypeError, match=r"batches must be an iterable of .*, a function that returns one"):
            certify_stream(network, wrong, relaxation)
    with pytest.raises(InvalidInputError, match="passes must be an integer >= 1; got 0"):
        certify_stream(network, batches_of(full), relaxation, passes=0)
    with pytest.raises(InvalidInputError, match=r"beta must be .*; got 0"):
        certify_stream(network, batches_of(full), relaxation, beta=0.0)
    statistics = qsdp.SufficientStatistics().partial_fit(full.X, full.y)
    for other, name in ((batches_of(full), "list"), (statistics, "SufficientStatistics")):
        with pytest.raises(
            InvalidTypeError, match=rf"problem must be a TrainingProblem; got {name}\. .*certify_stream"
        ):
            certify(network, other)


def test_a_certificate_of_other_rows_or_claims_is_denied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full, relaxation, network = case("logistic")
    certificate = certify_stream(network, batches_of(full), relaxation, passes=2)
    other = TrainingProblem(full.X, -full.y, beta=full.beta, loss="logistic")
    assert checked(certificate, other, tmp_path) == 1
    assert "the certificate does not belong to" in capsys.readouterr().out
    assert checked(replace(certificate, lower_bound=1.5 * certificate.lower_bound), full, tmp_path) == 1
    assert "is proven, not" in capsys.readouterr().out
    proof = certificate.proof
    assert isinstance(proof, RowsProof)
    forged = replace(proof, mixture=0.0 * proof.mixture)
    assert checked(replace(certificate, proof=forged), full, tmp_path) == 1
    assert qsdp_check.main([str(tmp_path / "certificate")]) == 1


def test_time_ends_passes() -> None:
    full, relaxation, network = case("squared")
    with deadline.after(1e-3):
        certificate = certify_stream(network, batches_of(full), relaxation, passes=50)
    assert isinstance(certificate.proof, RowsProof)
    assert len(certificate.proof.scores) < 50
