"""The command `qsdp`: demo, fit, predict, resample, datasets."""

from __future__ import annotations

import csv
import io
import os
import secrets
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text
from typer.core import TyperGroup

import qsdp
from qsdp._validation import FloatArray, check_choice, check_integer, check_real
from qsdp.certificate import Certificate
from qsdp.datasets import list_datasets, load_dataset
from qsdp.datasets._fetch import DATA_VARIABLE, _cache_folder
from qsdp.datasets._uci import SPECS as UCI_SPECS
from qsdp.exceptions import InvalidInputError, QSDPError, QSDPWarning
from qsdp.lifting import append_constant
from qsdp.losses import LOSSES, get_loss
from qsdp.networks import BilinearNetwork
from qsdp.pipeline import QSDPResult, solve_and_sample
from qsdp.relaxation.backends import choose_backend
from qsdp.shaping import SHAPINGS
from qsdp.tabular import (
    TASKS,
    CategoricalColumn,
    NumericColumn,
    Table,
    TabularModel,
    Target,
    Training,
    load_model,
    prepare,
    read_table,
)

__all__ = ["app"]

_FLOAT_BITS = 64
#: Inputs beyond which a solve takes minutes.
_MANY_INPUTS = 100
_MAX_LISTED = 12
#: Of the two columns of a report before its notes.
_LABEL_WIDTH, _FIGURE_WIDTH = 12, 13

Figure = tuple[str, str, str]


# -- errors, warnings, streams ------------------------------------------------------------------------------


class _Group(TyperGroup):
    """Commands whose failures are one line and an exit code."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _failures_in_one_line(debug=False):
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _failures_in_one_line(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)


@contextmanager
def _failures_in_one_line(*, debug: bool) -> Iterator[None]:
    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        _say("Interrupted", "red")
        raise typer.Exit(130) from None
    except Exception as error:
        if debug:
            traceback.print_exc()
        message, code = _explain(error)
        _say(f"Error: {message}", "red")
        raise typer.Exit(code) from None


def _explain(error: Exception) -> tuple[str, int]:
    """Return one line for people and the exit code: 2 where they can do something about it."""
    # Usage errors are click's, of which new versions of typer carry their own copy: no class to name.
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        hint = f" (see: {context.command_path} --help)" if context else ""
        return f"{error.format_message()}{hint}", 2
    if isinstance(error, QSDPError):
        return str(error), 2
    if isinstance(error, OSError):
        named = error.strerror and error.filename is not None
        return (f"{os.fspath(error.filename)!r}: {error.strerror}" if named else str(error)), 2
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}", 2
    return f"internal failure, {type(error).__name__}: {error} (`qsdp --debug COMMAND` shows where)", 1


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        # Lines for other programs must not be folded.
        console.width = 10_000
    return console


def _say(message: str, style: str = "") -> None:
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(message.split()))
    _console(stderr=True).print(Text(line, style=style), soft_wrap=True)


@contextmanager
def _stage(message: str) -> Iterator[None]:
    """Spin on a terminal during a stage; afterwards print its warnings, a line each."""
    console = _console(stderr=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if console.is_terminal:
                with console.status(f"{escape(message)} ..."):
                    yield
            else:
                yield
        finally:
            for warning in caught:
                if issubclass(warning.category, QSDPWarning):
                    _say(f"Warning: {warning.message}", "yellow")


def _print(renderable: Any) -> None:
    """Print on stdout; without trailing blanks where that is no terminal."""
    console = _console()
    if console.is_terminal:
        console.print(renderable)
        return
    with console.capture() as capture:
        console.print(renderable)
    for line in capture.get().splitlines():
        typer.echo(line.rstrip())


def _destination(path: Path, *, force: bool, inputs: Sequence[Path] = ()) -> Path:
    """Return `path` if it can be written; asked before any work is done for it."""
    shown = repr(str(path))
    if path.is_dir():
        raise InvalidInputError(f"{shown} is a folder; give the name of a file with --output")
    if not path.parent.is_dir():
        raise InvalidInputError(f"cannot write {shown}: the folder {str(path.parent)!r} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInputError(f"cannot write {shown}: no permission in the folder {str(path.parent)!r}")
    if path.exists():
        if any(given.exists() and path.samefile(given) for given in inputs):
            raise InvalidInputError(f"{shown} is the input; give another name with --output")
        if not force:
            raise InvalidInputError(f"{shown} exists; overwrite it with --force or give another --output")
    return path


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as stream:
            stream.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


# -- reports ------------------------------------------------------------------------------------------------


def _print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print lines of label and text."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(width=_LABEL_WIDTH, style="bold")
    grid.add_column()
    for label, text in facts:
        grid.add_row(label, Text(text))
    _print(grid)


def _print_figures(figures: Sequence[Figure]) -> None:
    """Print lines of label, figure and note, after an empty one."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(width=_LABEL_WIDTH, style="bold")
    grid.add_column(min_width=_FIGURE_WIDTH, no_wrap=True)
    grid.add_column(style="dim")
    grid.add_row("")
    for row in figures:
        grid.add_row(*row)
    _print(grid)


