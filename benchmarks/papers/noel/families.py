r"""Families of quadratic neurons, each written as products and sums of a few maps of its input.

=================  =====================================================  ======================
family             z(x)                                                   parameters of a neuron
=================  =====================================================  ======================
linear             :math:`w \cdot x + b`                                  n + 1
qnn                :math:`x^T Q x + w \cdot x + b`, Q symmetric           n(n+1)/2 + n + 1
rpqnn              :math:`(w \cdot x + b)(u \cdot x + c)`                 2n + 2
fan                :math:`(w_r x + b_r)(w_g x + b_g) + w_b (x \circ x) + c`  3n + 3
fan_compact        :math:`w_r \cdot x + w_b \cdot (x \circ x) + c`        2n + 1
poly2              :math:`(w_r \cdot x + b_r)(w_g \cdot x + b_g + 1)`     2n + 2
product_linear     :math:`(w_1 \cdot x)(w_2 \cdot x) + w_3 \cdot x`       3n
power_only         :math:`w_b \cdot (x \circ x) + c`                      n + 1
form_only          :math:`x^T Q x`                                        n(n+1)/2
square_act         :math:`(w \cdot x + b)^2`                              n + 1
=================  =====================================================  ======================

"qnn" and "rpqnn" are from Noel, Muthiah-Nakarajan and Oswal; "fan" and "fan_compact" are from Fan, Li, Wang, Lai and
Wang, who call "rpqnn" parabolic and compare their networks with the others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.papers.noel.maps import COUPLINGS, AffineMap, Map, Parameters, PowerMap, QuadraticFormMap
from qsdp._utils.validation import FloatArray, check_choice, check_real
from qsdp.baselines._layers import AffineForm
from qsdp.exceptions import InvalidInputError
from qsdp.networks import QuadraticForm

__all__ = ["FAMILIES", "INITS", "Family", "check_init", "get_family", "starting_parameters"]


#: Values and caches of a family's maps.
Evaluated = list[tuple[FloatArray, FloatArray | None]]


@dataclass(frozen=True)
class Family:
    r"""A neuron :math:`z = \prod_{j \in \text{factors}} v_j + \sum_{j \notin \text{factors}} v_j` of maps :math:`v_j`.

    Parameters
    ----------
    name : str
    maps : tuple of Map
    factors : () or (i, j)
        The two affine maps that are multiplied; (i, i) is a square.
    linear_start : mapping of str to float, or None
        Values of parameters with which the layer is a linear layer of the others; None if there are none.
    identity : str or None
        Parameter that adds :math:`|x|^2` to the linear start if it is set to ones or to the identity matrix.
    why_not_linear, why_not_identity : str
        Reasons why `linear_start` and `identity` are None.
    """

    name: str
    maps: tuple[Map, ...]
    factors: tuple[()] | tuple[int, int] = ()
    linear_start: Mapping[str, float] | None = field(default_factory=dict)
    identity: str | None = None
    why_not_linear: str = ""
    why_not_identity: str = ""

    # -- size ------------------------------------------------------------------------------------------

    def shapes(self, n: int, m: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters for n inputs and m neurons."""
        return {name: shape for part in self.maps for name, shape in part.shapes(n, m).items()}

    def n_parameters(self, n: int, m: int = 1) -> int:
        """Return the number of parameters of m neurons; a symmetric matrix has n(n+1)/2."""
        shapes = self.shapes(n, m).values()
        return sum(m * n * (n + 1) // 2 if len(shape) == 3 else math.prod(shape) for shape in shapes)

    def n_cached(self, n: int, m: int) -> int:
        """Return how many numbers the backward pass of one sample needs, besides the layer's inputs and z."""
        return sum(part.n_cached(n, m) for part in self.maps) + m * len(set(self.factors))

    # -- forward and backward --------------------------------------------------------------------------

    def evaluate(self, A: FloatArray, P: Parameters) -> Evaluated:
        """Return the value and cache of every map."""
        return [part.values(A, P) for part in self.maps]

    def combine(self, values: Sequence[FloatArray]) -> FloatArray:
        """Return z of shape (..., B, m) from the values of the maps."""
        if not self.factors:
            return sum(values[1:], start=values[0])
        i, j = self.factors
        rest = [value for k, value in enumerate(values) if k not in self.factors]
        return sum(rest, start=values[i] * values[j])

    def split(self, D: FloatArray, values: Sequence[FloatArray]) -> list[FloatArray]:
        """Return the gradient with respect to the values of every map, from `D`, the gradient with respect to z."""
        E = [D] * len(self.maps)
        if self.factors:
            i, j = self.factors
            if i == j:
                E[i] = D * (values[i] + values[i])
            else:
                E[i], E[j] = D * values[j], D * values[i]
        return E

    def forward(self, A: FloatArray, P: Parameters) -> tuple[FloatArray, Evaluated]:
        """Return z for inputs (..., B, n), and the caches."""
        evaluated = self.evaluate(A, P)
        return self.combine([value for value, _ in evaluated]), evaluated

    def backward(
        self, D: FloatArray, A: FloatArray, P: Parameters, evaluated: Evaluated
    ) -> tuple[Parameters, FloatArray]:
        """Return the gradients with respect to all parameters and to the input, from `D`, the one with respect to z."""
        E = self.split(D, [value for value, _ in evaluated])
        return self.gradients(E, A), self.input_gradient(E, A, P, evaluated)

    def gradients(self, E: Sequence[FloatArray], A: FloatArray) -> Parameters:
        """Return the gradients with respect to all parameters, from those with respect to the values of the maps."""
        pairs = zip(self.maps, E, strict=True)
        return {name: gradient for part, e in pairs for name, gradient in part.gradients(e, A).items()}

    def add(self, P: Parameters, E: Sequence[FloatArray], A: FloatArray) -> None:
        """Add a step to the parameters in place; `E` are scaled gradients with respect to the values of the maps."""
        for part, e in zip(self.maps, E, strict=True):
            part.add(P, e, A)

    def input_gradient(self, E: Sequence[FloatArray], A: FloatArray, P: Parameters, evaluated: Evaluated) -> FloatArray:
        """Return the gradient with respect to the input, (..., B, n)."""
        total: FloatArray | None = None
        for part, e, (_, cache) in zip(self.maps, E, evaluated, strict=True):
            gradient = part.input_gradient(e, A, P, cache)
            total = gradient if total is None else total + gradient
        assert total is not None
        return total

    # -- conversion ------------------------------------------------------------------------------------

    def triple(self, P: Parameters) -> tuple[FloatArray | None, FloatArray, FloatArray]:
        r"""Return (Q, w, b) with :math:`z = x^T Q x + w \cdot x + b`; Q is None for a linear layer."""
        triples = [part.triple(P) for part in self.maps]
        if self.factors:
            (_, w, b), (_, u, c) = (triples[k] for k in self.factors)
            product = 0.5 * w[..., :, None] * u[..., None, :]
            square = product + np.swapaxes(product, -1, -2)
            rest = [triple for k, triple in enumerate(triples) if k not in self.factors]
            triples = [(square, c[..., None] * w + b[..., None] * u, b * c), *rest]
        matrices = [Q for Q, _, _ in triples if Q is not None]
        total: FloatArray | None = sum(matrices[1:], start=matrices[0]) if matrices else None
        linear: FloatArray = sum((w for _, w, _ in triples[1:]), start=triples[0][1])
        constant: FloatArray = sum((b for _, _, b in triples[1:]), start=triples[0][2])
        return total, linear, constant

    def to_form(self, P: Parameters) -> QuadraticForm | AffineForm:
        """Return the layer's z as C quadratic functions, or affine ones."""
        Q, w, b = self.triple(P)
        return AffineForm(w, b) if Q is None else QuadraticForm(Q, w, b)


_INDEFINITE = "a product of two affine functions is never definite for n >= 2: its quadratic part has two eigenvalues"

#: All families, with the coupling "tied" if they have a symmetric matrix.
FAMILIES = {
    family.name: family
    for family in (
        Family("linear", (AffineMap(),), why_not_identity="it has no quadratic part"),
        Family("qnn", (QuadraticFormMap(),), linear_start={"Q": 0.0}, identity="Q"),
        Family(
            "rpqnn",
            (AffineMap("W", "b"), AffineMap("U", "c")),
            (0, 1),
            linear_start={"U": 0.0, "c": 1.0},
            why_not_identity=_INDEFINITE,
        ),
        Family(
            "fan",
            (AffineMap("Wr", "br"), AffineMap("Wg", "bg"), PowerMap("Wb", "c")),
            (0, 1),
            linear_start={"Wg": 0.0, "bg": 1.0, "Wb": 0.0, "c": 0.0},
            identity="Wb",
        ),
        Family("fan_compact", (AffineMap("Wr", None), PowerMap("Wb", "c")), linear_start={"Wb": 0.0}, identity="Wb"),
        Family(
            "poly2",
            (AffineMap("Wr", "br"), AffineMap("Wg", "bg", shift=1.0)),
            (0, 1),
            linear_start={"Wg": 0.0, "bg": 0.0},
            why_not_identity=_INDEFINITE,
        ),
        Family(
            "product_linear",
            (AffineMap("W1", None), AffineMap("W2", None), AffineMap("W3", None)),
            (0, 1),
            linear_start={"W2": 0.0},
            why_not_identity=_INDEFINITE,
        ),
        Family("power_only", (PowerMap(),), linear_start={"Wb": 0.0}, identity="Wb"),
        Family("form_only", (QuadraticFormMap("Q", None, None),), linear_start={"Q": 0.0}, identity="Q"),
        Family(
            "square_act",
            (AffineMap(),),
            (0, 0),
            linear_start=None,
            why_not_linear="w = 0 and b = 0 is a stationary point of a square",
            why_not_identity="its quadratic part has rank one",
        ),
    )
}


def get_family(name: str, coupling: str = "tied") -> Family:
    """Return a family by name; "parabolic" means "rpqnn", and `coupling` applies to a symmetric matrix.

    Raises
    ------
    InvalidInputError
        There is no such family or coupling.

    Examples
    --------
    >>> from benchmarks.papers.noel import get_family
    >>> get_family("qnn").n_parameters(30, 10), get_family("rpqnn").n_parameters(30, 10)
    (4960, 620)
    """
    family = FAMILIES["rpqnn" if name == "parabolic" else check_choice("family", name, FAMILIES)]
    check_choice("coupling", coupling, COUPLINGS)
    maps = tuple(
        dataclasses.replace(part, coupling=coupling) if isinstance(part, QuadraticFormMap) else part
        for part in family.maps
    )
    return dataclasses.replace(family, maps=maps)


#: Initial values of the quadratic part.
INITS = ("random", "identity", "zero")


def check_init(family: Family, init: object, scale: object = None) -> None:
    """Raise an error if a family has no such initial value or cannot be trained from it."""
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
    r"""Return the initial parameters of m neurons with n inputs.

    Parameters
    ----------
    family : Family
    n, m : int
    rng : Generator
    init : {"random", "identity", "zero"}
        Initial value of the quadratic part. "zero" gives a linear layer: Q = 0, or the second of two factors equal to
        one. "identity" adds :math:`|x|^2`. Biases are zero, except the bias of a factor equal to one.
    scale : float, optional
        Standard deviation of all random numbers. The default is :math:`n^{-1/2}` for weights and :math:`1/n` for
        matrices and powers.
    """
    check_init(family, init, scale)
    P: Parameters = {}
    for part in family.maps:
        for name, shape in part.shapes(n, m).items():
            if len(shape) == 1:
                P[name] = np.zeros(shape)
                continue
            quadratic = name == part.weight and isinstance(part, (QuadraticFormMap, PowerMap))
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
