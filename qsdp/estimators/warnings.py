"""Warnings of estimators."""

from __future__ import annotations

from qsdp._utils.validation import FloatArray, warn
from qsdp.relaxation.shortfall import WILD_RATIO, ratio_of_scales
from qsdp.result import QSDPResult

__all__ = ["warn_of_gap", "warn_of_scales"]

#: Certified gap, as a share of the objective, beyond which an estimator warns.
GAP_TO_WARN_OF = 0.5


def warn_of_gap(result: QSDPResult) -> None:
    """Warn if the certified gap is a large part of the objective because of the network, and name remedies."""
    gap = result.certificate.relative_gap
    # A relaxation that was not solved is warned of by itself, and other networks would hardly lower the gap.
    if gap <= GAP_TO_WARN_OF or result.relaxation.gap > 0.5 * result.certificate.gap:
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
    ratio = ratio_of_scales(X)
    if ratio > WILD_RATIO:
        warn(
            f"the columns of X differ in scale by a factor of {ratio:.0f}; quantized weights cannot compensate for it: "
            "use encoding='standard'"
        )
