r"""Random starts: weights :math:`N(0, 1/n)`, symmetric matrices :math:`(R + R^T)/2`, :math:`R \sim N(0, 1/n^2)`."""

from __future__ import annotations

import numpy as np

from qsdp._utils.validation import check_choice, check_real
from qsdp.baselines.quadratic.families import Family
from qsdp.baselines.quadratic.maps import FormMap, Parameters, PowerMap
from qsdp.exceptions import InvalidInputError

__all__ = ["INITS", "check_init", "starting_parameters"]

INITS = ("random", "identity", "zero")


def check_init(family: Family, init: object, scale: object = None) -> None:
    """Raise unless a family can start so.

    Raises
    ------
    InvalidInputError
        There is no such start, or the family cannot have it or cannot be trained from it; the message says why.
    """
    init = check_choice("init", init, INITS)
    if scale is not None:
        check_real("init_scale", scale)
    if family.name == "linear":
        return
    if init == "zero" and family.linear_start is None:
        raise InvalidInputError(f"init='zero' is not possible for {family.name!r}: {family.why_not_linear}")
    if init == "identity" and family.identity is None:
        raise InvalidInputError(f"init='identity' is not possible for {family.name!r}: {family.why_not_identity}")
    if init == "random" and scale == 0 and family.factors:
        raise InvalidInputError(
            f"init_scale must be > 0 for {family.name!r} with init='random': with both factors 0 all gradients "
            "vanish; init='zero' sets one of them to 1"
        )


def starting_parameters(
    family: Family, n: int, m: int, rng: np.random.Generator, *, init: str = "random", scale: float | None = None
) -> Parameters:
    r"""Return parameters of m neurons of n inputs.

    Parameters
    ----------
    family : Family
    n, m : int
    rng : Generator
    init : {"random", "identity", "zero"}
        Of the quadratic part. "zero" is a linear layer: Q = 0, or the second of two factors equal to one.
        "identity" adds :math:`|x|^2`. Biases are zero, except that of a factor equal to one.
    scale : float, optional
        Standard deviation of all random numbers: :math:`n^{-1/2}` for weights and :math:`1/n` for matrices and
        powers by default.
    """
    check_init(family, init, scale)
    P: Parameters = {}
    for part in family.maps:
        for name, shape in part.shapes(n, m).items():
            if len(shape) == 1:
                P[name] = np.zeros(shape)
                continue
            quadratic = name == part.weight and isinstance(part, (FormMap, PowerMap))
            usual = 1.0 / n if quadratic else n**-0.5
            drawn = rng.normal(0.0, usual if scale is None else scale, shape)
            P[name] = 0.5 * (drawn + np.swapaxes(drawn, -1, -2)) if len(shape) == 3 else drawn
    if init != "random" and family.name != "linear":
        for name, value in (family.linear_start or {}).items():
            P[name][...] = value
        if init == "identity":
            assert family.identity is not None
            P[family.identity][...] = np.eye(n) if P[family.identity].ndim == 3 else 1.0
    return P
