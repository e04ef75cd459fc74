"""Claims of experiments: each has a row on the page before anything is measured, and says if cases are missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks import __main__ as main
from benchmarks.machinery.report import Study, claims_of, markdown_of
from benchmarks.machinery.verdicts import Claim, exact
from benchmarks.runner import Record, Results


@pytest.mark.parametrize("name", main.topics())
def test_every_experiment_names_its_claims_before_anything_is_measured(name: str) -> None:
    claims = main.module_of(name).EXPERIMENT.claims([])
    assert claims, "no claim at all"
    for claim in claims:
        assert claim.statement
        assert claim.source
    assert any(claim.verdict == "not measured" for claim in claims)
    assert not [claim for claim in claims if claim.verdict in {"supported", "contradicted", "inconclusive"}]


def cases(quick: bool) -> list[dict[str, Any]]:
    return [{"n": n} for n in range(6)]


def claims(records: list[Record]) -> list[Claim]:
    right = all(record.measured["square"] == record.case["n"] ** 2 for record in records)
    return [exact("Euclid", "squares are squares", [right] if records else [], f"{len(records)}")]


SQUARES = Study("squares", "Squares", "Euclid", cases, lambda case: {}, lambda records: [], claims=claims)


def squares(count: int) -> Results:
    records = [Record({"n": n}, {"square": n**2}, 0.1) for n in range(count)]
    machine = {"processor": "abacus", "cores": 1, "python": "3", "versions": {}, "date": "2026-01-01"}
    return Results("squares", 1, records=records, machines=[machine])


def test_claims_from_a_part_of_the_cases_say_so() -> None:
    assert [claim.judged for claim in claims_of(SQUARES, squares(4))] == ["supported (4 of 6 cases so far)"]
    assert "| squares are squares | supported (4 of 6 cases so far) | 4 |" in markdown_of(SQUARES, squares(4))
    assert [claim.judged for claim in claims_of(SQUARES, squares(6))] == ["supported"]
    unsaid = replace(SQUARES, claims=lambda records: [Claim("Euclid", "primes", "not measured", "", "not yet")])
    assert [claim.judged for claim in claims_of(unsaid, squares(4))] == ["not measured"]


def test_claims_that_differ_in_a_case_alone_share_a_row() -> None:
    def numbered(records: list[Record]) -> list[Claim]:
        claims = [exact("Euclid", f"{n} is prime", [n == 3], f"{n}") for n in (3, 4)]
        return [replace(claim, group="primes", case=f"n = {n}") for n, claim in zip((3, 4), claims, strict=True)]

    page = markdown_of(replace(SQUARES, claims=numbered), squares(6), "squares.png", answer="It is so.")
    assert page.startswith("# Squares\n\nIt is so.\n\n![Squares](squares.png)\n\n**claims**\n\n")
    assert "| claim | verdict | measured |\n" in page
    assert "| primes | 1 supported, 1 contradicted | n = 3: 3; n = 4: 4 |" in page
    mixed = [*numbered([]), exact("Gauss", "sums are sums", [True], "5050")]
    page = markdown_of(replace(SQUARES, claims=lambda records: mixed), squares(6))
    assert page.startswith("# Squares\n\n**claims**\n\n")
    assert "| sums are sums | supported | 5050 | Gauss |" in page
