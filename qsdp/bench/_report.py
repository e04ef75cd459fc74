"""Tables and claims of experiments, printed on the terminal and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from qsdp.bench._experiment import Experiment, Record, Table
from qsdp.bench._results import Results
from qsdp.bench._verdicts import KINDS, LEVEL, PAPERS, REPETITIONS, THEORY, VERDICTS, Claim, corrected

__all__ = ["claims_of", "markdown_of", "print_report", "summary_of"]

_SUMMARY = f"""\
Made by `python -m benchmarks page` from the records in `results/`, nothing by hand; every experiment has a page of its
own, with tables, pictures and machines. *Statistical* claims compare at least {REPETITIONS} pairs of splits or seeds:
*supported* and *contradicted* are p of at most {LEVEL:g} on either side after Holm's correction over all statistical
claims of the paper (of our targets; of the checks of theory), *inconclusive* is what is above. *Exact* claims are
supported where they hold in every case, and contradicted by one case in which they do not. Intervals are those of
95 %, of each claim for itself. "So far" is what has cases left to measure. "Not decided" is a claim about a rival that
chose the first or last value of a grid in most repetitions: a wider grid may make it better."""


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
    """Print tables, claims and footer, with Holm's correction over the claims of this experiment alone."""
    console = console or Console()
    for table in _tables(experiment, results):
        drawn = RichTable(title=table.title, caption=table.note or None)
        for number, heading in enumerate(table.headings):
            drawn.add_column(heading, justify="left" if number == 0 else "right")
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)
    for claim in corrected(claims_of(experiment, results)):
        why = f" ({claim.why})" if claim.why else ""
        line = f"{claim.judged:12} {claim.source}: {claim.statement} {claim.figures}{why}"
        console.print(line, highlight=False, markup=False)
    console.print(footing(experiment, results), style="dim", highlight=False)


def markdown_of(
    experiment: Experiment, results: Results, picture: str | None = None, claims: Sequence[Claim] | None = None
) -> str:
    """Return the page of an experiment: description, claims (which may be corrected with others), figure, tables."""
    claims = corrected(claims_of(experiment, results)) if claims is None else claims
    parts = [f"# {experiment.title}", f"*{experiment.source}.*"]
    if experiment.description:
        parts.append(experiment.description)
    parts.append(footing(experiment, results))
    if claims:
        rows = [(c.source, c.statement, c.judged, c.basis, c.figures, c.why) for c in claims]
        parts.append(markdown_table(("source", "claim", "verdict", "kind", "measured", "does not hold"), rows))
    if picture is not None:
        parts.append(f"![{experiment.title}]({picture})")
    for table in _tables(experiment, results):
        parts.append(f"**{table.title}**")
        parts.append(markdown_table(table.headings, table.rows))
        if table.note:
            parts.append(table.note)
    parts += [f"**{heading}.** {text}" for heading, text in experiment.extra.items()]
    return "\n\n".join(parts) + "\n"


def summary_of(found: Mapping[str, Sequence[Claim]], titles: Mapping[str, str], link: Callable[[str], str]) -> str:
    """Return the summary page of all experiments, from claims and titles by name, with links to their pages."""
    placed = [(name, claim) for name, claims in found.items() for claim in claims]
    parts = [f"# Results\n\n{_SUMMARY}", _counts([claim for _, claim in placed])]
    for paper in PAPERS:
        own = [(name, claim) for name, claim in placed if claim.kind == "paper" and claim.family == paper]
        if own:
            parts.append(f"## {paper}\n{_claims_table(own, link, paper)}")
    theory = [(name, claim) for name, claim in placed if claim.kind == "theory"]
    if theory:
        parts.append(f"## {KINDS['theory'].capitalize()}\n{_claims_table(theory, link, THEORY)}")
    targets = {name: [claim for claim in claims if claim.kind == "target"] for name, claims in found.items()}
    rows = [(f"[{titles[name]}]({link(name)})", *_verdicts(own)) for name, own in targets.items() if own]
    if rows:
        parts.append(f"## {KINDS['target'].capitalize()}\n{markdown_table(('experiment', *VERDICTS), rows)}")
    return "\n\n".join(parts) + "\n"


def _counts(claims: Sequence[Claim]) -> str:
    """Return a table of the numbers of claims by verdict and kind, papers first."""
    papers = [claim for claim in claims if claim.kind == "paper"]
    groups = {paper: own for paper in PAPERS if (own := [claim for claim in papers if claim.family == paper])}
    groups[f"**all {KINDS['paper']}**"] = papers
    groups |= {f"**{KINDS[kind]}**": [c for c in claims if c.kind == kind] for kind in ("target", "theory")}
    kinds = ("statistical", "exact")
    rows = [
        (name, *_verdicts(own), *(sum(c.basis == kind for c in own) for kind in kinds)) for name, own in groups.items()
    ]
    return markdown_table(("", *VERDICTS, *kinds), rows)