def _certificate_figures(lower_bound: float, objective: float, target: Target) -> list[Figure]:
    certificate = Certificate(lower_bound, objective)
    units = ", for the standardised target" if target.classes is None else ""
    return [
        _bound_figure(lower_bound),
        ("objective", f"{objective:.6g}", f"of this network{units}"),
        ("gap", f"{certificate.gap:.4g}", "the global optimum is at most this far below"),
        ("relative gap", f"{100.0 * certificate.relative_gap:.1f} %", "of the objective"),
    ]


def _bound_figure(lower_bound: float) -> Figure:
    return "lower bound", f"{lower_bound:.6g}", "on the global optimum, over networks of any width"


def _score_figures(target: Target, scores: Sequence[tuple[str, float]]) -> list[Figure]:
    label = "accuracy" if target.classes else "R^2"
    return [(label if i == 0 else "", _show_score(target, score), rows) for i, (rows, score) in enumerate(scores)]


def _show_score(target: Target, score: float) -> str:
    return f"{100.0 * score:.1f} %" if target.classes else f"{score:.3f}"


def _size_figure(network: BilinearNetwork) -> Figure:
    n_numbers = 2 * network.n_neurons * network.n_inputs + (1 if network.shared_alpha else network.n_neurons)
    bits = _FLOAT_BITS * n_numbers
    return (
        "size",
        f"{network.n_bits:,} bits",
        f"{bits / network.n_bits:.0f} times smaller than in float64 ({bits:,})",
    )


def _time_figure(result: QSDPResult) -> Figure:
    # Stages that would read 0.00 are not worth a second line.
    stages = [f"{stage} {seconds:.2f}" for stage, seconds in result.timings.items() if seconds >= 0.005]
    return "time", f"{sum(result.timings.values()):.2f} s", ", ".join(stages)


def _network_fact(network: BilinearNetwork, beta: float, loss: str) -> tuple[str, str]:
    return "network", f"{network.n_neurons} neurons with binary weights, {loss} loss, beta {beta:g}"


