"""Numbers as READMEs quote them."""

from __future__ import annotations

from benchmarks.machinery import quotes


def test_a_quoted_table_replaces_itself() -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    begun = quotes.filled("<!-- measured: a.b -->\n<!-- end -->\n", lambda name, part: table)
    assert begun == f"<!-- measured: a.b -->\n{table}\n<!-- end -->\n"
    assert quotes.filled(begun, lambda name, part: table) == begun
