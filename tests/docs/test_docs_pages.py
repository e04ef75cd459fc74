"""Every example of the documentation's pages, run word for word, and what the how-to pages claim of their files."""

import ast
import doctest
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from _pytest.doctest import _get_checker
from command_line import run

import qsdp
import qsdp_check
from qsdp import exceptions
from qsdp.losses import SCALAR_LOSSES, Loss
from qsdp.relaxation.backends import BACKENDS

DOCS = Path(__file__).parents[2] / "docs"
ROOT = DOCS.parent
HOWTO = DOCS / "howto"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^(`{3,})([^\n]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
# Gaps of proven optima are rounding errors, which differ between machines.
TINY = re.compile(r"\b\d(\.\d+)?e-(0[6-9]|[1-9]\d)\b")
# Digests, which pages show as far as their first digits: "57e48" in one is not a number.
DIGEST = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
# Folders for a moment have random names, of which some parts, like "62e1", would be read as numbers.
FOLDER = re.compile(r"\S*/tmp\w{8}(?=/)")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.register_optionflag("NUMBER")

PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "notebooks"} & set(path.relative_to(DOCS).parts))
PAGES += sorted((DOCS / "guide").glob("*.rst"))

#: All handwritten texts: the pages, and those beside the package.
TEXTS = sorted([*PAGES, *ROOT.glob("*.md"), ROOT / "benchmarks" / "README.md"])


class Checker(type(_get_checker())):
    """Compare numbers in the digits that a page shows, by pytest's option NUMBER, and not below a millionth."""

    def check_output(self, want, got, optionflags):
        want, got = (TINY.sub("tiny", FOLDER.sub("...", DIGEST.sub(r"\1...", text))) for text in (want, got))
        return super().check_output(want, got, optionflags)


def examples(page):
    """Return the doctest of a page's blocks, in one namespace, at the lines where they stand."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".rst":
        return doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    lines = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        code = block.group(1).splitlines()
        lines[first : first + len(code)] = code
    return doctest.DocTestParser().get_doctest("\n".join(lines), {}, page.name, str(page), 0)


@pytest.fixture
def howto(monkeypatch):
    """Make the files beside the how-to pages importable, as the pages do, and forget them afterwards."""
    monkeypatch.syspath_prepend(str(HOWTO))
    before = set(sys.modules)
    yield
    for name in {"pinball", "factors"} - before:
        sys.modules.pop(name, None)


def test_pages_are_found():
    names = {path.relative_to(DOCS).as_posix() for path in PAGES}
    assert {
        "index.md",
        "theory.md",
        "errata.md",
        "howto/add_a_loss.md",
        "howto/add_a_solver.md",
        "howto/change_the_program.md",
    } <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_examples_of_a_page(page, howto, tmp_path, monkeypatch):
    if page.name in ("microcontroller.md", "images_to_firmware.md") and shutil.which("cc") is None:
        pytest.skip("no C compiler is installed")
    if page.name == "run_anywhere.md":
        for package in ("onnx", "onnxruntime"):
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QSDP_DATA", raising=False)
    report = []
    runner = doctest.DocTestRunner(Checker(), optionflags=OPTIONS)
    runner.run(examples(page), out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.mark.parametrize(("want", "got"), [("0.98", "0.9822"), ("gap 1.3e-09 (5.0)", "gap 4e-12 (5.02)"), ("8", "8")])
def test_outputs_agree_in_the_digits_that_are_shown(want, got):
    assert Checker().check_output(want + "\n", got + "\n", OPTIONS)
    for wrong in ("0.96", "gap 1e-4 (5.0)", "9"):
        assert not Checker().check_output(want + "\n", wrong + "\n", OPTIONS)


@pytest.mark.parametrize("page", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_is_at_most_72_columns_wide_and_outputs_80(page):
    """Wider code is cut off on a page of the site."""
    text = page.read_text(encoding="utf-8")
    blocks = list(FENCE.finditer(text))
    code = [block.group(3) for block in blocks if not block.group(2).startswith("{")]
    files = [name for block in blocks for name in re.findall(r"\{literalinclude\} (\S+)", block.group(2))]
    lines = [line for block in code for line in block.splitlines()]
    assert [line for line in lines if len(line) > 80] == []
    shown = [line for name in files for line in (page.parent / name).read_text(encoding="utf-8").splitlines()]
    if page.is_relative_to(DOCS):
        shown += [line for line in lines if re.match(r"(>>>|\.\.\.|\$) ", line)]
    assert [line for line in shown if len(line) > 72] == []


def test_the_quick_start_shows_what_the_demo_prints():
    shown = (DOCS / "quickstart.md").read_text("utf-8").split("```text\n")[1].split("```")[0]
    printed = run("demo").stdout
    texts = [re.sub(r"(?m)^time .*", "", text) for text in (shown, printed)]
    assert Checker().check_output(*texts, OPTIONS), printed


def test_the_commands_of_the_quick_start_prove_a_network_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    part = (DOCS / "quickstart.md").read_text("utf-8").split("## A table of your own")[1].split("## In Python")[0]
    exec(re.sub(r"(?m)^(>>>|\.\.\.) ?", "", BLOCK.search(part).group(1)), {})
    consoles = "".join(re.findall(r"^```console\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)).replace("\\\n", "")
    commands = [line.split(" > ")[0].split() for line in re.findall(r"^\$ (.*)$", consoles, re.MULTILINE)]
    assert [words[1] for words in commands] == ["fit", "predict", "fit", "certify", "best.cert"]
    for words in commands[:-1]:
        done = run(*words[1:])
        assert done.exit_code == 0, done.output
    assert qsdp_check.main(commands[-1][1:]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("yes")


def test_readme_fits_on_one_screen_of_a_repository():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


def test_a_block_without_prompt_is_no_example_by_mistake():
    """A page's Python block without ``>>>`` would not be run: there is none."""
    silent = [path.name for path in PAGES for code in BLOCK.findall(path.read_text("utf-8")) if ">>>" not in code]
    assert silent == []


def test_pinball_at_one_half_is_half_the_absolute_loss(howto):
    from pinball import Pinball

    X, y = qsdp.datasets.make_planted(n=40, d=5, n_neurons=3, random_state=0)
    pinball = qsdp.solve_relaxation(qsdp.TrainingProblem(X, y, beta=0.2, loss=Pinball(0.5)))
    absolute = qsdp.solve_relaxation(qsdp.TrainingProblem(X, y, beta=0.4, loss="absolute"))
    assert 2.0 * pinball.objective == pytest.approx(absolute.objective, rel=1e-5)
    assert 2.0 * pinball.lower_bound <= absolute.objective


def test_every_member_that_the_page_lists_is_one_of_a_loss():
    listed = re.findall(r"^\| (`.*?) \|", (HOWTO / "add_a_loss.md").read_text("utf-8"), re.MULTILINE)
    names = {name for cell in listed[:8] for name in re.findall(r"`(\w+)", cell)}
    abstract = set(Loss.__abstractmethods__)
    declared = set(Loss.__annotations__)
    assert abstract <= names
    assert declared <= names
    assert names <= abstract | declared


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "squared_hinge"])
@pytest.mark.parametrize("share", [0.3, 0.03])
def test_factors_find_the_optimum_of_the_interior_point_method(loss, share, howto, monkeypatch):
    from factors import BACKEND

    monkeypatch.setitem(BACKENDS, "factors", BACKEND)
    X, y = qsdp.datasets.make_planted(n=40, d=6, n_neurons=3, noise=3.0, random_state=1)
    target = np.where(y > np.median(y), 1.0, -1.0) if SCALAR_LOSSES[loss].labels else y
    problem = qsdp.TrainingProblem(X, target, beta=1.0, loss=loss)
    problem = problem.with_beta(share * qsdp.beta_max(problem))
    mine, theirs = (qsdp.solve_relaxation(problem, solver=name) for name in ("factors", "interior"))
    assert mine.relative_gap < 1e-3
    assert mine.objective >= theirs.lower_bound
    assert mine.lower_bound <= theirs.objective
    assert mine.objective == pytest.approx(theirs.objective, rel=1e-3)


