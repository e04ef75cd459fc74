"""Size of the library, by package: lines, clocks, numbers and tests of the shape of outputs.

    python .ci/size.py [--json]

Counts every .py file of `qsdp/` but those of `qsdp/baselines/`, from its syntax alone:

lines       physical lines.
clocked     functions (and lambdas) with a parameter of a clock: one named deadline, time_limit, limit, seconds or
            clock, unless it is annotated as an integer or a text, or one whose annotation mentions Deadline.
clock lines lines of code (no comments, no docstrings) with a name that contains deadline, time_limit, clock, seconds,
            elapsed or TimeOver.
numbers     what a measurement may have chosen, each name, literal or power once. Packages and modules that only accept,
            show or write (`FACES`) have none: their numbers are sizes of figures, formats and lists. Nowhere count 0,
            1, 2, 3, 4, a half and a quarter (mathematics), factors beside `EPS`, `UNIT`, `ROUNDING` or in `gamma` and
            constants named `..._ROUNDINGS` (analyses of rounding), widths of number types (and half of a mantissa) in
            powers of two, numbers near the ends of the range of floats, and the `minimum` and `maximum` of a check
            (what is accepted):
  constants   upper-case module names whose value is made of numbers alone (also tuples and dictionaries of them); there
              even small numbers count, but for 0 and 1, and for tables of definitions by name,
  fields      numeric defaults of fields of classes, and numbers passed to a class whose name ends in Rule,
  defaults    numeric defaults of parameters of private functions, to which constructors do not belong,
  literals    numbers in bodies of functions.
measured    numbers with a row in docs/tuning.md, which a test compares with the code.
shapes      comparisons of `.ndim`, `n_outputs` or `.shape[1]` with a number, and reads of `.separable` and
            `.coupled`.
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
PAGE = ROOT.parent / "docs" / "tuning.md"
KINDS = ("constants", "fields", "defaults", "literals")
COLUMNS = ("lines", "clocked", "clock lines", "numbers", *KINDS, "measured", "shapes")

#: Packages and modules whose numbers say what is accepted, shown or written; no method depends on them.
FACES = {"bench", "cli", "datasets", "export", "networks", "plotting", "report", "tables"}
FACES |= {"encoding/frames.py", "_utils/bars.py", "_utils/memory.py", "_utils/summary.py"}

CLOCKS = {"deadline", "time_limit", "limit", "seconds", "clock"}
_CLOCK_NAME = re.compile("deadline|time_limit|clock|seconds|elapsed|timeover", re.IGNORECASE)
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
_NEVER_CHOSEN = {0, 1, 2, 3, 4, 0.5, 0.25}
_ROUNDINGS = {"EPS", "UNIT", "ROUNDING"}
_WIDTHS = {7, 8, 15, 16, 24, 27, 31, 32, 52, 53, 63, 64}
_FARTHEST = 1e50
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
                if re.match(r"_(?!_)", getattr(node, "name", "_")):
                    defaults = [numbers(one) for one in [*node.args.defaults, *filter(None, node.args.kw_defaults)]]
                    found["defaults"] += sum(is_chosen(one) for one in defaults)
            case ast.ClassDef():
                fields = (one.value for one in node.body if isinstance(one, ast.AnnAssign))
                found["fields"] += sum(is_numeric(value) and is_chosen(numbers(value)) for value in fields)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name.endswith("Rule"):
                found["fields"] += sum(map(is_numeric, [*node.args, *(one.value for one in node.keywords)]))
    found["literals"] = sum(is_chosen([value]) for value in literals(tree))
    found["numbers"] = sum(found[name] for name in KINDS)
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
    named = chosen and isinstance(statement.value, ast.Dict)
    chosen = chosen and is_chosen(numbers(statement.value), never=_NEVER_CHOSEN if named else {0, 1})
    return sum(bool(_CONSTANT.fullmatch(name)) and not name.endswith("_ROUNDINGS") for name in names) if chosen else 0


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


def is_chosen(values: list[float], never: set[float] = _NEVER_CHOSEN) -> bool:
    """Return whether one of some numbers may have been chosen: neither mathematics nor near the ends of the floats."""
    return any(value not in never and 1.0 / _FARTHEST < abs(value) < _FARTHEST for value in values)


def numbers(node: ast.AST) -> list[float]:
    """Return the numbers in an expression, except in analyses of rounding and widths of number types."""
    given = {id(one) for part in ast.walk(node) for one in ast.walk(part) if is_given(part)}
    parts = [one for one in ast.walk(node) if id(one) not in given]
    powers = {id(one): power(one) for one in parts if power(one) is not None}
    given = {id(one) for part in parts if id(part) in powers for one in ast.walk(part) if one is not part}
    found = (powers.get(id(one), getattr(one, "value", None)) for one in parts if id(one) not in given)
    return [value for value in found if type(value) in (int, float)]


def power(node: ast.AST) -> float | None:
    """Return the value of a power of two numbers, the base if both are mathematics; None for any other expression."""
    match node:
        case ast.BinOp(op=ast.Pow(), left=ast.Constant(value=base), right=ast.Constant(value=exponent)):
            return base if {base, exponent} <= _NEVER_CHOSEN else base**exponent
        case ast.BinOp(
            op=ast.Pow(),
            left=ast.Constant(value=base),
            right=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=exponent)),
        ):
            return base**-exponent
    return None


def is_given(node: ast.AST) -> bool:
    """Return whether an expression is a rounding, a power of two of a type, or an end of what a check accepts."""
    match node:
        case ast.keyword(arg="minimum" | "maximum"):
            return True
        case ast.Call(func=ast.Name(id="gamma")):
            return True
        case ast.BinOp(op=ast.Pow(), left=ast.Constant(value=2), right=ast.Constant(value=width)):
            return width in _WIDTHS
        case ast.BinOp(op=ast.Pow(), left=ast.Constant(value=2), right=ast.UnaryOp(operand=ast.Constant(value=width))):
            return width in _WIDTHS
        case ast.BinOp(op=ast.Mult() | ast.Div()):
            return any(isinstance(one, ast.Name) and one.id in _ROUNDINGS for one in factors(node))
    return False


def factors(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the factors of a product or quotient."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        yield from (*factors(node.left), *factors(node.right))
    else:
        yield node


def literals(tree: ast.Module) -> list[float]:
    """Return the numbers in bodies of functions, those in bodies of nested functions once."""
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    heads = {id(one) for function in functions for one in ast.walk(function.args)}
    heads |= {id(one) for part in ast.walk(tree) if is_given(part) for one in ast.walk(part)}
    inside = {id(one): one for function in functions for one in ast.walk(function) if id(one) not in heads}
    powers = [node for node in inside.values() if power(node) is not None]
    operands = {id(one) for node in powers for one in ast.walk(node)}
    alone = [node for node in inside.values() if isinstance(node, ast.Constant) and id(node) not in operands]
    return [value for node in [*powers, *alone] for value in numbers(node)]


def asks_shape(node: ast.AST) -> bool:
    """Return whether an expression asks how many outputs there are."""
    match node:
        case ast.Attribute(attr="separable" | "coupled", ctx=ast.Load()):
            return True
        case ast.Compare(left=left, comparators=[ast.Constant()]):
            return bool(re.search(r"(\.ndim|\bn_outputs|\.shape\[1\])$", ast.unparse(left)))
    return False


def measured(page: str) -> Counter[str]:
    """Return how many numbers each package has on the page of measurements."""
    found: Counter[str] = Counter()
    outer = ""
    for line in page.splitlines():
        if heading := re.match(r"\| Module(?: in `([\w.]+)`)? \|", line):
            outer = f"{heading[1]}." if heading[1] else ""
        elif row := re.match(r"\| `([\w.]+)` \| (.*?) \|", line):
            found[f"{outer}{row[1]}".split(".")[0]] += len(re.findall("`[^`]+`", row[2]))
    return found


def main() -> None:
    """Print the counts by package, largest first, with a total."""
    packages: dict[str, Counter[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        package = path.relative_to(ROOT).parts[0]
        if package != "baselines":
            found = counts(path.read_text("utf-8"))
            if not FACES.isdisjoint({package, path.relative_to(ROOT).as_posix()}):
                for name in ("numbers", *KINDS):
                    del found[name]
            packages.setdefault(package.removesuffix(".py"), Counter()).update(found)
    for package, count in measured(PAGE.read_text("utf-8")).items():
        packages[package]["measured"] = count
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
