"""The experiments of this folder, from the root: `python -m benchmarks list | run | show NAME | page`.

Each is a file in the folder of its topic in `benchmarks/experiments/`. Its measurements are stored in
`benchmarks/results/NAME.json`. Tables, figures, `benchmarks/RESULTS.md`, `docs/results/` and the quotes in READMEs and
some pages of the documentation (`machinery/quotes.py`) are generated from these records, never written by hand. `run`
continues where an earlier run stopped. A record names the versions of its experiment and of the methods it measures
(`versions.py`): those of another version of the experiment are ignored, and those of other versions of the methods are
stale, which `list` reports and `run` measures again.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import tempfile
from collections import Counter
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
from benchmarks.machinery.report import Study, claims_of, markdown_of, print_report, summary_of
from benchmarks.machinery.verdicts import Claim, corrected
from benchmarks.runner import Record, Results, load_results, run_experiment
from qsdp.exceptions import QSDPError

HERE = Path(__file__).resolve().parent
#: Handwritten pages that contain quotes.
QUOTING = (
    *("README.md", "benchmarks/README.md", "tests/campaigns/README.md"),
    *(f"docs/{name}.md" for name in ("index", "theory", "guide/microcontroller", "guide/run_anywhere")),
)
#: Errors of cases that need a package that is not installed.
ABSENT = ("ImportError", "MissingPackageError", "ModuleNotFoundError", "UnavailableSolverError")
app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
console = Console(width=None if sys.stdout.isatty() else 170)

Names = Annotated[list[str], typer.Argument(help="Experiments, or 'all'.")]
Out = Annotated[Path | None, typer.Option(help="Folder of results.")]


def topics() -> dict[str, str]:
    """Return the topic of every experiment, in the order of topics; an experiment has the name of its file."""
    order = list(TOPICS)
    files = sorted((path.parent.name, path.stem) for path in HERE.glob("experiments/*/[!_]*.py"))
    files.sort(key=lambda file: order.index(file[0]) if file[0] in order else len(order))
    found: dict[str, str] = {}
    for topic, name in files:
        if name in found:
            raise typer.BadParameter(f"two experiments have the same name: {name}")
        found[name] = topic
    return found


def module_of(name: str) -> Any:
    known = topics()
    if name not in known:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(sorted(known))}")
    return importlib.import_module(f"benchmarks.experiments.{known[name]}.{name}")


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


def stored(folder: Path, wanted: Sequence[str] = ("all",)) -> list[tuple[Study, Results, Path]]:
    """Return experiments with their results and the paths of their files."""
    paths = [(experiment, folder / f"{experiment.name}.json") for experiment in chosen(wanted)]
    return [(experiment, load_results(experiment, path), path) for experiment, path in paths]


@app.command("list")
def list_(out: Out = None) -> None:
    """List the experiments, how many of their cases are measured, and how many records are stale."""
    topic, known = "", topics()
    for experiment, results, _ in stored(out or HERE / "results"):
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
    folder = out or (Path(tempfile.mkdtemp()) if quick else HERE / "results")
    failed = False
    for experiment in chosen(experiments):
        path, part = folder / f"{experiment.name}.json", part_of(experiment, only or [])
        options = {"n_jobs": jobs, "verbose": console.is_terminal, "limit": limit}
        results, failures = run_experiment(part, path, quick=quick, about={"commit": commit(), "note": note}, **options)
        if quick and not experiment.cases(quick):
            skipped(experiment.name, "no quick case can run on this machine; its page names the programs it needs")
            continue
        print_report(experiment, results, console)
        draw(experiment, results, path)
        absent = Counter(message for _, message in failures if message.startswith(ABSENT))
        for message, count in absent.items():
            skipped(f"{count} cases of {experiment.name}", message.partition(": ")[2])
        for case, message in failures:
            if message not in absent:
                console.print(f"failed {case}: {message}", style="red", highlight=False, markup=False)
                failed = True
        if results.interrupted:
            raise typer.Exit(130)
    if failed:
        raise typer.Exit(1)


@app.command()
def show(experiments: Names, out: Out = None) -> None:
    """Print tables and claims of the records and draw the figure, without measuring."""
    for experiment, results, path in stored(out or HERE / "results", experiments):
        print_report(experiment, results, console)
        draw(experiment, results, path)


@app.command()
def page(out: Out = None) -> None:
    """Write RESULTS.md with all claims and verdicts, a page for every experiment, and the quotes in READMEs."""
    folder = out or HERE / "results"
    known = stored(folder)
    for experiment, results, path in known:
        draw(experiment, results, path)
    records = records_of(known)
    for which, panels in accuracy_bytes.PICTURES.items():
        accuracy_bytes.draw(panels(records), accuracy_bytes.picture(folder, which))
    overview.draw(records, folder)
    made = pages(folder)
    for old in set(pages_folder(folder).glob("*.md")) - set(made):
        old.unlink()
    for target, text in made.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    console.print(f"{folder.parent / 'RESULTS.md'}: {len(topics())} experiments", highlight=False)


def records_of(known: Sequence[tuple[Study, Results, Path]]) -> dict[str, list[Record]]:
    """Return the records of all cases of each experiment, by name."""
    return {study.name: results.of(list(study.cases(results.quick))) for study, results, _ in known}


def pages_folder(folder: Path) -> Path:
    """Return the folder of the pages of experiments: in the documentation, or beside results in another folder."""
    return HERE.parent / "docs" / "results" if folder == HERE / "results" else folder / "pages"


def pages(folder: Path) -> dict[Path, str]:
    """Return the pages of the results in a folder: the summary, one for each experiment, and pages with quotes."""
    summary, home, known = folder.parent / "RESULTS.md", pages_folder(folder), stored(folder)
    placed = [(experiment.name, claim) for experiment, results, _ in known for claim in claims_of(experiment, results)]
    claims: dict[str, list[Claim]] = {experiment.name: [] for experiment, _, _ in known}
    for (name, _), claim in zip(placed, corrected([claim for _, claim in placed]), strict=True):
        claims[name].append(claim)

    def link(name: str) -> str:
        return os.path.relpath(home / f"{name}.md", summary.parent)

    titles, here, prose = {one.name: one.title for one, _, _ in known}, folder == HERE / "results", HERE / "answer.md"
    text = prose.read_text(encoding="utf-8") if prose.is_file() else ""
    answer = answered(text, claims, quotes_of(known), strict=here)
    made = {summary: summary_of(answer, claims, titles, link)}
    if here:
        for path in (HERE.parent / name for name in QUOTING):
            if path.is_file():
                made[path] = filled(path.read_text(encoding="utf-8"), quotes_of(known))
    for experiment, results, path in known:
        picture = path.with_suffix(".png")
        drawn = os.path.relpath(picture, home) if picture.is_file() else None
        made[home / f"{experiment.name}.md"] = markdown_of(experiment, results, drawn, claims[experiment.name])
    pictures = {
        which: os.path.relpath(accuracy_bytes.picture(folder, which), home) for which in accuracy_bytes.PICTURES
    }
    if both := accuracy_bytes.page(records_of(known), pictures.__getitem__):
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
