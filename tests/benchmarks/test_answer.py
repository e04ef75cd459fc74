"""The answer at the top of the results: verdicts of the records, and a refusal if a sentence contradicts them."""

from __future__ import annotations

import pytest
import typer

from benchmarks.machinery import answer, verdicts

CLAIMS = {
    "one": [
        verdicts.exact("Fan et al., Table 1", "a is below b, as printed", [True]),
        verdicts.exact("Fan et al., Table 1", "a is below c, repaired", [False]),
        verdicts.exact("Fan et al., Table 2", "d is below b, repaired", [True]),
    ]
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a is below", "1 supported, 1 contradicted"),
        ("below b", "2 supported"),
        ("below ... repaired", "1 supported, 1 contradicted"),
        ("d is ... repaired", "1 supported"),
    ],
)
def test_verdicts_are_of_the_claims_with_all_texts(text: str, expected: str) -> None:
    made = answer.answered(f"It [holds]{{one: {text} = {expected}}}.", CLAIMS, lambda *_: None)
    assert made == "It [holds][one]."
    assert (
        answer.answered(f"It [holds]{{one: {text} = {expected}}}.", CLAIMS, lambda *_: None, page="one") == "It holds."
    )


def test_numbers_and_counts_are_those_of_the_claims() -> None:
    made = answer.answered(
        "{one: a is # supported} hold, by {two: gain}; {two: parts}.",
        CLAIMS
        | {
            "two": [
                verdicts.Claim("Euclid", "gain", "supported", "", number="+3 (+2 to +4) points"),
                verdicts.Claim("Euclid", "parts", "inconclusive", "", number="4 of 5 parts hold"),
            ]
        },
        lambda *_: None,
    )
    assert made == "1 of 2 hold, by 3 (2 to 4) points; 4 of 5."


@pytest.mark.parametrize("text", ["{one: a is}", "{one: nothing}", "{one: nothing # supported}", "{none: a}"])
def test_a_number_needs_its_claim(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"\d claims of \w+ contain .*; .* needs"):
        answer.answered(text, CLAIMS, lambda *_: None)
