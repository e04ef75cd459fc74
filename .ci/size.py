"""Size of the library, by package: lines, clocks, numbers and tests of the shape of outputs.

    python .ci/size.py [--json]

Counts every .py file of `qsdp/` but those of `qsdp/baselines/`, from its syntax alone:

lines       physical lines.
clocked     functions (and lambdas) with a parameter of a clock: one named deadline, time_limit, limit, seconds or
            clock, unless it is annotated as an integer or a text, or one whose annotation mentions Deadline.
clock lines lines of code (no comments, no docstrings) with a name that contains deadline, time_limit, clock, seconds,
            elapsed or TimeOver.
numbers     what a measurement may have chosen, each name or literal once:
  constants   upper-case module names whose value is made of numbers alone (also tuples and dictionaries of them),
  fields      numeric defaults of fields of classes, and numbers passed to a class whose name ends in Rule,
  defaults    numeric defaults of parameters of private functions (0, 1 and 2 do not count),
  literals    numbers in bodies of functions other than 0, 0.5, 1, 2, 3 and 4.
shapes      comparisons of `.ndim`, `n_outputs` or `.shape[1]` with a number, and reads of `.vector`, `.separable`
            and `.coupled`.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "qsdp"
COLUMNS = ("lines", "clocked", "clock lines", "numbers", "constants", "fields", "defaults", "literals", "shapes")

CLOCKS = {"deadline", "time_limit", "limit", "seconds", "clock"}
_CLOCK_NAME = re.compile("deadline|time_limit|clock|seconds|elapsed|timeover", re.IGNORECASE)
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
_NEVER_CHOSEN = {0, 1, 2, 3, 4, 0.5}
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def counts(source: str) -> Counter[str]:
    """Return the counts of a file."""
    tree = ast.parse(source)
    found: Counter[str] = Counter({"lines": len(source.splitlines()), "clock lines": len(clock_lines(tree))})
    for statement in tree.body:
        found["constants"] += constants(statement)
    for node in ast.walk(tree):
        found["shapes"] += asks_shape(node)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                found["clocked"] += any(map(is_clock, parameters(node)))
                if getattr(node, "name", "_").startswith("_"):
                    defaults = [numbers(one) for one in [*node.args.defaults, *filter(None, node.args.kw_defaults)]]
                    found["defaults"] += sum(bool(one) and one[0] not in {0, 1, 2} for one in defaults)
            case ast.ClassDef():
                fields = (one.value for one in node.body if isinstance(one, ast.AnnAssign))
                found["fields"] += sum(is_numeric(value) for value in fields)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name.endswith("Rule"):
                found["fields"] += sum(map(is_numeric, [*node.args, *(one.value for one in node.keywords)]))
    found["literals"] = sum(value not in _NEVER_CHOSEN for value in literals(tree))
    found["numbers"] = sum(found[name] for name in ("constants", "fields", "defaults", "literals"))
    return found


def parameters(node: Function) -> Iterator[ast.arg]:
    """Yield the parameters of a function that have names."""
    yield from (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)


def is_clock(parameter: ast.arg) -> bool:
    """Return whether a parameter is a time or a deadline."""
    annotation = ast.unparse(parameter.annotation) if parameter.annotation else ""
    named = parameter.arg in CLOCKS and not re.match(r"(int|str)\b", annotation)
    return named or "Deadline" in annotation


def clock_lines(tree: ast.Module) -> set[int]:
    """Return the lines of code that name a clock."""
    lines = set()
    for node in ast.walk(tree):
        names = [getattr(node, field, None) for field in ("id", "attr", "arg", "name", "module")]
        if any(isinstance(name, str) and _CLOCK_NAME.search(name) for name in names):
            lines.add(node.lineno)
    return lines


def constants(statement: ast.stmt) -> int:
    """Return the number of upper-case names that a statement of a module binds to numbers."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    names = [node.id for one in targets if one for node in ast.walk(one) if isinstance(node, ast.Name)]
    chosen = isinstance(statement, ast.Assign | ast.AnnAssign) and is_numeric(statement.value)
    return sum(bool(_CONSTANT.fullmatch(name)) for name in names) if chosen else 0


def is_numeric(value: ast.expr | None) -> bool:
    """Return whether an expression is made of numbers alone; a dictionary may have texts as keys."""
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
            return bool(parts) and all(map(is_numeric, parts))
        case ast.BinOp(left=left, right=right):
            return is_numeric(left) and is_numeric(right)
        case ast.UnaryOp(operand=operand):
            return is_numeric(operand)
    return isinstance(value, ast.Constant) and bool(numbers(value))


def numbers(node: ast.AST) -> list[float]:
    """Return the numbers in an expression."""
    found = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    return [value for value in found if type(value) in (int, float)]


def literals(tree: ast.Module) -> list[float]:
    """Return the numbers in bodies of functions, those in bodies of nested functions once."""
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    heads = {id(one) for function in functions for one in ast.walk(function.args)}
    inside = {id(one): one for function in functions for one in ast.walk(function) if id(one) not in heads}
    return [value for node in inside.values() if isinstance(node, ast.Constant) for value in numbers(node)]


def asks_shape(node: ast.AST) -> bool:
    """Return whether an expression asks how many outputs there are."""
    match node:
        case ast.Attribute(attr="vector" | "separable" | "coupled", ctx=ast.Load()):
            return True
        case ast.Compare(left=left, comparators=[ast.Constant()]):
            return bool(re.search(r"(\.ndim|\bn_outputs|\.shape\[1\])$", ast.unparse(left)))
    return False


def main() -> None:
    """Print the counts by package, largest first, with a total."""
    packages: dict[str, Counter[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        package = path.relative_to(ROOT).parts[0]
        if package != "baselines":
            packages.setdefault(package.removesuffix(".py"), Counter()).update(counts(path.read_text("utf-8")))
    packages = dict(sorted(packages.items(), key=lambda item: -item[1]["lines"]))
    packages["total"] = sum(packages.values(), Counter())
    if "--json" in sys.argv[1:]:
        print(json.dumps({name: {key: one[key] for key in COLUMNS} for name, one in packages.items()}, indent=1))
        return
    print(f"{'':20}" + "".join(f"{name:>13}" for name in COLUMNS))
    for name, one in packages.items():
        print(f"{name:20}" + "".join(f"{one[key]:>13,}" for key in COLUMNS))


if __name__ == "__main__":
    main()