def _listing(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more


# -- commands -----------------------------------------------------------------------------------------------

app = typer.Typer(
    name="qsdp",
    cls=_Group,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Seed = Annotated[int, typer.Option(help="Of the held-out rows and the sampled neurons.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output file.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `qsdp fit` saved.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"qsdp {qsdp.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="QSDP_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Binary-weight neural networks with a certified gap to the global optimum.

    Start with `qsdp demo`; `qsdp COMMAND --help` explains the others.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
def demo(
    dataset: Annotated[str, typer.Option(help="A set of `qsdp datasets`, binary or regression.")] = (
        "breast-cancer-wisconsin"
    ),
    neurons: Annotated[int, typer.Option(help="Neurons to sample.")] = 2500,
    beta: Annotated[float, typer.Option(help="Regularisation, >= 0.")] = 10.0,
    seed: Seed = 0,
) -> None:
    """Train a network on a bundled data set and show how far from optimal it can be, at most.

    80 % of the rows are for training; the columns are standardised and a constant one is appended. Nothing
    is downloaded unless you ask for a UCI set, and nothing is written.
    """
    _check_trainable(dataset)
    _check_training_options(neurons, beta, seed)
    with _stage(f"Loading {dataset}"):
        X_train, X_test, y_train, y_test, target = _standardised_split(dataset, seed)
    with _stage(_solving(X_train.shape[1], neurons)):
        result = solve_and_sample(X_train, y_train, neurons, beta, random_state=seed)
    with _stage("Scoring"):
        scores = [
            ("training rows", target.score(result.predict(X_train), y_train)),
            ("test rows", target.score(result.predict(X_test), y_test)),
        ]
    sizes = f"{len(X_train)} training + {len(X_test)} test rows, d = {X_train.shape[1] - 1}"
    certificate = result.certificate
    _print_facts([("data", f"{dataset}: {sizes}"), _network_fact(result.network, beta, "squared")])
    _print_figures(
        [
            *_certificate_figures(certificate.lower_bound, certificate.objective, target),
            *_score_figures(target, scores),
            _size_figure(result.network),
            _time_figure(result),
        ]
    )
    estimator = "QuantizedNetworkClassifier" if target.classes else "QuantizedNetworkRegressor"
    _print_next("qsdp fit FILE.csv --target COLUMN", f"qsdp.{estimator}(beta={beta:g}).fit(X, y)")


def _solving(dimension: int, neurons: int) -> str:
    patience = "; this may take minutes" if dimension > _MANY_INPUTS else ""
    return f"Solving the semidefinite relaxation with {dimension} inputs, sampling {neurons} neurons{patience}"


def _print_next(shell: str, python: str) -> None:
    typer.echo()
    _print_facts([("your file", shell), ("in Python", python)])


def _check_training_options(neurons: int, beta: float, seed: int) -> None:
    check_integer("--neurons", neurons, minimum=1)
    check_real("--beta", beta)
    check_integer("--seed", seed, minimum=0)


def _check_trainable(name: str) -> None:
    tasks = {info.name: info.task for info in list_datasets()}
    check_choice("--dataset", name, tasks)
    if tasks[name] == "multiclass":
        usable = ", ".join(other for other, task in tasks.items() if task != "multiclass")
        raise InvalidInputError(
            f"dataset {name!r} has more than two classes, this version trains on two; choose one of {usable}"
        )


def _standardised_split(name: str, seed: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, Target]:
    """Return data with the constant column, targets as trained on, and what these stand for."""
    data = load_dataset(name)
    X_train, X_test, y_train, y_test = data.split(seed)
    mean, scale = X_train.mean(axis=0), X_train.std(axis=0)
    scale[scale == 0.0] = 1.0
    X_train, X_test = (append_constant((X - mean) / scale) for X in (X_train, X_test))
    if data.task == "binary":
        return X_train, X_test, y_train, y_test, Target("class", (data.target_names[0], data.target_names[1]))
    target = Target(data.target_names[0], None, float(y_train.mean()), float(y_train.std()))
    y_train, y_test = ((y - target.mean) / target.scale for y in (y_train, y_test))
    return X_train, X_test, y_train, y_test, target


@app.command()
def fit(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="CSV file with a header line.")],
    target: Annotated[str, typer.Option(help="Column to predict.")],
    task: Annotated[str, typer.Option(help=f"{' | '.join(TASKS)}.")] = "auto",
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; repeat it for more.")] = None,
    neurons: Annotated[int, typer.Option(help="Neurons to sample; `qsdp resample` changes it later.")] = 1000,
    beta: Annotated[float, typer.Option(help="Regularisation, >= 0; larger is simpler.")] = 1.0,
    loss: Annotated[str, typer.Option(help=f"{' | '.join(LOSSES)}.")] = "squared",
    solver: Annotated[str, typer.Option(help="auto | scs | clarabel | mosek | cvxopt.")] = "auto",
    shaping: Annotated[str, typer.Option(help=f"{' | '.join(SHAPINGS)}.")] = "krivine",
    test_size: Annotated[float, typer.Option(help="Share of the rows held out for testing, 0 to < 1.")] = 0.2,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option(metavar="MODEL.qsdp", help="Where to save the model; FILE.qsdp here by default."),
    ] = None,
    force: Force = False,
) -> None:
    """Train a network on a CSV file, certify it and save it.

    Numbers are standardised, text becomes 0/1 columns, missing entries are understood; two classes or a
    number can be predicted.
    """
    _check_training_options(neurons, beta, seed)
    if not 0.0 <= test_size < 1.0:
        raise InvalidInputError(f"--test-size must be at least 0 and below 1; got {test_size:g}")
    check_choice("--task", task, TASKS)
    check_choice("--shaping", shaping, SHAPINGS)
    check_choice("--loss", loss, LOSSES)
    choose_backend(solver, get_loss(loss))
    if task == "regression":
        _check_loss_of_numbers(loss, target)
    path = _destination(output or Path(f"{file.stem}.qsdp"), force=force, inputs=[file])
    with _stage(f"Reading {file}"):
        training = prepare(read_table(file), target, task=task, drop=drop or (), test_size=test_size, seed=seed)
        if training.target.classes is None:
            _check_loss_of_numbers(loss, target)
    with _stage(f"Solving the semidefinite relaxation (D = {training.X.shape[1]}), sampling {neurons} neurons"):
        result = solve_and_sample(
            training.X, training.y, neurons, beta, loss, solver=solver, shaping=shaping, random_state=seed
        )
    with _stage("Scoring and saving"):
        model = training.model(result)
        scores = _held_out_scores(model, training)
        model.save(path)
    _print_facts(
        [
            *_reading_facts(file, training, drop or []),
            _network_fact(model.network, beta, loss),
            ("saved", str(path)),
        ]
    )
    certificate = result.certificate
    _print_figures(
        [
            *_certificate_figures(certificate.lower_bound, certificate.objective, model.target),
            *_score_figures(model.target, scores),
            _size_figure(model.network),
            _time_figure(result),
        ]
    )


def _check_loss_of_numbers(loss: str, target: str) -> None:
    if get_loss(loss).labels:
        usable = ", ".join(name for name, kind in LOSSES.items() if not kind.labels)
        raise InvalidInputError(f"--loss {loss} is for two classes, target {target!r} is a number; use one of {usable}")


def _held_out_scores(model: TabularModel, training: Training) -> list[tuple[str, float]]:
    target = model.target
    scores = [("training rows", target.score(model.network.predict(training.X), training.y))]
    if len(training.test):
        scores.append(("test rows", target.score(model.outputs(training.test), target.encode(training.test))))
    return scores


def _reading_facts(file: Path, training: Training, drop: Sequence[str]) -> list[tuple[str, str]]:
    """Say how rows and columns were read."""
    encoder, target = training.encoder, training.target
    rows = f"{len(training.X)} training + {len(training.test)} test rows"
    if training.n_unlabelled:
        rows += f"; {training.n_unlabelled} without {target.name!r} left out"
    numeric = [repr(column.name) for column in encoder.columns if isinstance(column, NumericColumn)]
    categorical = [
        f"{column.name!r} ({len(column.values)} values)"
        for column in encoder.columns
        if isinstance(column, CategoricalColumn)
    ]
    dropped = [f"{name!r} (--drop)" for name in drop]
    dropped += [f"{name!r} ({reason})" for name, reason in encoder.dropped.items()]
    if target.classes:
        meaning = f"{target.name!r}, classes {target.classes[0]!r} (-1) and {target.classes[1]!r} (+1)"
    else:
        meaning = f"{target.name!r}, a number: mean {target.mean:.6g}, standard deviation {target.scale:.6g}"
    facts = [
        ("data", f"{file}: {rows}, d = {encoder.width} encoded columns"),
        ("target", meaning),
        ("numeric", _listing(numeric)),
        ("categorical", _listing(categorical)),
        ("dropped", _listing(dropped)),
    ]
    return [(label, text) for label, text in facts if text]


@app.command()
def predict(
    model_file: ModelFile,
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="CSV file with the columns of training.")],
    output: Annotated[Path | None, typer.Option(metavar="PRED.csv", help="Instead of the standard output.")] = None,
    force: Force = False,
) -> None:
    """Predict the rows of a CSV file, as CSV: a column `prediction` and, for classes, `score`.

    Columns are found by name. The score is the network's output; above 0 it means the second class. If the
    file has the target too, accuracy or R^2 goes to the standard error.
    """
    path = None if output is None else _destination(output, force=force, inputs=[file, model_file])
    with _stage("Predicting"):
        model, table = load_model(model_file), read_table(file)
        outputs = model.outputs(table)
        content = _prediction_csv(model.target, outputs).encode()
        verdict = _verdict(model.target, table, outputs)
        if path is not None:
            _write_whole(path, content)
    if path is None:
        typer.echo(content, nl=False)
    if verdict:
        _say(verdict)


