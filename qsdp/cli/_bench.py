"""`qsdp bench`: comparison with other methods on many data sets."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qsdp._utils.files import write_whole
from qsdp._utils.validation import check_choice, check_integer, check_jobs
from qsdp.cli._streams import make_console, say, stage
from qsdp.exceptions import InvalidInputError, QSDPWarning

if TYPE_CHECKING:
    from qsdp.bench import Experiment, Results

_SUITES = ("uci",)
_List = list[str] | None


def bench(
    suite: Annotated[str, typer.Option(help=" | ".join(_SUITES))] = "uci",
    quick: Annotated[bool, typer.Option("--quick", help="Three bundled sets, five methods, one split.")] = False,
    jobs: Annotated[int, typer.Option(help="Cases measured in parallel, each on one thread.")] = 1,
    sets: Annotated[
        _List, typer.Option(help="Data sets, separated by commas or repeated options; all by default.")
    ] = None,
    methods: Annotated[_List, typer.Option(help="Methods, likewise.")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Splits of every set; by default 10, 3 of large sets, 1 of adult.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the results.")] = Path("qsdp-bench"),
) -> None:
    """Measure accuracy, bits, certified gap and time of qsdp's networks and of other methods on data sets.

    The methods are quantized networks from the relaxation, sampled and refined; networks that are trained and
    rounded; and logistic regression, boosted trees and quadratic functions in float. Hyper-parameters are chosen on
    the training part. Results are written to FOLDER as SUITE.json, and tables as SUITE.md. An interrupted run keeps its
    measurements and continues the next time; small sets come first.
    """
    check_choice("--suite", suite, _SUITES)
    check_jobs(jobs, "--jobs")
    if seeds is not None:
        check_integer("--seeds", seeds, minimum=1)
    with stage("Preparing"):
        experiment = _experiment(sets, methods, seeds, quick)
        folder = _folder(out)
        _check_sets(experiment, quick)
    path = folder / f"{suite}{'-quick' if quick else ''}.json"
    results, failures = _run(experiment, path, quick, jobs)
    _report(experiment, results, path)
    for failure in failures:
        say(failure, "red")
    if results.interrupted:
        raise KeyboardInterrupt
    if failures:
        raise typer.Exit(1)


def _experiment(sets: _List, methods: _List, seeds: int | None, quick: bool) -> Experiment:
    """Return the requested experiment; the default methods are those whose packages are installed."""
    from qsdp.bench.uci import METHODS, SETS, uci_experiment

    chosen = _names("--methods", methods, METHODS)
    for name in chosen or ():
        if not METHODS[name].available:
            raise InvalidInputError(f"--methods {name} needs {METHODS[name].needs}: pip install torch")
    if chosen is None and not quick:
        absent = [method for method in METHODS.values() if not method.available]
        if absent:
            packages = ", ".join(sorted({str(method.needs) for method in absent}))
            names = ", ".join(method.name for method in absent)
            say(f"Left out, {packages} is not installed: {names} (pip install torch)", "yellow")
            chosen = [method.name for method in METHODS.values() if method.available]
    return uci_experiment(_names("--sets", sets, SETS), chosen, seeds)


def _names(option: str, given: _List, known: Iterable[str]) -> list[str] | None:
    """Return the names from an option that may be repeated and may hold a comma-separated list."""
    if given is None:
        return None
    names = [name.strip() for text in given for name in text.split(",")]
    return [check_choice(option, name, known) for name in names]


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(
            f"--out must be a folder that exists or can be created; got {str(out)!r}: {error.strerror}"
        ) from None
    return out


def _check_sets(experiment: Experiment, quick: bool) -> None:
    """Load every data set once, so that a missing one raises an error before any measurement."""
    from qsdp.bench.uci.data import load

    for name in dict.fromkeys(case["set"] for case in experiment.cases(quick)):
        load(name)


def _run(experiment: Experiment, path: Path, quick: bool, jobs: int) -> tuple[Results, list[str]]:
    """Measure the cases without stored results; return all results, and one line per failure."""
    from qsdp.bench import run_experiment

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results, failed = run_experiment(
            experiment, path, quick=quick, n_jobs=jobs, verbose=make_console(stderr=True).is_terminal
        )
    for warning in caught:
        if issubclass(warning.category, QSDPWarning):
            say(f"Warning: {warning.message}", "yellow")
    return results, [f"Failed: {one['set']}, {one['method']}, seed {one['seed']}: {error}" for one, error in failed]


def _report(experiment: Experiment, results: Results, path: Path) -> None:
    """Print the summary, and write all tables as Markdown."""
    from qsdp.bench import markdown_of, print_report

    write_whole(path.with_suffix(".md"), markdown_of(experiment, results).encode("utf-8"))
    summary = replace(experiment, tables=lambda records: experiment.tables(records)[:1])
    print_report(summary, results, make_console())
    say(f"{path.parent}: {path.name}, {path.with_suffix('.md').name}", "dim")
