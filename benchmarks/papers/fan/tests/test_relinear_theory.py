"""What the paper proves, corrected: pieces, splines, dimensions, amplification (B-11 to B-14, 7.5 to 7.8)."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline

from benchmarks.papers.fan import ReLinearNetwork, start_random
from benchmarks.papers.fan.dimension import PRIME, dimension_bounds, family_dimension, modular_rank
from benchmarks.papers.fan.jacobians import input_jacobian
from benchmarks.papers.fan.pieces import polynomial_pieces
from benchmarks.papers.fan.splines import spline_network
from benchmarks.papers.noel import get_family
from qsdp import QuadraticForm


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


# -- 7.7: amplification (B-14) -----------------------------------------------------------------------


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
