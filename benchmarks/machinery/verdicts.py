"""Verdicts on claims: from paired differences with confidence intervals, or from every case of an exact claim.

A *statistical* claim says that one measurement is larger than another, by split or seed. At least `REPETITIONS` pairs
are tested by Student's t, on differences, or on logarithms of ratios where scales differ by orders of magnitude. The p
is two-sided, and Holm's correction is over all statistical claims of one family (one paper; the package's own targets;
checks of theory). A claim is "supported" or "contradicted" if the corrected p is at most `LEVEL`, else "inconclusive".
Wilcoxon's signed-rank test is no alternative: ten pairs give a p of at least 0.002, too large for Holm's correction
over 26 claims.

A claim of several parts is supported if every part is (by the largest p), and contradicted if some part is (by the
smallest p times the number of parts).

An *exact* claim (an identity, a count, a limit in every case) is supported if it holds in each of its cases, and
contradicted by a single case in which it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from benchmarks.runner._report import holm, percent
from qsdp._utils.validation import check_choice
from qsdp.exceptions import InvalidInputError

__all__ = [
    *("KINDS", "REPETITIONS", "VERDICTS", "Claim", "Evidence", "compare", "corrected", "either", "exact"),
    *("judged", "not_measured", "paired_claim", "share", "within"),
]

#: Possible outcomes of a claim.
VERDICTS = ("supported", "inconclusive", "contradicted", "not measured")
#: Smallest number of splits or seeds for a verdict.
REPETITIONS = 10
#: Largest p of a decided claim, after Holm's correction.
LEVEL = 0.05
#: Largest number of parts of a claim that are listed with their measurements.
MAX_SHOWN = 8
#: Largest number of parts or cases that are listed because they do not hold; tables have all of them.
MAX_LISTED = 12
#: Kinds of claims that are counted separately.
KINDS = {"paper": "claims of papers", "target": "targets of the package", "theory": "checks of theory"}
#: Beginnings of the sources of claims.
PAPERS = (
    "Bartan, Pilanci",
    "Noel, Muthiah-Nakarajan, Oswal",
    "Fan et al.",
    "Tomic, Matos-Carvalho, Beko 2024",
    "Zhang et al. 2021",
    "Susskind et al.",
)
#: The folders of papers in `benchmarks/papers/`.
ROOMS = {
    "Bartan, Pilanci": "bartan_pilanci",
    "Noel, Muthiah-Nakarajan, Oswal": "noel",
    "Fan et al.": "fan",
    "Tomic, Matos-Carvalho, Beko 2024": "tomic",
    "Zhang et al. 2021": "zhang",
}
THEORY = "Theory: "

Pairs = Mapping[Any, float]


@dataclass(frozen=True)
class Evidence:
    """Evidence of repetitions for or against an inequality."""

    #: One-sided p for the inequality, and for its opposite.
    p_for: float = 1.0
    p_against: float = 1.0
    #: Effect with its 95 % confidence interval.
    number: str = ""
    #: Number of repetitions.
    count: int = 0
    #: Reason why there is no evidence; empty if there is some.
    missing: str = ""

    @property
    def p(self) -> float:
        """Two-sided p."""
        return min(1.0, 2.0 * min(self.p_for, self.p_against))


@dataclass(frozen=True)
class Claim:
    """Claim, and its verdict according to the measurements."""

    #: Paper and figure, table or section; sources of checks of theory begin with "Theory: ".
    source: str
    #: The claim, in our own words.
    statement: str
    #: One of `VERDICTS`, computed from the records.
    verdict: str
    #: The measurements behind the verdict.
    figures: str
    #: What is missing, or which parts or cases do not hold.
    why: str = ""
    #: How it is judged, "statistical" or "exact"; empty if not measured.
    basis: str = ""
    #: The main measurement, in short.
    number: str = ""
    #: Evidence of a statistical claim.
    evidence: Evidence | None = None
    #: Number of cases behind the verdict, if some are missing; set by `claims_of`.
    so_far: str = ""
    #: Text shared by claims that a summary shows in one row, and the case of this one.
    group: str = ""
    case: str = ""

    def __post_init__(self) -> None:
        check_choice("verdict", self.verdict, VERDICTS)
        check_choice("basis", self.basis, ("statistical", "exact", ""))
        if self.verdict == "not measured" and not self.why:
            raise InvalidInputError(f"a claim that is not measured must say why; {self.statement!r} does not")

    @property
    def judged(self) -> str:
        """Verdict, with the number of cases behind it if some are missing."""
        return f"{self.verdict} ({self.so_far})" if self.so_far else self.verdict

    @property
    def kind(self) -> str:
        """Kind of the claim, a key of `KINDS`."""
        if self.source.startswith(THEORY):
            return "theory"
        return "paper" if self.source.startswith(PAPERS) else "target"

    @property
    def family(self) -> str:
        """Paper of the claim, or another group that shares Holm's correction."""
        return next((paper for paper in PAPERS if self.source.startswith(paper)), KINDS[self.kind])


