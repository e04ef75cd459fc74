"""Check that tests notice faults: apply seeded mutants to a copy of the repository and run the mapped tests on each.

    python .ci/mutants.py RECORD.json [--number 200] [--seed 0] [--seconds 1800] [--packages NAME ...]

A mutant changes one expression (a comparison, a sum, a constant, a `not`, an `and`, a condition, a returned value) on
one line of a package of `TESTS`. `RECORD.json` is written after every mutant, and a call continues where the last one
stopped. `--unchanged` runs the mapped tests without a mutant, which all must survive. `--again` runs the mutants that
survived in another record, by the text of their lines, so that two versions of the tests can be compared.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import cvxpy  # noqa: F401
import hypothesis  # noqa: F401
import pandas  # noqa: F401
import pytest
import scipy.stats  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent
#: Tests of every package; the longest prefix of a file's path decides.
TESTS = {
    "qsdp/losses": "tests/losses tests/certificates/test_verification.py tests/test_paper.py",
    "qsdp/losses/_data_fit.py": (
        "tests/losses tests/certificates/test_passes.py tests/refinement/test_polish.py tests/test_paper.py "
        "tests/column_generation/test_column_generation.py"
    ),
    "qsdp/losses/_loss.py": (
        "tests/losses tests/certificates/test_verification.py tests/test_paper.py tests/refinement/test_polish.py"
    ),
    "qsdp/pricing": "tests/pricing tests/column_generation/test_column_generation.py",
    "qsdp/pricing/atoms.py": (
        "tests/pricing tests/column_generation/test_column_generation.py tests/certificates/test_certificate.py "
        "tests/column_generation/test_real_weights_generation.py tests/refinement/test_blocks_refit.py"
    ),
    "qsdp/pricing/bound_trees.py": "tests/pricing tests/certificates",
    "qsdp/certificates": "tests/certificates",
    "qsdp/certificates/files.py": "tests/certificates tests/column_generation/test_settled.py",
    "qsdp/encoding": "tests/encoding",
    "qsdp/encoding/additive_blocks.py": "tests/encoding tests/export/test_additive_export.py",
    "qsdp/encoding/patches.py": "tests/encoding tests/plotting/test_plotting_filters.py",
    "qsdp/encoding/reading_rule.py": "tests/encoding tests/tables",
    "qsdp/encoding/region_moments.py": "tests/encoding tests/plotting/test_plotting_filters.py",
    "qsdp/encoding/used_columns.py": "tests/encoding tests/estimators/test_estimators.py",
    "qsdp/encoding/windows.py": "tests/encoding tests/plotting/test_plotting_filters.py",
    "qsdp/export": "tests/export/test_export_model.py tests/export/test_additive_export.py",
    "qsdp/export/_c": (
        "tests/export/test_c.py tests/export/test_c_blocks.py tests/export/test_c_series.py "
        "tests/export/test_c_programs.py"
    ),
    "qsdp/export/_verilog": "tests/export/test_verilog.py",
    "qsdp/export/_javascript": "tests/export/test_javascript.py tests/export/test_javascript_images.py",
    "qsdp/export/_graphs": "tests/export/test_onnx.py tests/export/test_onnx_images.py",
    "qsdp/export/_integers": "tests/export/test_export_integer_form.py tests/export/test_c.py",
    "qsdp/export/_integers/image_networks.py": "tests/export/test_c_blocks.py tests/export/test_c_series.py",
    "qsdp/export/_integers/row_networks.py": (
        "tests/export/test_export_integer_form.py tests/export/test_c.py tests/export/test_additive_export.py"
    ),
    "qsdp/export/_integers/vectors.py": (
        "tests/export/test_export_integer_form.py tests/export/test_c.py tests/export/test_c_blocks.py "
        "tests/export/test_c_series.py"
    ),
}
PACKAGES = ("losses", "pricing", "certificates", "encoding", "export")
#: Tests that a mutant keeps from ending are stopped after so many seconds of the processor, and count as failing.
LIMIT = 120

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
Mutant = dict[str, str | int]


def changes(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what may stand in place of an expression."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        changed = copy.deepcopy(node)
        changed.ops[0] = COMPARISONS[type(node.ops[0])]()
        yield changed
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield ast.UnaryOp(ast.Not(), node.test)
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield ast.Constant(None)


def candidates(path: Path) -> list[Mutant]:
    """Return the mutants of a file whose text stands on one line."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    # Annotations are not evaluated, and messages, which may count and compare, are not behaviour.
    aside = [
        node.annotation for node in ast.walk(tree) if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation
    ]
    aside += [node.returns for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.returns]
    aside += [node for node in ast.walk(tree) if isinstance(node, ast.Raise | ast.JoinedStr)]
    left_out = {id(inner) for outer in aside for inner in ast.walk(outer)}
    lines = source.splitlines()
    mutants: list[Mutant] = []
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        for changed in changes(node):
            old = node.value if isinstance(node, ast.Return) else node
            old = node.test if isinstance(node, ast.If | ast.IfExp | ast.While) else old
            if not isinstance(old, ast.expr) or old.end_lineno != old.lineno or not lines[old.lineno - 1].isascii():
                continue
            text = lines[old.lineno - 1]
            new = f"{text[: old.col_offset]}({ast.unparse(changed)}){text[old.end_col_offset :]}"
            before = lines[: old.lineno - 1].count(text)
            mutants.append({"file": path.relative_to(ROOT).as_posix(), "nth": before, "old": text, "new": new})
    return mutants


