"""Answers in prose, checked against the records: `benchmarks/answer.md` on top of `RESULTS.md`, and `ANSWER` of pages.

In the prose, `[words]{NAME: TEXT = VERDICTS}` becomes the reference link `[words][NAME]`. The words rely on the claims
of experiment NAME whose statement contains TEXT (or all of several texts, separated by " ... "), and on their verdicts,
such as "4 supported" or "1 supported, 2 inconclusive". If the verdicts of the records differ, the sentence must be
rewritten, and an error says so. On the page of NAME itself, the words are no link.

Numbers are quoted, so that they change with the records: `{NAME.PART}` from the experiment (`machinery/quotes.py`),
`{NAME: TEXT}` from the claim whose statement contains TEXT, and `{NAME: TEXT # VERDICT}` as the number of such claims
with a verdict, "4 of 8"; without TEXT, of all claims of the experiment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import typer

from benchmarks.machinery.quotes import Quoted, wrapped
from benchmarks.machinery.verdicts import VERDICTS, Claim

_VERDICTS = re.compile(r"\[([^\]]+)\]\{(\w+): ([^{}]+) = ([^{}=]+)\}")
_QUOTE = re.compile(r"\{(\w+)\.(\w+)\}")
_NUMBER = re.compile(r"\{(\w+): ([^{}=#]*?) ?(?:# ([^{}=#]+))?\}")


def answered(
    prose: str,
    claims: Mapping[str, Sequence[Claim]],
    quoted: Quoted,
    *,
    strict: bool = True,
    page: str = "",
) -> str:
    """Return the prose with links and quotes; unless `strict`, changed verdicts are shown instead of refused.

    On a `page`, the claims are in the table below, so that words about them are no links.
    """

    def matching(name: str, text: str) -> list[Claim]:
        parts = text.split(" ... ")
        return [claim for claim in claims.get(name, ()) if all(part in claim.statement for part in parts)]

    def verdicts(found: re.Match[str]) -> str:
        words, name, text, expected = found.groups()
        shown = counted(matching(name, text)) or "not measured"
        if strict and shown != expected:
            raise typer.BadParameter(
                f"the answer of {page or 'answer.md'} relies on {expected!r} for claims of {name} with {text!r}; "
                f"the records say {shown!r}: rewrite the sentence"
            )
        return (words if page else f"[{words}][{name}]") + ("" if shown == expected else f" ({shown})")

    def number(found: re.Match[str]) -> str:
        name, text, verdict = found.groups()
        some = matching(name, text)
        if not some or (verdict is None and len(some) > 1):
            if not strict:
                return "(not measured yet)"
            raise typer.BadParameter(f"{len(some)} claims of {name} contain {text!r}; {found.group()} needs one")
        if verdict is not None:
            return f"{sum(claim.verdict == verdict for claim in some)} of {len(some)}"
        # In prose, a plus sign and what is counted are in the words around the number.
        return some[0].number.replace("+", "").removesuffix(" parts hold") or "(not measured yet)"

    def quote(found: re.Match[str]) -> str:
        try:
            return quoted(*found.groups()) or "(not measured yet)"
        except typer.BadParameter:
            # Quick records do not have all numbers.
            if strict:
                raise
            return "(not measured yet)"

    parts = [" ".join(part.split()) for part in prose.strip().split("\n\n")]
    return "\n\n".join(wrapped(_NUMBER.sub(number, _QUOTE.sub(quote, _VERDICTS.sub(verdicts, part)))) for part in parts)


def counted(claims: Sequence[Claim]) -> str:
    """Return the number of claims with each verdict."""
    counts = Counter(claim.verdict for claim in claims)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
