"""Bounds from sums and statistics hold for the rows, also where these differ by 1e10: against exact rational optima."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

import qsdp
import qsdp_check
from qsdp.certificates import certify, load_certificate
from qsdp.certificates.sums import Sums
from qsdp.exceptions import InvalidInputError, QSDPWarning
from qsdp.relaxation.bounds import best_dual_bound
from qsdp.statistics.moments import root

SIZES = (1e1, 1e3, 1e5, 1e10)


def exact(values: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(v)) for v in row] for row in np.asarray(values).reshape(len(values), -1)]


def rows_of(seed: int, size: float, outputs: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of three columns of which a third is `size` times as large, targets near a network, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((9, 3)) * np.where(np.arange(9) < 3, size, 1.0)[:, None]
    y = X @ rng.standard_normal((3, outputs)) + 0.3 * rng.standard_normal((9, outputs))
    return X, y, rng.uniform(0.5, 2.0, 9)


def solved(A: list[list[Fraction]], b: list[Fraction]) -> list[Fraction] | None:
    """Solve a small system by elimination, unless it is singular."""
    M = [[*row, value] for row, value in zip(A, b, strict=True)]
    for k in range(len(M)):
        pivot = next((i for i in range(k, len(M)) if M[i][k]), None)
        if pivot is None:
            return None
        M[k], M[pivot] = M[pivot], M[k]
        for i in range(len(M)):
            if i != k:
                M[i] = [a - M[i][k] / M[k][k] * c for a, c in zip(M[i], M[k], strict=True)]
    return [row[-1] / row[k] for k, row in enumerate(M)]


def exact_optimum(rows: list[list[Fraction]], y: np.ndarray, w: np.ndarray, penalty: Fraction) -> Fraction:
    """Return the optimum of a lasso by all patterns of signs, in rationals.

    Every pattern gives a point, whose objective is no smaller than the optimum, and one of them, of independent
    columns, gives the optimum.
    """
    targets, weights = exact(y), [Fraction(float(v)) for v in w]
    columns, total = len(rows[0]), Fraction(0)
    for k in range(len(targets[0])):
        own = [row[k] for row in targets]
        values = []
        for pattern in product((-1, 0, 1), repeat=columns):
            used = [j for j in range(columns) if pattern[j]]
            gram = [[sum(v * r[i] * r[j] for v, r in zip(weights, rows, strict=True)) for j in used] for i in used]
            h = [sum(v * r[i] * t for v, r, t in zip(weights, rows, own, strict=True)) for i in used]
            s = solved(gram, [b - penalty * pattern[j] / 2 for b, j in zip(h, used, strict=True)])
            if s is None:
                continue
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
    return problem, exact_optimum(exact(X), y, w, Fraction(beta)), statistics


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(2))
def test_no_bound_is_above_the_optimum_of_the_rows(
    seed: int, size: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, optimum, statistics = problem_of(seed, size, outputs=1 + seed % 2)
    reduced = qsdp.TrainingProblem.from_statistics(statistics, beta=problem.beta)
    for one in (problem, reduced):
        result = qsdp.column_generation(one, tol=1e-7, time_limit=0.1)
        bounds = [result.certificate.lower_bound]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QSDPWarning)
            relaxation = qsdp.solve_relaxation(one, tol=1e-7, max_iter=200)
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


def columns_of(kind: str, seed: int, n: int = 11, d: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows that are hard on sums, targets and weights."""
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)), rng.uniform(0.5, 2.0, n)
    y = X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(n)
    if kind == "offset":
        X += 1e8
    elif kind == "first far":
        X[:2] += 1e6
    elif kind == "scales":
        X *= np.array([1e8, 1e-8] * d)[:d]
    elif kind == "duplicated":
        X[:, 1] = X[:, 0]
    elif kind == "constant":
        X[:, 1] = 0.1
        X[0, 1] += 1e-9 * (seed % 2)
    elif kind == "disjoint":
        # Products of these columns are zero, but computed only up to rounding once the first centre is left.
        X = 0.3 * (rng.integers(0, d + 1, n)[:, None] == np.arange(d))
        X[0] = 0.3 * (np.arange(d) == 0)
        y += X[:, 0]
    elif kind == "vanishing":
        # At the centre of the first rows, the product of two columns vanishes in all rows; not at that of others.
        X[:, :2] = 0.3, 0.7
        X[7:, 1] = 0.71, 0.73, 0.69, 0.7
        X[10, 0] = 0.4
    elif kind == "targets far":
        y += 1e7
    return X, y, w


