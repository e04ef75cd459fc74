"""What the paper proves, corrected: pieces, splines, dimensions, amplification (B-11 to B-14, 7.5 to 7.8)."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline, PPoly, make_interp_spline
from scipy.special import euler

from benchmarks.methods.quadratic_theory import (
    amplification,
    dimension_bounds,
    family_dimension,
    input_jacobian,
    output_range,
    polynomial_pieces,
    spline_error_constant,
    spline_network,
    spline_parameters,
)
from benchmarks.methods.quadratic_theory.dimension import PRIME, modular_rank
from benchmarks.papers.fan import ReLinearNetwork, start_random
from benchmarks.papers.noel import QuadraticNetworkClassifier, get_family
from qsdp import QuadraticForm
from qsdp.baselines import AffineForm, ReLUNetworkRegressor, TrainedLayer, relu
from qsdp.exceptions import InvalidInputError, InvalidTypeError


def fan_form(**parameters: np.ndarray) -> QuadraticForm:
    """Return Fan's neurons as quadratic functions; names as in `FanLinear`."""
    form = get_family("fan").to_form({name.capitalize() if a.ndim > 1 else name: a for name, a in parameters.items()})
    return form.to_quadratic_form()


# -- 7.5: dimension of the family of functions (B-13) ------------------------------------------------

#: Widths, quadratic network: dimension and parameters, square activation: the same; bounds B(19) and B(23) as printed;
#: ambient dimensions of the two.
DIMENSIONS = [
    ((1, 1), (3, 6), (2, 2), (1, 1), (3, 2)),
    ((2, 1), (6, 9), (3, 3), (2, 2), (6, 3)),
    ((3, 1), (10, 12), (4, 4), (3, 3), (10, 4)),
    ((4, 1), (14, 15), (5, 5), (4, 4), (15, 5)),
    ((5, 1), (17, 18), (6, 6), (5, 5), (21, 6)),
    ((6, 1), (20, 21), (7, 7), (6, 6), (28, 7)),
    ((1, 2, 1), (5, 21), (3, 7), (1, 1), (5, 3)),
    ((1, 3, 1), (5, 30), (3, 10), (1, 1), (5, 3)),
    ((2, 2, 1), (12, 27), (6, 9), (3, 3), (15, 6)),
    ((2, 3, 1), (15, 39), (6, 13), (3, 3), (15, 6)),
    ((2, 2, 2), (18, 36), (10, 12), (6, 6), (30, 12)),
    ((3, 2, 1), (20, 33), (8, 11), (6, 6), (35, 10)),
    ((3, 3, 1), (28, 48), (10, 16), (6, 6), (35, 10)),
]


@pytest.mark.parametrize(("widths", "fan", "square", "printed", "ambient"), DIMENSIONS)
def test_b13_7_5_dimensions(
    widths: tuple[int, ...],
    fan: tuple[int, int],
    square: tuple[int, int],
    printed: tuple[int, int],
    ambient: tuple[int, int],
) -> None:
    quadratic, competitor = family_dimension(widths), family_dimension(widths, "square_act")
    assert (quadratic.dimension, quadratic.n_parameters) == fan
    assert (competitor.dimension, competitor.n_parameters) == square
    assert quadratic.dimension > competitor.dimension, "Proposition 2"
    for place, (family, found) in enumerate({"fan": quadratic, "square_act": competitor}.items()):
        bounds = dimension_bounds(widths, family)
        assert found.dimension <= bounds.corrected == min(bounds.free_parameters, bounds.ambient)
        assert bounds.printed == printed[place] < found.dimension, "the printed bound is none"
        assert bounds.ambient == ambient[place]


