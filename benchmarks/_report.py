"""Claims of experiments, printed on the terminal and as Markdown, and the summary of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from benchmarks._verdicts import KINDS, LEVEL, PAPERS, REPETITIONS, THEORY, VERDICTS, Claim, corrected
from qsdp import bench
from qsdp.bench import Experiment, Record, Results
from qsdp.bench._report import markdown_table

__all__ = ["Study", "claims_of", "markdown_of", "print_report", "summary_of"]

_SUMMARY = f"""\
Made by `python -m benchmarks page` from the records in `results/`, nothing by hand; every experiment has a page of its
own, with tables, pictures and machines. *Statistical* claims compare at least {REPETITIONS} pairs of splits or seeds:
*supported* and *contradicted* are p of at most {LEVEL:g} on either side after Holm's correction over all statistical
claims of the paper (of our targets; of the checks of theory), *inconclusive* is what is above. *Exact* claims are
supported where they hold in every case, and contradicted by one case in which they do not. Intervals are those of
95 %, of each claim for itself. "So far" is what has cases left to measure. "Not decided" is a claim about a rival that
chose the first or last value of a grid in most repetitions: a wider grid may make it better."""


@dataclass(frozen=True)
class Study(Experiment):
    """Experiment with claims of a paper or of the package, and a figure."""

    #: ``claims(records)`` returns claims with verdicts computed from the records, "not measured" without records.
    claims: Callable[[Sequence[Record]], Sequence[Claim]] = lambda records: ()
    #: ``plot(records, path)`` draws a figure, or nothing if there are too few records.
    plot: Callable[[Sequence[Record], Path], None] | None = None


def claims_of(study: Study, results: Results) -> list[Claim]:
    """Return the claims of an experiment, with the number of measured cases if some are missing."""
    cases = list(study.cases(results.quick))
    records, total = results.of(cases), len(cases)
    claims = list(study.claims(records))
    if len(records) == total:
        return claims
    so_far = f"{len(records)} of {total} cases so far"
    return [claim if claim.verdict == "not measured" else replace(claim, so_far=so_far) for claim in claims]


def print_report(study: Study, results: Results, console: Console | None = None) -> None:
    """Print tables, claims and footing, with Holm's correction over the claims of this study alone."""
    lines = [
        f"{claim.judged:12} {claim.source}: {claim.statement} {claim.figures}{f' ({claim.why})' if claim.why else ''}"
        for claim in corrected(claims_of(study, results))
    ]
    bench.print_report(study, results, console, lines)


def markdown_of(
    study: Study, results: Results, picture: str | None = None, claims: Sequence[Claim] | None = None
) -> str:
    """Return the page of a study: claims, which may already be corrected with others, figure and tables."""
    claims = corrected(claims_of(study, results)) if claims is None else claims
    parts = []
    if claims:
        rows = [(c.source, c.statement, c.judged, c.basis, c.figures, c.why) for c in claims]
        parts.append(markdown_table(("source", "claim", "verdict", "kind", "measured", "does not hold"), rows))
    if picture is not None:
        parts.append(f"![{study.title}]({picture})")
    return bench.markdown_of(study, results, parts)


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
