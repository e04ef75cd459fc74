"""The experiments of this folder, from the root: `python -m benchmarks list | run NAME | page`.

Each is a file in the folder of its topic in `benchmarks/experiments/`, with its measurements in
`benchmarks/results/NAME.json`, or in the folder of a paper, `benchmarks/papers/AUTHOR/`, which has `experiments/` and
`results/` too. Tables, figures, `benchmarks/RESULTS.md`, the page of every experiment and the quotes in READMEs and
some pages of the documentation (`machinery/quotes.py`) are generated from these records, never written by hand. `run`
continues where an earlier run stopped. A record names the versions of its experiment and of the methods it measures
(`versions.py`): those of another version of the experiment are ignored, and those of other versions of the methods are
stale, which `list` reports and `run` measures again.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import overview
from benchmarks.experiments import TOPICS
from benchmarks.machinery import accuracy_bytes, campaigns
from benchmarks.machinery.answer import answered
from benchmarks.machinery.commit import commit
from benchmarks.machinery.quotes import Quoted, filled
from benchmarks.machinery.report import Study, claims_of, markdown_of, paper_table, print_report, summary_of
from benchmarks.machinery.verdicts import Claim, corrected
from benchmarks.runner import Record, Results, load_results, run_experiment
from qsdp.exceptions import DatasetError, QSDPError

HERE = Path(__file__).resolve().parent
#: Pages of experiments in the documentation, and the experiments that have one; other pages are beside the records.
DOCS = HERE.parent / "docs" / "results"
DOCUMENTED = ("theory", "fig1", "printed", "proven", "solvers", "small_models", "convolutions", "microcontrollers")
#: Experiments whose pages show a picture of `accuracy_bytes`.
PICTURED = {"small_models": "tables", "convolutions": "images"}
#: Handwritten pages that contain quotes.
QUOTING = (
    *("README.md", "benchmarks/README.md", "tests/campaigns/README.md"),
    *(f"docs/{name}.md" for name in ("index", "theory", "guide/microcontroller", "guide/run_anywhere")),
    "docs/howto/images_to_firmware.md",
)
#: Errors of cases that need a package that is not installed.
ABSENT = ("ImportError", "MissingPackageError", "ModuleNotFoundError", "UnavailableSolverError")
app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
console = Console(width=None if sys.stdout.isatty() else 170)

Names = Annotated[list[str], typer.Argument(help="Experiments, or 'all'.")]
Out = Annotated[Path | None, typer.Option(help="Folder of results.")]


def files() -> dict[str, Path]:
    """Return the file of every experiment by name, in the order of topics; an experiment has the name of its file."""
    order = list(TOPICS)
    paths = [*HERE.glob("experiments/*/[!_]*.py"), *HERE.glob("papers/*/experiments/[!_]*.py")]
    paths.sort(key=lambda path: (topic_of(path), path.stem))
    paths.sort(key=lambda path: order.index(topic_of(path)) if topic_of(path) in order else len(order))
    known: dict[str, Path] = {}
    for path in paths:
        if path.stem in known:
            raise typer.BadParameter(f"two experiments have the same name: {path.stem}")
        known[path.stem] = path
    return known


def topic_of(path: Path) -> str:
    """Return the topic of an experiment's file: the folder that holds it, or the paper whose folder holds it."""
    return path.parent.name if path.parent.name != "experiments" else path.parent.parent.name


def topics() -> dict[str, str]:
    """Return the topic of every experiment."""
    return {name: topic_of(path) for name, path in files().items()}


def file_of(name: str) -> Path:
    known = files()
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise SystemExit(
            f"error: no experiment is named {name!r}; {meant}`python -m benchmarks list` names all of them"
        )
    return known[name]


def module_of(name: str) -> Any:
    return importlib.import_module(".".join(("benchmarks", *file_of(name).relative_to(HERE).with_suffix("").parts)))


def records_file(name: str, out: Path | None = None) -> Path:
    """Return the file of an experiment's records, in `out` or in the folder of its paper or of all others."""
    folder = file_of(name).parents[1]
    home = folder if folder.parent.name == "papers" else HERE
    return (out or home / "results") / f"{name}.json"


def page_file(name: str, out: Path | None = None) -> Path:
    """Return the file of an experiment's page: in the documentation, or beside the records."""
    if out is not None:
        return out / "pages" / f"{name}.md"
    return DOCS / f"{name}.md" if name in DOCUMENTED else records_file(name).with_suffix(".md")


def chosen(wanted: Sequence[str]) -> list[Study]:
    """Return experiments by name, or all of them for 'all', less those that need a package that is not installed."""
    found = []
    for name in topics() if list(wanted) == ["all"] else wanted:
        try:
            found.append(module_of(name).EXPERIMENT)
        except ImportError as error:
            skipped(name, str(error))
    return found


def skipped(what: str, why: str) -> None:
    console.print(f"skipped {what}: {why}", style="yellow", highlight=False, markup=False, soft_wrap=True)


