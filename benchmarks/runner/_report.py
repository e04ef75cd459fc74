"""Tables of experiments, printed on the terminal and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.runner._experiment import Experiment, Table
from benchmarks.runner._results import Results

__all__ = ["holm", "markdown_of", "markdown_table", "percent", "print_report"]


def print_report(
    experiment: Experiment, results: Results, console: Console | None = None, more: Iterable[str] = ()
) -> None:
    """Print the tables of an experiment, and a line on its cases and machines.

    Parameters
    ----------
    experiment : Experiment
        Experiment whose tables are printed.
    results : Results
        Records from which the tables are made.
    console : rich.console.Console, optional
        Where to print; standard output by default.
    more : iterable of str, optional
        Lines to print after the tables.
    """
    console = console or Console()
    for table in _tables(experiment, results):
        drawn = RichTable(title=table.title, caption=table.note or None)
        for number, heading in enumerate(table.headings):
            drawn.add_column(heading, justify="left" if number == 0 else "right")
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)
    for line in more:
        console.print(line, highlight=False, markup=False)
    console.print(footer(experiment, results), style="dim", highlight=False)


def markdown_of(experiment: Experiment, results: Results, opening: Iterable[str] = ()) -> str:
    """Return the Markdown page of an experiment: what it measures, its tables, its setting and last its machines.

    Parameters
    ----------
    experiment : Experiment
        Its title, source, description and further sections are part of the page.
    results : Results
        Records from which its tables are made.
    opening : iterable of str, optional
        Markdown to insert before the tables.

    Returns
    -------
    str
    """
    first, _, setting = experiment.description.partition("\n\n")
    parts = [f"# {experiment.title}", *filter(None, [first]), *opening]
    for table in _tables(experiment, results):
        parts.append(f"**{table.title}**")
        parts.append(markdown_table(table.headings, table.rows))
        if table.note:
            parts.append(table.note)
    parts += ["## Setting", f"*{experiment.source}.*", *filter(None, [setting])]
    parts += [f"**{heading}.** {text}" for heading, text in experiment.extra.items()]
    parts.append(f"<small>{footer(experiment, results)}</small>")
    return "\n\n".join(parts) + "\n"


def markdown_table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table."""
    headings = list(headings)
    lines = ["| " + " | ".join(map(_cell, headings)) + " |", "|" + "---|" * len(headings)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def footer(experiment: Experiment, results: Results) -> str:
    """Return lines with the number of measured cases and the machines that measured them."""
    cases = list(experiment.cases(results.quick))
    count, total = len(results.of(cases)), len(cases)
    outdated = f" {results.outdated} records of another version are ignored." if results.outdated else ""
    measured = f"{count} of {total} cases" if count else f"Not measured yet: none of {total} cases"
    n_stale = len(results.stale(experiment))
    stale = f" {n_stale} records were measured with other versions of the methods." if n_stale else ""
    return f"{measured}{' (quick)' * results.quick}.{outdated}{stale} {'; '.join(_machines(results))}".rstrip()


def _machines(results: Results) -> list[str]:
    """Return a text for each machine and its versions, with dates, commits and notes of its measurements."""
    groups: dict[str, list[tuple[Mapping[str, Any], int]]] = {}
    counts = Counter(record.machine for record in results.records)
    for number, machine in enumerate(results.machines):
        if not counts[number]:
            continue
        versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
        text = f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}, {versions}"
        if blas := machine.get("blas"):
            # Sorted, since libraries are listed in the order in which they were loaded.
            text += f", {', '.join(sorted(blas.split(', ')))}, {machine['threads']} threads"
        groups.setdefault(text, []).append((machine, counts[number]))
    return [", ".join([hardware, *_occasions(measured)]) for hardware, measured in groups.items()]


def _occasions(measured: Sequence[tuple[Mapping[str, Any], int]]) -> Iterator[str]:
    """Yield dates, commits and the number of cases with each note."""
    dates = sorted(machine["date"] for machine, _ in measured)
    yield " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    if commits := list(dict.fromkeys(machine["commit"] for machine, _ in measured if machine.get("commit"))):
        yield f"commit{'s' * (len(commits) > 1)} {', '.join(commits)}"
    notes: Counter[str] = Counter()
    for machine, count in measured:
        notes[machine.get("note", "")] += count
    yield from (f"{count} cases: {note}" for note, count in notes.items() if note and count)


def _tables(experiment: Experiment, results: Results) -> list[Table]:
    """Return the nonempty tables of an experiment."""
    records = results.of(list(experiment.cases(results.quick)))
    return [table for table in experiment.tables(records) if table.rows] if records else []


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values of several tests, adjusted for all of them by Holm's step-down method."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(order))
    steps = np.sort(p_values) * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()


def percent(shares: np.ndarray) -> str:
    """Return the mean and standard deviation of fractions in percent."""
    deviation = f" ± {100.0 * shares.std(ddof=1):.1f}" if len(shares) > 1 else ""
    return f"{100.0 * shares.mean():.1f}{deviation} %"