KINDS = ("plain", "offset", "first far", "scales", "duplicated", "constant", "disjoint", "vanishing", "targets far")


def statistics_of(
    X: np.ndarray, y: np.ndarray, w: np.ndarray, cuts: tuple[int, ...], merge: bool = False
) -> qsdp.SufficientStatistics:
    parts = [slice(a, b) for a, b in zip((0, *cuts), (*cuts, len(X)), strict=True)]
    if not merge:
        statistics = qsdp.SufficientStatistics()
        for some in parts:
            statistics.partial_fit(X[some], y[some], w[some])
        return statistics
    found = [qsdp.SufficientStatistics().partial_fit(X[some], y[some], w[some]) for some in parts]
    for other in found[1:]:
        found[0].merge(other)
    return found[0]


SPLITS = [((), False), ((1,), False), ((2,), False), (tuple(range(1, 11)), False), ((1, 4), True), ((7,), True)]


@pytest.mark.parametrize(
    ("kind", "cuts", "merge"), [(kind, *SPLITS[(i + k) % 6]) for i, kind in enumerate(KINDS) for k in (0, 2, 3)]
)
def test_no_bound_from_statistics_is_above_the_optimum_of_the_rows(
    kind: str, cuts: tuple[int, ...], merge: bool, tmp_path: Path
) -> None:
    X, y, w = columns_of(kind, seed=len(cuts))
    statistics = statistics_of(X, y, w, cuts, merge)
    # All neurons of two columns, up to signs of the whole, are these three functions.
    rows = [[(a + b) ** 2, (a - b) ** 2, (a + b) * (a - b)] for a, b in exact(X)]
    largest = qsdp.beta_max(qsdp.TrainingProblem.from_statistics(statistics, beta=1.0))
    for beta in (1e-3 * largest, 0.3 * largest):
        optimum = exact_optimum(rows, y, w, 2 * Fraction(beta))
        problem = qsdp.TrainingProblem.from_statistics(statistics, beta=beta)
        result = qsdp.column_generation(problem, tol=1e-9, time_limit=0.3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QSDPWarning)
            relaxation = qsdp.solve_relaxation(problem, tol=1e-9)
        bounds = [relaxation.lower_bound, certify(result.network, problem, relaxation).lower_bound]
        try:
            result.certificate.save(tmp_path / "c")
        except InvalidInputError:
            # Weights that cancel.
            assert kind in {"offset", "scales", "first far", "targets far"}
        else:
            bounds.append(qsdp_check.check(qsdp_check.read(str(tmp_path / "c"), None)[0])[1])
        bounds.append(result.certificate.lower_bound)
        assert max(map(Fraction, bounds)) <= optimum
        if kind in {"plain", "duplicated", "disjoint"}:
            assert Fraction(bounds[-1]) >= optimum * (1 - Fraction(1e-7))


