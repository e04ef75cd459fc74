"""Exact representation of splines by quadratic ReLU networks, and the constants of spline interpolation."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from benchmarks.papers.noel.maps import Parameters
from qsdp._utils.validation import FloatArray, check_integer
from qsdp.baselines._torch import require_torch
from qsdp.exceptions import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from benchmarks.papers.fan.networks import ReLinearNetwork

__all__ = ["spline_error_constant", "spline_network", "spline_parameters"]


def spline_parameters(spline: scipy.interpolate.PPoly) -> list[Parameters]:
    r"""Return the layers of a Fan network, with ReLU between them, that equals a spline between its end knots.

    With pieces :math:`s_i` from knot :math:`x_i` on, :math:`Q_0 = s_0`, :math:`Q_i = s_i - s_{i-1}` and
    :math:`t_i = \mathrm{relu}(x - x_i)`,

    .. math::

        S(x) = s_0(x_0) + \sum_{i=0}^{n-1} (Q_i(x_i + t_i) - Q_i(x_i)), \qquad
        Q_i(x_i + t) - Q_i(x_i) = t\,(a_1 + a_2 t + \dots + a_d t^{d-1}).

    Layer 1 computes :math:`t_i`, layer 2 copies it and computes :math:`t_i^2`, layer 3 computes
    :math:`\pm t (a_{d-2} + a_{d-1} t + a_d t^2)`, and each later layer computes Horner's next step,
    :math:`\pm t (a_k + h)`, with both signs so that ReLU keeps the value. A spline of degree at most 3 has four layers.

    Parameters
    ----------
    spline : scipy.interpolate.PPoly
        Continuous piecewise polynomial of degree d with numbers as values, such as a `CubicSpline`.

    Notes
    -----
    Fan et al., Proposition 1; equation (16) counts :math:`s_0(x_0)` twice.
    """
    knots, rows, degree = _checked_spline(spline)
    n = len(knots) - 1
    # Coefficients of every Q_i in powers of t = x - x_i, constant term first.
    shifted = np.zeros((n, degree + 1))
    shifted[0] = rows[0]
    for i in range(1, n):
        shifted[i] = rows[i] - _recentred(rows[i - 1], knots[i] - knots[i - 1])
    identity, nothing = np.eye(n), np.zeros((n, n))
    layers = [
        _layer(wr=np.ones((n, 1)), br=-knots[:-1]),
        _layer(wr=np.vstack([identity, nothing]), wb=np.vstack([nothing, identity])),
    ]
    # The inputs of layer 3 are (t, t^2), those of the later layers (t, h+, h-).
    top = shifted[:, degree - 2 :]
    second = np.hstack([top[:, 1, None] * identity, top[:, 2, None] * identity])
    select = np.hstack([identity, nothing])
    for power in range(degree - 2, 0, -1):
        carry = power > 1
        layers.append(_horner(select, second, shifted[:, power], carry))
        select = np.hstack([identity, nothing, nothing])
        second = np.hstack([nothing, identity, -identity])
    output = np.concatenate([np.ones(n), -np.ones(n)])[None, :]
    layers.append(_layer(wr=output, br=np.array([rows[0][0]])))
    return layers


def spline_network(spline: scipy.interpolate.PPoly, *, dtype: Any = None, device: Any = None) -> ReLinearNetwork:
    """Return `spline_parameters` as a PyTorch network, in double precision by default.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from scipy.interpolate import CubicSpline
    >>> from benchmarks.papers.fan.splines import spline_network
    >>> spline = CubicSpline(np.arange(5.0), [0.0, 2.0, 1.0, 3.0, 0.0], bc_type="natural")
    >>> x = np.linspace(0.0, 4.0, 50)
    >>> outputs = spline_network(spline)(torch.as_tensor(x)[:, None])[:, 0].detach().numpy()
    >>> bool(np.abs(outputs - spline(x)).max() < 1e-12)
    True
    """
    torch = require_torch()
    from benchmarks.papers.fan.networks import ReLinearNetwork

    layers = spline_parameters(spline)
    widths = [1] + [len(layer["c"]) for layer in layers]
    network = ReLinearNetwork(widths, dtype=dtype or torch.float64, device=device)
    with torch.no_grad():
        for module, layer in zip(network.layers, layers, strict=True):
            for name, array in layer.items():
                getattr(module, name).copy_(torch.as_tensor(array))
    return network


def spline_error_constant(m: int) -> Fraction:
    r"""Return the constant of spline interpolation of degree 2m - 1, :math:`|E_{2m}| / (4^m (2m)!)`, exactly.

    .. math::

        \|f - S\|_\infty \le \frac{|E_{2m}|}{4^m (2m)!} \|f^{(2m)}\|_\infty h^{2m}

    for uniform knots at distance h; :math:`E_{2m}` is an Euler number. It is 1/8 for linear and 5/384 for cubic
    splines.

    Notes
    -----
    Fan et al., Lemma 1; equation (10) prints 0.25 for m = 1 and leaves out the derivative.

    Examples
    --------
    >>> from benchmarks.papers.fan.splines import spline_error_constant
    >>> spline_error_constant(2)
    Fraction(5, 384)
    """
    m = check_integer("m", m, minimum=1)
    euler = [1]
    for k in range(1, m + 1):
        euler.append(-sum(math.comb(2 * k, 2 * j) * euler[j] for j in range(k)))
    return Fraction(abs(euler[m]), 4**m * math.factorial(2 * m))


def _checked_spline(spline: scipy.interpolate.PPoly) -> tuple[FloatArray, FloatArray, int]:
    """Return the knots, the coefficients of the pieces (constant term first) and their degree (at least 3)."""
    if not isinstance(spline, scipy.interpolate.PPoly):
        raise InvalidTypeError(f"spline must be a scipy.interpolate.PPoly; got {type(spline).__name__}")
    coefficients, knots = np.asarray(spline.c), np.asarray(spline.x)
    if coefficients.ndim != 2 or np.iscomplexobj(coefficients):
        raise InvalidInputError(f"spline must have real numbers as values; got coefficients {coefficients.shape}")
    if np.any(np.diff(knots) <= 0.0):
        raise InvalidInputError("spline must have increasing knots")
    rows = np.zeros((len(knots) - 1, max(len(coefficients), 4)))
    rows[:, : len(coefficients)] = coefficients[::-1].T
    ends = np.array([np.polyval(row[::-1], step) for row, step in zip(rows[:-1], np.diff(knots)[:-1], strict=True)])
    jumps = np.abs(ends - rows[1:, 0])
    if np.any(jumps > 1e-9 * max(1.0, float(np.abs(rows[:, 0]).max()))):
        raise InvalidInputError("spline must be continuous, as networks are")
    return knots.astype(np.float64), rows, rows.shape[1] - 1


def _recentred(coefficients: FloatArray, step: float) -> FloatArray:
    """Return the coefficients in powers of t - step of a polynomial given in powers of t."""
    shifted = np.asarray(
        np.polynomial.Polynomial(coefficients)(np.polynomial.Polynomial([step, 1.0])).coef, dtype=float
    )
    return np.pad(shifted, (0, len(coefficients) - len(shifted)))


def _horner(select: FloatArray, second: FloatArray, constant: FloatArray, carry: bool) -> Parameters:
    """Return the neurons +-t (constant + second), preceded by copies of t if later layers need them."""
    n, nothing = len(select), np.zeros_like(select)
    copies = [select] if carry else []
    return _layer(
        wr=np.vstack([*copies, select, -select]),
        wg=np.vstack([nothing] * len(copies) + [second, second]),
        bg=np.concatenate([np.ones(n)] * len(copies) + [constant, constant]),
    )


def _layer(
    wr: FloatArray,
    br: FloatArray | None = None,
    wg: FloatArray | None = None,
    bg: FloatArray | None = None,
    wb: FloatArray | None = None,
) -> Parameters:
    """Return Fan neurons; parameters that are not given are as in a conventional neuron."""
    m = len(wr)
    return {
        "wr": wr,
        "br": np.zeros(m) if br is None else br,
        "wg": np.zeros_like(wr) if wg is None else wg,
        "bg": np.ones(m) if bg is None else bg,
        "wb": np.zeros_like(wr) if wb is None else wb,
        "c": np.zeros(m),
    }
