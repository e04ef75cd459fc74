"""Storage of statistics in files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from qsdp._utils.stored import Checks, checked, is_list, is_positive, is_text
from qsdp.block_layout import check_layout
from qsdp.exceptions import StorageError
from qsdp.networks.storage import read_archive, write_archive
from qsdp.statistics.moments import Basis, PackedSums, n_monomials, packed_size
from qsdp.statistics.sample import Rows, RowSample

__all__ = ["STATISTICS_KIND", "read_statistics", "write_statistics"]

STATISTICS_KIND = "sufficient statistics"


def _is_count(minimum: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and minimum <= value < 2**63


_HEADER: Checks = {
    "n_features": _is_count(1),
    "n_outputs": lambda value: value is None or _is_count(1)(value),
    "n_samples": _is_count(1),
    "total_weight": is_positive,
    "feature_names": lambda value: value is None or (is_list(value) and all(map(is_text, value))),
    "keep": _is_count(0),
    "random_state": _is_count(0),
    "blocks": lambda value: value is None or type(value) is dict,
    "roundings": lambda value: type(value) is float and 0.0 <= value < np.inf,
}


def write_statistics(
    path: str | os.PathLike[str],
    fields: Mapping[str, Any],
    basis: Basis,
    sums: PackedSums,
    stored: RowSample,
) -> None:
    """Write the header, the sums with their basis (not for blocks), and the sample of rows."""
    sums.fold()
    parts: dict[str, Any] = {"high": sums.high, "low": sums.low}
    if np.any(sums.excess):
        parts["excess"] = sums.excess
    fields = dict(fields)
    layout = fields["blocks"]
    if layout is None:
        parts |= {"centre": basis.centre, "exponent": basis.exponent}
    else:
        fields["blocks"] = {"sizes": layout.all_sizes, "kinds": layout.kinds, "omega": layout.all_omega}
    if stored.rows is not None:
        parts["sample"] = np.column_stack([stored.keys, stored.rows.repetitions, stored.rows.X, stored.rows.y])
    write_archive(path, STATISTICS_KIND, dict(fields), {name: part for name, part in parts.items() if part is not None})


def read_statistics(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], Basis, PackedSums, RowSample]:
    """Read and check what `write_statistics` wrote.

    Raises
    ------
    StorageError
        The file is truncated, altered or foreign.
    """
    _, header, arrays = read_archive(path, STATISTICS_KIND)
    try:
        fields = checked("header", header, _HEADER)
        d, C, names = (fields[name] for name in ("n_features", "n_outputs", "feature_names"))
        if names is not None and len(names) != d:
            raise TypeError(f"{len(names)} names for {d} columns")
        high, low, stored, excess = arrays["high"], arrays.get("low"), arrays.get("sample"), arrays.get("excess")
        if fields["blocks"] is None:
            side, basis = n_monomials(d) + (C or 1), Basis(arrays["centre"], arrays["exponent"])
        else:
            layout = fields["blocks"] = check_layout(**fields["blocks"])
            if layout.n_entries != d:
                raise TypeError(f"blocks of {layout.n_entries} entries, not {d}")
            side = d + (C or 1)
            basis = Basis.plain(side if high.shape == (packed_size(side),) else 0)
        shapes = [basis.centre.shape == basis.exponent.shape == (d + (C or 1),), high.shape == (packed_size(side),)]
        kinds = [high.dtype == basis.centre.dtype == np.float64, basis.exponent.dtype == np.int64]
        shapes += [low is None or low.shape == high.shape, (stored is None) == (fields["keep"] == 0)]
        shapes += [stored is None or stored.shape[1:] == (2 + d + (C or 1),)]
        shapes += [excess is None or excess.shape == (side,)]
        kinds += [part is None or part.dtype == np.float64 for part in (low, stored, excess)]
        if not all(shapes + kinds):
            raise TypeError("its arrays do not fit together")
        if not all(np.all(np.isfinite(part)) for part in (basis.centre, high, low, stored, excess) if part is not None):
            raise TypeError("its numbers are not finite")
        if excess is not None and np.any(excess < 0.0):
            raise TypeError("its sizes are negative")
        with np.errstate(all="ignore"):
            units = np.ldexp(1.0, basis.exponent)
        if not np.all((units > 0.0) & (units < np.inf)):
            raise TypeError("its units are not floats")
        if stored is not None and not (0 < len(stored) <= fields["keep"] and np.all(stored[:, 1] > 0.0)):
            raise TypeError("the sampled rows are too many, or have no weight")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StorageError(f"{os.fspath(path)!r} does not hold statistics: {error}") from None
    sample = RowSample(fields["keep"], fields["random_state"])
    if stored is not None:
        keys, weights, X, y = np.split(stored, [1, 2, 2 + d], axis=1)
        sample = RowSample(sample.size, sample.seed, keys[:, 0], Rows(X, y, weights[:, 0]))
    sums = PackedSums(side, high, low, roundings=fields["roundings"], excess=0.0 if excess is None else excess)
    return fields, basis, sums, sample
