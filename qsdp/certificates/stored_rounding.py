"""How the rounding of statistics is stored in files of certificates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qsdp._utils.numeric import triangle_side
from qsdp._utils.validation import own, read_only
from qsdp.exceptions import StorageError
from qsdp.forms import FormMap
from qsdp.problem import TrainingProblem
from qsdp.sum_rounding import SumRounding

__all__ = ["read_rounding", "rounding_arrays"]


def rounding_arrays(problem: TrainingProblem) -> dict[str, Any]:
    """Return what bounds the rounding of statistics."""
    data = problem.weight_map
    assert isinstance(data, FormMap)
    rounding = data.rounding
    assert rounding is not None
    return {
        "rounding": rounding.gamma,
        "table": rounding.table[np.triu_indices(len(rounding.table))],
        "form_sizes": rounding.sizes * data.scale,
        "target_ratio": rounding.target_ratio,
    }


def read_rounding(arrays: dict[str, npt.NDArray[Any]], n: int, P: int) -> SumRounding:
    """Return how the statistics of a file, n rows of P entries, were rounded."""
    names = ("rounding", "table", "form_sizes", "target_ratio")
    gamma, entries, sizes, ratio = (arrays[name] for name in names)
    k = triangle_side(entries.size)
    table = np.zeros((k, k))
    if entries.shape != (k * (k + 1) // 2,) or k > n or sizes.shape != (P,) or not np.all(sizes >= 0.0):
        raise StorageError("the rounding of its sums does not fit its forms")
    table[np.triu_indices(k)] = entries
    if not (np.all(np.isfinite(table)) and np.all(table.diagonal() > 0.0) and gamma > 0.0 and ratio >= 1.0):
        raise StorageError("the rounding of its sums is no positive number, or its table is singular")
    return SumRounding(float(gamma), read_only(table), own(sizes), float(ratio))