def _verdicts(claims: Sequence[Claim]) -> list[str]:
    """Return the number of claims with each verdict, and how many of them have missing cases."""
    counts = []
    for verdict in VERDICTS:
        found = [claim for claim in claims if claim.verdict == verdict]
        early = sum(bool(claim.so_far) for claim in found)
        counts.append(str(len(found)) + (f" ({early} so far)" if early else ""))
    return counts


def _claims_table(placed: Iterable[tuple[str, Claim]], link: Callable[[str], str], prefix: str) -> str:
    """Return a table of claims, with one row for claims that differ only in a case."""
    groups: dict[str, list[tuple[str, Claim]]] = {}
    for name, claim in placed:
        groups.setdefault(claim.group or f"{name}: {claim.source}: {claim.statement}", []).append((name, claim))
    rows = []
    for own in groups.values():
        places: dict[str, dict[str, None]] = {}
        for name, claim in own:
            places.setdefault(name, {})[claim.source.removeprefix(prefix).removeprefix(", ")] = None
        where = ", ".join(f"[{', '.join(sources)}]({link(name)})" for name, sources in places.items())
        claims = [claim for _, claim in own]
        kinds = ", ".join(dict.fromkeys(claim.basis for claim in claims if claim.basis))
        numbers = [claim.number if claim.basis else claim.why for claim in claims]
        said, verdicts = claims[0].statement, claims[0].judged
        if len(claims) > 1:
            counts = Counter(claim.verdict for claim in claims)
            said, verdicts = claims[0].group, ", ".join(f"{counts[one]} {one}" for one in VERDICTS if counts[one])
            numbers = [f"{claim.case}: {number}" for claim, number in zip(claims, numbers, strict=True)]
        rows.append((where, said, verdicts, kinds, "; ".join(numbers)))
    return markdown_table(("where", "claim", "verdict", "kind", "number"), rows)


def markdown_table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table."""
    headings = list(headings)
    lines = ["| " + " | ".join(map(_cell, headings)) + " |", "|" + "---|" * len(headings)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def footing(experiment: Experiment, results: Results) -> str:
    """Return the number of measured cases and the machines."""
    count = len(_records(experiment, results))
    total = len(experiment.cases(results.quick))
    outdated = f" {results.outdated} records of another version do not count." if results.outdated else ""
    measured = f"{count} of {total} cases" if count else f"Not measured yet: none of {total} cases"
    return f"{measured}{' (quick)' * results.quick}.{outdated} {'; '.join(_machines(results))}".rstrip()


def _machines(results: Results) -> list[str]:
    """Return a text for each machine and its versions, with dates, commits and load of its measurements."""
    groups: dict[str, list[tuple[Mapping[str, Any], int]]] = {}
    counts = Counter(record.machine for record in results.records)
    for number, machine in enumerate(results.machines):
        versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
        text = f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}, {versions}"
        if blas := machine.get("blas"):
            # Sorted, since libraries are listed in the order in which they were loaded.
            text += f", {', '.join(sorted(blas.split(', ')))}, {machine['threads']} threads"
        groups.setdefault(text, []).append((machine, counts[number]))
    return [", ".join([hardware, *_occasions(measured)]) for hardware, measured in groups.items()]


def _occasions(measured: Sequence[tuple[Mapping[str, Any], int]]) -> Iterator[str]:
    """Yield dates, commits, the number of cases without recorded sources, and of cases under load."""
    dates = sorted(machine["date"] for machine, _ in measured)
    yield " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    if commits := list(dict.fromkeys(machine["commit"] for machine, _ in measured if machine.get("commit"))):
        yield f"commit{'s' * (len(commits) > 1)} {', '.join(commits)}"
    if unknown := sum(count for machine, count in measured if not machine.get("source")):
        yield f"sources of {unknown} cases not recorded"
    if loaded := [(machine["load"], count) for machine, count in measured if machine.get("loaded")]:
        count, most = sum(count for _, count in loaded), max(load for load, _ in loaded)
        yield f"**seconds of {count} cases under load (up to {most:g} other processes)**"


def _tables(experiment: Experiment, results: Results) -> list[Table]:
    """Return the tables that have rows, and none before the first measurement."""
    records = _records(experiment, results)
    return [table for table in experiment.tables(records) if table.rows] if records else []


def _records(experiment: Experiment, results: Results) -> list[Record]:
    return results.of(list(experiment.cases(results.quick)))


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
