"""The command line: what it prints, refuses and leaves behind."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import qsdp
from qsdp import cli
from qsdp.exceptions import QSDPWarning
from qsdp.tabular import load_model, read_table

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "QSDP_DEBUG", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def messy(n: int = 120, seed: int = 0) -> bytes:
    """A file as people have them: a byte order mark, semicolons, quotes, gaps, blank lines, odd columns."""
    rng = np.random.default_rng(seed)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=";")
    writer.writerow(["id", "age", "income [EUR]", "city", "sex", "const", "empty", "label", "price"])
    cities = ["Oslo", "Rome; IT", 'Paris "centre"', "Zürich"]
    for i in range(n):
        age, city, sex = rng.normal(50, 10), rng.integers(4), rng.integers(2)
        value = (age - 50) / 10 * (1 if sex else -1) + (city == 1) + 0.3 * rng.normal()
        writer.writerow(
            [
                f"id-{i}",
                "" if i % 17 == 0 else f"{age:.2f}",
                "?" if i % 23 == 0 else f"{rng.lognormal(10, 1):.1f}",
                cities[city] if i % 11 else "NA",
                "mf"[sex],
                "1",
                "",
                "" if i % 31 == 30 else "yes" if value > 0 else "no",
                f"{1000 + 200 * value:.3f}",
            ]
        )
        if i % 50 == 0:
            stream.write("\r\n")
    return stream.getvalue().encode("utf-8-sig")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with messy.csv and models of its label and its price."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "messy.csv").write_bytes(messy())
    for target, other in (("label", "price"), ("price", "label")):
        result = run(
            "fit", folder / "messy.csv", "--target", target, "--drop", other, "--drop", "id",
            "--output", folder / f"{target}.qsdp", "--neurons", 200,
        )  # fmt: skip
        assert result.exit_code == 0, result.stderr
    return folder


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], prog_name="qsdp")


def refused(*arguments: Any, code: int = 2) -> str:
    """Run, expect one line of error and nothing else, and return it."""
    result = run(*arguments)
    assert result.exit_code == code, (result.stdout, result.stderr)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


def figure(text: str, label: str) -> str:
    found = re.search(rf"^{re.escape(label)}  +(.*)$", text, re.MULTILINE)
    assert found, (label, text)
    return found[1]


def number(text: str, label: str) -> float:
    return float(figure(text, label).split()[0].replace(",", ""))


# -- the program ----------------------------------------------------------------------------------


def test_version_and_help() -> None:
    assert run("--version").stdout == f"qsdp {qsdp.__version__}\n"
    for arguments in ([], ["--help"], ["-h"]):
        result = run(*arguments)
        assert result.exit_code == 0
        for command in ("demo", "fit", "predict", "resample", "datasets"):
            assert command in result.stdout
    assert "--test-size" in run("fit", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dmo"], "No such command 'dmo'"),
        (["--bogus"], "No such option: --bogus"),
        (["fit"], "FILE.csv"),
        (["fit", "x.csv"], "--target"),
        (["demo", "--neurons", "many"], "--neurons"),
        (["resample", "m.qsdp"], "--neurons"),
    ],
)
def test_usage_errors_are_one_line(arguments: list[str], message: str) -> None:
    error = refused(*arguments)
    assert message in error
    assert "--help" in error


def test_failures_inside_are_one_line_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("two\nlines [red]and markup[/red] \x1b[31m")

    monkeypatch.setattr(cli, "list_datasets", fail)
    error = refused("datasets", code=1)
    assert "internal failure, RuntimeError: two lines [red]and markup[/red] ?[31m" in error
    for arguments, environment in ([["--debug", "datasets"], {}], [["datasets"], {"QSDP_DEBUG": "1"}]):
        result = CliRunner().invoke(cli.app, arguments, env=environment)
        assert result.exit_code == 1
        assert "Traceback" in result.stderr
        assert result.stderr.splitlines()[-1].startswith("Error: internal failure")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied", "m.qsdp"), "'m.qsdp': Permission denied"),
        (MemoryError("Unable to allocate 1 TiB"), "not enough memory: Unable to allocate 1 TiB"),
        (qsdp.QSDPError("no"), "no"),
        (OSError("disk on fire"), "disk on fire"),
    ],
)
def test_errors_one_can_do_something_about(monkeypatch: pytest.MonkeyPatch, error: Exception, message: str) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "list_datasets", fail)
    assert refused("datasets") == f"Error: {message}\n"


def test_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "list_datasets", interrupt)
    result = run("datasets")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Interrupted\n")


def test_warnings_of_qsdp_are_a_line_each_and_others_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    original = cli.load_dataset

    def noisy(name: str) -> Any:
        warnings.warn("twice\nover", QSDPWarning, stacklevel=2)
        warnings.warn("internal", RuntimeWarning, stacklevel=2)
        return original(name)

    monkeypatch.setattr(cli, "load_dataset", noisy)
    result = run("demo", "--dataset", "diabetes", "--neurons", 10)
    assert result.exit_code == 0
    assert result.stderr == "Warning: twice over\n"


def test_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not COLOUR.search(run("datasets").stdout)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    error = run("demo", "--dataset", "iris").stderr
    assert "\x1b[31mError: " in error
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in run("demo", "--dataset", "iris").stderr


# -- demo and datasets ----------------------------------------------------------------------------


@pytest.mark.parametrize(("dataset", "score"), [("breast-cancer-wisconsin", "accuracy"), ("diabetes", "R^2")])
def test_demo(dataset: str, score: str) -> None:
    result = run("demo", "--dataset", dataset)
    assert (result.exit_code, result.stderr) == (0, "")
    text = result.stdout
    assert dataset in figure(text, "data")
    assert 0.0 < number(text, "lower bound") <= number(text, "objective")
    gap = number(text, "objective") - number(text, "lower bound")
    assert number(text, "gap") == pytest.approx(gap, rel=1e-2)
    assert number(text, "relative gap") == pytest.approx(100 * gap / number(text, "objective"), abs=0.1)
    assert number(text, score) > (80.0 if score == "accuracy" else 0.3)
    assert re.search(r"^ +[\d.]+( %)? +test rows$", text, re.MULTILINE)
    n_inputs = 31 if dataset == "breast-cancer-wisconsin" else 11
    assert number(text, "size") == 2 * 2500 * n_inputs + 64
    assert f"({64 * (2 * 2500 * n_inputs + 1):,})" in figure(text, "size")
    assert "solve" in figure(text, "time")
    assert "qsdp fit" in text.splitlines()[-2]
    assert ".fit(X, y)" in text.splitlines()[-1]


def test_demo_is_reproducible() -> None:
    first, second = (run("demo", "--dataset", "diabetes", "--seed", 3).stdout for _ in range(2))
    assert [line for line in first.splitlines() if not line.startswith("time")] == [
        line for line in second.splitlines() if not line.startswith("time")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "iris"], "more than two classes"),
        (["--dataset", "diabets"], "did you mean 'diabetes'"),
        (["--neurons", "0"], "--neurons must be an integer >= 1; got 0"),
        (["--beta", "-1"], "--beta must be a finite number >= 0; got -1"),
        (["--beta", "nan"], "--beta must be a finite number"),
        (["--seed", "-1"], "--seed must be an integer >= 0"),
    ],
)
def test_demo_refuses(arguments: list[str], message: str) -> None:
    assert message in refused("demo", *arguments)


def test_datasets_without_a_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QSDP_DATA", str(tmp_path))
    (tmp_path / "uci" / "ionosphere").mkdir(parents=True)
    (tmp_path / "uci" / "ionosphere" / "ionosphere.data").write_text("")
    lines = run("datasets").stdout.splitlines()
    assert lines[0].split() == ["name", "rows", "columns", "task", "source", "offline"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert list(rows) == [info.name for info in qsdp.datasets.list_datasets()]
    assert rows["digits"] == ["1797", "64", "multiclass", "scikit-learn", "yes"]
    assert rows["ionosphere"][-1] == "yes"
    assert rows["vehicle"][-1] == "no"
    monkeypatch.setenv("QSDP_DATA", "")
    monkeypatch.setattr(cli, "_cache_folder", lambda: tmp_path)
    assert {line.split()[0] for line in run("datasets").stdout.splitlines() if line.endswith("yes")} == {
        "breast-cancer-wisconsin", "diabetes", "iris", "wine", "digits", "ionosphere",
    }  # fmt: skip


# -- fit ------------------------------------------------------------------------------------------


def test_fit_reports_how_it_read_the_file(here: Path) -> None:
    (here / "messy.csv").write_bytes(messy())
    result = run("fit", "messy.csv", "--target", "label", "--drop", "id", "--drop", "price")
    assert (result.exit_code, result.stderr) == (0, "")
    text = result.stdout
    assert figure(text, "data") == (
        "messy.csv: 93 training + 24 test rows; 3 without 'label' left out, d = 8 encoded columns"
    )
    assert figure(text, "target") == "'label', classes 'no' (-1) and 'yes' (+1)"
    assert figure(text, "numeric") == "'age', 'income [EUR]'"
    assert figure(text, "categorical") == "'city' (5 values), 'sex' (2 values)"
    assert figure(text, "dropped") == "'id' (--drop), 'price' (--drop), 'const' (constant), 'empty' (no values)"
    assert figure(text, "saved") == "messy.qsdp"
    assert number(text, "lower bound") <= number(text, "objective")
    assert number(text, "accuracy") > 70.0
    model = load_model("messy.qsdp")
    assert model.objective == pytest.approx(number(text, "objective"), rel=1e-5)
    assert (model.network.n_neurons, model.beta, model.loss) == (1000, 1.0, "squared")
    assert sorted(path.name for path in here.iterdir()) == ["messy.csv", "messy.qsdp"]


def test_fit_a_number_with_other_options(here: Path) -> None:
    (here / "messy.csv").write_bytes(messy())
    result = run(
        "fit", "messy.csv", "--target", "price", "--drop", "id", "--drop", "label", "--loss", "huber",
        "--test-size", 0, "--neurons", 30, "--beta", 2, "--seed", 5, "--output", "m.qsdp",
    )  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")
    assert "120 training + 0 test rows" in result.stdout
    assert "standard deviation" in figure(result.stdout, "target")
    assert "standardised target" in figure(result.stdout, "objective")
    assert "test rows" not in result.stdout.split("R^2")[1]
    assert load_model("m.qsdp").network.n_neurons == 30


def test_fit_needs_force_to_overwrite(here: Path) -> None:
    (here / "messy.csv").write_bytes(messy())
    (here / "messy.qsdp").write_text("precious")
    arguments = ["fit", "messy.csv", "--target", "label", "--drop", "id", "--neurons", "5"]
    assert "'messy.qsdp' exists" in refused(*arguments)
    assert (here / "messy.qsdp").read_text() == "precious"
    assert run(*arguments, "--force").exit_code == 0
    assert load_model("messy.qsdp").network.n_neurons == 5
    assert "is the input" in refused(*arguments, "--force", "--output", "messy.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--neurons", "0"], "--neurons"),
        (["--beta", "inf"], "--beta"),
        (["--seed", "-2"], "--seed"),
        (["--test-size", "1"], "--test-size must be at least 0 and below 1; got 1"),
        (["--test-size", "nan"], "--test-size"),
        (["--task", "regresion"], "did you mean 'regression'"),
        (["--loss", "cubic"], "--loss must be one of"),
        (["--shaping", "round"], "--shaping must be one of"),
        (["--solver", "magic"], "solver must be one of"),
        (["--task", "regression", "--loss", "hinge"], "--loss hinge is for two classes"),
        (["--output", "."], "is a folder"),
        (["--output", "no/such/folder.qsdp"], "does not exist"),
    ],
)
def test_bad_options_are_refused_before_the_file_is_read(
    here: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.setattr(cli, "read_table", lambda path: pytest.fail("read"))
    assert message in refused("fit", "data.csv", "--target", "y", *options)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (None, [], "'data.csv': No such file"),
        ("", [], "is empty"),
        ("a,y\n1,2\n3\n", [], "'data.csv', line 3: 1 fields"),
        ("a,a,y\n1,2,3\n", [], "repeated: 'a'"),
        ("a,b\n1,2\n", [], "no column 'y'; it has 'a', 'b'"),
        ("a,y\n1,x\n2,x\n3,x\n", [], "holds only 'x'"),
        ("a,y\n1,2\n", [], "holds only '2'"),
        ("a,y\n1,x\n2,y\n", [], "has 2 rows, 1 of them for training"),
        ("a,y\n" + "1,x\n2,y\n3,z\n" * 4, [], "3 classes, this version trains on two: 'x' (4), 'y' (4)"),
        ("a,y\n" + "1,x\n1,y\n" * 4, [], "no column left to learn from"),
        ("a,y\n" + "1,x\ninf,y\n" * 4, [], "line 3, column 'a'"),
        ("a,y\n" + "1,1\n2,2\n3,3\n" * 4, ["--loss", "logistic"], "target 'y' is a number"),
        ("a,y\n" + "1,x\n2,y\n" * 4, ["--drop", "b"], "no column 'b'"),
        (
            "a,y\n" + "1,x\n2,y\n" * 4,
            ["--task", "regression"],
            "line 2, column 'y': expected a number; got 'x'",
        ),
        ("a,y\n" + "".join(f"v{i},{i}\n" for i in range(80)), [], "--drop a"),
    ],
)
def test_files_that_cannot_be_learned_from(here: Path, text: str | None, options: list[str], message: str) -> None:
    if text is not None:
        (here / "data.csv").write_text(text)
    assert message in refused("fit", "data.csv", "--target", "y", *options)
    assert [path.name for path in here.iterdir()] == ([] if text is None else ["data.csv"])


def test_a_folder_is_no_file(here: Path) -> None:
    (here / "data").mkdir()
    assert "Is a directory" in refused("fit", "data", "--target", "y")
    assert "Is a directory" in refused("predict", "data", "data")


def test_a_failed_save_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device", "m.qsdp")

    (here / "messy.csv").write_bytes(messy(40))
    monkeypatch.setattr("qsdp.storage.os.replace", fail)
    assert "No space left" in refused("fit", "messy.csv", "--target", "label", "--drop", "id", "--neurons", 5)
    assert [path.name for path in here.iterdir()] == ["messy.csv"]


# -- predict --------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["label", "price"])
def test_predict_equals_the_model_in_memory(trained: Path, here: Path, target: str) -> None:
    result = run("predict", trained / f"{target}.qsdp", trained / "messy.csv")
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    model, table = load_model(trained / f"{target}.qsdp"), read_table(trained / "messy.csv")
    if target == "label":
        assert list(rows[0]) == ["prediction", "score"]
        assert [row["prediction"] for row in rows] == list(model.predict(table))
        assert [float(row["score"]) for row in rows] == model.outputs(table).tolist()
        assert re.fullmatch(r"accuracy [\d.]+ % on 117 rows with 'label'\n", result.stderr)
    else:
        assert list(rows[0]) == ["prediction"]
        assert [float(row["prediction"]) for row in rows] == list(model.predict(table))
        assert re.fullmatch(r"R\^2 0\.\d+ on 120 rows with 'price'\n", result.stderr)
    saved = run("predict", trained / f"{target}.qsdp", trained / "messy.csv", "--output", "p.csv")
    assert (saved.exit_code, saved.stdout) == (0, "")
    assert (here / "p.csv").read_text() == result.stdout
    assert [path.name for path in here.iterdir()] == ["p.csv"]


def test_predict_finds_columns_by_name(trained: Path, here: Path) -> None:
    with open(trained / "messy.csv", encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter=";"))
    columns = ["sex", "new", "city", "income [EUR]", "age"]
    with open("other.csv", "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="ignore", restval="9")
        writer.writeheader()
        writer.writerows(rows)
    result = run("predict", trained / "label.qsdp", "other.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == run("predict", trained / "label.qsdp", trained / "messy.csv").stdout


def test_predict_counts_what_training_has_not_seen(trained: Path, here: Path) -> None:
    (here / "new.csv").write_text("age,income [EUR],city,sex\n1,2,Oslo,f\n1,2,Bergen,x\n?,2,NA,\n")
    result = run("predict", trained / "label.qsdp", "new.csv")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 4
    assert result.stderr == (
        "Warning: 'new.csv': 3 entries were not seen in training and count as zero: "
        "'city' 1 (such as 'Bergen'), 'sex' 2 (such as 'x')\n"
    )


def test_predict_does_not_need_a_target_it_understands(trained: Path, here: Path) -> None:
    header, row = "age,income [EUR],city,sex", "50,20000,Oslo,f"
    (here / "new.csv").write_text(f"{header},price\n{row},soon\n")
    result = run("predict", trained / "price.qsdp", "new.csv")
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: not scored: 'new.csv', line 2, column 'price'")
    (here / "new.csv").write_text(f"{header},price\n{row},?\n")
    assert run("predict", trained / "price.qsdp", "new.csv").stderr == ""
    (here / "new.csv").write_text(f"{header},label\n{row},maybe\n")
    assert run("predict", trained / "label.qsdp", "new.csv").stderr == "accuracy 0.0 % on 1 rows with 'label'\n"


def test_predict_refuses(trained: Path, here: Path) -> None:
    model, data = trained / "label.qsdp", trained / "messy.csv"
    (here / "few.csv").write_text("age\n1\n")
    assert "has no columns 'income [EUR]', 'city', 'sex'" in refused("predict", model, "few.csv")
    assert "No such file" in refused("predict", "none.qsdp", data)
    assert "not a qsdp file" in refused("predict", data, data)
    (here / "p.csv").write_text("precious")
    assert "'p.csv' exists" in refused("predict", model, data, "--output", "p.csv")
    assert (here / "p.csv").read_text() == "precious"
    assert "is the input" in refused("predict", model, "few.csv", "--output", "few.csv", "--force")
    assert run("predict", model, data, "--output", "p.csv", "--force").exit_code == 0
    assert (here / "p.csv").read_text().startswith("prediction,score\n")


def test_predict_writes_all_or_nothing(trained: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device", "p.csv")

    monkeypatch.setattr(cli.os, "replace", fail)
    assert "No space left" in refused("predict", trained / "label.qsdp", trained / "messy.csv", "--output", "p.csv")
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("keep", [0, 7, 200, -1])
def test_truncated_models(trained: Path, here: Path, keep: int) -> None:
    content = (trained / "label.qsdp").read_bytes()
    (here / "bad.qsdp").write_bytes(content[:keep])
    assert "'bad.qsdp'" in refused("predict", "bad.qsdp", trained / "messy.csv")
    assert "'bad.qsdp'" in refused("resample", "bad.qsdp", "--neurons", 5)


# -- resample -------------------------------------------------------------------------------------


def test_resample(trained: Path, here: Path) -> None:
    result = run("resample", trained / "label.qsdp", "--neurons", 3000, "--seed", 1)
    assert (result.exit_code, result.stderr) == (0, "")
    assert number(result.stdout, "size") == 2 * 3000 * 9 + 64
    assert "not known" in figure(result.stdout, "objective")
    model = load_model("label-3000.qsdp")
    assert (model.network.n_neurons, model.objective) == (3000, None)
    assert "exists" in refused("resample", trained / "label.qsdp", "--neurons", 3000)
    assert "--neurons" in refused("resample", trained / "label.qsdp", "--neurons", 0)


@pytest.mark.parametrize("target", ["label", "price"])
def test_resample_with_the_training_file(trained: Path, here: Path, target: str) -> None:
    result = run(
        "resample", trained / f"{target}.qsdp", "--neurons", 4000, "--data", trained / "messy.csv",
        "--output", "new.qsdp",
    )  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")
    old, new = load_model(trained / f"{target}.qsdp"), load_model("new.qsdp")
    assert old.objective is not None
    assert new.objective is not None
    assert old.lower_bound == new.lower_bound <= new.objective < old.objective
    assert number(result.stdout, "gap") == pytest.approx(new.objective - new.lower_bound, rel=1e-3)


def test_resample_with_another_file_saves_nothing(trained: Path, here: Path) -> None:
    (here / "other.csv").write_bytes(messy(seed=1))
    (here / "sparse.csv").write_text("a\n1\n")
    arguments = ["resample", trained / "label.qsdp", "--neurons", 10, "--data"]
    assert "not the file this model was trained on" in refused(*arguments, "other.csv")
    assert "has no column 'label'" in refused(*arguments, "sparse.csv")
    assert sorted(path.name for path in here.iterdir()) == ["other.csv", "sparse.csv"]


# -- real processes -------------------------------------------------------------------------------


def process(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "qsdp.cli", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", **options,
    )  # fmt: skip


def test_a_real_process_prints_plain_unfolded_lines(trained: Path) -> None:
    narrow = {**os.environ, "COLUMNS": "40"}
    model = trained / "label.qsdp"
    processes = [
        process("datasets", env=narrow),
        process("predict", model, trained / "messy.csv", env=narrow),
        process("predict", model, "no such file, and a long name to go with it, well beyond forty.csv", env=narrow),
    ]
    (listing, _), (predictions, score), (nothing, error) = (running.communicate() for running in processes)
    assert [running.returncode for running in processes] == [0, 0, 2]
    assert len(listing.splitlines()) == 1 + len(qsdp.datasets.list_datasets())
    assert all(line == line.rstrip() for line in listing.splitlines())
    assert len(predictions.splitlines()) == 121
    assert score.startswith("accuracy")
    assert nothing == ""
    assert error.startswith("Error: 'no such file")
    assert error.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_real_interrupt(here: Path) -> None:
    os.mkfifo(here / "slow.csv")
    running = process("fit", "slow.csv", "--target", "y")
    # Opening for writing returns as soon as the command reads: it is then inside its work.
    with open(here / "slow.csv", "w"):
        time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=30)
    assert (running.returncode, stdout, stderr) == (130, "", "Interrupted\n")
    assert [path.name for path in here.iterdir()] == ["slow.csv"]