def compare(
    ours: Pairs, theirs: Pairs | float, *, less: bool = False, log: bool = False, margin: float = 0.0, unit: float = 1.0
) -> Evidence:
    """Return the evidence that a measurement by split or seed exceeds another, or a number; is below it if `less`.

    With `log`, ratios count instead of differences. `margin` is the required advantage (with `log` its logarithm); a
    negative one allows a disadvantage. `unit` multiplies differences in the text, such as 100 for points.
    """
    theirs = theirs if isinstance(theirs, Mapping) else dict.fromkeys(ours, theirs)
    pairs = [key for key in ours if key in theirs]
    every = len(set(ours) | set(theirs))
    if len(pairs) < max(every, REPETITIONS):
        return Evidence(count=len(pairs), missing=f"{len(pairs)} of {max(every, REPETITIONS)} repetitions")
    a, b = (np.array([measured[key] for key in pairs], dtype=float) for measured in (ours, theirs))
    with np.errstate(all="ignore"):
        differences = np.log(a) - np.log(b) if log else a - b
    if not np.all(np.isfinite(differences)):
        return Evidence(count=len(pairs), missing="a measurement is not finite")
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) / len(pairs) ** 0.5
    half = float(scipy.stats.t.ppf(0.975, len(pairs) - 1)) * error
    ahead = (-mean if less else mean) - margin
    # Differences in rounding count as none.
    error = 0.0 if error < 1e-14 * max(1.0, abs(mean)) else error
    t = ahead / error if error else np.sign(ahead) * np.inf if abs(ahead) > 1e-14 else 0.0
    ends = np.array([mean, mean - half, mean + half])
    low, middle, high = sorted(np.exp(ends) if log else unit * ends)
    number = f"ratio {middle:.3g} ({low:.3g} to {high:.3g})" if log else f"{middle:+.3g} ({low:+.3g} to {high:+.3g})"
    number += " points" if unit == 100.0 and not log else ""
    return Evidence(
        float(scipy.stats.t.sf(t, len(pairs) - 1)), float(scipy.stats.t.cdf(t, len(pairs) - 1)), number, len(pairs)
    )


def within(ours: Pairs, target: Pairs | float, band: float, *, log: bool = False, unit: float = 1.0) -> Evidence:
    """Return the evidence that the mean is within a band around a target (two one-sided tests)."""
    parts = [compare(ours, target, less=less, log=log, margin=-band, unit=unit) for less in (False, True)]
    return together(parts, parts[0].number)


def share(holds: Iterable[bool], level: float, *, less: bool = False) -> Evidence:
    """Return the evidence that something happens in more than a share of repetitions, or in fewer if `less`."""
    happened = list(holds)
    count, total = sum(map(bool, happened)), len(happened)
    if total < REPETITIONS:
        return Evidence(count=total, missing=f"{total} of {REPETITIONS} repetitions")
    more, fewer = (float(scipy.stats.binomtest(count, total, level, side).pvalue) for side in ("greater", "less"))
    return Evidence(*((fewer, more) if less else (more, fewer)), f"{count} of {total}", total)


def together(parts: Sequence[Evidence], number: str = "") -> Evidence:
    """Return the evidence that all parts hold: the weakest evidence for them, and the strongest against."""
    missing = next((part.missing for part in parts if part.missing), "" if parts else "none of its cases has a record")
    if missing:
        return Evidence(count=min((part.count for part in parts), default=0), missing=missing)
    against = min(1.0, len(parts) * min(part.p_against for part in parts))
    return Evidence(max(part.p_for for part in parts), against, number, min(part.count for part in parts))


def either(parts: Sequence[Evidence]) -> Evidence:
    """Return the evidence that at least one part holds."""
    missing = next((part.missing for part in parts if part.missing), "")
    if missing:
        return Evidence(missing=missing)
    p_for = min(1.0, len(parts) * min(part.p_for for part in parts))
    number = " / ".join(part.number for part in parts)
    return Evidence(p_for, max(part.p_against for part in parts), number, min(part.count for part in parts))


