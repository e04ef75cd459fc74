"""`python -m benchmarks`: list, run and page, with small experiments in a folder of their own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks import __main__ as main

ROOTS = '''
"""Square roots."""

from benchmarks.experiments.{topic}.{name} import __name__ as here
from benchmarks.machinery.report import Study
from benchmarks.machinery.verdicts import exact
from benchmarks.runner import Table


def cases(quick):
    return [{{"n": n}} for n in ((4,) if quick else (4, 9, 16))]


def run(case):
    if case["n"] == {stops_at}:
        raise KeyboardInterrupt
    if case["n"] == {fails_at}:
        raise ValueError("no root")
    return {{"root": case["n"] ** 0.5}}


def tables(records):
    return [Table("Roots", ["n", "root"], [[str(r.case["n"]), str(r.measured["root"])] for r in records])]


def claims(records):
    return [exact("Fan et al., Table 1", "roots are exact", [True] * len(records), f"{{len(records)}} roots")]


def plot(records, path):
    if len(records) > 1:
        path.write_bytes(b"picture of %d" % len(records))


def quotes(records):
    return {{"row": f"| {{len(records)}} roots |", "text": "Roots, " * 30 + f"{{len(records)}} %."}}


EXPERIMENT = Study(
    name="{name}", title="Roots of {name}", source="Heron", version={version},
    cases=cases, run=run, tables=tables, claims=claims, plot=plot, methods={{"sampling": 1}},
)
'''


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that writes an experiment into the folder that the program looks into."""
    import benchmarks.experiments

    folder = tmp_path / "benchmarks" / "experiments"
    monkeypatch.setattr(main, "HERE", tmp_path / "benchmarks")
    monkeypatch.setattr(main, "DOCS", tmp_path / "docs" / "results")
    monkeypatch.setattr(benchmarks.experiments, "__path__", [str(folder)])

    def written(
        name: str = "heron", version: int = 1, stops_at: int = 0, fails_at: int = 0, topic: str = "greek"
    ) -> None:
        path = folder / topic / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ROOTS.format(name=name, topic=topic, version=version, stops_at=stops_at, fails_at=fails_at))
        # Files that are as old and as large as those they replace are not read again.
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime + len(sys.modules)))
        monkeypatch.delitem(sys.modules, f"benchmarks.experiments.{topic}.{name}", raising=False)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return written


def call(*arguments: Any) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main.console, "file", None)
        result = CliRunner().invoke(main.app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.split())


def measured(path: Path) -> list[int]:
    return [record["case"]["n"] for record in json.loads(path.read_text())["records"]]


def test_run_measures_reports_and_draws(write: Callable[..., None], tmp_path: Path) -> None:
    write()
    code, output = call("run", "heron")
    assert code == 0
    assert "3 of 3 cases" in output
    assert "supported Fan et al., Table 1: roots are exact 3 roots" in output
    assert measured(tmp_path / "benchmarks" / "results" / "heron.json") == [4, 9, 16]
    assert (tmp_path / "benchmarks" / "results" / "heron.png").read_bytes() == b"picture of 3"


def test_run_quick_leaves_the_results_alone(write: Callable[..., None], tmp_path: Path) -> None:
    write()
    assert "1 of 1 cases (quick)" in call("run", "heron", "--quick", "--out", tmp_path / "elsewhere")[1]
    assert measured(tmp_path / "elsewhere" / "heron.json") == [4]
    assert not (tmp_path / "elsewhere" / "heron.png").exists()
    assert not (tmp_path / "benchmarks" / "results").exists()


def test_run_only_measures_a_part(write: Callable[..., None], tmp_path: Path) -> None:
    write()
    assert "2 of 3 cases so far" in call("run", "heron", "--only", "n=16", "--only", "n=4")[1]
    assert measured(tmp_path / "benchmarks" / "results" / "heron.json") == [4, 16]
    assert "2 of 3 cases so far" in call("run", "heron", "--only", "n=9", "--only", "set=iris")[1]
    code, output = call("run", "heron", "--only", "n")
    assert code != 0
    assert "--only must be NAME=VALUE, such as set=iris; got 'n'" in output


def test_stale_records_are_listed_and_measured_again(write: Callable[..., None], tmp_path: Path) -> None:
    write()
    call("run", "heron", "--note", "beside a build")
    assert "[current]" in call("list")[1]
    path = tmp_path / "benchmarks" / "results" / "heron.json"
    stored = json.loads(path.read_text())
    assert stored["machines"][0]["note"] == "beside a build"
    stored["machines"][0]["methods"] = {"sampling": 0}
    stored["records"][0]["measured"]["root"] = 7.0
    path.write_text(json.dumps(stored))
    assert "[3 of 3 stale]" in call("list")[1]
    call("page")
    text = (tmp_path / "benchmarks" / "results" / "heron.md").read_text()
    assert "3 of 3 cases. 3 records were measured with other versions of the methods." in text
    call("run", "heron", "--only", "n=4")
    assert "[2 of 3 stale]" in call("list")[1]
    assert {r["case"]["n"]: r["measured"]["root"] for r in json.loads(path.read_text())["records"]}[4] == 2.0


