"""Operation count of the low-rank method."""

from __future__ import annotations

import math

from qsdp.relaxation.instance import Instance

__all__ = ["operations"]

#: Products with the data of a solve (Newton steps times conjugate gradients), and the columns of its factors: typical
#: of beta at which a network generalises. For a smaller beta the rank is higher, and other methods are better.
_PRODUCTS, _COLUMNS = 2000, 80

#: Side N below which the other methods are fast without low rank.
_FEWEST_COLUMNS = 150


def operations(instance: Instance) -> float:
    """Return about how many floating-point operations a solve takes; infinity where the method is not meant for it."""
    if instance.size < _FEWEST_COLUMNS:
        return math.inf
    thin = 8.0 * instance.map.n_rows * instance.size * min(instance.size, _COLUMNS)
    return _PRODUCTS * (thin + 30.0 * instance.size**2 * _COLUMNS) * instance.n_blocks