def test_e29_a_fan_neuron_written_out() -> None:
    """B(26): the constant is c + br bg, and products are summed over pairs once; k != l counts them twice."""
    rng = np.random.default_rng(4)
    (wr, wg, wb), (br, bg, c), x = rng.standard_normal((3, 5)), rng.standard_normal(3), rng.standard_normal(5)
    products = {(i, j): (wr[i] * wg[j] + wr[j] * wg[i]) * x[i] * x[j] for i, j in itertools.permutations(range(5), 2)}
    rest = (wr * bg + wg * br) @ x + (wr * wg + wb) @ (x * x) + c + br * bg
    value = (wr @ x + br) * (wg @ x + bg) + wb @ (x * x) + c
    once = sum(product for (i, j), product in products.items() if i < j)
    assert once + rest == pytest.approx(value, rel=1e-12)
    assert abs(sum(products.values()) + rest - value) == pytest.approx(abs(once), rel=1e-10)
    form = fan_form(wr=wr[None], br=np.array([br]), wg=wg[None], bg=np.array([bg]), wb=wb[None], c=np.array([c]))
    assert form.s0[0] == pytest.approx(c + br * bg, rel=1e-14)
    for i, j in itertools.combinations(range(5), 2):
        assert 2.0 * form.S[0, i, j] == pytest.approx(wr[i] * wg[j] + wr[j] * wg[i], rel=1e-12)


@pytest.mark.parametrize("n", range(1, 7))
def test_generic_dimension_of_one_neuron(n: int) -> None:
    full = (n + 1) * (n + 2) // 2
    expected = {
        "qnn": full,
        "fan": min(full, 3 * n + 2),
        "parabolic": 2 * n + 1,
        "poly2": 2 * n + 1,
        "fan_compact": 2 * n + 1,
        "linear": n + 1,
    }
    for family, dimension in expected.items():
        assert family_dimension((n, 1), family).dimension == dimension, family