def not_measured(source: str, statement: str, why: str = "none of its cases has a record", figures: str = "") -> Claim:
    """Return the claim with the verdict "not measured"."""
    return Claim(source, statement, "not measured", figures, why)


def judged(source: str, statement: str, parts: Evidence | Mapping[str, Evidence], figures: str = "") -> Claim:
    """Return a statistical claim: one inequality, or several by name, which must all hold.

    If `figures` is empty, up to `MAX_SHOWN` parts show theirs.
    """
    named = {} if isinstance(parts, Evidence) else dict(parts)
    evidence = parts if isinstance(parts, Evidence) else together(list(parts.values()))
    if evidence.missing:
        return not_measured(source, statement, evidence.missing, figures)
    open_ = [f"{name}: {part.number}" for name, part in named.items() if part.p_for > LEVEL / 2]
    number = evidence.number or (f"{len(named) - len(open_)} of {len(named)} parts hold" if len(named) > 1 else "")
    number = number or next((part.number for part in named.values()), "")
    if not figures and len(named) <= MAX_SHOWN:
        figures = "; ".join(f"{name}: {part.number}" for name, part in named.items())
    shown = "; ".join(text for text in (figures, evidence.number, f"{evidence.count} repetitions") if text)
    claim = Claim(source, statement, "inconclusive", shown, listed(open_), "statistical", number, evidence)
    return decided(claim, evidence.p)


def listed(parts: Sequence[str]) -> str:
    """Return the first parts of a claim, and how many more there are."""
    more = [f"and {len(parts) - MAX_LISTED} more"] if len(parts) > MAX_LISTED else []
    return "; ".join([*parts[:MAX_LISTED], *more])


def exact(
    source: str,
    statement: str,
    holds: Mapping[str, bool] | Iterable[bool],
    figures: str = "",
    *,
    needed: int = 1,
    number: str = "",
) -> Claim:
    """Return an exact claim over cases, named or not, of which at least `needed` must be known to support it."""
    named = isinstance(holds, Mapping)
    cases = dict(holds) if isinstance(holds, Mapping) else dict(enumerate(holds))
    failed = [str(name) for name, held in cases.items() if not held]
    if len(cases) < needed and not failed:
        why = f"{len(cases)} of {needed} cases" if cases else "none of its cases has a record"
        return not_measured(source, statement, why, figures)
    counted = f"{len(cases) - len(failed)} of {len(cases)}"
    why = f"not {listed(failed)}" if named and failed else ""
    verdict = "contradicted" if failed else "supported"
    shown = "; ".join(text for text in (figures, f"{counted} cases" if len(cases) > 1 else "") if text)
    return Claim(source, statement, verdict, shown, why, "exact", number or (counted if len(cases) > 1 else figures))


def decided(claim: Claim, p: float) -> Claim:
    """Return a statistical claim with the verdict for a given p."""
    evidence = claim.evidence
    assert evidence is not None
    side = "supported" if evidence.p_for < evidence.p_against else "contradicted"
    return replace(claim, verdict=side if p <= LEVEL else "inconclusive")


def corrected(claims: Sequence[Claim]) -> list[Claim]:
    """Return claims with verdicts after Holm's correction over the statistical claims of each family."""
    found = list(claims)
    for family in dict.fromkeys(claim.family for claim in claims):
        places = [k for k, claim in enumerate(claims) if claim.evidence is not None and claim.family == family]
        for k, p in zip(places, holm([found[k].evidence.p for k in places]), strict=True):  # type: ignore[union-attr]
            figures = f"{found[k].figures}; p = {p:.2g} of {len(places)}"
            found[k] = replace(decided(found[k], p), figures=figures)
    return found


def paired_claim(
    source: str,
    statement: str,
    ours: Pairs,
    theirs: Pairs,
    *,
    names: tuple[str, str],
    show: Callable[[np.ndarray], str] | None = None,
    less: bool = False,
    log: bool = False,
    margin: float = 0.0,
) -> Claim:
    """Return the claim that the first of two measurements is larger, with a text of both; see `compare`.

    Measurements are shares, shown in percent, unless `show` formats them.
    """
    evidence = compare(ours, theirs, less=less, log=log, margin=margin, unit=1.0 if show else 100.0)
    show = show or percent
    if not ours or not theirs:
        return not_measured(source, statement, evidence.missing)
    shown = (show(np.array(list(measured.values()), dtype=float)) for measured in (ours, theirs))
    return judged(source, statement, evidence, ", ".join(f"{a} {b}" for a, b in zip(names, shown, strict=True)))
