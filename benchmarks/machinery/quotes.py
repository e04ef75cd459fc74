"""Quotes from records in READMEs and pages: blocks from `<!-- measured: NAME.PART ... -->` to `<!-- end -->`.

A block contains the quotes that it names, in order: rows of a table, whose heading in the README is kept, or
paragraphs. `quotes(records)` in the file of an experiment returns its quotes by PART; `campaigns.py`
returns those of the campaigns.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

import typer

#: Function of an experiment and a part that returns the quote, or None if it is not measured yet.
Quoted = Callable[[str, str], str | None]

WIDTH = 120
MARK = "<!-- measured: "
_BLOCK = re.compile(rf"^({MARK}(.*?) -->\n)((?:\|[^\n]*\n\|[-:|]+\n)?)(.*?)^(<!-- end -->)$", re.DOTALL | re.MULTILINE)


def filled(text: str, quoted: Quoted) -> str:
    """Return a text with the quotes that its blocks name."""
    if len(_BLOCK.findall(text)) < f"\n{text}".count(f"\n{MARK}"):
        raise typer.BadParameter(f"a block that begins with {MARK!r} has no end")
    return _BLOCK.sub(lambda found: _block(*found.group(1, 2, 3, 5), quoted), text)


def _block(begin: str, names: str, heading: str, end: str, quoted: Quoted) -> str:
    parts = []
    for place in names.split():
        name, _, part = place.partition(".")
        found = quoted(name, part)
        if found is None:
            parts.append(f"| {place}: not measured yet |" if heading else f"{place}: not measured yet.")
        else:
            # Quotes with tables are not wrapped.
            parts.append(found if heading or "\n" in found else wrapped(found))
    body = ("\n" if heading else "\n\n").join(parts)
    # A quote that is a whole table brings its heading, which must not appear twice.
    return begin + ("" if body.startswith(heading) else heading) + body + "\n" + end


def wrapped(paragraph: str) -> str:
    """Return a paragraph in lines of `WIDTH`, with words and hyphens unbroken."""
    # A line never breaks between a number and its percent sign.
    whole = textwrap.fill(
        paragraph.replace(" %", "\0%"),
        WIDTH,
        subsequent_indent="  " if paragraph.startswith("- ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return whole.replace("\0", " ")
