"""Explicit quadratic functions: values against loops, formulas against a reader of their text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsdp import PolynomialActivation, QuadraticForm
from qsdp.exceptions import InvalidInputError

FUZZ = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def make(rng: np.random.Generator, d: int, C: int | None = None) -> QuadraticForm:
    shape = () if C is None else (C,)
    return QuadraticForm(
        rng.standard_normal((*shape, d, d)), rng.standard_normal((*shape, d)), rng.standard_normal(shape)
    )


def looped(S: Any, s: Any, s0: Any, x: Any) -> float:
    d = len(x)
    terms = [float(S[i][j]) * float(x[i]) * float(x[j]) for i in range(d) for j in range(d)]
    return math.fsum([*terms, *(float(s[i]) * float(x[i]) for i in range(d)), float(s0)])


# -- lift --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [None, 1, 3])
def test_lifted_matrices_are_the_form_on_data_with_ones(C: int | None) -> None:
    rng = np.random.default_rng(1)
    form, X = make(rng, 4, C), rng.standard_normal((7, 4))
    L = form.lifted()
    assert L.shape == (() if C is None else (C,)) + (5, 5)
    np.testing.assert_array_equal(L, np.swapaxes(L, -1, -2))
    np.testing.assert_allclose(
        QuadraticForm(L).predict(np.hstack([X, np.ones((7, 1))])), form.predict(X), rtol=1e-12, atol=1e-12
    )
    # The order of the specification, the constant first.
    first = np.roll(L, (1, 1), axis=(-2, -1))
    np.testing.assert_array_equal(first[..., 0, 0], form.s0)
    np.testing.assert_array_equal(first[..., 0, 1:], 0.5 * form.s)
    np.testing.assert_array_equal(first[..., 1:, 1:], form.S)


# -- values ------------------------------------------------------------------------------------------


@FUZZ
@given(seed=seeds, d=st.integers(1, 9), C=st.sampled_from([None, 1, 3]))
def test_values_against_loops(seed: int, d: int, C: int | None) -> None:
    rng = np.random.default_rng(seed)
    shape = () if C is None else (C,)
    S, s = rng.standard_normal((*shape, d, d)), rng.standard_normal((*shape, d))
    s0, X = rng.standard_normal(shape), rng.standard_normal((4, d))
    form = QuadraticForm(S, s, s0)
    values = form.predict(X)
    assert values.shape == ((4,) if C is None else (4, C))
    if C is None:
        expected = [looped(S, s, s0, x) for x in X]
    else:
        expected = [[looped(S[k], s[k], s0[k], x) for k in range(C)] for x in X]  # type: ignore[misc]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12 * (1 + np.abs(X).sum(axis=1).max()) ** 2)
    assert (form.n_inputs, form.output_shape) == (d, () if C is None else (C,))
    assert form.to_quadratic_form() is form


@pytest.mark.parametrize("C", [None, 2])
def test_defaults_are_zero(C: int | None) -> None:
    shape = () if C is None else (C,)
    form = QuadraticForm(np.ones((*shape, 3, 3)))
    assert form.s.shape == (*shape, 3)
    assert form.s0.shape == shape
    assert not form.s.any()
    assert not form.s0.any()
    np.testing.assert_array_equal(form.predict(np.ones((1, 3))), np.full((1, *shape), 9.0))


@FUZZ
@given(seed=seeds, d=st.integers(1, 6))
def test_the_symmetric_part_is_kept(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    for S in (rng.standard_normal((d, d)), rng.standard_normal((2, d, d))):
        kept = QuadraticForm(S).S
        np.testing.assert_array_equal(kept, np.swapaxes(kept, -1, -2))
        np.testing.assert_allclose(kept, 0.5 * (S + np.swapaxes(S, -1, -2)), rtol=1e-15)
        skew = S - np.swapaxes(S, -1, -2)
        assert not QuadraticForm(skew).S.any()


def lift(x: np.ndarray, activation: PolynomialActivation | None) -> np.ndarray:
    if activation is None:
        return np.outer(x, x)
    a, b, c = activation.coefficients
    if b == 0 and c == 0:
        return a * np.outer(x, x)
    d = len(x)
    lifted = np.zeros((d + 1, d + 1))
    for i in range(d):
        for j in range(d):
            lifted[i, j] = a * x[i] * x[j]
        lifted[i, d] = lifted[d, i] = 0.5 * b * x[i]
    lifted[d, d] = c
    return lifted


ACTIVATIONS = [
    None,
    (1, 0, 0),
    (-2.5, 0, 0),
    (0, 1, 0),
    (0, 0, 3),
    (0, 2, -1),
    (2, 0, 1),
    (0.5, -3, 0),
    (0.1, 0.5, 0.4),
]


@pytest.mark.parametrize("coefficients", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("C", [None, 1, 3])
@pytest.mark.parametrize("d", [1, 4])
def test_of_lift(coefficients: Any, C: int | None, d: int) -> None:
    activation = None if coefficients is None else PolynomialActivation(*coefficients)
    rng = np.random.default_rng(d)
    size = d + (activation is not None and activation.lifted)
    S = rng.standard_normal((size, size) if C is None else (C, size, size))
    form = QuadraticForm.of_lift(S, activation)
    assert (form.n_inputs, form.output_shape) == (d, () if C is None else (C,))
    X = rng.standard_normal((5, d))
    expected = np.array([np.tensordot(S, lift(x, activation), axes=([-2, -1], [0, 1])) for x in X])
    np.testing.assert_allclose(form.predict(X), expected, rtol=0, atol=1e-13 * np.abs(S).sum() * (1 + (X**2).sum()))


def test_what_predict_takes() -> None:
    form = make(np.random.default_rng(0), 3)
    X = np.random.default_rng(1).standard_normal((4, 3))
    expected = form.predict(X)
    np.testing.assert_array_equal(form.predict(X.tolist()), expected)
    np.testing.assert_array_equal(form.predict(pd.DataFrame(X)), expected)
    with pytest.raises(InvalidInputError, match="X must have 3 columns"):
        form.predict(np.ones((2, 4)))
    for wrong in (np.ones(3), [[np.nan, 0, 0]], [["a", "b", "c"]], None):
        with pytest.raises(InvalidInputError, match=r"\bX\b"):
            form.predict(wrong)


# -- what a form is made of --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(), (2,), (2, 3), (3, 2), (2, 2, 3), (0, 0), (0, 2, 2), (2, 0, 0), (1, 1, 2, 2)], ids=str
)
def test_matrices_of_bad_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match=r"S must have shape \(d, d\) or \(C, d, d\)"):
        QuadraticForm(np.ones(shape))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("part", ["S", "s", "s0"])
def test_parts_that_are_not_finite(part: str, value: float) -> None:
    parts: dict[str, Any] = {"S": np.ones((2, 2)), "s": np.ones(2), "s0": np.ones(())}
    parts[part][(0,) * parts[part].ndim] = value
    with pytest.raises(InvalidInputError, match=rf"\b{part} must be a numeric array"):
        QuadraticForm(**parts)


def test_the_arrays_are_copies_and_read_only() -> None:
    S, s, s0 = np.ones((2, 2)), np.ones(2), np.ones(())
    form = QuadraticForm(S, s, s0)
    S[:], s[:], s0[()] = 5.0, 5.0, 5.0
    assert form.predict([[1.0, 1.0]]).tolist() == [7.0]
    for name in ("S", "s", "s0"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(form, name)[...] = 2.0
    with pytest.raises(AttributeError):
        form.S = S  # type: ignore[misc]


# -- formulas ----------------------------------------------------------------------------------------


def read(text: str) -> list[tuple[float, list[str]]]:
    """Return coefficient and factors (a square is two) of every term."""
    terms: list[tuple[float, list[str]]] = []
    sign, pieces = 1.0, text.split(" ")
    if pieces[0].startswith("-"):
        sign, pieces[0] = -1.0, pieces[0][1:]
    group: list[str] = []
    for piece in [*pieces, "+"]:
        if piece not in {"+", "-"}:
            group.append(piece)
            continue
        assert group, f"an empty term in {text!r}"
        try:
            size, factors = float(group[0]), group[1:]
        except ValueError:
            size, factors = 1.0, group
        names = [name for factor in factors for name in ([factor[:-2]] * 2 if factor.endswith("^2") else [factor])]
        terms.append((sign * size, names))
        sign, group = (1.0 if piece == "+" else -1.0), []
    return terms


def evaluate(text: str, point: dict[str, float]) -> tuple[float, float]:
    """Return value and sum of magnitudes of the terms."""
    terms = [size * math.prod(point[name] for name in names) for size, names in read(text)]
    return math.fsum(terms), math.fsum(abs(term) for term in terms)


@FUZZ
@given(
    seed=seeds,
    d=st.integers(1, 6),
    digits=st.sampled_from([1, 2, 4, 8, 17]),
    exponent=st.integers(-9, 9),
    density=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_a_formula_gives_the_values_back(seed: int, d: int, digits: int, exponent: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    parts = [
        rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape) * 10.0**exponent * (rng.random(shape) < density)
        for shape in ((d, d), (d,), ())
    ]
    form = QuadraticForm(*parts)
    names = [f"v{j}" for j in range(d)]
    text = form.to_expression(names, digits=digits)
    terms = read(text)
    assert len({tuple(sorted(factors)) for _, factors in terms}) == len(terms), "a monomial comes twice"
    for x in rng.standard_normal((3, d)):
        value, size = evaluate(text, dict(zip(names, x, strict=True)))
        assert abs(value - form.predict([x])[0]) <= (0.51 * 10.0 ** (1 - digits) + 1e-14) * size * 1.1


def test_thresholds() -> None:
    form = QuadraticForm([[1.0, 0.25], [0.25, -0.5]], [0.5, 1e-300], -0.5000001)
    everything = "x1^2 + 0.5 x1 x2 - 0.5 x2^2 + 0.5 x1 + 1e-300 x2 - 0.5"
    assert form.to_expression() == everything
    # The coefficient of the formula counts, twice the entry off the diagonal; one that equals it goes.
    assert form.to_expression(threshold=0.25) == "x1^2 + 0.5 x1 x2 - 0.5 x2^2 + 0.5 x1 - 0.5"
    assert form.to_expression(threshold=0.5) == "x1^2 - 0.5"
    assert form.to_expression(threshold=1.0) == "0"


def test_one_formula_for_each_output() -> None:
    form = make(np.random.default_rng(0), 3, 4)
    texts = form.to_expression(["a", "b", "c"], digits=17)
    assert len(texts) == 4
    for k, text in enumerate(texts):
        assert text == QuadraticForm(form.S[k], form.s[k], form.s0[k]).to_expression(["a", "b", "c"], digits=17)
        value, _ = evaluate(text, {"a": 0.5, "b": -2.0, "c": 3.0})
        np.testing.assert_allclose(value, form.predict([[0.5, -2.0, 3.0]])[0, k], rtol=1e-13)
