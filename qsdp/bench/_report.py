"""Tables and claims of experiments on the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table as RichTable

from qsdp.bench._experiment import VERDICTS, Claim, Experiment, Record, Table
from qsdp.bench._results import Results

__all__ = ["Measured", "claims_of", "markdown_of", "markdown_table", "page_of", "print_report"]

#: An experiment, its results, which may be empty, and the path of its figure.
Measured = tuple[Experiment, Results, str | None]


def claims_of(experiment: Experiment, results: Results) -> list[Claim]:
    """Return the claims of an experiment, with the number of measured cases if some are missing."""
    records = _records(experiment, results)
    total = len(experiment.cases(results.quick))
    claims = list(experiment.claims(records))
    if len(records) == total:
        return claims
    so_far = f"{len(records)} of {total} cases so far"
    return [claim if claim.verdict == "not measured" else replace(claim, so_far=so_far) for claim in claims]


def print_report(experiment: Experiment, results: Results, console: Console | None = None) -> None:
    """Print tables, claims and footer."""
    console = console or Console()
    for table in _tables(experiment, results):
        drawn = RichTable(title=table.title, caption=table.note or None)
        for number, heading in enumerate(table.headings):
            drawn.add_column(heading, justify="left" if number == 0 else "right")
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)
    for claim in claims_of(experiment, results):
        why = f" ({claim.why})" if claim.why else ""
        line = f"{claim.judged:12} {claim.source}: {claim.statement} {claim.figures}{why}"
        console.print(line, highlight=False, markup=False)
    console.print(footing(experiment, results), style="dim", highlight=False)


def markdown_of(experiment: Experiment, results: Results, picture: str | None = None, level: int = 2) -> str:
    """Return the report as Markdown under a heading of the given level, with a link to a figure."""
    parts = [f"{'#' * level} {experiment.title}", f"*{experiment.source}.* {footing(experiment, results)}"]
    if picture is not None:
        parts.append(f"![{experiment.title}]({picture})")
    for table in _tables(experiment, results):
        parts.append(f"**{table.title}**")
        parts.append(markdown_table(table.headings, table.rows))
        if table.note:
            parts.append(table.note)
    claims = claims_of(experiment, results)
    if claims:
        parts.append(claims_table(claims))
    parts += [f"**{heading}.** {text}" for heading, text in experiment.extra.items()]
    return "\n\n".join(parts) + "\n"


def page_of(chapters: Mapping[str, Sequence[Measured]], made_by: str) -> str:
    """Return a page of experiments: every claim with its verdict, then tables and figures of each.

    Parameters
    ----------
    chapters : mapping of str to sequence of (Experiment, Results, str or None)
        Experiments by the title of their chapter.
    made_by : str
        Remark on how the page was made.
    """
    claims = {
        title: [claim for experiment, results, _ in measured for claim in claims_of(experiment, results)]
        for title, measured in chapters.items()
    }
    rows = [(title, *verdicts_of(found)) for title, found in claims.items()]
    rows.append(("all", *verdicts_of([claim for found in claims.values() for claim in found])))
    parts = [f"# Results\n\n{made_by}\n\n## Claims", markdown_table(("claims on", *VERDICTS), rows)]
    parts += [f"### {title}\n\n{claims_table(found)}" for title, found in claims.items()]
    for title, measured in chapters.items():
        parts += [f"## {title}", *(markdown_of(*one, level=3).rstrip("\n") for one in measured)]
    return "\n\n".join(parts) + "\n"


def verdicts_of(claims: Sequence[Claim]) -> list[str]:
    """Return the number of claims with each verdict, and how many of them rest on a part of the cases."""
    counts = []
    for verdict in VERDICTS:
        found = [claim for claim in claims if claim.verdict == verdict]
        early = sum(bool(claim.so_far) for claim in found)
        counts.append(str(len(found)) + (f" ({early} so far)" if early else ""))
    return counts


def claims_table(claims: Iterable[Claim]) -> str:
    """Return claims as a Markdown table."""
    rows = [(claim.source, claim.statement, claim.judged, claim.figures, claim.why) for claim in claims]
    return markdown_table(("source", "claim", "verdict", "measured", "why"), rows)


def markdown_table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    headings = list(headings)
    lines = ["| " + " | ".join(map(_cell, headings)) + " |", "|" + "---|" * len(headings)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def footing(experiment: Experiment, results: Results) -> str:
    """Return the number of measured cases, and the machines."""
    count = len(_records(experiment, results))
    total = len(experiment.cases(results.quick))
    machines = "; ".join(
        f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}, "
        + ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
        + f", {machine['date']}"
        for machine in results.machines
    )
    outdated = f" {results.outdated} records of another version do not count." if results.outdated else ""
    measured = f"{count} of {total} cases" if count else f"Not measured yet: none of {total} cases"
    return f"{measured}{' (quick)' if results.quick else ''}.{outdated} {machines}".rstrip()


def _tables(experiment: Experiment, results: Results) -> list[Table]:
    """Return the tables that have rows, none before the first measurement."""
    records = _records(experiment, results)
    return [table for table in experiment.tables(records) if table.rows] if records else []


def _records(experiment: Experiment, results: Results) -> list[Record]:
    return results.of(list(experiment.cases(results.quick)))


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