def test_dimension_by_automatic_derivatives_in_floating_point() -> None:
    """The modular rank against a numerical one of PyTorch's Jacobian."""
    for family in ("fan", "parabolic", "fan_compact"):
        network = ReLinearNetwork([2, 2, 1], family, "identity", dtype=torch.float64)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_(generator=generator)
        points = torch.randn(60, 2, dtype=torch.float64, generator=generator)
        state = dict(network.named_parameters())
        jacobians = torch.func.jacrev(lambda p: torch.func.functional_call(network, p, (points,)))(state)  # noqa: B023
        matrix = torch.cat([jacobian.reshape(60, -1) for jacobian in jacobians.values()], dim=1)
        values = torch.linalg.svdvals(matrix)
        rank = int((values > 1e-9 * values[0]).sum())
        assert rank == family_dimension((2, 2, 1), family).dimension


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 8), st.integers(0, 10**6))
def test_modular_rank_of_products(rows: int, columns: int, inner: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = rng.integers(PRIME, size=(rows, inner), dtype=np.int64)
    right = rng.integers(PRIME, size=(inner, columns), dtype=np.int64)
    product = np.array((left.astype(object) @ right.astype(object)) % PRIME, dtype=np.int64).reshape(rows, columns)
    assert modular_rank(product) == min(rows, columns, inner)


def test_modular_rank_is_exact_where_floating_point_is_not() -> None:
    hilbert = np.array([[pow(i + j + 1, -1, PRIME) for j in range(14)] for i in range(14)])
    assert modular_rank(hilbert) == 14
    assert np.linalg.matrix_rank([[1.0 / (i + j + 1) for j in range(14)] for i in range(14)]) < 14
    assert modular_rank(np.vstack([hilbert, hilbert[:3] * 5 % PRIME])) == 14


# -- 7.6: splines as networks (B-12) -----------------------------------------------------------------


def natural(seed: int = 0, knots: int = 7) -> CubicSpline:
    rng = np.random.default_rng(seed)
    return CubicSpline(np.sort(rng.uniform(-3.0, 3.0, knots)), rng.standard_normal(knots), bc_type="natural")


def values_of(network: ReLinearNetwork, x: np.ndarray) -> np.ndarray:
    return network(torch.as_tensor(x)[:, None])[:, 0].detach().numpy()


@pytest.mark.parametrize("seed", range(5))
def test_b12_7_6_a_cubic_spline_is_a_network_of_four_layers(seed: int) -> None:
    spline = natural(seed)
    x = np.linspace(spline.x[0], spline.x[-1], 2001)
    network = spline_network(spline)
    scale = max(1.0, np.abs(spline(x)).max()) * max(1.0, np.abs(spline.c).max())
    np.testing.assert_allclose(values_of(network, x), spline(x), rtol=0, atol=1e-12 * scale)
    assert [layer.n_neurons for layer in network.layers] == [6, 12, 12, 1]


@pytest.mark.parametrize("degree", [1, 2, 4, 5])
def test_b12_splines_of_other_degrees(degree: int) -> None:
    x, y = np.linspace(0.0, 1.0, 9), np.random.default_rng(degree).standard_normal(9)
    whole = PPoly.from_spline(make_interp_spline(x, y, k=degree))
    kept = np.diff(whole.x) > 0.0
    spline = PPoly(whole.c[:, kept], np.append(whole.x[:-1][kept], whole.x[-1]))
    points = np.linspace(0.0, 1.0, 501)
    network = spline_network(spline)
    np.testing.assert_allclose(values_of(network, points), spline(points), rtol=0, atol=1e-9)
    assert len(network.layers) == max(4, degree + 1)


def test_7_6_the_sum_of_truncated_pieces_without_the_constant_counted_twice() -> None:
    spline = natural()
    knots, x = spline.x, np.linspace(spline.x[0], spline.x[-1], 301)
    pieces = [np.poly1d(column) for column in spline.c.T]
    total = np.zeros_like(x)
    for i, piece in enumerate(pieces):
        at = np.maximum(x - knots[i], 0.0) + knots[i]
        before = pieces[i - 1](at - knots[i - 1]) if i else 0.0
        total += piece(at - knots[i]) - before
    np.testing.assert_allclose(total, spline(x), atol=1e-11)
    assert np.abs(total + pieces[0](0.0) - spline(x)).min() > 0.5 * abs(pieces[0](0.0)), "erratum E25"


def test_7_6_conventional_networks_are_linear_off_their_kinks() -> None:
    conventional = ReLinearNetwork([1, 16, 16, 1], "linear", dtype=torch.float64)
    spline = natural()
    optimizer = torch.optim.Adam(conventional.parameters(), lr=0.01)
    x = torch.linspace(float(spline.x[0]), float(spline.x[-1]), 60, dtype=torch.float64)[:, None]
    y = torch.as_tensor(spline(x.numpy()))
    for _ in range(200):
        optimizer.zero_grad()
        (conventional(x) - y).square().mean().backward()
        optimizer.step()
    pieces = polynomial_pieces(conventional.trained_layers(), spline.x[0], spline.x[-1])
    assert len(pieces) > 3
    for piece in pieces:
        inside = np.linspace(piece.low, piece.high, 7)[1:-1]
        values = values_of(conventional, inside)
        assert np.abs(np.diff(values, 2)).max() < 1e-12 * max(1.0, np.abs(values).max())
    # The spline itself bends on every piece.
    assert np.abs(spline(spline.x[:-1] + 0.01, 2)).min() > 0.0


@pytest.mark.parametrize(
    ("spline", "message"),
    [
        ([1.0, 2.0], "spline must be a scipy.interpolate.PPoly; got list"),
        (PPoly(np.ones((2, 2, 3)), [0.0, 1.0, 2.0]), "spline must have real numbers as values"),
        (PPoly([[0.0, 0.0], [0.0, 1.0]], [0.0, 1.0, 2.0]), "spline must be continuous, as networks are"),
    ],
)
def test_bad_splines(spline: object, message: str) -> None:
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        spline_parameters(spline)


# -- 7.8: constants of spline interpolation ----------------------------------------------------------


def test_7_8_spline_constants() -> None:
    assert [spline_error_constant(m) for m in (1, 2)] == [Fraction(1, 8), Fraction(5, 384)]
    assert float(spline_error_constant(3)) == pytest.approx(0.001324, abs=1e-6)
    assert float(spline_error_constant(6)) == pytest.approx(1.3776e-6, rel=1e-4)
    for m in range(1, 11):
        number = abs(euler(2 * m)[-1])
        assert float(spline_error_constant(m)) == pytest.approx(number / (4.0**m * math.factorial(2 * m)), rel=1e-12)
    # Erratum E23: the asymptotic needs a factor 8.
    assert 8 * math.sqrt(6 / math.pi) * (24 / (math.pi * math.e)) ** 12 == pytest.approx(2702765, rel=0.01)


def test_7_8_linear_interpolation_keeps_its_bound_and_reaches_it() -> None:
    x = np.linspace(0.0, 1.0, 11)
    points = np.linspace(0.0, 1.0, 4001)
    bound = float(spline_error_constant(1)) * 0.1**2
    for f, second in ((np.sin, 1.0), (np.exp, math.e), (lambda t: t * t, 2.0)):
        error = np.abs(np.interp(points, x, f(x)) - f(points)).max()
        assert error <= bound * second * (1.0 + 1e-12)
    assert error == pytest.approx(2.0 * bound, rel=1e-6), "a parabola has the largest error"


def test_7_8_cubic_interpolation_keeps_its_bound() -> None:
    """Lemma 1 for m = 2; natural ends are those of the lemma where the second derivative is 0."""
    x, points = np.linspace(0.0, np.pi, 21), np.linspace(0.0, np.pi, 4001)
    error = np.abs(CubicSpline(x, np.sin(x), bc_type="natural")(points) - np.sin(points)).max()
    bound = float(spline_error_constant(2)) * (np.pi / 20) ** 4
    assert 0.1 * bound < error <= bound


def test_7_8_cubic_interpolation_reaches_its_bound() -> None:
    """Euler's polynomial, of alternating sign: fourth derivative +-1, and 0 with its second derivative at knots."""
    points = np.linspace(0.0, 6.0, 6001)
    t, sign = points % 1.0, np.where(points % 2.0 < 1.0, 1.0, -1.0)
    f = sign * (t**4 - 2.0 * t**3 + t) / 24.0
    spline = CubicSpline(np.arange(7.0), np.zeros(7), bc_type="natural")
    assert np.abs(spline(points) - f).max() == pytest.approx(float(spline_error_constant(2)), rel=1e-12)


# -- 7.7: amplification (B-14) -----------------------------------------------------------------------


def gaussian_layers(widths: list[int], scale: float, rng: np.random.Generator, quadratic: bool) -> list[TrainedLayer]:
    layers = []
    for n, m in itertools.pairwise(widths):
        weights, biases = rng.standard_normal((3, m, n)), rng.standard_normal((3, m))
        if quadratic:
            names = dict(zip(("wr", "wg", "wb"), scale * weights, strict=True))
            form = fan_form(**names, **dict(zip(("br", "bg", "c"), scale * biases, strict=True)))
        else:
            form = AffineForm(scale * weights[0], scale * biases[0])
        layers.append(TrainedLayer(form, relu))
    return [*layers[:-1], TrainedLayer(layers[-1].form)]


def ranges(scale: float, quadratic: bool) -> np.ndarray:
    draws = [np.random.default_rng(seed) for seed in range(30)]
    return np.array(
        [output_range(gaussian_layers([1, 10, 10, 10, 10, 1], scale, rng, quadratic), -1.0, 1.0, 201) for rng in draws]
    )


def test_b14_7_7_the_output_of_a_quadratic_network_grows_with_the_ninth_power_of_the_scale() -> None:
    conventional = {scale: ranges(scale, False) for scale in (0.01, 0.02, 0.03)}
    quadratic = {scale: ranges(scale, True) for scale in (0.01, 0.02, 0.03)}
    assert np.median(conventional[0.02] / conventional[0.01]) == pytest.approx(2**5, rel=0.02)
    assert np.median(conventional[0.03] / conventional[0.01]) == pytest.approx(3**5, rel=0.02)
    assert np.median(quadratic[0.02] / quadratic[0.01]) == pytest.approx(2**9, rel=0.15)
    assert np.median(quadratic[0.03] / quadratic[0.01]) == pytest.approx(3**9, rel=0.25)


def test_b14_ranges_below_the_rounding_of_the_outputs() -> None:
    square = QuadraticForm([[[1e-9]]], [[1e-9]], [1e9])
    assert output_range([TrainedLayer(square)], 0.0, 1.0) == pytest.approx(2e-9, rel=1e-6)
    kink = [TrainedLayer(AffineForm([[1.0], [-1.0]]), relu), TrainedLayer(AffineForm([[2.0, 1.0]]))]
    assert output_range(kink, -1.0, 1.0) == pytest.approx(2.0, rel=1e-2)


def test_b14_7_7_the_factor_a_layer_amplifies_by_is_the_root_of_two() -> None:
    """In root mean square; 2, as printed, is the triangle inequality (erratum E17)."""
    rng = np.random.default_rng(0)
    factors = {
        quadratic: np.array([amplification(gaussian_layers([20, 20], 1.0, rng, quadratic))[0] for _ in range(200)])
        for quadratic in (True, False)
    }
    typical = np.sqrt(np.mean(factors[True] ** 2) / np.mean(factors[False] ** 2))
    assert typical == pytest.approx(np.sqrt(2.0), rel=0.05)
    assert typical < 1.9


def test_b14_amplification_bounds_the_gradient_at_zero() -> None:
    """Equation (32), where activations vanish: no constants but the identity in every layer."""
    rng = np.random.default_rng(3)
    layers = []
    for n, m in ((3, 4), (4, 4), (4, 2)):
        names = dict(zip(("wr", "wg", "wb"), rng.standard_normal((3, m, n)), strict=True))
        br, bg = rng.standard_normal((2, m))
        layers.append(TrainedLayer(fan_form(**names, br=br, bg=bg, c=-br * bg)))
        expected = np.linalg.norm(bg[:, None] * names["wr"] + br[:, None] * names["wg"])
        assert amplification(layers)[-1] == pytest.approx(expected, rel=1e-13)
    jacobian = input_jacobian(layers, np.zeros((1, 3)))[0]
    assert np.linalg.norm(jacobian) <= np.prod(amplification(layers))


def test_b14_the_relinear_start_amplifies_as_the_conventional_network() -> None:
    network = ReLinearNetwork([4, 8, 2], dtype=torch.float64)
    norms = [layer.wr.norm().item() for layer in network.layers]
    np.testing.assert_allclose(amplification(network.trained_layers()), norms, rtol=1e-13)


@pytest.mark.parametrize("activation", ["relu", "tanh", "identity"])
def test_b14_jacobians_of_networks(activation: str) -> None:
    network = ReLinearNetwork([3, 5, 4, 2], activation=activation, dtype=torch.float64)
    start_random(network, 0.4, torch.Generator().manual_seed(0))
    X = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = torch.stack([torch.autograd.functional.jacobian(network, x) for x in X]).numpy()
    found = input_jacobian(network.trained_layers(), X.numpy())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("H", [1, 2, 3])
def test_7_7_degree_on_a_line_is_at_most_two_to_the_depth(H: int) -> None:
    """Differences of order 2^H + 1 vanish, those of order 2^H do not: in exact arithmetic."""
    rng = np.random.default_rng(H)
    widths = [2] * (H - 1) + [1]

    def random(*shape: int) -> np.ndarray:
        return np.array([Fraction(int(v)) for v in rng.integers(-3, 4, np.prod(shape))], dtype=object).reshape(shape)

    layers = [(random(3, m, n), random(3, m)) for n, m in zip([2, *widths[:-1]], widths, strict=True)]
    point, direction = random(2), random(2) + Fraction(5)
    values = []
    for t in range(2**H + 2):
        x = point + t * direction
        for (wr, wg, wb), (br, bg, c) in layers:
            x = (wr @ x + br) * (wg @ x + bg) + wb @ (x * x) + c
        values.append(x[0])
    for _ in range(2**H):
        values = [b - a for a, b in itertools.pairwise(values)]
    assert values[0] != 0
    assert values[1] - values[0] == 0


# -- B-11: pieces ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", ["fan", "fan_compact", "parabolic", "square_act"])
def test_b11_pieces_are_the_network(family: str, seed: int) -> None:
    network = ReLinearNetwork([1, 8, 8, 8, 1], family, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    pieces = polynomial_pieces(network.trained_layers(), -2.0, 2.0)
    assert (pieces[0].low, pieces[-1].high) == (-2.0, 2.0)
    assert all(first.high == second.low for first, second in itertools.pairwise(pieces))
    for piece in pieces:
        x = np.linspace(piece.low, piece.high, 41)
        values = values_of(network, x)
        scale = max(1.0, np.abs(values).max())
        np.testing.assert_allclose(piece(x), values, rtol=0, atol=1e-9 * scale)
        powers = np.polynomial.polynomial.polyval(x, piece.coefficients)
        np.testing.assert_allclose(powers, values, rtol=0, atol=1e-8 * scale)


def test_b11_layers_of_every_system_with_relus_have_pieces_and_jacobians() -> None:
    """They share one positive part, which is how pieces know it."""
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    labels = (np.abs(X[:, 0]) < 0.5).astype(int)
    quadratic = QuadraticNetworkClassifier([("qnn", 4, "relu")], random_state=0, n_epochs=3).fit(X, labels)
    conventional = ReLUNetworkRegressor(5, n_epochs=3, random_state=0).fit(X, X[:, 0] ** 2)
    for model, values in ((quadratic, quadratic.decision_function(X)), (conventional, conventional.predict(X))):
        layers = list(model.layers_)
        pieces = polynomial_pieces(layers, -1.0, 1.0)
        found = [next(piece for piece in pieces if piece.low <= x <= piece.high)(x) for x in X[:, 0]]
        np.testing.assert_allclose(np.ravel(found), values, rtol=0, atol=1e-9 * np.abs(values).max())
        assert np.isfinite(input_jacobian(layers, X)).all()


def test_b11_pieces_of_a_spline_are_the_splines() -> None:
    spline = natural()
    pieces = polynomial_pieces(spline_network(spline).trained_layers(), spline.x[0], spline.x[-1])
    np.testing.assert_allclose([piece.low for piece in pieces], spline.x[:-1], atol=1e-9)
    for piece, column, knot in zip(pieces, spline.c.T, spline.x, strict=False):
        expected = np.poly1d(column)(np.poly1d([1.0, -knot])).coefficients[::-1]
        np.testing.assert_allclose(piece.coefficients[:4], expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
        np.testing.assert_allclose(piece.coefficients[4:], 0.0, atol=1e-10 * np.abs(expected).max())


def test_b11_neurons_that_touch_zero_or_are_dead_divide_nothing() -> None:
    touching = TrainedLayer(QuadraticForm([[[1.0]], [[-1.0]]], [[0.0], [0.0]], [0.0, -1.0]), relu)
    summed = TrainedLayer(AffineForm([[1.0, 1.0]]))
    (piece,) = polynomial_pieces([touching, summed], -2.0, 2.0)
    np.testing.assert_allclose(piece.coefficients, [0.0, 0.0, 1.0, 0.0, 0.0], atol=1e-13)
    # Two kinks that cancel are none.
    pair = TrainedLayer(AffineForm([[1.0], [-1.0]]), relu)
    difference = TrainedLayer(AffineForm([[1.0, -1.0]]))
    assert len(polynomial_pieces([pair, difference], -1.0, 1.0)) == 1
    assert len(polynomial_pieces([pair, summed], -1.0, 1.0)) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: polynomial_pieces([], 0.0, 1.0), "layers must hold at least one layer; got none"),
        (
            lambda: polynomial_pieces([TrainedLayer(AffineForm([[1.0]]), np.tanh)], 0.0, 1.0),
            "layers must have the activation relu or none, the only ones with polynomial pieces; got <ufunc 'tanh'>",
        ),
        (
            lambda: polynomial_pieces([TrainedLayer(AffineForm([[1.0, 2.0]]))], 0.0, 1.0),
            "layers must have one input and one output; got 2 and 1",
        ),
        (lambda: polynomial_pieces([TrainedLayer(AffineForm([[1.0]]))], 1.0, 0.0), "low must be below high"),
        (lambda: input_jacobian([], np.ones((1, 1))), "layers must hold at least one layer; got none"),
        (
            lambda: input_jacobian([TrainedLayer(AffineForm([[1.0]]), np.cos)], np.ones((1, 1))),
            "layers must have activations relu, tanh, sigmoid or none; got <ufunc 'cos'>",
        ),
        (lambda: output_range([TrainedLayer(AffineForm([[1.0], [2.0]]))]), "layers must end in one output; got 2"),
        (lambda: family_dimension((3,)), r"widths must be at least two numbers; got \[3\]"),
        (lambda: family_dimension((3, 0)), "widths must be an integer >= 1; got 0"),
        (lambda: dimension_bounds((3, 1), "poly2"), "family must be one of 'fan', 'square_act'; got 'poly2'"),
        (lambda: family_dimension((3, 1), "cubic"), "family must be one of .*; got 'cubic'"),
        (lambda: spline_error_constant(0), "m must be an integer >= 1; got 0"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        call()  # type: ignore[operator]
