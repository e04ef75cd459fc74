"""Tables and claims of an experiment, on the terminal and as markdown."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table as RichTable

from qsdp.bench._experiment import Claim, Experiment, Record
from qsdp.bench._results import Results

__all__ = ["markdown_of", "markdown_table", "print_report"]


def print_report(experiment: Experiment, results: Results, console: Console | None = None) -> None:
    """Print tables, claims and footing."""
    console = console or Console()
    records = _records(experiment, results)
    for table in experiment.tables(records):
        drawn = RichTable(title=table.title, caption=table.note or None)
        for number, heading in enumerate(table.headings):
            drawn.add_column(heading, justify="left" if number == 0 else "right")
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)
    for claim in experiment.claims(records):
        why = f" ({claim.why})" if claim.why else ""
        console.print(f"{claim.verdict:12} {claim.source}: {claim.statement} {claim.figures}{why}", highlight=False)
    console.print(footing(experiment, results), style="dim", highlight=False)


def markdown_of(experiment: Experiment, results: Results, picture: str | None = None) -> str:
    """Return the same as markdown, with a link to a picture."""
    records = _records(experiment, results)
    parts = [f"## {experiment.title}", f"*{experiment.source}.* {footing(experiment, results)}"]
    if picture is not None:
        parts.append(f"![{experiment.title}]({picture})")
    for table in experiment.tables(records):
        parts.append(f"**{table.title}**")
        parts.append(markdown_table(table.headings, table.rows))
        if table.note:
            parts.append(table.note)
    claims = experiment.claims(records)
    if claims:
        parts.append(claims_table(claims))
    parts += [f"**{heading}.** {text}" for heading, text in experiment.extra.items()]
    return "\n\n".join(parts) + "\n"


def claims_table(claims: Iterable[Claim]) -> str:
    """Return claims as a markdown table."""
    rows = [(claim.source, claim.statement, claim.verdict, claim.figures, claim.why) for claim in claims]
    return markdown_table(("source", "claim", "verdict", "measured", "why"), rows)


def markdown_table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a markdown table; the first column is text, the others are aligned as written."""
    headings = list(headings)
    lines = ["| " + " | ".join(map(_cell, headings)) + " |", "|" + "---|" * len(headings)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def footing(experiment: Experiment, results: Results) -> str:
    """Return how much was measured, and where."""
    count = len(_records(experiment, results))
    total = len(experiment.cases(results.quick))
    machines = "; ".join(
        f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}, "
        + ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
        + f", {machine['date']}"
        for machine in results.machines
    )
    return f"{count} of {total} cases{' (quick)' if results.quick else ''}. {machines}"


def _records(experiment: Experiment, results: Results) -> list[Record]:
    return results.of(list(experiment.cases(results.quick)))


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