def _prediction_csv(target: Target, outputs: FloatArray) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    predictions = target.decode(outputs)
    if target.classes is None:
        writer.writerow(["prediction"])
        writer.writerows([float(prediction)] for prediction in predictions)
    else:
        writer.writerow(["prediction", "score"])
        writer.writerows(zip(predictions, map(float, outputs), strict=True))
    return stream.getvalue()


def _verdict(target: Target, table: Table, outputs: FloatArray) -> str:
    """Return a line with the score on the rows whose target is known, or nothing."""
    if target.name not in table.columns:
        return ""
    known = [row for row, entry in enumerate(table.column(target.name)) if entry is not None]
    if not known:
        return ""
    try:
        score = target.score(outputs[known], target.encode(table.take(known)))
    except InvalidInputError as error:
        # The predictions are right whatever stands in that column.
        warnings.warn(f"not scored: {error}", QSDPWarning, stacklevel=2)
        return ""
    metric = "accuracy" if target.classes else "R^2"
    return f"{metric} {_show_score(target, score)} on {len(known)} rows with {target.name!r}"


@app.command()
def resample(
    model_file: ModelFile,
    neurons: Annotated[int, typer.Option(help="Neurons of the new network.")],
    seed: Annotated[int, typer.Option(help="Of the sampled neurons.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(metavar="NEW.qsdp", help="Where to save; MODEL-NEURONS.qsdp here by default."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="TRAIN.csv", help="The file given to `qsdp fit`, for objective and gap."),
    ] = None,
    force: Force = False,
) -> None:
    """Change the size of a model without solving again.

    The lower bound stays what it was: it holds for networks of any width. The objective of the new network
    is known only with --data, which must be the file the model was trained on.
    """
    check_integer("--neurons", neurons, minimum=1)
    check_integer("--seed", seed, minimum=0)
    default = Path(f"{model_file.stem}-{neurons}.qsdp")
    path = _destination(output or default, force=force, inputs=[] if data is None else [data])
    with _stage(f"Sampling {neurons} neurons"):
        model = load_model(model_file).resample(neurons, seed)
        if data is not None:
            model = model.evaluated(read_table(data))
        model.save(path)
    _print_facts([_network_fact(model.network, model.beta, model.loss), ("saved", str(path))])
    if model.objective is None:
        figures = [
            _bound_figure(model.lower_bound),
            ("objective", "not known", "give the training file with --data"),
        ]
    else:
        figures = _certificate_figures(model.lower_bound, model.objective, model.target)
    _print_figures([*figures, _size_figure(model.network)])


@app.command()
def datasets() -> None:
    """List the data sets that `qsdp demo` and `qsdp.datasets` know."""
    on_terminal = _console().is_terminal
    table = RichTable(box=box.SIMPLE_HEAD if on_terminal else None, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    for heading in ("rows", "columns"):
        table.add_column(heading, justify="right")
    for heading in ("task", "source", "offline"):
        table.add_column(heading, no_wrap=True)
    for info in list_datasets():
        offline = "yes" if _is_offline(info.name) else "no"
        table.add_row(info.name, str(info.n_samples), str(info.n_features), info.task, info.source, offline)
    _print(table)
    if on_terminal:
        _say(f"Sets that are not offline are downloaded when asked for, or read from ${DATA_VARIABLE}.", "dim")


def _is_offline(name: str) -> bool:
    if name not in UCI_SPECS:
        return True
    folder = os.environ.get(DATA_VARIABLE, "")
    root = Path(folder).expanduser() if folder else _cache_folder()
    return all((root / file.local).is_file() for file in UCI_SPECS[name].files)


if __name__ == "__main__":
    app(prog_name="qsdp")