def test_auto_never_takes_a_back_end_that_does_not_tell_its_cost(howto, monkeypatch):
    from factors import BACKEND

    monkeypatch.setitem(BACKENDS, "factors", BACKEND)
    X, y = qsdp.datasets.make_planted(n=40, d=5, n_neurons=3, random_state=1)
    assert qsdp.solve_relaxation(qsdp.TrainingProblem(X, y, beta=0.1)).solver != "factors"


def warnings_of_the_package():
    """Yield the constant parts of every message that the package warns with."""
    for path in Path(qsdp.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        if not re.search(r"\bwarn\(|\._report\(", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and re.search(r"\bwarn$|\._report$", ast.unparse(node.func)) and node.args:
                message = node.args[0]
                pieces = [part.value for part in ast.walk(message) if isinstance(part, ast.Constant)]
                if texts := [piece for piece in pieces if isinstance(piece, str)]:
                    yield path.name, texts


def test_troubleshooting_lists_every_warning_and_error():
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    messages = list(warnings_of_the_package())
    assert len(messages) > 20
    # Two words or more, so that a match is not by chance.
    parts = {tuple(texts): [text.strip(" :;,(.") for text in texts if len(text.split()) > 1] for _, texts in messages}
    assert [texts for texts, some in parts.items() if not any(text in page for text in some)] == []
    assert [name for name in exceptions.__all__ if f"`{name}`" not in page and f".{name}`" not in page] == ["QSDPError"]


def test_the_reference_names_everything_public():
    listed = set(re.findall(r"^   (\w+)$", (DOCS / "api" / "index.md").read_text("utf-8"), re.MULTILINE))
    modules = {"datasets"}
    assert set(qsdp.__all__) - modules - listed - {"QSDPError", "QSDPWarning"} == set()
    assert listed <= set(qsdp.__all__)


def test_pages_and_scripts_import_what_the_reference_lists():
    listed = (DOCS / "api" / "index.md").read_text("utf-8") + (DOCS / "_ext" / "reference_pages.py").read_text("utf-8")
    scripts = [*HOWTO.glob("*.py"), *(ROOT / "examples").rglob("*.py"), *(ROOT / "notebooks").glob("*.py")]
    imported = re.compile(r"^(?:>>> )?from (qsdp\.[\w.]+) import", re.MULTILINE)
    modules = {name for path in [*TEXTS, *scripts] for name in imported.findall(path.read_text(encoding="utf-8"))}
    assert {"qsdp.losses", "qsdp.relaxation.backends", "qsdp.tables"} <= modules
    assert {name for name in modules if f'"{name}"' not in listed and f":: {name}." not in listed} == set()
