"""The answer at the top of the results: verdicts of the records, and a refusal if a sentence contradicts them."""

from __future__ import annotations

import pytest

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