def part_of(experiment: Study, only: Sequence[str]) -> Study:
    """Return the experiment with the cases whose parameters have one of the wanted values."""
    wanted: dict[str, set[str]] = {}
    for one in only:
        name, separator, value = one.partition("=")
        if not separator:
            raise typer.BadParameter(f"--only must be NAME=VALUE, such as set=iris; got {one!r}")
        wanted.setdefault(name, set()).add(value)

    def cases(quick: bool) -> list[dict[str, Any]]:
        return [one for one in experiment.cases(quick) if all(str(one.get(k)) in wanted[k] for k in wanted)]

    return replace(experiment, cases=cases)


def stored(out: Path | None, wanted: Sequence[str] = ("all",)) -> list[tuple[Study, Results, Path]]:
    """Return experiments with their results and the paths of their files."""
    paths = [(experiment, records_file(experiment.name, out)) for experiment in chosen(wanted)]
    return [(experiment, load_results(experiment, path), path) for experiment, path in paths]


@app.command("list")
def list_(out: Out = None) -> None:
    """List the experiments, how many of their cases are measured, and how many records are stale."""
    topic, known = "", topics()
    for experiment, results, _ in stored(out):
        if topic != known[experiment.name]:
            topic = known[experiment.name]
            console.print(TOPICS.get(topic, topic), style="bold", highlight=False)
        cases, state = list(experiment.cases(results.quick)), results.state(experiment)
        done = f"{len(results.of(cases)):5d} of {len(cases):5d}"
        notes = " (quick)" * results.quick + f" ({results.outdated} of another version)" * bool(results.outdated)
        notes += f" [{state}]" * bool(state)
        console.print(f"{experiment.name:28} {done}  {experiment.title}{notes}", highlight=False, markup=False)


