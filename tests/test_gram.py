"""The Gram matrix of a data map against explicit rows: its sums, its units, its factor, and who shares it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_devices import DEVICES

from qsdp import gram as grams
from qsdp.forms import FormMap
from qsdp.gram import Gram, GramFactor, SharedGram
from qsdp.lifting import QuadraticMap

FUZZ = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
maps = pytest.mark.parametrize(
    ("coefficients", "lifted"),
    [((1.0, 0.0, 0.0), False), ((-0.7, 0.0, 0.0), False), ((0.09, 0.5, 0.47), True), ((1.0, 0.0, 0.0), True)],
    ids=str,
)


def random_map(seed: int, n: int, d: int, coefficients: Any, lifted: bool) -> tuple[QuadraticMap, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return QuadraticMap(rng.standard_normal((n, d)), coefficients, lifted), rng


def rows_of(data: QuadraticMap | FormMap) -> np.ndarray:
    """Return the upper triangles of the matrices of all samples."""
    first, second = np.triu_indices(data.size)
    return np.stack([data.adjoint(row)[first, second] for row in np.eye(data.n_rows)])


@maps
@settings(FUZZ, max_examples=30)
@given(seed=seeds, n=st.integers(1, 9), d=st.integers(1, 4), n_targets=st.integers(1, 3))
def test_sums_against_explicit_rows(coefficients: Any, lifted: bool, seed: int, n: int, d: int, n_targets: int) -> None:
    data, rng = random_map(seed, n, d, coefficients, lifted)
    rows, targets, weights = rows_of(data), rng.standard_normal((n, n_targets)), rng.random(n) + 0.1
    gram = Gram.from_map(data, targets)
    np.testing.assert_allclose(gram.matrix, rows.T @ rows, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gram.products, rows.T @ targets, rtol=1e-12, atol=1e-12)
    gram = Gram.from_map(data, targets, weights)
    np.testing.assert_allclose(gram.matrix, rows.T @ (weights[:, None] * rows), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gram.products, rows.T @ (weights[:, None] * targets), rtol=1e-12, atol=1e-12)
    # The same from the rows of statistics.
    forms = FormMap.from_forms(rows, lifted, n)
    np.testing.assert_allclose(Gram.from_map(forms, targets).matrix, rows.T @ rows, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(Gram.from_map(forms, targets).products, rows.T @ targets, rtol=1e-12, atol=1e-12)


@FUZZ
@given(seed=seeds, n=st.integers(1, 9), d=st.integers(1, 4))
def test_it_gives_the_squared_loss_in_the_basis_too(seed: int, n: int, d: int) -> None:
    data, rng = random_map(seed, n, d, (0.5, 1.0, 0.25), True)
    y, S = rng.standard_normal((n, 1)), rng.standard_normal((data.size, data.size))
    loss = float(np.sum((data.forward(S + S.T) - y[:, 0]) ** 2))
    matrix, products = Gram.from_map(data, y).into_basis()
    s = grams.to_vectors((S + S.T)[None], data.layout)
    value = float((s.T @ matrix @ s - 2.0 * s.T @ products).item() + (y**2).sum())
    assert value == pytest.approx(loss, rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(grams.to_matrices(s, data.layout)[0], S + S.T, rtol=1e-15)


@maps
@pytest.mark.parametrize("columns", [1, 2, 3, 16])
@pytest.mark.parametrize("device", DEVICES)
def test_sums_do_not_depend_on_the_groups(
    coefficients: Any, lifted: bool, columns: int, device: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, rng = random_map(1, 23, 7, coefficients, lifted)
    rows, targets, weights = rows_of(data), rng.standard_normal((23, 2)), rng.random(23) + 0.1
    for name, value in {"LARGE_FLOATS": 1, "MANY_ROWS": 5, "_COLUMNS": columns}.items():
        monkeypatch.setattr(grams, name, value)
    gram = Gram.from_map(data, targets, weights, device=device)
    expected = rows.T @ (weights[:, None] * rows)
    np.testing.assert_allclose(gram.matrix, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gram.products, rows.T @ (weights[:, None] * targets), rtol=1e-12, atol=1e-12)
    assert isinstance(gram.matrix, np.ndarray)
    single = Gram.from_map(data, targets, weights, np.float32, device).matrix
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_memory_is_bounded_by_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    data, rng = random_map(4, 20_000, 12, (0.5, 1.0, 0.25), True)
    targets = rng.standard_normal((20_000, 1))
    monkeypatch.setattr(grams, "LARGE_FLOATS", 2**14)
    tracemalloc.start()
    try:
        Gram.from_map(data, targets)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A few copies of the data; all rows at once would take 20000 * 91 floats, 14.6 MB.
    assert peak < 4 * data.X.nbytes


# -- sharing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize("kind", ["rows", "forms"])
def test_a_shared_one_in_other_units_is_the_one_computed_anew(kind: str, lifted: bool) -> None:
    samples, rng = random_map(3, 40, 4, (0.5, 1.0, 0.25) if lifted else (1.0, 0.0, 0.0), lifted)
    data = samples if kind == "rows" else FormMap.from_forms(rows_of(samples), lifted, 40)
    targets, shared = rng.standard_normal((40, 2)), SharedGram()
    for factor in (1.0, 2.0**-9, 4.0):
        gram, expected = (
            shared.from_map(data.scaled(factor), targets, None, np.float64, None),
            Gram.from_map(data.scaled(factor), targets),
        )
        np.testing.assert_array_equal(gram.matrix, expected.matrix)
        np.testing.assert_array_equal(gram.products, expected.products)
        # What is handed out may be overwritten.
        gram.matrix[...] = gram.products[...] = 0.0


# -- the factor -------------------------------------------------------------------------------------------------


@FUZZ
@given(seed=seeds, n=st.integers(1, 25), d=st.integers(1, 4), binary=st.booleans())
def test_rows_of_the_factor_have_the_same_sums(seed: int, n: int, d: int, binary: bool) -> None:
    data, rng = random_map(seed, n, d, (1.0, 0.0, 0.0), False)
    if binary:
        # The squares of all columns are then equal.
        data = QuadraticMap(np.sign(data.X))
    y = rng.standard_normal((n, 2))
    matrix, products = Gram.from_map(data, y).into_basis()
    factor = GramFactor(matrix.copy())
    rank = factor.lower.shape[1]
    assert rank == np.linalg.matrix_rank(matrix, hermitian=True)
    R = np.empty((rank, len(matrix)))
    R[:, factor.order] = factor.lower.T
    size = np.abs(matrix).max()
    np.testing.assert_allclose(R.T @ R, matrix, rtol=0.0, atol=1e-12 * size)
    targets = factor.targets(products)
    np.testing.assert_allclose(R.T @ targets, products, rtol=0.0, atol=1e-6 * (1.0 + np.abs(products).max()))
    for values in (rng.standard_normal(rank), rng.standard_normal((rank, 2))):
        np.testing.assert_allclose(R @ factor.preimage(values), values, rtol=0.0, atol=1e-6)
