"""Bounds from sums and statistics hold for the rows, also where these differ by 1e10: against exact rational optima."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import qsdp
import qsdp_check
from qsdp.certificates import certify, load_certificate
from qsdp.certificates.sums import Sums
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.relaxation.bounds import best_dual_bound

SIZES = (1e1, 1e3, 1e5, 1e10)


def exact(values: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(v)) for v in row] for row in np.asarray(values).reshape(len(values), -1)]


def rows_of(seed: int, size: float, outputs: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of three columns of which a third is `size` times as large, targets near a network, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((9, 3)) * np.where(np.arange(9) < 3, size, 1.0)[:, None]
    y = X @ rng.standard_normal((3, outputs)) + 0.3 * rng.standard_normal((9, outputs))
    return X, y, rng.uniform(0.5, 2.0, 9)


def solved(A: list[list[Fraction]], b: list[Fraction]) -> list[Fraction]:
    """Solve a small system by elimination."""
    M = [[*row, value] for row, value in zip(A, b, strict=True)]
    for k in range(len(M)):
        pivot = next(i for i in range(k, len(M)) if M[i][k])
        M[k], M[pivot] = M[pivot], M[k]
        for i in range(len(M)):
            if i != k:
                M[i] = [a - M[i][k] / M[k][k] * c for a, c in zip(M[i], M[k], strict=True)]
    return [row[-1] / row[k] for k, row in enumerate(M)]


def exact_optimum(X: np.ndarray, y: np.ndarray, w: np.ndarray, beta: float) -> Fraction:
    """Return the optimum of blocks of one entry each: that of a lasso, by all patterns of signs, in rationals.

    Every pattern gives a point, whose objective is no smaller than the optimum, and one of them gives the optimum.
    """
    rows, targets, weights = exact(X), exact(y), [Fraction(float(v)) for v in w]
    columns, penalty = len(rows[0]), Fraction(beta)
    total = Fraction(0)
    for k in range(len(targets[0])):
        own = [row[k] for row in targets]
        values = []
        for pattern in product((-1, 0, 1), repeat=columns):
            used = [j for j in range(columns) if pattern[j]]
            gram = [[sum(v * r[i] * r[j] for v, r in zip(weights, rows, strict=True)) for j in used] for i in used]
            h = [sum(v * r[i] * t for v, r, t in zip(weights, rows, own, strict=True)) for i in used]
            s = solved(gram, [b - penalty * pattern[j] / 2 for b, j in zip(h, used, strict=True)])
            rest = [t - sum(r[j] * a for j, a in zip(used, s, strict=True)) for r, t in zip(rows, own, strict=True)]
            loss = sum(v * t * t for v, t in zip(weights, rest, strict=True))
            values.append(loss + penalty * sum(abs(a) for a in s))
        total += min(values)
    return total


def problem_of(
    seed: int, size: float, outputs: int = 1, beta: float = 0.1
) -> tuple[qsdp.TrainingProblem, Fraction, qsdp.SufficientStatistics]:
    X, y, w = rows_of(seed, size, outputs)
    blocks = qsdp.Blocks(X, [1, 1, 1], ["linear", "quadratic", "linear"])
    problem = qsdp.TrainingProblem(blocks, y, beta=beta, sample_weight=w)
    statistics = qsdp.SufficientStatistics()
    for some in (slice(5), slice(5, 9)):
        statistics.partial_fit(blocks[some], y[some], w[some])
    return problem, exact_optimum(X, y, w, beta), statistics


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_no_bound_is_above_the_optimum_of_the_rows(
    seed: int, size: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, optimum, statistics = problem_of(seed, size, outputs=1 + seed % 2)
    reduced = qsdp.TrainingProblem.from_statistics(statistics, beta=problem.beta)
    for one in (problem, reduced):
        result = qsdp.column_generation(one, tol=1e-7, time_limit=1.0)
        bounds = [result.certificate.lower_bound]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QSDPWarning)
            relaxation = qsdp.solve_relaxation(one, tol=1e-7)
        certificate = certify(result.network, one, relaxation, bound_type="exact")
        bounds += [relaxation.lower_bound, certificate.lower_bound]
        minus_gradient = -one.data_fit.gradient(one.outputs(result.network))
        bounds.append(best_dual_bound(one, [one.squeezed(minus_gradient)]).value)
        path = tmp_path / "c"
        for include in (True, "sums"):
            try:
                result.certificate.save(path, include_data=include)
            except InvalidInputError:
                # Weights that cancel; not here if rows are alike.
                if size == SIZES[0]:
                    raise
                continue
            bounds.append(load_certificate(path).lower_bound)
            assert qsdp_check.main([str(path)]) == 0
            said = capsys.readouterr().out
            bounds.append(float(said.split("lower bound ")[1].split()[0]))
        slack = Fraction(1e-9) * optimum + Fraction(1e-15) * Fraction(one.data_fit.value_at_zero)
        assert max(map(Fraction, bounds)) <= optimum + (slack if one is problem else 0)
        if size == SIZES[0]:
            assert len(bounds) == 8
            assert Fraction(min(bounds[0], *bounds[2:])) >= optimum * (1 - Fraction(1e-6))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(8))
def test_statistics_bound_what_their_rounding_changes(seed: int, size: float) -> None:
    # The dual vector of the samples is T c, and its sums and value are computed in rationals.
    X, y, w = rows_of(seed, size, outputs=2)
    problem, _, statistics = problem_of(seed, size, outputs=2)
    data, targets = statistics.reduced()
    assert data.rounding is not None
    rng = np.random.default_rng(seed)
    nu = 2.0 * (targets - data.rows @ (np.linalg.lstsq(X, y)[0] + 0.1 * rng.standard_normal((3, 2))))
    c = exact(data.rounding.expansion(nu))
    table, weights = exact(np.hstack([X, y])), [Fraction(float(v)) for v in w]
    sizes = data.pricing_losses(nu).reshape(2, 3)
    for k in range(2):
        of_samples = [sum(a * b[k] for a, b in zip(row, c, strict=True)) for row in table]
        value = sum(v * (row[3 + k] * t - t * t / 4) for v, row, t in zip(weights, table, of_samples, strict=True))
        own = exact(nu[:, [k]])
        forms, reduced = exact(data.rows), exact(targets[:, [k]])
        of_rows = sum(t[0] * a[0] - a[0] * a[0] / 4 for t, a in zip(reduced, own, strict=True))
        assert value >= of_rows - Fraction(data.value_loss(nu[:, [k]], targets[:, [k]]))
        for j in range(3):
            entry = sum(v * row[j] * t for v, row, t in zip(weights, table, of_samples, strict=True))
            assert abs(entry - sum(f[j] * a[0] for f, a in zip(forms, own, strict=True))) <= Fraction(sizes[k, j])
    assert problem.blocks == data.layout


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_integers_have_no_rounding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = qsdp.Blocks(rng.integers(0, 256, (300, 7)).astype("u1" if seed % 2 else "f4"), [3, 1])
    y = rng.integers(-5, 6, 300)
    assert Sums.of(qsdp.TrainingProblem(blocks, y, beta=1.0)).rounding == 0.0
    assert Sums.of(qsdp.TrainingProblem(blocks, y, beta=1.0, sample_weight=np.full(300, 2.0))).rounding > 0.0
    assert Sums.of(qsdp.TrainingProblem(blocks, y + 0.5, beta=1.0)).rounding > 0.0


@pytest.mark.parametrize("size", SIZES)
def test_rounding_of_sums_is_bounded(size: float) -> None:
    X, y, w = rows_of(0, size, outputs=2)
    problem, _, statistics = problem_of(0, size, outputs=2)
    sums, table = Sums.of(problem), exact(np.hstack([X, y]))
    whole = np.block([[sums.gram, sums.products], [sums.products.T, np.diag(sums.squares)]])
    rows, targets = statistics.reduced()
    factor = exact(np.hstack([rows.rows, targets]))
    assert rows.rounding is not None
    weights = [Fraction(float(v)) for v in w]
    true = [[sum(v * r[i] * r[j] for v, r in zip(weights, table, strict=True)) for j in range(5)] for i in range(5)]
    for i, j in product(range(5), repeat=2):
        unit = Fraction(np.sqrt(float(true[i][i]) * float(true[j][j])))
        if max(i, j) < 3 or min(i, j) < 3 or i == j:
            assert abs(Fraction(whole[i, j]) - true[i][j]) <= Fraction(sums.rounding) * unit
        reduced = sum(r[i] * r[j] for r in factor)
        assert abs(reduced - true[i][j]) <= Fraction(rows.rounding.gamma) * unit