@app.command()
def run(
    experiments: Names,
    quick: Annotated[bool, typer.Option("--quick", help="Few, small cases; into a folder of its own.")] = False,
    jobs: Annotated[int, typer.Option(help="Cases at a time.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="Measure at most as many cases.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Cases of this NAME=VALUE; of several names, all.")] = None,
    note: Annotated[str, typer.Option(help="What else ran at the same time; stored with the records.")] = "",
    out: Out = None,
) -> None:
    """Measure the cases that have no current record, and print tables and claims."""
    out = out or (Path(tempfile.mkdtemp()) if quick else None)
    failed = False
    for experiment in chosen(experiments):
        path, part = records_file(experiment.name, out), part_of(experiment, only or [])
        options = {"n_jobs": jobs, "verbose": console.is_terminal, "limit": limit}
        results, failures = run_experiment(part, path, quick=quick, about={"commit": commit(), "note": note}, **options)
        if quick and not experiment.cases(quick):
            skipped(experiment.name, "no quick case can run on this machine; its page names the programs it needs")
            continue
        if results.of(list(experiment.cases(results.quick))) or not failures:
            print_report(experiment, results, console)
            draw(experiment, results, path)
        for message, cases in by_message(failures).items():
            if message.startswith(ABSENT):
                skipped(f"{len(cases)} cases of {experiment.name}", message.partition(": ")[2])
                continue
            # Cases without data, or without anything else that all of them need, fail for one reason.
            what = str(cases[0]) if len(cases) == 1 else f"{len(cases)} cases of {experiment.name}"
            console.print(f"failed {what}: {message}", style="red", highlight=False, markup=False, soft_wrap=True)
            failed = True
        if results.interrupted:
            raise typer.Exit(130)
    if failed:
        raise typer.Exit(1)


def by_message(failures: Sequence[tuple[Any, str]]) -> dict[str, list[Any]]:
    """Return the cases that failed by their errors; those without data share the error of the first of them."""
    cases: dict[str, list[Any]] = {}
    without: dict[str, None] = {}
    for case, message in failures:
        kind, _, text = message.partition(": ")
        if kind == DatasetError.__name__:
            without[text] = None
            message = next(iter(without))
        cases.setdefault(message, []).append(case)
    if len(without) > 1:
        first, others = next(iter(without)), len(without) - 1
        cases[f"{first}; {others} other file{'s' * (others > 1)} cannot be read either"] = cases.pop(first)
    return cases


@app.command()
def page(out: Out = None) -> None:
    """Write RESULTS.md with all claims and verdicts, a page for every experiment, and the quotes in READMEs."""
    folder = out or HERE / "results"
    known = stored(out)
    for experiment, results, path in known:
        draw(experiment, results, path)
    records = records_of(known)
    for which, panels in accuracy_bytes.PICTURES.items():
        accuracy_bytes.draw(panels(records), accuracy_bytes.picture(folder, which))
    overview.draw(records, folder)
    made = pages(out)
    homes = {page_file(name, out).parent for name in files()}
    for old in {path for home in homes for path in home.glob("*.md")} - set(made):
        old.unlink()
    for target, text in made.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    console.print(f"{folder.parent / 'RESULTS.md'}: {len(topics())} experiments", highlight=False)


def records_of(known: Sequence[tuple[Study, Results, Path]]) -> dict[str, list[Record]]:
    """Return the records of all cases of each experiment, by name."""
    return {study.name: results.of(list(study.cases(results.quick))) for study, results, _ in known}


def pages(out: Path | None = None) -> dict[Path, str]:
    """Return the pages of the results: the summary, one for each experiment, and pages with quotes."""
    folder = out or HERE / "results"
    summary, known = folder.parent / "RESULTS.md", stored(out)
    placed = [(experiment.name, claim) for experiment, results, _ in known for claim in claims_of(experiment, results)]
    claims: dict[str, list[Claim]] = {experiment.name: [] for experiment, _, _ in known}
    for (name, _), claim in zip(placed, corrected([claim for _, claim in placed]), strict=True):
        claims[name].append(claim)

    def link(name: str) -> str:
        # With a leading dot, the documentation resolves it from the folder of the summary.
        relative = os.path.relpath(page_file(name, out), summary.parent)
        return relative if relative.startswith(".") else f"./{relative}"

    titles, prose = {one.name: one.title for one, _, _ in known}, HERE / "answer.md"
    text = prose.read_text(encoding="utf-8") if prose.is_file() else ""
    answer = answered(text, claims, quotes_of(known), strict=out is None)
    rooms = {path.parent.name: path for path in sorted(HERE.glob("papers/*/README.md"))}
    made = {summary: summary_of(answer, claims, titles, link, rooms if out is None else ())}
    if out is None:
        for path in (HERE.parent / name for name in QUOTING):
            if path.is_file():
                made[path] = filled(path.read_text(encoding="utf-8"), quotes_of(known))
        for room, path in rooms.items():
            made[path] = filled(path.read_text(encoding="utf-8"), quotes_of_paper(room, claims, quotes_of(known)))
    for experiment, results, path in known:
        page, which = page_file(experiment.name, out), PICTURED.get(experiment.name)
        picture = accuracy_bytes.picture(folder, which) if which else path.with_suffix(".png")
        drawn = os.path.relpath(picture, page.parent) if picture.is_file() else None
        prose = answered(experiment.answer, claims, quotes_of(known), strict=out is None, page=experiment.name)
        made[page] = markdown_of(experiment, results, drawn, claims[experiment.name], prose)
    home = HERE / "results" if out is None else out / "pages"
    pictures = {
        which: os.path.relpath(accuracy_bytes.picture(folder, which), home) for which in accuracy_bytes.PICTURES
    }

    def page_of(name: str) -> str:
        return os.path.relpath(page_file(name, out), home)

    if both := accuracy_bytes.page(records_of(known), pictures.__getitem__, page_of):
        made[home / f"{accuracy_bytes.NAME}.md"] = both
    return made


def quotes_of(known: Sequence[tuple[Study, Results, Path]]) -> Quoted:
    """Return a function that looks up a quote by experiment and part; None if not measured.

    Quotes of "campaigns" and of `accuracy_bytes` are from several records.
    """
    measured = {experiment.name: (experiment, results) for experiment, results, _ in known}

    @functools.cache
    def found(name: str) -> tuple[Mapping[str, str], bool]:
        """Return all quotes of a name, and whether all of its cases are measured."""
        if name == "campaigns":
            return campaigns.quotes(), True
        if name == accuracy_bytes.NAME:
            return accuracy_bytes.quotes(records_of(known)), False
        module, (experiment, results) = module_of(name), measured[name]
        cases = list(experiment.cases(results.quick))
        records = results.of(cases)
        return (module.quotes(records) if records else {}), len(records) == len(cases)

    def quoted(name: str, part: str) -> str | None:
        quotes, whole = found(name)
        if whole and part not in quotes:
            raise typer.BadParameter(f"{name} has no quote {part!r}; it has {', '.join(quotes)}")
        return quotes.get(part)

    return quoted


def quotes_of_paper(room: str, claims: Mapping[str, Sequence[Claim]], others: Quoted) -> Quoted:
    """Return a function that also knows the quote "claims.ROOM": all claims of the paper with this folder."""

    def link(name: str) -> str:
        return os.path.relpath(page_file(name), HERE / "papers" / room)

    return lambda name, part: (
        paper_table(claims, room, link) if (name, part) == ("claims", room) else others(name, part)
    )


def draw(experiment: Study, results: Results, path: Path) -> None:
    """Draw the experiment's figure beside its file; a figure that is no longer drawn is removed."""
    picture = path.with_suffix(".png")
    records = results.of(list(experiment.cases(results.quick)))
    picture.unlink(missing_ok=True)
    if experiment.plot is not None and records:
        import matplotlib

        matplotlib.use("Agg")
        experiment.plot(records, picture)


if __name__ == "__main__":
    try:
        app()
    except QSDPError as error:
        raise SystemExit(f"error: {error}") from None