@pytest.mark.parametrize(("cuts", "merge"), SPLITS)
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_bound_what_their_rounding_changes(kind: str, cuts: tuple[int, ...], merge: bool) -> None:
    # Everything of the samples, such as their dual vector T c, is computed in rationals.
    X, y, w = columns_of(kind, seed=len(cuts) // 2, d=3)
    statistics = statistics_of(X, y, w, cuts, merge)
    model = statistics.reduced()
    data, targets = model.map, model.targets
    rounding, basis = data.rounding, statistics._basis
    assert rounding is not None
    sizes, k = statistics._sums.sizes(), len(rounding.table)
    order = root(statistics._sums.triangle(), sizes).order[:k]
    units = [Fraction(2) ** int(e) for e in basis.exponent]
    centred = [
        [(a - Fraction(float(c))) / u for a, c, u in zip(row, basis.centre, units, strict=True)]
        for row in exact(np.column_stack([X, y]))
    ]
    pairs = list(zip(*(places.tolist() for places in np.triu_indices(4)), strict=True))
    monomials = []
    for row in centred:
        one = [*row[:3], Fraction(1)]
        monomials.append([*(one[a] * one[b] for a, b in pairs), row[3]])
    T = [[row[j] / Fraction(float(sizes[j])) for j in order] for row in monomials]
    F = [[row[a] * row[b] for a in range(3) for b in range(a, 3)] for row in exact(X)]
    weights, goal = [Fraction(float(v)) for v in w], [row[0] for row in exact(y)]
    forms, reduced = exact(data.forms), [row[0] for row in exact(targets)]
    table, gamma, norm = exact(rounding.table), Fraction(rounding.gamma), Fraction(float(np.linalg.norm(targets)))
    units = [*np.full(k, 1.0), *(rounding.sizes * data.factor), rounding.target_ratio * float(norm)]
    table += [[Fraction(0)] * k] * (len(forms) - k)
    of_few = [[*t, *f, g] for t, f, g in zip(table, forms, reduced, strict=True)]
    of_all = [[*t, *f, g] for t, f, g in zip(T, F, goal, strict=True)]
    for i, j in product(range(k), range(k + 7)):
        true = sum(v * row[i] * row[j] for v, row in zip(weights, of_all, strict=True))
        assert abs(sum(row[i] * row[j] for row in of_few) - true) <= gamma * Fraction(float(units[j]))
    rng = np.random.default_rng(0)
    for nu in (targets, rng.standard_normal(targets.shape), targets + 1e-3 * rng.standard_normal(targets.shape)):
        errors, rest = rounding.of_entries(nu)
        losses = np.abs(data.factor) * errors + np.abs(data.forms.T @ rest)
        c = exact(scipy.linalg.solve_triangular(rounding.table, nu[:k]))
        own = [row[0] for row in exact(nu)]
        of_samples = [sum(a * b[0] for a, b in zip(row, c, strict=True)) for row in T]
        for j in range(6):
            entry = sum(v * row[j] * t for v, row, t in zip(weights, F, of_samples, strict=True))
            of_rows = sum(f[j] * t for f, t in zip(forms, own, strict=True))
            assert abs(entry - of_rows) <= Fraction(float(losses[j, 0]))
        value = sum(v * (t * g - t * t / 4) for v, g, t in zip(weights, goal, of_samples, strict=True))
        of_rows = sum(t * g - t * t / 4 for g, t in zip(reduced, own, strict=True))
        assert value >= of_rows - Fraction(data.value_loss(nu, targets))


@pytest.mark.parametrize("first", [1, 2, 3])
def test_bounds_do_not_suffer_from_small_first_batches(first: int) -> None:
    # Products of columns of one category each vanish up to rounding, of the size that the first centre gave them.
    rng = np.random.default_rng(0)
    category = rng.integers(0, 12, 600)
    category[:2] = 11, 10
    X = np.column_stack([rng.standard_normal(600), 0.3 * (category[:, None] == np.arange(12))])
    y = X[:, 0] * (category > 5) + 0.1 * rng.standard_normal(600) + 1.0
    w = rng.uniform(0.5, 2.0, 600)
    problems = [qsdp.TrainingProblem.from_statistics(statistics_of(X, y, w, cuts), beta=5.0) for cuts in ((), (first,))]
    once, cut = (qsdp.solve_relaxation(problem) for problem in problems)
    assert once.relative_gap <= 1e-6
    assert cut.lower_bound == pytest.approx(once.lower_bound, rel=1e-9)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_sizes_outlast_changes_of_centres(seed: int) -> None:
    X, y, w = columns_of("vanishing", seed)
    sums = statistics_of(X, y, w, (7,), merge=True)._sums
    place = 1
    # The exact sum of squares of the product of both columns is zero.
    error, size = sums.triangle()[place, place], sums.sizes()[place]
    assert 0.0 < error <= sums.rounding * size**2
    assert size > 1e6 * np.sqrt(error)
    assert sums.roundings == 0.5 * 4 + 8.0 + 8.0


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_integers_have_no_rounding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = qsdp.Blocks(rng.integers(0, 256, (300, 7)).astype("u1" if seed % 2 else "f4"), [3, 1])
    y = rng.integers(-5, 6, 300)
    assert Sums.from_problem(qsdp.TrainingProblem(blocks, y, beta=1.0)).rounding == 0.0
    assert Sums.from_problem(qsdp.TrainingProblem(blocks, y, beta=1.0, sample_weight=np.full(300, 2.0))).rounding > 0.0
    assert Sums.from_problem(qsdp.TrainingProblem(blocks, y + 0.5, beta=1.0)).rounding > 0.0


@pytest.mark.parametrize("size", SIZES)
def test_rounding_of_sums_is_bounded(size: float) -> None:
    X, y, w = rows_of(0, size, outputs=2)
    problem, _, _ = problem_of(0, size, outputs=2)
    sums, table = Sums.from_problem(problem), exact(np.hstack([X, y]))
    whole = np.block([[sums.gram, sums.products], [sums.products.T, np.diag(sums.squares)]])
    weights = [Fraction(float(v)) for v in w]
    true = [[sum(v * r[i] * r[j] for v, r in zip(weights, table, strict=True)) for j in range(5)] for i in range(5)]
    for i, j in product(range(5), repeat=2):
        unit = Fraction(np.sqrt(float(true[i][i]) * float(true[j][j])))
        if max(i, j) < 3 or min(i, j) < 3 or i == j:
            assert abs(Fraction(whole[i, j]) - true[i][j]) <= Fraction(sums.rounding) * unit


def refused(f: dict[str, Any], reason: str, **changes: Any) -> None:
    with pytest.raises(qsdp_check.ClaimError, match=reason):
        qsdp_check.check({**f, **changes})


def test_roundings_that_cannot_be_true_are_refused(tmp_path: Path) -> None:
    X, y, w = columns_of("plain", 0)
    problem = qsdp.TrainingProblem.from_statistics(statistics_of(X, y, w, ()), beta=0.1)
    qsdp.column_generation(problem).certificate.save(tmp_path / "c")
    f, _, _ = qsdp_check.read(str(tmp_path / "c"))
    qsdp_check.check(f)
    with pytest.raises(qsdp_check.ClaimError, match="rounding: the field is missing"):
        qsdp_check.check_fields({name: array for name, array in f.items() if name != "rounding"}, "forms")
    refused(f, "rounding: sums have none of 0", rounding=np.array(0.0))
    refused(f, "form_sizes: some are smaller than the norms", form_sizes=0.9 * f["form_sizes"])
    refused(f, "target_ratio: it is not at least one", target_ratio=np.array(0.5))
    refused(f, "norms above one", table=2.0 * f["table"])
    refused(f, "table: it is singular", table=0.0 * f["table"])
    refused(f, "table: it is not a triangle", table=f["table"][1:])
    refused(f, "is proven", rounding=np.array(1e-3))
    blocks, y = qsdp.Blocks(X, [1, 1], ["linear", "quadratic"]), np.round(8.0 * y)
    qsdp.column_generation(qsdp.TrainingProblem(blocks, y, beta=0.1)).certificate.save(
        tmp_path / "c", include_data="sums"
    )
    f, _, _ = qsdp_check.read(str(tmp_path / "c"))
    qsdp_check.check(f)
    with pytest.raises(qsdp_check.ClaimError, match="rounding: the field is missing"):
        qsdp_check.check_fields({name: array for name, array in f.items() if name != "rounding"}, "gram")
    refused(f, "rounding: sums have none of 0", rounding=np.array(0.0))
    refused(f, "is proven", rounding=np.array(1e-3))
