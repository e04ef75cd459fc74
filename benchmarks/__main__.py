"""The experiments of this folder: `python -m benchmarks list | run NAME | show NAME | page`, from the repository root.

Each is a file of `benchmarks/experiments/`; what it measured is in `benchmarks/results/NAME.json`, from which tables,
pictures and `benchmarks/RESULTS.md` are made, never by hand. `run` goes on where an earlier run was stopped.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from qsdp.bench import Claim, Experiment, Results, markdown_of, print_report, run_experiment
from qsdp.bench._report import claims_table
from qsdp.exceptions import QSDPError

HERE = Path(__file__).resolve().parent
app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
console = Console(width=None if sys.stdout.isatty() else 170)

Names = Annotated[list[str], typer.Argument(help="Experiments, or 'all'.")]
Out = Annotated[Path | None, typer.Option(help="Folder of results.")]


def names() -> list[str]:
    """Return the experiments, sorted."""
    return sorted(path.stem for path in (HERE / "experiments").glob("*.py") if not path.stem.startswith("_"))


def experiment_of(name: str) -> Experiment:
    """Return an experiment by name."""
    if name not in names():
        raise typer.BadParameter(f"{name!r} is none of {', '.join(names())}")
    experiment: Experiment = importlib.import_module(f"benchmarks.experiments.{name}").EXPERIMENT
    if experiment.name != name:
        raise typer.BadParameter(f"the experiment in {name}.py is named {experiment.name!r}")
    return experiment


def chosen(wanted: list[str]) -> list[Experiment]:
    """Return experiments by name; all of them for 'all'."""
    return [experiment_of(name) for name in (names() if wanted == ["all"] else wanted)]


@app.command("list")
def list_() -> None:
    """Name the experiments, and how much of each is measured."""
    for experiment in chosen(["all"]):
        path = HERE / "results" / f"{experiment.name}.json"
        cases = list(experiment.cases(False))
        done = len(Results.load(path).of(cases)) if path.is_file() else 0
        console.print(f"{experiment.name:28} {done:5d} of {len(cases):5d}  {experiment.title}", highlight=False)


@app.command()
def run(
    experiments: Names,
    quick: Annotated[bool, typer.Option("--quick", help="Few, small cases; into a folder of its own.")] = False,
    jobs: Annotated[int, typer.Option(help="Cases at a time.")] = 1,
    backend: Annotated[str | None, typer.Option(help="joblib back end.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Measure at most as many cases.")] = None,
    out: Out = None,
) -> None:
    """Measure the cases that have no record, and print tables and claims."""
    folder = out or (Path(tempfile.mkdtemp()) if quick else HERE / "results")
    failed = False
    for experiment in chosen(experiments):
        path = folder / f"{experiment.name}.json"
        results, failures = run_experiment(
            experiment, path, quick=quick, n_jobs=jobs, backend=backend, verbose=console.is_terminal, limit=limit
        )
        print_report(experiment, results, console)
        draw(experiment, results, path)
        for case, message in failures:
            console.print(f"[red]failed[/red] {case}: {message}", highlight=False)
            failed = True
    if failed:
        raise typer.Exit(1)


@app.command()
def show(experiments: Names, out: Out = None) -> None:
    """Print tables and claims of what was measured, and draw its picture; measures nothing."""
    for experiment in chosen(experiments):
        path = (out or HERE / "results") / f"{experiment.name}.json"
        results = Results.load(path)
        print_report(experiment, results, console)
        draw(experiment, results, path)


@app.command()
def page(out: Out = None) -> None:
    """Write RESULTS.md: every claim with its verdict, then every experiment's tables and pictures."""
    folder = out or HERE / "results"
    claims: list[Claim] = []
    parts: list[str] = []
    for experiment in chosen(["all"]):
        path = folder / f"{experiment.name}.json"
        if not path.is_file():
            continue
        results = Results.load(path)
        picture = draw(experiment, results, path)
        parts.append(markdown_of(experiment, results, picture and f"{folder.name}/{picture.name}"))
        claims += experiment.claims(results.of(list(experiment.cases(results.quick))))
    counts = ", ".join(
        f"{sum(claim.verdict == verdict for claim in claims)} {verdict}"
        for verdict in ("reproduced", "partly", "not", "not measured")
    )
    head = (
        "# Results\n\nMade by `python -m benchmarks page` from the files in `results/`, nothing by hand."
        f"\n\n## Claims\n\n{counts}.\n\n{claims_table(claims)}\n"
    )
    target = folder.parent / "RESULTS.md"
    target.write_text("\n".join([head, *parts]), encoding="utf-8")
    console.print(f"{target}: {len(parts)} experiments, {counts}", highlight=False)


def draw(experiment: Experiment, results: Results, path: Path) -> Path | None:
    """Draw the experiment's picture beside its file, if it has one."""
    records = results.of(list(experiment.cases(results.quick)))
    if experiment.plot is None or not records:
        return None
    import matplotlib

    matplotlib.use("Agg")
    picture = path.with_suffix(".png")
    experiment.plot(records, picture)
    return picture


if __name__ == "__main__":
    try:
        app()
    except QSDPError as error:
        raise SystemExit(f"error: {error}") from None
