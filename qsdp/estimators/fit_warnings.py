"""Warnings of estimators."""

from __future__ import annotations

from qsdp._utils import deadline
from qsdp._utils.summary import format_percent
from qsdp._utils.tuning import FAR
from qsdp._utils.validation import FloatArray, warn
from qsdp.pipeline import QSDPResult
from qsdp.relaxation.solution import ratio_of_scales

__all__ = ["warn_of_gap", "warn_of_scales"]

#: Certified gap, as a share of the objective, beyond which an estimator warns.
GAP_TO_WARN_OF = 0.5


def warn_of_gap(result: QSDPResult) -> None:
    """Warn, with remedies, if the certified gap is a large fraction of the objective and the network causes it."""
    gap, relaxation = result.certificate.relative_gap, result.relaxation
    # A relaxation that was not solved has a warning of its own. Other networks would then hardly lower the gap, or
    # there was no time left for them either.
    of_relaxation = relaxation.solver_status == "time limit" or relaxation.gap > 0.5 * result.certificate.gap
    if gap <= GAP_TO_WARN_OF or of_relaxation:
        return
    refined = result.refine != "none"
    if refined and deadline.over():
        remedy = f"the time limit ended its refinement ({result.refine}); allow more time with time_limit"
    else:
        remedy = f"{'' if refined else 'refine=' + repr('polish') + ', '}more neurons or a larger beta makes it smaller"
    warn(
        f"the certified gap is {format_percent(gap, '.0f')} of the objective: the network may be far from the best "
        f"one; {remedy}"
    )


def warn_of_scales(X: FloatArray) -> None:
    """Warn if the scales of columns differ too much for quantized weights to compensate."""
    ratio = ratio_of_scales(X)
    if ratio > FAR:
        warn(
            f"the columns of X differ in scale by a factor of {ratio:.0f}; quantized weights cannot compensate for it: "
            "use encoding='standard'"
        )