def sample(number: int, seed: int) -> list[Mutant]:
    """Return as many mutants of every package, drawn and ordered by the seed."""
    generator = random.Random(seed)
    drawn: list[Mutant] = []
    for package in PACKAGES:
        every = [mutant for path in sorted((ROOT / "qsdp" / package).rglob("*.py")) for mutant in candidates(path)]
        drawn += generator.sample(every, number // len(PACKAGES))
    generator.shuffle(drawn)
    return drawn


def mapped(file: str, folder: Path) -> str:
    """Run the tests that are mapped to a file in a copy; return whether the faults of the copy survive them."""
    prefix = max((prefix for prefix in TESTS if file.startswith(prefix)), key=len)
    tests = [test for test in TESTS[prefix].split() if (folder / test).exists()]
    # A fork has the packages of others already, which take longer to import than many mutants to be noticed.
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        signal.alarm(20 * LIMIT)
        os.chdir(folder)
        os.environ["PYTHONPATH"] = str(folder)
        sys.path.insert(0, str(folder))
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
            os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "timeout"
    return "survived" if os.WEXITSTATUS(status) == 0 else "killed"


def outcome(mutant: Mutant, folder: Path) -> str:
    """Return whether a mutant survives its mapped tests, or that the copy lacks its line."""
    path = folder / str(mutant["file"])
    if not path.exists():
        return "absent"
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    places = [index for index, line in enumerate(lines) if line.rstrip("\n") == mutant["old"]]
    if len(places) <= int(mutant["nth"]):
        return "absent"
    lines[places[int(mutant["nth"])]] = f"{mutant['new']}\n"
    path.write_text("".join(lines), encoding="utf-8")
    try:
        return mapped(str(mutant["file"]), folder)
    finally:
        path.write_text(source, encoding="utf-8")


def main() -> None:
    """Run what the record does not have yet, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path)
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=PACKAGES)
    parser.add_argument("--again", type=Path)
    parser.add_argument("--unchanged", action="store_true")
    options = parser.parse_args()
    record = json.loads(options.record.read_text()) if options.record.exists() else []
    mutants = [
        one for one in sample(options.number, options.seed) if str(one["file"]).split("/")[1] in options.packages
    ]
    if options.again:
        mutants = [entry for entry in json.loads(options.again.read_text()) if entry["outcome"] == "survived"]
    if options.unchanged:
        mutants = [{"file": prefix, "nth": 0, "old": "", "new": ""} for prefix in TESTS]
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as name:
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", name], input=archive, check=True)
        for mutant in mutants[len(record) :]:
            if time.monotonic() > end:
                break
            run = mapped(str(mutant["file"]), Path(name)) if options.unchanged else outcome(mutant, Path(name))
            record.append({**mutant, "outcome": run})
            options.record.write_text(json.dumps(record, indent=1))
    outcomes = [entry["outcome"] for entry in record]
    print({value: outcomes.count(value) for value in sorted(set(outcomes))}, "of", len(mutants))


if __name__ == "__main__":
    main()
