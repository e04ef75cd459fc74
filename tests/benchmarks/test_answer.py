"""The answer at the top of the results: verdicts of the records, and a refusal if a sentence contradicts them."""

from __future__ import annotations

import re

import pytest
import typer

answer = pytest.importorskip("benchmarks.machinery.answer", reason="not in the installed package")
main = pytest.importorskip("benchmarks.__main__", reason="not in the installed package")
verdicts = pytest.importorskip("benchmarks.machinery.verdicts")

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


def test_a_sentence_that_relies_on_other_verdicts_is_refused() -> None:
    prose = "It [holds]{one: below c = 1 supported}, {one.number} [of them]{two: x = 1 supported}."
    with pytest.raises(typer.BadParameter, match=r"relies on '1 supported'.*the records say '1 contradicted': rewrite"):
        answer.answered(prose, CLAIMS, lambda *_: "7 %")
    shown = answer.answered(prose, CLAIMS, lambda *_: "7 %", strict=False)
    assert shown == "It [holds][one] (1 contradicted), 7 % [of them][two] (not measured)."
    assert "(not measured yet)" in answer.answered("{one.number}", CLAIMS, lambda *_: None)


def test_a_verdict_may_be_broken_over_lines() -> None:
    prose = "One.\nIt [does\nhold]{one: below\nb = 2\nsupported}.\n\nTwo."
    made = answer.answered(prose, CLAIMS, lambda *_: None)
    assert made == "One. It [does hold][one].\n\nTwo."


def test_the_answer_comes_first_and_is_read_in_a_minute() -> None:
    text = (main.HERE / "RESULTS.md").read_text(encoding="utf-8")
    prose = text[len("# Results\n") : text.index("## Appendix: verdicts")]
    visible = re.sub(r"\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])", r"\1", prose)
    assert len(visible) < 17.5 * 120
    assert "{" not in prose
    for name in re.findall(r"\]\[(\w+)\]", prose):
        (link,) = re.findall(rf"^\[{name}\]: (\S+)$", text, re.MULTILINE)
        assert (main.HERE / link).resolve() == main.page_file(name)


def test_quick_records_may_lack_a_number() -> None:
    def none(name: str, part: str) -> str:
        raise typer.BadParameter(f"{name} has no quote {part!r}")

    made = answer.answered("It is {one.number} away.", CLAIMS, none, strict=False)
    assert made == "It is (not measured yet) away."
    with pytest.raises(typer.BadParameter, match="one has no quote 'number'"):
        answer.answered("It is {one.number} away.", CLAIMS, none)
