"""The answer at the top of `RESULTS.md`: prose of `benchmarks/answer.md`, with verdicts and numbers from the records.

In the prose, `{NAME: TEXT = VERDICTS}` names the claims of experiment NAME whose statement contains TEXT (or all of
several texts, separated by " ... "), and the verdicts that the sentence relies on, such as "4 supported" or "1
supported, 2 inconclusive". It becomes a link with these verdicts to the page of the experiment. If the records say
otherwise, the sentence has to be written anew, and an error says so. `{NAME.PART}` is a quote of the experiment
(`machinery/quotes.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import typer

from benchmarks.machinery.quotes import Quoted, wrapped
from benchmarks.machinery.verdicts import VERDICTS, Claim

_VERDICTS = re.compile(r"\{(\w+): ([^{}]+) = ([^{}=]+)\}")
_QUOTE = re.compile(r"\{(\w+)\.(\w+)\}")


def answered(
    prose: str,
    claims: Mapping[str, Sequence[Claim]],
    link: Callable[[str], str],
    quoted: Quoted,
    *,
    strict: bool = True,
) -> str:
    """Return the prose with verdicts and quotes; unless `strict`, changed verdicts are shown instead of refused."""

    def verdicts(found: re.Match[str]) -> str:
        name, text, expected = found.groups()
        words = text.split(" ... ")
        matching = [claim for claim in claims.get(name, ()) if all(word in claim.statement for word in words)]
        shown = counted(matching) or "not measured"
        if strict and shown != expected:
            raise typer.BadParameter(
                f"answer.md relies on {expected!r} for claims of {name} with {text!r}; the records say {shown!r}: "
                "rewrite the sentence"
            )
        return f"[{shown}]({link(name)})"

    def quote(found: re.Match[str]) -> str:
        try:
            return quoted(*found.groups()) or "(not measured yet)"
        except typer.BadParameter:
            # Quick records do not have all numbers.
            if strict:
                raise
            return "(not measured yet)"

    parts = [" ".join(part.split()) for part in prose.strip().split("\n\n")]
    return "\n\n".join(wrapped(_QUOTE.sub(quote, _VERDICTS.sub(verdicts, part))) for part in parts)


def counted(claims: Sequence[Claim]) -> str:
    """Return the number of claims with each verdict."""
    counts = Counter(claim.verdict for claim in claims)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
