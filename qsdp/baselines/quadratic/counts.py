"""Parameters, multiplications and memory of layers: counted here, and as the paper prints them."""

from __future__ import annotations

from qsdp._validation import check_choice, check_integer
from qsdp.baselines.quadratic.families import get_family
from qsdp.baselines.quadratic.maps import Operations
from qsdp.exceptions import InvalidInputError

__all__ = [
    "count_cached",
    "count_operations",
    "count_parameters",
    "printed_extra_memory",
    "printed_extra_operations",
]


def count_parameters(family: str, n: int, m: int) -> int:
    """Return the number of parameters of a layer of m neurons with n inputs.

    Examples
    --------
    A network 784 - 30 - 10 with a linear hidden layer:

    >>> from qsdp.baselines.quadratic import count_parameters
    >>> [count_parameters("linear", 784, 30) + count_parameters(head, 30, 10) for head in ("linear", "qnn", "rpqnn")]
    [23860, 28510, 24170]
    """
    return get_family(family).n_parameters(*_sizes(n, m))


def count_operations(family: str, n: int, m: int) -> Operations:
    """Return the multiplications of a layer in one step of per-sample descent.

    Of the algorithms as implemented: the rate is multiplied once with every delta, doubling is an addition, and the
    delta recursion includes the product with g' of the n inputs.
    """
    return get_family(family).operations(*_sizes(n, m))


def count_cached(family: str, n: int, m: int) -> int:
    """Return the numbers kept for the backward pass of one sample, besides the inputs and z of the layer."""
    return get_family(family).n_cached(*_sizes(n, m))


def printed_extra_operations(family: str, n: int, m: int) -> Operations:
    """Return Table 1 of the paper: multiplications of a layer beyond those of a linear one.

    Notes
    -----
    It assumes that one triangle of Q is stored, which the algorithms printed beside it do not allow.
    """
    n, m = _sizes(n, m)
    if _printed(family) == "qnn":
        products = m * n * (n + 1) // 2 + m * n
        return Operations(products, m * n, products)
    return Operations(m * n + m, m * n + 2 * m, 3 * m * n - n + 7 * m)


def printed_extra_memory(family: str, n: int, m: int) -> int:
    """Return Table 2 of the paper: numbers of a layer beyond those of a linear one."""
    n, m = _sizes(n, m)
    return m * n * (n + 1) // 2 + 2 * m * n if _printed(family) == "qnn" else m * n + 3 * m


def _printed(family: str) -> str:
    if family not in {"qnn", "rpqnn"}:
        get_family(family)
        raise InvalidInputError(f"family must be 'qnn' or 'rpqnn', of which the paper prints counts; got {family!r}")
    return check_choice("family", family, ["qnn", "rpqnn"])


def _sizes(n: int, m: int) -> tuple[int, int]:
    return check_integer("n", n, minimum=1), check_integer("m", m, minimum=1)
