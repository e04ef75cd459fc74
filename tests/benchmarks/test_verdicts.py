"""Verdicts: paired differences, Holm's correction over a paper, exact claims, and what is not measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks.machinery.verdicts import (
    Claim,
    Evidence,
    compare,
    corrected,
    either,
    exact,
    judged,
    not_measured,
)

NOISE = 0.01 * np.array([1, -1, 2, -2, 1, -1, 2, -2, 3, -3])


def verdict(evidence: Evidence | dict[str, Evidence]) -> str:
    return judged("source", "statement", evidence).verdict


def numbered(values: Any) -> dict[int, float]:
    return {number: float(value) for number, value in enumerate(values)}


def test_the_p_is_that_of_students_t() -> None:
    shifted = NOISE + 0.02
    evidence = compare(numbered(shifted), 0.0)
    expected = stats.ttest_1samp(shifted, 0.0)
    assert evidence.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert evidence.number == f"{shifted.mean():+.3g} ({interval.low:+.3g} to {interval.high:+.3g})"


def test_differences_decide_on_either_side_beyond_their_noise() -> None:
    assert verdict(compare(numbered(NOISE + 0.02), 0.0)) == "supported"
    assert verdict(compare(numbered(NOISE + 0.005), 0.0)) == "inconclusive"
    assert verdict(compare(numbered(NOISE - 0.02), 0.0)) == "contradicted"
    assert verdict(compare(numbered(NOISE - 0.02), 0.0, less=True)) == "supported"
    assert verdict(compare(numbered(np.zeros(10)), 0.0)) == "inconclusive"
    assert verdict(compare(numbered(np.full(10, 0.125)), 0.0)) == "supported"


def test_margins_are_what_has_to_be_exceeded() -> None:
    ahead = numbered(NOISE + 0.05)
    assert verdict(compare(ahead, 0.0, margin=0.02)) == "supported"
    assert verdict(compare(ahead, 0.0, margin=0.1)) == "contradicted"
    assert verdict(compare(numbered(NOISE), 0.0, margin=-0.05)) == "supported"
    eleven = numbered(11.0 + NOISE)
    assert verdict(compare(eleven, 1.0, log=True, margin=np.log(1000.0))) == "contradicted", "11 is not partly 1000"
    assert verdict(compare(eleven, 1.0, log=True, margin=np.log(10.0))) == "supported"


def test_ratios_are_compared_by_logarithms() -> None:
    # One huge ratio outweighs nine small ones in the mean of differences, not of logarithms.
    ours, theirs = dict.fromkeys(range(10), 1.0), dict.fromkeys(range(9), 2.0) | {9: 100.0}
    assert verdict(compare(ours, theirs, less=True)) == "inconclusive"
    assert verdict(compare(ours, theirs, less=True, log=True)) == "supported"


def test_a_claim_of_parts_is_its_weakest_and_any_part_contradicts() -> None:
    good, bad, unclear = (compare(numbered(NOISE + shift), 0.0) for shift in (0.05, -0.05, 0.0))
    assert verdict({"a": good, "b": good}) == "supported"
    assert verdict({"a": good, "b": unclear}) == "inconclusive"
    claim = judged("s", "c", {"a": good, "b": bad})
    assert (claim.verdict, claim.why) == ("contradicted", f"b: {bad.number}")
    assert verdict({"a": good, "b": Evidence(missing="5 of 10 repetitions")}) == "not measured"
    assert verdict({}) == "not measured"
    assert verdict(either([bad, good])) == "supported"
    assert verdict(either([bad, bad])) == "contradicted"


def test_exact_claims_hold_in_every_case_or_do_not() -> None:
    assert exact("s", "c", [True, True]).verdict == "supported"
    claim = exact("s", "c", {"iris": True, "wine": False})
    assert (claim.verdict, claim.why, claim.number) == ("contradicted", "not wine", "1 of 2")
    assert exact("s", "c", []).verdict == "not measured"
    assert exact("s", "c", [True], needed=2).why == "1 of 2 cases"
    assert exact("s", "c", [False], needed=2).verdict == "contradicted", "one counterexample is enough"


def test_holms_correction_is_over_the_claims_of_one_paper() -> None:
    def claims(source: str, shifts: list[float]) -> list[Claim]:
        return [judged(source, f"{k}", compare(numbered(NOISE + s), 0.0)) for k, s in enumerate(shifts)]

    borderline = 2.4 * NOISE.std(ddof=1) / np.sqrt(10)
    papers = claims("Fan et al., Fig. 1", [borderline, 0.5, 0.0])
    other = claims("Zhang et al. 2021, Fig. 2a", [borderline])
    assert [claim.verdict for claim in papers + other] == ["supported", "supported", "inconclusive", "supported"]
    found = corrected([*papers, *other, exact("Fan et al., Table V", "sizes", [True]), not_measured("Fan et al.", "-")])
    verdicts = [claim.verdict for claim in found]
    # 0.04 is the second smallest of three p: twice as much is too much; the other paper's is alone.
    assert verdicts == ["inconclusive", "supported", "inconclusive", "supported", "supported", "not measured"]
    p = sorted(claim.evidence.p for claim in papers if claim.evidence is not None)
    assert f"p = {2.0 * p[1]:.2g} of 3" in found[0].figures


def test_many_cases_that_do_not_hold_are_counted_after_the_first() -> None:
    made = exact("Euclid", "all are odd", {f"n = {n}": bool(n % 2) for n in range(40)})
    assert made.why == "not " + "; ".join(f"n = {n}" for n in range(0, 24, 2)) + "; and 8 more"
