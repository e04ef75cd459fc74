"""Counts of parameters and multiplications of layers, as implemented here and as printed in the paper."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.papers.noel.families import get_family
from benchmarks.papers.noel.maps import Map, PowerMap, QuadraticFormMap
from benchmarks.papers.noel.network import QuadraticNetwork
from qsdp._utils.validation import check_integer
from qsdp.exceptions import InvalidInputError

__all__ = [
    "Operations",
    "count_operations",
    "count_parameters",
    "network_operations",
    "printed_extra_operations",
    "printed_total_operations",
]


@dataclass(frozen=True)
class Operations:
    """Multiplications for one sample.

    Attributes
    ----------
    forward, delta, update : int
        Multiplications of the forward pass, the delta recursion and the parameter update.
    """

    forward: int = 0
    delta: int = 0
    update: int = 0

    @property
    def total(self) -> int:
        """Multiplications of one training step."""
        return self.forward + self.delta + self.update

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.forward + other.forward, self.delta + other.delta, self.update + other.update)


def count_parameters(family: str, n: int, m: int) -> int:
    """Return the number of parameters of a layer of m neurons with n inputs.

    Examples
    --------
    A network 784 - 30 - 10 with a linear hidden layer:

    >>> from benchmarks.papers.noel.counts import count_parameters
    >>> [count_parameters("linear", 784, 30) + count_parameters(head, 30, 10) for head in ("linear", "qnn", "rpqnn")]
    [23860, 28510, 24170]
    """
    return get_family(family).n_parameters(*_sizes(n, m))


def count_operations(family: str, n: int, m: int) -> Operations:
    """Return the multiplications of a layer in one step of per-sample descent.

    The algorithms are counted as implemented: every delta is multiplied by the learning rate once, doubling is an
    addition, and the delta recursion includes the product with g' of the n inputs.
    """
    n, m = _sizes(n, m)
    chosen, total = get_family(family), Operations(delta=n)
    for part in chosen.maps:
        total += _operations_of(part, n, m)
    if chosen.factors:
        # The square of one map needs one product, a product of two maps needs two; doubling is an addition.
        total += Operations(forward=m, delta=m * len(set(chosen.factors)))
    return total


def _operations_of(part: Map, n: int, m: int) -> Operations:
    """Return the operations of one map; each value is multiplied by the learning rate once."""
    if isinstance(part, QuadraticFormMap):
        with_linear = m * n if part.linear is not None else 0
        return Operations(m * n * n + m * n, m * n, with_linear + m + (m + 1) * n * (n + 1) // 2)
    # A power map needs another n squares, and n products with the inputs.
    powers = n if isinstance(part, PowerMap) else 0
    return Operations(m * n + powers, m * n + powers, m * n + m)


def network_operations(network: QuadraticNetwork) -> Operations:
    """Return the multiplications of one step on one sample; the first layer has no delta recursion."""
    total = Operations()
    for number, layer in enumerate(network.layers):
        count = count_operations(layer.family.name, *layer.size)
        total += count if number else Operations(count.forward, 0, count.update)
    return total


def printed_extra_operations(family: str, n: int, m: int) -> Operations:
    """Return the multiplications of a layer beyond those of a linear layer, as in Table 1 of the paper.

    Notes
    -----
    The table assumes that one triangle of Q is stored, which the algorithms printed with it do not allow.
    """
    n, m = _sizes(n, m)
    if _printed(family) == "qnn":
        products = m * n * (n + 1) // 2 + m * n
        return Operations(products, m * n, products)
    return Operations(m * n + m, m * n + 2 * m, 3 * m * n - n + 7 * m)


def printed_total_operations(family: str, widths: Sequence[int]) -> tuple[int, int]:
    r"""Return the multiplications of a step on one sample, forward and backward with update, by A(72) to A(75).

    .. math::

        \text{linear}: \sum_{l=1}^L m n, \; \sum_{l=2}^L (2mn + m + 2n), \qquad
        \text{rpqnn}: \sum_{l=1}^L (2mn + m), \; \sum_{l=2}^L (4mn + 6m + n)

    for n inputs and m neurons of layer l.

    Parameters
    ----------
    family : {"linear", "rpqnn"}
        Family of all layers.
    widths : sequence of int
        Number of inputs, then number of neurons of every layer.

    Notes
    -----
    The paper calls the sums for "rpqnn" extra operations, but they are totals. The sums of the backward pass begin at
    the second layer although the first layer is updated, too, and they do not match the cost of the paper's algorithms,
    which `network_operations` counts.
    """
    family = get_family(family).name
    if family not in {"linear", "rpqnn"}:
        raise InvalidInputError(f"family must be 'linear' or 'rpqnn', of which the paper prints totals; got {family!r}")
    sizes = [check_integer("widths", width, minimum=1) for width in widths]
    layers = list(itertools.pairwise(sizes))
    if family == "linear":
        return sum(m * n for n, m in layers), sum(2 * m * n + m + 2 * n for n, m in layers[1:])
    return sum(2 * m * n + m for n, m in layers), sum(4 * m * n + 6 * m + n for n, m in layers[1:])


def _printed(family: str) -> str:
    name = get_family(family).name
    if name not in {"qnn", "rpqnn"}:
        raise InvalidInputError(f"family must be 'qnn' or 'rpqnn', of which the paper prints counts; got {family!r}")
    return name


def _sizes(n: int, m: int) -> tuple[int, int]:
    return check_integer("n", n, minimum=1), check_integer("m", m, minimum=1)