def test_an_interrupt_ends_all_of_the_run(write: Callable[..., None], tmp_path: Path) -> None:
    write("first", stops_at=9)
    write("second")
    with pytest.warns(match="interrupted: 1 of 3 cases"):
        code, output = call("run", "all")
    assert code == 130
    assert "supported (1 of 3 cases so far) Fan et al." in output
    assert measured(tmp_path / "benchmarks" / "results" / "first.json") == [4]
    assert not (tmp_path / "benchmarks" / "results" / "second.json").exists()


def test_a_failed_case_is_named_and_the_others_go_on(write: Callable[..., None], tmp_path: Path) -> None:
    write("first", fails_at=9)
    write("second")
    code, output = call("run", "all")
    assert code == 1
    assert "failed {'n': 9}: ValueError: no root" in output
    assert measured(tmp_path / "benchmarks" / "results" / "first.json") == [4, 16]
    assert measured(tmp_path / "benchmarks" / "results" / "second.json") == [4, 9, 16]


def test_missing_data_are_one_line(write: Callable[..., None], tmp_path: Path) -> None:
    write()
    path = tmp_path / "benchmarks" / "experiments" / "greek" / "heron.py"
    error = "raise DatasetError(f'/data/{max(9, case[\"n\"])} not found')"
    text = path.read_text().replace('    return {"root"', f'    {error}\n    return {{"root"')
    path.write_text(text.replace("import Table\n", "import Table\nfrom qsdp.exceptions import DatasetError\n"))
    code, output = call("run", "heron")
    assert code == 1
    assert output.startswith("failed 3 cases of heron: /data/9 not found")
    assert output.count("not found") == 1
    assert not (tmp_path / "benchmarks" / "results").exists()


def test_missing_packages_skip_an_experiment_or_its_cases_in_one_line(
    write: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("first")
    write("second")
    write("third")
    folder = tmp_path / "benchmarks" / "experiments" / "greek"
    first, second = (folder / f"{name}.py" for name in ("first", "second"))
    first.write_text("import nothing_of_that_name\n" + first.read_text())
    second.write_text(
        second.read_text().replace('    return {"root"', '    import nothing_of_that_name\n\n    return {"root"')
    )
    code, output = call("run", "all")
    assert code == 0
    assert "skipped first: No module named 'nothing_of_that_name'" in output
    assert output.count("skipped 3 cases of second: No module named 'nothing_of_that_name'") == 1
    assert "3 of 3 cases" in output
    assert measured(tmp_path / "benchmarks" / "results" / "third.json") == [4, 9, 16]
    assert "skipped first" in call("list")[1]


def test_readmes_quote_what_was_measured(write: Callable[..., None], tmp_path: Path) -> None:
    write("begun")
    write("none")
    readme = tmp_path / "README.md"
    readme.write_text(
        "before `<!-- measured: in a line -->`\n\n"
        "<!-- measured: begun.row none.row -->\n| what |\n|---|\n| of long ago |\n"
        "<!-- end -->\n\n<!-- measured: begun.text none.text -->\n<!-- end -->\nafter\n"
    )
    call("run", "begun")
    call("page")
    text = readme.read_text()
    assert "| what |\n|---|\n| 3 roots |\n| none.row: not measured yet |\n<!-- end -->" in text
    assert "Roots, 3 %.\n\nnone.text: not measured yet.\n<!-- end -->\nafter\n" in text
    assert max(map(len, text.splitlines())) <= 120
    assert main.pages()[readme] == text
    call("page", "--out", tmp_path / "elsewhere")
    assert readme.read_text() == text


def test_unknown_experiments_are_refused(write: Callable[..., None], tmp_path: Path) -> None:
    write()
    code, output = call("run", "herod")
    assert code == 1
    assert "'herod'; did you mean 'heron'?" in output
    assert not (tmp_path / "benchmarks" / "results").exists()


def test_the_pages_of_results_are_what_the_files_say() -> None:
    """`python -m benchmarks page` was run after the last measurement, and after the last change of what is said.

    No other check of the gate finds pages that are older than their records: its quick runs write pages elsewhere.
    """
    summary = main.HERE / "RESULTS.md"
    if not summary.is_file():
        pytest.skip("no results here")
    made = main.pages()
    old = [path.name for path, text in made.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    assert not old, f"{old} are old: run `python -m benchmarks page`"
    homes = {main.page_file(name).parent for name in main.files()}
    assert {path for home in homes for path in home.glob("*.md")} == {path for path in made if path.parent in homes}
    assert len(made[summary].splitlines()) <= 220, "a page one reads"
    assert all(main.module_of(name).EXPERIMENT.answer for name in main.topics()), "a page without an answer"


@pytest.mark.parametrize("name", [name for name in main.topics() if hasattr(main.module_of(name), "quotes")])
def test_quotes_do_with_a_part_of_the_records(name: str) -> None:
    experiment = main.module_of(name).EXPERIMENT
    path = main.records_file(name)
    if not path.is_file():
        pytest.skip("no results here")
    records = main.load_results(experiment, path).of(list(experiment.cases(False)))
    for some in (records[:1], records[::2]):
        quoted = main.module_of(name).quotes(some)
        assert all(isinstance(text, str) for text in quoted.values())
