"""Warnings of estimators."""

from __future__ import annotations

import numpy as np

from qsdp._utils.validation import FloatArray, warn
from qsdp.pipeline import QSDPResult

__all__ = ["warn_of_gap", "warn_of_scales"]

#: Certified gap, as a share of the objective, beyond which an estimator warns.
GAP_TO_WARN_OF = 0.5

#: Ratio of column deviations beyond which standardising is suggested.
_WILD_RATIO = 100.0


def warn_of_gap(result: QSDPResult) -> None:
    """Warn if the certified gap is a large part of the objective, and name remedies."""
    gap = result.certificate.relative_gap
    if gap <= GAP_TO_WARN_OF:
        return
    remedies = ["more neurons", "a larger beta"]
    if result.refine == "none":
        remedies.insert(0, "refine='polish'")
    warn(
        f"the certified gap is {100 * gap:.0f} % of the objective: the network may be far from the best one; "
        f"{', '.join(remedies[:-1])} or {remedies[-1]} makes it smaller"
    )


def warn_of_scales(X: FloatArray) -> None:
    """Warn if columns differ so much in scale that quantized weights cannot make up for it."""
    # Divide first, so that squares of extreme values stay finite; later checks refuse such values.
    largest = float(np.abs(X).max()) or 1.0
    varying = X.max(axis=0) > X.min(axis=0)
    deviations = np.std(X[:, varying] / largest, axis=0)
    # A scaler turns a constant column into rounding errors, which do not count as a column of small scale.
    deviations = deviations[deviations > 1e-6 * np.abs(X[:, varying] / largest).max(axis=0, initial=0.0)]
    if deviations.size and deviations.max() > _WILD_RATIO * deviations.min() > 0.0:
        warn(
            f"the columns of X differ in scale by a factor of {deviations.max() / deviations.min():.0f}; quantized "
            "weights cannot compensate for it: use encoding='standard'"
        )
